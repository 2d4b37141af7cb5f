//! The accepted evidence: its pictures, and what else there is.

use data_encoding::BASE64;
use ralph_orchestrator_machine::State;
use ralph_orchestrator_safe_fs::read_if_exists;
use ralph_orchestrator_story::selected_run::SelectedRun;
use ralph_orchestrator_text::bytes;
use serde::Serialize;

/// The largest picture that is shown, and how much all of them may take, in bytes.
const LARGEST_PICTURE: usize = 2 * 1024 * 1024;
const MOST_BYTES: usize = 8 * 1024 * 1024;
/// Files that are named.
const MOST_FILES: usize = 200;

/// The evidence on which the work was accepted.
#[derive(Debug, Default, Serialize)]
pub(super) struct Evidence {
    pictures: Vec<Picture>,
    files: Vec<File>,
    files_left_out: usize,
}

#[derive(Debug, Serialize)]
struct Picture {
    name: String,
    kind: &'static str,
    base64: String,
}

#[derive(Debug, Serialize)]
struct File {
    name: String,
    size: String,
    digest: String,
}

impl Evidence {
    /// Reads the copies that were stored when the work was accepted.
    pub(super) fn read(selected: &SelectedRun) -> Self {
        let State { started, .. } = &selected.found.state;
        let Some(completion) = selected.found.state.completion() else { return Self::default() };
        let folder = selected.layout.evidence(&selected.found.run);
        let mut evidence = Self::default();
        let mut left = MOST_BYTES;
        for file in &completion.evidence {
            let workspace = started.as_ref().map_or("", |started| started.workspace.as_str());
            let name = file.path.strip_prefix(workspace).unwrap_or(&file.path);
            let name = name.display().to_string();
            let limit = LARGEST_PICTURE.min(left);
            let content = read_if_exists(&folder.join(&file.digest), limit).ok().flatten();
            let picture = content.and_then(|content| Some((picture_kind(&content)?, content)));
            if let Some((kind, content)) = picture {
                left = left.saturating_sub(content.len());
                evidence.pictures.push(Picture { name, kind, base64: BASE64.encode(&content) });
            } else if evidence.files.len() < MOST_FILES {
                let (size, digest) = (bytes(file.bytes), file.digest.clone());
                evidence.files.push(File { name, size, digest });
            } else {
                evidence.files_left_out = evidence.files_left_out.saturating_add(1);
            }
        }
        evidence
    }
}

/// The type of a picture by its first bytes; none of what can have scripts, such as SVG.
fn picture_kind(content: &[u8]) -> Option<&'static str> {
    let is_webp = content.starts_with(b"RIFF") && content.get(8..12) == Some(b"WEBP");
    match content {
        [0x89, b'P', b'N', b'G', b'\r', b'\n', 0x1a, b'\n', ..] => Some("image/png"),
        [0xff, 0xd8, 0xff, ..] => Some("image/jpeg"),
        [b'G', b'I', b'F', b'8', ..] => Some("image/gif"),
        _ if is_webp => Some("image/webp"),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_picture_is_known_by_its_content() {
        assert_eq!(picture_kind(b"\x89PNG\r\n\x1a\nrest"), Some("image/png"));
        assert_eq!(picture_kind(b"\xff\xd8\xff\xe0"), Some("image/jpeg"));
        assert_eq!(picture_kind(b"GIF89a"), Some("image/gif"));
        assert_eq!(picture_kind(b"RIFF\0\0\0\0WEBPVP8 "), Some("image/webp"));
        for other in [&b""[..], b"\x89PN", b"RIFF\0\0\0\0WAVE", b"<svg onload=\"x\"/>", b"<?xml"] {
            assert_eq!(picture_kind(other), None, "{other:?}");
        }
    }
}
