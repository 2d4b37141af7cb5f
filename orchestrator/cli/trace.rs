//! Diagnostic logging by `tracing`: to standard error on request, and for each run to a file in its state.

use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError, RwLock};
use std::time::Duration;

use ralph_orchestrator_engine::Redactor;
use ralph_orchestrator_terminal::bounded_file::BoundedFile;
use ralph_orchestrator_terminal::output;
use tracing::level_filters::LevelFilter;
use tracing::{Level, Metadata};
use tracing_subscriber::filter::EnvFilter;
use tracing_subscriber::fmt::{self, MakeWriter};
use tracing_subscriber::layer::{Layer as _, SubscriberExt as _};
use tracing_subscriber::registry;

/// What is to be said, in the syntax of `tracing_subscriber::EnvFilter`.
const VARIABLE: &str = "RALPH_LOG";
/// What two `-v` stand for.
const VERBOSE: &str = "debug";
/// So much is kept in memory until a run has its folder.
const MOST_EARLY: usize = 64 * 1024;
/// Lines wait so long, or until they are so many bytes, and are written together: it takes as long to write
/// one as a hundred. A warning does not wait, nor what comes before it.
const PAUSE: Duration = Duration::from_millis(100);
const MOST_WAITING: usize = 32 * 1024;

/// Installs the subscriber. `verbose` is how often `-v` was given.
pub(crate) fn install(verbose: u8) -> RunLog {
    let log = RunLog::default();
    let requested = requested_filter(verbose);
    // The log tells no less than what is shown.
    let kept = requested.as_deref().and_then(|filter| EnvFilter::try_new(filter).ok());
    let kept = match kept {
        Some(filter) if filter.max_level_hint().is_some_and(|most| most > LevelFilter::INFO) => {
            filter
        }
        _ => EnvFilter::default().add_directive(Level::INFO.into()),
    };
    let to_log = fmt::layer().json().flatten_event(true).with_current_span(false);
    let to_log = to_log.with_writer(log.clone()).with_filter(kept);
    let shown = requested.and_then(|filter| EnvFilter::try_new(filter).ok());
    let to_stderr = shown.map(|filter| {
        let redacted = RedactedStderr(Arc::clone(&log.redactor));
        fmt::layer().with_ansi(false).with_writer(redacted).with_filter(filter)
    });
    let subscriber = registry().with(to_log).with(to_stderr);
    // It is set once: only one command is run.
    drop(tracing::subscriber::set_global_default(subscriber));
    log
}

/// Returns the requested filter, if any. An invalid one is ignored with a warning.
fn requested_filter(verbose: u8) -> Option<String> {
    let filter = std::env::var(VARIABLE).ok().filter(|filter| !filter.trim().is_empty());
    let filter = filter.filter(|filter| match EnvFilter::try_new(filter) {
        Ok(_) => true,
        Err(error) => {
            let example = "expected a filter such as `info` or `ralph_orchestrator=debug,warn`";
            output::info(&format!("warning: {VARIABLE} is ignored: {error}; {example}"));
            false
        }
    });
    filter.or_else(|| (verbose > 1).then(|| VERBOSE.to_owned()))
}

/// The log of a run.
#[derive(Clone, Default)]
pub(crate) struct RunLog {
    redactor: Arc<RwLock<Redactor>>,
    to: Arc<Destination>,
}

#[derive(Default)]
struct Destination {
    to: Mutex<LogTarget>,
    /// Lines wait to be written.
    filled: Condvar,
}

/// The end of what has something to say.
pub(crate) struct FlushGuard(RunLog);

impl Drop for FlushGuard {
    fn drop(&mut self) {
        self.0.flush();
    }
}

/// Where it goes.
#[derive(Default)]
enum LogTarget {
    /// There is no run yet, or not its folder.
    #[default]
    Early,
    Waiting {
        path: PathBuf,
        early: Vec<u8>,
    },
    File {
        file: BoundedFile,
        waiting: Vec<u8>,
        /// A thread writes what waits, in time.
        served: bool,
    },
    /// It cannot be written: nothing depends on it.
    Nowhere,
}

impl RunLog {
    /// Directs the log to the file of a run, without these secrets.
    pub(crate) fn begin(&self, path: &Path, redactor: Redactor) {
        *self.redactor.write().unwrap_or_else(PoisonError::into_inner) = redactor;
        *self.to() = LogTarget::Waiting { path: path.to_owned(), early: Vec::new() };
    }

    /// Writes what waits when it is dropped.
    pub(crate) fn flush_on_drop(&self) -> FlushGuard {
        FlushGuard(self.clone())
    }

    /// Writes what waits.
    fn flush(&self) {
        self.to().write_waiting();
    }

    fn to(&self) -> MutexGuard<'_, LogTarget> {
        self.to.lock()
    }

    fn put(&self, line: &[u8], at_once: bool) {
        let line = without_secrets(&self.redactor, line);
        let mut to = self.to();
        let waited = to.is_waiting();
        to.put(&line);
        if at_once || !to.is_served(&self.to) {
            to.write_waiting();
        } else if !waited && to.is_waiting() {
            self.to.filled.notify_one();
        }
    }
}

impl Destination {
    fn lock(&self) -> MutexGuard<'_, LogTarget> {
        self.to.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Writes what waits, a while after it began to.
    fn serve(&self) {
        let mut to = self.lock();
        while !matches!(*to, LogTarget::Nowhere) {
            if to.is_waiting() {
                drop(to);
                std::thread::sleep(PAUSE);
                to = self.lock();
                to.write_waiting();
            } else {
                to = self.filled.wait(to).unwrap_or_else(PoisonError::into_inner);
            }
        }
    }
}

impl LogTarget {
    fn is_waiting(&self) -> bool {
        matches!(self, Self::File { waiting, .. } if !waiting.is_empty())
    }

    /// Whether a thread writes what waits; starts it if there is none.
    fn is_served(&mut self, destination: &Arc<Destination>) -> bool {
        let Self::File { served, .. } = self else { return true };
        if !*served {
            let destination = Arc::clone(destination);
            let thread = std::thread::Builder::new().name("log".to_owned());
            *served = thread.spawn(move || destination.serve()).is_ok();
        }
        *served
    }

    fn put(&mut self, line: &[u8]) {
        if let Self::Waiting { path, early } = self {
            match BoundedFile::open(path, "log.1.jsonl") {
                Ok(file) => {
                    let waiting = std::mem::take(early);
                    *self = Self::File { file, waiting, served: false };
                }
                Err(error) if error.kind() == io::ErrorKind::NotFound => {
                    if early.len() + line.len() <= MOST_EARLY {
                        early.extend_from_slice(line);
                    }
                    return;
                }
                Err(_) => *self = Self::Nowhere,
            }
        }
        let Self::File { waiting, .. } = self else { return };
        waiting.extend_from_slice(line);
        if waiting.len() > MOST_WAITING {
            self.write_waiting();
        }
    }

    fn write_waiting(&mut self) {
        let Self::File { file, waiting, .. } = self else { return };
        if waiting.is_empty() {
            return;
        }
        if file.append(waiting).is_err() {
            return *self = Self::Nowhere;
        }
        waiting.clear();
    }
}

/// Takes one line at a time: they are handed over whole.
pub(crate) struct LogLine<'a> {
    log: &'a RunLog,
    /// It is a warning or worse.
    is_urgent: bool,
}

impl Write for LogLine<'_> {
    fn write(&mut self, line: &[u8]) -> io::Result<usize> {
        self.log.put(line, self.is_urgent);
        Ok(line.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl<'a> MakeWriter<'a> for RunLog {
    type Writer = LogLine<'a>;

    fn make_writer(&'a self) -> Self::Writer {
        LogLine { log: self, is_urgent: false }
    }

    fn make_writer_for(&'a self, meta: &Metadata<'_>) -> Self::Writer {
        LogLine { log: self, is_urgent: *meta.level() <= Level::WARN }
    }
}

/// Standard error, without secrets, and without what steers a terminal.
#[derive(Clone)]
struct RedactedStderr(Arc<RwLock<Redactor>>);

impl Write for RedactedStderr {
    fn write(&mut self, line: &[u8]) -> io::Result<usize> {
        let shown = without_secrets(&self.0, line);
        output::info_part(&ralph_orchestrator_text::escape(&String::from_utf8_lossy(&shown)));
        Ok(line.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl<'a> MakeWriter<'a> for RedactedStderr {
    type Writer = Self;

    fn make_writer(&'a self) -> Self {
        self.clone()
    }
}

fn without_secrets(redactor: &RwLock<Redactor>, line: &[u8]) -> Vec<u8> {
    let text = String::from_utf8_lossy(line);
    let redactor = redactor.read().unwrap_or_else(PoisonError::into_inner);
    redactor.text(&text).into_owned().into_bytes()
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    #[test]
    fn a_log_waits_for_its_folder() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("run/log.jsonl");
        let log = RunLog::default();
        log.begin(&path, Redactor::default());
        log.put(b"early\n", false);
        std::fs::create_dir(path.parent().unwrap()).unwrap();
        log.put(b"late\n", false);
        log.flush();
        assert_eq!(std::fs::read(&path).unwrap(), b"early\nlate\n");
    }

    #[test]
    fn lines_are_written_together_and_a_warning_takes_those_before_it_along() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("log.jsonl");
        let log = RunLog::default();
        log.begin(&path, Redactor::default());
        let content = || std::fs::read_to_string(&path).unwrap();
        log.put(b"one\n", true);
        // Held, so that no other thread can write what waits.
        let mut to = log.to();
        to.put(b"two\n");
        to.put(b"three\n");
        assert_eq!(content(), "one\n", "nothing is lost that would matter");
        drop(to);
        log.put(b"four\n", true);
        assert_eq!(content(), "one\ntwo\nthree\nfour\n");
    }

    #[test]
    fn what_waits_is_written_in_time_by_itself() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("log.jsonl");
        let log = RunLog::default();
        log.begin(&path, Redactor::default());
        for line in ["one\n", "two\n"] {
            log.put(line.as_bytes(), false);
            let until = std::time::Instant::now() + Duration::from_secs(30);
            while !std::fs::read_to_string(&path).unwrap().ends_with(line) {
                assert!(std::time::Instant::now() < until, "{line} was not written");
                std::thread::yield_now();
            }
        }
    }

    #[test]
    fn a_link_in_its_place_is_not_written_through() {
        let folder = tempfile::tempdir().unwrap();
        let (path, precious) = (folder.path().join("log.jsonl"), folder.path().join("precious"));
        std::fs::write(&precious, "mine").unwrap();
        symlink(&precious, &path).unwrap();
        let log = RunLog::default();
        log.begin(&path, Redactor::default());
        log.put(b"line\n", true);
        assert_eq!(std::fs::read(&precious).unwrap(), b"mine");
    }
}
