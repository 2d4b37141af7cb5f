//! What the agent of an iteration is actually given: field by field, and as one digest.

use std::collections::BTreeMap;
use std::path::PathBuf;

use ralph_orchestrator_contract::{Iteration, Launch};
use ralph_orchestrator_machine::LaunchDigests;
use ralph_orchestrator_store::Store;
use ralph_orchestrator_workspace::ProgramDigests;
use serde::Serialize;

use super::agent_inputs::AgentInputs;
use super::agents::AgentPool;
use super::redact::Redactor;
use super::role_prompts::RolePrompt;

/// The variable that differs in every iteration.
const ITERATION: &str = "RALPH_ITERATION";
/// Replaces the path of the private folder, which differs at every start.
const SCRATCH: &str = "{scratch}";

/// How an iteration was started, so that people can compare two iterations.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub(super) struct StartDetails {
    agent: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    version: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    model: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    program: Option<Program>,
    workspace: PathBuf,
    /// Without the program.
    #[serde(skip_serializing_if = "Option::is_none")]
    argv: Option<Vec<String>>,
    /// Keyed digests of the values; they reveal nothing without the state's key.
    env: BTreeMap<String, String>,
    inputs: BTreeMap<String, String>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
struct Program {
    path: PathBuf,
    digest: String,
}

/// The parts of what an agent is given.
#[derive(Clone, Copy)]
pub(super) struct AgentPrompt<'a> {
    /// What is put before the prompt.
    pub(super) feedback: &'a [u8],
    /// What follows the prompt: how to claim completion.
    pub(super) instructions: &'a [u8],
    /// The role whose prompt it is, if roles have prompts.
    pub(super) role: Option<&'a RolePrompt>,
    pub(super) task: &'a Iteration,
}

impl StartDetails {
    /// Returns the digests of all fields.
    fn given(&self, handed: AgentPrompt<'_>, config: &[u8]) -> LaunchDigests {
        let mut fields = BTreeMap::from([
            ("prompt", digest(&handed.task.prompt)),
            ("agent", digest(&json(&(&self.agent, &self.version, &self.model)))),
            ("config", digest(config)),
            ("workspace", digest(&json(&self.workspace))),
            ("env", digest(&json(&self.env))),
        ]);
        if !handed.instructions.is_empty() {
            fields.insert(LaunchDigests::INSTRUCTIONS, digest(handed.instructions));
        }
        if let Some(prompt) = handed.role {
            let name = (prompt.role.word(), prompt.found.origin(), &prompt.found.prompt.digest);
            fields.insert("role", digest(&json(&name)));
        }
        if !handed.feedback.is_empty() {
            fields.insert(LaunchDigests::FEEDBACK, digest(handed.feedback));
        }
        if let Some(argv) = &self.argv {
            fields.insert("argv", digest(&json(argv)));
        }
        if let Some(program) = &self.program {
            fields.insert("program", digest(&json(program)));
        }
        if !self.inputs.is_empty() {
            fields.insert("inputs", digest(&json(&self.inputs)));
        }
        let fields: BTreeMap<String, String> =
            fields.into_iter().map(|(field, digest)| (field.to_owned(), digest)).collect();
        LaunchDigests {
            fingerprint: digest(&json(&fields)),
            fields,
            agent: self.agent.clone(),
            version: self.version.clone(),
            model: self.model.clone(),
            role: handed.role.map(|prompt| prompt.role.word().to_owned()),
            prompt_file: handed.role.map(|prompt| prompt.found.origin()),
            controls: Vec::new(),
        }
    }
}

/// Takes fingerprints, and holds the files that are part of them.
#[derive(Debug, Default)]
pub(super) struct Fingerprints {
    pub(super) inputs: AgentInputs,
    programs: ProgramDigests,
}

impl Fingerprints {
    /// Returns what the current agent will be given, as digests and for people.
    pub(super) fn take(
        &mut self,
        agents: &AgentPool,
        state: &ralph_orchestrator_machine::State,
        handed: AgentPrompt<'_>,
        store: &Store,
        redactor: &Redactor,
    ) -> (LaunchDigests, StartDetails) {
        let now = agents.current(state);
        let (agent, task) = (&now.configured, handed.task);
        let launch = agent.agent.launch(task);
        let scratch = task.scratch.display().to_string();
        let plain = |text: &str| match scratch.as_str() {
            "" => text.to_owned(),
            scratch => text.replace(scratch, SCRATCH),
        };
        let Launch { program, argv, env } = launch.clone().unwrap_or_default();
        let program = program.or_else(|| agent.description.program.clone());
        let env = if env.is_empty() { &task.env } else { &env };
        let env = env.iter().filter(|(name, _)| *name != ITERATION);
        let env =
            env.map(|(name, value)| (name.clone(), store.keyed_digest(plain(value).as_bytes())));
        let argv: Vec<String> = argv.iter().map(|word| plain(word)).collect();
        let inputs = self.inputs.of(&now.name);
        let start = StartDetails {
            agent: now.name.clone(),
            version: now.version().map(|version| redactor.text(version).into_owned()),
            model: agent.description.model.clone(),
            program: program.map(|path| Program { digest: self.programs.of(&path), path }),
            workspace: task.workspace.clone(),
            argv: launch.is_some().then_some(argv),
            env: env.collect(),
            inputs: inputs
                .map(|file| (file.path().display().to_string(), file.digest().to_owned()))
                .collect(),
        };
        let config = json(&(&agent.description, &agent.config.config));
        let given = start.given(handed, &config);
        let argv = start
            .argv
            .map(|argv| argv.iter().map(|word| redactor.text(word).into_owned()).collect());
        (given, StartDetails { argv, ..start })
    }
}

fn json(value: &impl Serialize) -> Vec<u8> {
    serde_json::to_vec(value).unwrap_or_default()
}

fn digest(bytes: &[u8]) -> String {
    blake3::hash(bytes).to_hex().to_string()
}
