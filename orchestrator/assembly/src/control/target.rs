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
    pub fn from_layout(layout: Layout, invocation: String) -> Self {
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
        let single = Self { context: Some(context), ..Self::from_layout(layout, invocation(file)) };
        if ledger.trunk.is_none() {
            return match (item, ledger.unfinished()) {
                (None, _) => Ok(vec![single]),
                (Some(item), Some(entry)) if entry.item == item => Ok(vec![single]),
                (Some(item), open) => Err(not_open(item, open.map(|entry| entry.item.clone()))),
            };
        }
        let mut targets = single.find_open(&ledger);
        let items: Vec<String> = targets.iter().filter_map(|target| target.item.clone()).collect();
        match (item, control) {
            (Some(item), _) => {
                targets.retain(|target| target.item.as_deref() == Some(item));
                return if targets.is_empty() { Err(not_open(item, items)) } else { Ok(targets) };
            }
            (None, Control::Pause { .. } | Control::Resume) if !targets.is_empty() => {
                return Ok(targets);
            }
            (None, Control::Answer { .. }) => targets = prefer_asking(targets),
            (None, _) => {}
        }
        match targets.len() {
            1 => Ok(targets),
            0 => Err(CommandError::user("no item is being worked on")
                .hinted("`ralph-orchestrator status` shows how the items stand")),
            _ => Err(CommandError::user(format!(
                "several items are worked on at once: {}",
                list(items)
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

    /// Whether the run has asked a question that is open.
    pub(super) fn asks(&self) -> Result<bool, CommandError> {
        let found = read_current_run(&self.layout, |_| {})?;
        Ok(found.is_some_and(|found| found.state.question().is_some()))
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

/// Returns those that have asked a question; all if none has.
fn prefer_asking(targets: Vec<ControlTarget<'_>>) -> Vec<ControlTarget<'_>> {
    // One that cannot be read keeps nobody from answering another.
    let asks: Vec<bool> = targets.iter().map(|it| it.asks().unwrap_or(false)).collect();
    let is_any = asks.contains(&true);
    let chosen = targets.into_iter().zip(asks).filter(|(_, asks)| *asks || !is_any);
    chosen.map(|(target, _)| target).collect()
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
