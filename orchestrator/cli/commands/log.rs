//! `log`

mod determinism;
mod diff;
mod follow;
mod iteration;
mod transcript;

use ralph_orchestrator_assembly::backlog_view::{describe_merge, item_name, usage_text};
use ralph_orchestrator_assembly::context::Context;
use ralph_orchestrator_assembly::discovery::ConfigFile;
use ralph_orchestrator_assembly::error::{CommandError, exit};
use ralph_orchestrator_assembly::run_selection;
use ralph_orchestrator_driver::{ItemRun, read_ledger};
use ralph_orchestrator_machine::Record;
use ralph_orchestrator_store::{JournalEntry, Layout, read_run};
use ralph_orchestrator_story::selected_run::SelectedRun;
use ralph_orchestrator_story::trajectory::build_trajectory;
use ralph_orchestrator_terminal::set_args::SetArgs;
use ralph_orchestrator_terminal::{output, values};

use iteration::IterationPrinter;
use transcript::TranscriptFormat;

#[derive(Debug, clap::Args)]
pub(crate) struct LogArgs {
    /// Show this iteration: the feedback it was given, its text and tool calls, and its verdict
    #[arg(value_parser = values::iteration, allow_negative_numbers = true)]
    pub(crate) iteration: Option<u64>,
    /// With an iteration: print the prompt that the agent read, byte for byte except for secrets
    #[arg(long, requires = "iteration")]
    pub(crate) prompt: bool,
    /// With an iteration: print the agent's raw output lines
    #[arg(long, requires = "iteration", conflicts_with = "prompt")]
    pub(crate) raw: bool,
    /// With an iteration: print its transcript as an ATIF v1.8 trajectory
    #[arg(long, requires = "iteration", conflicts_with_all = ["prompt", "raw"])]
    pub(crate) atif: bool,
    /// Name what two iterations were given differently
    #[arg(long, num_args = 2, value_names = ["A", "B"], value_parser = values::iteration,
        conflicts_with_all = ["iteration", "follow"])]
    pub(crate) diff: Vec<u64>,
    /// Print what was the same in all iterations of the run, and what varied
    #[arg(long, conflicts_with_all = ["iteration", "follow", "diff"])]
    pub(crate) determinism: bool,
    /// Follow new records until the run ends; with an iteration, until its verdict
    #[arg(short, long, conflicts_with_all = ["prompt", "atif", "run"])]
    pub(crate) follow: bool,
    /// Show the agent's text and tool calls between the records; those of one iteration always are
    #[arg(short, long, conflicts_with_all = ["diff", "determinism", "json"])]
    pub(crate) verbose: bool,
    /// Show an earlier run, by the beginning of its id: see `runs`
    #[arg(long, value_name = "ID")]
    pub(crate) run: Option<String>,
    /// Print the records, or the transcript, as JSON lines
    #[arg(long)]
    pub(crate) json: bool,
    #[command(flatten)]
    pub(crate) sets: SetArgs,
}

pub(crate) fn log(file: &ConfigFile, args: &LogArgs) -> Result<u8, CommandError> {
    let context = Context::locate_run(file, &args.sets)?;
    if args.follow && args.iteration.is_none() {
        return follow::records(&context, args);
    }
    if let Some(number) = args.iteration.filter(|_| args.follow) {
        follow::iteration(&context.layout()?, number, format(args))?;
        return Ok(exit::OK);
    }
    let mut entries = Vec::new();
    let stored =
        run_selection::read(&context, args.run.as_deref(), |entry| entries.push(entry.clone()))?;
    let Some(selected) = stored else {
        if args.iteration.is_some() || !args.diff.is_empty() {
            return Err(CommandError::user(run_selection::no_run(&context)));
        }
        return Ok(nothing(&context, args.json));
    };
    let SelectedRun { layout, found, .. } = &selected;
    if let [one, other] = args.diff.as_slice() {
        diff::diff(layout, &found.run, &entries, (*one, *other), args.json)?;
    } else if args.determinism {
        determinism::determinism(&entries, args.json);
    } else if let Some(number) = args.iteration {
        print_iteration(layout, &found.run, number, &entries, args)?;
    } else {
        let of_backlog = run_selection::backlog_layout(&context, &selected)?;
        let ledger = read_ledger(&of_backlog)?.unwrap_or_default();
        let earlier = ledger.runs.iter().filter(|item| args.run.is_none() && item.run != found.run);
        for item in earlier {
            let mut entries = Vec::new();
            let layout = item.layout(&of_backlog);
            if let Err(error) = read_run(&layout, &item.run, |entry| entries.push(entry.clone())) {
                output::info(&format!("warning: {error}"));
            }
            records(&layout, &item.run, Some(item), &entries, args)?;
        }
        records(layout, &found.run, ledger.item_of(&found.run), &entries, args)?;
    }
    Ok(exit::OK)
}

/// Prints the records of a run, and the item of the backlog that it works on.
fn records(
    layout: &Layout,
    run: &str,
    item: Option<&ItemRun>,
    entries: &[JournalEntry],
    args: &LogArgs,
) -> Result<(), CommandError> {
    if args.json {
        return journal(layout, run, entries.len());
    }
    item.iter().for_each(|item| output::result(&item_line(item)));
    let mut printer = follow::RecordPrinter::new(layout, run, args);
    entries.iter().try_for_each(|entry| printer.entry(entry))?;
    item.and_then(describe_merge).iter().for_each(|line| output::result(line));
    Ok(())
}

/// Returns the heading of the run of an item, with what it has used if it ended.
fn item_line(item: &ItemRun) -> String {
    let word = if item.is_initializer { "" } else { "item " };
    let used = item.reason.map_or_else(String::new, |_| format!("; {}", usage_text(&item.usage)));
    format!("{word}{} (run {}{used})", item_name(item), item.run)
}

/// There is no run: no line is a valid answer in JSON lines.
fn nothing(context: &Context, json: bool) -> u8 {
    if !json {
        output::result(&run_selection::no_run(context));
    }
    exit::OK
}

const fn format(args: &LogArgs) -> TranscriptFormat {
    match (args.raw, args.json) {
        (true, _) => TranscriptFormat::Raw,
        (false, true) => TranscriptFormat::Json,
        (false, false) => TranscriptFormat::Text,
    }
}

/// The lines of the journal that were verified.
fn journal(layout: &Layout, run: &str, records: usize) -> Result<(), CommandError> {
    let journal = std::fs::read(layout.journal(run))?;
    journal.split_inclusive(|byte| *byte == b'\n').take(records).for_each(output::raw);
    Ok(())
}

fn no_iteration(run: &str, number: u64) -> CommandError {
    CommandError::user(format!("run {run} has no iteration {number}"))
        .hinted("`log` without a number lists them")
}

fn print_iteration(
    layout: &Layout,
    run: &str,
    number: u64,
    entries: &[JournalEntry],
    args: &LogArgs,
) -> Result<(), CommandError> {
    let started = |entry: &JournalEntry| matches!(&entry.record, Record::IterationStarted { iteration, .. } if *iteration == number);
    if !entries.iter().any(started) {
        return Err(no_iteration(run, number));
    }
    if args.prompt {
        let Some(kept) = layout.kept_prompt(run, number) else {
            return Err(CommandError::user(format!(
                "the prompt of iteration {number} was not stored"
            )));
        };
        output::raw(&std::fs::read(kept)?);
        return Ok(());
    }
    if args.atif {
        output::json(&build_trajectory(layout, run, entries, number, None)?);
        return Ok(());
    }
    IterationPrinter::new(layout, run, number, format(args)).print_new(entries)
}
