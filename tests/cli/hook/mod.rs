//! `hook`: sessions that a person runs, which end only once the validators accept.

mod events;
mod faults;
mod real;
mod settings;

use std::io::Write as _;
use std::process::Stdio;

use serde_json::{Value, json};

use crate::environment::{TestEnvironment, tested_program};

/// A workspace whose check wants a file, and protects itself.
fn environment() -> TestEnvironment {
    let env = TestEnvironment::new();
    env.raw_config(CONFIG);
    env.write("check.sh", "test -f done.txt || { echo 'done.txt is missing'; exit 1; }\n");
    env
}

const CONFIG: &str = "[agent]\nadapter = \"claude-cli\"\n[[validator]]\nkind = \"command\"\nname = \"tests\"\n\
                      program = [\"sh\", \"check.sh\"]\nprotect = [\"check.sh\"]\n";

/// A session of an agent, which asks the hook.
struct TestSession<'a> {
    env: &'a TestEnvironment,
    id: &'a str,
    /// More flags of the hook.
    flags: &'a [&'a str],
}

impl<'a> TestSession<'a> {
    fn new(env: &'a TestEnvironment, id: &'a str) -> Self {
        Self { env, id, flags: &[] }
    }

    /// Asks about an event, and returns the exit status and the answer.
    fn raw(&self, text: &str) -> (i32, String) {
        let mut command = self.env.program(tested_program());
        command.args(["hook", "claude"]).args(self.flags);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().unwrap();
        // It may have ended already.
        let _ = child.stdin.take().unwrap().write_all(text.as_bytes());
        let output = child.wait_with_output().unwrap();
        (output.status.code().unwrap(), String::from_utf8(output.stdout).unwrap())
    }

    fn ask(&self, event: &str, more: &Value) -> Value {
        let mut message = json!({
            "session_id": self.id, "hook_event_name": event, "cwd": self.env.workspace()
        });
        message.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        let (status, answer) = self.raw(&message.to_string());
        assert_eq!(status, 0, "{answer}");
        if answer.trim().is_empty() { Value::Null } else { serde_json::from_str(&answer).unwrap() }
    }

    fn start(&self) -> Value {
        self.ask("SessionStart", &json!({ "source": "startup" }))
    }

    fn prompt(&self, text: &str) -> Value {
        self.ask("UserPromptSubmit", &json!({ "prompt": text }))
    }

    /// The agent stops with this message.
    fn stop(&self, message: &str) -> Value {
        self.ask("Stop", &json!({ "last_assistant_message": message, "background_tasks": [] }))
    }

    /// The agent stops, and reads this.
    fn blocked(&self, message: &str) -> String {
        let answer = self.stop(message);
        assert_eq!(answer["decision"], "block", "{answer}");
        answer["reason"].as_str().unwrap().to_owned()
    }

    /// The agent stops, and the person reads this.
    fn let_go(&self, message: &str) -> String {
        let answer = self.stop(message);
        assert_eq!(answer["decision"], Value::Null, "{answer}");
        answer["systemMessage"].as_str().unwrap_or_default().to_owned()
    }
}
