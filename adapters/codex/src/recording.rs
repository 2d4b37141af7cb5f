//! The recording that Codex keeps of a thread while it runs.

use std::fs::{File, OpenOptions};
use std::io::Read as _;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};

use ralph_adapter_common::codex_stream::{rate_windows, tokens};
use ralph_adapter_common::json;
use ralph_orchestrator_contract::{Event, Tokens};
use ralph_orchestrator_supervisor::lines::LineSplitter;
use rustix::fs::OFlags;
use serde_json::Value;

/// Longer lines hold whole files, not figures.
const MAX_LINE: usize = 256 * 1024;
/// So much is read at a time, so that the events do not have to wait.
const MAX_READ: u64 = 4 * 1024 * 1024;
/// Threads are kept in folders for days; one that began around midnight is in the last but one.
const DAYS: usize = 2;

/// A fact about a thread that its recording states.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum ThreadUpdate {
    /// The model in use.
    Model(String),
    /// The sums over the thread.
    Usage(Tokens),
    /// Tokens in the context after the last request.
    ContextUsed(u64),
    /// Tokens that the context holds.
    ContextWindow(u64),
    /// How much of the provider's rate windows is used.
    RateWindows(Vec<Event>),
}

/// Follows the recording of one thread. A recording that cannot be read yields nothing.
pub(crate) struct Recording {
    sessions: PathBuf,
    thread: Option<String>,
    file: Option<File>,
    lines: LineSplitter,
}

impl Recording {
    /// Creates a reader for this home of Codex; which thread to follow is not known yet.
    pub(crate) fn new(codex_home: &Path) -> Self {
        Self {
            sessions: codex_home.join("sessions"),
            thread: None,
            file: None,
            lines: LineSplitter::new(MAX_LINE),
        }
    }

    /// Follows this thread from now on.
    pub(crate) fn follow(&mut self, thread: &str) {
        if self.thread.as_deref() != Some(thread) {
            self.thread = Some(thread.to_owned());
            self.file = None;
            self.lines = LineSplitter::new(MAX_LINE);
        }
    }

    /// Returns what was written since the last call.
    pub(crate) fn read(&mut self) -> Vec<ThreadUpdate> {
        let Some(thread) = &self.thread else { return Vec::new() };
        if self.file.is_none() {
            self.file = find(&self.sessions, thread).and_then(|path| open(&path));
        }
        let Some(file) = &mut self.file else { return Vec::new() };
        let mut bytes = Vec::new();
        // What cannot be read now may be readable the next time.
        drop(file.take(MAX_READ).read_to_end(&mut bytes));
        let mut updates = Vec::new();
        self.lines.push(&bytes, |line| {
            if line.dropped == 0 {
                updates.extend(read_line(&line.text));
            }
        });
        updates
    }
}

/// Finds `sessions/2026/11/22/rollout-TIME-THREAD.jsonl`, in one of the last days.
fn find(sessions: &Path, thread: &str) -> Option<PathBuf> {
    let end = format!("-{thread}.jsonl");
    let days = newest(sessions).into_iter().flat_map(|year| newest(&year));
    let mut days = days.flat_map(|month| newest(&month)).take(DAYS);
    days.find_map(|day| {
        newest(&day).into_iter().find(|path| {
            let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
            name.starts_with("rollout-") && name.ends_with(&end)
        })
    })
}

/// Lists a folder, the last names first.
fn newest(folder: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(folder).into_iter().flatten();
    let mut paths: Vec<PathBuf> = entries.filter_map(|entry| Some(entry.ok()?.path())).collect();
    paths.sort_unstable_by(|a, b| b.cmp(a));
    paths
}

/// Opens a regular file only: the agent can put anything there, and a pipe would block, a link lead elsewhere.
fn open(path: &Path) -> Option<File> {
    let flags = OFlags::NOFOLLOW | OFlags::NONBLOCK;
    let flags = i32::try_from(flags.bits()).ok()?;
    let file = OpenOptions::new().read(true).custom_flags(flags).open(path).ok()?;
    file.metadata().ok()?.is_file().then_some(file)
}

fn read_line(line: &str) -> Vec<ThreadUpdate> {
    // Most of a recording is the conversation.
    if !["\"token_usage_record\"", "\"token_count\"", "\"turn_context\""]
        .iter()
        .any(|kind| line.contains(kind))
    {
        return Vec::new();
    }
    let Ok(record) = serde_json::from_str::<Value>(line) else { return Vec::new() };
    let Some(payload) = record.get("payload") else { return Vec::new() };
    match (json::text(&record, "type"), json::text(payload, "type")) {
        ("turn_context", _) => {
            json::some_text(payload, "model").map(ThreadUpdate::Model).into_iter().collect()
        }
        ("token_usage_record", _) => {
            let sums =
                payload.get("thread_token_usage").map(|sums| ThreadUpdate::Usage(tokens(sums)));
            let last =
                payload.get("usage").map(|last| ThreadUpdate::ContextUsed(tokens(last).total()));
            sums.into_iter().chain(last).collect()
        }
        ("event_msg", "token_count") => {
            let limits = payload.get("rate_limits").map(rate_windows);
            let limits =
                limits.filter(|windows| !windows.is_empty()).map(ThreadUpdate::RateWindows);
            let info = payload.get("info").unwrap_or(&Value::Null);
            let sums = info.get("total_token_usage").map(|sums| ThreadUpdate::Usage(tokens(sums)));
            let window = Some(json::count(info, "model_context_window"));
            let window = window.filter(|window| *window > 0).map(ThreadUpdate::ContextWindow);
            sums.into_iter().chain(window).chain(limits).collect()
        }
        _ => Vec::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write as _;

    const LINES: [&str; 5] = [
        r#"{"type":"turn_context","payload":{"model":"gpt-5"}}"#,
        r#"{"type":"token_usage_record","payload":{"usage":{"input_tokens":50,"cached_input_tokens":20,"output_tokens":5},"thread_token_usage":{"input_tokens":90,"cached_input_tokens":20,"cache_write_input_tokens":1,"output_tokens":9}}}"#,
        r#"{"type":"event_msg","payload":{"type":"token_count","info":{"model_context_window":258400}}}"#,
        r#"{"type":"event_msg","payload":{"type":"token_count","info":null}}"#,
        r#"{"type":"event_msg","payload":{"type":"token_count","info":null,"rate_limits":{"limit_id":"codex","primary":{"used_percent":50.0,"window_minutes":300,"resets_at":1800000000},"secondary":null}}}"#,
    ];

    fn day(home: &Path, day: &str) -> PathBuf {
        let folder = home.join("sessions").join(day);
        std::fs::create_dir_all(&folder).unwrap();
        folder
    }

    #[test]
    fn it_is_found_late_and_read_on() {
        let home = tempfile::tempdir().unwrap();
        let mut recording = Recording::new(home.path());
        assert_eq!(recording.read(), []);
        recording.follow("t-1");
        assert_eq!(recording.read(), []);
        day(home.path(), "2026/12/01");
        let folder = day(home.path(), "2026/11/30");
        let mut file = File::create(folder.join("rollout-2026-11-30T23-59-59-t-1.jsonl")).unwrap();
        std::fs::write(folder.join("rollout-2026-11-30T23-59-59-t-2.jsonl"), "{}").unwrap();
        let (first, second) = LINES[0].split_at(9);
        write!(file, "{first}").unwrap();
        assert_eq!(recording.read(), [], "half a line");
        write!(file, "{second}\nnoise \"token_count\"\n").unwrap();
        assert_eq!(recording.read(), [ThreadUpdate::Model("gpt-5".to_owned())]);
        for line in &LINES[1..] {
            writeln!(file, "{line}").unwrap();
        }
        let used = Tokens { input: 69, output: 9, cache_read: 20, cache_write: 1 };
        let expected = [
            ThreadUpdate::Usage(used),
            ThreadUpdate::ContextUsed(55),
            ThreadUpdate::ContextWindow(258_400),
            ThreadUpdate::RateWindows(vec![Event::RateWindow {
                name: "five_hour".to_owned(),
                used: 0.5,
                resets_at_ms: Some(1_800_000_000_000),
            }]),
        ];
        assert_eq!(recording.read(), expected);
        assert_eq!(recording.read(), []);
        recording.follow("t-1");
        assert_eq!(recording.read(), [], "followed already");
    }

    #[test]
    fn traps_are_left_alone() {
        let home = tempfile::tempdir().unwrap();
        let folder = day(home.path(), "2026/11/30");
        let fifo = folder.join("rollout-x-fifo.jsonl");
        rustix::fs::mkfifoat(rustix::fs::CWD, &fifo, 0o600.into()).unwrap();
        std::os::unix::fs::symlink("/dev/zero", folder.join("rollout-x-link.jsonl")).unwrap();
        std::fs::create_dir(folder.join("rollout-x-folder.jsonl")).unwrap();
        for thread in ["fifo", "link", "folder", "../../../../etc/passwd", ""] {
            let mut recording = Recording::new(home.path());
            recording.follow(thread);
            assert_eq!(recording.read(), [], "{thread}");
        }
    }
}
