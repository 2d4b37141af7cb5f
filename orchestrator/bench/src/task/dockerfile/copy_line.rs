//! COPY and ADD lines.

use super::lexer::Instruction;
use super::run::parse_octal;
use super::words::{Variables, expand, split_words};
use super::{CopyLine, resolve};
use crate::task::dockerfile::stage::Stage;

/// Returns what a COPY or ADD line copies.
///
/// # Errors
/// Returns why it cannot be followed.
pub(super) fn read_copy(
    instruction: &Instruction,
    stage: &Stage,
    escape: char,
) -> Result<CopyLine, String> {
    if instruction.has_heredoc {
        return Err(
            "a here-document is not followed: put the text into a file and copy that".to_owned()
        );
    }
    let variables = stage.variables();
    let mut copy = CopyLine {
        line: instruction.line,
        sources: Vec::new(),
        target: String::new(),
        is_folder: false,
        mode: None,
        exclude: Vec::new(),
    };
    let mut rest = instruction.text.as_str();
    while rest.starts_with("--") {
        let (flag, after) = rest.split_once(char::is_whitespace).unwrap_or((rest, ""));
        rest = after.trim_start();
        read_flag(flag, &variables, escape, &mut copy)?;
    }
    let mut words = match parse_list(rest) {
        Some(list) => list.iter().map(|word| expand(word, escape, &variables)).collect(),
        None => split_words(rest, escape, &variables),
    }?;
    let target = words.pop().filter(|_| !words.is_empty());
    let target = target.ok_or("it needs a source and a target")?;
    if instruction.keyword == "ADD"
        && let Some(source) = words.iter().find(|source| is_fetched(source))
    {
        return Err(format!(
            "ADD would fetch or unpack {source}: put the files themselves into the folder and COPY them"
        ));
    }
    copy.is_folder = words.len() > 1
        || matches!(target.as_str(), "." | "..")
        || target.ends_with('/')
        || target.ends_with("/.");
    copy.target = resolve(stage.workdir(), &target);
    for source in words {
        let path = source.trim_start_matches('/');
        if path.split('/').any(|part| part == "..") {
            return Err(format!(
                "the source {source} leads out of the folder of the Dockerfile: copy the file there"
            ));
        }
        copy.sources.push(if path.is_empty() { ".".to_owned() } else { path.to_owned() });
    }
    Ok(copy)
}

fn read_flag(
    flag: &str,
    variables: &Variables,
    escape: char,
    copy: &mut CopyLine,
) -> Result<(), String> {
    let (name, value) = flag.split_once('=').unwrap_or((flag, ""));
    match name {
        // There is one user, who owns everything.
        "--chown" | "--link" => Ok(()),
        "--chmod" => {
            copy.mode = Some(parse_octal(&expand(value, escape, variables)?)?);
            Ok(())
        }
        "--exclude" => {
            copy.exclude.push(expand(value, escape, variables)?);
            Ok(())
        }
        "--from" => Err(format!(
            "`{flag}` copies from another image: put the files into the folder of the Dockerfile"
        )),
        _ => Err(format!("the option `{flag}` is not followed")),
    }
}

fn is_fetched(source: &str) -> bool {
    let is_address = source.contains("://") || source.starts_with("git@");
    let lower = source.to_lowercase();
    let archives =
        [".tar", ".tar.gz", ".tgz", ".tar.bz2", ".tbz2", ".tar.xz", ".txz", ".gz", ".bz2", ".xz"];
    is_address || archives.iter().any(|end| lower.ends_with(end))
}

/// Returns the strings of a JSON list, which is another way to write words.
pub(super) fn parse_list(text: &str) -> Option<Vec<String>> {
    if !text.starts_with('[') {
        return None;
    }
    serde_json::from_str(text).ok()
}
