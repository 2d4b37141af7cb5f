//! The command `plugin`: inspects, creates and tests plugins. Must not know how plugins are called.

mod check;
mod doc;
mod named;
mod new;
mod run;
mod sdk_package;
mod test;

pub use check::CheckPluginArgs;
pub use doc::DocPluginArgs;
pub use new::NewPluginArgs;
pub use run::RunPluginArgs;
pub use sdk_package::WriteSdkArgs;
pub use test::TestPluginArgs;

use std::path::PathBuf;

use ralph_orchestrator_assembly::context::Context;
use ralph_orchestrator_assembly::discovery::ConfigFile;
use ralph_orchestrator_assembly::error::{CommandError, exit};
use ralph_orchestrator_assembly::plugins::{Plugins, summary};
use ralph_orchestrator_plugin_host::run_host_process;
use serde_json::json;

use ralph_orchestrator_assembly::block_on::block_on;
use ralph_orchestrator_terminal::output;
use ralph_orchestrator_terminal::set_args::SetArgs;

#[expect(missing_docs, reason = "it would be a part of the help")]
#[derive(Debug, clap::Subcommand)]
#[command(defer = true)]
pub enum PluginCommand {
    /// List the plugins of ralph.toml, what they provide, and their digests
    List {
        /// Print one JSON array
        #[arg(long)]
        json: bool,
        #[command(flatten)]
        sets: SetArgs,
    },
    /// Check a library without running its code, or start a program of ralph.toml
    Check(CheckPluginArgs),
    /// Print a reference of a plugin, or of something built in, as Markdown
    Doc(DocPluginArgs),
    /// Write a plugin in Rust, Python, Node.js or C that passes its tests and runs in a loop
    New(NewPluginArgs),
    /// Run one session of a plugin's agent, and show what passes
    Run(RunPluginArgs),
    /// Write the package that plugins in Python or Node.js import, in place of an older one
    Sdk(WriteSdkArgs),
    /// Run the conformance tests on a plugin
    Test(TestPluginArgs),
}

#[expect(missing_docs, reason = "it would be a part of the help")]
#[derive(Debug, clap::Args)]
pub struct PluginHostArgs {
    /// The private copy of the library
    pub(crate) library: PathBuf,
}

/// Performs `plugin`.
///
/// # Errors
/// The configuration is wrong, or what is asked for cannot be done.
pub fn plugin(file: &ConfigFile, command: PluginCommand) -> Result<u8, CommandError> {
    match command {
        PluginCommand::List { json, sets } => list(&Context::load(file, sets.sets)?, json),
        PluginCommand::Check(args) => check::check_plugin(file, &args),
        PluginCommand::Doc(args) => doc::print_reference(file, &args),
        PluginCommand::New(args) => new::new(&args),
        PluginCommand::Run(args) => run::run_session(file, &args),
        PluginCommand::Sdk(args) => sdk_package::write_sdk(&args),
        PluginCommand::Test(args) => test::test(file, &args),
    }
}

/// Runs `plugin-host`; returns only on failure.
pub fn host(host: &PluginHostArgs) -> CommandError {
    CommandError::unavailable(run_host_process(&host.library).to_string())
}

fn list(context: &Context, json: bool) -> Result<u8, CommandError> {
    let plugins = Plugins::from_context(context)?;
    let hellos = block_on(async { Ok(plugins.handshakes().await) })?;
    let well = hellos.iter().all(|(_, hello)| hello.is_ok());
    let mut rows = Vec::new();
    for (plugin, hello) in &hellos {
        if json {
            rows.push(json!({
                "name": plugin.name(),
                "digest": plugin.digest(),
                "hello": hello.as_ref().ok(),
                "problem": hello.as_ref().err(),
            }));
            continue;
        }
        let found = match hello {
            Ok(hello) => summary(hello),
            Err(problem) => format!("FAIL: {problem}"),
        };
        output::result(&format!("{:<12} {found}", plugin.name()));
        output::result(&format!("             digest {}", plugin.digest()));
    }
    if json {
        output::json(&rows);
    } else if hellos.is_empty() {
        output::info(&format!("{} names no plugins", context.file.display()));
    }
    Ok(if well { exit::OK } else { exit::UNAVAILABLE })
}
