//! The conformance tests of each item of a plugin.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use ralph_orchestrator_assembly::context::Context;
use ralph_orchestrator_assembly::error::CommandError;
use ralph_orchestrator_assembly::served_agent::ServedAgent;
use ralph_orchestrator_assembly::user_folders::variables;
use ralph_orchestrator_config::PluginConfig;
use ralph_orchestrator_conformance::{
    self as conformance, CheckResultRow, CheckSettings, Fixture, ItemFixture, Outcome, Subject,
};
use ralph_orchestrator_contract::{BuildContext, BuildError, FactoryError};
use ralph_orchestrator_plugin_host::{Plugin, PrivateCopy};
use ralph_orchestrator_plugin_protocol::{Item, ItemKind};
use ralph_orchestrator_supervisor::Supervisor;
use ralph_orchestrator_terminal::output;
use tokio::time::timeout;

use super::config::{ConformanceConfig, TestedConfig};
use super::names;
use super::report::TestReport;

/// The code of a plugin.
pub(super) enum Code {
    Library(PrivateCopy),
    Program { config: PluginConfig, context: Box<Context> },
}

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
        let plugin = self.plugin(inherited())?;
        let hello = plugin.probe(&self.supervisor).await;
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
        if hello.provides.is_empty() {
            return Ok(());
        }
        self.config.check_items(&hello.provides)?;
        names::check_only(&self.only, &hello.provides, &self.config)?;
        let mut differences = match plugin.manifest() {
            Some(manifest) => names::differences(manifest, &hello),
            None => Vec::new(),
        };
        for item in &hello.provides {
            let config = self.config.item(item);
            self.report.begin(item.kind.word(), &item.name);
            if !differences.is_empty() {
                let why = std::mem::take(&mut differences).join("; ");
                self.add_failure("manifest", &why, Duration::ZERO);
            }
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
                    Duration::ZERO,
                ),
            }
        }
        Ok(())
    }

    fn add_failure(&self, word: &str, why: &str, duration: Duration) {
        self.report.add(&CheckResultRow {
            word: word.to_owned(),
            title: word.to_owned(),
            outcome: Outcome::Failed(why.to_owned()),
            duration,
            transcript: None,
            remarks: Vec::new(),
        });
    }

    fn settings(&self, plugin: &Plugin) -> CheckSettings {
        let (report, remarks) = (self.report.clone(), Arc::clone(plugin.remarks()));
        let mut settings = CheckSettings::default().on_row(move |row| report.add(row));
        settings = settings.remarks(move |is_late| {
            let (ignored, unanswered) = remarks.take();
            let unanswered = unanswered.into_iter().filter(|_| is_late);
            ignored.into_iter().chain(unanswered).collect()
        });
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
        let options = config.options()?.settings(self.settings(&plugin));
        // Each scenario would fail for the same reason.
        let fixture = Fixture::for_building();
        let table = config.table(&fixture);
        let building = plugin.agent(Some(&item.name), table, &fixture.context, &self.supervisor);
        let (began, limit) = (Instant::now(), self.timeout.unwrap_or(Duration::MAX));
        let why = match timeout(limit, building).await {
            Ok(Ok(_)) => None,
            Ok(Err(FactoryError::Unavailable(why))) => Some(format!("it cannot be built: {why}")),
            Ok(Err(FactoryError::Table(error))) => Some(config.build_failure(&error)),
            Err(_) => {
                let seconds = limit.as_secs_f64();
                Some(format!("not within {seconds} s: `open` is not answered"))
            }
        };
        if let Some(why) = why {
            self.add_failure("opens", &why, began.elapsed());
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
                let failed = |error: FactoryError| format!("it cannot be built: {error}");
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
        fixture.cases = config.cases()?;
        let plugin = self.plugin(fixture.env.clone())?;
        fixture.settings = self.settings(&plugin);
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
                        built.map_err(|error| located(&config, error))
                    })
                };
                conformance::check_detector(&fixture, &table, &make).await;
            }
            ItemKind::Backlog => {
                let make = |table, context: &BuildContext| -> conformance::ItemFuture<_> {
                    let (plugin, by, name, context, config) = with(context);
                    Box::pin(async move {
                        let built = plugin.backlog(Some(&name), table, &context, &by).await;
                        built.map_err(|error| located(&config, error))
                    })
                };
                conformance::check_backlog_format(&fixture, &table, &make).await;
            }
            _ => {
                let make = |table, context: &BuildContext| -> conformance::ItemFuture<_> {
                    let (plugin, by, name, context, config) = with(context);
                    Box::pin(async move {
                        let built = plugin.validator(Some(&name), table, &context, &by).await;
                        built.map_err(|error| located(&config, error))
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
fn located(config: &TestedConfig, error: FactoryError) -> BuildError {
    match error {
        FactoryError::Unavailable(message) => BuildError::at("", message),
        FactoryError::Table(error) => config.located(error),
    }
}
