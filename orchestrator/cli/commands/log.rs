//! `log`

mod determinism;
mod diff;

use std::path::Path;
use std::time::Duration;

use orchestrator::contract::Event;
use orchestrator::machine::{Given, NamedVerdict, Record};
use orchestrator::state::{Entry, Layout, Lock, peek};

use crate::args::Log;
use crate::context::Context;
use crate::error::{CommandError, exit};
use crate::render::atif;
use crate::render::text::{duration, escape, one_line, outcome, tool_line, trigger};
use crate::{output, transcript};

/// How often it is looked whether there is news.
const POLL: Duration = Duration::from_millis(50);

pub(crate) fn log(file: &Path, args: &Log) -> Result<u8, CommandError> {
    let layout = Context::with(file, &args.sets)?.layout()?;
    if args.follow {
        return follow(&layout, args.json);
    }
    let mut entries = Vec::new();
    let Some(found) = peek(&layout, |entry| entries.push(entry.clone()))? else {
        return Err(CommandError::user("there is no run in this workspace yet"));
    };
    if let [one, other] = args.diff.as_slice() {
        diff::diff(&layout, &found.run, &entries, (*one, *other), args.json)?;
    } else if args.determinism {
        determinism::determinism(&entries, args.json);
    } else if let Some(number) = args.iteration {
        let started = |entry: &Entry| matches!(&entry.record, Record::IterationStarted { iteration, .. } if *iteration == number);
        if !entries.iter().any(started) {
            let message = format!("run {} has no iteration {number}", found.run);
            return Err(CommandError::user(message).hinted("`log` without a number lists them"));
        }
        iteration(&layout, &found.run, number, &entries, args)?;
    } else if args.json {
        let path = layout.journal(&found.run);
        output::raw(&std::fs::read(path)?);
    } else {
        for line in entries.iter().filter_map(describe) {
            output::result(&line);
        }
    }
    Ok(exit::OK)
}

fn describe_baseline(verdicts: &[NamedVerdict]) -> String {
    let failing = verdicts.iter().filter(|named| !named.verdict.is_accepted());
    let names: Vec<&str> = failing.map(|named| named.validator.as_str()).collect();
    if names.is_empty() {
        return "every check accepts before any work is done".to_owned();
    }
    format!("before any work is done, not accepted by {}", names.join(", "))
}

/// What validators left, in one line.
fn describe_artefacts(validator: Option<&str>, paths: &[String]) -> String {
    let whom = validator.map_or_else(|| "a validator".to_owned(), |name| format!("`{name}`"));
    format!("{whom} left {} (no part of the work)", one_line(&paths.join(", "), 160))
}

/// A record in one line, if people care about it.
fn describe(entry: &Entry) -> Option<String> {
    let text = match &entry.record {
        Record::RunStarted(started) => {
            format!("run started with {} in {}", started.agent, started.workspace)
        }
        Record::WorkspaceMade { .. } => "workspace made again".into(),
        Record::RunResumed { agent, .. } => format!("run resumed with {agent}"),
        Record::IterationStarted { iteration, attempt, trigger: why, given, .. } => {
            let again = if *attempt > 1 { format!(", attempt {attempt}") } else { String::new() };
            let instructed = if given.contains_key(Given::INSTRUCTIONS) {
                "; after the prompt: how to claim completion"
            } else {
                ""
            };
            format!("iteration {iteration} started ({}{again}){instructed}", trigger(*why))
        }
        Record::IterationEnded { iteration, outcome: how, cost_usd, runtime_ms, .. } => format!(
            "iteration {iteration} {}, {cost_usd}, runtime {}",
            outcome(how),
            duration(*runtime_ms)
        ),
        Record::Claimed { claim, .. } if claim.is_automatic() => return None,
        Record::Artefacts { validator, paths, .. } => {
            describe_artefacts(validator.as_deref(), paths)
        }
        Record::Claimed { iteration, claim } => format!(
            "claim ({}, iteration {iteration}): {}",
            claim.detector,
            one_line(&claim.text, 120)
        ),
        Record::Withdrawn { detector } => format!("the {detector} claim is no longer there"),
        Record::Baseline { verdicts, .. } => describe_baseline(verdicts),
        Record::Validated { accepted: true, verdicts, .. } => {
            format!("accepted by {} validators", verdicts.len())
        }
        Record::Validated { reasons, .. } => {
            let reasons: Vec<String> = reasons.iter().map(|reason| one_line(reason, 160)).collect();
            format!("rejected: {}", reasons.join("; "))
        }
        Record::Completed { validated: true, .. } => "COMPLETED".into(),
        Record::Completed { .. } => "COMPLETED WITHOUT validation".into(),
        Record::Waiting { reason, .. } => format!("waiting: {}", one_line(reason, 160)),
        Record::Answered { text } => format!("answer: {}", one_line(text, 160)),
        Record::Stopped { reason, message, .. } => {
            format!("stopped: {} ({})", reason.word(), one_line(message, 160))
        }
        Record::Warning { message } => format!("warning: {}", one_line(message, 200)),
        Record::Cancelling { reason } => format!("ending the agent: {reason:?}"),
        Record::Note { iteration, text } => {
            format!("note (iteration {iteration}): {}", one_line(text, 160))
        }
        Record::Judged { accepted: true, .. } => "the agent was told: would be accepted".into(),
        Record::Judged { reasons, .. } => {
            let reasons: Vec<String> = reasons.iter().map(|reason| one_line(reason, 160)).collect();
            format!("the agent was told: would be rejected: {}", reasons.join("; "))
        }
        Record::AgentChanged { from, to, reason } => {
            format!("{to} takes over from {from}: {}", one_line(reason, 160))
        }
        Record::Tick { .. }
        | Record::Usage { .. }
        | Record::Model { .. }
        | Record::Context { .. }
        | Record::Looked { .. } => return None,
    };
    Some(format!("{:.0}  {text}", entry.time))
}

/// Prints records as they come, until nobody holds the run any more.
fn follow(layout: &Layout, json: bool) -> Result<u8, CommandError> {
    let (mut run, mut printed) = (String::new(), 0);
    loop {
        // First who holds it, then the journal: what was written last is then printed too.
        let held = Lock::holder(layout).is_some();
        let mut entries = Vec::new();
        let found = peek(layout, |entry| entries.push(entry.clone()))?;
        if let Some(found) = &found {
            if run != found.run {
                (run, printed) = (found.run.clone(), 0);
            }
            let new = entries.iter().filter(|entry| entry.seq > printed);
            if json {
                let journal = std::fs::read(layout.journal(&run))?;
                let lines = journal.split_inclusive(|byte| *byte == b'\n');
                let known = usize::try_from(printed).unwrap_or(usize::MAX);
                lines.skip(known).take(new.count()).for_each(output::raw);
            } else {
                new.filter_map(describe).for_each(|line| output::result(&line));
            }
            printed = entries.last().map_or(printed, |entry| entry.seq);
        }
        match found {
            None if !held => {
                return Err(CommandError::user("there is no run in this workspace yet"));
            }
            Some(_) if !held => return Ok(exit::OK),
            _ => wait_for_news(layout, &run),
        }
    }
}

/// Waits until the journal got longer, or nobody holds the run.
fn wait_for_news(layout: &Layout, run: &str) {
    let len = || std::fs::metadata(layout.journal(run)).map(|meta| meta.len()).ok();
    let before = len();
    while len() == before && Lock::holder(layout).is_some() {
        std::thread::sleep(POLL);
    }
}

fn iteration(
    layout: &Layout,
    run: &str,
    number: u64,
    entries: &[Entry],
    args: &Log,
) -> Result<(), CommandError> {
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
    let transcript = transcript::read(layout, run, number)?;
    if args.json {
        output::raw(&transcript);
        return Ok(());
    }
    for line in String::from_utf8_lossy(&transcript).lines() {
        // A line that was being written when the orchestrator was killed is no event.
        let Ok(event) = serde_json::from_str::<Event>(line) else { continue };
        if args.raw {
            if let Event::Raw { line } = event {
                let shown = if output::is_shown() { escape(&line) } else { line };
                output::result(&shown);
            }
            continue;
        }
        match event {
            Event::Text { text } => output::result(&escape(text.trim_end())),
            Event::ToolCall { name, input, .. } => output::result(&tool_line(&name, &input)),
            Event::ToolResult { text, is_error, .. } => {
                let mark = if is_error { "  failed:" } else { "  ->" };
                output::result(&format!("{mark} {}", one_line(&text, 200)));
            }
            Event::Note { text } => output::result(&format!("note: {}", escape(&text))),
            Event::Claim { text, .. } => output::result(&format!("claim: {}", escape(&text))),
            Event::Warning { message } => output::result(&format!("warning: {}", escape(&message))),
            _ => {}
        }
    }
    Ok(())
}
