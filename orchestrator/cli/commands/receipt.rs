//! `receipt`

use std::path::PathBuf;

use ralph_orchestrator_assembly::context::Context;
use ralph_orchestrator_assembly::discovery::ConfigFile;
use ralph_orchestrator_assembly::error::{CommandError, exit};
use ralph_orchestrator_assembly::receipts;
use ralph_orchestrator_assembly::receipts::KeyFiles;
use ralph_orchestrator_assembly::run_selection;
use ralph_orchestrator_terminal::output;
use ralph_orchestrator_terminal::output_place::write_whole;
use ralph_orchestrator_terminal::set_args::SetArgs;
use ralph_orchestrator_text::shorten_home;

use crate::help_examples;

#[derive(Debug, clap::Args)]
#[command(args_conflicts_with_subcommands = true)]
pub(crate) struct ReceiptArgs {
    #[command(subcommand)]
    command: Option<ReceiptCommand>,
    /// Of an earlier run, by the beginning of its id: see `runs`
    #[arg(long, value_name = "ID")]
    pub(crate) run: Option<String>,
    /// Write it to this file instead of the standard output
    #[arg(short, long, value_name = "FILE")]
    out: Option<PathBuf>,
    #[command(flatten)]
    sets: SetArgs,
}

#[derive(Debug, clap::Subcommand)]
#[command(defer = true)]
enum ReceiptCommand {
    /// Print the public key, for those who verify receipts; makes the key the first time
    #[command(after_help = help_examples::examples_of("receipt key"))]
    Key,
}

pub(crate) fn receipt(file: &ConfigFile, args: &ReceiptArgs) -> Result<u8, CommandError> {
    let context = Context::locate_run(file, &args.sets)?;
    let workspace = &context.loaded.config.run.workspace;
    let files = KeyFiles::new(&context.vars);
    let made = |is_new: bool| {
        if is_new {
            let path = shorten_home(files.public_path());
            output::info(&format!(
                "made a key; its public part is {path}. From now on each completed run writes its receipt"
            ));
        }
    };
    if matches!(args.command, Some(ReceiptCommand::Key)) {
        let (key, is_new) = files.load_or_create(workspace)?;
        made(is_new);
        output::raw(key.public().to_pem().as_bytes());
        return Ok(exit::OK);
    }
    let Some(selected) = run_selection::read(&context, args.run.as_deref(), |_| {})? else {
        return Err(run_selection::no_run_error());
    };
    let statement = receipts::statement(&context, &selected.layout, &selected.found)?;
    let (key, is_new) = files.load_or_create(workspace)?;
    made(is_new);
    let text = receipts::sign(&statement, &key)?;
    match &args.out {
        Some(out) => {
            write_whole(out, text.as_bytes(), 0o644)?;
            output::info(&format!("wrote {}", shorten_home(out)));
        }
        None => output::raw(text.as_bytes()),
    }
    Ok(exit::OK)
}
