//! `config`

use ralph_orchestrator_core::engine::{
    CompletionPolicy, ConfiguredAgent, build_context, check_role_prompts,
};

use crate::args::SetArgs;
use crate::commands::block_on;
use crate::context::Context;
use crate::discovery::ConfigFile;
use crate::error::{CommandError, exit};
use crate::plugins::Plugins;
use crate::schema::schema;
use crate::{backlog, git, output, registry};

#[derive(Debug, clap::Subcommand)]
pub(crate) enum ConfigCommand {
    /// Print every value and where it comes from
    Show {
        /// Print one JSON array
        #[arg(long)]
        json: bool,
        #[command(flatten)]
        sets: SetArgs,
    },
    /// Check the configuration without running anything
    Check {
        #[command(flatten)]
        sets: SetArgs,
    },
    /// Print the JSON Schema of ralph.toml
    Schema,
}

pub(crate) fn config(file: &ConfigFile, command: ConfigCommand) -> Result<u8, CommandError> {
    match command {
        ConfigCommand::Show { json, sets } => show(&Context::load(file, sets.sets)?, json),
        ConfigCommand::Check { sets } => block_on(check(&Context::load(file, sets.sets)?))?,
        ConfigCommand::Schema => {
            let text = serde_json::to_string_pretty(&schema()).map_err(CommandError::internal)?;
            output::result(&text);
        }
    }
    Ok(exit::OK)
}

fn show(context: &Context, json: bool) {
    let rows = context.loaded.show();
    if json {
        let rows: Vec<_> = rows
            .into_iter()
            .map(|(key, value, origin)| {
                serde_json::json!({"key": key, "value": value, "origin": origin})
            })
            .collect();
        return output::json(&rows);
    }
    let width = rows.iter().map(|(key, value, _)| key.len() + value.len() + 3).max().unwrap_or(0);
    for (key, value, origin) in rows {
        let line = format!("{key} = {value}");
        output::result(&format!("{line:<width$}  # {origin}", width = width.min(72)));
    }
}

/// Everything that a run would check before it starts anything.
async fn check(context: &Context) -> Result<(), CommandError> {
    let registry = registry::unsupervised(&Plugins::from_context(context)?);
    let build = build_context(&context.loaded, &context.vars);
    let judges = CompletionPolicy::build(&context.loaded, &registry, &build).await?;
    let first = ConfiguredAgent::build(&context.loaded, &registry, &build, None).await?;
    for name in context.loaded.config.agents.keys() {
        ConfiguredAgent::build(&context.loaded, &registry, &build, Some(name)).await?;
    }
    let warning = first.check_limits(&context.loaded)?;
    for name in context.loaded.config.fallback(None) {
        let next = ConfiguredAgent::build(&context.loaded, &registry, &build, Some(name)).await?;
        next.check_limits(&context.loaded)?;
    }
    let run = &context.loaded.config.run;
    if run.template.is_none() || run.workspace.exists() {
        context.loaded.check_files()?;
    }
    git::check(context).await?;
    check_role_prompts(&context.loaded)?;
    judges.check_globs(&context.loaded)?;
    backlog::check(context).await?;
    if let Some(warning) = warning {
        output::info(&format!("warning: {warning}"));
    }
    output::result(&format!("{}: ok", context.file.display()));
    Ok(())
}
