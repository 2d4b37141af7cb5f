//! A workspace and a state directory, and runs on them.

use std::collections::BTreeMap;
use std::fs;
use std::sync::Arc;

use ralph_orchestrator_config::{self as config, LoadedConfig, Sources};
use ralph_orchestrator_engine::{
    EngineError, Finished, NoProcesses, OpenOutcome, RunEvent, RunObserver, StopRequest,
};
use ralph_orchestrator_machine::{Record, State};
use ralph_orchestrator_store::{Disk, Layout, StoredRun, read_current_run};

use super::scripted::Script;
use crate::run_folder::{RunFolder, Start, open_run};

const CONFIG: &str = r#"
[run]
workspace = "w"
delay = "0s"
[agent]
adapter = "scripted"
[completion]
detectors = ["scripted"]
[[validator]]
kind = "scripted"
[state]
dir = "@STATE@"
"#;

pub(crate) struct World {
    folder: RunFolder,
    pub(crate) script: Script,
}

/// How a start ended.
#[derive(Debug)]
pub(crate) enum Ended {
    Finished(Box<Finished>),
    /// It was complete; nothing was started.
    Complete,
}

/// What is the same however a run came to its end.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Outcome {
    tree: String,
    evidence: Vec<(String, String)>,
    task: String,
    validated: bool,
}

struct Nobody;

impl RunObserver for Nobody {
    fn on_event(&self, _run: &str, _notice: &RunEvent) {}
}

impl World {
    pub(crate) fn new() -> Self {
        Self::with("")
    }

    /// With more tables in its configuration.
    pub(crate) fn with(more: &str) -> Self {
        let folder = RunFolder::new(&format!("{CONFIG}{more}"));
        let (workspace, state) = (folder.workspace(), folder.state());
        let script = Script { workspace, state, happened: Arc::default() };
        Self { folder, script }
    }

    pub(crate) fn layout(&self) -> Layout {
        Layout::new(self.script.state.clone())
    }

    /// `run`, in a process of its own as far as memory is concerned.
    pub(crate) fn run(&self, disk: Disk) -> Result<Ended, EngineError> {
        let sources = Sources { file: self.folder.config_file(), ..Sources::default() };
        self.run_loaded(config::load(&sources).unwrap(), disk)
    }

    /// The same with a task from the command line, and no configuration file.
    pub(crate) fn run_without_file(&self, task: &str) -> Result<Ended, EngineError> {
        let (file, away) = (self.folder.config_file(), self.folder.root().join("away.toml"));
        let sets = vec![("run.prompt_text".to_owned(), task.to_owned())];
        let loaded = config::load(&Sources { file: file.clone(), sets, ..Sources::default() });
        fs::rename(&file, &away).unwrap();
        let ended = self.run_loaded(loaded.unwrap(), Disk::default());
        fs::rename(&away, &file).unwrap();
        ended
    }

    fn run_loaded(&self, loaded: LoadedConfig, disk: Disk) -> Result<Ended, EngineError> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            let root = self.folder.root();
            let opened = open_run(Start {
                root: &root,
                loaded,
                vars: BTreeMap::new(),
                disk,
                processes: Arc::new(NoProcesses),
                registry: &self.script.registry(),
            })
            .await?;
            let session = match opened {
                OpenOutcome::Complete { .. } => return Ok(Ended::Complete),
                OpenOutcome::Ready(session) => session,
            };
            let (_ask, asked) = tokio::sync::watch::channel(StopRequest::default());
            let finished = Box::pin(session.drive(Arc::new(Nobody), asked)).await?;
            Ok(Ended::Finished(Box::new(finished)))
        })
    }

    /// What a reader finds on disk.
    pub(crate) fn found(&self) -> Option<StoredRun> {
        read_current_run(&self.layout(), |_| ()).unwrap()
    }

    pub(crate) fn records(&self) -> Vec<Record> {
        let mut records = Vec::new();
        read_current_run(&self.layout(), |entry| records.push(entry.record.clone())).unwrap();
        records
    }

    /// The end of a completed run.
    pub(crate) fn outcome(&self) -> Outcome {
        let state = self.found().expect("a run").state;
        let completion = state.completion().expect("a completion");
        let found = self.found().unwrap();
        let evidence = self.layout().evidence(&found.run);
        let kept = |digest: &str| fs::read_to_string(evidence.join(digest)).unwrap();
        Outcome {
            tree: completion.tree.clone(),
            evidence: completion
                .evidence
                .iter()
                .map(|file| (file.digest.clone(), kept(&file.digest)))
                .collect(),
            task: completion.task.clone(),
            validated: completion.validated,
        }
    }

    /// How often an agent ran, and the validator accepted.
    pub(crate) fn happened(&self) -> (usize, usize) {
        let happened = self.script.happened.lock().unwrap();
        (happened.ran.len(), happened.accepted)
    }

    pub(crate) fn state(&self) -> State {
        self.found().map(|found| found.state).unwrap_or_default()
    }
}
