//! What the program says of itself, for those who look for a mistake: to standard error if that is
//! asked for, and of each run to a file in its state.

use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock};

use orchestrator::engine::Redactor;
use tracing::Level;
use tracing::level_filters::LevelFilter;
use tracing_subscriber::filter::EnvFilter;
use tracing_subscriber::fmt::{self, MakeWriter};
use tracing_subscriber::layer::{Layer as _, SubscriberExt as _};
use tracing_subscriber::registry;

use crate::bounded_file::BoundedFile;
use crate::output;

/// What is to be said, in the syntax of `tracing_subscriber::EnvFilter`.
const VARIABLE: &str = "RALPH_LOG";
/// What two `-v` stand for.
const VERBOSE: &str = "debug";
/// So much is kept in memory until a run has its folder.
const MOST_EARLY: usize = 64 * 1024;

/// Listens from now on. `verbose` is how often `-v` was given.
pub(crate) fn install(verbose: u8) -> RunLog {
    let log = RunLog::default();
    let asked = asked(verbose);
    // The log tells no less than what is shown.
    let kept = asked.as_deref().and_then(|filter| EnvFilter::try_new(filter).ok());
    let kept = match kept {
        Some(filter) if filter.max_level_hint().is_some_and(|most| most > LevelFilter::INFO) => {
            filter
        }
        _ => EnvFilter::default().add_directive(Level::INFO.into()),
    };
    let to_log = fmt::layer().json().flatten_event(true).with_current_span(false);
    let to_log = to_log.with_writer(log.clone()).with_filter(kept);
    let shown = asked.and_then(|filter| EnvFilter::try_new(filter).ok());
    let to_stderr = shown.map(|filter| {
        let redacted = Shown(Arc::clone(&log.redactor));
        fmt::layer().with_ansi(false).with_writer(redacted).with_filter(filter)
    });
    let subscriber = registry().with(to_log).with(to_stderr);
    // It is set once: only one command is run.
    drop(tracing::subscriber::set_global_default(subscriber));
    log
}

/// What is to be shown, if anything is. A filter that cannot be read is no reason not to work.
fn asked(verbose: u8) -> Option<String> {
    let filter = std::env::var(VARIABLE).ok().filter(|filter| !filter.trim().is_empty());
    let filter = filter.filter(|filter| match EnvFilter::try_new(filter) {
        Ok(_) => true,
        Err(error) => {
            let example = "expected such as `info` or `orchestrator=debug,warn`";
            output::say(&format!("warning: {VARIABLE} is ignored: {error}; {example}"));
            false
        }
    });
    filter.or_else(|| (verbose > 1).then(|| VERBOSE.to_owned()))
}

/// The log of a run.
#[derive(Clone, Default)]
pub(crate) struct RunLog {
    redactor: Arc<RwLock<Redactor>>,
    to: Arc<Mutex<To>>,
}

/// Where it goes.
#[derive(Default)]
enum To {
    /// There is no run yet, or not its folder.
    #[default]
    Early,
    Waiting {
        path: PathBuf,
        early: Vec<u8>,
    },
    File(BoundedFile),
    /// It cannot be written: nothing depends on it.
    Nowhere,
}

impl RunLog {
    /// A run has begun, or goes on: its log is that file from now on, without these secrets.
    pub(crate) fn begin(&self, path: &Path, redactor: Redactor) {
        *self.redactor.write().unwrap_or_else(PoisonError::into_inner) = redactor;
        *self.to() = To::Waiting { path: path.to_owned(), early: Vec::new() };
    }

    fn to(&self) -> MutexGuard<'_, To> {
        self.to.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl To {
    fn put(&mut self, line: &[u8]) {
        if let Self::Waiting { path, early } = self {
            match BoundedFile::open(path, "log.1.jsonl") {
                Ok(file) => {
                    let early = std::mem::take(early);
                    *self = Self::File(file);
                    self.put(&early);
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
        let Self::File(file) = self else { return };
        if file.append(line).is_err() {
            *self = Self::Nowhere;
        }
    }
}

/// One line at a time: they are handed over whole.
impl Write for RunLog {
    fn write(&mut self, line: &[u8]) -> io::Result<usize> {
        self.to().put(&without_secrets(&self.redactor, line));
        Ok(line.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl<'a> MakeWriter<'a> for RunLog {
    type Writer = Self;

    fn make_writer(&'a self) -> Self {
        self.clone()
    }
}

/// Standard error, without secrets, and without what steers a terminal.
#[derive(Clone)]
struct Shown(Arc<RwLock<Redactor>>);

impl Write for Shown {
    fn write(&mut self, line: &[u8]) -> io::Result<usize> {
        let shown = without_secrets(&self.0, line);
        output::say_part(&crate::render::text::escape(&String::from_utf8_lossy(&shown)));
        Ok(line.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl<'a> MakeWriter<'a> for Shown {
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
        let mut log = RunLog::default();
        log.begin(&path, Redactor::default());
        log.write_all(b"early\n").unwrap();
        std::fs::create_dir(path.parent().unwrap()).unwrap();
        log.write_all(b"late\n").unwrap();
        assert_eq!(std::fs::read(&path).unwrap(), b"early\nlate\n");
    }

    #[test]
    fn a_link_in_its_place_is_not_written_through() {
        let folder = tempfile::tempdir().unwrap();
        let (path, precious) = (folder.path().join("log.jsonl"), folder.path().join("precious"));
        std::fs::write(&precious, "mine").unwrap();
        symlink(&precious, &path).unwrap();
        let mut log = RunLog::default();
        log.begin(&path, Redactor::default());
        log.write_all(b"line\n").unwrap();
        assert_eq!(std::fs::read(&precious).unwrap(), b"mine");
    }
}
