//! An agent that is any program: it reads the prompt on standard input, and what it prints is its last message.

use std::collections::BTreeMap;
use std::path::PathBuf;

use ralph_orchestrator::adapter::claude_stream::ClaudeParser;
use ralph_orchestrator::adapter::codex_stream::CodexParser;
use ralph_orchestrator::adapter::opencode::OpenCodeParser;
use ralph_orchestrator::adapter::{LineHandler, LineParser, ProcessRun, spawn};
use ralph_orchestrator::supervisor::{Grace, Process, Spec, Supervisor, find_program};
use ralph_orchestrator::{
    Agent, AgentError, BuildContext, BuildError, Capabilities, Description, Event, EventSink,
    Iteration, Report, async_trait,
};

/// So much of the last message is kept, in bytes: claims are at its end.
const LONGEST: usize = 64 * 1024;

/// The table `[agent.config]`.
#[derive(serde::Deserialize, schemars::JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Keys {
    /// The program and its arguments.
    program: Vec<String>,
    /// What it prints.
    #[serde(default)]
    output: Output,
}

#[derive(Clone, Copy, Default, PartialEq, Eq, serde::Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "kebab-case")]
enum Output {
    /// Text for people.
    #[default]
    Text,
    /// The messages of `claude --output-format stream-json`, with what they cost.
    ClaudeJson,
    /// The messages of `codex exec --json`, with their tokens.
    CodexJson,
    /// The messages of `opencode run --format json`, with what they cost.
    #[serde(rename = "opencode-json")]
    OpenCodeJson,
}

pub(crate) struct Piped {
    /// Found once: what the agent does to `PATH` does not change it.
    program: PathBuf,
    args: Vec<String>,
    output: Output,
    supervisor: Supervisor,
}

impl Piped {
    pub(crate) fn build(
        keys: Keys,
        context: &BuildContext,
        supervisor: &Supervisor,
    ) -> Result<Self, BuildError> {
        let Keys { program, output } = keys;
        let mut words = program.into_iter();
        let name = words.next().ok_or_else(|| BuildError::at("program", "expected a program"))?;
        let program = find_program(&name, &context.path, &context.config_dir)
            .map_err(|error| BuildError::at("program", error.to_string()))?;
        Ok(Self { program, args: words.collect(), output, supervisor: supervisor.clone() })
    }
}

#[async_trait]
impl Agent for Piped {
    fn describe(&self) -> Description {
        Description {
            name: "piped".to_owned(),
            summary: "reads its prompt on standard input".to_owned(),
            program: Some(self.program.clone()),
            capabilities: Capabilities {
                cost: matches!(self.output, Output::ClaudeJson | Output::OpenCodeJson),
                tokens: self.output != Output::Text,
                ..Capabilities::default()
            },
            ..Description::default()
        }
    }

    async fn check(&self, _env: &BTreeMap<String, String>) -> Result<String, AgentError> {
        Ok(format!("found {}", self.program.display()))
    }

    async fn run(&self, task: Iteration, events: &dyn EventSink) -> Result<Report, AgentError> {
        let spec = Spec {
            program: self.program.clone(),
            args: self.args.iter().map(Into::into).collect(),
            cwd: task.workspace,
            env: task.env,
            stdin: task.prompt,
            grace: Grace::default(),
        };
        let process = spawn(&self.supervisor, spec, events).await?;
        match self.output {
            Output::Text => read(LastMessage::default(), process, events).await,
            Output::ClaudeJson => read(ClaudeParser::new(), process, events).await,
            Output::CodexJson => read(CodexParser::new(), process, events).await,
            Output::OpenCodeJson => read(OpenCodeParser::default(), process, events).await,
        }
    }
}

async fn read(
    parser: impl LineParser,
    process: Process,
    events: &dyn EventSink,
) -> Result<Report, AgentError> {
    ProcessRun::new(process, events, LineHandler::new(parser)).run().await
}

/// The end of what the program has printed.
#[derive(Default)]
struct LastMessage(String);

impl LineParser for LastMessage {
    fn line(&mut self, line: &str) -> Vec<Event> {
        self.0.push_str(line);
        self.0.push('\n');
        // Cut in large steps: each cut copies what is kept.
        if self.0.len() > 2 * LONGEST {
            let cut = self.0.ceil_char_boundary(self.0.len() - LONGEST);
            self.0.drain(..cut);
        }
        vec![Event::Text { text: format!("{line}\n") }]
    }

    fn is_done(&self) -> bool {
        false
    }

    fn account(self, _exit: &str) -> Result<Report, AgentError> {
        Ok(Report { final_text: Some(self.0), ..Report::default() })
    }
}
