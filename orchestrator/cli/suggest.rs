//! What was probably meant by a command or flag that there is not.

use clap::Command;
use clap::error::{ContextKind, ContextValue, ErrorKind};
use ralph_orchestrator_config::nearest;

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
    let names = names(innermost(command, words), kind);
    let Some(near) = nearest(wrong, names.iter().map(String::as_str)) else { return error };
    let tip = format!("did you mean `{near}`?");
    error.remove(suggested);
    error.insert(ContextKind::Suggested, ContextValue::StyledStrs(vec![tip.into()]));
    error
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
