//! The adapter and its agents, for the tests' rig.

use std::path::Path;

use orchestrator::contract::{Agent, BuildContext, BuildError, Event, Usage};
use ralph_adapter_acp::Guarded;
use ralph_orchestrator_supervise::Supervisor;
use ralph_orchestrator_testkit::iteration::{self, Adapter};
use ralph_orchestrator_testkit::model_server::Script;
use ralph_orchestrator_testkit::{claude_agent_acp, codex_acp, codex_binary};
use serde_json::{Value, json};

pub(crate) use ralph_orchestrator_testkit::iteration::Sink;

pub(crate) type Rig = iteration::Rig<Acp>;

pub(crate) struct Acp;

/// The folder in the workspace that is guarded.
pub(crate) const GUARDED: &str = "guarded";

impl Adapter for Acp {
    fn build(
        config: Value,
        context: &BuildContext,
        supervisor: &Supervisor,
    ) -> Result<Box<dyn Agent>, BuildError> {
        let guarded = context.workspace.join(GUARDED);
        let guarded = Guarded::new(move |path| path.starts_with(&guarded));
        ralph_adapter_acp::build(config, context, supervisor, guarded)
    }
}

/// A real agent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Real {
    Claude,
    Codex,
}

impl Real {
    pub(crate) const ALL: [Self; 2] = [Self::Claude, Self::Codex];

    /// An iteration's needs, with this agent's model.
    pub(crate) fn rig(self, script: Script) -> Rig {
        self.settle(Rig::new(script))
    }

    /// Tells the agent where its model is.
    pub(crate) fn settle(self, rig: Rig) -> Rig {
        if self == Self::Claude {
            return rig;
        }
        codex_config(&rig.folder().join("home"), &rig.server.base_url());
        rig.env("LOOP_KEY", "dummy").env("CODEX_PATH", codex_binary().to_str().unwrap())
    }

    /// `[agent.config]`, with everything allowed.
    pub(crate) fn config(self) -> Value {
        match self {
            Self::Claude => json!({"program": [claude_agent_acp()], "mode": "bypassPermissions"}),
            // Its own sandbox does not work in every container.
            Self::Codex => json!({"program": [codex_acp()], "mode": "agent-full-access"}),
        }
    }

    pub(crate) fn tool(self) -> &'static str {
        match self {
            Self::Claude => "Bash",
            Self::Codex => "exec_command",
        }
    }
}

/// Tells Codex where its model is.
pub(crate) fn codex_config(home: &Path, base_url: &str) {
    let config = format!(
        "model = \"gpt-5.1-codex\"\nmodel_provider = \"loop\"\n[analytics]\nenabled = false\n\
         [model_providers.loop]\nname = \"loop\"\nbase_url = \"{base_url}/v1\"\nenv_key = \"LOOP_KEY\"\n\
         wire_api = \"responses\"\nrequest_max_retries = 0\nstream_max_retries = 1\n\
         stream_idle_timeout_ms = 600000\n"
    );
    let folder = home.join(".codex");
    std::fs::create_dir_all(&folder).unwrap();
    std::fs::write(folder.join("config.toml"), config).unwrap();
}

pub(crate) fn usages(sink: &Sink) -> Vec<Usage> {
    let usage = |event: &Event| match event {
        Event::Usage { usage } => Some(*usage),
        _ => None,
    };
    sink.events().iter().filter_map(usage).collect()
}

pub(crate) fn warned(sink: &Sink, what: &str) -> bool {
    let events = sink.events();
    events.iter().any(|e| matches!(e, Event::Warning { message } if message.contains(what)))
}
