//! The programs of clusters' engines on this machine.

use std::collections::BTreeMap;
use std::path::Path;
use std::time::Duration;

use ralph_orchestrator_supervisor::{Grace, Spec, Supervisor, find_program};

use crate::engine_call::{EngineError, call_engine};

/// How long an engine may take to start or end workers.
const COMMAND_TIME: Duration = Duration::from_secs(120);
/// How long it may take to say what its workers do, which people wait for.
const QUESTION_TIME: Duration = Duration::from_secs(10);

/// The programs of engines. They have the environment of whoever calls this one, as if he had typed them.
#[derive(Clone, Debug)]
pub struct ClusterPrograms {
    vars: BTreeMap<String, String>,
    supervisor: Supervisor,
}

impl ClusterPrograms {
    /// Returns the programs that this environment finds.
    #[must_use]
    pub fn new(vars: BTreeMap<String, String>) -> Self {
        Self { vars, supervisor: Supervisor::this_binary() }
    }

    /// Returns the folders in which programs are found.
    pub(super) fn search_path(&self) -> &str {
        self.vars.get("PATH").map(String::as_str).unwrap_or_default()
    }

    /// Runs a command to its end. Returns what it printed on standard output.
    ///
    /// # Errors
    /// It is not installed, fails, or does not end.
    pub(super) async fn call(
        &self,
        words: &[String],
        input: String,
    ) -> Result<String, EngineError> {
        self.run(words, input, COMMAND_TIME).await
    }

    /// The same with less patience.
    ///
    /// # Errors
    /// As of [`call`](Self::call).
    pub(super) async fn ask(&self, words: &[String]) -> Result<String, EngineError> {
        self.run(words, String::new(), QUESTION_TIME).await
    }

    async fn run(
        &self,
        words: &[String],
        input: String,
        timeout: Duration,
    ) -> Result<String, EngineError> {
        let (name, args) = words.split_first().map_or(("", &[][..]), |(name, args)| (name, args));
        let program = find_program(name, self.search_path(), Path::new("/"));
        let program = program.map_err(|error| EngineError::NotStarted {
            command: name.to_owned(),
            reason: format!("{error}; call this where the programs of the cluster are installed"),
        })?;
        let spec = Spec {
            program,
            args: args.iter().map(Into::into).collect(),
            // Where jobs begin, for some engines.
            cwd: std::env::current_dir().unwrap_or_else(|_| "/".into()),
            env: self.vars.clone(),
            stdin: input.into_bytes(),
            grace: Grace::default(),
        };
        call_engine(&self.supervisor, spec, name.to_owned(), timeout).await
    }
}
