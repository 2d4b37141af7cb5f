//! What people see: one line per iteration and verdict, more with `--verbose`.

use std::io::IsTerminal as _;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use orchestrator::contract::{ClaimKind, Event, Usage, Usd, Verdict};
use orchestrator::engine::{Notice, Observer};
use orchestrator::machine::{NamedVerdict, Outcome, StopReason};

use super::text::{
    EVIDENCE_ONLY, duration, escape, fullness, one_line, outcome, tool_line, trigger,
};
use crate::output;

const REDRAW: Duration = Duration::from_millis(200);
const EVERY: Duration = Duration::from_secs(1);

/// Prints a run for people, on stderr; its last line, the result, on stdout.
pub(crate) struct Human {
    verbose: bool,
    colour: bool,
    view: Mutex<View>,
}

struct View {
    /// A progress line is possible.
    terminal: bool,
    /// It is there now.
    drawn: bool,
    /// The iteration that goes on, or whose claim is validated.
    busy: Option<u64>,
    last_draw: Instant,
    began: Instant,
    agent: String,
    usage: Usage,
    /// How full the context is, in words.
    context: String,
    doing: String,
    /// The agent's text ended in the middle of a line.
    open_line: bool,
}

const BOLD: &str = "1";
const RED: &str = "31";
const GREEN: &str = "32";
const YELLOW: &str = "33";
const DIM: &str = "2";

impl Human {
    /// Ready to watch a run. On a terminal, a line shows every second how it goes on.
    pub(crate) fn watching(verbose: bool) -> Arc<Self> {
        let human = Arc::new(Self::new(verbose));
        if human.view.lock().is_ok_and(|view| view.terminal) {
            let watched = Arc::downgrade(&human);
            std::thread::spawn(move || {
                while let Some(human) = watched.upgrade() {
                    let mut view = human.view.lock().unwrap_or_else(PoisonError::into_inner);
                    if let Some(iteration) = view.busy {
                        human.progress(&mut view, iteration);
                    }
                    drop(view);
                    drop(human);
                    std::thread::sleep(EVERY);
                }
            });
        }
        human
    }

    fn new(verbose: bool) -> Self {
        let now = Instant::now();
        let view = View {
            terminal: std::io::stderr().is_terminal() && !verbose,
            drawn: false,
            busy: None,
            last_draw: now,
            began: now,
            agent: String::new(),
            usage: Usage::default(),
            context: String::new(),
            doing: String::new(),
            open_line: false,
        };
        Self { verbose, colour: output::colour(), view: Mutex::new(view) }
    }

    fn paint(&self, code: &str, text: &str) -> String {
        if self.colour { format!("\x1b[{code}m{text}\x1b[0m") } else { text.to_owned() }
    }

    fn line(&self, view: &mut View, text: &str) {
        if std::mem::take(&mut view.drawn) {
            output::say_part("\r\x1b[K");
        }
        if std::mem::take(&mut view.open_line) {
            output::say("");
        }
        output::say(text);
    }

    fn progress(&self, view: &mut View, iteration: u64) {
        if !view.terminal || view.last_draw.elapsed() < REDRAW {
            return;
        }
        view.last_draw = Instant::now();
        view.drawn = true;
        let elapsed = duration(u64::try_from(view.began.elapsed().as_millis()).unwrap_or(u64::MAX));
        let cost = view.usage.cost.map(|cost| format!("  {cost}")).unwrap_or_default();
        let context = &view.context;
        let doing = one_line(&view.doing, 60);
        let text = format!("  {iteration}  {elapsed}{cost}{context}  {doing}");
        output::say_part(&format!("\r\x1b[K{}", self.paint(DIM, &text)));
    }

    fn verdicts(&self, view: &mut View, verdicts: &[NamedVerdict]) {
        for named in verdicts {
            let optional = if named.required { "" } else { " (not required)" };
            let name = &named.validator;
            let time = duration(named.duration_ms);
            match &named.verdict {
                Verdict::Accepted { summary, .. } => {
                    let head = self.paint(GREEN, &format!("  accepted by {name}"));
                    self.line(
                        view,
                        &format!("{head}{optional}: {} ({time})", one_line(summary, 160)),
                    );
                }
                Verdict::Rejected { reasons } => {
                    let head = self.paint(RED, &format!("  rejected by {name}"));
                    self.line(view, &format!("{head}{optional} ({time}):"));
                    for reason in reasons {
                        self.line(view, &format!("    - {}", indent(reason)));
                    }
                }
                Verdict::Error { message } => {
                    let head = self.paint(RED, &format!("  {name} could not check"));
                    self.line(view, &format!("{head}{optional}: {}", indent(message)));
                }
            }
        }
    }

    /// What a check says before any work is done: only that it fails then makes it worth anything.
    fn baseline(&self, view: &mut View, named: &NamedVerdict) {
        let (name, time) = (&named.validator, duration(named.duration_ms));
        let text = match &named.verdict {
            Verdict::Accepted { .. } => {
                self.paint(YELLOW, &format!("  {name} accepts before any work is done ({time})"))
            }
            Verdict::Rejected { .. } => self.paint(
                DIM,
                &format!("  {name} rejects before any work is done, as it should ({time})"),
            ),
            Verdict::Error { message } => {
                let head = self.paint(RED, &format!("  {name} could not check"));
                format!("{head}: {}", indent(message))
            }
        };
        self.line(view, &text);
    }

    fn ended(&self, view: &mut View, notice: &Notice) {
        let Notice::IterationFinished {
            iteration,
            outcome: how,
            total_cost_usd,
            max_cost_usd,
            duration_ms,
            usage,
            agent,
            ..
        } = notice
        else {
            return;
        };
        view.busy = None;
        let code = if *how == Outcome::Succeeded { BOLD } else { YELLOW };
        let about = if usage.estimated { "about " } else { "" };
        let cost = match max_cost_usd {
            _ if usage.cost.is_none() && *total_cost_usd == Usd::ZERO => String::new(),
            Some(max) => format!(", {about}{total_cost_usd} of {max}"),
            None => format!(", {about}{total_cost_usd}"),
        };
        let head = self.paint(code, &format!("iteration {iteration} {}", outcome(how)));
        let tail = format!("{agent}, {}{cost}", duration(*duration_ms));
        self.line(view, &format!("{head}  ({tail})"));
    }

    fn finished(&self, view: &mut View, notice: &Notice) {
        let Notice::RunFinished {
            stop_reason,
            message,
            validated,
            evidence_only,
            iterations,
            cost_usd,
            cost_estimated,
            cost_told,
            runtime_ms,
            agent_changed,
            ..
        } = notice
        else {
            return;
        };
        if std::mem::take(&mut view.drawn) {
            output::say_part("\r\x1b[K");
        }
        let about = if *cost_estimated { "about " } else { "" };
        let cost = if *cost_told { format!("{about}{cost_usd}, ") } else { String::new() };
        let plural = if *iterations == 1 { "" } else { "s" };
        let by = agent_changed
            .as_ref()
            .map(|change| format!(", by {} instead of {}", change.to, change.from));
        let by = by.unwrap_or_default();
        let figures =
            format!("{iterations} iteration{plural}, {cost}{}{by}", duration(*runtime_ms));
        let text = match stop_reason {
            StopReason::Completed if *validated && *evidence_only => {
                format!("completed: {figures}; {EVIDENCE_ONLY}")
            }
            StopReason::Completed if *validated => format!("completed: {figures}"),
            StopReason::Completed => format!("completed WITHOUT validation: {figures}"),
            other => format!("{}: {} ({figures})", other.word(), one_line(message, 400)),
        };
        output::result(&text);
        if let (StopReason::Completed, Some(note)) =
            (stop_reason, message.strip_prefix("validated, "))
        {
            output::say(&self.paint(YELLOW, &format!("  {note}")));
        }
        if let Some(hint) = hint(*stop_reason) {
            output::say(&self.paint(DIM, hint));
        }
    }

    fn text(&self, view: &mut View, text: &str) {
        view.doing = text.to_owned();
        if self.verbose {
            let text = escape(text);
            view.open_line = !text.ends_with('\n');
            output::say_part(&text);
        }
    }

    fn detail(&self, view: &mut View, detail: &Event) {
        match detail {
            Event::ToolResult { text, is_error, .. } => {
                let mark = if *is_error { self.paint(RED, "    failed:") } else { "    ->".into() };
                self.line(view, &format!("{mark} {}", one_line(text, 160)));
            }
            Event::Stderr { text } => {
                self.line(view, &self.paint(DIM, &format!("  stderr: {}", one_line(text, 200))));
            }
            Event::Session { model: Some(model), .. } => {
                self.line(view, &self.paint(DIM, &format!("  model {}", one_line(model, 60))));
            }
            _ => {}
        }
    }
}

fn indent(text: &str) -> String {
    escape(text).trim_end().replace('\n', "\n      ")
}

const fn hint(reason: StopReason) -> Option<&'static str> {
    match reason {
        StopReason::NeedsHuman => {
            Some("`ralph-orchestrator answer \"…\"` tells the agent; `run` goes on either way")
        }
        StopReason::MaxIterations
        | StopReason::MaxRuntime
        | StopReason::MaxCost
        | StopReason::MaxTokens
        | StopReason::Failures
        | StopReason::Stagnation
        | StopReason::Thrashing => {
            Some("`run` goes on once the limit is raised; `run --restart` begins a new run")
        }
        StopReason::AgentUnavailable => Some("`ralph-orchestrator doctor` says what is missing"),
        StopReason::Completed | StopReason::Interrupted | StopReason::Once => None,
    }
}

impl Human {
    fn run(&self, view: &mut View, run: &str, notice: &Notice) {
        let head = self.paint(BOLD, &format!("run {run}"));
        match notice {
            Notice::RunStarted {
                agent,
                workspace,
                validators,
                validation_required,
                evidence_only,
                ..
            } => {
                view.agent.clone_from(agent);
                self.line(view, &format!("{head}: {agent} in {}", workspace.display()));
                if *validation_required {
                    self.line(
                        view,
                        &format!("  completion has to pass: {}", validators.join(", ")),
                    );
                    if *evidence_only {
                        let text = format!("  completion is proved {EVIDENCE_ONLY}");
                        self.line(view, &self.paint(YELLOW, &text));
                    }
                } else {
                    let text = "  completion is NOT validated: the agent's claim is trusted";
                    self.line(view, &self.paint(YELLOW, text));
                }
            }
            Notice::RunResumed { agent, iterations, cost_usd, .. } => {
                view.agent.clone_from(agent);
                let so_far = format!("after {iterations} iterations and {cost_usd}");
                self.line(view, &format!("{head} goes on {so_far}: {agent}"));
            }
            Notice::AgentChanged { from, to, reason, .. } => {
                view.agent.clone_from(to);
                let text = format!("  {to} takes over from {from}: {}", one_line(reason, 300));
                self.line(view, &self.paint(YELLOW, &text));
            }
            _ => self.finished(view, notice),
        }
    }

    fn iteration(&self, view: &mut View, notice: &Notice) {
        match notice {
            Notice::IterationStarted { iteration, attempt, trigger: why, max_iterations } => {
                (view.began, view.usage) = (Instant::now(), Usage::default());
                view.busy = Some(*iteration);
                view.doing.clear();
                view.context.clear();
                let of = max_iterations.map(|max| format!("/{max}")).unwrap_or_default();
                let again =
                    if *attempt > 1 { format!(", attempt {attempt}") } else { String::new() };
                let text = format!("iteration {iteration}{of} started ({}{again})", trigger(*why));
                self.line(view, &self.paint(DIM, &text));
            }
            Notice::Waiting { ms, reason, .. } if reason != "pause" => {
                let text = format!("  waiting {}: {}", duration(*ms), one_line(reason, 160));
                self.line(view, &self.paint(YELLOW, &text));
            }
            Notice::Waiting { .. } => view.doing = "pause".into(),
            _ => self.ended(view, notice),
        }
    }

    fn agent(&self, view: &mut View, iteration: u64, notice: &Notice) {
        match notice {
            Notice::AgentText { text, .. } => self.text(view, text),
            Notice::AgentTool { name, input, .. } => {
                view.doing = tool_line(name, input);
                if self.verbose {
                    let text = format!("  {}", view.doing);
                    self.line(view, &text);
                }
            }
            Notice::AgentEvent { detail, .. } if self.verbose => self.detail(view, detail),
            Notice::Usage { usage, .. } => view.usage = *usage,
            Notice::Context { used, window, .. } => {
                view.context = format!("  context {}", fullness(*used, *window));
            }
            Notice::Note { text, .. } => {
                self.line(view, &format!("  note: {}", one_line(text, 200)));
            }
            _ => {}
        }
        self.progress(view, iteration);
    }

    fn completion(&self, view: &mut View, notice: &Notice) {
        match notice {
            Notice::Claim { claim, .. } => {
                let what = match claim.kind {
                    ClaimKind::Complete => "claims completion",
                    ClaimKind::NeedsHuman => "asks for a human",
                };
                let text = one_line(&claim.text, 200);
                self.line(view, &format!("  {what} ({}): {text}", claim.detector));
            }
            Notice::NearMiss { near_miss, .. } => {
                let text = one_line(&near_miss.text, 80);
                let line = near_miss.line;
                self.line(view, &format!("  looks like a claim but is none (line {line}): {text}"));
            }
            Notice::Validating { iteration, validators } => {
                view.doing = format!("validating: {}", validators.join(", "));
                // While the agent waits for a judgement it is the iteration whose time is shown.
                if view.busy.replace(*iteration).is_none() {
                    view.began = Instant::now();
                }
                self.progress(view, *iteration);
            }
            Notice::Judged { accepted: true, .. } => {
                self.line(
                    view,
                    &self.paint(GREEN, "  the agent was told that this would be accepted"),
                );
            }
            Notice::Judged { reasons, .. } => {
                let text = "  the agent was told that this would be rejected, and goes on:";
                self.line(view, &self.paint(YELLOW, text));
                for reason in reasons {
                    self.line(view, &format!("    - {}", indent(reason)));
                }
            }
            Notice::Baseline { verdicts, .. } => {
                view.busy = None;
                for named in verdicts {
                    self.baseline(view, named);
                }
            }
            Notice::Artefacts { validator, paths, .. } => {
                let whom = validator.as_deref().unwrap_or("a validator");
                let paths = one_line(&paths.join(", "), 160);
                self.line(view, &format!("  {whom} left {paths} (no part of the work)"));
            }
            Notice::Verdict { verdicts, accepted, reasons, .. } => {
                view.busy = None;
                self.verdicts(view, verdicts);
                if !accepted {
                    // What no verdict says: about the workspace, and protected paths.
                    let said = |reason: &&String| {
                        verdicts.iter().any(|named| {
                            reason
                                .strip_prefix(&named.validator)
                                .is_some_and(|r| r.starts_with(':'))
                        })
                    };
                    for reason in reasons.iter().filter(|reason| !said(reason)) {
                        let text = format!("  rejected: {}", indent(reason));
                        self.line(view, &self.paint(RED, &text));
                    }
                }
            }
            _ => {}
        }
    }
}

impl Observer for Human {
    fn notice(&self, run: &str, notice: &Notice) {
        let mut guard = self.view.lock().unwrap_or_else(PoisonError::into_inner);
        let view = &mut *guard;
        match notice {
            Notice::RunStarted { .. }
            | Notice::RunResumed { .. }
            | Notice::AgentChanged { .. }
            | Notice::RunFinished { .. } => {
                self.run(view, run, notice);
            }
            Notice::IterationStarted { .. }
            | Notice::IterationFinished { .. }
            | Notice::Waiting { .. } => self.iteration(view, notice),
            Notice::AgentText { iteration, .. }
            | Notice::AgentTool { iteration, .. }
            | Notice::AgentEvent { iteration, .. }
            | Notice::Context { iteration, .. }
            | Notice::Note { iteration, .. }
            | Notice::Usage { iteration, .. } => self.agent(view, *iteration, notice),
            Notice::Claim { .. }
            | Notice::NearMiss { .. }
            | Notice::Validating { .. }
            | Notice::Judged { .. }
            | Notice::Verdict { .. }
            | Notice::Artefacts { .. }
            | Notice::Baseline { .. } => self.completion(view, notice),
            Notice::Warning { message, .. } => {
                let text = format!("  warning: {}", one_line(message, 400));
                self.line(view, &self.paint(YELLOW, &text));
            }
        }
    }
}
