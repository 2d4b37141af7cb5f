//! `plugin check`

use std::path::{Path, PathBuf};

use ralph_orchestrator_assembly::block_on::block_on;
use ralph_orchestrator_assembly::context::Context;
use ralph_orchestrator_assembly::discovery::ConfigFile;
use ralph_orchestrator_assembly::error::{CommandError, exit};
use ralph_orchestrator_assembly::plugins::Plugins;
use ralph_orchestrator_assembly::user_folders::{plugin_cache, variables};
use ralph_orchestrator_plugin_host::{CheckedLibrary, LibraryError, Plugin, check};
use ralph_orchestrator_plugin_protocol::{Item, PluginHello};
use ralph_orchestrator_supervisor::Supervisor;
use ralph_orchestrator_terminal::output;
use ralph_orchestrator_text::plain_line;
use serde_json::json;

use crate::named;

#[expect(missing_docs, reason = "it would be a part of the help")]
#[derive(Debug, clap::Args)]
pub struct CheckPluginArgs {
    /// A library, or the name of a plugin in ralph.toml
    pub(crate) plugin: PathBuf,
    /// Print one JSON object
    #[arg(long)]
    pub(crate) json: bool,
}

/// What is printed of a plugin in which nothing is wrong.
struct Checked<'a> {
    title: String,
    name: &'a str,
    version: &'a str,
    items: &'a [Item],
    sdk: Option<&'a str>,
    digest: &'a str,
}

/// Checks a library without running its code, and a program by its `hello`.
pub(crate) fn check_plugin(file: &ConfigFile, args: &CheckPluginArgs) -> Result<u8, CommandError> {
    let Some(name) = named::name(&args.plugin) else {
        return check_library(&args.plugin, None, args.json);
    };
    let mut context = Context::load(file, Vec::new()).map_err(|error| named::hint(error, name))?;
    let config = named::table(&context, name)?;
    if let Some(library) = &config.library {
        return check_library(library, config.digest.as_deref(), args.json);
    }
    // What is wrong with others is no matter here.
    context.loaded.config.plugins.retain(|other, _| other == name);
    let plugins = Plugins::from_context(&context)?;
    let hellos = block_on(async { Ok(plugins.handshakes().await) })?;
    match hellos.first() {
        Some((plugin, hello)) => report_program(plugin, hello.as_ref(), args.json),
        None => Err(named::unknown(&context, name)),
    }
}

fn report_program(
    plugin: &Plugin,
    hello: Result<&PluginHello, &String>,
    json: bool,
) -> Result<u8, CommandError> {
    if json {
        output::json(&match hello {
            Ok(hello) => json!({"ok": true, "digest": plugin.digest(), "hello": hello}),
            Err(problem) => json!({"ok": false, "problem": problem}),
        });
        return Ok(if hello.is_ok() { exit::OK } else { exit::UNAVAILABLE });
    }
    let hello = hello.map_err(|problem| {
        CommandError::unavailable(format!("the plugin `{}`: {problem}", plugin.name()))
    })?;
    print(&Checked {
        title: plugin.name().to_owned(),
        name: &hello.name,
        version: &hello.version,
        items: &hello.provides,
        sdk: hello.sdk.as_deref(),
        digest: plugin.digest(),
    });
    Ok(exit::OK)
}

/// Checks a library and its dependencies without running its code. The dependencies are those of the copy
/// that would be loaded.
async fn verify_library(file: &Path, pinned: Option<&str>) -> Result<CheckedLibrary, LibraryError> {
    let checked = check(file, pinned)?;
    let copy = checked.copy_to(&plugin_cache(&variables()))?;
    let dependencies = copy.check_dependencies(&Supervisor::this_binary()).await;
    // Report the given file, not its copy.
    dependencies.map_err(|error| LibraryError { path: file.to_owned(), ..error })?;
    Ok(checked)
}

fn check_library(file: &Path, pinned: Option<&str>, json: bool) -> Result<u8, CommandError> {
    let checked = block_on(async { Ok(verify_library(file, pinned).await) })?;
    if json {
        output::json(&match &checked {
            Ok(checked) => json!({
                "ok": true,
                "digest": checked.digest(),
                "manifest": checked.header().manifest,
            }),
            Err(error) => json!({"ok": false, "problem": error.to_string()}),
        });
        return Ok(if checked.is_ok() { exit::OK } else { exit::UNAVAILABLE });
    }
    let checked = checked.map_err(|error| {
        CommandError::unavailable(error.to_string()).hinted(
            "none of its code has run; a program is checked by the name that it has in ralph.toml",
        )
    })?;
    let manifest = &checked.header().manifest;
    print(&Checked {
        title: file.display().to_string(),
        name: &manifest.name,
        version: &manifest.version,
        items: &manifest.provides,
        sdk: manifest.sdk.as_deref(),
        digest: checked.digest(),
    });
    Ok(exit::OK)
}

/// How much of a summary is shown, in characters.
const SUMMARY_MAX: usize = 400;

fn print(checked: &Checked<'_>) {
    output::result(&format!("{}: ok", checked.title));
    output::result(format!("  plugin      {} {}", checked.name, checked.version).trim_end());
    for item in checked.items {
        let summary = plain_line(&item.summary, SUMMARY_MAX);
        let line = format!("  {:<11} {} {summary}", item.kind.word(), item.name);
        output::result(line.trim_end());
    }
    output::result(&format!("  built with  {}", checked.sdk.unwrap_or("no SDK")));
    output::result(&format!("  digest      {}", checked.digest));
}
