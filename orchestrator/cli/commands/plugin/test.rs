//! `plugin test`

mod config;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use ralph_orchestrator_config::PluginConfig;
use ralph_orchestrator_conformance::{
    self as conformance, Fixture, ItemFixture, ItemReport, Subject,
};
use ralph_orchestrator_contract::BuildContext;
use ralph_orchestrator_plugin_host::{Plugin, PrivateCopy, check};
use ralph_orchestrator_plugin_protocol::{Item, ItemKind};
use ralph_orchestrator_supervisor::{KillSwitch, Supervisor};

use self::config::{ConformanceConfig, ItemConfig};
use crate::commands::block_on;
use crate::context::{Context, plugin_cache, variables};
use crate::discovery::ConfigFile;
use crate::error::{CommandError, exit};
use crate::output;
use crate::render::text;

#[derive(Debug, clap::Args)]
pub(crate) struct TestPluginArgs {
    /// A library, or the name of a plugin in ralph.toml
    pub(crate) plugin: PathBuf,
    /// Configuration of its items and scenarios to skip: a TOML file with `[config]`, `[env]` and
    /// `[[skip]]`
    #[arg(long, value_name = "FILE")]
    pub(crate) conformance: Option<PathBuf>,
}

/// The plugin's name where it has none.
const NAME: &str = "tested";

/// The plugin under test.
struct TestedPlugin {
    name: String,
    code: Code,
    config: ConformanceConfig,
    supervisor: Supervisor,
}

enum Code {
    Library(PrivateCopy),
    Program { config: PluginConfig, context: Box<Context> },
}

/// Runs the conformance tests on all items of the plugin.
pub(crate) fn test(file: &ConfigFile, args: &TestPluginArgs) -> Result<u8, CommandError> {
    let config = args
        .conformance
        .as_deref()
        .map_or_else(|| Ok(ConformanceConfig::default()), ConformanceConfig::read)?;
    let (name, code) = find(file, &args.plugin)?;
    let supervisor = Supervisor::this_binary().with_kill_switch(KillSwitch::default());
    let plugin = TestedPlugin { name, code, config, supervisor };
    let failed = block_on(plugin.run_tests())?;
    if failed == 0 {
        output::result("all checks passed");
        return Ok(exit::OK);
    }
    output::result(&format!(
        "{} failed",
        text::count(u64::try_from(failed).unwrap_or(u64::MAX), "check")
    ));
    Ok(exit::UNAVAILABLE)
}

/// The plugin by the path of its library, or by its name in `ralph.toml`.
fn find(file: &ConfigFile, plugin: &Path) -> Result<(String, Code), CommandError> {
    let library = |path: &Path, pinned: Option<&str>| {
        let checked =
            check(path, pinned).and_then(|checked| checked.copy_to(&plugin_cache(&variables())));
        checked.map(Code::Library).map_err(|error| CommandError::unavailable(error.to_string()))
    };
    let named = plugin.to_str().filter(|name| !name.contains(['/', '.']) && !plugin.exists());
    let Some(name) = named else { return Ok((NAME.to_owned(), library(plugin, None)?)) };
    let context = Context::load(file, Vec::new())?;
    let Some(config) = context.loaded.config.plugins.get(name).cloned() else {
        let message = format!("{} has no [plugins.{name}]", context.file.display());
        return Err(CommandError::user(message).hinted("name one, or the file of a library"));
    };
    let code = match &config.library {
        Some(path) => library(path, config.digest.as_deref())?,
        None => Code::Program { config, context: Box::new(context) },
    };
    Ok((name.to_owned(), code))
}

impl TestedPlugin {
    /// Prints a table for each item; how many lines of them failed.
    async fn run_tests(&self) -> Result<usize, CommandError> {
        let hello = self.plugin(BTreeMap::new())?.probe(&self.supervisor).await;
        let hello = hello.map_err(|closed| CommandError::unavailable(closed.0))?;
        self.config.check_items(&hello.provides)?;
        let mut failed = 0;
        for item in &hello.provides {
            let config = self.config.item(&item.name);
            let (table, wrong) = match item.kind {
                ItemKind::Agent => self.agent(item, config).await?,
                ItemKind::Detector | ItemKind::Validator | ItemKind::Backlog => {
                    let report = self.check_item(item, config).await?;
                    (report.to_string(), count(report.rows.iter().map(|(_, outcome, _)| outcome)))
                }
                // From a newer version: a run would not use it either.
                ItemKind::Unknown => {
                    (format!("{}: of a kind that this version does not know\n", item.name), 0)
                }
            };
            output::result(&format!("{} {table}", item.kind.word()));
            failed += wrong;
        }
        Ok(failed)
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

    async fn agent(
        &self,
        item: &Item,
        config: &ItemConfig,
    ) -> Result<(String, usize), CommandError> {
        let env = variables().into_iter().filter(|(name, _)| name == "PATH").collect();
        let plugin = self.plugin(env)?;
        let options = config.options()?;
        let make = |fixture: &Fixture| -> conformance::SubjectFuture {
            let (table, context) = (config.table(fixture), fixture.context.clone());
            let (plugin, by) = (Arc::clone(&plugin), self.supervisor.clone());
            let (name, env) = (item.name.clone(), config.env.clone());
            Box::pin(async move {
                let agent = plugin.agent(Some(&name), table, &context, &by).await;
                let subject = Subject::boxed(agent.map_err(|error| config::build_failure(&error))?);
                Ok(env.iter().fold(subject, |subject, (name, value)| subject.env(name, value)))
            })
        };
        let report = conformance::run_async(&options, &make).await;
        Ok((report.to_string(), count(report.rows.iter().map(|(_, outcome, _)| outcome))))
    }

    async fn check_item(
        &self,
        item: &Item,
        config: &ItemConfig,
    ) -> Result<ItemReport, CommandError> {
        let mut fixture = ItemFixture::new();
        fixture.env.extend(config.env.clone());
        let plugin = self.plugin(fixture.env.clone())?;
        let table = config.plain_table();
        let with = |context: &BuildContext| {
            let (plugin, by) = (Arc::clone(&plugin), self.supervisor.clone());
            (plugin, by, item.name.clone(), context.clone())
        };
        Ok(match item.kind {
            ItemKind::Detector => {
                let make = |table, context: &BuildContext| -> conformance::ItemFuture<_> {
                    let (plugin, by, name, context) = with(context);
                    Box::pin(
                        async move { plugin.detector(Some(&name), table, &context, &by).await },
                    )
                };
                conformance::check_detector(&fixture, &table, &make).await
            }
            ItemKind::Backlog => {
                let make = |table, context: &BuildContext| -> conformance::ItemFuture<_> {
                    let (plugin, by, name, context) = with(context);
                    Box::pin(async move { plugin.backlog(Some(&name), table, &context, &by).await })
                };
                let mut report = conformance::check_backlog_format(&fixture, &table, &make).await;
                report.name.clone_from(&item.name);
                report
            }
            _ => {
                let make = |table, context: &BuildContext| -> conformance::ItemFuture<_> {
                    let (plugin, by, name, context) = with(context);
                    Box::pin(
                        async move { plugin.validator(Some(&name), table, &context, &by).await },
                    )
                };
                conformance::check_validator(&fixture, &table, &make).await
            }
        })
    }
}

fn count<'a>(outcomes: impl Iterator<Item = &'a conformance::Outcome>) -> usize {
    outcomes.filter(|outcome| matches!(outcome, conformance::Outcome::Failed(_))).count()
}
