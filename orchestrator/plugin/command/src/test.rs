//! `plugin test`

mod config;
mod defaults;
mod items;
mod names;
mod report;

use std::path::{Path, PathBuf};

use ralph_orchestrator_assembly::block_on::block_on;
use ralph_orchestrator_assembly::context::Context;
use ralph_orchestrator_assembly::discovery::ConfigFile;
use ralph_orchestrator_assembly::error::{CommandError, exit};
use ralph_orchestrator_assembly::user_folders::{plugin_cache, variables};
use ralph_orchestrator_config::parse_duration;
use ralph_orchestrator_plugin_host::check;
use ralph_orchestrator_supervisor::{KillSwitch, Supervisor};
use ralph_orchestrator_terminal::output;
use ralph_orchestrator_terminal::output_place::write_whole;
use ralph_orchestrator_terminal::trust;
use ralph_orchestrator_text::count;

use self::config::ConformanceConfig;
use self::items::{Code, TestedPlugin};
use self::report::TestReport;
use crate::named;

#[expect(missing_docs, reason = "it would be a part of the help")]
#[derive(Debug, clap::Args)]
pub struct TestPluginArgs {
    /// A library, or the name of a plugin in ralph.toml
    pub(crate) plugin: PathBuf,
    /// Configuration of its items and scenarios to skip: a TOML file with `[config]`, `[env]`,
    /// `[[skip]]` and `[[workspace]]` [default: conformance.toml beside the library, its crate or
    /// ralph.toml]
    #[arg(long, value_name = "FILE")]
    pub(crate) conformance: Option<PathBuf>,
    /// Run only these checks, such as `start` or `same-twice`
    #[arg(long, value_name = "CHECK", value_delimiter = ',')]
    pub(crate) only: Vec<String>,
    /// Fail each check that takes longer [default: 3m for an agent, 1m for others]
    #[arg(long, value_name = "DURATION")]
    pub(crate) timeout: Option<String>,
    /// Print one JSON object
    #[arg(long)]
    pub(crate) json: bool,
    /// Write the results into this file as JUnit XML
    #[arg(long, value_name = "FILE")]
    pub(crate) junit: Option<PathBuf>,
}

/// The plugin's name where its manifest has none.
const NAME: &str = "tested";

/// A plugin, and where its configuration for tests is looked for.
struct Found {
    name: String,
    code: Code,
    /// The configuration that names it.
    context: Option<Box<Context>>,
    folders: Vec<PathBuf>,
}

/// Runs the conformance tests on all items of the plugin.
pub(crate) fn test(file: &ConfigFile, args: &TestPluginArgs) -> Result<u8, CommandError> {
    let timeout = args.timeout.as_deref().map(read_timeout).transpose()?;
    let found = find(file, &args.plugin)?;
    let conformance = args.conformance.clone().or_else(|| defaults::conformance(&found.folders));
    let mut config = match &conformance {
        Some(file) => ConformanceConfig::read(file)?,
        None => ConformanceConfig::default(),
    };
    if let (None, Some(file)) = (&args.conformance, &conformance) {
        output::info(&format!("configured by {}", file.display()));
    }
    if let Some(context) = &found.context {
        config.tables = defaults::tables(&context.loaded.config, &found.name);
    }
    let supervisor = Supervisor::this_binary().with_kill_switch(KillSwitch::default());
    let report = TestReport::new(args.json);
    let (name, code) = (found.name, found.code);
    let only = args.only.clone();
    let plugin = TestedPlugin { name, code, config, supervisor, only, timeout, report };
    block_on(plugin.run_tests())?;
    finish(&plugin.report, args)
}

fn finish(report: &TestReport, args: &TestPluginArgs) -> Result<u8, CommandError> {
    if let Some(path) = &args.junit {
        write_whole(path, report.junit().as_bytes(), 0o644)?;
    }
    if args.json {
        output::json(&report.json());
    }
    let failed = report.failed();
    if report.is_empty() {
        return Err(CommandError::unavailable("no check was run: the plugin provides nothing"));
    }
    let summary = match failed {
        0 => "all checks passed".to_owned(),
        failed => {
            let failed = u64::try_from(failed).unwrap_or(u64::MAX);
            let kept = report.folder().map(|folder| {
                format!("; the transcripts in {} are yours to delete", folder.display())
            });
            format!("{} failed{}", count(failed, "check"), kept.unwrap_or_default())
        }
    };
    if !args.json {
        output::result(&summary);
    }
    Ok(if failed == 0 { exit::OK } else { exit::FAILED_CHECKS })
}

fn read_timeout(text: &str) -> Result<std::time::Duration, CommandError> {
    parse_duration(text).filter(|duration| !duration.is_zero()).ok_or_else(|| {
        let message = format!("--timeout {text}: expected a length of time such as 30s, above 0s");
        CommandError::user(message)
    })
}

/// Finds the plugin by the path of its library, or by its name in `ralph.toml`.
fn find(file: &ConfigFile, plugin: &Path) -> Result<Found, CommandError> {
    let library = |path: &Path, pinned: Option<&str>| {
        let checked =
            check(path, pinned).and_then(|checked| checked.copy_to(&plugin_cache(&variables())));
        checked.map(Code::Library).map_err(|error| CommandError::unavailable(error.to_string()))
    };
    let Some(name) = named::name(plugin) else {
        let code = library(plugin, None)?;
        let name = match &code {
            Code::Library(copy) => copy.header().manifest.name.clone(),
            Code::Program { .. } => String::new(),
        };
        let name = if name.trim().is_empty() { NAME.to_owned() } else { name };
        let folders = defaults::folders_of(plugin);
        return Ok(Found { name, code, context: None, folders });
    };
    let context = Context::load(file, Vec::new()).map_err(|error| named::hint(error, name))?;
    let context = trust::settle(context, &[])?;
    trust::accept_silently(&context)?;
    let config = named::table(&context, name)?;
    let mut folders = vec![context.loaded.dir().to_owned()];
    let code = match &config.library {
        Some(path) => {
            folders.extend(defaults::folders_of(path));
            library(path, config.digest.as_deref())?
        }
        None => Code::Program { config, context: Box::new(Context::load(file, Vec::new())?) },
    };
    Ok(Found { name: name.to_owned(), code, context: Some(Box::new(context)), folders })
}
