//! Names of programs, and programs that run others.

/// Programs that run another, named somewhere among their arguments.
const RUNNERS: [&str; 12] = [
    "bundle", "bunx", "hatch", "npm", "npx", "pdm", "pipenv", "pnpm", "poetry", "rye", "uv", "yarn",
];

/// Iterates over a command, and those that may be given to it if it runs others.
pub(crate) fn commands(words: &[String]) -> impl Iterator<Item = &[String]> {
    let is_runner = words.first().is_some_and(|first| RUNNERS.contains(&bare(first)));
    let starts = if is_runner { words.len() } else { words.len().min(1) };
    (0..starts).filter_map(|start| words.get(start..))
}

/// Returns the name of a program without its folder and version.
pub(crate) fn bare(word: &str) -> &str {
    let name = word.rsplit('/').next().unwrap_or(word);
    name.trim_end_matches(|c: char| c.is_ascii_digit() || c == '.')
}
