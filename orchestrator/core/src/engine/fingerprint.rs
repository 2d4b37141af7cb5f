//! What the agent of an iteration is really given: field by field, and as one digest.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use serde::Serialize;

use super::drivers::Drivers;
use super::error::EngineError;
use super::redact::Redactor;
use crate::contract::{Iteration, Launch};
use crate::machine::Given;
use crate::state::Store;
use crate::workspace::{PinnedFile, ProgramDigests};

/// Options whose values are files that the agent reads, in the command lines of well-known agents.
const FILE_OPTIONS: [&str; 2] = ["--mcp-config", "--settings"];
/// Differs by its nature.
const ITERATION: &str = "RALPH_ITERATION";
/// What stands for the private folder of a start.
const SCRATCH: &str = "{scratch}";

/// What was seen of an iteration's start, for people who want to know what differed.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub(super) struct Start {
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
    /// Digests of the values; they tell nothing to who has not the state's key.
    env: BTreeMap<String, String>,
    inputs: BTreeMap<String, String>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
struct Program {
    path: PathBuf,
    digest: String,
}

/// The prompt as it is handed over.
#[derive(Clone, Copy)]
pub(super) struct Handed<'a> {
    /// What is put before the prompt.
    pub(super) feedback: &'a [u8],
    /// What follows the prompt: how to claim completion.
    pub(super) instructions: &'a [u8],
    pub(super) task: &'a Iteration,
}

impl Start {
    /// The digests of all that.
    fn given(&self, handed: Handed<'_>, config: &[u8]) -> Given {
        let mut fields = BTreeMap::from([
            ("prompt", digest(&handed.task.prompt)),
            ("agent", digest(&json(&(&self.agent, &self.version, &self.model)))),
            ("config", digest(config)),
            ("workspace", digest(&json(&self.workspace))),
            ("env", digest(&json(&self.env))),
        ]);
        if !handed.instructions.is_empty() {
            fields.insert(Given::INSTRUCTIONS, digest(handed.instructions));
        }
        if !handed.feedback.is_empty() {
            fields.insert("feedback", digest(handed.feedback));
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
        Given {
            fingerprint: digest(&json(&fields)),
            fields,
            agent: self.agent.clone(),
            version: self.version.clone(),
            model: self.model.clone(),
        }
    }
}

/// Takes fingerprints, and holds the files that are part of them.
#[derive(Debug, Default)]
pub(super) struct Fingerprints {
    /// By the names of agents; taken before the first iteration.
    inputs: Option<BTreeMap<String, Vec<PinnedFile>>>,
    programs: ProgramDigests,
}

impl Fingerprints {
    /// Puts back the files that the agent whose turn it is reads. Says which were changed.
    pub(super) fn put_back(
        &mut self,
        drivers: &Drivers,
        agent: &str,
        task: &Iteration,
        config_dir: &Path,
    ) -> Result<Vec<String>, EngineError> {
        let inputs = match self.inputs.take() {
            Some(inputs) => inputs,
            None => pin_all(drivers, task, config_dir)?,
        };
        let inputs = self.inputs.insert(inputs);
        let mut changed = Vec::new();
        for file in inputs.get_mut(agent).into_iter().flatten() {
            let path = file.path().display().to_string();
            let put_back = file.put_back().map_err(|error| {
                EngineError::Workspace(format!(
                    "{path}, which the agent `{agent}` reads, was changed and cannot be put back: \
                     {error}; nothing is started with it"
                ))
            })?;
            if put_back {
                changed.push(path);
            }
        }
        Ok(changed)
    }

    /// What the agent whose turn it is will be given, in digests and for people.
    pub(super) fn take(
        &mut self,
        drivers: &Drivers,
        state: &crate::machine::State,
        handed: Handed<'_>,
        store: &Store,
        redactor: &Redactor,
    ) -> (Given, Start) {
        let now = drivers.of(state);
        let (driver, task) = (&now.driver, handed.task);
        let launch = driver.agent.launch(task);
        let scratch = task.scratch.display().to_string();
        let plain = |text: &str| match scratch.as_str() {
            "" => text.to_owned(),
            scratch => text.replace(scratch, SCRATCH),
        };
        let Launch { program, argv, env } = launch.clone().unwrap_or_default();
        let program = program.or_else(|| driver.description.program.clone());
        let env = if env.is_empty() { &task.env } else { &env };
        let env = env.iter().filter(|(name, _)| *name != ITERATION);
        let env = env.map(|(name, value)| (name.clone(), store.keyed(plain(value).as_bytes())));
        let argv: Vec<String> = argv.iter().map(|word| plain(word)).collect();
        let files = self.inputs.as_ref().and_then(|inputs| inputs.get(&now.name));
        let inputs = files.into_iter().flatten();
        let start = Start {
            agent: now.name.clone(),
            version: now.version().map(|version| redactor.text(version).into_owned()),
            model: driver.description.model.clone(),
            program: program.map(|path| Program { digest: self.programs.of(&path), path }),
            workspace: task.workspace.clone(),
            argv: launch.is_some().then_some(argv),
            env: env.collect(),
            inputs: inputs
                .map(|file| (file.path().display().to_string(), file.digest().to_owned()))
                .collect(),
        };
        let config = json(&(&driver.description, &driver.config.config));
        let given = start.given(handed, &config);
        let argv = start
            .argv
            .map(|argv| argv.iter().map(|word| redactor.text(word).into_owned()).collect());
        (given, Start { argv, ..start })
    }
}

/// The files that each agent reads, as they are now.
fn pin_all(
    drivers: &Drivers,
    task: &Iteration,
    config_dir: &Path,
) -> Result<BTreeMap<String, Vec<PinnedFile>>, EngineError> {
    let mut all = BTreeMap::new();
    for one in drivers.all() {
        let configured = one.driver.config.inputs.iter().map(|path| (config_dir.join(path), true));
        let launch = one.driver.agent.launch(task).unwrap_or_default();
        let named = files_in(&launch.argv);
        let named = named.into_iter().map(|path| (task.workspace.join(path), false));
        let mut files: Vec<PinnedFile> = Vec::new();
        for (path, needed) in configured.chain(named) {
            if files.iter().any(|file| file.path() == path) {
                continue;
            }
            match PinnedFile::pin(&path) {
                Ok(Some(file)) => files.push(file),
                // It is the agent's to say so: what looks like a file may be something else.
                Ok(None) | Err(_) if !needed => {}
                Ok(None) => {
                    let path = path.display();
                    let message = format!("{path}, named in [agent] inputs, is not there");
                    return Err(EngineError::Workspace(message));
                }
                Err(error) => {
                    let path = path.display();
                    let message = format!("{path}, named in [agent] inputs: {error}");
                    return Err(EngineError::Workspace(message));
                }
            }
        }
        all.insert(one.name.clone(), files);
    }
    Ok(all)
}

/// The files that a command line names. Such options take JSON as well, and some several values.
fn files_in(argv: &[String]) -> Vec<&str> {
    let mut files = Vec::new();
    let mut open = false;
    for word in argv {
        let option = word.split_once('=').map_or(word.as_str(), |(option, _)| option);
        let value = if FILE_OPTIONS.contains(&option) {
            open = true;
            word.split_once('=').map(|(_, value)| value)
        } else if word.starts_with('-') {
            open = false;
            None
        } else {
            Some(word.as_str()).filter(|_| open)
        };
        files.extend(value.filter(|value| !value.trim_start().starts_with('{')));
    }
    files
}

fn json(value: &impl Serialize) -> Vec<u8> {
    serde_json::to_vec(value).unwrap_or_default()
}

fn digest(bytes: &[u8]) -> String {
    blake3::hash(bytes).to_hex().to_string()
}

#[cfg(test)]
mod tests {
    use super::files_in;

    #[test]
    fn files_of_options_are_found_and_json_is_none() {
        let argv = "-p --settings a.json --mcp-config b.json c/d.json --mcp-config={\"x\":1} \
                    --settings=e --model x last";
        let argv: Vec<String> = argv.split_whitespace().map(str::to_owned).collect();
        assert_eq!(files_in(&argv), ["a.json", "b.json", "c/d.json", "e"]);
    }
}
