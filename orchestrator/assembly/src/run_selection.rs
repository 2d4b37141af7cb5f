//! Which run a command is about: that of the workspace, or an earlier one by its id.

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
    let all = list_all(&layouts(context)?)?;
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

/// Reads the run of the workspace, or the earlier one whose id begins like this. `None` if there is none
/// yet. What of an earlier one can no longer be trusted is left out, and said.
pub fn read(
    context: &Context,
    prefix: Option<&str>,
    mut each: impl FnMut(&JournalEntry),
) -> Result<Option<SelectedRun>, CommandError> {
    let mut measured = None;
    let mut each = |entry: &JournalEntry| {
        measured = entry.record.runtime_ms().map(|_| entry.time).or(measured);
        each(entry);
    };
    let Some(prefix) = prefix else {
        let layout = context.layout()?;
        // First who holds it, then the journal: what is read is then at least as new.
        let holder = Lock::holder(&layout);
        let found = read_current_run(&layout, &mut each)?;
        return Ok(found.map(|found| SelectedRun::new(layout, found, holder, measured)));
    };
    let RunLocation { layout, run } = select(context, prefix)?;
    let holder = Lock::holder(&layout);
    let stored = read_run(&layout, &run, &mut each)?;
    if let Some(damage) = &stored.damage {
        messages::info(&format!("warning: {damage}; what follows in that run is not shown"));
    }
    let holder = holder.filter(|_| stored.is_current);
    Ok(Some(SelectedRun::new(layout, stored.found, holder, measured)))
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
