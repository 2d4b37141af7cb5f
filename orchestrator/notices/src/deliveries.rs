//! What receivers have answered, beside the journal of its run.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};

use jiff::Timestamp;
use ralph_orchestrator_safe_fs::read_if_exists;
use ralph_orchestrator_workspace::ProgramDigests;
use rustix::fs::{Mode, OFlags};
use serde::{Deserialize, Serialize};

/// The largest file that is read, in bytes.
const LARGEST: usize = 64 << 20;
/// Its name, in the folder of a run.
const NAME: &str = "notices.jsonl";

#[derive(Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
enum Line {
    /// The receiver is sent what follows this record.
    Begins { receiver: String, after: u64, time: Timestamp },
    /// The files that the receiver's command runs, with their digests, are those that a person wants run.
    Scripts { receiver: String, digests: BTreeMap<String, String>, time: Timestamp },
    /// The receiver has answered, or what it answered cannot be mended by sending again.
    Ended { receiver: String, id: String, answer: String, delivered: bool, time: Timestamp },
}

/// What is known of one run.
#[derive(Debug, Default)]
struct Known {
    after: BTreeMap<String, u64>,
    ended: BTreeMap<String, BTreeSet<String>>,
    /// Digests of the files that commands run, by receiver and path: of each version that a person wants run.
    scripts: BTreeMap<String, BTreeMap<String, BTreeSet<String>>>,
}

impl Known {
    fn add_scripts(&mut self, receiver: String, digests: BTreeMap<String, String>) {
        let recorded = self.scripts.entry(receiver).or_default();
        for (path, digest) in digests {
            recorded.entry(path).or_default().insert(digest);
        }
    }
}

/// The record of deliveries of one run.
#[derive(Debug)]
pub(crate) struct Deliveries {
    path: PathBuf,
    known: Mutex<Known>,
}

impl Deliveries {
    /// Reads the record in the folder of a run. A line that is none, as a crash may leave it, is not read: what it
    /// would have said is sent again.
    pub(crate) fn read(folder: &Path) -> Self {
        let path = folder.join(NAME);
        let mut known = Known::default();
        for line in read_lines(&path) {
            match serde_json::from_str(&line) {
                Ok(Line::Begins { receiver, after, .. }) => {
                    known.after.entry(receiver).or_insert(after);
                }
                Ok(Line::Ended { receiver, id, .. }) => {
                    known.ended.entry(receiver).or_default().insert(id);
                }
                Ok(Line::Scripts { receiver, digests, .. }) => {
                    known.add_scripts(receiver, digests);
                }
                Err(_) => {}
            }
        }
        Self { path, known: Mutex::new(known) }
    }

    fn known(&self) -> MutexGuard<'_, Known> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the record after which the receiver is sent notices, if that is known.
    pub(crate) fn after(&self, receiver: &str) -> Option<u64> {
        self.known().after.get(receiver).copied()
    }

    /// Whether the receiver needs this notice no more.
    pub(crate) fn has_ended(&self, receiver: &str, id: &str) -> bool {
        self.known().ended.get(receiver).is_some_and(|ids| ids.contains(id))
    }

    pub(crate) fn begin(&self, receiver: &str, after: u64) -> io::Result<()> {
        self.known().after.insert(receiver.to_owned(), after);
        let time = Timestamp::now();
        self.append(&Line::Begins { receiver: receiver.to_owned(), after, time })
    }

    /// Takes the files that a receiver's command runs as they are for those that a person wants run: all of them, or
    /// those of which nothing is recorded. Returns those that were others.
    pub(crate) fn accept_scripts(
        &self,
        receiver: &str,
        scripts: &[PathBuf],
        all: bool,
    ) -> io::Result<Vec<String>> {
        let mut digests = digest_scripts(scripts);
        let mut known = self.known();
        let recorded = known.scripts.entry(receiver.to_owned()).or_default();
        digests.retain(|path, digest| match recorded.get(path) {
            Some(accepted) => all && !accepted.contains(digest),
            None => true,
        });
        let changed = digests.keys().filter(|path| recorded.contains_key(*path)).cloned().collect();
        if digests.is_empty() {
            return Ok(changed);
        }
        known.add_scripts(receiver.to_owned(), digests.clone());
        drop(known);
        let receiver = receiver.to_owned();
        self.append(&Line::Scripts { receiver, digests, time: Timestamp::now() })?;
        Ok(changed)
    }

    /// Takes over which files a person wants run from an earlier run: an agent may have changed them since.
    pub(crate) fn adopt_scripts(&self, earlier: &Self) -> io::Result<()> {
        let scripts = earlier.known().scripts.clone();
        for (receiver, versions) in scripts {
            for (path, accepted) in versions {
                for digest in accepted {
                    let digests = BTreeMap::from([(path.clone(), digest)]);
                    self.known().add_scripts(receiver.clone(), digests.clone());
                    let (receiver, time) = (receiver.clone(), Timestamp::now());
                    self.append(&Line::Scripts { receiver, digests, time })?;
                }
            }
        }
        Ok(())
    }

    /// Returns a file that a receiver's command runs and that is none of the versions that were accepted.
    pub(crate) fn find_changed_script(
        &self,
        receiver: &str,
        scripts: &[PathBuf],
    ) -> Option<String> {
        let known = self.known();
        let recorded = known.scripts.get(receiver)?;
        let is_changed = |(path, digest): &(String, String)| {
            recorded.get(path).is_some_and(|accepted| !accepted.contains(digest))
        };
        digest_scripts(scripts).into_iter().find(is_changed).map(|(path, _)| path)
    }

    pub(crate) fn end(
        &self,
        receiver: &str,
        id: &str,
        answer: &str,
        delivered: bool,
    ) -> io::Result<()> {
        self.known().ended.entry(receiver.to_owned()).or_default().insert(id.to_owned());
        self.append(&Line::Ended {
            receiver: receiver.to_owned(),
            id: id.to_owned(),
            answer: answer.to_owned(),
            delivered,
            time: Timestamp::now(),
        })
    }

    fn append(&self, line: &Line) -> io::Result<()> {
        let text = serde_json::to_string(line).map_err(io::Error::other)?;
        // Begins with an end of line, so that it is a line of its own after one that a crash cut.
        open(&self.path)?.write_all(format!("\n{text}").as_bytes())
    }
}

/// The files that commands of the user run where agents can write them: which a person wants run, in one run.
pub struct ScriptPins(Deliveries);

impl ScriptPins {
    /// Reads what is recorded in the folder of a run.
    #[must_use]
    pub fn read(folder: &Path) -> Self {
        Self(Deliveries::read(folder))
    }

    /// Takes the files that a command runs as they are for those that a person wants run: all of them, or those of which
    /// nothing is recorded. Returns those that were others.
    ///
    /// # Errors
    /// It cannot be recorded.
    pub fn accept(&self, command: &str, scripts: &[PathBuf], all: bool) -> io::Result<Vec<String>> {
        self.0.accept_scripts(command, scripts, all)
    }

    /// Takes over what those of another run know, so that what was changed since then is found.
    ///
    /// # Errors
    /// It cannot be recorded.
    pub fn adopt(&self, other: &Self) -> io::Result<()> {
        self.0.adopt_scripts(&other.0)
    }

    /// Returns a file that a command runs and that is none of the versions that were accepted.
    #[must_use]
    pub fn find_changed(&self, command: &str, scripts: &[PathBuf]) -> Option<String> {
        self.0.find_changed_script(command, scripts)
    }
}

/// Returns the digests of the files that a command runs, by their paths.
fn digest_scripts(scripts: &[PathBuf]) -> BTreeMap<String, String> {
    let mut digests = ProgramDigests::default();
    scripts.iter().map(|path| (path.display().to_string(), digests.of_target(path))).collect()
}

fn open(path: &Path) -> io::Result<File> {
    let flags =
        OFlags::WRONLY | OFlags::APPEND | OFlags::CREATE | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    Ok(rustix::fs::open(path, flags, Mode::RUSR | Mode::WUSR)?.into())
}

fn read_lines(path: &Path) -> Vec<String> {
    let bytes = read_if_exists(path, LARGEST).ok().flatten().unwrap_or_default();
    String::from_utf8_lossy(&bytes).lines().map(str::to_owned).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_answered_is_known_after_a_restart_and_a_torn_line_is_not_read() {
        let folder = tempfile::tempdir().unwrap();
        let deliveries = Deliveries::read(folder.path());
        assert_eq!(deliveries.after("phone"), None);
        deliveries.begin("phone", 7).unwrap();
        deliveries.end("phone", "run:8", "HTTP 200", true).unwrap();
        let path = folder.path().join(NAME);
        let mut text = std::fs::read_to_string(&path).unwrap();
        text.push_str("\n{\"kind\":\"ended\",\"receiver\":\"phone\",\"id\":\"run:9");
        std::fs::write(&path, text).unwrap();
        let again = Deliveries::read(folder.path());
        again.end("phone", "run:10", "HTTP 200", true).unwrap();
        let third = Deliveries::read(folder.path());
        assert_eq!(third.after("phone"), Some(7));
        let ended = ["run:8", "run:9", "run:10"].map(|id| third.has_ended("phone", id));
        assert_eq!(ended, [true, false, true]);
        assert!(!third.has_ended("desk", "run:8"));
    }

    #[test]
    fn no_link_is_followed() {
        let folder = tempfile::tempdir().unwrap();
        let target = folder.path().join("elsewhere");
        std::os::unix::fs::symlink(&target, folder.path().join(NAME)).unwrap();
        assert!(Deliveries::read(folder.path()).begin("phone", 0).is_err());
        assert!(!target.exists());
    }
}
