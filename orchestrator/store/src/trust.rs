//! What a person has accepted of the files that decide what runs, and in which folders agents have worked.
//!
//! ```text
//! .trust/store.key          32 random bytes, 0600; keys everything below
//! .trust/order              how many of the events below there were
//! .trust/file-<hash>        what was accepted of a file, newest last, and when
//! .trust/folder-<hash>      when an agent last worked in a folder
//! ```
//!
//! *When* is a place in the order of these events, so no clock decides what came after what. The folder outlives
//! `reset`: that a run is deleted does not undo what its agent wrote.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::os::unix::fs::{MetadataExt as _, symlink};
use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

use data_encoding::HEXLOWER;
use ralph_orchestrator_machine::FileIdentity;
use ralph_orchestrator_safe_fs::{
    StoppingLink, escape, follow_links, normalize_lexically, path_bytes, real_path,
};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use super::Key;
use super::disk::Disk;
use super::error::StateError;
use super::owner::identity_of;
use super::signed_line::{sign, verify};

/// Versions of a file that are kept, so that switching between branches asks for each once.
const MOST_VERSIONS: usize = 32;
/// Larger than any file of the store: the versions of a configuration of the largest size, in hexadecimal.
const LARGEST: usize = 128 << 20;
const HASH_DIGITS: usize = 32;
/// Not the name of a run's key: it keys no run.
const KEY: &str = "store.key";

/// A version of a file that was accepted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AcceptedVersion {
    /// Tells whether two texts mean the same.
    pub digest: String,
    /// What was accepted.
    pub text: String,
}

/// What was accepted of a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AcceptedFile {
    /// The versions, the newest last.
    pub versions: Vec<AcceptedVersion>,
    /// When the newest was accepted.
    order: u64,
}

impl AcceptedFile {
    /// Returns whether it was accepted after the agents' last work.
    #[must_use]
    pub const fn is_after(&self, work: &AgentWork) -> bool {
        self.order > work.order
    }
}

/// Work of agents in a folder.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AgentWork {
    /// When it was last begun.
    order: u64,
    /// When it was first begun, in milliseconds since 1970. What is older than that was not written by them.
    pub since_ms: u64,
}

impl AgentWork {
    /// Returns work of which nothing is recorded: it may have been at any time.
    #[must_use]
    pub const fn unknown() -> Self {
        Self { order: u64::MAX, since_ms: 0 }
    }

    /// Whether it began after a file was made, or changed last.
    #[must_use]
    pub fn is_after(&self, found: &fs::Metadata) -> bool {
        let seconds = u64::try_from(found.ctime()).unwrap_or_default();
        let milliseconds = u64::try_from(found.ctime_nsec()).unwrap_or_default() / 1_000_000;
        seconds.saturating_mul(1000).saturating_add(milliseconds) < self.since_ms
    }

    /// Returns both together: begun first by the earlier, last by the later.
    #[must_use]
    pub fn latest(self, other: Self) -> Self {
        Self { order: self.order.max(other.order), since_ms: self.since_ms.min(other.since_ms) }
    }
}

#[derive(Serialize, Deserialize)]
struct FileRecord {
    path: String,
    order: u64,
    versions: Vec<SealedVersion>,
}

/// A version as it is stored: a configuration can contain secrets, which nobody is to find by looking for them.
#[derive(Serialize, Deserialize)]
struct SealedVersion {
    digest: String,
    text: String,
}

#[derive(Serialize, Deserialize)]
struct FolderRecord {
    path: String,
    order: u64,
    since_ms: u64,
    /// Files in it that a sandbox keeps them from writing, and when the last began that could; 0 if none ever did.
    #[serde(default)]
    kept: BTreeMap<String, u64>,
}

/// The store, in the folder of all states: out of the reach of agents in the sandbox.
#[derive(Clone, Debug)]
pub struct TrustStore {
    folder: PathBuf,
    disk: Disk,
}

impl TrustStore {
    /// Returns the store in the folder of all states. Nothing is written before something is recorded.
    #[must_use]
    pub fn new(states: &Path, disk: Disk) -> Self {
        Self { folder: states.join(".trust"), disk }
    }

    /// Returns what was accepted of a file, which is named by an absolute path.
    ///
    /// # Errors
    /// The record is damaged or cannot be read.
    pub fn accepted(&self, file: &Path) -> Result<Option<AcceptedFile>, StateError> {
        let Some(key) = self.key()? else { return Ok(None) };
        let Some((path, record)) = self.file_record(&key, file)? else { return Ok(None) };
        let open = |version: SealedVersion| {
            let text = unseal(&key, &version).ok_or_else(|| unreadable(&path))?;
            Ok(AcceptedVersion { digest: version.digest, text })
        };
        let versions = record.versions.into_iter().map(open).collect::<Result<_, StateError>>()?;
        Ok(Some(AcceptedFile { versions, order: record.order }))
    }

    /// Whether anything was accepted of a file while it had this path.
    #[must_use]
    pub fn has_path(&self, file: &Path) -> bool {
        let name = file_names(file).into_iter().next();
        name.is_some_and(|name| self.folder.join(name).exists())
    }

    /// Records that a person has accepted this text of a file.
    ///
    /// # Errors
    /// It cannot be written.
    pub fn accept(&self, file: &Path, digest: &str, text: &str) -> Result<(), StateError> {
        self.change(|store, key, order| {
            let known = store.file_record(key, file)?;
            let mut versions = known.map(|(_, record)| record.versions).unwrap_or_default();
            versions.retain(|version| version.digest != digest);
            versions.push(seal(key, digest, text)?);
            let excess = versions.len().saturating_sub(MOST_VERSIONS);
            versions.drain(..excess);
            let record = FileRecord { path: escape(file), order, versions };
            store.write_named(key, &file_names(file), &record)
        })
    }

    /// Returns what tells the newest accepted version of a file from others.
    ///
    /// # Errors
    /// The record is damaged or cannot be read.
    pub fn newest_digest(&self, file: &Path) -> Result<Option<String>, StateError> {
        let Some(key) = self.key()? else { return Ok(None) };
        let record = self.file_record(&key, file)?;
        Ok(record.and_then(|(_, record)| Some(record.versions.into_iter().next_back()?.digest)))
    }

    /// Makes an accepted version of a file the newest, without saying that it was accepted again.
    ///
    /// # Errors
    /// It cannot be written.
    pub fn prefer(&self, file: &Path, digest: &str) -> Result<(), StateError> {
        self.change(|store, key, _| {
            let Some((_, mut record)) = store.file_record(key, file)? else { return Ok(()) };
            record.versions.sort_by_key(|version| version.digest == digest);
            store.write_named(key, &file_names(file), &record)
        })
    }

    /// Returns the last work of agents in a folder around this file, or on the file itself.
    ///
    /// # Errors
    /// A record is damaged or cannot be read.
    pub fn last_work(&self, file: &Path) -> Result<Option<AgentWork>, StateError> {
        let Some(key) = self.key()? else { return Ok(None) };
        let mut last: Option<AgentWork> = None;
        for name in file.ancestors().flat_map(folder_names) {
            let found = self.read::<FolderRecord>(&key, &self.folder.join(name))?;
            let Some(FolderRecord { order, since_ms, kept, .. }) = found else { continue };
            let order = kept.get(&escape(file)).copied().unwrap_or(order);
            if order == 0 {
                continue;
            }
            let work = AgentWork { order, since_ms };
            last = Some(last.map_or(work, |other| other.latest(work)));
        }
        Ok(last)
    }

    /// Returns where a path leads, followed link by link up to the first link in a folder where agents have worked that is
    /// not older than their work, and that no person has accepted. Whoever opens the path may have rights that the agent
    /// that made the link has not.
    ///
    /// # Errors
    /// A record is damaged or cannot be read.
    pub fn follow_links(&self, path: &Path) -> Result<Result<PathBuf, StoppingLink>, StateError> {
        self.follow_while(path, |link, _| link.parent().map_or(Ok(None), |it| self.last_work(it)))
    }

    /// Does the same for the path of a file that decides what runs: an agent without a sandbox that could write the file
    /// could make a link of any folder on the way to it.
    ///
    /// # Errors
    /// As of [`follow_links`](Self::follow_links).
    pub fn follow_links_to_file(
        &self,
        file: &Path,
    ) -> Result<Result<PathBuf, StoppingLink>, StateError> {
        self.follow_while(file, |_, whole| self.last_work(whole))
    }

    fn follow_while(
        &self,
        path: &Path,
        work: impl Fn(&Path, &Path) -> Result<Option<AgentWork>, StateError>,
    ) -> Result<Result<PathBuf, StoppingLink>, StateError> {
        let mut failed = None;
        let followed = follow_links(path, |link, whole| {
            let may_follow = work(link, whole).and_then(|work| self.is_of_user(link, work));
            may_follow.unwrap_or_else(|error| {
                failed.get_or_insert(error);
                false
            })
        });
        failed.map_or(Ok(followed), Err)
    }

    /// Whether a person has made or accepted a link where agents have done this work.
    fn is_of_user(&self, link: &Path, work: Option<AgentWork>) -> Result<bool, StateError> {
        let Some(work) = work else { return Ok(true) };
        if fs::symlink_metadata(link).is_ok_and(|found| work.is_after(&found)) {
            return Ok(true);
        }
        let text = fs::read_link(link).map(|target| link_text(&target)).unwrap_or_default();
        let accepted = self.accepted(link)?;
        Ok(accepted.is_some_and(|file| file.versions.iter().any(|version| version.text == text)))
    }

    /// Records that a person has accepted where a link leads.
    ///
    /// # Errors
    /// It cannot be written.
    pub fn accept_link(&self, stopping: &StoppingLink) -> Result<(), StateError> {
        let text = link_text(&stopping.target);
        self.accept(&stopping.link, &short_hash(text.as_bytes()), &text)
    }

    /// Whether anything is recorded of work in a folder around this file, from which it was kept or not.
    ///
    /// # Errors
    /// A record is damaged or cannot be read.
    pub fn has_record(&self, file: &Path) -> Result<bool, StateError> {
        let Some(key) = self.key()? else { return Ok(false) };
        let mut names = file.ancestors().flat_map(folder_names);
        names.try_fold(false, |found, name| {
            let record = self.read::<FolderRecord>(&key, &self.folder.join(name))?;
            Ok(found || record.is_some())
        })
    }

    /// Whether agents are known to have worked in this folder, whatever it was called then, or in one of its path. Two
    /// looks at the disk.
    #[must_use]
    pub fn knows_folder(&self, folder: &Path) -> bool {
        let names = folder_names(folder);
        names.iter().any(|name| self.folder.join(name).symlink_metadata().is_ok())
    }

    /// Returns the folders around a path, and around where it leads, in which agents are known to have worked.
    pub fn known_folders_around(&self, path: &Path) -> impl Iterator<Item = PathBuf> {
        let (named, real) = (normalize_lexically(path), real_path(path));
        let real = Some(real).filter(|real| *real != named);
        let paths = std::iter::once(named).chain(real);
        let folders: BTreeSet<PathBuf> = paths
            .flat_map(|path| path.ancestors().map(Path::to_owned).collect::<Vec<_>>())
            .collect();
        folders.into_iter().filter(|folder| self.knows_folder(folder))
    }

    /// Records that agents work in these folders, or can write these files, from now on; but for the files that a
    /// sandbox keeps them from writing.
    ///
    /// # Errors
    /// It cannot be written.
    pub fn record_work(&self, places: &[PathBuf], kept: &[PathBuf]) -> Result<(), StateError> {
        let kept: Vec<String> = kept.iter().map(|file| escape(file)).collect();
        let is_newest = |place: &PathBuf| -> Result<bool, StateError> {
            let Some(key) = self.key()? else { return Ok(false) };
            let order = self.last_event()?;
            let mut names = folder_names(place).into_iter();
            names.try_fold(true, |all, name| {
                let found = self.read::<FolderRecord>(&key, &self.folder.join(name))?;
                let is_same = |record: FolderRecord| {
                    record.order == order && record.kept.keys().all(|file| kept.contains(file))
                };
                Ok(all && found.is_some_and(is_same))
            })
        };
        let mut is_recorded = true;
        for place in places {
            is_recorded = is_recorded && is_newest(place)?;
        }
        if is_recorded {
            // Nothing was accepted since.
            return Ok(());
        }
        self.change(|store, key, order| {
            places.iter().try_for_each(|place| store.record_place(key, place, order, &kept))
        })
    }

    /// Records work in one place, under its path; the name of its identity is a link to that.
    fn record_place(
        &self,
        key: &Key,
        place: &Path,
        order: u64,
        kept: &[String],
    ) -> Result<(), StateError> {
        let names = folder_names(place);
        let known = |name: &String| self.read::<FolderRecord>(key, &self.folder.join(name));
        let known = names.iter().map(known).collect::<Result<Vec<_>, _>>()?;
        let known: Vec<FolderRecord> = known.into_iter().flatten().collect();
        let since_ms = known.iter().map(|record| record.since_ms).min().unwrap_or_else(now_ms);
        let last_open = |file: &String| {
            let of = |record: &FolderRecord| record.kept.get(file).copied().unwrap_or(record.order);
            known.iter().map(of).max().unwrap_or_default()
        };
        let kept = kept.iter().map(|file| (file.clone(), last_open(file))).collect();
        self.write_named(key, &names, &FolderRecord { path: escape(place), order, since_ms, kept })
    }

    /// Records what is known of a folder that was moved, and of files in it, under the paths that they have now.
    ///
    /// # Errors
    /// A record is damaged, or cannot be written.
    pub fn record_move(&self, folder: &Path, files: &[PathBuf]) -> Result<(), StateError> {
        let names = folder_names(folder);
        self.change(|store, key, _| {
            for file in files {
                if let Some((_, known)) = store.file_record(key, file)? {
                    let record = FileRecord { path: escape(file), ..known };
                    store.write_named(key, &file_names(file), &record)?;
                }
            }
            for name in &names {
                let found = store.read::<FolderRecord>(key, &store.folder.join(name))?;
                if let Some(known) = found {
                    let record = FolderRecord { path: escape(folder), ..known };
                    return store.write_named(key, &names, &record);
                }
            }
            Ok(())
        })
    }

    /// Writes a record under the first of its names; the others are links to that.
    fn write_named<T: Serialize>(
        &self,
        key: &Key,
        names: &[String],
        record: &T,
    ) -> Result<(), StateError> {
        let Some((by_path, others)) = names.split_first() else { return Ok(()) };
        for name in others {
            let path = self.folder.join(name);
            if fs::read_link(&path).ok().as_deref() != Some(Path::new(by_path)) {
                self.disk.clear(&path, |_| false)?;
                symlink(by_path, &path).map_err(StateError::io("write", &path))?;
            }
        }
        self.write(key, &self.folder.join(by_path), record)
    }

    /// Returns what is recorded of a file, under its path or, where its folder was moved, as a file of that folder.
    fn file_record(
        &self,
        key: &Key,
        file: &Path,
    ) -> Result<Option<(PathBuf, FileRecord)>, StateError> {
        for name in file_names(file) {
            let path = self.folder.join(name);
            if let Some(record) = self.read::<FileRecord>(key, &path)? {
                return Ok(Some((path, record)));
            }
        }
        Ok(None)
    }

    fn key(&self) -> Result<Option<Key>, StateError> {
        Key::read(&self.disk, &self.folder.join(KEY))
    }

    /// Returns how many events were recorded.
    ///
    /// # Errors
    /// The count cannot be read.
    pub fn last_event(&self) -> Result<u64, StateError> {
        let path = self.folder.join("order");
        let bytes = self.disk.read_if_exists(&path, HASH_DIGITS)?.unwrap_or_default();
        Ok(std::str::from_utf8(&bytes).ok().and_then(|text| text.parse().ok()).unwrap_or_default())
    }

    /// Performs a change as the next event, under the lock of the store.
    fn change(
        &self,
        work: impl FnOnce(&Self, &Key, u64) -> Result<(), StateError>,
    ) -> Result<(), StateError> {
        self.disk.create_dir(&self.folder)?;
        let path = self.folder.join("lock");
        let lock = super::lock::open(&self.disk, &path)?.into_inner();
        lock.lock().map_err(StateError::io("lock", &path))?;
        let key = match self.key()? {
            Some(key) => key,
            None => Key::create(&self.disk, &self.folder.join(KEY))?,
        };
        let order = self.last_event()? + 1;
        // First, so that what is recorded is never newer than the count.
        self.disk.write_private(&self.folder.join("order"), order.to_string().as_bytes())?;
        work(self, &key, order)
    }

    fn read<T: DeserializeOwned>(&self, key: &Key, path: &Path) -> Result<Option<T>, StateError> {
        let Some(bytes) = self.disk.read_if_exists(path, LARGEST)? else { return Ok(None) };
        let line = std::str::from_utf8(&bytes).ok().filter(|line| verify(key, line).is_some());
        let record = line.and_then(|line| serde_json::from_str(line).ok());
        record.map(Some).ok_or_else(|| unreadable(path))
    }

    fn write<T: Serialize>(&self, key: &Key, path: &Path, record: &T) -> Result<(), StateError> {
        let text = serde_json::to_string(record).map_err(std::io::Error::from);
        let text = text.map_err(StateError::io("write", path))?;
        self.disk.write_private(path, sign(key, &text).0.as_bytes())
    }
}

/// Returns what is recorded of an accepted link: no text of a configuration.
fn link_text(target: &Path) -> String {
    format!("link to {}", escape(target))
}

fn unreadable(path: &Path) -> StateError {
    let problem =
        "was changed from outside; delete it, and what it says was accepted is asked for again";
    StateError::damaged(path, problem.to_owned())
}

/// Returns the names under which work in a folder is recorded: that of its path, and, so that a folder that is moved
/// is known again, that of its device and inode.
fn folder_names(folder: &Path) -> Vec<String> {
    let by_path = format!("folder-{}", short_hash(path_bytes(folder)));
    let is_folder = fs::symlink_metadata(folder).is_ok_and(|found| found.is_dir());
    let by_identity = is_folder.then(|| identity_of(folder)).flatten().map(name_of_identity);
    std::iter::once(by_path).chain(by_identity).collect()
}

fn name_of_identity(identity: FileIdentity) -> String {
    format!("folder-{}", identity_text(identity))
}

/// Returns what tells a file from others, also from one that gets its inode.
fn identity_text(FileIdentity { device, inode, made_ns }: FileIdentity) -> String {
    match made_ns {
        Some(made_ns) => format!("{inode}-{made_ns}"),
        None => format!("{device}-{inode}"),
    }
}

/// Returns the names under which a file is recorded: that of its path, and that of its name in its folder, wherever that is
/// moved.
fn file_names(file: &Path) -> Vec<String> {
    let by_path = format!("file-{}", short_hash(path_bytes(file)));
    let folder = file.parent().and_then(identity_of);
    let by_folder = folder.zip(file.file_name()).map(|(folder, name)| {
        format!("file-{}-{}", identity_text(folder), short_hash(name.as_encoded_bytes()))
    });
    std::iter::once(by_path).chain(by_folder).collect()
}

fn short_hash(bytes: &[u8]) -> String {
    blake3::hash(bytes).to_hex().chars().take(HASH_DIGITS).collect()
}

fn now_ms() -> u64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(now.as_millis()).unwrap_or(u64::MAX)
}

fn seal(key: &Key, digest: &str, text: &str) -> Result<SealedVersion, StateError> {
    Ok(SealedVersion {
        digest: digest.to_owned(),
        text: HEXLOWER.encode(&key.seal(text.as_bytes())?),
    })
}

fn unseal(key: &Key, version: &SealedVersion) -> Option<String> {
    let sealed = HEXLOWER.decode(version.text.as_bytes()).ok()?;
    String::from_utf8(key.unseal(&sealed)?.into_owned()).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn store() -> (tempfile::TempDir, TrustStore, PathBuf) {
        let temp = tempfile::tempdir().unwrap();
        let states = temp.path().join("states");
        let work = temp.path().join("work");
        fs::create_dir_all(&work).unwrap();
        fs::create_dir_all(&states).unwrap();
        let store = TrustStore::new(&states, Disk::default());
        (temp, store, work)
    }

    #[test]
    fn what_is_accepted_is_read_again_in_order_and_is_not_there_as_text() {
        let (_temp, store, work) = store();
        let file = work.join("ralph.toml");
        assert_eq!(store.accepted(&file).unwrap(), None);
        assert!(!store.folder.exists(), "a look writes nothing");
        for (digest, text) in [("a", "one = \"sesame\""), ("b", "two"), ("a", "one = \"sesame\"")] {
            store.accept(&file, digest, text).unwrap();
        }
        let accepted = store.accepted(&file).unwrap().unwrap();
        let digests: Vec<_> =
            accepted.versions.iter().map(|version| version.digest.as_str()).collect();
        assert_eq!(digests, ["b", "a"]);
        assert_eq!(accepted.versions[1].text, "one = \"sesame\"");
        assert_eq!(store.accepted(&work.join("other.toml")).unwrap(), None);
        let stored = fs::read_to_string(store.folder.join(&file_names(&file)[0])).unwrap();
        assert!(!stored.contains("sesame") && !stored.contains(&HEXLOWER.encode(b"sesame")));
        store.prefer(&file, "b").unwrap();
        let preferred = store.accepted(&file).unwrap().unwrap();
        assert_eq!(preferred.versions.last().unwrap().text, "two");
        assert_eq!(preferred.order, accepted.order, "nobody accepted anything");
        for version in 0..MOST_VERSIONS + 3 {
            store.accept(&file, &version.to_string(), "").unwrap();
        }
        assert_eq!(store.accepted(&file).unwrap().unwrap().versions.len(), MOST_VERSIONS);
    }

    #[test]
    fn work_in_a_folder_comes_before_or_after_what_was_accepted_in_it() {
        let (_temp, store, work) = store();
        let file = work.join("ralph.toml");
        assert_eq!(store.last_work(&file).unwrap(), None);
        store.accept(&file, "a", "").unwrap();
        assert_eq!(store.last_work(&file).unwrap(), None);
        store.record_work(std::slice::from_ref(&work), &[]).unwrap();
        let last = store.last_work(&file).unwrap().unwrap();
        assert!(!store.accepted(&file).unwrap().unwrap().is_after(&last));
        assert_eq!(store.last_work(&work.with_file_name("beside")).unwrap(), None);
        // Where nothing was accepted in between, nothing has to be written.
        let order = store.last_event().unwrap();
        store.record_work(std::slice::from_ref(&work), &[]).unwrap();
        assert_eq!(store.last_event().unwrap(), order);
        store.accept(&file, "a", "").unwrap();
        assert!(store.accepted(&file).unwrap().unwrap().is_after(&last));
        store.record_work(&[work], &[]).unwrap();
        let again = store.last_work(&file).unwrap().unwrap();
        assert!(!store.accepted(&file).unwrap().unwrap().is_after(&again));
        assert_eq!(again.since_ms, last.since_ms);
    }

    #[test]
    fn a_file_that_every_agent_was_kept_from_is_as_if_none_had_worked() {
        let (_temp, store, work) = store();
        let (kept, other) = (work.join("ralph.toml"), work.join("other.toml"));
        store.record_work(std::slice::from_ref(&work), std::slice::from_ref(&kept)).unwrap();
        assert_eq!(store.last_work(&kept).unwrap(), None);
        assert!(store.last_work(&other).unwrap().is_some());
        store.record_work(std::slice::from_ref(&work), &[]).unwrap();
        store.record_work(std::slice::from_ref(&work), std::slice::from_ref(&kept)).unwrap();
        let open = store.last_work(&kept).unwrap().unwrap();
        // Once it is accepted, work that is kept from it does not count any more.
        store.accept(&kept, "a", "").unwrap();
        store.record_work(std::slice::from_ref(&work), std::slice::from_ref(&kept)).unwrap();
        assert_eq!(store.last_work(&kept).unwrap(), Some(open));
        assert!(store.accepted(&kept).unwrap().unwrap().is_after(&open));
    }

    #[test]
    fn a_link_that_an_agent_could_have_made_is_followed_once_it_is_accepted() {
        let (temp, store, work) = store();
        let work = work.canonicalize().unwrap();
        let outside = temp.path().canonicalize().unwrap().join("outside");
        fs::create_dir(&outside).unwrap();
        symlink(&outside, work.join("own")).unwrap();
        let made = fs::symlink_metadata(work.join("own")).unwrap();
        let is_later = || AgentWork { order: 1, since_ms: now_ms() }.is_after(&made);
        while !is_later() {
            std::thread::yield_now();
        }
        store.record_work(std::slice::from_ref(&work), &[]).unwrap();
        let follow = |path: &str| store.follow_links(&work.join(path)).unwrap();
        assert_eq!(follow("own/file"), Ok(outside.join("file")), "the user's");
        // The clock of files is coarser than the one by which work begins.
        let begun = store.last_work(&work).unwrap().unwrap();
        let make = || {
            symlink(&outside, work.join("new")).unwrap();
            fs::symlink_metadata(work.join("new")).unwrap()
        };
        while begun.is_after(&make()) {
            fs::remove_file(work.join("new")).unwrap();
        }
        let stopping = follow("new/file").unwrap_err();
        assert_eq!((&stopping.link, &stopping.path), (&work.join("new"), &work.join("new/file")));
        store.accept_link(&stopping).unwrap();
        assert_eq!(follow("new/file"), Ok(outside.join("file")));
        fs::remove_file(work.join("new")).unwrap();
        symlink("/", work.join("new")).unwrap();
        assert!(follow("new").is_err(), "it leads elsewhere");
    }

    #[test]
    fn folders_where_agents_have_worked_are_found_around_a_path_and_where_it_leads() {
        let (temp, store, work) = store();
        let around = |path: &Path| store.known_folders_around(path).collect::<Vec<_>>();
        assert!(around(&work.join("bin")).is_empty());
        store.record_work(std::slice::from_ref(&work), &[]).unwrap();
        assert_eq!(around(&work.join("not/there")), std::slice::from_ref(&work));
        assert!(around(&temp.path().join("beside")).is_empty());
        fs::create_dir(work.join("bin")).unwrap();
        symlink(work.join("bin"), temp.path().join("link")).unwrap();
        assert_eq!(around(&temp.path().join("link/git")), [work]);
    }

    #[test]
    fn a_folder_that_is_moved_is_known_again() {
        let (temp, store, work) = store();
        store.accept(&work.join("ralph.toml"), "a", "x").unwrap();
        store.record_work(std::slice::from_ref(&work), &[]).unwrap();
        let moved = temp.path().join("moved");
        fs::rename(&work, &moved).unwrap();
        assert!(store.last_work(&moved.join("ralph.toml")).unwrap().is_some());
        let accepted = store.accepted(&moved.join("ralph.toml")).unwrap().unwrap();
        assert_eq!(accepted.versions[0].text, "x");
        assert_eq!(store.accepted(&moved.join("other.toml")).unwrap(), None);
    }

    #[test]
    fn what_was_changed_from_outside_is_damaged() {
        let (_temp, store, work) = store();
        let file = work.join("ralph.toml");
        store.accept(&file, "a", "x").unwrap();
        let path = store.folder.join(&file_names(&file)[0]);
        let text = fs::read_to_string(&path).unwrap();
        fs::write(&path, text.replace("\"order\":1", "\"order\":9")).unwrap();
        let error = store.accepted(&file).unwrap_err().to_string();
        assert!(error.contains("changed from outside"), "{error}");
    }
}
