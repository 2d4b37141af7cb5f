//! Reports a run to people: a few lines for each iteration, more with `--verbose`.

mod controls;
mod iteration;
mod ticker;

use std::io::IsTerminal as _;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use ralph_orchestrator_contract::{ClaimKind, NearMiss, Verdict};
use ralph_orchestrator_engine::{RunEvent, RunObserver};
use ralph_orchestrator_machine::{StopReason, ValidatorVerdict, is_unchecked};
use ralph_orchestrator_store::Layout;
use ralph_orchestrator_story::next_step;
use ralph_orchestrator_story::run_summary::near_miss_reason;
use ralph_orchestrator_story::words::{EVIDENCE_ONLY, cost, describe_execution};
use ralph_orchestrator_terminal::activity::Activity;
use ralph_orchestrator_terminal::output;
use ralph_orchestrator_terminal::size::{has_cursor, stderr_width};
use ralph_orchestrator_text::{count, duration, escape, fold, one_line};

use super::live::{LiveActivity, LiveLine};
use super::summary;

/// However much happens, the live line is drawn no more often.
const REDRAW: Duration = Duration::from_millis(200);

/// Prints a run for people, on stderr; its last line, the result, on stdout.
pub(crate) struct HumanReporter {
    verbose: bool,
    colour: bool,
    /// The command that invokes this program for the run's configuration; none where the run is that of an item of
    /// a backlog, after which the next item follows.
    program: Option<String>,
    /// What lines begin with where several runs go on at once; else nothing.
    label: String,
    state: Mutex<ReporterState>,
}

struct ReporterState {
    /// A live line is possible.
    has_line: bool,
    last_draw: Instant,
    live: LiveLine,
    /// Where the state lies.
    layout: Option<Layout>,
    /// The agent's text ended in the middle of a line.
    open_line: bool,
}

const BOLD: &str = "1";
const RED: &str = "31";
const GREEN: &str = "32";
const YELLOW: &str = "33";
const DIM: &str = "2";

impl HumanReporter {
    /// Returns a reporter. On a terminal, a live line shows the current activity.
    pub(crate) fn watching(verbose: bool, program: Option<&str>) -> Arc<Self> {
        let reporter = Arc::new(Self::new(verbose, program));
        if reporter.state.lock().is_ok_and(|state| state.has_line) {
            ticker::start(&reporter);
        }
        reporter
    }

    fn new(verbose: bool, program: Option<&str>) -> Self {
        let now = Instant::now();
        let state = ReporterState {
            has_line: std::io::stderr().is_terminal()
                && has_cursor()
                && !verbose
                && !output::is_plain(),
            last_draw: now,
            live: LiveLine::new(now),
            layout: None,
            open_line: false,
        };
        let (colour, program) = (output::has_colour(), program.map(str::to_owned));
        Self { verbose, colour, program, label: String::new(), state: Mutex::new(state) }
    }

    /// Returns a reporter of one of several runs that go on at once: it has no live line.
    pub(crate) fn of_lane(verbose: bool, label: &str) -> Self {
        let mut reporter = Self::new(verbose, None);
        reporter.label = format!("[{label}] ");
        if let Ok(state) = reporter.state.get_mut() {
            state.has_line = false;
        }
        reporter
    }

    fn paint(&self, code: &str, text: &str) -> String {
        if self.colour && !code.is_empty() {
            format!("\x1b[{code}m{text}\x1b[0m")
        } else {
            text.to_owned()
        }
    }

    /// Prints a line of `head`, in this colour, and `tail`; on a terminal it is folded to its width.
    fn line(&self, state: &mut ReporterState, code: &str, head: &str, tail: &str) {
        if std::mem::take(&mut state.open_line) {
            output::info("");
        }
        let text = format!("{head}{tail}");
        let indent = 2 + text.chars().take_while(|c| *c == ' ').count();
        let mut left = head.chars().count();
        let mut indented = 0;
        for piece in fold(&text, indent, stderr_width().unwrap_or(usize::MAX)) {
            let split = if left == 0 { 0 } else { left + indented };
            let painted: String = piece.chars().take(split).collect();
            let plain: String = piece.chars().skip(split).collect();
            // The space at which it was folded is in neither piece, the indentation was not in the text.
            left = left.saturating_sub((piece.chars().count() + 1).saturating_sub(indented));
            indented = indent;
            let painted = if painted.is_empty() { painted } else { self.paint(code, &painted) };
            output::info(&format!("{}{painted}{plain}", self.label));
        }
    }

    /// Prints a text with its own line breaks.
    fn block(&self, state: &mut ReporterState, code: &str, head: &str, text: &str) {
        let text = escape(text);
        let mut lines = text.trim_end().lines();
        self.line(state, code, head, lines.next().unwrap_or_default());
        for line in lines {
            self.line(state, "", "      ", line);
        }
    }

    /// Draws the live line, at most every [`REDRAW`].
    fn refresh(&self, state: &mut ReporterState) {
        if state.last_draw.elapsed() >= REDRAW {
            self.draw(state);
        }
    }

    /// Draws the live line, if there is an activity.
    fn draw(&self, state: &mut ReporterState) {
        if !state.has_line {
            return;
        }
        let now = Instant::now();
        let Some(width) = stderr_width() else { return };
        state.last_draw = now;
        output::set_live_line(
            state.live.line(width, now).map(|line| self.paint(DIM, &line)).as_deref(),
        );
    }

    fn verdicts(&self, state: &mut ReporterState, verdicts: &[ValidatorVerdict]) {
        for named in verdicts {
            let optional = if named.required { "" } else { " (not required)" };
            let name = &named.validator;
            let time = describe_execution(named);
            match &named.verdict {
                Verdict::Accepted { summary, .. } => {
                    let tail = format!("{optional}: {} ({time})", one_line(summary, 160));
                    self.line(state, GREEN, &format!("  accepted by {name}"), &tail);
                }
                Verdict::Rejected { reasons } => {
                    let tail = format!("{optional} ({time}):");
                    self.line(state, RED, &format!("  rejected by {name}"), &tail);
                    for reason in reasons {
                        self.block(state, "", "    - ", reason);
                    }
                }
                Verdict::Error { message } => {
                    let head = format!("  no verdict by {name}{optional}: ");
                    self.block(state, RED, &head, message);
                }
            }
        }
    }

    /// Prints the verdict of a check on the unchanged workspace. Only one that rejects it proves anything later.
    fn baseline(&self, state: &mut ReporterState, named: &ValidatorVerdict) {
        let (name, time) = (&named.validator, describe_execution(named));
        match &named.verdict {
            Verdict::Accepted { .. } => {
                let text = format!("  baseline: {name} accepts the unchanged workspace ({time})");
                self.line(state, YELLOW, &text, "");
            }
            Verdict::Rejected { .. } => {
                let text = format!(
                    "  baseline: {name} rejects the unchanged workspace, as it should ({time})"
                );
                self.line(state, DIM, &text, "");
            }
            Verdict::Error { message } => {
                self.block(state, RED, &format!("  baseline: no verdict by {name}: "), message);
            }
        }
    }

    fn finished(&self, state: &mut ReporterState, run: &str, notice: &RunEvent) {
        let RunEvent::RunFinished {
            stop_reason,
            message,
            validated,
            evidence_only,
            iterations,
            cost_usd,
            cost_estimated,
            cost_reported,
            runtime_ms,
            agent_changed,
            ..
        } = notice
        else {
            return;
        };
        state.live.begin(LiveActivity::Nothing);
        let about = if *cost_estimated { "about " } else { "" };
        let cost = cost_usd.filter(|_| *cost_reported);
        let cost = cost.map_or_else(String::new, |cost| format!("{about}{cost}, "));
        let by = agent_changed
            .as_ref()
            .map(|change| format!(", by {} instead of {}", change.to, change.from));
        let by = by.unwrap_or_default();
        let iterations = count(*iterations, "iteration");
        let figures = format!("{iterations}, {cost}{}{by}", duration(*runtime_ms));
        let text = match stop_reason {
            StopReason::Completed if *validated && *evidence_only => {
                format!("completed: {figures}; {EVIDENCE_ONLY}")
            }
            StopReason::Completed if *validated => format!("completed: {figures}"),
            StopReason::Completed => format!("completed WITHOUT validation: {figures}"),
            other => {
                // The message may begin with the same word.
                let rest = message.strip_prefix(other.word()).unwrap_or(message);
                let rest = one_line(rest.trim_start_matches([';', ':', ' ']), 400);
                format!("{}: {rest} ({figures})", other.word())
            }
        };
        let code = if *stop_reason == StopReason::Completed { GREEN } else { YELLOW };
        // Results may go elsewhere than to the terminal.
        let is_shown = output::is_stdout_terminal();
        let text = if is_shown { self.paint(code, &text) } else { text };
        output::result_folded(&format!("{}{text}", self.label), 2);
        if let (StopReason::Completed, Some(note)) =
            (stop_reason, message.strip_prefix("validated, "))
        {
            self.line(state, YELLOW, &format!("  {note}"), "");
        }
        if let Some(layout) = state.layout.as_ref().filter(|_| self.label.is_empty()) {
            summary::print(layout, run);
        }
        if let (StopReason::Completed, Some(program)) = (stop_reason, &self.program) {
            let restart = next_step::restart(program);
            let next = format!("  next        review the changes; {restart}");
            self.line(state, "", &next, "");
        }
    }
}

impl HumanReporter {
    fn run(&self, state: &mut ReporterState, run: &str, notice: &RunEvent) {
        let head = format!("run {run}");
        match notice {
            RunEvent::RunStarted {
                agent,
                workspace,
                state_dir,
                max_runtime_ms,
                max_cost_usd,
                ..
            } => {
                state.layout = Some(Layout::new(state_dir.clone()));
                (state.live.max_runtime_ms, state.live.max_cost) = (*max_runtime_ms, *max_cost_usd);
                state.live.set_runtime(0);
                state.live.begin(LiveActivity::Scanning);
                self.line(state, BOLD, &head, &format!(": {agent} in {}", workspace.display()));
                self.policy(state, notice);
            }
            RunEvent::RunResumed {
                agent,
                state_dir,
                iterations,
                cost_usd,
                cost_reported,
                tokens,
                runtime_ms,
                max_runtime_ms,
                max_cost_usd,
                ..
            } => {
                state.layout = Some(Layout::new(state_dir.clone()));
                (state.live.max_runtime_ms, state.live.max_cost) = (*max_runtime_ms, *max_cost_usd);
                state.live.tokens = *tokens;
                (state.live.charged, state.live.cost_reported) = (*cost_usd, *cost_reported);
                state.live.set_runtime(*runtime_ms);
                state.live.begin(LiveActivity::Scanning);
                let so_far = [
                    count(*iterations, "iteration"),
                    duration(*runtime_ms),
                    cost(*cost_usd, *cost_reported, false),
                ];
                let tail = format!(" resumed after {}: {agent}", so_far.join(", "));
                self.line(state, BOLD, &head, &tail);
            }
            RunEvent::AgentChanged { from, to, reason, .. } => {
                let text = format!("  {to} takes over from {from}: {}", one_line(reason, 300));
                self.line(state, YELLOW, &text, "");
            }
            _ => self.finished(state, run, notice),
        }
    }

    /// Prints what a completion requires.
    fn policy(&self, state: &mut ReporterState, notice: &RunEvent) {
        let RunEvent::RunStarted { validators, validation_required, evidence_only, .. } = notice
        else {
            return;
        };
        if *validation_required {
            let text = format!("  completion requires: {}", validators.join(", "));
            self.line(state, "", &text, "");
            if *evidence_only {
                self.line(state, YELLOW, &format!("  completion is proved {EVIDENCE_ONLY}"), "");
            }
        } else {
            let text = "  completion is NOT validated: the agent's claim is trusted";
            self.line(state, YELLOW, text, "");
        }
    }

    fn near_miss(&self, state: &mut ReporterState, near_miss: &NearMiss) {
        let (line, text) = (near_miss.line, one_line(&near_miss.text, 80));
        let text = format!("  near miss, not a valid claim (line {line}): {text}");
        self.line(state, "", &text, "");
        let reason = one_line(&near_miss_reason(near_miss), 200);
        self.line(state, "", &format!("    {reason}"), "");
    }

    fn completion(&self, state: &mut ReporterState, notice: &RunEvent) {
        match notice {
            RunEvent::Claim { claim, .. } => {
                let what = match claim.kind {
                    ClaimKind::Complete => "claims completion",
                    ClaimKind::NeedsHuman => "asks for a human",
                };
                let text = one_line(&claim.text, 200);
                self.line(state, "", &format!("  {what} ({}): {text}", claim.detector), "");
            }
            RunEvent::NearMiss { near_miss, .. } => self.near_miss(state, near_miss),
            RunEvent::Validating { validators, .. } => {
                state.live.begin(LiveActivity::Validating(validators.join(", ")));
                self.refresh(state);
            }
            RunEvent::Previewed { accepted: true, .. } => {
                state.live.begin(LiveActivity::Working(String::new()));
                self.line(state, GREEN, "  in-session validation: the claim would be accepted", "");
            }
            RunEvent::Previewed { reasons, .. } => {
                state.live.begin(LiveActivity::Working(String::new()));
                let text = "  in-session validation: the claim would be rejected:";
                self.line(state, YELLOW, text, "");
                for reason in reasons {
                    self.block(state, "", "    - ", reason);
                }
            }
            RunEvent::Baseline { verdicts, .. } => {
                state.live.begin(LiveActivity::Scanning);
                for named in verdicts {
                    self.baseline(state, named);
                }
            }
            RunEvent::Artefacts { validator, paths, .. } => {
                let whom = validator.as_deref().unwrap_or("a validator");
                let paths = one_line(&paths.join(", "), 160);
                self.line(
                    state,
                    "",
                    &format!("  artefacts of {whom}: {paths} (not part of the work)"),
                    "",
                );
            }
            RunEvent::Explaining { .. } => {
                state.live.begin(LiveActivity::Explaining);
                self.refresh(state);
            }
            // The summary at the end says it.
            RunEvent::Explained { .. } => state.live.begin(LiveActivity::Scanning),
            RunEvent::Verdict { verdicts, accepted, reasons, stagnant, max_stagnant, .. } => {
                state.live.begin(LiveActivity::Scanning);
                self.verdicts(state, verdicts);
                if !accepted {
                    self.rejected(state, verdicts, reasons);
                    if let Some(count) = describe_stagnation(*stagnant, *max_stagnant) {
                        self.line(state, YELLOW, &format!("  {count}"), "");
                    }
                }
            }
            _ => {}
        }
    }

    /// Prints reasons that belong to no verdict: about the workspace and protected paths.
    fn rejected(
        &self,
        state: &mut ReporterState,
        verdicts: &[ValidatorVerdict],
        reasons: &[String],
    ) {
        let said = |reason: &&String| {
            verdicts.iter().any(|named| {
                reason.strip_prefix(&named.validator).is_some_and(|r| r.starts_with(':'))
            })
        };
        let label = if is_unchecked(verdicts, reasons) { "not checked" } else { "rejected" };
        for reason in reasons.iter().filter(|reason| !said(reason)) {
            self.block(state, RED, &format!("  {label}: "), reason);
        }
    }
}

impl RunObserver for HumanReporter {
    fn on_event(&self, run: &str, notice: &RunEvent) {
        Activity::update(notice);
        let mut guard = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let state = &mut *guard;
        match notice {
            RunEvent::RunStarted { .. }
            | RunEvent::RunResumed { .. }
            | RunEvent::AgentChanged { .. }
            | RunEvent::RunFinished { .. } => {
                self.run(state, run, notice);
            }
            RunEvent::IterationStarted { .. }
            | RunEvent::IterationFinished { .. }
            | RunEvent::Changes { .. }
            | RunEvent::Saved { .. }
            | RunEvent::Paused { .. }
            | RunEvent::Waiting { .. } => self.iteration(state, notice),
            RunEvent::AgentText { .. }
            | RunEvent::AgentTool { .. }
            | RunEvent::AgentEvent { .. }
            | RunEvent::Context { .. }
            | RunEvent::Note { .. }
            | RunEvent::Usage { .. } => self.agent(state, notice),
            RunEvent::Claim { .. }
            | RunEvent::NearMiss { .. }
            | RunEvent::Validating { .. }
            | RunEvent::Previewed { .. }
            | RunEvent::Verdict { .. }
            | RunEvent::Explaining { .. }
            | RunEvent::Explained { .. }
            | RunEvent::Artefacts { .. }
            | RunEvent::Baseline { .. } => self.completion(state, notice),
            RunEvent::ControlReceived { .. }
            | RunEvent::GuidanceDelivered { .. }
            | RunEvent::PauseBegan { .. } => {
                self.control(state, notice);
            }
            RunEvent::SetupStarted { command, .. } => {
                state.live.begin(LiveActivity::SettingUp(command.clone()));
                self.refresh(state);
            }
            RunEvent::Warning { message, .. } => {
                let text = format!("  warning: {}", one_line(message, 400));
                self.line(state, YELLOW, &text, "");
            }
        }
    }
}

/// Says how far the run is from `limits.max_stagnant`, such as `4 of 10 without progress`.
fn describe_stagnation(count: u32, max: Option<u32>) -> Option<String> {
    let of = max.map(|max| format!(" of {max}")).unwrap_or_default();
    (count > 0).then(|| format!("{count}{of} without progress"))
}
