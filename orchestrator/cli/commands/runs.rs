//! `runs`

pub(crate) mod all_workspaces;
mod prune;

use std::path::Path;

use jiff::Timestamp;
use ralph_orchestrator_assembly::context::{Context, NO_RUN};
use ralph_orchestrator_assembly::discovery::ConfigFile;
use ralph_orchestrator_assembly::error::{CommandError, exit};
use ralph_orchestrator_assembly::run_selection::{
    RunLocation, layouts_with_lanes, list_all, short_id,
};
use ralph_orchestrator_assembly::tasks;
use ralph_orchestrator_assembly::user_budget::describe_user_budget;
use ralph_orchestrator_driver::{ItemRun, read_ledger};
use ralph_orchestrator_machine::{State, StopKind};
use ralph_orchestrator_safe_fs::real_path;
use ralph_orchestrator_store::{Lock, Owner, StateError, read_run};
use ralph_orchestrator_story::status::phase;
use ralph_orchestrator_story::words::cost;
use ralph_orchestrator_text::{cell_widths, fit, join_cells, local_minute, one_line, short_number};
use serde_json::{Value, json};

use crate::help_examples;
use ralph_orchestrator_assembly::backlog_view::item_name;
use ralph_orchestrator_terminal::output;
use ralph_orchestrator_terminal::set_args::SetArgs;
use ralph_orchestrator_terminal::size::stdout_width;

#[derive(Debug, clap::Args)]
#[command(args_conflicts_with_subcommands = true)]
pub(crate) struct RunsArgs {
    #[command(subcommand)]
    pub(crate) command: Option<RunsCommand>,
    /// List the current run of every workspace of this user, as where no ralph.toml is here or above
    #[arg(long)]
    pub(crate) all: bool,
    /// Print one JSON array
    #[arg(long)]
    pub(crate) json: bool,
    #[command(flatten)]
    pub(crate) sets: SetArgs,
}

#[derive(Debug, clap::Subcommand)]
#[command(defer = true)]
pub(crate) enum RunsCommand {
    /// Delete the records of old runs that have ended
    #[command(after_help = help_examples::examples_of("runs prune"))]
    Prune(prune::PruneArgs),
}

/// Columns of a task that every table has room for.
const LEAST_TASK: usize = 12;
/// The longest task that is shown.
const MOST_TASK: usize = 60;
/// Bytes of a prompt that are read for its first words.
const MOST_PROMPT: u64 = 64 * 1024;

pub(crate) fn runs(file: &ConfigFile, args: &RunsArgs) -> Result<u8, CommandError> {
    if let Some(RunsCommand::Prune(prune)) = &args.command {
        return prune::prune(file, prune);
    }
    let Some(context) = find_workspace(file, &args.sets, args.all)? else {
        let code = all_workspaces::list(args.json);
        say_what_is_left(args.json);
        return Ok(code);
    };
    let all = list_all(&layouts_with_lanes(&context)?)?;
    // The plans of tasks are where the workspace is now.
    let workspace = real_path(context.loaded.configured_workspace());
    let mut rows: Vec<RunRow> = all.iter().map(|id| RunRow::read(id, &workspace)).collect();
    if let Some(ledger) = read_ledger(&context.layout()?)? {
        rows.iter_mut().for_each(|row| row.item = ledger.item_of(&row.id.run).cloned());
    }
    if args.json {
        let objects: Vec<Value> = rows.iter().map(RunRow::object).collect();
        output::json(&objects);
    } else if rows.is_empty() {
        output::result(NO_RUN);
    } else {
        let ids: Vec<String> = all.iter().map(|stored| short_id(&stored.run, &all)).collect();
        table(&rows, &ids, stdout_width()).iter().for_each(|line| output::result(line));
        let is_unreadable = |damage: &StateError| matches!(damage, StateError::Io { .. });
        if let Some(error) = rows.into_iter().find_map(|row| row.damage.filter(is_unreadable)) {
            output::info(&format!("warning: {}", CommandError::from(error).detail()));
        }
    }
    say_what_is_left(args.json);
    Ok(exit::OK)
}

/// Says what is left of the budget of all runs of the user.
fn say_what_is_left(is_json: bool) {
    let lines = if is_json { Vec::new() } else { describe_user_budget() };
    lines.iter().for_each(|line| output::info(&format!("all runs: {line}")));
}

/// Returns what the runs of one workspace are found by; `None` for all workspaces, as where there is neither a
/// configuration nor a run that was begun without one.
fn find_workspace(
    file: &ConfigFile,
    sets: &SetArgs,
    all: bool,
) -> Result<Option<Context>, CommandError> {
    if all {
        return Ok(None);
    }
    match Context::locate_run(file, sets) {
        Err(_) if file.is_missing() => Ok(None),
        located => located.map(Some),
    }
}

/// What is known of a run.
struct RunRow {
    id: RunLocation,
    task: String,
    /// The item of the backlog that it worked on.
    item: Option<ItemRun>,
    started: Option<Timestamp>,
    ended: Option<Timestamp>,
    is_current: bool,
    /// `None` if nothing of it can be read.
    state: Option<State>,
    phase: &'static str,
    damage: Option<StateError>,
}

impl RunRow {
    fn read(id: &RunLocation, workspace: &Path) -> Self {
        let held = Lock::holder(&id.layout).is_some();
        let id = id.clone();
        let task = task(&id, workspace);
        match read_run(&id.layout, &id.run, |_| {}) {
            Ok(stored) => Self {
                task,
                item: None,
                started: stored.found.started,
                ended: stored.found.ended,
                is_current: stored.is_current,
                phase: phase(&stored.found.state, held && stored.is_current),
                state: Some(stored.found.state),
                damage: stored.damage,
                id,
            },
            Err(error) => Self {
                id,
                task,
                item: None,
                started: None,
                ended: None,
                is_current: false,
                state: None,
                phase: if matches!(error, StateError::Io { .. }) {
                    "unreadable"
                } else {
                    "damaged"
                },
                damage: Some(error),
            },
        }
    }

    fn object(&self) -> Value {
        let state = self.state.as_ref();
        json!({
            "run": self.id.run,
            "current": self.is_current,
            "task": self.task_text(),
            "item": self.item.as_ref().filter(|entry| !entry.is_initializer).map(|entry| &entry.item),
            "agent": state.map(|state| state.agent.name.as_str()),
            "started": self.started,
            "ended": self.ended,
            "iterations": state.map(|state| state.iterations),
            "cost_usd": state.and_then(State::known_cost),
            "cost_reported": state.map(|state| state.budget.cost_reported),
            "tokens": state.map(State::tokens),
            "runtime_ms": state.map(|state| state.budget.runtime_ms),
            "phase": self.phase,
            "stop_reason": state.and_then(|state| state.stop.as_ref()).map(|stop| stop.reason),
            "damage": self.damage.as_ref().map(ToString::to_string),
            "state_dir": self.id.layout.root(),
        })
    }

    /// What it worked on: its item, or the first words of its prompt.
    fn task_text(&self) -> String {
        self.item.as_ref().map_or_else(|| self.task.clone(), item_name)
    }

    /// How it ended, in a word.
    fn result(&self) -> String {
        let stop = self.state.as_ref().and_then(|state| state.stop.as_ref());
        let word = match (self.phase, stop) {
            ("stopped", Some(stop)) if stop.reason.kind() == StopKind::Human => "answered",
            ("stopped", Some(stop)) => stop.reason.word(),
            (phase, _) => phase,
        };
        let unchecked = self.state.as_ref().and_then(State::completion);
        let unchecked = unchecked.is_some_and(|completion| !completion.validated);
        let damaged = self.damage.is_some() && self.state.is_some();
        let more = match (unchecked, damaged) {
            (_, true) => ", journal damaged",
            (true, _) => " WITHOUT validation",
            _ => "",
        };
        format!("{word}{more}")
    }
}

/// The task's id and what its plan says, or the first words of the prompt.
fn task(id: &RunLocation, workspace: &Path) -> String {
    let owner = Owner::read(&id.layout).ok().flatten();
    if let Some(name) = owner.as_ref().and_then(Owner::task) {
        return one_line(&format!("{name}: {}", tasks::title(workspace, name)), MOST_TASK);
    }
    let kept = id.layout.iteration(&id.run, 1).join("prompt.md");
    let mut begin = Vec::new();
    let read = std::fs::File::open(kept).and_then(|file| {
        use std::io::Read as _;
        file.take(MOST_PROMPT).read_to_end(&mut begin)
    });
    drop(read);
    let text = String::from_utf8_lossy(&begin);
    // What was said of earlier iterations comes before the task.
    let is_feedback = text.lines().next().is_some_and(|line| line.ends_with(':'));
    let task = text.split_once("\n---\n\n").filter(|_| is_feedback).map(|(_, task)| task);
    let text = task.unwrap_or(&text);
    let is_frame = |line: &&str| !line.is_empty() && !line.starts_with("<!--");
    // A heading that only says that this is the task says less than what is below it.
    let generic = ["task", "prompt", "goal", "instructions", "todo"];
    let mut lines = text
        .lines()
        .map(|line| line.trim().trim_start_matches(['#', '*', '-', '>']).trim())
        .filter(is_frame)
        .filter(|line| !generic.contains(&line.trim_end_matches(':').to_lowercase().as_str()));
    one_line(lines.next().unwrap_or_default(), MOST_TASK)
}

/// A table with a heading; the tasks take what is left of the terminal's width.
fn table(rows: &[RunRow], ids: &[String], width: Option<usize>) -> Vec<String> {
    let mut cells: Vec<[String; 7]> =
        vec![["RUN", "TASK", "STARTED", "ITER", "COST", "TOKENS", "RESULT"].map(str::to_owned)];
    cells.extend(rows.iter().zip(ids).map(|(row, id)| {
        let state = row.state.as_ref();
        let spent = state.map(|state| {
            cost(state.cost(), state.budget.cost_reported, state.budget.cost_estimated)
        });
        [
            id.clone(),
            Some(row.task_text()).filter(|task| !task.is_empty()).unwrap_or_else(|| "-".to_owned()),
            row.started.map_or_else(|| "-".to_owned(), local_minute),
            state.map_or_else(|| "-".to_owned(), |state| state.iterations.to_string()),
            spent.map_or_else(|| "-".to_owned(), |spent| spent.replace("cost not reported", "-")),
            state
                .map(|state| state.tokens().total())
                .filter(|total| *total > 0)
                .map_or_else(|| "-".to_owned(), short_number),
            row.result(),
        ]
    }));
    let mut widths = cell_widths(&cells);
    let [id, _, started, iterations, spent, tokens, result] = widths;
    let mut others = id + started + iterations + spent + tokens + result + 2 * 6;
    let Some(width) = width else { return cells.iter().map(|row| flat(row, widths)).collect() };
    let mut tokens = tokens;
    if others + LEAST_TASK > width {
        // The least important column makes room for the task.
        others -= tokens + 2;
        tokens = 0;
    }
    if others + LEAST_TASK <= width {
        let task = width - others;
        widths = [id, widths[1].min(task), started, iterations, spent, tokens, result];
        return cells.iter().map(|row| flat(row, widths)).collect();
    }
    // Too narrow for a table: a paragraph for each run.
    let mut lines = Vec::new();
    for [id, task, started, iterations, spent, tokens, result] in cells.iter().skip(1) {
        lines.push(fit(&format!("{id}  {result}"), width));
        lines.push(fit(&format!("  {task}"), width));
        lines.push(fit(&format!("  {started}"), width));
        lines
            .push(fit(&format!("  iterations {iterations}, cost {spent}, tokens {tokens}"), width));
    }
    lines
}

fn flat(row: &[String; 7], widths: [usize; 7]) -> String {
    let shown = row.iter().zip(widths).filter(|(_, width)| *width > 0);
    join_cells(shown.map(|(cell, width)| (fit(cell, width), width)))
}
