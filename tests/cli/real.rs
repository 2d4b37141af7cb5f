//! The real agents, each in a workspace of a test, with a model on loopback.

use std::process::Command;

use ralph_orchestrator_testkit::agent_env::{
    IDLE, claude_env, codex_config, codex_env, no_network,
};
use ralph_orchestrator_testkit::model_server::ModelServer;
use ralph_orchestrator_testkit::{claude_agent_acp, claude_binary, codex_acp, codex_binary};

use crate::environment::TestEnvironment;

/// An adapter with its agent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Real {
    ClaudeCli,
    ClaudeSdk,
    AcpClaude,
    AcpCodex,
    Codex,
}

impl Real {
    pub(crate) const ALL: [Self; 5] =
        [Self::ClaudeCli, Self::ClaudeSdk, Self::AcpClaude, Self::AcpCodex, Self::Codex];

    /// `[agent]`; keys of `[agent.config]` may follow.
    fn table(self) -> String {
        let (adapter, program, more) = match self {
            Self::ClaudeCli => ("claude-cli", claude_binary(), "model = \"opus\"\n"),
            Self::ClaudeSdk => ("claude-sdk", claude_binary(), "model = \"opus\"\n"),
            Self::AcpClaude => ("acp", claude_agent_acp(), ""),
            // Its own sandbox does not work in every container.
            Self::AcpCodex => ("acp", codex_acp(), "mode = \"agent-full-access\"\n"),
            Self::Codex => ("codex", codex_binary(), "model = \"gpt-5.1-codex\"\n"),
        };
        let program = match adapter {
            "acp" => format!("[\"{}\"]", program.display()),
            _ => format!("\"{}\"", program.display()),
        };
        format!("[agent]\nadapter = \"{adapter}\"\n[agent.config]\nprogram = {program}\n{more}")
    }

    /// A workspace with this agent, which asks that model; keys of `[agent.config]` and tables follow.
    pub(crate) fn environment(self, model: &ModelServer, tables: &str) -> TestEnvironment {
        let mut env = TestEnvironment::new();
        env.raw_config(&format!(
            "[run]\ndelay = \"0s\"\n{}{tables}\n[env]\npass = [\"DISABLE_*\", \"CLAUDE_CODE_*\", \
             \"IS_SANDBOX\", \"LOOP_KEY\"]\n",
            self.table()
        ));
        self.ask(&mut env, model);
        env
    }

    /// The agent itself with a task, without the orchestrator and without a protocol.
    pub(crate) fn alone(self, env: &TestEnvironment, task: &str) -> Command {
        let (program, args) = match self {
            Self::ClaudeCli | Self::ClaudeSdk | Self::AcpClaude => {
                let args = "-p --model opus --permission-mode bypassPermissions \
                            --output-format stream-json --verbose";
                (claude_binary(), args)
            }
            Self::AcpCodex | Self::Codex => {
                let args = "exec --json --skip-git-repo-check \
                            --dangerously-bypass-approvals-and-sandbox";
                (codex_binary(), args)
            }
        };
        let mut command = env.program(&program);
        command.args(args.split_whitespace()).arg(task);
        command
    }

    /// Has the agent of the workspace ask this model from now on.
    pub(crate) fn ask(self, env: &mut TestEnvironment, model: &ModelServer) {
        let url = model.base_url();
        let mut vars = Vec::from(no_network());
        match self {
            Self::ClaudeCli | Self::ClaudeSdk | Self::AcpClaude => {
                vars.extend(claude_env(&url, &env.root().join("home")));
            }
            Self::AcpCodex | Self::Codex => {
                codex_config(&env.root().join("home"), &url, IDLE);
                vars.extend(codex_env());
                vars.push(("CODEX_PATH", codex_binary().display().to_string()));
            }
        }
        for (name, value) in vars {
            env.var(name, &value);
        }
    }
}
