//! Replays a recorded session from its first line to its last.

use std::collections::BTreeMap;

use ralph_adapter_common::LineParser as _;
use ralph_adapter_common::claude_stream::ClaudeParser;
use ralph_orchestrator_contract::{
    AgentError, ErrorClass, Event, EventSink, Iteration, Leftovers, Report, Usage, Usd,
};
use serde_json::{Value, json};

use crate::cancellation::Cancellation;
use crate::path_mapping::PathMapper;
use crate::session::{Line, Session, call_id};
use crate::shell::{Shell, ShellState};
use crate::tool_executor::{ToolExecution, ToolExecutor, ToolResult};

/// What a recorded session costs.
const USAGE: Usage = Usage { tokens: None, cost: Some(Usd::ZERO), estimated: false };

/// Replays one session.
pub(crate) struct Player<'a> {
    session: &'a Session,
    events: &'a dyn EventSink,
    cancel: Cancellation<'a>,
    parser: ClaudeParser,
    executor: ToolExecutor<'a>,
    /// Results of executed calls, until their recorded result is reached.
    results: BTreeMap<String, ToolResult>,
}

/// The orchestrator asked for the end.
struct Cancelled;

/// A tool call in a recorded message.
struct Call {
    id: String,
    name: String,
    input: Value,
}

impl<'a> Player<'a> {
    pub(crate) fn new(
        session: &'a Session,
        shell: &'a Shell,
        task: Iteration,
        events: &'a dyn EventSink,
    ) -> Self {
        let mut env = task.env;
        env.entry("RALPH_RUN_ID".to_owned()).or_insert(task.run);
        env.entry("RALPH_ITERATION".to_owned()).or_insert_with(|| task.number.to_string());
        let shell_state = ShellState {
            cwd: task.workspace.clone(),
            cwd_file: task.scratch.join("replay-cwd"),
            workspace: task.workspace.clone(),
            env,
        };
        let paths = PathMapper::new(session.cwd.clone(), task.workspace);
        let leftovers = Leftovers::default();
        let executor = ToolExecutor { session, shell, paths, shell_state, leftovers };
        let (cancel, parser, results) =
            (Cancellation::new(events), ClaudeParser::new(), BTreeMap::new());
        Self { session, events, cancel, parser, executor, results }
    }

    pub(crate) async fn play(mut self) -> Result<Report, AgentError> {
        let finished = self.play_lines().await;
        let last = self.session.lines.last().map_or(0, |line| line.number);
        let leftovers = self.executor.leftovers;
        let labelled = |report: Report| {
            let mut report = Report { usage: USAGE, ..report };
            report.add_leftovers(leftovers);
            report
        };
        let account = match (finished, self.cancel.reason()) {
            (Err(Cancelled), Some(reason)) => {
                let message = "the agent was ended because the orchestrator asked for it";
                let message = format!("{message}: {}", reason.because());
                let report = self.parser.finish_handed_off().unwrap_or_else(|error| *error.report);
                Err(AgentError::new(ErrorClass::Cancelled, message).with_report(report))
            }
            _ => self.parser.account("the end of the recording"),
        };
        match account {
            Ok(report) => Ok(labelled(report)),
            Err(AgentError { class, message, report }) => {
                let message = format!("{}: {message}", self.session.place(last));
                Err(AgentError::new(class, message).with_report(labelled(*report)))
            }
        }
    }

    async fn play_lines(&mut self) -> Result<(), Cancelled> {
        let session = self.session;
        for line in &session.lines {
            self.play_line(line).await?;
        }
        // A recording that was cut off has calls without a result.
        for (id, ToolResult { text, is_error }) in std::mem::take(&mut self.results) {
            self.emit(Event::ToolResult { id, is_error, text }).await?;
        }
        self.emit(Event::Usage { usage: USAGE }).await
    }

    async fn play_line(&mut self, line: &Line) -> Result<(), Cancelled> {
        let Some(recorded) = &line.message else {
            let place = self.session.place(line.number);
            let message = format!("{place}: no JSON object, passed over");
            return self.emit(Event::Warning { message }).await;
        };
        let mut message = recorded.clone();
        let calls = self.rewrite(&mut message);
        // What is the same is shown as it was recorded, byte for byte.
        let text = if message == *recorded { line.text.clone() } else { message.to_string() };
        let events = self.parser.line(&text);
        self.emit(Event::Raw { line: text }).await?;
        for event in events {
            // Figures of the recording are nobody's expense now.
            if !matches!(event, Event::Usage { .. }) {
                self.emit(event).await?;
            }
        }
        for call in calls {
            self.execute(line, call).await?;
        }
        Ok(())
    }

    /// Puts this workspace's paths into the message's calls, which are returned, and the results of
    /// executed calls into its results.
    fn rewrite(&mut self, message: &mut Value) -> Vec<Call> {
        let content = message.pointer_mut("/message/content").and_then(Value::as_array_mut);
        let (mut calls, mut changed) = (Vec::new(), false);
        for block in content.into_iter().flatten() {
            match block.get("type").and_then(Value::as_str) {
                Some("tool_use") => calls.extend(self.map_call(block)),
                Some("tool_result") => {
                    let answer = call_id(block).and_then(|id| self.results.remove(&id));
                    if let (Some(ToolResult { text, is_error }), Some(block)) =
                        (answer, block.as_object_mut())
                    {
                        block.insert("content".to_owned(), json!(text));
                        block.insert("is_error".to_owned(), json!(is_error));
                        changed = true;
                    }
                }
                _ => {}
            }
        }
        if changed && let Some(message) = message.as_object_mut() {
            // The recorded details belong to the recorded result.
            message.remove("tool_use_result");
        }
        calls
    }

    fn map_call(&self, block: &mut Value) -> Option<Call> {
        let text = |key: &str| block.get(key).and_then(Value::as_str).map(str::to_owned);
        let (id, name) = (text("id")?, text("name")?);
        let input = block.get_mut("input")?;
        self.executor.map_paths(&name, input);
        Some(Call { id, name, input: input.clone() })
    }

    async fn execute(&mut self, line: &Line, call: Call) -> Result<(), Cancelled> {
        let Call { id, name, input } = call;
        let result = match self.executor.execute(&id, &name, &input, &mut self.cancel).await {
            ToolExecution::Executed(result) => result,
            ToolExecution::Shown => return Ok(()),
            ToolExecution::Cancelled => return Err(Cancelled),
        };
        if result.is_error && !self.session.failed.contains(&id) {
            let place = self.session.place(line.number);
            let text = &result.text;
            let message =
                format!("{place}: {name} went well when it was recorded, not now: {text}");
            self.emit(Event::Warning { message }).await?;
        }
        self.results.insert(id, result);
        Ok(())
    }

    /// Emits an event, unless the end is asked for meanwhile.
    async fn emit(&mut self, event: Event) -> Result<(), Cancelled> {
        self.cancel.race(self.events.emit(event)).await.ok_or(Cancelled)
    }
}
