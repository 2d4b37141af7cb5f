//! Builds the trace of a run.

use std::collections::{BTreeMap, HashSet};
use std::time::Duration;

use jiff::Timestamp;
use ralph_orchestrator_contract::{Event, Verdict};
use ralph_orchestrator_machine::{Control, IterationOutcome, Record, RunStarted, ValidatorVerdict};
use ralph_orchestrator_store::JournalEntry;
use serde_json::{Value, json};

use crate::otlp::{self, RequestSize};
use crate::span::{Span, span_id, trace_id};

const OPERATION: &str = "gen_ai.operation.name";
const AGENT: &str = "gen_ai.agent.name";
const ERROR: &str = "error.type";

/// Takes the records of a run, the oldest first, and the events of its iterations' transcripts.
#[derive(Debug)]
pub struct TraceBuilder {
    run: String,
    /// Arguments and answers of tools are attributes.
    has_content: bool,
    root: Option<Span>,
    /// Finished spans, in the order of their beginnings.
    spans: Vec<Span>,
    /// What goes on.
    iteration: Option<Open>,
    setup: Option<Span>,
    pause: Option<Span>,
    wait: Option<Span>,
    /// Attempts at iterations that have ended, for the tools that they called.
    attempts: Vec<Attempt>,
    /// Calls of tools without an answer yet, by id, and the ids of the spans of those that were answered.
    calls: BTreeMap<String, Span>,
    called: HashSet<String>,
    /// The iteration of these calls.
    calling: u64,
    last: Option<Timestamp>,
}

#[derive(Debug)]
struct Open {
    number: u64,
    span: Span,
    /// When the orchestrator was killed while it went on.
    killed: Option<Timestamp>,
}

/// The part of an iteration in which its agent worked.
#[derive(Debug)]
struct Attempt {
    iteration: u64,
    id: String,
    seq: u64,
    start: Timestamp,
    end: Timestamp,
    /// Later events are not its own. A killed orchestrator may have recorded nothing for a while.
    until: Timestamp,
}

/// The finished trace of a run.
#[derive(Clone, Debug, PartialEq)]
pub struct Trace {
    id: String,
    /// The spans, parents before their parts.
    pub spans: Vec<Span>,
}

impl Trace {
    /// Returns a part of the trace of a run.
    #[must_use]
    pub fn part(run: &str, spans: Vec<Span>) -> Self {
        Self { id: trace_id(run), spans }
    }

    /// Returns OTLP requests in JSON (`ExportTraceServiceRequest`), none larger than this unless one span is. `version`
    /// is that of the program.
    pub fn requests<'a>(
        &'a self,
        version: &'a str,
        largest: RequestSize,
    ) -> impl Iterator<Item = Value> + use<'a> {
        otlp::requests(&self.id, version, &self.spans, largest)
    }
}

impl TraceBuilder {
    /// Begins the trace of a run. What agents and people wrote is left out, unless `has_content`.
    #[must_use]
    pub fn new(run: &str, has_content: bool) -> Self {
        Self {
            run: run.to_owned(),
            has_content,
            root: None,
            spans: Vec::new(),
            iteration: None,
            setup: None,
            pause: None,
            wait: None,
            attempts: Vec::new(),
            calls: BTreeMap::new(),
            called: HashSet::new(),
            calling: 0,
            last: None,
        }
    }

    /// Takes the next record.
    pub fn entry(&mut self, entry: &JournalEntry) {
        let (time, seq) = (entry.time, entry.seq);
        if ends_wait(&entry.record) {
            self.end_wait(time);
        }
        match &entry.record {
            Record::RunStarted(started) => self.root = Some(self.root_span(started, seq, time)),
            Record::RunResumed { .. } => {
                // What went on when the orchestrator was killed ended by its last record.
                self.kill_iteration(time);
                self.end_pause(time);
                self.end_setup(self.last.unwrap_or(time), None);
            }
            Record::IterationStarted { .. } => self.start_iteration(&entry.record, seq, time),
            Record::Model { model, .. } => {
                if let Some(open) = &mut self.iteration {
                    open.span.add("gen_ai.response.model", model.as_str());
                }
            }
            Record::IterationEnded { .. } => self.iteration_ended(&entry.record, time),
            Record::SetupStarted { iteration } => {
                self.end_setup(self.last.unwrap_or(time), None);
                let mut span = self.part(seq, "", "setup", time);
                span.add("ralph.iteration", *iteration);
                self.setup = Some(span);
            }
            Record::SetupFinished { problem, .. } => {
                self.end_setup(time, problem.as_ref().map(|_| "the setup failed"));
            }
            Record::Baseline { verdicts, accepted, .. } => {
                self.validation("baseline", (seq, time), verdicts, *accepted, false);
            }
            Record::Validated { verdicts, accepted, .. } => {
                self.validation("validation", (seq, time), verdicts, *accepted, true);
            }
            Record::Waiting { reason, .. } => {
                let mut span = self.part(seq, "", "wait", time);
                if self.has_content {
                    span.add("ralph.reason", reason.as_str());
                }
                self.wait = Some(span);
            }
            Record::Paused { .. } => {
                self.end_pause(time);
                self.pause = Some(self.part(seq, "", "pause", time));
            }
            Record::ControlReceived { control: Control::Resume, refused: None, .. } => {
                self.end_pause(time);
            }
            Record::Stopped { reason, .. } => {
                self.end_pause(time);
                self.end_run(reason.word(), time);
            }
            Record::Completed { .. } => self.end_run("completed", time),
            _ => {}
        }
        // It is found out after the run has ended.
        if !matches!(entry.record, Record::Explained { .. }) {
            self.last = self.last.max(Some(time));
        }
    }

    /// Takes the next event of an iteration's transcript, after the records of the run up to the end of the iteration
    /// at least. The events of an iteration come together; those that it has had before change nothing.
    pub fn event(&mut self, iteration: u64, time: Timestamp, event: &Event) {
        self.close(self.last.unwrap_or_default());
        if self.calling != iteration {
            self.end_transcript();
            self.called.clear();
            self.calling = iteration;
        }
        match event {
            Event::ToolCall { id, name, input } => {
                let Some(attempt) = self.attempt(iteration, time) else { return };
                let own = span_id(&self.run, attempt.seq, &format!("tool {id}"));
                let mut span = Span::new(
                    own,
                    Some(&attempt.id),
                    format!("execute_tool {name}"),
                    time.clamp(attempt.start, attempt.end),
                );
                // Without an answer it went on until the agent ended.
                span.end_at(attempt.end);
                span.add(OPERATION, "execute_tool");
                span.add("gen_ai.tool.name", name.as_str());
                span.add("gen_ai.tool.call.id", id.as_str());
                if self.has_content {
                    span.add("gen_ai.tool.call.arguments", input.to_string());
                }
                if let Some(unanswered) = self.calls.insert(id.clone(), span) {
                    self.keep(unanswered);
                }
            }
            Event::ToolResult { id, is_error, text } => {
                let Some(mut span) = self.calls.remove(id) else { return };
                let latest = span.end;
                span.end_at(time.min(latest));
                if self.has_content {
                    span.add("gen_ai.tool.call.result", text.as_str());
                }
                if *is_error {
                    span.add(ERROR, "tool_error");
                    span.failure = Some("the tool failed".to_owned());
                }
                self.keep(span);
            }
            _ => {}
        }
    }

    /// Ends the calls that have no answer: their agent has ended.
    pub fn end_transcript(&mut self) {
        let calls = std::mem::take(&mut self.calls).into_values();
        calls.for_each(|span| self.keep(span));
    }

    /// Takes the spans that have ended since the last call. That of the run is among them whenever it stops.
    pub fn take_ended(&mut self) -> Vec<Span> {
        std::mem::take(&mut self.spans)
    }

    /// Ends the trace: what goes on ends with the last record.
    #[must_use]
    pub fn finish(mut self) -> Trace {
        let last = self.last.unwrap_or_default();
        self.close(last);
        self.end_transcript();
        // As the run stood when it stopped, it may stand no more.
        self.spans.retain(|span| span.parent.is_some());
        let mut spans: Vec<Span> = self.root.take().into_iter().collect();
        for root in &mut spans {
            root.end_at(last);
        }
        let has_root = !spans.is_empty();
        spans.extend(self.spans.into_iter().filter(|_| has_root));
        // A stable order: parents begin no later than their parts and are made before them.
        spans.sort_by_key(|span| (span.parent.is_some(), span.start));
        Trace { id: trace_id(&self.run), spans }
    }

    /// Ends what goes on: there are no more records.
    fn close(&mut self, last: Timestamp) {
        self.end_iteration(None, None);
        self.end_pause(last);
        self.end_setup(last, None);
        self.end_wait(last);
    }

    /// Keeps the call of a tool, unless another one of that attempt has the same id.
    fn keep(&mut self, span: Span) {
        if self.called.insert(span.id.clone()) {
            self.spans.push(span);
        }
    }

    fn root_span(&self, started: &RunStarted, seq: u64, time: Timestamp) -> Span {
        let id = span_id(&self.run, seq, "");
        let mut span = Span::new(id, None, "invoke_workflow ralph-orchestrator", time);
        span.add(OPERATION, "invoke_workflow");
        span.add(AGENT, "ralph-orchestrator");
        span.add("gen_ai.conversation.id", self.run.as_str());
        span.add("ralph.run.id", self.run.as_str());
        span.add("ralph.agent", started.agent.as_str());
        span.add("ralph.workspace", started.workspace.as_str());
        span
    }

    /// A part of the run that begins with this record.
    fn part(&self, seq: u64, part: &str, name: &str, time: Timestamp) -> Span {
        let parent = self.root.as_ref().map(|root| root.id.as_str());
        Span::new(span_id(&self.run, seq, part), parent, name, time)
    }

    fn start_iteration(&mut self, record: &Record, seq: u64, time: Timestamp) {
        self.end_iteration(None, Some("it has no end"));
        let Record::IterationStarted { iteration, attempt, agent, version, model, role, .. } =
            record
        else {
            return;
        };
        let mut span = self.part(seq, "", &format!("invoke_agent {agent}"), time);
        span.add(OPERATION, "invoke_agent");
        span.add(AGENT, agent.as_str());
        span.add("gen_ai.conversation.id", self.run.as_str());
        span.add_some("gen_ai.agent.version", version.as_deref());
        span.add_some("gen_ai.request.model", model.as_deref());
        span.add("ralph.iteration", *iteration);
        span.add("ralph.attempt", *attempt);
        span.add_some("ralph.role", role.as_deref());
        let (id, start) = (span.id.clone(), span.start);
        if let Some(before) = self.attempts.last_mut() {
            before.until = before.until.min(time);
        }
        let (end, until) = (start, Timestamp::MAX);
        self.attempts.push(Attempt { iteration: *iteration, id, seq, start, end, until });
        self.iteration = Some(Open { number: *iteration, span, killed: None });
    }

    fn iteration_ended(&mut self, record: &Record, time: Timestamp) {
        let Record::IterationEnded { iteration, outcome, usage, cost_usd, tool_calls, .. } = record
        else {
            return;
        };
        let Some(open) = self.iteration.as_mut().filter(|open| open.number == *iteration) else {
            return;
        };
        let span = &mut open.span;
        if let Some(tokens) = &usage.tokens {
            // By the conventions, what was read from and written to the cache is input too.
            let input =
                tokens.input.saturating_add(tokens.cache_read).saturating_add(tokens.cache_write);
            span.add("gen_ai.usage.input_tokens", input);
            span.add("gen_ai.usage.output_tokens", tokens.output);
            span.add("gen_ai.usage.cache_read.input_tokens", tokens.cache_read);
            span.add("gen_ai.usage.cache_creation.input_tokens", tokens.cache_write);
        }
        span.add("ralph.cost_usd", cost_usd.dollars());
        span.add("ralph.cost_estimated", usage.estimated);
        span.add_some("ralph.tool_calls", *tool_calls);
        let (word, class) = describe(outcome);
        span.add("ralph.outcome", word.as_str());
        if let Some(class) = class {
            span.add(ERROR, class.as_str());
            span.failure = Some(format!("{word}: {class}"));
        }
        self.end_iteration(Some(time), None);
    }

    /// The orchestrator was killed while the iteration went on, and was started again at this time. What the iteration
    /// is charged is recorded later.
    fn kill_iteration(&mut self, time: Timestamp) {
        let Some(open) = &mut self.iteration else { return };
        open.span.failure = Some("the orchestrator ended".to_owned());
        let killed = *open.killed.get_or_insert(self.last.unwrap_or(time));
        if let Some(attempt) = self.attempts.last_mut() {
            (attempt.end, attempt.until) = (killed.max(attempt.start), time);
        }
    }

    /// Ends the iteration that goes on; without a time, by the last record.
    fn end_iteration(&mut self, time: Option<Timestamp>, failure: Option<&str>) {
        let Some(Open { mut span, killed, .. }) = self.iteration.take() else { return };
        span.end_at(killed.or(time).or(self.last).unwrap_or(span.start));
        if let Some(failure) = failure.filter(|_| killed.is_none()) {
            span.failure = Some(failure.to_owned());
        }
        if let Some(attempt) = self.attempts.last_mut().filter(|_| killed.is_none()) {
            attempt.end = span.end;
            attempt.until = time.map_or(Timestamp::MAX, |time| time.max(span.end));
        }
        self.spans.push(span);
    }

    fn end_wait(&mut self, time: Timestamp) {
        if let Some(mut wait) = self.wait.take() {
            wait.end_at(time);
            self.spans.push(wait);
        }
    }

    fn end_setup(&mut self, time: Timestamp, failure: Option<&str>) {
        if let Some(mut span) = self.setup.take() {
            span.end_at(time);
            span.failure = failure.map(str::to_owned);
            self.spans.push(span);
        }
    }

    fn end_pause(&mut self, time: Timestamp) {
        if let Some(mut span) = self.pause.take() {
            span.end_at(time);
            self.spans.push(span);
        }
    }

    /// Says how the run stands; a run that is resumed stands otherwise later.
    fn end_run(&mut self, word: &str, time: Timestamp) {
        if let Some(root) = &mut self.root {
            root.attributes.retain(|(name, _)| *name != "ralph.stop_reason");
            root.add("ralph.stop_reason", word);
            root.end_at(time);
            self.spans.push(root.clone());
        }
    }

    fn validation(
        &mut self,
        name: &'static str,
        (seq, time): (u64, Timestamp),
        verdicts: &[ValidatorVerdict],
        accepted: bool,
        has_to_accept: bool,
    ) {
        let took = |verdict: &ValidatorVerdict| Duration::from_millis(verdict.duration_ms);
        let begin = self.root.as_ref().map_or(time, |root| root.start);
        let all: Duration =
            verdicts.iter().map(took).fold(Duration::ZERO, Duration::saturating_add);
        let start = earlier(time, all).max(begin).min(time);
        let mut span = self.part(seq, "", name, start);
        span.end_at(time);
        span.add("ralph.accepted", accepted);
        span.failure = (has_to_accept && !accepted).then(|| "rejected".to_owned());
        let (parent, mut at) = (span.id.clone(), start);
        self.spans.push(span);
        for (number, verdict) in verdicts.iter().enumerate() {
            let id = span_id(&self.run, seq, &format!("verdict {number}"));
            let mut part =
                Span::new(id, Some(&parent), format!("validate {}", verdict.validator), at);
            part.end_at(at.saturating_add(took(verdict)).unwrap_or(time).min(time));
            at = part.end;
            part.add("ralph.validator", verdict.validator.as_str());
            part.add("ralph.required", verdict.required);
            let word = match &verdict.verdict {
                Verdict::Accepted { .. } => "accepted",
                Verdict::Rejected { .. } => "rejected",
                Verdict::Error { .. } => "error",
            };
            part.add("ralph.verdict", word);
            if self.has_content {
                part.add("ralph.verdict.detail", json!(verdict.verdict).to_string());
            }
            part.failure = (word != "accepted").then(|| word.to_owned());
            self.spans.push(part);
        }
    }

    /// The attempt at an iteration in which this happened. None of those that are known, if it happened later.
    fn attempt(&self, iteration: u64, time: Timestamp) -> Option<&Attempt> {
        let mut own = self.attempts.iter().filter(|attempt| attempt.iteration == iteration);
        own.find(|attempt| time <= attempt.until)
    }
}

/// Whether a run that waits does so no more. What people send to it, warnings and restarts do not end a wait.
const fn ends_wait(record: &Record) -> bool {
    matches!(
        record,
        Record::Clock { .. }
            | Record::Waiting { .. }
            | Record::SetupStarted { .. }
            | Record::IterationStarted { .. }
            | Record::AgentChanged { .. }
            | Record::Paused { .. }
            | Record::Stopped { .. }
            | Record::Completed { .. }
    )
}

fn earlier(time: Timestamp, by: Duration) -> Timestamp {
    time.saturating_sub(by).unwrap_or(time)
}

/// The word of an outcome, and the class of what went wrong.
fn describe(outcome: &IterationOutcome) -> (String, Option<String>) {
    let object = json!(outcome);
    let word = object.get("type").and_then(Value::as_str).unwrap_or_default().to_owned();
    let class = match outcome {
        IterationOutcome::Failed { class, .. } | IterationOutcome::Deferred { class, .. } => {
            Some(class.word().to_owned())
        }
        _ => None,
    };
    (word, class)
}
