//! The conformance tests of each item of a plugin.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use ralph_orchestrator_conformance::{
    self as conformance, CheckResultRow, CheckSettings, Fixture, ItemFixture, Outcome, Subject,
};
use ralph_orchestrator_contract::{BuildContext, BuildError};
use ralph_orchestrator_plugin_host::Plugin;
use ralph_orchestrator_plugin_protocol::{Item, ItemKind};
use ralph_orchestrator_supervisor::Supervisor;

use super::Code;
use super::config::{ConformanceConfig, TestedConfig};
use super::report::TestReport;
use crate::context::variables;
use crate::error::CommandError;
use crate::output;
use crate::served_agent::ServedAgent;

/// The plugin under test.
pub(super) struct TestedPlugin {
    pub(super) name: String,
    pub(super) code: Code,
    pub(super) config: ConformanceConfig,
    pub(super) supervisor: Supervisor,
    pub(super) only: Vec<String>,
    pub(super) timeout: Option<Duration>,
    pub(super) report: TestReport,
}

impl TestedPlugin {
    /// Runs the tests of each item.
    pub(super) async fn run_tests(&self) -> Result<(), CommandError> {
        let hello = self.plugin(inherited())?.probe(&self.supervisor).await;
        let hello = hello.map_err(|closed| {
            let error =
                CommandError::unavailable(format!("the plugin `{}`: {}", self.name, closed.0));
            if closed.0.contains("ASan runtime does not come first") {
                let hint = "start with LD_PRELOAD=\"$(cc -print-file-name=libasan.so)\" before the \
                            command: a library with AddressSanitizer needs its runtime loaded first";
                return error.hinted(hint);
            }
            error
        })?;
        self.config.check_items(&hello.provides)?;
        for item in &hello.provides {
            let config = self.config.item(item);
            self.report.begin(item.kind.word(), &item.name);
            match item.kind {
                ItemKind::Agent => self.agent(item, &config).await?,
                ItemKind::Detector | ItemKind::Validator | ItemKind::Backlog => {
                    self.check_item(item, &config).await?;
                }
                // A run would not use it either.
                ItemKind::Unknown => self.add_failure(
                    "opens",
                    "its kind is none that this version knows: expected agent, detector, validator \
                     or backlog",
                ),
            }
        }
        Ok(())
    }

    fn add_failure(&self, word: &str, why: &str) {
        self.report.add(&CheckResultRow {
            word: word.to_owned(),
            title: word.to_owned(),
            outcome: Outcome::Failed(why.to_owned()),
            duration: Duration::ZERO,
            transcript: None,
        });
    }

    fn settings(&self) -> CheckSettings {
        let report = self.report.clone();
        let mut settings = CheckSettings::default().on_row(move |row| report.add(row));
        if !self.only.is_empty() {
            // Without the first nothing can be said of the others.
            let opens = std::iter::once("opens".to_owned());
            settings = settings.only(self.only.iter().cloned().chain(opens));
        }
        match self.timeout {
            Some(timeout) => settings.timeout(timeout),
            None => settings,
        }
    }

    fn plugin(&self, env: BTreeMap<String, String>) -> Result<Arc<Plugin>, CommandError> {
        let plugin = match &self.code {
            Code::Library(copy) => Plugin::library(&self.name, copy.clone(), env),
            Code::Program { config, context } => {
                let path = context.vars.get("PATH").map(String::as_str).unwrap_or_default();
                let place = (context.loaded.dir(), path);
                let digest = config.digest.as_deref();
                Plugin::program(&self.name, &config.command, place, digest, env)
                    .map_err(|error| CommandError::unavailable(error.to_string()))?
            }
        };
        Ok(Arc::new(plugin))
    }

    async fn agent(&self, item: &Item, config: &TestedConfig) -> Result<(), CommandError> {
        let plugin = self.plugin(inherited())?;
        let options = config.options()?.settings(self.settings());
        // Each scenario would fail for the same reason.
        let fixture = Fixture::for_building();
        let table = config.table(&fixture);
        let built = plugin.agent(Some(&item.name), table, &fixture.context, &self.supervisor).await;
        if let Err(error) = built {
            let why = if plugin.has_failed(&error) {
                format!("it cannot be built: {error}")
            } else {
                config.build_failure(&error)
            };
            self.add_failure("opens", &why);
            return Ok(());
        }
        if !config.has_placeholder() {
            output::info(
                "note: its configuration uses none of {says}, {runs}, {claims}, {notes} and \
                 {model_url}: the scenarios cannot make the agent do what they examine",
            );
        }
        let make = |fixture: &Fixture| -> conformance::SubjectFuture {
            let (table, context) = (config.table(fixture), fixture.context.clone());
            let (plugin, by) = (Arc::clone(&plugin), self.supervisor.clone());
            let mut env = preloaded();
            env.extend(config.env().clone());
            let name = item.name.clone();
            Box::pin(async move {
                let agent = plugin.agent(Some(&name), table, &context, &by).await;
                let failed = |error: BuildError| format!("it cannot be built: {error}");
                let subject = Subject::new(ServedAgent(agent.map_err(failed)?));
                Ok(env.iter().fold(subject, |subject, (name, value)| subject.env(name, value)))
            })
        };
        conformance::run_async(&options, &make).await;
        Ok(())
    }

    async fn check_item(&self, item: &Item, config: &TestedConfig) -> Result<(), CommandError> {
        let mut fixture = ItemFixture::new();
        fixture.env.extend(preloaded());
        fixture.env.extend(config.env().clone());
        fixture.settings = self.settings();
        fixture.cases = config.cases()?;
        let plugin = self.plugin(fixture.env.clone())?;
        let table = config.plain_table();
        let with = |context: &BuildContext| {
            let (plugin, by) = (Arc::clone(&plugin), self.supervisor.clone());
            (plugin, by, item.name.clone(), context.clone(), config.clone())
        };
        match item.kind {
            ItemKind::Detector => {
                let make = |table, context: &BuildContext| -> conformance::ItemFuture<_> {
                    let (plugin, by, name, context, config) = with(context);
                    Box::pin(async move {
                        let built = plugin.detector(Some(&name), table, &context, &by).await;
                        built.map_err(|error| located(&plugin, &config, error))
                    })
                };
                conformance::check_detector(&fixture, &table, &make).await;
            }
            ItemKind::Backlog => {
                let make = |table, context: &BuildContext| -> conformance::ItemFuture<_> {
                    let (plugin, by, name, context, config) = with(context);
                    Box::pin(async move {
                        let built = plugin.backlog(Some(&name), table, &context, &by).await;
                        built.map_err(|error| located(&plugin, &config, error))
                    })
                };
                conformance::check_backlog_format(&fixture, &table, &make).await;
            }
            _ => {
                let make = |table, context: &BuildContext| -> conformance::ItemFuture<_> {
                    let (plugin, by, name, context, config) = with(context);
                    Box::pin(async move {
                        let built = plugin.validator(Some(&name), table, &context, &by).await;
                        built.map_err(|error| located(&plugin, &config, error))
                    })
                };
                conformance::check_validator(&fixture, &table, &make).await;
            }
        }
        Ok(())
    }
}

/// Returns the variables of this process that decide how a library is loaded and what a sanitizer does.
fn preloaded() -> BTreeMap<String, String> {
    const NAMES: [&str; 5] =
        ["LD_PRELOAD", "LD_LIBRARY_PATH", "ASAN_OPTIONS", "LSAN_OPTIONS", "UBSAN_OPTIONS"];
    variables().into_iter().filter(|(name, _)| NAMES.contains(&name.as_str())).collect()
}

/// Returns the environment of processes that belong to no scenario.
fn inherited() -> BTreeMap<String, String> {
    let path = variables().into_iter().filter(|(name, _)| name == "PATH");
    path.chain(preloaded()).collect()
}

/// Returns the error with the place of its key, unless the plugin itself failed.
fn located(plugin: &Plugin, config: &TestedConfig, error: BuildError) -> BuildError {
    if plugin.has_failed(&error) { error } else { config.located(error) }
}
