//! Scripts in files.

use std::collections::BTreeMap;
use std::time::Duration;

use ralph_orchestrator_contract::Tokens;
use serde::Deserialize;
use serde_json::Value;

use super::{Fault, Reply, Script, Turn};

/// A script as JSON.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    #[serde(default)]
    steps: Vec<Step>,
    forever: Option<Step>,
}

/// One step: a message, or one of `error`, `failed`, `hang` and `drop`.
#[derive(Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
struct Step {
    thinking: Option<String>,
    text: Option<String>,
    shell: Option<String>,
    tool: Option<Tool>,
    usage: Option<Tokens>,
    stop_reason: Option<String>,
    fault: Option<FaultWord>,
    pause_ms: Option<u64>,
    error: Option<u16>,
    failed: Option<String>,
    kind: Option<String>,
    message: String,
    headers: BTreeMap<String, String>,
    details: BTreeMap<String, Value>,
    hang: bool,
    drop: bool,
    times: Option<usize>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Tool {
    name: String,
    #[serde(default)]
    input: Value,
}

#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(rename_all = "lowercase")]
enum FaultWord {
    Stall,
    Cut,
    Error,
}

impl Script {
    /// Reads a script from JSON; the crate's documentation says what it looks like.
    ///
    /// # Errors
    /// Says where the mistake is, and what was expected.
    pub fn from_json(text: &str) -> Result<Self, String> {
        let file: File = serde_json::from_str(text).map_err(|error| error.to_string())?;
        let mut script = Self::new();
        for (index, step) in file.steps.into_iter().enumerate() {
            let times = step.times.unwrap_or(1);
            let reply = step.reply().map_err(|message| format!("steps[{index}]: {message}"))?;
            script = script.times(times, reply);
        }
        match file.forever {
            Some(step) if step.times.is_some() => Err("forever: it has no `times`".to_owned()),
            Some(step) => {
                Ok(script.forever(step.reply().map_err(|message| format!("forever: {message}"))?))
            }
            None => Ok(script),
        }
    }
}

impl Step {
    fn reply(self) -> Result<Reply, String> {
        let speaks = self.text.is_some() || self.shell.is_some() || self.tool.is_some();
        let kinds = [self.error.is_some(), self.failed.is_some(), self.hang, self.drop, speaks];
        if kinds.iter().filter(|given| **given).count() != 1 {
            return Err("expected either a message (`text`, `shell` or `tool`), or one of \
                        `error`, `failed`, `hang` and `drop`"
                .to_owned());
        }
        if let Some(status) = self.error {
            let mut reply = Reply::error(status, &self.message);
            if let Some(kind) = &self.kind {
                reply = reply.kind(kind);
            }
            let headers = self.headers.iter();
            reply = headers.fold(reply, |reply, (name, value)| reply.header(name, value));
            return Ok(self
                .details
                .into_iter()
                .fold(reply, |r, (name, value)| r.detail(&name, value)));
        }
        if let Some(kind) = &self.failed {
            return Ok(Reply::failed(kind, &self.message));
        }
        if self.hang {
            return Ok(Reply::Hang);
        }
        if self.drop {
            return Ok(Reply::Drop);
        }
        Ok(self.turn().into())
    }

    fn turn(self) -> Turn {
        let mut turn = match (self.text, self.shell, self.tool) {
            (Some(text), shell, tool) => {
                let turn = Turn::text(&text);
                let turn = shell.iter().fold(turn, |turn, command| turn.and_shell(command));
                tool.iter().fold(turn, |turn, tool| turn.and_tool(&tool.name, &tool.input))
            }
            (None, Some(command), tool) => {
                let turn = Turn::shell(&command);
                tool.iter().fold(turn, |turn, tool| turn.and_tool(&tool.name, &tool.input))
            }
            (None, None, Some(tool)) => Turn::tool(&tool.name, &tool.input),
            (None, None, None) => Turn::text(""),
        };
        if let Some(thinking) = self.thinking {
            turn = turn.thinking(&thinking);
        }
        if let Some(usage) = self.usage {
            turn = turn.usage(usage);
        }
        if let Some(reason) = self.stop_reason {
            turn = turn.stop_reason(&reason);
        }
        if let Some(pause) = self.pause_ms {
            turn = turn.slow(Duration::from_millis(pause));
        }
        match self.fault {
            Some(FaultWord::Stall) => turn.fault(Fault::Stall),
            Some(FaultWord::Cut) => turn.fault(Fault::Cut),
            Some(FaultWord::Error) => turn.fault(Fault::Error),
            None => turn,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_kind_of_step_is_read() {
        let text = r#"{"steps": [
            {"text": "a", "thinking": "b", "usage": {"input": 3}, "pause_ms": 1},
            {"shell": "ls", "tool": {"name": "Write", "input": {"a": 1}}, "fault": "cut", "times": 2},
            {"error": 429, "kind": "usage_limit_reached", "message": "m",
             "headers": {"retry-after": "1"}, "details": {"resets_at": 7}},
            {"failed": "context_length_exceeded", "message": "m"}, {"hang": true}, {"drop": true}],
            "forever": {"tool": {"name": "t"}, "stop_reason": "refusal"}}"#;
        let script = format!("{:?}", Script::from_json(text).unwrap());
        for part in [
            "\"b\"",
            "input: 3",
            "Cut",
            "usage_limit_reached",
            "retry-after",
            "resets_at",
            "Failed",
            "Hang",
            "Drop",
            "refusal",
            "1ms",
        ] {
            assert!(script.contains(part), "{part} is missing in {script}");
        }
        assert_eq!(script.matches("\"ls\"").count(), 2);
    }

    #[test]
    fn mistakes_say_where_they_are() {
        for (text, says) in [
            ("{", "EOF"),
            (r#"{"step": []}"#, "unknown field `step`"),
            (r#"{"steps": [{"text": "a"}, {"message": "x"}]}"#, "steps[1]: expected either"),
            (r#"{"steps": [{"text": "a", "hang": true}]}"#, "steps[0]"),
            (r#"{"forever": {"times": 2, "hang": true}}"#, "forever: it has no `times`"),
            (r#"{"steps": [{"text": "a", "fault": "burn"}]}"#, "burn"),
        ] {
            let error = Script::from_json(text).unwrap_err();
            assert!(error.contains(says), "{text}: {error}");
        }
    }
}
