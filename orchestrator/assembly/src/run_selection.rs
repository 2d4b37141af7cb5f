//! Which run a command is about: that of the workspace, or an earlier one by its id.

use jiff::Timestamp;
use ralph_orchestrator_driver::read_ledger;
use ralph_orchestrator_engine::states_dir;
use ralph_orchestrator_store::{
    JournalEntry, Layout, Lock, Owner, list_runs, read_current_run, read_run, state_dirs_of,
};
use ralph_orchestrator_story::run_summary::RunSummary;
use ralph_orchestrator_story::selected_run::SelectedRun;
use ralph_orchestrator_text::one_line;

use crate::context::{Context, NO_RUN};
use crate::error::CommandError;
use crate::messages;

/// Characters of an id that nearly always tell runs apart: the time of their beginning.
const SHORT_ID: usize = 13;

/// A run of the workspace.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RunLocation {
    /// The state directory.
    pub layout: Layout,
    /// The id.
    pub run: String,
}

/// The state directories of the workspace: that of the configuration first, then those of others.
pub fn layouts(context: &Context) -> Result<Vec<Layout>, CommandError> {
    let own = context.layout()?;
    let workspace = context.loaded.configured_workspace();
    let workspace = workspace.canonicalize().unwrap_or_else(|_| workspace.to_owned());
    let states = states_dir(&context.state_home());
    let others = state_dirs_of(&states, &workspace).into_iter().map(|state| state.layout);
    let others: Vec<Layout> = others.filter(|layout| *layout != own).collect();
    Ok([vec![own], others].concat())
}

/// The same with those of the runs in lanes.
pub fn layouts_with_lanes(context: &Context) -> Result<Vec<Layout>, CommandError> {
    let mut all = layouts(context)?;
    let Some(own) = all.first().cloned() else { return Ok(all) };
    let ledger = read_ledger(&own)?.unwrap_or_default();
    for entry in ledger.runs.iter().chain(&ledger.earlier) {
        let layout = entry.layout(&own);
        if !all.contains(&layout) {
            all.push(layout);
        }
    }
    Ok(all)
}

/// All runs in these state directories, the newest first.
pub fn list_all(layouts: &[Layout]) -> Result<Vec<RunLocation>, CommandError> {
    let mut found = Vec::new();
    for layout in layouts {
        let runs = list_runs(layout)?;
        found.extend(runs.into_iter().map(|run| RunLocation { layout: layout.clone(), run }));
    }
    found.sort_by(|one, other| other.run.cmp(&one.run));
    Ok(found)
}

/// The beginning of an id that no other of these runs has.
pub fn short_id(run: &str, all: &[RunLocation]) -> String {
    let unique = |len: &usize| {
        let begin = run.get(..*len).unwrap_or(run);
        all.iter().filter(|other| other.run.starts_with(begin)).count() <= 1
    };
    let len = (SHORT_ID..run.len()).find(unique).unwrap_or(run.len());
    run.get(..len).unwrap_or(run).to_owned()
}

/// The run whose id begins like this.
fn select(context: &Context, prefix: &str) -> Result<RunLocation, CommandError> {
    let all = list_all(&layouts_with_lanes(context)?)?;
    let mut found = all.iter().filter(|stored| stored.run.starts_with(prefix));
    match (found.next(), found.next()) {
        (Some(stored), None) => Ok(stored.clone()),
        (None, _) => {
            let message = format!("this workspace has no run whose id begins with `{prefix}`");
            Err(CommandError::user(message).hinted("`ralph-orchestrator runs` lists them"))
        }
        (Some(one), Some(other)) => {
            let (one, other) = (short_id(&one.run, &all), short_id(&other.run, &all));
            let message = format!("several runs begin with `{prefix}`, such as {one} and {other}");
            Err(CommandError::user(message).hinted("give more of the id"))
        }
    }
}

/// Reads the run of the workspace, the newest one if items are worked on at once, or the earlier one whose id begins like
/// this. `None` if there is none yet. What of an earlier one can no longer be trusted is left out, and said.
pub fn read(
    context: &Context,
    prefix: Option<&str>,
    mut each: impl FnMut(&JournalEntry),
) -> Result<Option<SelectedRun>, CommandError> {
    let Some(prefix) = prefix else {
        let layout = context.layout()?;
        if let Some(current) = read_current(&layout, &mut each)? {
            return Ok(Some(current));
        }
        let ledger = read_ledger(&layout)?.unwrap_or_default();
        let Some(entry) = ledger.newest_in_lanes() else { return Ok(None) };
        let location = RunLocation { layout: entry.layout(&layout), run: entry.run.clone() };
        return read_located(location, each).map(Some);
    };
    read_located(select(context, prefix)?, each).map(Some)
}

/// Reads the current run of a state directory.
pub fn read_current(
    layout: &Layout,
    each: impl FnMut(&JournalEntry),
) -> Result<Option<SelectedRun>, CommandError> {
    let mut measured = None;
    // First who holds it, then the journal: what is read is then at least as new.
    let holder = Lock::holder(layout);
    let found = read_current_run(layout, measuring(&mut measured, each))?;
    Ok(found.map(|found| SelectedRun::new(layout.clone(), found, holder, measured)))
}

/// Returns what also notes when the runtime was recorded last.
fn measuring(
    measured: &mut Option<Timestamp>,
    mut each: impl FnMut(&JournalEntry),
) -> impl FnMut(&JournalEntry) {
    move |entry| {
        if entry.record.runtime_ms().is_some() {
            *measured = Some(entry.time);
        }
        each(entry);
    }
}

fn read_located(
    RunLocation { layout, run }: RunLocation,
    mut each: impl FnMut(&JournalEntry),
) -> Result<SelectedRun, CommandError> {
    let mut measured = None;
    let holder = Lock::holder(&layout);
    let stored = read_run(&layout, &run, measuring(&mut measured, &mut each))?;
    if let Some(damage) = &stored.damage {
        messages::info(&format!("warning: {damage}; what follows in that run is not shown"));
    }
    let holder = holder.filter(|_| stored.is_current);
    Ok(SelectedRun::new(layout, stored.found, holder, measured))
}

/// Returns the state directory that has the record of the backlog to which a run belongs: that of the configuration, if it is
/// a run in a lane.
pub fn backlog_layout(context: &Context, selected: &SelectedRun) -> Result<Layout, CommandError> {
    let own = context.layout()?;
    if selected.layout == own {
        return Ok(own);
    }
    let ledger = read_ledger(&own)?.unwrap_or_default();
    let is_own = ledger.item_of(&selected.found.run).is_some();
    Ok(if is_own { own } else { selected.layout.clone() })
}

/// The same with its story.
pub fn read_story(
    context: &Context,
    prefix: Option<&str>,
) -> Result<Option<(SelectedRun, RunSummary)>, CommandError> {
    let mut story = RunSummary::default();
    let stored = read(context, prefix, |entry| story.add(&entry.record))?;
    Ok(stored.map(|stored| (stored, story)))
}

/// There is no run of this configuration to show. Names the last one that the workspace has of another.
pub fn no_run(context: &Context) -> String {
    let all = layouts(context).and_then(|layouts| list_all(&layouts)).unwrap_or_default();
    let Some(last) = all.first() else { return NO_RUN.to_owned() };
    let owner = Owner::read(&last.layout).ok().flatten();
    let configuration = owner.as_ref().and_then(Owner::configuration);
    let whose = match (configuration, owner.as_ref().and_then(Owner::task)) {
        (_, Some(task)) => format!("of the task {}", one_line(task, 80)),
        (Some(file), None) => format!("of {}", one_line(&file.display().to_string(), 200)),
        (None, None) => "that was begun without a configuration file".to_owned(),
    };
    let id = short_id(&last.run, &all);
    format!(
        "no run of this configuration yet; this workspace has the run {id} {whose}: \
         `ralph-orchestrator status --run {id}` shows it, `ralph-orchestrator runs` lists all"
    )
}

/// There is no run to follow.
pub fn no_run_error() -> CommandError {
    CommandError::user("there is no run in this workspace yet")
        .hinted("`ralph-orchestrator run` starts one")
}
