//! The agent that the configuration names.

use std::path::Path;

use ralph_orchestrator_assembly::agent_words;
use ralph_orchestrator_assembly::compiled_in::{CompiledInAgent, of_program};
use ralph_orchestrator_assembly::error::CommandError;
use ralph_orchestrator_assembly::user_folders::variables;
use ralph_orchestrator_contract::BuildContext;
use ralph_orchestrator_supervisor::find_program;
use toml::Value;

/// An agent that `init` can write a configuration for.
struct KnownAgent {
    name: &'static str,
    /// The program that it is.
    program: &'static str,
    /// `[agent]` and `[agent.config]`.
    toml: &'static str,
    /// Whether it says what it costs.
    is_metered: bool,
}

const KNOWN: [KnownAgent; 8] = [
    KnownAgent {
        name: "claude",
        program: "claude",
        toml: "[agent]\nadapter = \"claude-cli\"        # `ralph-orchestrator agents` lists them all\n\
               # fallback = [\"spare\"]        # the agent of [agents.spare] takes over when this one cannot continue\n\n\
               [agent.config]\npermission_mode = \"acceptEdits\"\nallowed_tools = [\"Bash\"]\n",
        is_metered: true,
    },
    KnownAgent {
        name: "codex",
        program: "codex",
        toml: "[agent]\nadapter = \"codex\"\n\n[agent.config]\n\
               # model = \"…\"                 # prices are looked up by it\n",
        is_metered: false,
    },
    acp("gemini", "[\"gemini\", \"--acp\"]"),
    acp("opencode", "[\"opencode\", \"acp\"]"),
    acp("goose", "[\"goose\", \"acp\"]"),
    acp("qwen", "[\"qwen\", \"--acp\"]"),
    acp("copilot", "[\"copilot\", \"--acp\"]"),
    KnownAgent {
        name: "claude-sdk",
        program: "claude",
        toml: "[agent]\nadapter = \"claude-sdk\"\n\n[agent.config]\npermission_mode = \"acceptEdits\"\n\
               permissions = { allow = [\"Bash\"] }\n",
        is_metered: true,
    },
];

/// What `[agent]` says of an agent that reports no cost.
const UNMETERED: &str =
    "unmetered = true             # it reports no cost: max_cost_usd cannot be enforced\n";
const COST: &str = "max_cost_usd = 10.0";
const PRICED: &str = "# max_cost_usd = 10.0        # this agent reports no cost: name a model whose prices are known first";
const NO_COST: &str = "# max_cost_usd = 10.0        # this agent reports no cost";

const fn acp(name: &'static str, program: &'static str) -> KnownAgent {
    KnownAgent { name, program: name, toml: program, is_metered: false }
}

/// What is written of the agent.
pub(crate) struct AgentChoice {
    pub(crate) toml: String,
    /// The limit on cost, as far as it can be enforced.
    pub(crate) cost: &'static str,
    /// For the user.
    pub(crate) line: String,
}

/// The names for `--agent`.
pub fn names() -> Vec<String> {
    let compiled_in = of_program();
    let compiled_in = compiled_in.agents().map(|(name, _)| name.to_owned());
    KNOWN.iter().map(|known| known.name.to_owned()).chain(compiled_in).collect()
}

/// The agent of this name, or the first that is installed, or the first.
pub(crate) fn find(asked: Option<&str>, folder: &Path) -> Result<AgentChoice, CommandError> {
    let path = variables().get("PATH").cloned().unwrap_or_default();
    let is_installed = |known: &KnownAgent| find_program(known.program, &path, folder).is_ok();
    let name = asked.map(|name| if name == "claude-cli" { "claude" } else { name });
    if let Some(choice) = name.and_then(|name| find_compiled_in(name, folder, &path)) {
        return Ok(choice);
    }
    let known = match name {
        Some(name) => KNOWN.iter().find(|known| known.name == name).ok_or_else(|| {
            let message = format!("unknown agent {name:?}; known agents: {}", names().join(", "));
            CommandError::user(message)
                .hinted("name any other after `--`: `init -- my-agent --flag`")
        })?,
        None => match KNOWN.iter().find(|known| is_installed(known)).or(KNOWN.first()) {
            Some(known) => known,
            None => return Err(CommandError::internal("no agent is known")),
        },
    };
    let KnownAgent { name, program, .. } = known;
    let line = if is_installed(known) {
        format!("  the agent is {name}")
    } else if asked.is_some() {
        format!("  the agent is {name}, but the program `{program}` is not in PATH: install it")
    } else {
        format!(
            "  the agent is {name}, but no agent was found in PATH: install one, or name it in [agent]"
        )
    };
    Ok(AgentChoice { toml: known.table(), cost: known.cost(), line })
}

/// Returns the agent of this name if the program has it compiled in.
fn find_compiled_in(name: &str, folder: &Path, path: &str) -> Option<AgentChoice> {
    if KNOWN.iter().any(|known| known.name == name) {
        return None;
    }
    let context = BuildContext {
        config_dir: folder.to_owned(),
        workspace: folder.to_owned(),
        prompt_dir: folder.to_owned(),
        path: path.to_owned(),
    };
    let CompiledInAgent { description, required } = of_program().agent(name, &context)?;
    let capabilities = description.map(|known| known.capabilities);
    // What cannot be known yet is left to `run`, which refuses a limit that cannot be enforced.
    let (unmetered, cost) = match capabilities {
        Some(can) if can.cost || can.free => ("", COST),
        Some(can) if can.tokens => ("", PRICED),
        Some(_) => (UNMETERED, NO_COST),
        None => ("", COST),
    };
    let keys: Vec<String> = required.iter().map(|key| format!("# {key} = …\n")).collect();
    let toml =
        format!("[agent]\nadapter = \"{name}\"\n{unmetered}\n[agent.config]\n{}", keys.concat());
    let line = match required.as_slice() {
        [] => format!("  the agent is {name}"),
        keys => format!("  the agent is {name}; set {} in [agent.config]", keys.join(", ")),
    };
    Some(AgentChoice { toml, cost, line })
}

/// The agent that these words start, as `run` takes them after `--`; there is at least one.
pub(crate) fn from_words(words: &[String], folder: &Path) -> Result<AgentChoice, CommandError> {
    let program = words.first().map(String::as_str).unwrap_or_default();
    if program.trim().is_empty() {
        return Err(CommandError::user(
            "expected a program after `--`, such as `-- my-agent --flag`",
        ));
    }
    let agent = agent_words::agent(words);
    let adapter = agent.get("adapter").and_then(Value::as_str).unwrap_or_default();
    let config = agent.get("config").and_then(Value::as_table).cloned().unwrap_or_default();
    let config = toml::to_string(&config).map_err(CommandError::internal)?;
    let unmetered = if adapter == "command" { UNMETERED } else { "" };
    let toml = format!("[agent]\nadapter = \"{adapter}\"\n{unmetered}\n[agent.config]\n{config}");
    let path = variables().get("PATH").cloned().unwrap_or_default();
    let line = match find_program(program, &path, folder) {
        Ok(_) => format!("  the agent is {}", words.join(" ")),
        Err(missing) => format!("  the agent is {}, but {missing}", words.join(" ")),
    };
    let known = KNOWN.iter().find(|known| known.toml.contains(&format!("adapter = \"{adapter}\"")));
    let cost = known.map_or(NO_COST, KnownAgent::cost);
    Ok(AgentChoice { toml, cost, line })
}

impl KnownAgent {
    fn table(&self) -> String {
        if self.toml.starts_with("[agent]") {
            return self.toml.to_owned();
        }
        format!("[agent]\nadapter = \"acp\"\n\n[agent.config]\nprogram = {}\n", self.toml)
    }

    const fn cost(&self) -> &'static str {
        if self.is_metered { COST } else { PRICED }
    }
}
