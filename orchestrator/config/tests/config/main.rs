//! The configuration from outside: files in, configurations or reports out.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::panic,
    missing_docs
)]

mod bench;
mod command_line;
mod errors;
mod escalation;
mod files;
mod hooks;
mod layers;
mod memory;
mod notify;
mod places;
mod presets;
mod roundtrip;
mod schema;

use std::collections::BTreeMap;
use std::path::PathBuf;

use ralph_orchestrator_config::{
    Config, ConfigErrors, Defaults, LoadedConfig, Preset, Sources, load,
};
use tempfile::TempDir;

/// A folder of its own with a `ralph.toml`, and the other sources.
struct Project {
    dir: TempDir,
    sources: Sources,
}

impl Project {
    fn new(text: impl AsRef<[u8]>) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("ralph.toml");
        std::fs::write(&file, text).unwrap();
        Self { dir, sources: Sources { file, defaults: defaults(), ..Sources::default() } }
    }

    /// Needs no validator.
    fn trusting(text: impl AsRef<[u8]>) -> Self {
        Self::new(text).set("completion.trust_agent", "true")
    }

    fn set(mut self, key: &str, value: &str) -> Self {
        self.sources.sets.push((key.to_owned(), value.to_owned()));
        self
    }

    fn var(mut self, name: &str, value: &str) -> Self {
        self.sources.vars.insert(name.to_owned(), value.to_owned());
        self
    }

    fn user(mut self, text: &str) -> Self {
        let file = self.path("user.toml");
        std::fs::write(&file, text).unwrap();
        self.sources.user_file = Some(file);
        self
    }

    /// Below the real folder of the file.
    fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    fn load(&self) -> Result<LoadedConfig, ConfigErrors> {
        load(&self.sources)
    }

    fn loaded(&self) -> LoadedConfig {
        self.load().unwrap_or_else(|errors| panic!("{errors}"))
    }

    fn config(&self) -> Config {
        self.loaded().config
    }

    /// The errors' lines, without the name of the folder.
    fn errors(&self) -> Vec<String> {
        let errors = self.load().expect_err("an error");
        let lines = errors.errors().iter().map(ToString::to_string);
        lines.map(|line| self.without_folder(&line)).collect()
    }

    fn without_folder(&self, text: &str) -> String {
        text.replace(&format!("{}/", self.dir.path().display()), "")
    }
}

const CAREFUL: &str = "\
[run]
delay = '7s'
prompt = 'tasks/TASK.md'
[limits]
max_iterations = 3
max_failures = 1
[[validator]]
kind = 'evidence-files'
";

fn defaults() -> Defaults {
    Defaults {
        adapter: "claude-cli".to_owned(),
        detectors: vec!["promise".to_owned(), "marker".to_owned()],
        presets: vec![
            Preset { name: "careful".to_owned(), toml: CAREFUL.to_owned() },
            Preset { name: "fast".to_owned(), toml: "run.delay = '0s'".to_owned() },
        ],
        optional_validators: vec!["review".to_owned()],
    }
}

fn table(pairs: &[(&str, &str)]) -> BTreeMap<String, String> {
    pairs.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect()
}
