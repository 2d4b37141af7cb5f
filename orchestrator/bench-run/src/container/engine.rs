//! A container engine on this machine: runs its program, within bounds.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::time::Duration;

use ralph_orchestrator_assembly::error::CommandError;
use ralph_orchestrator_config::Isolation;
use ralph_orchestrator_supervisor::{Grace, KillSwitch, Spec, Supervisor, find_program};
use serde_json::Value;

use super::command_line::{CreateOrder, EngineCommands, EngineInfo};
use super::variables::{OF_CLIENT, matches};
use crate::engine_call::{EngineError, call_engine};
use crate::isolation::IsolationRow;

/// How long an engine may take for what it has at hand.
const COMMAND_TIME: Duration = Duration::from_secs(120);
/// What the client of an engine is given of the orchestrator's environment, beside [`OF_CLIENT`].
const CLIENT_VARIABLES: [&str; 8] = [
    "PATH",
    "HOME",
    "USER",
    "LOGNAME",
    "TMPDIR",
    "XDG_*",
    "DBUS_SESSION_BUS_ADDRESS",
    "BUILDAH_ISOLATION",
];

/// An image on this machine.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Image {
    /// What containers are made from.
    pub(super) name: String,
    /// The digest that identifies it.
    pub(super) id: String,
    /// Its work directory; empty if it names none.
    pub(super) workdir: String,
    /// Its search path, if it names one.
    pub(super) path: Option<String>,
}

/// A container engine. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Engine {
    pub(super) commands: &'static dyn EngineCommands,
    program: PathBuf,
    env: BTreeMap<String, String>,
    supervisor: Supervisor,
}

impl Engine {
    /// Finds the program of an engine.
    ///
    /// # Errors
    /// It is not installed, or the isolation has no engine.
    pub fn find(
        isolation: Isolation,
        vars: &BTreeMap<String, String>,
    ) -> Result<Self, CommandError> {
        let commands = IsolationRow::of(isolation).engine;
        let commands = commands
            .ok_or_else(|| CommandError::internal("this isolation has no container engine"))?;
        let path = vars.get("PATH").map(String::as_str).unwrap_or_default();
        let program = find_program(commands.program(), path, Path::new("/"));
        let program = program
            .map_err(|error| CommandError::unavailable(error).hinted(commands.installation()))?;
        let is_of_client =
            |name: &str| matches(&CLIENT_VARIABLES, name) || matches(&OF_CLIENT, name);
        let env = vars.iter().filter(|(name, _)| is_of_client(name));
        let env = env.map(|(name, value)| (name.clone(), value.clone())).collect();
        Ok(Self { commands, program, env, supervisor: Supervisor::this_binary() })
    }

    /// Returns the same engine, whose programs this switch kills.
    pub(super) fn with_kill_switch(&self, switch: &KillSwitch) -> Self {
        let supervisor = self.supervisor.clone().with_kill_switch(switch.clone());
        Self { supervisor, ..self.clone() }
    }

    /// Returns its name.
    pub fn name(&self) -> &'static str {
        self.commands.program()
    }

    /// Returns the environment of its program.
    pub(super) const fn env(&self) -> &BTreeMap<String, String> {
        &self.env
    }

    pub(super) const fn supervisor(&self) -> &Supervisor {
        &self.supervisor
    }

    /// Returns a start of its program with these arguments.
    pub(super) fn spec(&self, args: Vec<OsString>) -> Spec {
        Spec {
            program: self.program.clone(),
            args,
            cwd: "/".into(),
            env: self.env.clone(),
            stdin: Vec::new(),
            grace: Grace::default(),
        }
    }

    /// Returns its name and its version.
    ///
    /// # Errors
    /// It does not answer.
    pub async fn describe(&self) -> Result<String, CommandError> {
        Ok(format!("{} {}", self.name(), self.require_info().await?.version))
    }

    /// Returns what the engine says of itself.
    ///
    /// # Errors
    /// It does not answer.
    pub(super) async fn require_info(&self) -> Result<EngineInfo, CommandError> {
        self.info().await.map_err(|error| self.unavailable(error))
    }

    /// Returns the error of an engine without which nothing can be performed.
    pub(super) fn unavailable(&self, error: EngineError) -> CommandError {
        let hint = format!("see that `{} info` answers for this user", self.name());
        CommandError::unavailable(error).hinted(hint)
    }

    /// Returns what the engine says of itself.
    ///
    /// # Errors
    /// It does not answer.
    async fn info(&self) -> Result<EngineInfo, EngineError> {
        let args = self.commands.info();
        let command = self.name_command(&args);
        let text = self.run(args, COMMAND_TIME).await.map_err(leave_out_json)?;
        let answer = |reason: String| EngineError::Answer { command: command.clone(), reason };
        let info: Value = serde_json::from_str(&text).map_err(|error| answer(error.to_string()))?;
        self.commands.read_info(&info).map_err(answer)
    }

    /// Returns an image that is on this machine; none if it is not.
    ///
    /// # Errors
    /// The engine does not answer, or what it printed cannot be read.
    pub(super) async fn find_image(&self, image: &str) -> Result<Option<Image>, EngineError> {
        let args = self.commands.inspect_image(image);
        let command = self.name_command(&args);
        let text = match self.run(args, COMMAND_TIME).await {
            Ok(text) => text,
            Err(EngineError::Failed { output, .. }) if is_unknown_image(&output) => {
                return Ok(None);
            }
            Err(error) => return Err(error),
        };
        let answer = |reason: &str| EngineError::Answer { command, reason: reason.to_owned() };
        let Ok(found) = serde_json::from_str::<Value>(&text) else {
            return Err(answer("no JSON"));
        };
        let found = found.get(0).ok_or_else(|| answer("no image"))?;
        let text =
            |at: &str| found.pointer(at).and_then(Value::as_str).unwrap_or_default().to_owned();
        let env = found.pointer("/Config/Env").and_then(Value::as_array);
        let mut env = env.into_iter().flatten().filter_map(Value::as_str);
        Ok(Some(Image {
            name: image.to_owned(),
            id: text("/Id"),
            workdir: text("/Config/WorkingDir"),
            path: env.find_map(|variable| variable.strip_prefix("PATH=")).map(str::to_owned),
        }))
    }

    /// Gets an image from its registry.
    ///
    /// # Errors
    /// The engine says why it cannot.
    pub(super) async fn pull(&self, image: &str, timeout: Duration) -> Result<(), EngineError> {
        self.run(self.commands.pull(image), timeout).await.map(drop)
    }

    /// Builds an image.
    ///
    /// # Errors
    /// A line of the Dockerfile fails, with its last output.
    pub(super) async fn build(
        &self,
        tag: &str,
        dockerfile: &Path,
        context: &Path,
        timeout: Duration,
    ) -> Result<(), EngineError> {
        self.run(self.commands.build(tag, dockerfile, context), timeout).await.map(drop)
    }

    /// Makes a container, without starting it.
    ///
    /// # Errors
    /// The engine says why it cannot.
    pub(super) async fn create(&self, order: &CreateOrder) -> Result<(), EngineError> {
        self.run(self.commands.create(order), COMMAND_TIME).await.map(drop)
    }

    /// Copies a file or a folder out of a container; what is in a folder if the path ends with `/.`. Returns whether it is there.
    ///
    /// # Errors
    /// The engine says why it cannot.
    pub(super) async fn copy_out(
        &self,
        container: &str,
        path: &str,
        into: &Path,
        timeout: Duration,
    ) -> Result<bool, EngineError> {
        match self.run(self.commands.copy_out(container, path, into), timeout).await {
            Ok(_) => Ok(true),
            Err(EngineError::Failed { output, .. }) if has_no_path(&output) => Ok(false),
            Err(error) => Err(error),
        }
    }

    /// Ends a container at once.
    ///
    /// # Errors
    /// The engine says why it cannot.
    pub(super) async fn kill(&self, container: &str) -> Result<(), EngineError> {
        self.run(self.commands.kill(container), COMMAND_TIME).await.map(drop)
    }

    /// Ends and removes a container. That there is none is no error.
    ///
    /// # Errors
    /// The engine says why it cannot.
    pub(super) async fn remove(&self, container: &str) -> Result<(), EngineError> {
        match self.run(self.commands.remove(container), COMMAND_TIME).await {
            Err(EngineError::Failed { output, .. }) if is_gone(&output) => Ok(()),
            ended => ended.map(drop),
        }
    }

    /// Returns the names of a job's containers.
    ///
    /// # Errors
    /// The engine says why it cannot list them.
    pub(super) async fn list(&self, job: &str) -> Result<Vec<String>, EngineError> {
        let text = self.run(self.commands.list(job), COMMAND_TIME).await?;
        let names = text.lines().map(str::trim).filter(|name| !name.is_empty());
        Ok(names.map(str::to_owned).collect())
    }

    /// Runs its program to the end. Returns what it printed on standard output.
    async fn run(&self, args: Vec<OsString>, timeout: Duration) -> Result<String, EngineError> {
        let command = self.name_command(&args);
        call_engine(&self.supervisor, self.spec(args), command, timeout).await
    }

    /// Returns the program and the verb, for messages.
    fn name_command(&self, args: &[OsString]) -> String {
        let verb = args.first().map(|verb| verb.to_string_lossy()).unwrap_or_default();
        format!("{} {verb}", self.name())
    }
}

/// Leaves out what an engine says of itself although it does not answer.
fn leave_out_json(error: EngineError) -> EngineError {
    let EngineError::Failed { command, status, output } = error else { return error };
    let lines: Vec<&str> = output.lines().filter(|line| !line.starts_with('{')).collect();
    EngineError::Failed { command, status, output: lines.join("\n") }
}

/// Whether an engine failed because a container does not exist.
fn is_gone(output: &str) -> bool {
    let output = output.to_lowercase();
    ["no such container", "no container with", "does not exist"]
        .iter()
        .any(|words| output.contains(words))
}

/// Whether an engine failed because an image is not on this machine.
fn is_unknown_image(output: &str) -> bool {
    let output = output.to_lowercase();
    ["no such image", "no such object", "image not known"]
        .iter()
        .any(|words| output.contains(words))
}

/// Whether an engine failed because a path does not exist in a container.
fn has_no_path(output: &str) -> bool {
    let output = output.to_lowercase();
    ["could not find the file", "could not be found on"].iter().any(|words| output.contains(words))
}
