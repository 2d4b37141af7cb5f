//! Reads names, and what is said of them, out of git's index file, versions 2, 3 and 4, with SHA-1 or SHA-256.
//!
//! The format is described in git's `Documentation/gitformat-index.txt`. The file belongs to the
//! agent, so nothing in it is believed: whatever does not add up to the last byte is an error.

use std::ops::Range;

use serde::{Deserialize, Serialize};

/// The longest path believed, in bytes.
const MAX_NAME: usize = 4096;
/// The most that all paths together may take, in bytes.
const MAX_NAMES: usize = 512 * 1024 * 1024;
/// The fixed part of an entry, before the object id: times, numbers, mode and size.
const STAT_BYTES: usize = 40;
/// Bytes of a SHA-1 and of a SHA-256 object id.
const ID_BYTES: [usize; 2] = [20, 32];
/// In an entry's flags: two more bytes of flags follow.
const EXTENDED: u16 = 0x4000;
/// In an entry's flags: the length of its name, or all ones if that does not fit.
const NAME_LENGTH: u16 = 0x0fff;

/// In an entry's flags: git takes it for unchanged.
const ASSUME_VALID: u16 = 0x8000;
/// In an entry's further flags: git takes it for unchanged, and need not write it.
const SKIP_WORKTREE: u16 = 0x4000;
/// Where in an entry its mode is, in bytes.
const MODE_AT: usize = 24;
/// The mode of a submodule.
const SUBMODULE: u32 = 0o160_000;

/// Has git take a tracked file for unchanged, whatever it holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum IndexMark {
    /// `git update-index --assume-unchanged`.
    AssumeUnchanged,
    /// `git update-index --skip-worktree`, as sparse checkouts do.
    SkipWorktree,
}

/// Why the index says nothing about what git tracks.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum IndexError {
    /// It could not be read.
    #[error("it cannot be read: {0}")]
    Read(String),
    /// It is one of git's formats that is not read here.
    #[error("it is a {0}, which is not read here")]
    Unsupported(&'static str),
    /// It is no index.
    #[error("it is damaged")]
    Damaged,
}

/// The paths that git tracks, sorted.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Tracked {
    text: Vec<u8>,
    names: Vec<Range<usize>>,
    /// Those that git takes for unchanged.
    marked: Vec<(Range<usize>, IndexMark)>,
    submodules: Vec<Range<usize>>,
}

impl Tracked {
    /// Reads an index file's bytes.
    pub(crate) fn parse(bytes: &[u8]) -> Result<Self, IndexError> {
        let mut result = Err(IndexError::Damaged);
        // Which hash the repository uses is written in its configuration, not here. Read with the
        // wrong one, names and lengths cannot match to the end.
        for id_bytes in ID_BYTES {
            result = Reader { rest: bytes }.index(id_bytes);
            if !matches!(result, Err(IndexError::Damaged)) {
                break;
            }
        }
        let mut tracked = result?;
        let Self { text, names, .. } = &mut tracked;
        names.sort_unstable_by(|a, b| text.get(a.clone()).cmp(&text.get(b.clone())));
        names.dedup_by(|a, b| text.get(a.clone()) == text.get(b.clone()));
        Ok(tracked)
    }

    /// Returns how many paths there are.
    #[cfg(test)]
    pub(crate) fn len(&self) -> usize {
        self.names.len()
    }

    /// Returns all paths.
    #[cfg(test)]
    pub(crate) fn iter(&self) -> impl Iterator<Item = &[u8]> {
        self.names.iter().map(|range| self.name(range))
    }

    fn name(&self, range: &Range<usize>) -> &[u8] {
        self.text.get(range.clone()).unwrap_or_default()
    }

    /// Returns the paths that git takes for unchanged, with why.
    pub(crate) fn marked(&self) -> impl Iterator<Item = (&[u8], IndexMark)> {
        self.marked.iter().map(|(range, mark)| (self.name(range), *mark))
    }

    /// Returns the paths of submodules.
    pub(crate) fn submodules(&self) -> impl Iterator<Item = &[u8]> {
        self.submodules.iter().map(|range| self.name(range))
    }

    /// Whether git tracks this very path.
    pub(crate) fn has(&self, path: &[u8]) -> bool {
        self.names.binary_search_by(|range| self.name(range).cmp(path)).is_ok()
    }

    /// Returns the paths beneath this one, which ends in `/` or is empty, without it.
    pub(crate) fn beneath(&self, path: &[u8]) -> Vec<&[u8]> {
        let first = self.names.partition_point(|range| self.name(range) < path);
        let names = self.names.get(first..).unwrap_or_default().iter();
        names.map_while(|range| self.name(range).strip_prefix(path)).collect()
    }

    /// Whether git tracks anything beneath this path, which ends in `/`.
    pub(crate) fn has_beneath(&self, path: &[u8]) -> bool {
        let first = self.names.partition_point(|range| self.name(range) < path);
        self.names.get(first).is_some_and(|range| self.name(range).starts_with(path))
    }

    fn add(&mut self, name: &[u8], kind: &EntryKind) -> Result<(), IndexError> {
        let start = self.text.len();
        if start + name.len() > MAX_NAMES {
            return Err(IndexError::Damaged);
        }
        self.text.extend_from_slice(name);
        let name = start..self.text.len();
        self.marked.extend(kind.marks().map(|mark| (name.clone(), mark)));
        self.submodules.extend(Some(name.clone()).filter(|_| kind.mode == SUBMODULE));
        self.names.push(name);
        Ok(())
    }
}

/// What an entry says of its path.
struct EntryKind {
    mode: u32,
    flags: u16,
    further: u16,
}

impl EntryKind {
    fn marks(&self) -> impl Iterator<Item = IndexMark> {
        let marks = [
            (self.flags & ASSUME_VALID, IndexMark::AssumeUnchanged),
            (self.further & SKIP_WORKTREE, IndexMark::SkipWorktree),
        ];
        marks.into_iter().filter(|(bit, _)| *bit != 0).map(|(_, mark)| mark)
    }
}

/// Takes an index apart from its beginning.
struct Reader<'a> {
    rest: &'a [u8],
}

impl<'a> Reader<'a> {
    fn index(mut self, id_bytes: usize) -> Result<Tracked, IndexError> {
        if self.take(4)? != b"DIRC" {
            return Err(IndexError::Damaged);
        }
        let version = self.number()?;
        let count = self.number()?;
        if !(2..=4).contains(&version) {
            return Err(IndexError::Unsupported("version other than 2, 3 or 4"));
        }
        let mut tracked = Tracked::default();
        let mut name = Vec::new();
        let mut nameless = false;
        for _ in 0..count {
            let kind = self.entry(version, id_bytes, &mut name)?;
            match name.strip_suffix(b"/").unwrap_or(&name) {
                [] => nameless = true,
                name => tracked.add(name, &kind)?,
            }
        }
        self.extensions(id_bytes)?;
        // Only a split index, which its extension tells, has entries without a name.
        if nameless { Err(IndexError::Damaged) } else { Ok(tracked) }
    }

    /// Reads an entry; `name` is the one of the entry before and becomes this one's.
    fn entry(
        &mut self,
        version: u32,
        id_bytes: usize,
        name: &mut Vec<u8>,
    ) -> Result<EntryKind, IndexError> {
        let before = self.rest.len();
        let numbers = self.take(STAT_BYTES + id_bytes)?;
        let mode = numbers.get(MODE_AT..).and_then(|mode| mode.first_chunk());
        let mode = mode.map_or(0, |mode| u32::from_be_bytes(*mode));
        let flags = self.short()?;
        let mut further = 0;
        if flags & EXTENDED != 0 {
            if version < 3 {
                return Err(IndexError::Damaged);
            }
            further = self.short()?;
        }
        if version == 4 {
            let cut = self.offset()?;
            let kept = name.len().checked_sub(cut).ok_or(IndexError::Damaged)?;
            name.truncate(kept);
        } else {
            name.clear();
        }
        let end = memchr::memchr(0, self.rest).ok_or(IndexError::Damaged)?;
        name.extend_from_slice(self.take(end)?);
        let length = flags & NAME_LENGTH;
        let fits = usize::from(length) == name.len();
        if name.len() > MAX_NAME || !(fits || length == NAME_LENGTH && name.len() > length.into()) {
            return Err(IndexError::Damaged);
        }
        let padding = if version == 4 { 1 } else { 8 - (before - self.rest.len()) % 8 };
        if self.take(padding)?.iter().any(|byte| *byte != 0) {
            return Err(IndexError::Damaged);
        }
        Ok(EntryKind { mode, flags, further })
    }

    /// Reads up to the hash of the whole file, which has to be all that is left.
    fn extensions(&mut self, id_bytes: usize) -> Result<(), IndexError> {
        while self.rest.len() > id_bytes {
            let signature = self.take(4)?;
            let size = usize::try_from(self.number()?).map_err(|_| IndexError::Damaged)?;
            match signature {
                b"link" => return Err(IndexError::Unsupported("split index")),
                b"sdir" => {}
                // Git's rule: who does not know one that is not in capitals has to give up.
                [b'A'..=b'Z', ..] => {}
                _ => return Err(IndexError::Damaged),
            }
            self.take(size)?;
        }
        if self.rest.len() == id_bytes { Ok(()) } else { Err(IndexError::Damaged) }
    }

    fn take(&mut self, count: usize) -> Result<&'a [u8], IndexError> {
        let (taken, rest) = self.rest.split_at_checked(count).ok_or(IndexError::Damaged)?;
        self.rest = rest;
        Ok(taken)
    }

    fn array<const N: usize>(&mut self) -> Result<[u8; N], IndexError> {
        self.take(N)?.try_into().map_err(|_| IndexError::Damaged)
    }

    fn number(&mut self) -> Result<u32, IndexError> {
        self.array().map(u32::from_be_bytes)
    }

    fn short(&mut self) -> Result<u16, IndexError> {
        self.array().map(u16::from_be_bytes)
    }

    /// Reads git's number of variable length, as in packs' offset deltas.
    fn offset(&mut self) -> Result<usize, IndexError> {
        let mut value = 0_usize;
        loop {
            let [byte] = self.array()?;
            value |= usize::from(byte & 0x7f);
            if byte & 0x80 == 0 {
                return Ok(value);
            }
            value = value
                .checked_add(1)
                .and_then(|value| value.checked_mul(128))
                .filter(|value| *value <= MAX_NAME * 128)
                .ok_or(IndexError::Damaged)?;
        }
    }
}
