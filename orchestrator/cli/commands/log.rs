//! `log`

use std::path::Path;

use orchestrator::contract::Event;
use orchestrator::machine::Record;
use orchestrator::state::{Entry, Layout, peek};

use crate::args::Log;
use crate::context::Context;
use crate::error::{CommandError, exit};
use crate::output;
use crate::render::text::{duration, escape, one_line, outcome, tool_line, trigger};

pub(crate) fn log(file: &Path, args: &Log) -> Result<u8, CommandError> {
    let layout = Context::with(file, &args.sets)?.layout()?;
    let mut entries = Vec::new();
    let Some(found) = peek(&layout, |entry| entries.push(entry.clone()))? else {
        return Err(CommandError::user("there is no run in this workspace yet"));
    };
    if let Some(number) = args.iteration {
        let started = |entry: &Entry| matches!(&entry.record, Record::IterationStarted { iteration, .. } if *iteration == number);
        if !entries.iter().any(started) {
            let message = format!("run {} has no iteration {number}", found.run);
            return Err(CommandError::user(message).hinted("`log` without a number lists them"));
        }
        iteration(&layout, &found.run, number, args)?;
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

/// A record in one line, if people care about it.
fn describe(entry: &Entry) -> Option<String> {
    let text = match &entry.record {
        Record::RunStarted(started) => {
            format!("run started with {} in {}", started.agent, started.workspace)
        }
        Record::RunResumed { agent, .. } => format!("run resumed with {agent}"),
        Record::IterationStarted { iteration, attempt, trigger: why, .. } => {
            let again = if *attempt > 1 { format!(", attempt {attempt}") } else { String::new() };
            format!("iteration {iteration} started ({}{again})", trigger(*why))
        }
        Record::IterationEnded { iteration, outcome: how, cost_usd, runtime_ms, .. } => format!(
            "iteration {iteration} {}, {cost_usd}, runtime {}",
            outcome(how),
            duration(*runtime_ms)
        ),
        Record::Claimed { iteration, claim } => format!(
            "claim ({}, iteration {iteration}): {}",
            claim.detector,
            one_line(&claim.text, 120)
        ),
        Record::Withdrawn { detector } => format!("the {detector} claim is no longer there"),
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
        Record::Tick { .. } | Record::Usage { .. } | Record::Looked { .. } => return None,
    };
    Some(format!("{:.0}  {text}", entry.time))
}

fn iteration(layout: &Layout, run: &str, number: u64, args: &Log) -> Result<(), CommandError> {
    if args.prompt {
        let Some(kept) = layout.kept_prompt(run, number) else {
            return Err(CommandError::user(format!(
                "the prompt of iteration {number} was not kept"
            )));
        };
        output::raw(&std::fs::read(kept)?);
        return Ok(());
    }
    // Without a file nothing was printed.
    let transcript = match std::fs::read(layout.iteration(run, number).join("transcript.jsonl")) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Vec::new(),
        read => read?,
    };
    if args.json {
        output::raw(&transcript);
        return Ok(());
    }
    for line in String::from_utf8_lossy(&transcript).lines() {
        // A line that was being written when the orchestrator was killed is no event.
        let Ok(event) = serde_json::from_str::<Event>(line) else { continue };
        match event {
            Event::Text { text } => output::result(&escape(text.trim_end())),
            Event::ToolCall { name, input, .. } => output::result(&tool_line(&name, &input)),
            Event::ToolResult { text, is_error, .. } => {
                let mark = if is_error { "  failed:" } else { "  ->" };
                output::result(&format!("{mark} {}", one_line(&text, 200)));
            }
            Event::Warning { message } => output::result(&format!("warning: {}", escape(&message))),
            _ => {}
        }
    }
    Ok(())
}
