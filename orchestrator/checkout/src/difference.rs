//! What the work changes, as text in the form of a patch.

use std::fmt::Write as _;
use std::time::{Duration, Instant};

use ralph_orchestrator_safe_fs::escape;
use similar::TextDiff;

use crate::variants::ChangedWork;
use crate::work_content::{ChangedFile, WorkContent, WorkState};

/// More of all files, and of one, is not written; who reads it can read the files.
const MOST_BYTES: usize = 256 * 1024;
const MOST_OF_FILE: usize = 64 * 1024;
/// A comparison that takes longer is a coarser one.
const LONGEST: Duration = Duration::from_secs(1);

impl ChangedWork {
    /// Returns what differs from the start of the run, file by file: a patch as far as both contents are known and are text.
    #[must_use]
    pub fn describe_difference(&self) -> String {
        let mut text = String::new();
        for (number, file) in self.files.iter().enumerate() {
            if text.len() > MOST_BYTES {
                let left = self.files.len().saturating_sub(number);
                // Writing to a String cannot fail.
                let _ = writeln!(text, "and {left} more changed files");
                break;
            }
            describe(&mut text, file);
        }
        if text.is_empty() { "nothing\n".to_owned() } else { text }
    }
}

fn describe(text: &mut String, ChangedFile { path, start, now }: &ChangedFile) {
    let (name, what) = (escape(path).replace(char::is_control, "\u{fffd}"), event(start, now));
    let _ = writeln!(text, "{what} {name}");
    let (Some(before), Some(after)) = (read_text(start), read_text(now)) else {
        text.push_str("(its contents are not shown: not text, too large, or not known)\n\n");
        return;
    };
    let diff = TextDiff::configure().deadline(Instant::now() + LONGEST).diff_lines(before, after);
    let (old, new) = (format!("a/{name}"), format!("b/{name}"));
    let patch = diff.unified_diff().context_radius(3).header(&old, &new).to_string();
    let kept = patch.get(..patch.floor_char_boundary(MOST_OF_FILE)).unwrap_or_default();
    text.push_str(kept);
    if kept.len() < patch.len() {
        let _ = write!(text, "\n({} more bytes of this patch)", patch.len() - kept.len());
    }
    text.push('\n');
}

/// Returns what became of the file.
const fn event(start: &WorkState, now: &WorkState) -> &'static str {
    match (start, now) {
        (WorkState::Missing, _) => "new:",
        (_, WorkState::Missing) => "removed:",
        _ => "changed:",
    }
}

/// Returns the text of a file, or where a link leads to; nothing of what is not there. `None` if that is not known, or no text.
fn read_text(state: &WorkState) -> Option<&str> {
    let content = match state {
        WorkState::Missing => return Some(""),
        WorkState::Known(content) => content,
        WorkState::Unknown => return None,
    };
    let (WorkContent::File { bytes, .. } | WorkContent::Link { target: bytes }) = content;
    str::from_utf8(bytes).ok().filter(|text| !text.contains('\0'))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file(path: &str, start: Option<&str>, now: Option<&[u8]>) -> ChangedFile {
        let state = |content: Option<&[u8]>| {
            content.map_or(WorkState::Missing, |bytes| {
                WorkState::Known(WorkContent::File { bytes: bytes.into(), is_executable: false })
            })
        };
        ChangedFile { path: path.into(), start: state(start.map(str::as_bytes)), now: state(now) }
    }

    #[test]
    fn each_file_is_a_patch_or_says_why_it_is_none() {
        let files = vec![
            file("a", Some("one\ntwo\n"), Some(b"one\nthree\n")),
            file("b\n+++ c", None, Some(b"x\n")),
            file("c", Some("y\n"), None),
            file("d", None, Some(b"\xff\0")),
        ];
        let text = ChangedWork::from_files(files).describe_difference();
        assert!(
            text.contains("changed: a\n--- a/a\n+++ b/a\n@@ -1,2 +1,2 @@\n one\n-two\n+three\n")
        );
        assert!(text.contains("new: b\u{fffd}+++ c\n") && text.contains("\n+x\n"), "{text}");
        assert!(text.contains("removed: c\n") && text.contains("\n-y\n"), "{text}");
        assert!(text.contains("new: d\n(its contents are not shown"), "{text}");
        assert_eq!(ChangedWork::from_files(Vec::new()).describe_difference(), "nothing\n");
    }
}
