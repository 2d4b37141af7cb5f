//! The line that a command gives to a shell.

pub(crate) const SHELLS: [&str; 6] = ["sh", "bash", "dash", "ash", "ksh", "zsh"];

/// Returns the index of the line in a command that gives one to a shell.
#[must_use]
pub fn find(command: &[String]) -> Option<usize> {
    let (program, words) = command.split_first()?;
    let name = program.rsplit('/').next()?;
    if !SHELLS.contains(&name) {
        return None;
    }
    let is_line = |word: &String| {
        word.strip_prefix('-').is_some_and(|word| !word.starts_with('-') && word.ends_with('c'))
    };
    let option = words.iter().take_while(|word| !word.contains('/')).position(is_line)?;
    Some(option + 2).filter(|index| *index < command.len())
}
