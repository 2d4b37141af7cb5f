//! Transcripts as ATIF v1.8 trajectories: one for each iteration, all of one session.

use ralph_orchestrator_contract::{Event, Tokens, Usage, Usd};
use ralph_orchestrator_core::machine::{IterationOutcome, Record};
use ralph_orchestrator_core::store::{JournalEntry, Layout};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

use crate::error::CommandError;

const VERSION: &str = "ATIF-v1.8";

/// The trajectory of an iteration. `next` is the file with that of the next one.
pub(crate) fn trajectory(
    layout: &Layout,
    run: &str,
    entries: &[JournalEntry],
    iteration: u64,
    next: Option<String>,
) -> Result<Value, CommandError> {
    let prompt = match layout.kept_prompt(run, iteration) {
        Some(kept) => std::fs::read(kept)?,
        None => b"(the prompt was not stored)".to_vec(),
    };
    let transcript = read_transcript(layout, run, iteration)?;
    let facts = Facts::of(entries, iteration);
    let mut writer = Writer::new(&String::from_utf8_lossy(&prompt), facts.started.clone());
    for line in String::from_utf8_lossy(&transcript).lines() {
        writer.line(line);
    }
    Ok(writer.finish(run, iteration, &facts, next))
}

/// Returns the stored events of an iteration; empty without a file, since nothing was printed then.
fn read_transcript(layout: &Layout, run: &str, iteration: u64) -> std::io::Result<Vec<u8>> {
    match std::fs::read(layout.iteration(run, iteration).join("transcript.jsonl")) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(Vec::new()),
        read => read,
    }
}

/// What the journal says about an iteration.
#[derive(Default)]
struct Facts {
    agent: String,
    started: Option<String>,
    attempts: u32,
    outcome: Option<IterationOutcome>,
    usage: Usage,
    cost: Usd,
}

impl Facts {
    fn of(entries: &[JournalEntry], number: u64) -> Self {
        let mut facts = Self::default();
        let mut agent = String::new();
        for entry in entries {
            match &entry.record {
                Record::RunStarted(started) => agent.clone_from(&started.agent),
                Record::RunResumed { agent: now, .. } | Record::AgentChanged { to: now, .. } => {
                    agent.clone_from(now);
                }
                Record::IterationStarted { iteration, attempt, .. } if *iteration == number => {
                    facts.agent.clone_from(&agent);
                    facts.attempts = *attempt;
                    facts.started.get_or_insert(entry.time.to_string());
                }
                Record::IterationEnded { iteration, outcome, usage, cost_usd, .. }
                    if *iteration == number =>
                {
                    facts.outcome = Some(outcome.clone());
                    facts.usage = sum(facts.usage, *usage);
                    facts.cost += *cost_usd;
                }
                _ => {}
            }
        }
        facts
    }
}

/// The usage of several attempts.
fn sum(a: Usage, b: Usage) -> Usage {
    let tokens = match (a.tokens, b.tokens) {
        (Some(a), Some(b)) => Some(a + b),
        (a, b) => a.or(b),
    };
    let cost = match (a.cost, b.cost) {
        (Some(a), Some(b)) => Some(a + b),
        (a, b) => a.or(b),
    };
    Usage { tokens, cost, estimated: a.estimated || b.estimated }
}

#[derive(Serialize)]
struct Call {
    tool_call_id: String,
    function_name: String,
    arguments: Value,
}

#[derive(Serialize)]
struct Answer {
    #[serde(skip_serializing_if = "Option::is_none")]
    source_call_id: Option<String>,
    content: String,
}

/// A message of the agent with the tools that it calls, and what they answer.
#[derive(Default)]
struct Step {
    time: Option<String>,
    message: String,
    reasoning: String,
    model: Option<String>,
    calls: Vec<Call>,
    answers: Vec<Answer>,
    usage: Usage,
}

impl Step {
    fn into_json(self, id: usize) -> Value {
        let mut step = Map::new();
        step.insert("step_id".into(), json!(id));
        let mut optional = |key: &str, value: Option<Value>| {
            step.extend(value.map(|value| (key.to_owned(), value)));
        };
        optional("timestamp", self.time.map(Value::from));
        optional("source", Some(json!("agent")));
        optional("message", Some(json!(self.message)));
        optional("model_name", self.model.map(Value::from));
        optional("reasoning_content", said(self.reasoning));
        optional("tool_calls", (!self.calls.is_empty()).then(|| json!(self.calls)));
        let answers = (!self.answers.is_empty()).then(|| json!({"results": self.answers}));
        optional("observation", answers);
        optional("metrics", metrics(&self.usage));
        Value::Object(step)
    }
}

fn said(text: String) -> Option<Value> {
    (!text.is_empty()).then(|| Value::from(text))
}

fn metrics(usage: &Usage) -> Option<Value> {
    let mut metrics = Map::new();
    if let Some(tokens) = usage.tokens {
        metrics.insert("prompt_tokens".into(), json!(prompt_tokens(tokens)));
        metrics.insert("completion_tokens".into(), json!(tokens.output));
        metrics.insert("cached_tokens".into(), json!(tokens.cache_read));
    }
    metrics.extend(usage.cost.map(|cost| ("cost_usd".to_owned(), json!(cost))));
    (!metrics.is_empty()).then_some(Value::Object(metrics))
}

/// Those read from the cache are a part of them.
fn prompt_tokens(tokens: Tokens) -> u64 {
    tokens.input.saturating_add(tokens.cache_read).saturating_add(tokens.cache_write)
}

/// Turns the events of a transcript into steps.
struct Writer {
    prompt: Value,
    steps: Vec<Step>,
    /// The last step, which may go on.
    current: Option<Step>,
    model: Option<String>,
    session: Option<String>,
    /// The sums at the last event that told them.
    sums: Usage,
    /// Told before the first step.
    early: Usage,
    cut: u64,
}

#[derive(Deserialize)]
struct Line {
    #[serde(default)]
    time: Option<String>,
    #[serde(flatten)]
    event: Event,
}

/// What the engine says at the end of a transcript that got too large.
#[derive(Deserialize)]
struct Cut {
    #[serde(rename = "type")]
    kind: String,
    bytes: u64,
}

impl Writer {
    fn new(prompt: &str, started: Option<String>) -> Self {
        let mut step = json!({"step_id": 1, "source": "user", "message": prompt});
        if let (Some(time), Some(step)) = (started, step.as_object_mut()) {
            step.insert("timestamp".into(), json!(time));
        }
        Self {
            prompt: step,
            steps: Vec::new(),
            current: None,
            model: None,
            session: None,
            sums: Usage::default(),
            early: Usage::default(),
            cut: 0,
        }
    }

    fn line(&mut self, line: &str) {
        // A line that was being written when the orchestrator was killed is no event.
        let Ok(Line { time, event }) = serde_json::from_str::<Line>(line) else { return };
        match event {
            Event::Session { id, model } => {
                // A session has its own sums.
                self.sums = Usage::default();
                (self.session, self.model) = (Some(id), model);
            }
            Event::Text { text } => self.open(time).message.push_str(&text),
            Event::Thinking { text } => self.open(time).reasoning.push_str(&text),
            Event::ToolCall { id, name, input } => {
                let arguments = if input.is_object() { input } else { json!({"input": input}) };
                let call = Call { tool_call_id: id, function_name: name, arguments };
                self.open(time).calls.push(call);
            }
            Event::ToolResult { id, text, is_error } => self.answered(time, id, text, is_error),
            Event::Usage { usage } => self.used(usage),
            Event::Unknown => {
                let cut = serde_json::from_str::<Cut>(line).ok().filter(|cut| cut.kind == "cut");
                self.cut = cut.map_or(self.cut, |cut| self.cut.saturating_add(cut.bytes));
            }
            _ => {}
        }
    }

    /// The step that goes on, or a new one after the tools have answered.
    fn open(&mut self, time: Option<String>) -> &mut Step {
        if self.current.as_ref().is_some_and(|step| !step.answers.is_empty()) {
            self.steps.extend(self.current.take());
        }
        let (early, model) = (&mut self.early, &self.model);
        self.current.get_or_insert_with(|| Step {
            time,
            model: model.clone(),
            usage: std::mem::take(early),
            ..Step::default()
        })
    }

    /// An answer belongs to the step of its call.
    fn answered(&mut self, time: Option<String>, id: String, text: String, is_error: bool) {
        let content = if is_error { format!("[failed] {text}") } else { text };
        let of = |step: &&mut Step| step.calls.iter().any(|call| call.tool_call_id == id);
        match self.steps.iter_mut().chain(&mut self.current).rev().find(of) {
            Some(step) => step.answers.push(Answer { source_call_id: Some(id), content }),
            None => self.open(time).answers.push(Answer { source_call_id: None, content }),
        }
    }

    fn used(&mut self, usage: Usage) {
        let step = difference(usage, self.sums);
        self.sums = usage;
        let place = self.current.as_mut().map_or(&mut self.early, |step| &mut step.usage);
        *place = sum(*place, step);
    }

    fn finish(self, run: &str, iteration: u64, facts: &Facts, next: Option<String>) -> Value {
        let mut steps = vec![self.prompt];
        for step in self.steps.into_iter().chain(self.current) {
            let id = steps.len().saturating_add(1);
            steps.push(step.into_json(id));
        }
        let mut agent = json!({
            "name": facts.agent,
            "version": env!("CARGO_PKG_VERSION"),
            "extra": {"orchestrator": env!("CARGO_PKG_NAME"), "session": self.session},
        });
        if let (Some(model), Some(agent)) = (self.model, agent.as_object_mut()) {
            agent.insert("model_name".into(), json!(model));
        }
        let mut whole = json!({
            "schema_version": VERSION,
            "session_id": run,
            "trajectory_id": format!("{run}/{iteration}"),
            "agent": agent,
            "final_metrics": totals(facts, steps.len()),
            "steps": steps,
            "extra": {
                "iteration": iteration,
                "attempts": facts.attempts,
                "outcome": facts.outcome,
            },
        });
        if let Some(object) = whole.as_object_mut() {
            object.extend(next.map(|next| ("continued_trajectory_ref".to_owned(), json!(next))));
            if self.cut > 0 {
                let notes = format!("{} bytes of the transcript were cut", self.cut);
                object.insert("notes".into(), json!(notes));
            }
        }
        whole
    }
}

fn totals(facts: &Facts, steps: usize) -> Value {
    let mut totals = json!({
        "total_steps": steps,
        "extra": {"charged_usd": facts.cost, "cost_estimated": facts.usage.estimated},
    });
    if let (Some(object), Some(tokens)) = (totals.as_object_mut(), facts.usage.tokens) {
        object.insert("total_prompt_tokens".into(), json!(prompt_tokens(tokens)));
        object.insert("total_completion_tokens".into(), json!(tokens.output));
        object.insert("total_cached_tokens".into(), json!(tokens.cache_read));
    }
    if let (Some(object), Some(cost)) = (totals.as_object_mut(), facts.usage.cost) {
        object.insert("total_cost_usd".into(), json!(cost));
    }
    totals
}

/// What came since `before`. Sums that fell are those of another session.
fn difference(now: Usage, before: Usage) -> Usage {
    let tokens = now.tokens.map(|now| {
        let before = before.tokens.unwrap_or_default();
        let less = |now: u64, before: u64| now.checked_sub(before).unwrap_or(now);
        Tokens {
            input: less(now.input, before.input),
            output: less(now.output, before.output),
            cache_read: less(now.cache_read, before.cache_read),
            cache_write: less(now.cache_write, before.cache_write),
        }
    });
    let cost = now.cost.map(|now| match before.cost {
        Some(before) if before <= now => now.saturating_sub(before),
        _ => now,
    });
    Usage { tokens, cost, estimated: now.estimated }
}
