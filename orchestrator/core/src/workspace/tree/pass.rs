//! One pass over the workspace.

use std::collections::hash_map::RandomState;
use std::collections::{BTreeMap, HashSet};
use std::ffi::OsStr;
use std::hash::{BuildHasher as _, DefaultHasher, Hasher as _};
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};

use rustix::fd::BorrowedFd;
use rustix::fs::FileType;
use rustix::io::Errno;

use super::inventory::Inventory;
use super::snapshot::{EntryDigest, entry_digest};
use super::view::{Inside, Seen, View};
use super::{TreeDigest, TreeState};
use crate::workspace::at::{self, Lister, Name, Stamp};
use crate::workspace::content::{Content, FileHasher, never_again};
use crate::workspace::folder::{Closed, Subfolder, Visitor};
use crate::workspace::lines::LineDigests;
use crate::workspace::rules::{Compiled, RULE_FILE};

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
/// Where Python keeps compiled bytecode.
const BYTECODE: &[u8] = b"__pycache__";

/// The caller wants no more.
pub(super) struct Cancelled;

/// What an entry amounts to.
enum Item {
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
    Unreadable(Option<Stamp>),
    Unstable,
    /// It vanished, or became something else, since the folder was listed.
    Moved,
}

/// What is found in a folder: each name with what it amounts to, and the subfolders to enter.
type Found = (Vec<(Vec<u8>, Item)>, Vec<Subfolder<Inside>>);

/// Digests of entries by their paths.
pub(super) type Entries = BTreeMap<Box<[u8]>, EntryDigest>;

pub(super) struct Pass<'a> {
    view: View,
    hasher: &'a mut FileHasher,
    inventory: &'a mut Inventory,
    numbers: &'a RandomState,
    entries: Option<&'a mut Entries>,
    artefacts: &'a HashSet<Box<[u8]>>,
    /// Of all but artefacts, if there are any.
    work: Option<blake3::Hasher>,
    lister: Lister,
    digest: blake3::Hasher,
    batch: Vec<u8>,
    files: u64,
    bytes: u64,
    unreadable: Vec<PathBuf>,
    unreadable_more: u64,
    stable: bool,
    notes: Vec<String>,
}

impl<'a> Pass<'a> {
    pub(super) fn new(
        view: View,
        (hasher, inventory): (&'a mut FileHasher, &'a mut Inventory),
        numbers: &'a RandomState,
        entries: Option<&'a mut Entries>,
        artefacts: &'a HashSet<Box<[u8]>>,
        notes: Vec<String>,
    ) -> Self {
        Self {
            view,
            hasher,
            inventory,
            numbers,
            entries,
            artefacts,
            work: (!artefacts.is_empty()).then(|| blake3::Hasher::new_derive_key(CONTEXT)),
            lister: Lister::new(),
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

    pub(super) fn finish(mut self) -> (TreeState, Compiled) {
        self.digest.update(&self.batch);
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
        (state, self.view.rules.into_compiled())
    }

    fn note(&mut self, note: String) {
        if self.notes.len() < NOTES {
            self.notes.push(note);
        }
    }

    /// Looks at all entries of a folder, with the rules in it in force.
    fn look(
        &mut self,
        folder: BorrowedFd<'_>,
        path: &[u8],
        inside: Inside,
    ) -> Result<(Found, bool), Errno> {
        let (names, _) = self.lister.list(folder, usize::MAX)?;
        let tagged = |name: &Name| name.bytes == CACHE_TAG && !path.is_empty() && is_tagged(folder);
        let inside = Inside { ignored: inside.ignored || names.iter().any(tagged) };
        let mut items = Vec::with_capacity(names.len());
        let mut subfolders = Vec::new();
        let mut whole = path.to_vec();
        let mut moved = false;
        for Name { bytes: name, kind } in names {
            if self.hasher.cancelled() {
                // The caller sees that, too.
                break;
            }
            whole.truncate(path.len());
            whole.extend_from_slice(&name);
            let mut stamp = None;
            let mut kind = kind;
            if kind == FileType::Unknown {
                let Ok(now) = Stamp::at(folder, &name) else {
                    moved = true;
                    continue;
                };
                kind = now.kind();
                stamp = Some(now);
            }
            let is_folder = kind == FileType::Directory;
            match self.view.sees(&whole, &name, is_folder, inside) {
                Seen::Not => {}
                Seen::Through => subfolders.push((name, Inside { ignored: true })),
                Seen::Counts if is_folder => {
                    let ignored = name == BYTECODE;
                    subfolders.push((name, Inside { ignored }));
                }
                Seen::Counts => {
                    let item = self.item(folder, &name, &whole, stamp);
                    moved |= matches!(item, Item::Moved);
                    items.push((name, item));
                }
            }
        }
        Ok(((items, subfolders), moved))
    }

    fn item(
        &mut self,
        folder: BorrowedFd<'_>,
        name: &[u8],
        path: &[u8],
        stamp: Option<Stamp>,
    ) -> Item {
        let stamp = match stamp.map_or_else(|| Stamp::at(folder, name), Ok) {
            Ok(stamp) => stamp,
            Err(Errno::NOENT) => return Item::Moved,
            Err(_) => return Item::Unreadable(None),
        };
        match stamp.kind() {
            FileType::RegularFile => {
                let number = self.numbers.hash_one(path);
                match self.hasher.hash(folder, name, number, stamp) {
                    Content::Hash { hash, stamp } => Item::File {
                        executable: stamp.executable(),
                        size: stamp.size,
                        hash,
                        number,
                        lines: self.hasher.take_lines(),
                    },
                    Content::Gone => Item::Moved,
                    Content::Unreadable => Item::Unreadable(Some(stamp)),
                    // A cancelled pass yields no digest.
                    Content::Unstable | Content::Cancelled => Item::Unstable,
                }
            }
            FileType::Symlink => match at::read_link(folder, name) {
                Ok(target) => Item::Link(target),
                Err(Errno::NOENT | Errno::INVAL) => Item::Moved,
                Err(_) => Item::Unreadable(Some(stamp)),
            },
            FileType::Directory => Item::Moved,
            other => Item::Other(other.as_raw_mode()),
        }
    }

    /// Adds an entry to the digest.
    fn add(&mut self, path: &[u8], item: Item) {
        self.files += 1;
        match item {
            Item::File { executable, size, hash, number, lines } => {
                self.bytes += size;
                let kind = if executable { b'x' } else { b'f' };
                self.record(kind, path, hash.as_bytes());
                self.inventory.note(path, number, identity(kind, &hash), lines);
            }
            Item::Link(target) => self.record_other(b'l', path, &target),
            Item::Other(kind) => self.record_other(b'o', path, &kind.to_le_bytes()),
            Item::Unreadable(stamp) => {
                self.cannot_read(path);
                self.record_other(b'u', path, &stand_in(stamp));
            }
            Item::Unstable | Item::Moved => {
                self.stable = false;
                self.note(format!("{}: kept changing while it was read", shown(path)));
                self.record_other(b'?', path, never_again().as_bytes());
            }
        }
    }

    /// Records what is no regular file that could be read.
    fn record_other(&mut self, kind: u8, path: &[u8], payload: &[u8]) {
        self.record(kind, path, payload);
        let mut identity = DefaultHasher::new();
        identity.write_u8(kind);
        identity.write(payload);
        let number = self.numbers.hash_one(path);
        self.inventory.note(path, number, identity.finish(), None);
    }

    fn record(&mut self, kind: u8, path: &[u8], payload: &[u8]) {
        if let Some(entries) = &mut self.entries {
            entries.insert(path.into(), entry_digest(kind, payload));
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

impl Visitor for Pass<'_> {
    type State = Inside;
    type Stop = Cancelled;

    fn folder(
        &mut self,
        folder: BorrowedFd<'_>,
        path: &[u8],
        inside: &Inside,
    ) -> Result<Vec<Subfolder<Inside>>, Cancelled> {
        let mut whole = path.to_vec();
        for attempt in 1..=ATTEMPTS {
            self.view.rules.leave(path.len());
            if !inside.ignored
                && let Some(error) = self.view.rules.enter(folder, path.len())
            {
                self.note(format!("{}{}: not used: {error}", shown(path), shown(RULE_FILE)));
            }
            let looked = self.look(folder, path, *inside);
            if self.hasher.cancelled() {
                return Err(Cancelled);
            }
            match looked {
                Ok((_, true)) if attempt < ATTEMPTS => {}
                Ok(((items, subfolders), moved)) => {
                    for (name, item) in items {
                        whole.truncate(path.len());
                        whole.extend_from_slice(&name);
                        self.add(&whole, item);
                    }
                    if moved {
                        self.add(path, Item::Unstable);
                    }
                    return Ok(subfolders);
                }
                Err(_) => {
                    let path = path.strip_suffix(b"/").unwrap_or(path);
                    self.add(path, Item::Unreadable(Stamp::of(folder).ok()));
                    break;
                }
            }
        }
        Ok(Vec::new())
    }

    fn leave(&mut self, path_len: usize) {
        self.view.rules.leave(path_len);
    }

    fn closed(&mut self, path: &[u8], why: Closed, stamp: Option<Stamp>) {
        match why {
            Closed::Gone => self.add(path, Item::Unstable),
            Closed::Unreadable => self.add(path, Item::Unreadable(stamp)),
            Closed::TooDeep => {
                self.note(format!("{}: too deep to look into", shown(path)));
                self.add(path, Item::Unreadable(stamp));
            }
        }
    }
}

/// What tells the states of a file apart.
fn identity(kind: u8, hash: &blake3::Hash) -> u64 {
    let [a, b, c, d, e, f, g, h, ..] = *hash.as_bytes();
    u64::from_le_bytes([a, b, c, d, e, f, g, h]) ^ u64::from(kind)
}

/// What stands for the content of an entry that cannot be read: all that would change with it.
fn stand_in(stamp: Option<Stamp>) -> Vec<u8> {
    stamp.map_or_else(Vec::new, |stamp| {
        let mut bytes = stamp.size.to_le_bytes().to_vec();
        bytes.extend_from_slice(&stamp.ino.to_le_bytes());
        bytes.extend_from_slice(&stamp.ctime.to_le_bytes());
        bytes
    })
}

/// Whether one of these is this path or a folder above it.
fn is_beneath(paths: &HashSet<Box<[u8]>>, path: &[u8]) -> bool {
    let slashes = path.iter().enumerate().filter(|(_, byte)| **byte == b'/');
    let mut above = slashes.filter_map(|(at, _)| path.get(..at));
    paths.contains(path) || above.any(|folder| paths.contains(folder))
}

/// Whether the folder is marked as one in which a tool keeps what it can make again.
fn is_tagged(folder: BorrowedFd<'_>) -> bool {
    let Ok(file) = at::open_file(folder, CACHE_TAG) else { return false };
    at::read_bounded(&file, LARGEST_TAG).is_ok_and(|bytes| bytes.starts_with(CACHE_SIGNATURE))
}

fn shown(path: &[u8]) -> String {
    let path = Path::new(OsStr::from_bytes(path)).display().to_string();
    if path.is_empty() { ".".into() } else { path }
}
