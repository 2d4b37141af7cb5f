//! Predicts which parts no check will notice. A wrong prediction costs runs, and never changes a finding.

use crate::patch::{FileEvent, PartRegion, Patch, PatchFile, PatchPart};
use crate::words::{collect_words, file_stem};

const DOCUMENT_ENDINGS: &[&str] =
    &["md", "markdown", "rst", "adoc", "png", "jpg", "jpeg", "gif", "svg", "ico", "pdf"];
const DOCUMENT_NAMES: &[&str] =
    &["README", "LICENSE", "LICENCE", "COPYING", "CHANGELOG", "CHANGES", "NOTICE", "AUTHORS"];
/// Files that are read without being named.
const READ_BY_NAME: &[&str] =
    &["__init__", "__main__", "conftest", "mod", "lib", "main", "build", "index", "setup"];

/// Returns whether a part is likely noticed by no check: documentation, comments, a new file that nothing names.
pub(crate) fn is_likely_inert(patch: &Patch<'_>, part: &PatchPart, file: &PatchFile<'_>) -> bool {
    is_document(file.path)
        || (part.region != PartRegion::Mode && has_only_comments(part, file))
        || (part.region == PartRegion::File { event: FileEvent::Added } && !is_named(patch, file))
}

fn is_document(path: &str) -> bool {
    let name = path.rsplit('/').next().unwrap_or(path);
    let ending = name.rsplit_once('.').map(|(_, ending)| ending.to_ascii_lowercase());
    let stem = file_stem(path).to_ascii_uppercase();
    ending.is_some_and(|ending| DOCUMENT_ENDINGS.contains(&ending.as_str()))
        || DOCUMENT_NAMES.contains(&stem.as_str())
}

fn has_only_comments(part: &PatchPart, file: &PatchFile<'_>) -> bool {
    let (removed, added) = file.changed_lines(part.region);
    let is_empty = removed.is_empty() && added.is_empty();
    !is_empty && removed.iter().chain(&added).all(|line| is_comment(file.path, line))
}

/// Returns whether a line is blank or a comment, by the ending of its file.
pub(crate) fn is_comment(path: &str, line: &[u8]) -> bool {
    let line = line.trim_ascii();
    let ending = path.rsplit_once('.').map_or("", |(_, ending)| ending);
    let marks: &[&[u8]] = match ending {
        "c" | "h" | "cc" | "cpp" | "hpp" | "cs" | "go" | "java" | "js" | "jsx" | "mjs" | "kt"
        | "php" | "rs" | "scala" | "swift" | "ts" | "tsx" | "css" | "scss" => {
            &[b"//", b"/*", b"* ", b"*/"]
        }
        "sql" | "lua" | "hs" | "elm" => &[b"--"],
        "clj" | "el" | "lisp" | "ini" => &[b";"],
        "erl" | "tex" => &[b"%"],
        "html" | "xml" | "vue" => &[b"<!--"],
        _ => &[b"#"],
    };
    line.is_empty() || line == b"*" || marks.iter().any(|mark| line.starts_with(mark))
}

/// Returns whether another file of the work has the words of a file's name.
fn is_named(patch: &Patch<'_>, file: &PatchFile<'_>) -> bool {
    let stem = file_stem(file.path);
    let parts = collect_words(stem.as_bytes());
    if parts.is_empty() || READ_BY_NAME.contains(&stem) {
        return true;
    }
    let others = patch.files.iter().filter(|other| other.path != file.path);
    others.into_iter().any(|other| {
        let lines = other.changed_lines(PartRegion::File { event: FileEvent::Added }).1;
        lines.into_iter().map(collect_words).any(|words| parts.is_subset(&words))
    })
}
