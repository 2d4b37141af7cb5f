//! `plugin test`

mod kit;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use plugin_host::{Isolation, Plugin, PrivateCopy, check};
use plugin_protocol::{Item, ItemKind};
use ralph_orchestrator_config::PluginConfig;
use ralph_orchestrator_contract::BuildContext;
use ralph_orchestrator_supervisor::{KillSwitch, Supervisor};
use ralph_orchestrator_testkit::conformance::{self, Cast, Judged, Place, Stage};

use self::kit::{Kit, Part};
use crate::commands::block_on;
use crate::context::{Context, plugin_cache, variables};
use crate::discovery::ConfigFile;
use crate::error::{CommandError, exit};
use crate::output;
use crate::render::text;

#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum IsolationArg {
    /// In a process of its own
    Process,
    /// In this process, which it can take down
    None,
}

#[derive(Debug, clap::Args)]
pub(crate) struct TestPluginArgs {
    /// A library, or the name of a plugin in ralph.toml
    pub(crate) plugin: PathBuf,
    /// What its items are built with, and which scenarios are skipped: a TOML file with `[config]`,
    /// `[env]` and `[[without]]`
    #[arg(long, value_name = "FILE")]
    pub(crate) kit: Option<PathBuf>,
    /// Only with this isolation [default: process, and then none]
    #[arg(long, value_enum)]
    pub(crate) isolation: Option<IsolationArg>,
}

/// The plugin's name where it has none.
const NAME: &str = "tested";

/// What is examined.
struct Subject {
    name: String,
    code: Code,
    kit: Kit,
    supervisor: Supervisor,
}

enum Code {
    Library(PrivateCopy),
    Program { config: PluginConfig, context: Box<Context> },
}

/// Examines all items of the plugin, first in a process of its own. Without one comes last: a plugin
/// that takes its process down takes this one.
pub(crate) fn test(file: &ConfigFile, args: &TestPluginArgs) -> Result<u8, CommandError> {
    let kit = args.kit.as_deref().map_or_else(|| Ok(Kit::default()), Kit::read)?;
    let (name, code) = find(file, &args.plugin)?;
    let supervisor = Supervisor::this_binary().with_kill_switch(KillSwitch::default());
    let subject = Subject { name, code, kit, supervisor };
    let isolations: &[Isolation] = match (&subject.code, args.isolation) {
        (_, Some(IsolationArg::Process)) | (Code::Program { .. }, None) => &[Isolation::Process],
        (Code::Library(_), Some(IsolationArg::None)) => &[Isolation::None],
        (Code::Library(_), None) => &[Isolation::Process, Isolation::None],
        (Code::Program { .. }, Some(IsolationArg::None)) => {
            let message = "a program always runs in a process of its own";
            return Err(CommandError::user(message).hinted("leave `--isolation none` out"));
        }
    };
    let mut failed = 0;
    for isolation in isolations {
        failed += block_on(subject.examine(*isolation))?;
    }
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

impl Subject {
    /// Prints a table for each item; how many lines of them failed.
    async fn examine(&self, isolation: Isolation) -> Result<usize, CommandError> {
        let word = match isolation {
            Isolation::Process => "process",
            Isolation::None => "none",
        };
        output::result(&format!("isolation = \"{word}\""));
        let looked = self.plugin(isolation, BTreeMap::new())?.look(&self.supervisor).await;
        let hello = looked.map_err(|broken| CommandError::unavailable(broken.0))?;
        self.kit.knows_only(&hello.provides)?;
        let mut failed = 0;
        for item in &hello.provides {
            let part = self.kit.of(&item.name);
            let (table, wrong) = match item.kind {
                ItemKind::Agent => self.agent(isolation, item, part).await?,
                ItemKind::Detector | ItemKind::Validator => {
                    let judged = self.judge(isolation, item, part).await?;
                    (judged.to_string(), count(judged.rows.iter().map(|(_, outcome, _)| outcome)))
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

    fn plugin(
        &self,
        isolation: Isolation,
        env: BTreeMap<String, String>,
    ) -> Result<Arc<Plugin>, CommandError> {
        let plugin = match &self.code {
            Code::Library(copy) => Plugin::library(&self.name, copy.clone(), isolation, env),
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
        isolation: Isolation,
        item: &Item,
        part: &Part,
    ) -> Result<(String, usize), CommandError> {
        let env = variables().into_iter().filter(|(name, _)| name == "PATH").collect();
        let plugin = self.plugin(isolation, env)?;
        let options = part.options()?;
        // In this process nobody else looks after what it starts.
        let options = if isolation == Isolation::None { options.unsupervised() } else { options };
        let make = |stage: &Stage| -> conformance::Making {
            let (table, context) = (part.table(stage), stage.context.clone());
            let (plugin, by) = (Arc::clone(&plugin), self.supervisor.clone());
            let (name, env) = (item.name.clone(), part.env.clone());
            Box::pin(async move {
                let agent = plugin.agent(Some(&name), table, &context, &by).await;
                let cast = Cast::boxed(agent.map_err(|error| kit::refused(&error))?);
                Ok(env.iter().fold(cast, |cast, (name, value)| cast.env(name, value)))
            })
        };
        let report = conformance::examine(&options, &make).await;
        Ok((report.to_string(), count(report.rows.iter().map(|(_, outcome, _)| outcome))))
    }

    async fn judge(
        &self,
        isolation: Isolation,
        item: &Item,
        part: &Part,
    ) -> Result<Judged, CommandError> {
        let mut place = Place::new();
        place.env.extend(part.env.clone());
        let plugin = self.plugin(isolation, place.env.clone())?;
        let table = part.plain_table();
        let with = |context: &BuildContext| {
            let (plugin, by) = (Arc::clone(&plugin), self.supervisor.clone());
            (plugin, by, item.name.clone(), context.clone())
        };
        let judged = if item.kind == ItemKind::Detector {
            let make = |table, context: &BuildContext| -> conformance::Later<_> {
                let (plugin, by, name, context) = with(context);
                Box::pin(async move { plugin.detector(Some(&name), table, &context, &by).await })
            };
            conformance::detector(&place, &table, &make).await
        } else {
            let make = |table, context: &BuildContext| -> conformance::Later<_> {
                let (plugin, by, name, context) = with(context);
                Box::pin(async move { plugin.validator(Some(&name), table, &context, &by).await })
            };
            conformance::validator(&place, &table, &make).await
        };
        Ok(judged)
    }
}

fn count<'a>(outcomes: impl Iterator<Item = &'a conformance::Outcome>) -> usize {
    outcomes.filter(|outcome| matches!(outcome, conformance::Outcome::Failed(_))).count()
}
