//! What the passes over a workspace have met, and what has become of it since a given time.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::ffi::OsStr;
use std::hash::{BuildHasherDefault, Hasher};
use std::os::unix::ffi::OsStrExt as _;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use similar::{Algorithm, DiffOp, capture_diff_slices_deadline};

use crate::line_digests::LineDigests;

/// Digests of lines that are kept, in all files together: 16 MiB. Of further files it is only known
/// that they changed.
const MOST_LINES: usize = 4 * 1024 * 1024;
/// How long it may take to compare the lines of all changed files.
const COMPARISON: Duration = Duration::from_millis(50);

/// What became of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum FileChangeKind {
    /// It is new.
    Added,
    /// Its content, kind or mode is another.
    Modified,
    /// It is gone.
    Removed,
}

/// A file that is not as it was.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PathChange {
    /// Relative to the workspace.
    pub path: PathBuf,
    /// What became of it.
    pub change: FileChangeKind,
    /// Lines added and removed; `None` if it is no text, or too large.
    pub lines: Option<(u64, u64)>,
}

/// Everything that is not as it was, sorted by path.
pub type TreeChanges = Vec<PathChange>;

/// One state of a file.
#[derive(Debug)]
struct Version {
    identity: u64,
    lines: Option<LineDigests>,
}

#[derive(Debug)]
struct Known {
    path: Box<[u8]>,
    version: Version,
    /// The pass that last met it.
    pass: u64,
}

/// Takes the number of a path, which is a digest already, for its hash.
#[derive(Debug, Default)]
struct IdentityHasher(u64);

impl Hasher for IdentityHasher {
    fn write(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.0 = self.0.rotate_left(8) ^ u64::from(*byte);
        }
    }

    fn write_u64(&mut self, number: u64) {
        self.0 = number;
    }

    fn finish(&self) -> u64 {
        self.0
    }
}

type ByNumber<T> = HashMap<u64, T, BuildHasherDefault<IdentityHasher>>;

/// The files of a workspace by the numbers of their paths. What has not changed costs one look-up.
#[derive(Debug, Default)]
pub(super) struct Inventory {
    files: ByNumber<Known>,
    pass: u64,
    /// How many of the files this pass has met.
    met: usize,
    /// A pass has come to its end.
    is_complete: bool,
    /// There is a time that changes are counted from.
    is_marked: bool,
    /// Files that became other than they were at that time, and how they were; `None` if not there.
    before: ByNumber<(Box<[u8]>, Option<Version>)>,
    /// Digests of lines that are kept.
    lines: usize,
}

impl Inventory {
    /// Begins a pass.
    pub(super) const fn begin(&mut self) {
        self.pass += 1;
        self.met = 0;
    }

    /// Makes room for so many entries.
    pub(super) fn reserve(&mut self, entries: usize) {
        self.files.reserve(entries);
    }

    /// Takes in the entry at `path`, which has this number; `identity` stands for all that tells its
    /// states apart.
    pub(super) fn note(
        &mut self,
        path: &[u8],
        number: u64,
        identity: u64,
        lines: Option<LineDigests>,
    ) {
        if let Some(known) = self.files.get_mut(&number) {
            self.met += usize::from(known.pass != self.pass);
            known.pass = self.pass;
            if known.version.identity == identity {
                return;
            }
        } else {
            self.met += 1;
        }
        let more = lines.as_ref().map_or(0, |lines| lines.len());
        let lines = lines.filter(|_| self.lines + more <= MOST_LINES);
        self.lines += lines.as_ref().map_or(0, |lines| lines.len());
        let version = Version { identity, lines };
        let known = Known { path: path.into(), version, pass: self.pass };
        let was = self.files.insert(number, known);
        self.changed(number, path, was.map(|was| was.version));
    }

    /// Ends a pass that has met everything: what it has not met is gone.
    pub(super) fn finish(&mut self) {
        if self.met < self.files.len() {
            let pass = self.pass;
            let gone: Vec<_> = self.files.extract_if(|_, known| known.pass != pass).collect();
            for (number, was) in gone {
                self.changed(number, &was.path, Some(was.version));
            }
        }
        self.is_complete = true;
    }

    fn changed(&mut self, number: u64, path: &[u8], was: Option<Version>) {
        if !self.is_marked {
            return self.forget(was);
        }
        match self.before.entry(number) {
            Entry::Vacant(place) => drop(place.insert((path.into(), was))),
            // Neither as it was at that time nor as it is now.
            Entry::Occupied(_) => self.forget(was),
        }
    }

    fn forget(&mut self, version: Option<Version>) {
        let lines = version.and_then(|version| version.lines);
        self.lines = self.lines.saturating_sub(lines.map_or(0, |lines| lines.len()));
    }

    /// From now on changes are counted from how everything was met last.
    pub(super) fn mark(&mut self) {
        for (_, version) in std::mem::take(&mut self.before).into_values() {
            self.forget(version);
        }
        self.is_marked = self.is_complete;
    }

    /// Returns what has changed since the last mark; `None` if there was none.
    pub(super) fn changes(&self) -> Option<TreeChanges> {
        if !self.is_marked {
            return None;
        }
        let deadline = Instant::now() + COMPARISON;
        let mut changes: TreeChanges = self
            .before
            .iter()
            .filter_map(|(number, (path, before))| {
                let now = self.files.get(number).map(|known| &known.version);
                compare(path, before.as_ref(), now, deadline)
            })
            .collect();
        changes.sort_unstable_by(|one, other| one.path.cmp(&other.path));
        Some(changes)
    }
}

fn compare(
    path: &[u8],
    before: Option<&Version>,
    now: Option<&Version>,
    deadline: Instant,
) -> Option<PathChange> {
    let nothing: &[u32] = &[];
    let of = |version: &Version| version.lines.clone();
    let (change, old, new) = match (before, now) {
        (None, None) => return None,
        (Some(before), Some(now)) if before.identity == now.identity => return None,
        (None, Some(now)) => (FileChangeKind::Added, Some(nothing.into()), of(now)),
        (Some(before), None) => (FileChangeKind::Removed, of(before), Some(nothing.into())),
        (Some(before), Some(now)) => (FileChangeKind::Modified, of(before), of(now)),
    };
    let lines = old.zip(new).and_then(|(old, new)| count(&old, &new, deadline));
    let path = PathBuf::from(OsStr::from_bytes(path));
    Some(PathChange { path, change, lines })
}

/// Lines added and removed; `None` if there was no time to find out.
fn count(old: &[u32], new: &[u32], deadline: Instant) -> Option<(u64, u64)> {
    let size = |count: usize| u64::try_from(count).unwrap_or(u64::MAX);
    if old.is_empty() || new.is_empty() {
        return Some((size(new.len()), size(old.len())));
    }
    let ops = capture_diff_slices_deadline(Algorithm::Myers, old, new, Some(deadline));
    // Once there is no time left it takes for changed what it has not compared.
    if Instant::now() >= deadline {
        return None;
    }
    let sum = ops.iter().fold((0, 0), |(added, removed), op| match op {
        DiffOp::Equal { .. } => (added, removed),
        DiffOp::Delete { old_len, .. } => (added, removed + old_len),
        DiffOp::Insert { new_len, .. } => (added + new_len, removed),
        DiffOp::Replace { old_len, new_len, .. } => (added + new_len, removed + old_len),
    });
    Some((size(sum.0), size(sum.1)))
}
