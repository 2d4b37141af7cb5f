//! What was probably meant by a command or flag that there is not.

use clap::Command;
use clap::error::{ContextKind, ContextValue, ErrorKind};
use ralph_orchestrator_config::nearest;

/// The error with the nearest right name, if one is near. `clap` itself knows letters that are missing or
/// too many, but not those that have changed places.
pub(crate) fn explain(mut error: clap::Error, command: &Command, words: &[String]) -> clap::Error {
    let (kind, suggested) = match error.kind() {
        ErrorKind::InvalidSubcommand => {
            (ContextKind::InvalidSubcommand, ContextKind::SuggestedSubcommand)
        }
        ErrorKind::UnknownArgument => (ContextKind::InvalidArg, ContextKind::SuggestedArg),
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

fn names(command: &Command, kind: ContextKind) -> Vec<String> {
    if kind == ContextKind::InvalidSubcommand {
        let visible = command.get_subcommands().filter(|inner| !inner.is_hide_set());
        return visible.map(|inner| inner.get_name().to_owned()).collect();
    }
    let visible = command.get_arguments().filter(|arg| !arg.is_hide_set());
    visible.filter_map(|arg| Some(format!("--{}", arg.get_long()?))).collect()
}
