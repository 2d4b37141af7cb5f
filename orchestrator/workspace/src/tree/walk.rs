//! Walks the workspace once.

use std::collections::HashSet;
use std::collections::hash_map::RandomState;
use std::ffi::OsStr;
use std::hash::{BuildHasher as _, DefaultHasher, Hasher as _};
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};

use ralph_orchestrator_safe_fs::{self as safe_fs, DirEntryName, DirLister, FileFingerprint};
use ralph_orchestrator_safe_fs::{DirVisitor, SkipReason, Subfolder};
use rustix::fd::BorrowedFd;
use rustix::fs::FileType;
use rustix::io::Errno;

use super::filter::{FolderContext, Inclusion, TreeFilter};
use super::inventory::Inventory;
use super::prefetch::{Prefetch, SeenName};
use super::read_ahead::ReadAhead;
use super::snapshot::{EntryDigest, FoundEntries, entry_digest, file_digest};
use super::uncommitted::Uncommitted;
use super::{TreeDigest, TreeState};
use crate::file_hasher::{Content, FileHasher, unique_digest};
use crate::gitignore::{CompiledRules, RULE_FILE};
use crate::line_digests::LineDigests;
use crate::protected::{is_cache, is_cached};

/// How often a folder whose entries vanish under the reader is listed before it is called unstable.
const ATTEMPTS: usize = 3;
/// How many unreadable paths are named.
const UNREADABLE: usize = 100;
/// How many notes are kept.
const NOTES: usize = 50;
/// Records are hashed in batches of this size, in bytes.
const BATCH: usize = 64 * 1024;
/// What the digest is of; another number for another composition.
const CONTEXT: &str = "ralph-orchestrator workspace tree, version 1";

/// The file that marks a folder as a cache, and what it begins with: bford.info/cachedir.
const CACHE_TAG: &[u8] = b"CACHEDIR.TAG";
const CACHE_SIGNATURE: &[u8] = b"Signature: 8a477f597d28d172789f06886806bc55";
/// Larger files of that name, in bytes, are none.
const LARGEST_TAG: usize = 4096;
/// The orchestrator's own folder in a workspace.
const OWN: &[u8] = b".ralph";
/// The folder of a repository, and what git takes one for.
const GIT: &[u8] = b".git";
const REPOSITORY: [&[u8]; 2] = [b".git/HEAD", b".git/objects"];

/// The caller wants no more.
pub(super) struct Cancelled;

/// What an entry amounts to.
enum EntryContent {
    File {
        executable: bool,
        size: u64,
        hash: blake3::Hash,
        /// The number of its path.
        number: u64,
        lines: Option<LineDigests>,
    },
    Link(Vec<u8>),
    Other(u32),
    Unreadable(Option<FileFingerprint>),
    Unstable,
    /// It vanished, or became something else, since the folder was listed.
    Moved,
}

/// What is found in a folder: each name with what it amounts to and whether it counts only since it did before, and the
/// subfolders to enter.
type FolderEntries = (Vec<(Vec<u8>, EntryContent, bool)>, Vec<Subfolder<FolderContext>>);

pub(super) struct TreeWalker<'a> {
    filter: TreeFilter,
    hasher: &'a mut FileHasher,
    inventory: &'a mut Inventory,
    numbers: &'a RandomState,
    entries: Option<&'a mut FoundEntries>,
    artefacts: &'a HashSet<Box<[u8]>>,
    /// Of all but artefacts, if there are any.
    work: Option<blake3::Hasher>,
    lister: DirLister,
    /// What a second thread looks at meanwhile.
    prefetch: Option<&'a Prefetch<'a>>,
    /// What it reads.
    read_ahead: Option<&'a ReadAhead<'a>>,
    /// The folders in the order of the walk.
    folders: Vec<Box<[u8]>>,
    digest: blake3::Hasher,
    batch: Vec<u8>,
    files: u64,
    bytes: u64,
    unreadable: Vec<PathBuf>,
    unreadable_more: u64,
    stable: bool,
    notes: Vec<String>,
}

impl<'a> TreeWalker<'a> {
    pub(super) fn new(
        filter: TreeFilter,
        (hasher, inventory): (&'a mut FileHasher, &'a mut Inventory),
        numbers: &'a RandomState,
        entries: Option<&'a mut FoundEntries>,
        artefacts: &'a HashSet<Box<[u8]>>,
        notes: Vec<String>,
        (prefetch, read_ahead): (Option<&'a Prefetch<'a>>, Option<&'a ReadAhead<'a>>),
    ) -> Self {
        Self {
            filter,
            hasher,
            inventory,
            numbers,
            entries,
            artefacts,
            work: (!artefacts.is_empty()).then(|| blake3::Hasher::new_derive_key(CONTEXT)),
            lister: DirLister::default(),
            prefetch,
            read_ahead,
            folders: Vec::new(),
            digest: blake3::Hasher::new_derive_key(CONTEXT),
            batch: Vec::with_capacity(BATCH * 2),
            files: 0,
            bytes: 0,
            unreadable: Vec::new(),
            unreadable_more: 0,
            stable: true,
            notes,
        }
    }

    /// Returns the result, the rules that were read, and the folders in the order of the walk.
    pub(super) fn finish(mut self) -> (TreeState, CompiledRules, Vec<Box<[u8]>>) {
        self.digest.update(&self.batch);
        if let Some(entries) = &mut self.entries {
            entries.uncommitted.extend(self.filter.find_overlooked());
        }
        if self.unreadable_more > 0 {
            self.note(format!("{} more entries cannot be read", self.unreadable_more));
        }
        let state = TreeState {
            digest: TreeDigest(self.digest.finalize().to_hex().to_string()),
            work: self.work.map(|work| TreeDigest(work.finalize().to_hex().to_string())),
            files: self.files,
            bytes: self.bytes,
            hashed: self.hasher.reads,
            unreadable: self.unreadable,
            stable: self.stable,
            notes: self.notes,
        };
        (state, self.filter.rules.into_compiled(), self.folders)
    }

    fn note(&mut self, note: String) {
        if self.notes.len() < NOTES {
            self.notes.push(note);
        }
    }

    /// Looks at all entries of a folder, with the rules in it in force.
    fn read_folder(
        &mut self,
        folder: BorrowedFd<'_>,
        path: &[u8],
        inside: FolderContext,
        is_first: bool,
    ) -> Result<(FolderEntries, bool), Errno> {
        let names = self.names(folder, path, is_first)?;
        let inside = self.within(folder, path, &names, inside);
        let mut items = Vec::with_capacity(names.len());
        let mut subfolders = Vec::new();
        let mut whole = path.to_vec();
        let mut moved = false;
        for (DirEntryName { bytes: name, file_type: kind }, seen) in names {
            if self.hasher.cancelled() {
                // The caller sees that, too.
                break;
            }
            whole.truncate(path.len());
            whole.extend_from_slice(&name);
            let mut fingerprint = seen;
            let mut kind = kind;
            if kind == FileType::Unknown {
                let Ok(now) = FileFingerprint::from_name(folder, &name) else {
                    moved = true;
                    continue;
                };
                kind = now.file_type();
                fingerprint = Some(now);
            }
            let is_folder = kind == FileType::Directory;
            let inclusion = self.filter.classify(&whole, &name, is_folder, inside);
            match inclusion {
                Inclusion::Excluded if is_folder => self.note_ignored_folder(&whole),
                Inclusion::Excluded => {}
                Inclusion::TraverseOnly => {
                    subfolders.push((name, FolderContext { ignored: true, ..inside }));
                }
                Inclusion::Included if is_folder => {
                    let is_repository = name == GIT && is_repository(folder);
                    let kept_by_tool = inside.kept_by_tool || is_repository;
                    subfolders.push((name, FolderContext { ignored: false, kept_by_tool }));
                }
                Inclusion::Included | Inclusion::IncludedByPin => {
                    let item = match self.first_look(folder, &name, &whole, kind) {
                        Some(item) => item,
                        None => self.item(folder, &name, &whole, fingerprint),
                    };
                    moved |= matches!(item, EntryContent::Moved);
                    items.push((name, item, inclusion == Inclusion::IncludedByPin));
                }
            }
        }
        Ok(((items, subfolders), moved))
    }

    /// Returns what a folder with these names hands down to its entries.
    fn within(
        &mut self,
        folder: BorrowedFd<'_>,
        path: &[u8],
        names: &[SeenName],
        inside: FolderContext,
    ) -> FolderContext {
        let tagged =
            |(name, _): &SeenName| name.bytes == CACHE_TAG && !path.is_empty() && is_tagged(folder);
        let is_tagged = !inside.ignored
            && !inside.kept_by_tool
            && names.iter().any(tagged)
            // Whoever marks a folder of work as a cache hides nothing in it.
            && !self.filter.has_work_beneath(path);
        let is_known = is_tagged && is_cache(last_name(path));
        if is_tagged && !is_known && names.iter().any(|(name, _)| self.counts_untagged(path, name))
        {
            self.note_uncounted_folder(path);
        }
        FolderContext {
            ignored: inside.ignored || is_tagged && !is_known,
            kept_by_tool: inside.kept_by_tool || is_known,
        }
    }

    /// Returns the names in a folder: at the first attempt as the second thread has seen them, if it has.
    fn names(
        &mut self,
        folder: BorrowedFd<'_>,
        path: &[u8],
        is_first: bool,
    ) -> Result<Vec<SeenName>, Errno> {
        let prefetch = self.prefetch.filter(|_| is_first);
        if let Some(seen) = prefetch.and_then(|prefetch| prefetch.take(folder, path)) {
            return Ok(seen);
        }
        let (names, _) = self.lister.list(folder, usize::MAX)?;
        Ok(names.into_iter().map(|name| (name, None)).collect())
    }

    /// Reads a file of which nothing can be known yet without looking at it first; `None` if that is not so.
    fn first_look(
        &mut self,
        folder: BorrowedFd<'_>,
        name: &[u8],
        path: &[u8],
        kind: FileType,
    ) -> Option<EntryContent> {
        if kind != FileType::RegularFile || !self.hasher.knows_nothing() {
            return None;
        }
        let number = self.numbers.hash_one(path);
        if let Some((content, lines)) = self.read_ahead.and_then(|ahead| ahead.take(folder, path)) {
            return Some(content_of(content, number, lines));
        }
        Some(match self.hasher.read_new(folder, name, number) {
            Content::Unreadable => {
                EntryContent::Unreadable(FileFingerprint::from_name(folder, name).ok())
            }
            content => content_of(content, number, self.hasher.take_lines()),
        })
    }

    fn item(
        &mut self,
        folder: BorrowedFd<'_>,
        name: &[u8],
        path: &[u8],
        fingerprint: Option<FileFingerprint>,
    ) -> EntryContent {
        let fingerprint =
            match fingerprint.map_or_else(|| FileFingerprint::from_name(folder, name), Ok) {
                Ok(fingerprint) => fingerprint,
                Err(Errno::NOENT) => return EntryContent::Moved,
                Err(_) => return EntryContent::Unreadable(None),
            };
        match fingerprint.file_type() {
            FileType::RegularFile => {
                let number = self.numbers.hash_one(path);
                match self.hasher.hash(folder, name, number, fingerprint) {
                    Content::Unreadable => EntryContent::Unreadable(Some(fingerprint)),
                    content => content_of(content, number, self.hasher.take_lines()),
                }
            }
            FileType::Symlink => match safe_fs::read_link_at(folder, name) {
                Ok(target) => EntryContent::Link(target),
                Err(Errno::NOENT | Errno::INVAL) => EntryContent::Moved,
                Err(_) => EntryContent::Unreadable(Some(fingerprint)),
            },
            FileType::Directory => EntryContent::Moved,
            other => EntryContent::Other(other.as_raw_mode()),
        }
    }

    /// Adds an entry to the digest.
    fn add(&mut self, path: &[u8], item: EntryContent) {
        self.files += 1;
        match item {
            EntryContent::File { executable, size, hash, number, lines } => {
                self.bytes += size;
                let kind = if executable { b'x' } else { b'f' };
                self.record(kind, path, hash.as_bytes(), || file_digest(kind, &hash));
                self.inventory.note(path, number, identity(kind, &hash), lines);
            }
            EntryContent::Link(target) => {
                self.note_uncommitted(self.filter.find_unfit(path, Some(&target)));
                self.record_other(b'l', path, &target);
            }
            EntryContent::Other(kind) => {
                self.note_uncommitted(self.filter.find_unfit(path, None));
                self.record_other(b'o', path, &kind.to_le_bytes());
            }
            EntryContent::Unreadable(fingerprint) => {
                self.cannot_read(path);
                self.record_other(b'u', path, &stand_in(fingerprint));
            }
            EntryContent::Unstable | EntryContent::Moved => {
                self.stable = false;
                self.note(format!("{}: kept changing while it was read", shown(path)));
                self.record_other(b'?', path, unique_digest().as_bytes());
            }
        }
    }

    fn note_ignored_folder(&mut self, path: &[u8]) {
        if path == OWN {
            self.note_uncounted_folder(path);
        }
        if let Some(entries) = &mut self.entries {
            entries.ignored_folders.push(PathBuf::from(OsStr::from_bytes(path)));
        }
    }

    fn note_uncounted_folder(&mut self, path: &[u8]) {
        if let Some(entries) = &mut self.entries {
            let path = path.strip_suffix(b"/").unwrap_or(path);
            entries.uncounted_folders.push(PathBuf::from(OsStr::from_bytes(path)));
        }
    }

    /// Whether an entry of a folder that is marked as a cache would count if it were not.
    fn counts_untagged(&self, folder: &[u8], entry: &DirEntryName) -> bool {
        let path = [folder, &entry.bytes].concat();
        let is_folder = entry.file_type == FileType::Directory;
        let inclusion =
            self.filter.classify(&path, &entry.bytes, is_folder, FolderContext::default());
        // Rules for themselves are none of the content.
        entry.bytes != RULE_FILE && inclusion == Inclusion::Included
    }

    fn note_uncommitted(&mut self, found: Option<Uncommitted>) {
        if let Some(entries) = &mut self.entries {
            entries.uncommitted.extend(found);
        }
    }

    /// Records what is no regular file that could be read.
    fn record_other(&mut self, kind: u8, path: &[u8], payload: &[u8]) {
        self.record(kind, path, payload, || entry_digest(kind, payload));
        let mut identity = DefaultHasher::new();
        identity.write_u8(kind);
        identity.write(payload);
        let number = self.numbers.hash_one(path);
        self.inventory.note(path, number, identity.finish(), None);
    }

    /// `digest` is that of the entry alone.
    fn record(
        &mut self,
        kind: u8,
        path: &[u8],
        payload: &[u8],
        digest: impl FnOnce() -> EntryDigest,
    ) {
        if let Some(entries) = &mut self.entries {
            entries.entries.push((path.into(), digest()));
        }
        let from = self.batch.len();
        self.batch.push(kind);
        for part in [path, payload] {
            let length = u64::try_from(part.len()).unwrap_or(u64::MAX);
            self.batch.extend_from_slice(&length.to_le_bytes());
            self.batch.extend_from_slice(part);
        }
        if let Some(work) = &mut self.work
            && !is_beneath(self.artefacts, path)
        {
            work.update(self.batch.get(from..).unwrap_or_default());
        }
        if self.batch.len() >= BATCH {
            self.digest.update(&self.batch);
            self.batch.clear();
        }
    }

    fn cannot_read(&mut self, path: &[u8]) {
        if self.unreadable.len() < UNREADABLE {
            self.unreadable.push(PathBuf::from(OsStr::from_bytes(path)));
        } else {
            self.unreadable_more += 1;
        }
    }
}

impl DirVisitor for TreeWalker<'_> {
    type State = FolderContext;
    type Stop = Cancelled;

    fn visit(
        &mut self,
        folder: BorrowedFd<'_>,
        path: &[u8],
        inside: &FolderContext,
    ) -> Result<Vec<Subfolder<FolderContext>>, Cancelled> {
        let mut whole = path.to_vec();
        self.folders.push(path.into());
        for attempt in 1..=ATTEMPTS {
            self.filter.rules.leave(path.len());
            if !inside.ignored
                && let Some(error) = self.filter.rules.enter(folder, path.len())
            {
                self.note(format!("{}{}: not used: {error}", shown(path), shown(RULE_FILE)));
            }
            let listed = self.read_folder(folder, path, *inside, attempt == 1);
            if self.hasher.cancelled() {
                return Err(Cancelled);
            }
            match listed {
                Ok((_, true)) if attempt < ATTEMPTS => {}
                Ok(((items, subfolders), moved)) => {
                    for (name, item, is_pinned) in items {
                        whole.truncate(path.len());
                        whole.extend_from_slice(&name);
                        let untracked = Some(&whole).filter(|_| is_pinned);
                        let untracked = untracked.and_then(|path| self.filter.find_untracked(path));
                        self.note_uncommitted(untracked);
                        self.add(&whole, item);
                    }
                    if moved {
                        self.add(path, EntryContent::Unstable);
                    }
                    return Ok(subfolders);
                }
                Err(_) => {
                    let path = path.strip_suffix(b"/").unwrap_or(path);
                    self.add(path, EntryContent::Unreadable(FileFingerprint::from_fd(folder).ok()));
                    break;
                }
            }
        }
        Ok(Vec::new())
    }

    fn leave(&mut self, path_len: usize) {
        self.filter.rules.leave(path_len);
    }

    fn skip(&mut self, path: &[u8], why: SkipReason, fingerprint: Option<FileFingerprint>) {
        match why {
            SkipReason::Gone => self.add(path, EntryContent::Unstable),
            SkipReason::Unreadable => self.add(path, EntryContent::Unreadable(fingerprint)),
            SkipReason::TooDeep => {
                self.note(format!("{}: too deep to look into", shown(path)));
                self.add(path, EntryContent::Unreadable(fingerprint));
            }
        }
    }
}

/// Returns what a file with this content and these lines amounts to.
fn content_of(content: Content, number: u64, lines: Option<LineDigests>) -> EntryContent {
    match content {
        Content::Hash { hash, fingerprint } => EntryContent::File {
            executable: fingerprint.is_executable(),
            size: fingerprint.size,
            hash,
            number,
            lines,
        },
        Content::Gone => EntryContent::Moved,
        Content::Unreadable => EntryContent::Unreadable(None),
        // A cancelled pass yields no digest.
        Content::Unstable | Content::Cancelled => EntryContent::Unstable,
    }
}

/// Returns a number that tells the states of a file apart.
fn identity(kind: u8, hash: &blake3::Hash) -> u64 {
    let [a, b, c, d, e, f, g, h, ..] = *hash.as_bytes();
    u64::from_le_bytes([a, b, c, d, e, f, g, h]) ^ u64::from(kind)
}

/// Returns what stands for the content of an entry that cannot be read: all that would change with it.
fn stand_in(fingerprint: Option<FileFingerprint>) -> Vec<u8> {
    fingerprint.map_or_else(Vec::new, |fingerprint| {
        let mut bytes = fingerprint.size.to_le_bytes().to_vec();
        bytes.extend_from_slice(&fingerprint.ino.to_le_bytes());
        bytes.extend_from_slice(&fingerprint.ctime.to_le_bytes());
        bytes
    })
}

/// Whether one of these is this path or a folder above it.
fn is_beneath(paths: &HashSet<Box<[u8]>>, path: &[u8]) -> bool {
    let slashes = path.iter().enumerate().filter(|(_, byte)| **byte == b'/');
    let mut above = slashes.filter_map(|(at, _)| path.get(..at));
    // The cache of a tool stands for the data of that tool only.
    let covers = |folder: &[u8]| {
        !is_cache(last_name(folder)) || is_cached(Path::new(OsStr::from_bytes(path)))
    };
    paths.contains(path) || above.any(|folder| paths.contains(folder) && covers(folder))
}

/// Returns the last name of the path of a folder.
fn last_name(folder: &[u8]) -> &OsStr {
    let folder = folder.strip_suffix(b"/").unwrap_or(folder);
    OsStr::from_bytes(folder.rsplit(|byte| *byte == b'/').next().unwrap_or(folder))
}

/// Whether there is a repository in a folder.
fn is_repository(folder: BorrowedFd<'_>) -> bool {
    REPOSITORY.iter().all(|path| FileFingerprint::from_name(folder, path).is_ok())
}

/// Whether the folder is marked as one in which a tool keeps what it can make again.
fn is_tagged(folder: BorrowedFd<'_>) -> bool {
    let Ok(file) = safe_fs::open_file_at(folder, CACHE_TAG) else { return false };
    safe_fs::read_bounded(&file, LARGEST_TAG).is_ok_and(|bytes| bytes.starts_with(CACHE_SIGNATURE))
}

fn shown(path: &[u8]) -> String {
    let path = Path::new(OsStr::from_bytes(path)).display().to_string();
    if path.is_empty() { ".".into() } else { path }
}
