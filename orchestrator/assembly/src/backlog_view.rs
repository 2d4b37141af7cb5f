//! The backlog of a configuration, and errors about it.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use ralph_orchestrator_backlog::{
    Backlog, BacklogError, BacklogItem, BacklogPlace, BacklogSnapshot, GuardRules, ItemPlacement,
    NextItem, PlacementReason,
};
use ralph_orchestrator_config::{Limits, LoadedConfig, duration_text};
use ralph_orchestrator_contract::Usd;
use ralph_orchestrator_driver::{
    BacklogLedger, DriverError, ItemRun, MergeState, describe_unread, read_ledger, read_proved,
};
use ralph_orchestrator_engine::registry::FactoryMap;
use ralph_orchestrator_machine::{Limit, RunUsage, StopReason};
use ralph_orchestrator_shell_text::quote_word;
use ralph_orchestrator_store::{Layout, Lock, StoredRun, read_run};
use ralph_orchestrator_story::words::{limit_json, short_object_id, tokens};
use ralph_orchestrator_text::{count, duration, one_line};
use serde_json::{Map, Value, json};

use crate::backlogs::{find, guard_rules};
use crate::block_on::block_on;
use crate::context::Context;
use crate::error::{CommandError, explain};
use crate::lane_view::{LaneView, list_left};
use crate::plugins::Plugins;
use crate::registry;
use crate::trackers;
use crate::trust::refusal;

/// Returns the backlog that a command is about.
pub async fn require(context: &Context) -> Result<Arc<dyn Backlog>, CommandError> {
    let kind = context.loaded.config.backlog.as_ref().map(|backlog| backlog.kind.as_str());
    let register = |formats: &mut FactoryMap<dyn Backlog>| {
        trackers::register(formats, context);
        if !formats.contains(kind.unwrap_or_default()) {
            Plugins::from_context(context)?.register_backlogs(formats);
        }
        Ok(())
    };
    find(&context.loaded, &context.vars, &context.compiled_in, register).await?.ok_or_else(|| {
        let file = context.file.display();
        let message = match context.file.exists() {
            true => format!("{file} has no [backlog]"),
            false => format!("there is no {file}, and so no [backlog]"),
        };
        CommandError::config(message).hinted(
            "name the format and the file: `kind = \"json\"`, `path = \"feature-list.json\"`",
        )
    })
}

/// Says that the initializer is to make the backlog.
pub fn to_be_made(loaded: &LoadedConfig) -> String {
    let path = loaded.config.backlog.as_ref().and_then(|backlog| backlog.path.as_ref());
    let path = path.map(|path| path.display().to_string()).unwrap_or_default();
    format!("{path}: the initializer has to make it")
}

/// Returns whether the next run is that of the initializer, which makes the backlog.
pub fn is_to_be_made(list: &dyn Backlog, context: &Context) -> Result<bool, CommandError> {
    if context.loaded.config.initializer.is_none() {
        return Ok(false);
    }
    let ledger = match context.layout() {
        Ok(layout) => read_ledger(&layout)?.unwrap_or_default(),
        Err(_) => BacklogLedger::default(),
    };
    Ok(ledger.initializing().is_some() || (ledger.runs.is_empty() && list.is_unwritten()))
}

/// Reads the backlog as it counts: what an agent set to completed in an iteration that has not ended, or in
/// which the orchestrator was killed, is not proved.
pub fn read_counted(
    list: &dyn Backlog,
    context: &Context,
) -> Result<BacklogSnapshot, CommandError> {
    let read = match context.layout() {
        Ok(layout) => read_proved(list, &layout, rules(context)),
        Err(_) => list.load().map_err(DriverError::from),
    };
    read.map_err(|error| match error {
        DriverError::Backlog(error) => explain(error, &context.loaded),
        other => other.into(),
    })
}

/// Returns what agents may change.
fn rules(context: &Context) -> GuardRules {
    context.loaded.config.backlog.as_ref().map(guard_rules).unwrap_or_default()
}

/// The backlog of a configuration together with what was recorded of the work on it.
pub struct BacklogView {
    path: String,
    /// The backlog as it is now, or why it cannot be read.
    found: Result<BacklogSnapshot, String>,
    /// Its own books: what each item has used.
    pub ledger: BacklogLedger,
    /// Those that hold for all runs together.
    limits: Limits,
}

impl BacklogView {
    /// Reads both; `None` for a configuration without a backlog.
    pub fn read(context: &Context, layout: &Layout) -> Result<Option<Self>, CommandError> {
        let Some(config) = &context.loaded.config.backlog else { return Ok(None) };
        let mut ledger = read_ledger(layout)?.unwrap_or_default();
        count_open_runs(&mut ledger, layout);
        let limits = context.loaded.config.limits.clone();
        let is_of_plugin = !registry::has_backlog(&config.kind, &context.compiled_in);
        if is_of_plugin && !context.judged.unaccepted.is_empty() {
            let found = Err(refusal(&context.judged.unaccepted).summary());
            return Ok(Some(Self {
                path: config.path.as_ref().unwrap_or(&PathBuf::new()).display().to_string(),
                found,
                ledger,
                limits,
            }));
        }
        let list = block_on(require(context))?;
        let found = if is_to_be_made(&*list, context)? {
            Err(to_be_made(&context.loaded))
        } else {
            read_proved(&*list, layout, rules(context)).map_err(|error| error.to_string())
        };
        Ok(Some(Self { path: list.path().display().to_string(), found, ledger, limits }))
    }

    /// Returns lines about the backlog, and about the item of a run or else of the one in progress.
    pub fn lines(&self, run: Option<&StoredRun>) -> Vec<String> {
        let mut lines = vec![match &self.found {
            Ok(found) => format!("  backlog     {}{}", found.counts(), self.end()),
            Err(problem) => format!("  backlog     {}", one_line(problem, 300)),
        }];
        if self.ledger.is_started {
            lines.push(format!("  all runs    {}", self.used(run)));
        }
        lines.extend(self.item(run).map(|entry| format!("  item        {}", item_name(entry))));
        let merge = self.item(run).and_then(describe_merge);
        lines.extend(merge.map(|text| format!("  merge       {text}")));
        lines.extend(LaneView::read(&self.ledger).iter().flat_map(LaneView::lines));
        lines.extend(list_left(&self.ledger).iter().map(|left| format!("  unmerged    {left}")));
        let unread = self.found.as_ref().ok();
        let unread = unread.and_then(|found| describe_unread(Path::new(&self.path), found));
        lines.extend(unread.map(|unread| format!("  unread      {}", one_line(&unread, 400))));
        let blocked = self.found.as_ref().map(BacklogSnapshot::blocked).unwrap_or_default();
        let aside = blocked.into_iter().chain(self.left_out());
        lines.extend(
            aside.map(|item| format!("  set aside   {}", one_line(&item.to_string(), 200))),
        );
        lines
    }

    /// Returns what all runs have used of the limits that they share.
    fn used(&self, run: Option<&StoredRun>) -> String {
        let (usage, limits) = (self.usage(run), &self.limits);
        let of = |most: Option<String>| most.map_or_else(String::new, |most| format!(" of {most}"));
        let total = usage.tokens.total();
        let used_tokens = match (total, limits.max_tokens) {
            (0, None) => String::new(),
            (_, most) => {
                let of = of(most.map(|most| most.to_string()));
                format!(", tokens {total}{of} ({})", tokens(usage.tokens))
            }
        };
        let is_reported = run.is_some_and(|run| run.state.budget.cost_reported);
        let cost = if usage.iterations > 0 && usage.cost_usd == Usd::ZERO && !is_reported {
            "not reported".to_owned()
        } else {
            format!("{}{}", usage.cost_usd, of(limits.max_cost_usd.map(|most| most.to_string())))
        };
        format!(
            "iterations {}{}, cost {cost}, runtime {}{}{used_tokens}",
            usage.iterations,
            of(limits.max_iterations.map(|most| most.to_string())),
            duration(usage.runtime_ms),
            of(limits.max_runtime.map(duration_text)),
        )
    }

    /// Returns what all runs have used, this one as far as it is now.
    fn usage(&self, run: Option<&StoredRun>) -> RunUsage {
        let current = run.filter(|run| self.ledger.runs.iter().any(|entry| entry.run == run.run));
        let others = self.ledger.used_beside(current.map(|run| run.run.as_str()));
        current.map_or(others, |run| others.plus(RunUsage::from_state(&run.state)))
    }

    /// Returns what all runs of an item have used, this one as far as it is now.
    fn item_usage(&self, entry: &ItemRun, run: Option<&StoredRun>) -> RunUsage {
        let current = run.filter(|run| run.run == entry.run);
        let is_counted = self.ledger.runs.iter().any(|counted| counted.run == entry.run);
        let others = if is_counted {
            self.ledger.used_by_item(&entry.item, current.map(|run| run.run.as_str()))
        } else {
            // A run from before the last new beginning stands alone.
            RunUsage::default()
        };
        current.map_or(others, |run| others.plus(RunUsage::from_state(&run.state)))
    }

    /// Returns whether a run is over because its item was set aside after it.
    pub fn is_over(&self, run: &str) -> bool {
        self.ledger.item_of(run).is_some_and(|entry| entry.is_over)
    }

    /// Returns how the work on items that are worked on at once stands, in a word and for people; `None` if they are not.
    pub fn in_lanes(&self, layout: &Layout) -> Option<(&'static str, String)> {
        self.ledger.trunk.as_ref()?;
        let holder = Lock::holder(layout);
        Some(match (&holder, &self.ledger.stop) {
            (Some(holder), _) => ("running", format!("running ({holder})")),
            (None, Some((StopReason::Completed, _))) => ("completed", "completed".to_owned()),
            (None, Some((StopReason::NeedsHuman, message))) => {
                ("needs_human", format!("needs human: {}", one_line(message, 300)))
            }
            (None, Some((StopReason::Interrupted, _))) | (None, None) => {
                ("interrupted", "interrupted; `run` goes on".to_owned())
            }
            (None, Some((reason, message))) => {
                ("stopped", format!("stopped ({}): {}", reason.word(), one_line(message, 300)))
            }
        })
    }

    /// Returns what there is to say where no item was started yet.
    pub fn beginning(&self) -> Option<String> {
        Some(match self.found.as_ref().ok()?.select_next() {
            NextItem::Item { item } => {
                format!("no item was started yet; `run` begins with {}", one_line(&item.id, 80))
            }
            NextItem::Blocked { waiting } => {
                let waiting = waiting.iter().map(ToString::to_string).collect::<Vec<_>>();
                format!(
                    "needs human: no item can be worked on: {}",
                    one_line(&waiting.join("; "), 400)
                )
            }
            NextItem::Complete if self.left_out().is_empty() => "every item is complete".to_owned(),
            NextItem::Complete => "every item is complete or left out".to_owned(),
            NextItem::Empty => "the backlog has no items: `add` adds one".to_owned(),
        })
    }

    /// Returns the items that a person wants left out, and what depends on them.
    fn left_out(&self) -> Vec<ItemPlacement> {
        self.found.as_ref().map(BacklogSnapshot::left_out).unwrap_or_default()
    }

    /// Returns how the work on the backlog ended last.
    fn end(&self) -> String {
        match &self.ledger.stop {
            Some((StopReason::Completed, _)) => match self.open_item() {
                Some(item) => format!(", was complete, but {} is open now", one_line(&item, 80)),
                None => String::new(),
            },
            None => String::new(),
            Some((reason, message)) => {
                format!(", stopped ({}): {}", reason.word(), one_line(message, 200))
            }
        }
    }

    /// Returns what helps while the backlog is not complete.
    pub fn advice(&self, program: &str) -> Option<String> {
        if matches!(self.ledger.stop, Some((StopReason::Completed, _))) {
            let item = self.open_item()?;
            return Some(format!("`{program} run` continues with {}", one_line(&item, 80)));
        }
        advice(&self.ledger, self.found.as_ref().ok(), program)
    }

    /// Returns the item that a run would begin with.
    fn open_item(&self) -> Option<String> {
        match self.found.as_ref().ok()?.select_next() {
            NextItem::Item { item } => Some(item.id),
            NextItem::Blocked { .. } | NextItem::Complete | NextItem::Empty => None,
        }
    }

    fn item(&self, run: Option<&StoredRun>) -> Option<&ItemRun> {
        match run {
            Some(run) => self.ledger.item_of(&run.run),
            None => self.ledger.unfinished(),
        }
    }

    /// Returns the same for JSON.
    pub fn object(&self, run: Option<&StoredRun>) -> Value {
        let found = self.found.as_ref();
        let waiting = match found.map(BacklogSnapshot::select_next) {
            Ok(NextItem::Blocked { waiting }) => waiting,
            _ => Vec::new(),
        };
        let limits: Map<String, Value> = Limit::budgets()
            .map(|(limit, _)| (limit.json_name(), limit.configured(&self.limits)))
            .map(|(name, most)| (name, most.map_or(Value::Null, limit_json)))
            .collect();
        json!({
            "path": self.path,
            "items": found.map(BacklogSnapshot::counts).ok(),
            "order": found.map(|found| found.order).ok(),
            "problem": found.err(),
            "item": self.item(run).map(|entry| json!({
                "id": entry.item, "title": entry.title, "run": entry.run,
                "usage": self.item_usage(entry, run),
            })),
            "stop_reason": self.ledger.stop.as_ref().map(|(reason, _)| reason),
            "message": self.ledger.stop.as_ref().map(|(_, message)| message),
            "waiting": waiting,
            "set_aside": found.map(|found| &found.set_aside).ok(),
            "unread": found.map(|found| &found.unread).ok(),
            "lanes": LaneView::read(&self.ledger).iter().map(LaneView::object).collect::<Vec<_>>(),
            "usage": self.usage(run),
            "limits": limits,
        })
    }
}

/// Counts what runs in lanes have used that go on, or whose end nobody recorded.
fn count_open_runs(ledger: &mut BacklogLedger, layout: &Layout) {
    let is_open = |entry: &&mut ItemRun| entry.state.is_some() && entry.reason.is_none();
    for entry in ledger.runs.iter_mut().filter(is_open) {
        if let Ok(stored) = read_run(&entry.layout(layout), &entry.run, |_| {}) {
            entry.usage = RunUsage::from_state(&stored.found.state);
        }
    }
}

/// Returns what helps while a backlog is not complete. `found`: the backlog as it is, if it can be read.
pub fn advice(
    ledger: &BacklogLedger,
    found: Option<&BacklogSnapshot>,
    program: &str,
) -> Option<String> {
    let reason = ledger.stop.as_ref().map(|(reason, _)| *reason);
    if reason == Some(StopReason::Completed) {
        return None;
    }
    if let Some(limit) = reason.and_then(StopReason::budget) {
        return Some(format!(
            "raise {}, which all items use up together: `{program} run --set {}=N` does for one start, and continues \
             with the next one",
            limit.key(),
            limit.key()
        ));
    }
    let blocked = match found.map(BacklogSnapshot::select_next) {
        Some(NextItem::Blocked { waiting }) => mend(ledger, &waiting, program),
        _ => None,
    };
    blocked.or_else(|| {
        Some(format!("the backlog is not complete: `{program} run` continues with the next item"))
    })
}

/// Returns what to do where only items are left that are blocked, or wait for these.
pub fn mend(ledger: &BacklogLedger, waiting: &[ItemPlacement], program: &str) -> Option<String> {
    let is_blocked =
        |placement: &&ItemPlacement| matches!(placement.reason, PlacementReason::Blocked { .. });
    let mut blocked = waiting.iter().filter(is_blocked);
    let first = blocked.next()?;
    let id = quote_word(&first.id);
    let run = ledger.set_aside.get(&first.id).map(|aside| aside.run.as_str());
    let explained = match run.filter(|run| !run.is_empty()) {
        Some(run) => format!(" (`{program} why --run {run}`)"),
        None => String::new(),
    };
    let others = match blocked.count() {
        0 => String::new(),
        more => format!(" (then {} more)", count(u64::try_from(more).unwrap_or(u64::MAX), "item")),
    };
    Some(format!(
        "mend what blocks `{}`{explained}, then `{program} retry {id}`, or go on without it by `{program} skip \
         {id}`{others}; then `{program} run` continues",
        one_line(&first.id, 80)
    ))
}

/// Returns what runs have used, in words.
pub fn usage_text(usage: &RunUsage) -> String {
    let mut text = count(usage.iterations, "iteration");
    if usage.cost_usd > Usd::ZERO {
        text.push_str(&format!(", {}", usage.cost_usd));
    }
    if usage.tokens.total() > 0 {
        text.push_str(&format!(", tokens: {}", tokens(usage.tokens)));
    }
    text
}

/// Returns the item of a run in a line.
pub fn item_name(entry: &ItemRun) -> String {
    if entry.is_initializer {
        return "the initializer".to_owned();
    }
    one_line(&format!("{}: {}", entry.item, entry.title), 120)
}

/// Returns what became of the work of a run that was complete in a lane.
#[must_use]
pub fn describe_merge(entry: &ItemRun) -> Option<String> {
    let result = entry.merge_result.as_deref()?;
    match entry.merged {
        MergeState::Merged => Some(format!("is merged as {}", short_object_id(result))),
        MergeState::SentBack => Some(format!("sent back: {}", one_line(result, 400))),
        MergeState::InPlace | MergeState::Waiting => None,
    }
}

/// What a check of a backlog found.
pub struct CheckedBacklog {
    /// Its file, items and order, or that it is to be made.
    pub summary: String,
    /// What of it is not read, though it looks like an item.
    pub unread: Option<String>,
}

/// Fails if a tracker refuses to be read. One that cannot be reached for now is waited for by who works on it.
pub async fn check_tracker(context: &Context) -> Result<(), CommandError> {
    if context.loaded.config.backlog.is_none() {
        return Ok(());
    }
    let list = require(context).await?;
    if list.place() == BacklogPlace::File {
        return Ok(());
    }
    match list.load() {
        Ok(_) | Err(BacklogError::Tracker { is_temporary: true, .. }) => Ok(()),
        Err(error) => Err(explain(error, &context.loaded)),
    }
}

/// Returns the command that the item of this id names as its own check, if it names one. Those of a tracker name none.
pub async fn find_item_check(context: &Context, id: &str) -> Result<Option<String>, CommandError> {
    let list = require(context).await?;
    if list.place() == BacklogPlace::Tracker {
        return Ok(None);
    }
    let snapshot = read_counted(&*list, context)?;
    let found = snapshot.find(id).map(|item| item.verify.clone());
    let path = list.path().to_owned();
    let unknown = || DriverError::from(BacklogError::UnknownItem { path, id: id.to_owned() });
    found.ok_or_else(|| unknown().into())
}

/// Checks the backlog of a configuration; `None` without one. That of a workspace that does not exist yet cannot be
/// read.
pub async fn check(context: &Context) -> Result<Option<CheckedBacklog>, CommandError> {
    if context.loaded.config.backlog.is_none() {
        return Ok(None);
    }
    let list = require(context).await?;
    if !context.loaded.config.run.workspace.exists() {
        return Ok(None);
    }
    if is_to_be_made(&*list, context)? {
        let summary = to_be_made(&context.loaded);
        return Ok(Some(CheckedBacklog { summary, unread: None }));
    }
    if list.place() == BacklogPlace::Tracker {
        let summary = match read_counted(&*list, context) {
            Ok(found) => {
                format!("{}: {} when a run read them last", list.path().display(), found.counts())
            }
            Err(error) => error.summary(),
        };
        return Ok(Some(CheckedBacklog { summary, unread: None }));
    }
    let found = list.load().map_err(|error| explain(error, &context.loaded))?;
    let unread = describe_unread(list.path(), &found);
    if found.items.is_empty() {
        let error = DriverError::Empty { path: list.path().display().to_string() };
        return Err(unread.into_iter().fold(error.into(), CommandError::hinted));
    }
    let summary = format!("{}: {}; {}", list.path().display(), found.counts(), found.order);
    Ok(Some(CheckedBacklog { summary, unread }))
}

/// Returns the id of the item that is worked on next; `None` if there is none, or the backlog cannot be read.
pub async fn find_next(context: &Context) -> Option<BacklogItem> {
    context.loaded.config.backlog.as_ref()?;
    let list = require(context).await.ok()?;
    match read_counted(&*list, context).ok()?.select_next() {
        NextItem::Item { item } => Some(item),
        NextItem::Blocked { .. } | NextItem::Complete | NextItem::Empty => None,
    }
}
