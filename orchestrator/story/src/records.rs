//! Formats records of the journal for people.

use ralph_orchestrator_contract::{CancelReason, Claim, ClaimKind, Usd, Verdict};
use ralph_orchestrator_machine::{
    Changes, Control, ControlOrigin, HookCommand, HookEvent, LaunchDigests, Record, StopReason,
    ValidatorVerdict, is_unchecked,
};
use ralph_orchestrator_store::JournalEntry;
use ralph_orchestrator_text::{
    count, duration, escape, escape_line, fold, len, local, local_clock, one_line, timestamp,
};

use crate::words::{
    changed_files, changes, control, cost, describe_guidance, describe_tests, outcome, saved,
    trigger,
};

/// Changed files that are named.
const MOST_FILES: usize = 5;
/// Narrower terminals get the time of the day only.
const FULL_TIME: usize = 60;
const TIME_INDENT: usize = 10;

/// Formats the records of a run, one after the other.
pub struct RecordFormatter {
    /// Columns to fold lines at.
    width: Option<usize>,
    agent: String,
    /// Runtime of the run when the last attempt at an iteration began, in milliseconds.
    began_ms: u64,
    /// What the run has cost so far, and whether any of it was reported.
    cost_usd: Usd,
    is_cost_reported: bool,
    /// That how to claim follows the prompt was said.
    is_instructed: bool,
    /// Reasons of rejections are whole, each below the line of the record.
    has_whole_reasons: bool,
}

impl RecordFormatter {
    /// Returns the formatter of a run's records, whose lines fit this width.
    pub fn new(width: Option<usize>) -> Self {
        Self {
            width,
            agent: String::new(),
            began_ms: 0,
            cost_usd: Usd::ZERO,
            is_cost_reported: false,
            is_instructed: false,
            has_whole_reasons: false,
        }
    }

    /// Formats the reasons of rejections whole, as the next iteration is given them.
    pub const fn with_whole_reasons(mut self) -> Self {
        self.has_whole_reasons = true;
        self
    }

    /// The lines for the next record; none if people do not care about it.
    pub fn lines(&mut self, entry: &JournalEntry) -> Vec<String> {
        let Some(text) = self.text(entry) else { return Vec::new() };
        let time = match self.width {
            Some(width) if width < FULL_TIME => local_clock(entry.time),
            _ => local(entry.time),
        };
        let width = self.width.unwrap_or(usize::MAX);
        let mut lines = text.lines();
        let first = format!("{time}  {}", lines.next().unwrap_or_default());
        let mut folded = fold(&first, TIME_INDENT, width);
        lines.for_each(|line| folded.extend(fold(line, TIME_INDENT, width)));
        folded
    }

    /// The text of the next record, without its time; `None` if people do not care about it.
    pub fn text(&mut self, entry: &JournalEntry) -> Option<String> {
        self.add(&entry.record);
        self.describe(&entry.record)
    }

    /// Passes over the next record: the lines of later ones are as if it had been formatted.
    pub fn skip(&mut self, record: &Record) {
        self.add(record);
        if let Record::IterationStarted { given, .. } = record {
            self.is_instructed |= given.contains_key(LaunchDigests::INSTRUCTIONS);
        }
    }

    /// Takes from a record what the lines of later ones need: no more, whatever the run's length.
    fn add(&mut self, record: &Record) {
        match record {
            Record::RunStarted(started) => self.agent.clone_from(&started.agent),
            Record::RunResumed { agent, .. } | Record::AgentChanged { to: agent, .. } => {
                self.agent.clone_from(agent);
            }
            Record::IterationStarted { runtime_ms, .. } => self.began_ms = *runtime_ms,
            Record::IterationEnded { usage, cost_usd, .. }
            | Record::ReviewEnded { usage, cost_usd, .. } => {
                self.cost_usd += *cost_usd;
                self.is_cost_reported |= usage.cost.is_some();
            }
            _ => {}
        }
    }

    fn describe(&mut self, record: &Record) -> Option<String> {
        Some(match record {
            Record::RunStarted(started) => {
                format!("run started with {} in {}", started.agent, started.workspace)
            }
            Record::TaskChanged { .. } => "a person changed the prompt".into(),
            Record::WorkspaceMade { .. } => "workspace created again from its template".into(),
            Record::RunResumed { agent, .. } => format!("run resumed with {agent}"),
            Record::IterationStarted { .. } => self.started(record)?,
            Record::Artefacts { validator, paths, .. } => {
                describe_artefacts(validator.as_deref(), paths)
            }
            Record::Claimed { claim, .. } if claim.is_automatic() => return None,
            Record::IterationEnded { .. } => self.ended(record)?,
            Record::Observed { iteration, changes: Some(changed), .. } => {
                describe_changes(*iteration, changed)
            }
            Record::Saved { iteration, checkpoint, commit, .. } => {
                describe_saved(*iteration, checkpoint.as_deref(), commit.as_deref())?
            }
            Record::Claimed { iteration, claim } => describe_claim(*iteration, claim),
            Record::MarkerRemoved { detector } => describe_removed(detector),
            Record::SetupFinished { iteration, problem: Some(problem), .. } => {
                describe_setup(*iteration, problem)
            }
            Record::HookFinished { event, commands, .. } => describe_hook(*event, commands),
            Record::ReviewEnded { .. } => describe_review(record)?,
            Record::Baseline { verdicts, .. } => describe_baseline(verdicts),
            Record::Validated { accepted: true, verdicts, .. } => describe_accepted(verdicts),
            Record::Validated { verdicts, reasons, .. } => self.rejected(verdicts, reasons),
            Record::Completed { validated, .. } => describe_completion(*validated),
            Record::Explained { summary, .. } => format!("made green: {}", escape_line(summary)),
            Record::Waiting { until_ms, reason, .. } => {
                format!("waiting: {}{}", one_line(reason, 160), until(*until_ms))
            }
            Record::Answered { text, origin } => describe_answer(text, origin.as_ref()),
            Record::ControlReceived { origin, control: received, refused } => {
                control(origin, received, refused.as_deref())
            }
            Record::GuidanceDelivered { ids, .. } => describe_guidance(ids.len()),
            Record::Paused { .. } => "paused".into(),
            Record::Stopped { reason, message, .. } => describe_stop(*reason, message),
            Record::Warning { message } => format!("warning: {}", one_line(message, 200)),
            Record::Cancelling { reason, is_hangup } => describe_cancelling(*reason, *is_hangup),
            Record::Note { iteration, text } => {
                format!("note (iteration {iteration}): {}", one_line(text, 160))
            }
            Record::Previewed { accepted, reasons, .. } => describe_preview(*accepted, reasons),
            Record::AgentChanged { from, to, reason, .. } => describe_takeover(from, to, reason),
            Record::Initialized { iteration } => describe_initialized(*iteration),
            Record::ProductsMissing { missing, .. } => describe_missing(missing),
            Record::Clock { .. }
            | Record::ReviewStarted { .. }
            | Record::Usage { .. }
            | Record::SetupStarted { .. }
            | Record::SetupFinished { problem: None, .. }
            | Record::Model { .. }
            | Record::Context { .. }
            | Record::RateWindow(_)
            | Record::Observed { changes: None, .. } => return None,
        })
    }

    /// Formats the reasons of a rejection: whole, one on a line, or shortened.
    fn rejected(&self, verdicts: &[ValidatorVerdict], reasons: &[String]) -> String {
        let word = if is_unchecked(verdicts, reasons) { "not checked" } else { "rejected" };
        let word = format!("{word}{}", describe_verdict_tests(verdicts));
        if !self.has_whole_reasons {
            return format!("{word}: {}", joined(reasons));
        }
        let list = reasons.iter().map(|reason| escape(reason).replace('\n', "\n    "));
        list.fold(format!("{word}:"), |list, reason| format!("{list}\n  - {reason}"))
    }

    /// Formats the start of an iteration. Claim instructions are mentioned once.
    fn started(&mut self, record: &Record) -> Option<String> {
        let Record::IterationStarted {
            iteration,
            attempt,
            trigger: why,
            given,
            role,
            prompt_file,
            controls,
            ..
        } = record
        else {
            return None;
        };
        let again = if *attempt > 1 { format!(", attempt {attempt}") } else { String::new() };
        let is_instructed = given.contains_key(LaunchDigests::INSTRUCTIONS);
        let is_news = is_instructed && !std::mem::replace(&mut self.is_instructed, true);
        let instructed = if is_news { "; claim instructions after the prompt" } else { "" };
        let role = role.as_ref().map_or_else(String::new, |role| {
            let file = prompt_file.as_deref().unwrap_or_default();
            format!(" as {role}, prompt {}", one_line(file, 200))
        });
        let guided = match len(controls) {
            0 => String::new(),
            count_of => format!("; given {}", count(count_of, "message")),
        };
        let why = trigger(*why);
        Some(format!("iteration {iteration} started ({why}{again}){role}{instructed}{guided}"))
    }

    /// How an iteration ended, what it took, and what the run has taken so far.
    fn ended(&self, record: &Record) -> Option<String> {
        let Record::IterationEnded { iteration, outcome: how, usage, cost_usd, runtime_ms, .. } =
            record
        else {
            return None;
        };
        // Attempts before this one have lines of their own.
        let time = runtime_ms.saturating_sub(self.began_ms);
        let own = cost(*cost_usd, usage.cost.is_some(), usage.estimated);
        let total =
            if self.is_cost_reported { format!(", {}", self.cost_usd) } else { String::new() };
        Some(format!(
            "iteration {iteration} {}: {}, {}, {own} (run so far: {}{total})",
            outcome(how),
            self.agent,
            duration(time),
            duration(*runtime_ms)
        ))
    }
}

fn describe_completion(is_validated: bool) -> String {
    if is_validated { "COMPLETED".to_owned() } else { "COMPLETED WITHOUT validation".to_owned() }
}

fn describe_stop(reason: StopReason, message: &str) -> String {
    format!("stopped: {} ({})", reason.word(), one_line(message, 160))
}

/// Formats how the commands of the user for an event ended, with what those printed that failed.
fn describe_takeover(from: &str, to: &str, reason: &str) -> String {
    format!("{to} takes over from {from}: {}", one_line(reason, 160))
}

fn describe_review(record: &Record) -> Option<String> {
    let Record::ReviewEnded { validator, agent, usage, cost_usd, .. } = record else { return None };
    let own = cost(*cost_usd, usage.cost.is_some(), usage.estimated);
    Some(format!("reviewed by {} ({}): {own}", escape_line(agent), escape_line(validator)))
}

fn describe_hook(event: HookEvent, commands: &[HookCommand]) -> String {
    let named = |command: &HookCommand| {
        let name = one_line(&command.command, 80);
        let attempts = match command.attempts {
            0 | 1 => String::new(),
            more => format!(", {more} attempts"),
        };
        match &command.problem {
            Some(problem) => format!("`{name}` {}{attempts}", one_line(problem, 200)),
            None => format!("`{name}` succeeded{attempts}"),
        }
    };
    let named: Vec<String> = commands.iter().map(named).collect();
    format!("{}: {}", event.word(), named.join("; "))
}

fn describe_answer(text: &str, origin: Option<&ControlOrigin>) -> String {
    match origin {
        Some(origin) => control(origin, &Control::Answer { text: text.to_owned() }, None),
        None => format!("answer: {}", one_line(text, 160)),
    }
}

fn describe_removed(detector: &str) -> String {
    format!("the claim found by {detector} was removed")
}

fn describe_changes(iteration: u64, changed: &Changes) -> String {
    let files = changed_files(changed, MOST_FILES).join(", ");
    let files = if files.is_empty() { files } else { format!(": {files}") };
    format!("iteration {iteration} changed {}{files}", changes(changed))
}

fn describe_claim(iteration: u64, claim: &Claim) -> String {
    let text = one_line(&claim.text, 120);
    let what = match claim.kind {
        ClaimKind::Complete => "claim",
        ClaimKind::NeedsHuman => "question",
    };
    format!("{what} ({}, iteration {iteration}): {text}", claim.detector)
}

fn describe_setup(iteration: u64, problem: &str) -> String {
    let line = problem.lines().next().unwrap_or_default();
    format!("setup before iteration {iteration} failed: {}", one_line(line, 160))
}

fn describe_cancelling(reason: CancelReason, is_hangup: bool) -> String {
    match reason {
        _ if is_hangup => "the terminal was closed (SIGHUP)".to_owned(),
        CancelReason::Signal => "stop requested".to_owned(),
        CancelReason::Pause => "stopping the agent for a pause".to_owned(),
        CancelReason::Handoff => {
            "hand-off: stopping the agent before its context is full".to_owned()
        }
        reason => format!("stopping the agent: {} reached", reason.cause()),
    }
}

/// What was stored of an iteration, if anything was; a problem has a warning of its own.
fn describe_saved(
    iteration: u64,
    checkpoint: Option<&str>,
    commit: Option<&str>,
) -> Option<String> {
    let stored = saved(checkpoint, commit);
    let of = match iteration {
        0 => "the run's start".to_owned(),
        iteration => format!("iteration {iteration}"),
    };
    (!stored.is_empty()).then(|| format!("{stored} of {of}"))
}

fn until(until_ms: u64) -> String {
    timestamp(until_ms).map(|time| format!(" (until {})", local(time))).unwrap_or_default()
}

fn joined(reasons: &[String]) -> String {
    let reasons: Vec<String> = reasons.iter().map(|reason| one_line(reason, 160)).collect();
    reasons.join("; ")
}

fn describe_preview(accepted: bool, reasons: &[String]) -> String {
    if accepted {
        return "in-session validation: would be accepted".to_owned();
    }
    format!("in-session validation: would be rejected: {}", joined(reasons))
}

fn describe_initialized(iteration: u64) -> String {
    match iteration {
        0 => "the initializer's products are there already".to_owned(),
        iteration => format!("initialized in iteration {iteration}"),
    }
}

fn describe_missing(missing: &[String]) -> String {
    format!("the initializer left products missing: {}", joined(missing))
}

fn describe_accepted(verdicts: &[ValidatorVerdict]) -> String {
    let tests = describe_verdict_tests(verdicts);
    format!("accepted by {}{tests}", count(len(verdicts), "validator"))
}

fn describe_verdict_tests(verdicts: &[ValidatorVerdict]) -> String {
    describe_tests(verdicts.iter().filter_map(|named| Some((&named.validator, named.tests?))))
}

/// What validators left, in one line.
fn describe_artefacts(validator: Option<&str>, paths: &[String]) -> String {
    let whom = validator.map_or_else(|| "a validator".to_owned(), |name| format!("`{name}`"));
    format!("artefacts of {whom}: {} (not part of the work)", one_line(&paths.join(", "), 160))
}

fn describe_baseline(verdicts: &[ValidatorVerdict]) -> String {
    let each = verdicts.iter().map(|named| match named.verdict {
        Verdict::Accepted { .. } => format!("accepted by {}", named.validator),
        Verdict::Rejected { .. } => format!("rejected by {}, as it should be", named.validator),
        Verdict::Error { .. } => format!("no verdict by {}", named.validator),
    });
    format!("baseline: {}{}", each.collect::<Vec<_>>().join("; "), describe_verdict_tests(verdicts))
}
