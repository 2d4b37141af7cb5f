//! What a checkpoint had to leave out, as its message names it.

use serde::Deserialize as _;
use serde::de::IntoDeserializer as _;
use serde::de::value::{Error, StrDeserializer};

use crate::path::RepoPath;
use crate::snapshot::{SkipReason, SkippedFile};

/// The line before the first of these files.
const TITLE: &str = "Left out:";

/// Adds to a message what a checkpoint leaves out: a line of reason and path each.
pub(crate) fn add_section(message: &str, files: &[SkippedFile]) -> String {
    let mut message = message.to_owned();
    if !files.is_empty() {
        let ends_line = message.ends_with('\n');
        message.push_str(if ends_line { "" } else { "\n" });
        message.push_str(&format!("\n{TITLE}\n"));
    }
    for SkippedFile { path, reason } in files {
        message.push_str(&format!("{} {path}\n", reason.name()));
    }
    message
}

/// Reads what was added to a message. Nothing of that is there in checkpoints of earlier versions.
pub(crate) fn parse_section(body: &str) -> Vec<SkippedFile> {
    let lines = body.lines().skip_while(|line| *line != TITLE).skip(1);
    lines.filter_map(parse_line).collect()
}

fn parse_line(line: &str) -> Option<SkippedFile> {
    let (reason, path) = line.split_once(' ')?;
    let reason: StrDeserializer<'_, Error> = reason.into_deserializer();
    let reason = SkipReason::deserialize(reason).ok()?;
    Some(SkippedFile { path: RepoPath::from_escaped(path)?, reason })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_what_it_wrote_for_any_path() {
        let file = |path: &[u8], reason| SkippedFile { path: RepoPath::from_bytes(path), reason };
        let files = [
            file(b"a b/\xff\n\\big.db", SkipReason::TooLarge),
            file(b"Left out:", SkipReason::Secret),
            file(b" ", SkipReason::Repository),
        ];
        for before in ["Subject", "Subject\n", "Subject\n\nBody\n"] {
            let message = add_section(before, &files);
            let (_, body) = message.split_once('\n').unwrap();
            assert_eq!(parse_section(body), files);
        }
        assert_eq!(add_section("Subject\n", &[]), "Subject\n");
    }
}
