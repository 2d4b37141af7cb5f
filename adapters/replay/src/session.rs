//! Recorded sessions on disk.

use std::collections::BTreeSet;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use ralph_orchestrator_safe_fs::{SymlinkPolicy, read_file};
use serde_json::Value;

/// Largest recorded session that is read, in bytes.
const SESSION_MAX: u64 = 64 * 1024 * 1024;

/// Why there is nothing to perform.
#[derive(Debug, thiserror::Error)]
pub(crate) enum SessionError {
    #[error("cannot read the recorded session {}: {error}", path.display())]
    Read { path: PathBuf, error: io::Error },
    #[error("the recorded session {} is larger than {SESSION_MAX} bytes: record a shorter one", path.display())]
    TooLarge { path: PathBuf },
    #[error("{} has no recorded session: expected 1.jsonl, 2.jsonl, …", folder.display())]
    Empty { folder: PathBuf },
    #[error("{} has recorded sessions up to {last}.jsonl, but {missing}.jsonl is missing", folder.display())]
    Gap { folder: PathBuf, missing: u64, last: u64 },
    #[error("{} has no message of Claude Code: expected its `--output-format stream-json`", path.display())]
    NoMessage { path: PathBuf },
}

/// Where recorded sessions are.
#[derive(Clone, Debug)]
pub(crate) struct Sessions {
    path: PathBuf,
}

impl Sessions {
    pub(crate) fn new(path: PathBuf) -> Self {
        Self { path }
    }

    /// The file or folder.
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// The file for an iteration; beyond the last one, the last one.
    pub(crate) fn file(&self, iteration: u64) -> Result<PathBuf, SessionError> {
        let files = self.files()?;
        let at = usize::try_from(iteration.saturating_sub(1)).unwrap_or(usize::MAX);
        let file = files.get(at).or_else(|| files.last());
        file.cloned().ok_or_else(|| SessionError::Empty { folder: self.path.clone() })
    }

    /// All files, in order: never none.
    pub(crate) fn files(&self) -> Result<Vec<PathBuf>, SessionError> {
        let read = |error| SessionError::Read { path: self.path.clone(), error };
        if !fs::metadata(&self.path).map_err(read)?.is_dir() {
            return Ok(vec![self.path.clone()]);
        }
        let mut numbers = BTreeSet::new();
        for entry in fs::read_dir(&self.path).map_err(read)? {
            let name = entry.map_err(read)?.file_name();
            let number = name.to_str().and_then(|name| name.strip_suffix(".jsonl"));
            let number = number.and_then(|digits| digits.parse::<u64>().ok());
            numbers.extend(number.filter(|&n| name.to_str() == Some(&format!("{n}.jsonl"))));
        }
        let folder = || self.path.clone();
        let last =
            numbers.last().copied().ok_or_else(|| SessionError::Empty { folder: folder() })?;
        let gap = numbers.iter().zip(1..).find(|&(&number, wanted)| number != wanted);
        match gap {
            Some((_, missing)) => Err(SessionError::Gap { folder: folder(), missing, last }),
            None => Ok(numbers.iter().map(|n| self.path.join(format!("{n}.jsonl"))).collect()),
        }
    }
}

/// One recorded session.
#[derive(Debug)]
pub(crate) struct Session {
    /// Where it was read from.
    pub(crate) path: PathBuf,
    /// Its lines that are not empty.
    pub(crate) lines: Vec<Line>,
    /// Where the recorded agent worked.
    pub(crate) cwd: Option<PathBuf>,
    /// Calls that were refused when it was recorded.
    pub(crate) denied: BTreeSet<String>,
    /// Calls that failed when it was recorded.
    pub(crate) failed: BTreeSet<String>,
}

/// One line of a recorded session.
#[derive(Debug)]
pub(crate) struct Line {
    /// From 1.
    pub(crate) number: u64,
    /// As recorded.
    pub(crate) text: String,
    /// What it says; nothing if it is no JSON object.
    pub(crate) message: Option<Value>,
}

impl Session {
    pub(crate) fn read(path: PathBuf) -> Result<Self, SessionError> {
        let text = read_bounded(&path)?;
        let lines = (1..).zip(text.lines()).filter(|(_, line)| !line.trim().is_empty());
        let lines: Vec<Line> = lines
            .map(|(number, line)| {
                let message = serde_json::from_str(line).ok().filter(Value::is_object);
                Line { number, text: line.to_owned(), message }
            })
            .collect();
        let messages = || lines.iter().filter_map(|line| line.message.as_ref());
        if messages().next().is_none() {
            return Err(SessionError::NoMessage { path });
        }
        let cwd = messages().find(|message| says(message, "subtype", "init"));
        let cwd = cwd.and_then(|message| message.get("cwd")?.as_str()).map(PathBuf::from);
        let denied = messages().flat_map(denied).collect();
        let failed = messages().flat_map(failed).collect();
        Ok(Self { path, cwd, denied, failed, lines })
    }

    /// `file:line`, for errors.
    pub(crate) fn place(&self, line: u64) -> String {
        format!("{}:{line}", self.path.display())
    }
}

fn read_bounded(path: &Path) -> Result<String, SessionError> {
    let read = |error| SessionError::Read { path: path.to_owned(), error };
    if fs::metadata(path).is_ok_and(|file| file.is_file() && file.len() > SESSION_MAX) {
        return Err(SessionError::TooLarge { path: path.to_owned() });
    }
    let limit = usize::try_from(SESSION_MAX).unwrap_or(usize::MAX);
    // It may lie in the workspace, where a session performed earlier may have put a pipe.
    let bytes =
        read_file(path, limit, SymlinkPolicy::Follow).map_err(|error| read(error.into()))?;
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

fn says(message: &Value, key: &str, value: &str) -> bool {
    message.get(key).and_then(Value::as_str) == Some(value)
}

/// The content blocks of a message that have this type.
pub(crate) fn blocks<'a>(message: &'a Value, kind: &'a str) -> impl Iterator<Item = &'a Value> {
    let content = message.pointer("/message/content").and_then(Value::as_array);
    content.into_iter().flatten().filter(move |block| says(block, "type", kind))
}

/// The calls that this message says were refused.
fn denied(message: &Value) -> Vec<String> {
    let denials = message.get("permission_denials").and_then(Value::as_array);
    denials.into_iter().flatten().filter_map(call_id).collect()
}

/// The calls that this message says failed.
fn failed(message: &Value) -> Vec<String> {
    let results = blocks(message, "tool_result");
    results
        .filter(|result| result.get("is_error") == Some(&Value::Bool(true)))
        .filter_map(call_id)
        .collect()
}

/// The call that a result or a denial belongs to.
pub(crate) fn call_id(value: &Value) -> Option<String> {
    value.get("tool_use_id")?.as_str().map(str::to_owned)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn folder(names: &[&str]) -> (tempfile::TempDir, Sessions) {
        let folder = tempfile::tempdir().unwrap();
        for name in names {
            fs::write(folder.path().join(name), "{}\n").unwrap();
        }
        let sessions = Sessions::new(folder.path().to_owned());
        (folder, sessions)
    }

    #[test]
    fn each_iteration_has_its_file_and_the_last_is_repeated() {
        let many = (1..=11).map(|n| format!("{n}.jsonl")).collect::<Vec<_>>();
        let (_folder, sessions) = folder(&many.iter().map(String::as_str).collect::<Vec<_>>());
        for (iteration, name) in
            [(1, "1.jsonl"), (2, "2.jsonl"), (11, "11.jsonl"), (99, "11.jsonl")]
        {
            assert!(sessions.file(iteration).unwrap().ends_with(name));
        }
    }

    #[test]
    fn what_is_missing_is_named() {
        let (_folder, sessions) = folder(&[]);
        assert!(matches!(sessions.file(1), Err(SessionError::Empty { .. })));
        let sessions = Sessions::new("/nonexistent/session".into());
        let error = sessions.file(1).unwrap_err().to_string();
        assert!(error.contains("/nonexistent/session"), "{error}");
        let (_folder, sessions) = folder(&["1.jsonl", "3.jsonl", "notes.txt", "02.jsonl"]);
        assert!(matches!(sessions.file(1), Err(SessionError::Gap { missing: 2, last: 3, .. })));
        let (_folder, sessions) = folder(&["notes.txt", "01.jsonl", "+1.jsonl"]);
        assert!(matches!(sessions.file(1), Err(SessionError::Empty { .. })));
    }

    #[test]
    fn lines_keep_their_numbers_and_bad_bytes_do_no_harm() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("s.jsonl");
        fs::write(
            &path,
            b"\r\n\xFFnoise\n{\"type\":\"system\",\"subtype\":\"init\",\"cwd\":\"/w\"}\n[1]",
        )
        .unwrap();
        let session = Session::read(path.clone()).unwrap();
        let seen: Vec<_> = session.lines.iter().map(|l| (l.number, l.message.is_some())).collect();
        assert_eq!(seen, [(2, false), (3, true), (4, false)]);
        assert_eq!(session.cwd.as_deref(), Some(Path::new("/w")));
        fs::write(&path, "no json\n").unwrap();
        assert!(matches!(Session::read(path), Err(SessionError::NoMessage { .. })));
    }
}
