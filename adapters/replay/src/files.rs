//! The tools that change files: Write, Edit and MultiEdit.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use ralph_orchestrator_safe_fs::{SymlinkPolicy, read_file, write_file};
use serde::Deserialize;
use serde_json::Value;

use crate::path_mapping::{PathError, PathMapper};

/// Largest file that is changed, in bytes.
const LARGEST: usize = 64 * 1024 * 1024;

/// Why a file was not changed.
#[derive(Debug, thiserror::Error)]
pub(crate) enum FileError {
    #[error(transparent)]
    Path(#[from] PathError),
    #[error("the recorded call has no usable input: {0}")]
    Input(#[from] serde_json::Error),
    #[error("{} is no regular file", .0.display())]
    NotAFile(PathBuf),
    #[error("{} is no UTF-8 text", .0.display())]
    NotText(PathBuf),
    #[error("cannot {what} {}: {error}", path.display())]
    Io { what: &'static str, path: PathBuf, error: io::Error },
    #[error("String to replace not found in file.\nString: {0}")]
    NotFound(String),
    #[error(
        "Found {count} matches of the string to replace, but replace_all is false.\nString: {text}"
    )]
    Ambiguous { count: usize, text: String },
    #[error("No changes to make: old_string and new_string are exactly the same.")]
    Same,
}

#[derive(Deserialize)]
struct Write {
    file_path: String,
    content: String,
}

#[derive(Deserialize)]
struct Edits {
    file_path: String,
    edits: Vec<Edit>,
}

#[derive(Deserialize)]
struct Edit {
    old_string: String,
    new_string: String,
    #[serde(default)]
    replace_all: bool,
}

/// Does what the tool did; the answer is as the tool's own.
pub(crate) fn write(input: &Value, paths: &PathMapper) -> Result<String, FileError> {
    let Write { file_path, content } = Deserialize::deserialize(input)?;
    let path = paths.resolve(&file_path)?;
    let existed = is_file(&path)?;
    save(&path, &content)?;
    Ok(if existed {
        format!("The file {} has been updated successfully.", path.display())
    } else {
        format!("File created successfully at: {}", path.display())
    })
}

/// One replacement in a file.
pub(crate) fn edit(input: &Value, paths: &PathMapper) -> Result<String, FileError> {
    let edit = Edit::deserialize(input)?;
    let file_path = input.get("file_path").and_then(Value::as_str).unwrap_or_default();
    change(file_path, &[edit], paths)
}

/// Several replacements in a file: all of them or none.
pub(crate) fn multi_edit(input: &Value, paths: &PathMapper) -> Result<String, FileError> {
    let Edits { file_path, edits } = Deserialize::deserialize(input)?;
    change(&file_path, &edits, paths)
}

fn change(file_path: &str, edits: &[Edit], paths: &PathMapper) -> Result<String, FileError> {
    let path = paths.resolve(file_path)?;
    let mut text = if is_file(&path)? {
        let read = read_file(&path, LARGEST, SymlinkPolicy::Refuse);
        let bytes = read.map_err(|error| FileError::Io {
            what: "read",
            path: path.clone(),
            error: error.into(),
        })?;
        String::from_utf8(bytes).map_err(|_| FileError::NotText(path.clone()))?
    } else if edits.first().is_some_and(|edit| edit.old_string.is_empty()) {
        String::new()
    } else {
        let error = io::Error::from(io::ErrorKind::NotFound);
        return Err(FileError::Io { what: "read", path, error });
    };
    for edit in edits {
        text = replaced(&text, edit)?;
    }
    save(&path, &text)?;
    Ok(format!("The file {} has been updated successfully.", path.display()))
}

fn replaced(text: &str, edit: &Edit) -> Result<String, FileError> {
    let Edit { old_string: old, new_string: new, replace_all } = edit;
    if old == new {
        return Err(FileError::Same);
    }
    // An empty old string means a new file.
    if old.is_empty() && text.is_empty() {
        return Ok(new.clone());
    }
    match if old.is_empty() { 0 } else { text.matches(old.as_str()).count() } {
        0 => Err(FileError::NotFound(old.clone())),
        1 => Ok(text.replacen(old.as_str(), new, 1)),
        _ if *replace_all => Ok(text.replace(old.as_str(), new)),
        count => Err(FileError::Ambiguous { count, text: old.clone() }),
    }
}

/// Whether there is a file. A pipe or a device could keep us waiting for ever, so it is refused.
fn is_file(path: &Path) -> Result<bool, FileError> {
    match fs::symlink_metadata(path) {
        Ok(found) if found.is_file() => Ok(true),
        Ok(_) => Err(FileError::NotAFile(path.to_owned())),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
        Err(error) => Err(FileError::Io { what: "look at", path: path.to_owned(), error }),
    }
}

fn save(path: &Path, content: &str) -> Result<(), FileError> {
    // Another command of the session may exchange anything at any moment.
    write_file(path, content.as_bytes()).map_err(|error| FileError::Io {
        what: "write",
        path: path.to_owned(),
        error,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    struct Fixture {
        folder: tempfile::TempDir,
        paths: PathMapper,
    }

    impl Fixture {
        fn new() -> Self {
            let folder = tempfile::tempdir().unwrap();
            let workspace = fs::canonicalize(folder.path()).unwrap();
            Self { folder, paths: PathMapper::new(Some("/workspace".into()), workspace) }
        }

        fn text(&self, name: &str) -> String {
            fs::read_to_string(self.folder.path().join(name)).unwrap()
        }
    }

    #[test]
    fn written_files_are_what_was_recorded() {
        let here = Fixture::new();
        let call = json!({"file_path": "a/b.txt", "content": "x\r\n\u{0}é"});
        assert!(write(&call, &here.paths).unwrap().starts_with("File created"));
        assert!(write(&call, &here.paths).unwrap().contains("updated"));
        assert_eq!(here.text("a/b.txt"), "x\r\n\u{0}é");
    }

    #[test]
    fn edits_need_exactly_one_match_or_replace_all() {
        let here = Fixture::new();
        fs::write(here.folder.path().join("f"), "a b a").unwrap();
        let call = |old: &str, new: &str, all: bool| {
            edit(
                &json!({"file_path": "f", "old_string": old, "new_string": new, "replace_all": all}),
                &here.paths,
            )
        };
        assert!(matches!(call("a", "c", false), Err(FileError::Ambiguous { count: 2, .. })));
        assert!(matches!(call("x", "c", true), Err(FileError::NotFound(_))));
        assert!(matches!(call("", "c", true), Err(FileError::NotFound(_))));
        assert!(matches!(call("a", "a", true), Err(FileError::Same)));
        assert_eq!(here.text("f"), "a b a");
        call("a", "$0\\1", true).unwrap();
        assert_eq!(here.text("f"), "$0\\1 b $0\\1");
        call("b", "", false).unwrap();
        assert_eq!(here.text("f"), "$0\\1  $0\\1");
    }

    #[test]
    fn several_edits_are_done_together_or_not_at_all() {
        let here = Fixture::new();
        let edits =
            |list: Value| multi_edit(&json!({"file_path": "f", "edits": list}), &here.paths);
        edits(json!([{"old_string": "", "new_string": "one two"},
                     {"old_string": "two", "new_string": "three"}]))
        .unwrap();
        assert_eq!(here.text("f"), "one three");
        let failed = edits(json!([{"old_string": "one", "new_string": "1"},
                                  {"old_string": "two", "new_string": "2"}]));
        assert!(failed.is_err());
        assert_eq!(here.text("f"), "one three");
    }

    #[test]
    fn what_is_no_file_is_left_alone() {
        let here = Fixture::new();
        fs::create_dir(here.folder.path().join("dir")).unwrap();
        let _socket =
            std::os::unix::net::UnixListener::bind(here.folder.path().join("socket")).unwrap();
        for name in ["dir", "socket", "."] {
            let call = json!({"file_path": name, "content": ""});
            assert!(matches!(write(&call, &here.paths), Err(FileError::NotAFile(_))), "{name}");
        }
        fs::write(here.folder.path().join("binary"), b"\xFF").unwrap();
        let call = json!({"file_path": "binary", "old_string": "a", "new_string": "b"});
        assert!(matches!(edit(&call, &here.paths), Err(FileError::NotText(_))));
        for call in [json!({}), json!({"file_path": 7, "content": "x"}), json!(null)] {
            assert!(matches!(write(&call, &here.paths), Err(FileError::Input(_))));
        }
        let outside = json!({"file_path": "/etc/x", "content": ""});
        assert!(matches!(write(&outside, &here.paths), Err(FileError::Path(_))));
    }
}
