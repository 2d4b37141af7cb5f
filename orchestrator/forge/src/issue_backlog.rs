//! The open issues with a label as a backlog.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use ralph_orchestrator_backlog::{
    Backlog, BacklogDefect, BacklogError, BacklogItem, BacklogPlace, BacklogSnapshot, DefectKind,
    GuardReport, GuardRules, ItemOrder, ItemStatus, NewItem, TrustedEdit,
};

use crate::client::HostClient;
use crate::commands::PrintedIssue;
use crate::error::ForgeError;
use crate::issue::Issue;
use crate::labels::{StatusLabels, has_label};

/// What the user decides about a backlog of issues.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct IssueBacklogSettings {
    /// Issues with this label are items.
    pub label: String,
    /// The labels of their statuses.
    pub statuses: StatusLabels,
    /// Which comes first; `None` is the one with the lowest number.
    pub order: Option<ItemOrder>,
}

/// The open issues with a label. They are read when it is refreshed, and once before; between these, what was read holds.
pub struct IssueBacklog {
    client: HostClient,
    settings: IssueBacklogSettings,
    /// For messages.
    name: PathBuf,
    known: Mutex<Option<Vec<Issue>>>,
    /// The labels of the statuses exist.
    has_labels: AtomicBool,
    mask: MaskText,
}

/// Masks secrets in a text.
pub type MaskText = Arc<dyn Fn(&str) -> String + Send + Sync>;

impl IssueBacklog {
    /// Returns the backlog, which is not read yet. `mask` is given what people wrote before anything else is done with it.
    #[must_use]
    pub fn new(client: HostClient, settings: IssueBacklogSettings, mask: MaskText) -> Self {
        let title = client.host().title();
        let name = PathBuf::from(format!("{title} issues labelled `{}`", settings.label));
        let has_labels = AtomicBool::new(false);
        Self { client, settings, name, known: Mutex::default(), has_labels, mask }
    }

    fn known(&self) -> MutexGuard<'_, Option<Vec<Issue>>> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn explain(&self, error: &ForgeError) -> BacklogError {
        BacklogError::Tracker {
            path: self.name.clone(),
            is_temporary: error.is_temporary(),
            problem: error.to_string(),
        }
    }

    fn fetch(&self) -> Result<Vec<Issue>, BacklogError> {
        let printed =
            self.client.list_issues(&self.settings.label).map_err(|error| self.explain(&error))?;
        let statuses = &self.settings.statuses;
        let read = |mut issue: PrintedIssue| {
            issue.title = (self.mask)(&issue.title);
            issue.body = (self.mask)(&issue.body);
            Issue::from_printed(issue, statuses)
        };
        let mut issues: Vec<Issue> = printed.into_iter().map(read).collect();
        issues.sort_by_key(|issue| issue.number);
        // A page may begin with what the page before ended with, if an issue was opened meanwhile.
        issues.dedup_by_key(|issue| issue.number);
        Ok(issues)
    }

    /// Returns what was read last, and reads it if nothing was.
    fn issues(&self) -> Result<Vec<Issue>, BacklogError> {
        if let Some(known) = &*self.known() {
            return Ok(known.clone());
        }
        let issues = self.fetch()?;
        *self.known() = Some(issues.clone());
        Ok(issues)
    }

    fn find(&self, id: &str) -> Result<Issue, BacklogError> {
        let found = self.issues()?.into_iter().find(|issue| issue.item.id == id);
        found
            .ok_or_else(|| BacklogError::UnknownItem { path: self.name.clone(), id: id.to_owned() })
    }

    fn snapshot(&self, issues: &[Issue]) -> Result<BacklogSnapshot, BacklogError> {
        let bytes = serde_json::to_vec(issues).map_err(|error| self.invalid(&error))?;
        Ok(BacklogSnapshot {
            bytes,
            items: issues.iter().map(|issue| issue.item.clone()).collect(),
            order: self.settings.order.unwrap_or(ItemOrder::LowestThenId),
            storable: ItemStatus::ALL.to_vec(),
            set_aside: BTreeMap::new(),
            unread: Vec::new(),
        })
    }

    fn invalid(&self, error: &serde_json::Error) -> BacklogError {
        let kind = DefectKind::Syntax(error.to_string());
        let defects = vec![BacklogDefect { location: None, item: None, kind }];
        BacklogError::Invalid { path: self.name.clone(), defects }
    }

    fn not_storable(&self, what: &str) -> BacklogError {
        let format = self.client.host().title().to_owned();
        BacklogError::NotStorable { path: self.name.clone(), format, what: what.to_owned() }
    }

    /// Creates the labels of the statuses that are missing, once.
    fn create_labels(&self) -> Result<(), ForgeError> {
        if self.has_labels.load(Ordering::Relaxed) {
            return Ok(());
        }
        for label in self.settings.statuses.to_create() {
            self.client.create_label(label)?;
        }
        self.has_labels.store(true, Ordering::Relaxed);
        Ok(())
    }

    /// Gives an issue the label of a status, and takes those of others away.
    fn write_labels(&self, issue: &mut Issue, status: ItemStatus) -> Result<(), ForgeError> {
        let wanted = self.settings.statuses.label_of(status);
        let of_statuses =
            ItemStatus::ALL.into_iter().filter_map(|s| self.settings.statuses.label_of(s));
        let remove: Vec<&str> = of_statuses
            .filter(|label| Some(*label) != wanted && has_label(&issue.labels, label))
            .collect();
        let add: Vec<&str> =
            wanted.into_iter().filter(|label| !has_label(&issue.labels, label)).collect();
        if !(add.is_empty() && remove.is_empty()) {
            self.create_labels()?;
            self.client.edit_labels(issue.number, &add, &remove)?;
        }
        issue.labels.retain(|label| !has_label(&to_owned(&remove), label));
        issue.labels.extend(to_owned(&add));
        issue.item.status = status;
        Ok(())
    }
}

fn to_owned(labels: &[&str]) -> Vec<String> {
    labels.iter().map(|label| (*label).to_owned()).collect()
}

impl Backlog for IssueBacklog {
    fn format(&self) -> &str {
        self.client.host().name()
    }

    fn path(&self) -> &Path {
        &self.name
    }

    fn place(&self) -> BacklogPlace {
        BacklogPlace::Tracker
    }

    fn load(&self) -> Result<BacklogSnapshot, BacklogError> {
        self.snapshot(&self.issues()?)
    }

    fn refresh(&self, held: Option<&BacklogItem>) -> Result<(), BacklogError> {
        let mut issues = self.fetch()?;
        let same = held.and_then(|held| {
            let found = issues.iter_mut().find(|issue| issue.item.id == held.id);
            found.zip(Some(held))
        });
        if let Some((found, held)) = same {
            found.item = BacklogItem { status: found.item.status, ..held.clone() };
        }
        *self.known() = Some(issues);
        Ok(())
    }

    fn is_unwritten(&self) -> bool {
        // No agent can make it.
        false
    }

    fn example(&self) -> &str {
        ""
    }

    fn parse(&self, bytes: &[u8]) -> Result<BacklogSnapshot, BacklogError> {
        let issues: Vec<Issue> =
            serde_json::from_slice(bytes).map_err(|error| self.invalid(&error))?;
        self.snapshot(&issues)
    }

    fn set_status(&self, id: &str, status: ItemStatus) -> Result<BacklogSnapshot, BacklogError> {
        let mut issue = self.find(id)?;
        self.write_labels(&mut issue, status).map_err(|error| self.explain(&error))?;
        let mut issues = self.issues()?;
        for found in issues.iter_mut().filter(|found| found.number == issue.number) {
            found.clone_from(&issue);
        }
        *self.known() = Some(issues.clone());
        self.snapshot(&issues)
    }

    fn report(&self, id: &str, mark: &str, text: &str) -> Result<(), BacklogError> {
        let issue = self.find(id)?;
        // Not seen where the comment is shown.
        let marker = format!("<!-- ralph-orchestrator {mark} -->");
        let posted = self.client.comment_once(issue.number, &marker, text);
        posted.map_err(|error| self.explain(&error))
    }

    fn append_note(&self, _: &str, _: &str) -> Result<BacklogSnapshot, BacklogError> {
        Err(self.not_storable("notes of agents"))
    }

    fn add_item(&self, _: &NewItem) -> Result<(String, BacklogSnapshot), BacklogError> {
        Err(self.not_storable("items that are added here: open an issue with the label instead"))
    }

    fn preview_add(
        &self,
        _: &[u8],
        item: &NewItem,
    ) -> Result<(String, BacklogSnapshot), BacklogError> {
        self.add_item(item)
    }

    fn guard(
        &self,
        base: &BacklogSnapshot,
        _: &[TrustedEdit],
        _: GuardRules,
    ) -> Result<GuardReport, BacklogError> {
        // It is no file of the workspace.
        Ok(GuardReport {
            findings: Vec::new(),
            is_restored: false,
            replaced: None,
            current: base.clone(),
        })
    }
}
