//! `log`

mod determinism;
mod diff;
mod follow;
mod records;
mod transcript;

use ralph_orchestrator_core::machine::Record;
use ralph_orchestrator_core::store::{JournalEntry, Layout};

use super::stored::{self, Stored};
use crate::args::Log;
use crate::context::{Context, NO_RUN};
use crate::discovery::ConfigFile;
use crate::error::{CommandError, exit};
use crate::output;
use crate::render::atif;
use transcript::{Form, Reader};

pub(crate) fn log(file: &ConfigFile, args: &Log) -> Result<u8, CommandError> {
    let context = Context::with(file, &args.sets)?;
    if args.follow && args.iteration.is_none() {
        return follow::records(&context.layout()?, args);
    }
    if let Some(number) = args.iteration.filter(|_| args.follow) {
        follow::iteration(&context.layout()?, number, form(args))?;
        return Ok(exit::OK);
    }
    let mut entries = Vec::new();
    let stored = stored::read(&context, args.run.as_deref(), |entry| entries.push(entry.clone()))?;
    let Some(Stored { layout, found, .. }) = stored else {
        if args.iteration.is_some() || !args.diff.is_empty() {
            return Err(CommandError::user(NO_RUN));
        }
        return Ok(nothing(args.json));
    };
    if let [one, other] = args.diff.as_slice() {
        diff::diff(&layout, &found.run, &entries, (*one, *other), args.json)?;
    } else if args.determinism {
        determinism::determinism(&entries, args.json);
    } else if let Some(number) = args.iteration {
        iteration(&layout, &found.run, number, &entries, args)?;
    } else if args.json {
        journal(&layout, &found.run, entries.len())?;
    } else {
        let mut printer = follow::Printer::new(&layout, &found.run, args);
        for entry in &entries {
            printer.entry(entry)?;
        }
    }
    Ok(exit::OK)
}

/// There is no run: no line is a valid answer in JSON lines.
fn nothing(json: bool) -> u8 {
    if !json {
        output::result(NO_RUN);
    }
    exit::OK
}

const fn form(args: &Log) -> Form {
    match (args.raw, args.json) {
        (true, _) => Form::Raw,
        (false, true) => Form::Json,
        (false, false) => Form::Text,
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

fn iteration(
    layout: &Layout,
    run: &str,
    number: u64,
    entries: &[JournalEntry],
    args: &Log,
) -> Result<(), CommandError> {
    let started = |entry: &JournalEntry| matches!(&entry.record, Record::IterationStarted { iteration, .. } if *iteration == number);
    if !entries.iter().any(started) {
        return Err(no_iteration(run, number));
    }
    if args.prompt {
        let Some(kept) = layout.kept_prompt(run, number) else {
            return Err(CommandError::user(format!(
                "the prompt of iteration {number} was not kept"
            )));
        };
        output::raw(&std::fs::read(kept)?);
        return Ok(());
    }
    if args.atif {
        output::json(&atif::trajectory(layout, run, entries, number, None)?);
        return Ok(());
    }
    Ok(Reader::new(layout, run, number, form(args)).print_new()?)
}
