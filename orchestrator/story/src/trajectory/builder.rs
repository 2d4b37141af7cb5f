//! Turns the events of a transcript into a trajectory.

use ralph_orchestrator_contract::{Event, Usage};
use serde::Deserialize;
use serde_json::{Value, json};

use crate::trajectory::facts::IterationFacts;
use crate::trajectory::step::{Step, ToolCall, ToolResult, prompt_tokens};
use crate::trajectory::usage::{add_usage, subtract_usage};

const VERSION: &str = "ATIF-v1.8";
/// The name of the program that made the trajectory.
const ORCHESTRATOR: &str = "ralph-orchestrator";

/// Collects the steps of an iteration.
pub(super) struct TrajectoryBuilder {
    prompt: Value,
    steps: Vec<Step>,
    /// The last step, to which more may be added.
    current: Option<Step>,
    model: Option<String>,
    session: Option<String>,
    /// The sums at the last usage event.
    sums: Usage,
    /// Used before the first step.
    early: Usage,
    /// Bytes of the transcript that were left out.
    truncated: u64,
}

#[derive(Deserialize)]
struct TranscriptLine {
    #[serde(default)]
    time: Option<String>,
    #[serde(flatten)]
    event: Event,
}

/// What the engine writes at the end of a transcript that got too large.
#[derive(Deserialize)]
struct Truncation {
    #[serde(rename = "type")]
    kind: String,
    bytes: u64,
}

impl TrajectoryBuilder {
    pub(super) fn new(prompt: &str, started: Option<String>) -> Self {
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
            truncated: 0,
        }
    }

    pub(super) fn add_line(&mut self, line: &str) {
        // A line that was being written when the orchestrator was killed is no event.
        let Ok(TranscriptLine { time, event }) = serde_json::from_str::<TranscriptLine>(line)
        else {
            return;
        };
        match event {
            Event::Session { id, model } => {
                // A session has its own sums.
                self.sums = Usage::default();
                (self.session, self.model) = (Some(id), model);
            }
            Event::Text { text } => self.open_step(time).message.push_str(&text),
            Event::Thinking { text } => self.open_step(time).reasoning.push_str(&text),
            Event::ToolCall { id, name, input } => {
                let arguments = if input.is_object() { input } else { json!({"input": input}) };
                let call = ToolCall { tool_call_id: id, function_name: name, arguments };
                self.open_step(time).calls.push(call);
            }
            Event::ToolResult { id, text, is_error } => self.add_result(time, id, text, is_error),
            Event::Usage { usage } => self.add_usage(usage),
            Event::Unknown => {
                let cut = serde_json::from_str::<Truncation>(line).ok();
                let bytes = cut.filter(|cut| cut.kind == "cut").map_or(0, |cut| cut.bytes);
                self.truncated = self.truncated.saturating_add(bytes);
            }
            _ => {}
        }
    }

    /// Returns the current step, or a new one after the results of its tools.
    fn open_step(&mut self, time: Option<String>) -> &mut Step {
        if self.current.as_ref().is_some_and(|step| !step.results.is_empty()) {
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

    /// Adds a result to the step of its call.
    fn add_result(&mut self, time: Option<String>, id: String, text: String, is_error: bool) {
        let content = if is_error { format!("[failed] {text}") } else { text };
        let has_call = |step: &&mut Step| step.calls.iter().any(|call| call.tool_call_id == id);
        match self.steps.iter_mut().chain(&mut self.current).rev().find(has_call) {
            Some(step) => step.results.push(ToolResult { source_call_id: Some(id), content }),
            None => self.open_step(time).results.push(ToolResult { source_call_id: None, content }),
        }
    }

    fn add_usage(&mut self, usage: Usage) {
        let step = subtract_usage(usage, self.sums);
        self.sums = usage;
        let total = self.current.as_mut().map_or(&mut self.early, |step| &mut step.usage);
        *total = add_usage(*total, step);
    }

    pub(super) fn finish(
        self,
        run: &str,
        iteration: u64,
        facts: &IterationFacts,
        next: Option<String>,
    ) -> Value {
        let mut steps = vec![self.prompt];
        for step in self.steps.into_iter().chain(self.current) {
            let id = steps.len().saturating_add(1);
            steps.push(step.into_json(id));
        }
        let mut agent = json!({
            "name": facts.agent,
            "version": env!("CARGO_PKG_VERSION"),
            "extra": {"orchestrator": ORCHESTRATOR, "session": self.session},
        });
        if let (Some(model), Some(agent)) = (self.model, agent.as_object_mut()) {
            agent.insert("model_name".into(), json!(model));
        }
        let mut whole = json!({
            "schema_version": VERSION,
            "session_id": run,
            "trajectory_id": format!("{run}/{iteration}"),
            "agent": agent,
            "final_metrics": build_totals(facts, steps.len()),
            "steps": steps,
            "extra": {
                "iteration": iteration,
                "attempts": facts.attempts,
                "outcome": facts.outcome,
            },
        });
        if let Some(object) = whole.as_object_mut() {
            object.extend(next.map(|next| ("continued_trajectory_ref".to_owned(), json!(next))));
            if self.truncated > 0 {
                let notes = format!("{} bytes of the transcript were cut", self.truncated);
                object.insert("notes".into(), json!(notes));
            }
        }
        whole
    }
}

fn build_totals(facts: &IterationFacts, steps: usize) -> Value {
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
