//! What was probably meant by a command or flag that there is not.

use std::path::Path;

use clap::Command;
use clap::error::{ContextKind, ContextValue, ErrorKind};
use ralph_orchestrator_config::nearest;
use ralph_orchestrator_shell_text::quote_word;
use ralph_orchestrator_supervisor::find_program;

/// The error with the nearest right name, if one is near, or with the choice that there is. `clap` itself knows letters that are missing or
/// too many, but not those that have changed places.
pub(crate) fn explain(mut error: clap::Error, command: &Command, words: &[String]) -> clap::Error {
    let (kind, suggested) = match error.kind() {
        ErrorKind::InvalidSubcommand => {
            (ContextKind::InvalidSubcommand, ContextKind::SuggestedSubcommand)
        }
        ErrorKind::UnknownArgument => (ContextKind::InvalidArg, ContextKind::SuggestedArg),
        ErrorKind::MissingRequiredArgument => {
            if let Some(tip) = possible_values(innermost(command, words)) {
                error.insert(ContextKind::Suggested, ContextValue::StyledStrs(vec![tip.into()]));
            }
            return error;
        }
        _ => return error,
    };
    let Some(ContextValue::String(wrong)) = error.get(kind) else { return error };
    let inner = innermost(command, words);
    let names = names(inner, kind);
    let near = nearest(wrong, names.iter().map(String::as_str));
    let tip = near.map(|near| format!("did you mean `{near}`?"));
    let Some(tip) = tip.or_else(|| place_of(wrong, inner, words)) else { return error };
    error.remove(suggested);
    error.insert(ContextKind::Suggested, ContextValue::StyledStrs(vec![tip.into()]));
    error
}

/// Says where a task, or an agent's command, is given that stands by itself.
fn place_of(wrong: &str, command: &Command, words: &[String]) -> Option<String> {
    if wrong.starts_with('-') {
        return None;
    }
    let takes_agent = command.get_arguments().any(clap::Arg::is_last_set);
    let path = std::env::var("PATH").unwrap_or_default();
    let is_program = find_program(wrong, &path, Path::new(".")).is_ok();
    if takes_agent && is_program {
        let mut words = words.iter().skip(1).map(String::as_str);
        let before = words.by_ref().take_while(|word| *word != wrong).map(quote_word);
        let before = before.collect::<Vec<_>>().join(" ");
        let rest = words.filter(|word| *word != "--").map(quote_word).collect::<Vec<_>>().join(" ");
        let agent = format!("{} {rest}", quote_word(wrong));
        let agent = agent.trim_end();
        return Some(format!(
            "an agent's command follows `--`: `ralph-orchestrator {before} -- {agent}`"
        ));
    }
    let is_task = command.get_name() == "run" || wrong.contains(char::is_whitespace);
    is_task.then(|| {
        let task = quote_word(wrong);
        format!("a task without a file: `ralph-orchestrator run --goal {task} --check COMMAND`")
    })
}

/// The command that these words lead to.
fn innermost<'a>(command: &'a Command, words: &[String]) -> &'a Command {
    let mut words = words.iter().skip(1).take_while(|word| *word != "--");
    words
        .try_fold(command, |command, word| match command.find_subcommand(word) {
            Some(inner) => Ok(inner),
            None if command.has_subcommands() => Ok(command),
            None => Err(command),
        })
        .unwrap_or_else(|command| command)
}

/// Returns what the argument that a command cannot do without may be, if that is a choice of few.
fn possible_values(command: &Command) -> Option<String> {
    let required = command.get_positionals().filter(|arg| arg.is_required_set());
    let values: Vec<String> = required
        .flat_map(clap::Arg::get_possible_values)
        .filter(|value| !value.is_hide_set())
        .map(|value| value.get_name().to_owned())
        .collect();
    (!values.is_empty()).then(|| format!("possible values: {}", values.join(", ")))
}

fn names(command: &Command, kind: ContextKind) -> Vec<String> {
    if kind == ContextKind::InvalidSubcommand {
        let visible = command.get_subcommands().filter(|inner| !inner.is_hide_set());
        return visible.map(|inner| inner.get_name().to_owned()).collect();
    }
    let visible = command.get_arguments().filter(|arg| !arg.is_hide_set());
    visible.filter_map(|arg| Some(format!("--{}", arg.get_long()?))).collect()
}
