//! `config`

use ralph_orchestrator_assembly::backlogs::add_item_check;
use ralph_orchestrator_assembly::block_on::block_on;
use ralph_orchestrator_assembly::compiled_in::of_program;
use ralph_orchestrator_assembly::context::Context;
use ralph_orchestrator_assembly::discovery::{ConfigFile, describe_missing_file};
use ralph_orchestrator_assembly::error::{CommandError, exit};
use ralph_orchestrator_assembly::plugins::Plugins;
use ralph_orchestrator_assembly::schema::{PluginKeys, schema};
use ralph_orchestrator_assembly::{backlog_view, git};
use ralph_orchestrator_assembly::{registry, sandbox};
use ralph_orchestrator_engine::{
    CompletionPolicy, ConfiguredAgent, Redactor, build_context, check_role_prompts,
};
use ralph_orchestrator_terminal::output;
use ralph_orchestrator_terminal::set_args::SetArgs;
use ralph_orchestrator_terminal::size::stdout_width;
use ralph_orchestrator_text::columns;

/// Columns of values beside which origins are aligned; what is longer moves its own.
const MOST_VALUE: usize = 72;
/// The same where the terminal is narrow; with less room than that the longest origins are left out of account.
const LEAST_VALUE: usize = 24;

#[derive(Debug, clap::Subcommand)]
#[command(defer = true)]
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
    /// Print the JSON Schema of ralph.toml; with `-c` that of this one, with the keys of its plugins
    Schema,
}

pub(crate) fn config(file: &ConfigFile, command: ConfigCommand) -> Result<u8, CommandError> {
    match command {
        ConfigCommand::Show { json, sets } => show(&Context::load(file, sets.sets)?, json),
        ConfigCommand::Check { sets } => block_on(check(&Context::load(file, sets.sets)?))?,
        ConfigCommand::Schema => {
            let schema = schema(&of_program(), plugin_keys(file)?);
            let text = serde_json::to_string_pretty(&schema).map_err(CommandError::internal)?;
            output::result(&text);
        }
    }
    Ok(exit::OK)
}

/// Returns the keys of the plugins of the named configuration. Without a name no plugin is started.
fn plugin_keys(file: &ConfigFile) -> Result<PluginKeys, CommandError> {
    let mut keys = PluginKeys::default();
    if !file.is_named() {
        return Ok(keys);
    }
    let plugins = Plugins::from_context(&Context::load(file, Vec::new())?)?;
    for (plugin, hello) in block_on(async { Ok(plugins.handshakes().await) })? {
        let name = plugin.name();
        let failed = |why| CommandError::unavailable(format!("the plugin `{name}`: {why}"));
        keys.add(name, &hello.map_err(failed)?.provides);
    }
    Ok(keys)
}

fn show(context: &Context, json: bool) {
    let redactor = Redactor::new(&context.loaded.config.env, &context.vars);
    let rows = context.loaded.show().into_iter();
    let rows = rows.map(|(key, value, origin)| (key, redactor.text(&value).into_owned(), origin));
    if json {
        let rows: Vec<_> = rows
            .map(|(key, value, origin)| {
                serde_json::json!({"key": key, "value": value, "origin": origin})
            })
            .collect();
        return output::json(&rows);
    }
    let rows = rows.map(|(key, value, origin)| (format!("{key} = {value}"), origin));
    let lines = align_origins(&rows.collect::<Vec<_>>(), stdout_width());
    lines.iter().for_each(|line| output::result(line));
}

/// Returns each value with where it comes from, in a column of its own as far as the terminal has room. What does
/// not fit is on the next line.
fn align_origins(rows: &[(String, String)], width: Option<usize>) -> Vec<String> {
    let width = width.unwrap_or(usize::MAX);
    let longest = rows.iter().map(|(value, _)| columns(value)).max().unwrap_or(0);
    let origins = rows.iter().map(|(_, origin)| columns(origin)).max().unwrap_or(0);
    let left = |origin: usize| width.saturating_sub(columns("  # ") + origin);
    let room = Some(left(origins)).filter(|room| *room >= LEAST_VALUE);
    let column = longest.min(MOST_VALUE).min(room.unwrap_or_else(|| left(columns("default"))));
    let mut lines = Vec::new();
    for (value, origin) in rows {
        let pad = column.saturating_sub(columns(value));
        let line = format!("{value}{:pad$}  # {origin}", "");
        let short = format!("{value}  # {origin}");
        if columns(&line) <= width {
            lines.push(line);
        } else if columns(&short) <= width {
            lines.push(short);
        } else {
            lines.push(value.clone());
            lines.push(format!("  # {origin}"));
        }
    }
    lines
}

/// Everything that a run would check before it starts anything.
async fn check(context: &Context) -> Result<(), CommandError> {
    let registry = registry::unsupervised(&Plugins::from_context(context)?);
    let build = build_context(&context.loaded, &context.vars);
    let mut loaded = context.loaded.clone();
    add_item_check(&mut loaded, "item", Some("true"))?;
    let judges = CompletionPolicy::build(&loaded, &registry, &build).await?;
    let first = ConfiguredAgent::build(&context.loaded, &registry, &build, None).await?;
    for name in context.loaded.config.agents.keys() {
        ConfiguredAgent::build(&context.loaded, &registry, &build, Some(name)).await?;
    }
    let warning = first.check_limits(&context.loaded)?;
    let others = context.loaded.config.other_agents(None).into_iter();
    for name in others.chain(judges.reviewing_agents()) {
        let next = ConfiguredAgent::build(&context.loaded, &registry, &build, Some(name)).await?;
        next.check_limits(&context.loaded)?;
    }
    let run = &context.loaded.config.run;
    if run.template.is_none() || run.workspace.exists() {
        context.loaded.check_files()?;
        let env = first.environment(&context.loaded, &context.vars);
        judges.check_setup(&context.loaded, &env).await.accept(&context.loaded, str::to_owned)?;
    }
    sandbox::check_paths(context)?;
    git::check(context).await?;
    check_role_prompts(&context.loaded, &context.trust_store())?;
    judges.check_globs(&context.loaded)?;
    let unread = backlog_view::check(context).await?.and_then(|backlog| backlog.unread);
    if let Some(unread) = unread {
        output::info(&format!("warning: {unread}"));
    }
    if let Some(warning) = warning {
        output::info(&format!("warning: {warning}"));
    }
    output::result(&if context.file.exists() {
        format!("{}: ok", context.file.display())
    } else {
        format!("{}: ok", describe_missing_file(&context.judged))
    });
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn origins_fit_the_terminal() {
        let row = |value: &str, origin: &str| (value.to_owned(), origin.to_owned());
        let rows = [
            row("a.b = 1", "default"),
            row("limits.max_cost_usd = 50.0", "/w/ralph.toml:2:1"),
            row("a.path = \"/a/long/path\"", "--set"),
        ];
        let aligned = |column: usize| {
            let [first, .., last] = &rows;
            [first, last].map(|(value, origin)| format!("{value:column$}  # {origin}"))
        };
        let long = &rows[1];
        let [first, last] = aligned(26);
        let beside = format!("{}  # {}", long.0, long.1);
        assert_eq!(align_origins(&rows, None), [&*first, &*beside, &*last]);
        // Too narrow for the longest origin.
        let below = format!("  # {}", long.1);
        assert_eq!(align_origins(&rows, Some(40)), [&*first, &*long.0, &*below, &*last]);
        // The longest value is left out of account.
        let [first, last] = aligned(25);
        assert_eq!(align_origins(&rows, Some(46)), [&*first, &*long.0, &*below, &*last]);
        for width in 1..60 {
            for line in align_origins(&rows, Some(width)) {
                assert!(
                    columns(&line) <= width || !line.contains("  # ") || line.starts_with("  #")
                );
            }
        }
    }
}
