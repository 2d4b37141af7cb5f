//! Which runs a control is for.

use ralph_orchestrator_driver::{BacklogLedger, read_ledger};
use ralph_orchestrator_machine::Control;
use ralph_orchestrator_store::{Layout, read_current_run};
use ralph_orchestrator_story::selected_run::SelectedRun;
use ralph_orchestrator_text::one_line;

use crate::context::{Context, NO_RUN, invocation};
use crate::discovery::ConfigFile;
use crate::error::CommandError;
use crate::run_selection;

/// The run that a control is for.
pub struct ControlTarget<'a> {
    pub(super) layout: Layout,
    /// The state directory of the backlog that the run is part of; the same, unless it is one of several at once.
    pub(super) series: Layout,
    /// The item of one of several at once.
    pub item: Option<String>,
    /// The shell command that invokes this program for it.
    pub(super) invocation: String,
    /// The configuration that the run was asked for by.
    context: Option<&'a Context>,
}

impl<'a> ControlTarget<'a> {
    /// The run of a state directory.
    pub fn of_layout(layout: Layout, invocation: String) -> Self {
        Self { series: layout.clone(), layout, item: None, invocation, context: None }
    }

    /// The runs of a configuration that a control is for: the only one; or, where items are worked on at once, that of the item,
    /// or else all for a pause and its end, and the one that has a question for an answer.
    ///
    /// # Errors
    /// There is none, or it takes the name of an item to say which.
    pub fn find(
        context: &'a Context,
        file: &ConfigFile,
        (item, control): (Option<&str>, &Control),
    ) -> Result<Vec<Self>, CommandError> {
        let layout = context.layout()?;
        let ledger = read_ledger(&layout)?.unwrap_or_default();
        let single = Self { context: Some(context), ..Self::of_layout(layout, invocation(file)) };
        if ledger.trunk.is_none() {
            return match (item, ledger.unfinished()) {
                (None, _) => Ok(vec![single]),
                (Some(item), Some(entry)) if entry.item == item => Ok(vec![single]),
                (Some(item), open) => Err(not_open(item, open.map(|entry| entry.item.clone()))),
            };
        }
        let open = single.find_open(&ledger);
        let names = || open.iter().filter_map(|target| target.item.clone());
        if let Some(item) = item {
            let others = names();
            let mut found = single.find_open(&ledger);
            found.retain(|target| target.item.as_deref() == Some(item));
            return if found.is_empty() { Err(not_open(item, others)) } else { Ok(found) };
        }
        let named: Vec<String> = names().collect();
        let asks = |target: &Self| {
            let found = read_current_run(&target.layout, |_| {}).ok().flatten();
            found.is_some_and(|found| found.state.question().is_some())
        };
        let asking = open.iter().filter(|target| asks(target)).count();
        let mut targets = open;
        match control {
            Control::Pause { .. } | Control::Resume if !targets.is_empty() => return Ok(targets),
            Control::Answer { .. } if asking > 0 => targets.retain(asks),
            _ => {}
        }
        match targets.len() {
            1 => Ok(targets),
            0 => Err(CommandError::user("no item is being worked on")
                .hinted("`ralph-orchestrator status` shows how the items stand")),
            _ => Err(CommandError::user(format!(
                "several items are worked on at once: {}",
                list(named)
            ))
            .hinted("`--item ITEM` says which one is meant")),
        }
    }

    /// Returns the runs of items that are worked on at once, or go on with the next start.
    fn find_open(&self, ledger: &BacklogLedger) -> Vec<Self> {
        let open = ledger.lanes.keys().filter_map(|item| ledger.unfinished_of(item));
        let in_lane = open.filter(|entry| entry.state.is_some());
        let target = in_lane.map(|entry| Self {
            layout: entry.layout(&self.series),
            series: self.series.clone(),
            item: Some(entry.item.clone()),
            invocation: self.invocation.clone(),
            context: self.context,
        });
        target.collect()
    }

    /// Reads the run.
    ///
    /// # Errors
    /// Its state cannot be read.
    pub fn read(&self) -> Result<Option<SelectedRun>, CommandError> {
        run_selection::read_current(&self.layout, |_| {})
    }

    /// Returns the record of the backlog that the run is part of.
    ///
    /// # Errors
    /// It cannot be read.
    pub fn read_ledger(&self) -> Result<Option<BacklogLedger>, CommandError> {
        Ok(read_ledger(&self.series)?)
    }

    pub(super) fn no_run(&self) -> CommandError {
        CommandError::user(self.context.map_or_else(|| NO_RUN.to_owned(), run_selection::no_run))
    }
}

fn list(items: impl IntoIterator<Item = String>) -> String {
    let quoted = items.into_iter().map(|item| format!("`{}`", one_line(&item, 80)));
    quoted.collect::<Vec<_>>().join(", ")
}

fn not_open(item: &str, others: impl IntoIterator<Item = String>) -> CommandError {
    let others = list(others);
    let hint = match others.is_empty() {
        true => "`ralph-orchestrator status` shows how the items stand".to_owned(),
        false => format!("those that are: {others}"),
    };
    let item = one_line(item, 80);
    CommandError::user(format!("item `{item}` is not being worked on")).hinted(hint)
}
