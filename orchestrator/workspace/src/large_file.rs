//! The digest of a large file, in which zeros are counted and holes are not read.
//!
//! A file of terabytes can be made in no time, of nothing but a hole. Its digest must not take longer
//! than its data are worth. So the content of a large file is taken apart into blocks: those that are all
//! zeros, whether they are holes or were written, are told by where they lie; all others by their bytes.
//! Both together with the size say what the content is, and the same content has the same digest, with
//! holes or without.

use ralph_orchestrator_safe_fs::find_data;
use rustix::fd::{AsFd as _, BorrowedFd, OwnedFd};
use rustix::io::Errno;

/// Files that are larger, in bytes, have this digest. Those up to here have the plain BLAKE3 of their
/// content, which evidence of any size that is accepted is named by.
pub(super) const LARGE: u64 = 64 * 1024 * 1024;
/// Blocks begin at multiples of this. No file system has smaller pages that it can leave out.
const BLOCK: u64 = 4096;
const ZEROS: [u8; 4096] = [0; 4096];
/// What the digest is of; another number for another composition.
const CONTEXT: &str = "ralph-orchestrator content of a large file, version 1";

/// The digest in the making.
#[derive(Debug)]
struct LargeDigest {
    at: u64,
    /// Where the zeros began that were seen last.
    zeros_since: Option<u64>,
    data: blake3::Hasher,
    zeros: blake3::Hasher,
}

impl LargeDigest {
    fn new() -> Self {
        Self { at: 0, zeros_since: None, data: blake3::Hasher::new(), zeros: blake3::Hasher::new() }
    }

    fn zeros(&mut self, count: u64) {
        if count > 0 {
            self.zeros_since.get_or_insert(self.at);
            self.at = self.at.saturating_add(count);
        }
    }

    fn end_zeros(&mut self) {
        if let Some(since) = self.zeros_since.take() {
            self.zeros.update(&since.to_le_bytes());
            self.zeros.update(&self.at.to_le_bytes());
        }
    }

    /// Bytes that begin at a block's begin.
    fn bytes(&mut self, bytes: &[u8]) {
        for block in bytes.chunks(ZEROS.len()) {
            let count = u64::try_from(block.len()).unwrap_or(u64::MAX);
            if ZEROS.get(..block.len()) == Some(block) {
                self.zeros(count);
            } else {
                self.end_zeros();
                self.data.update(block);
                self.at = self.at.saturating_add(count);
            }
        }
    }

    fn finish(mut self) -> blake3::Hash {
        self.end_zeros();
        let mut whole = blake3::Hasher::new_derive_key(CONTEXT);
        whole.update(&self.at.to_le_bytes());
        whole.update(self.data.finalize().as_bytes());
        whole.update(self.zeros.finalize().as_bytes());
        whole.finalize()
    }
}

/// Returns the digest of a file of this size; `None` if it became shorter, or on cancellation.
pub(super) fn digest(
    fd: &OwnedFd,
    size: u64,
    buffer: &mut [u8],
    cancelled: impl Fn() -> bool,
) -> Result<Option<blake3::Hash>, Errno> {
    let mut digest = LargeDigest::new();
    while digest.at < size {
        let (data, hole) = next_data(fd.as_fd(), digest.at, size)?;
        digest.zeros(data - digest.at);
        while digest.at < hole {
            if cancelled() {
                return Ok(None);
            }
            let want = usize::try_from(hole - digest.at).unwrap_or(usize::MAX).min(buffer.len());
            let Some(piece) = buffer.get_mut(..want) else { return Ok(None) };
            if !read_exactly(fd.as_fd(), digest.at, piece)? {
                return Ok(None);
            }
            digest.bytes(piece);
        }
        if cancelled() {
            return Ok(None);
        }
    }
    Ok(Some(digest.finish()))
}

/// Returns where from `at` on the next data begin and end, in whole blocks but for the file's end.
fn next_data(fd: BorrowedFd<'_>, at: u64, size: u64) -> Result<(u64, u64), Errno> {
    let Some((data, hole)) = find_data(fd, at, size)? else { return Ok((size, size)) };
    let begin = (data - data % BLOCK).max(at);
    Ok((begin, hole.next_multiple_of(BLOCK).min(size)))
}

/// Fills the buffer from there; false if the file ends before.
fn read_exactly(fd: BorrowedFd<'_>, mut at: u64, mut buffer: &mut [u8]) -> Result<bool, Errno> {
    while !buffer.is_empty() {
        let count = rustix::io::retry_on_intr(|| rustix::io::pread(fd, &mut *buffer, at))?;
        if count == 0 {
            return Ok(false);
        }
        at = at.saturating_add(u64::try_from(count).unwrap_or(u64::MAX));
        buffer = buffer.get_mut(count..).unwrap_or_default();
    }
    Ok(true)
}

#[cfg(test)]
mod tests {
    use std::fs::File;
    use std::os::unix::fs::FileExt as _;

    use proptest::prelude::*;

    use super::*;

    fn of(file: &File) -> blake3::Hash {
        let fd = file.try_clone().unwrap().into();
        let size = file.metadata().unwrap().len();
        digest(&fd, size, &mut [0; 16 * 1024], || false).unwrap().unwrap()
    }

    /// A file with these pieces in a hole of `size`, and the same without holes.
    fn both(size: u64, pieces: &[(u64, Vec<u8>)]) -> (blake3::Hash, blake3::Hash, Vec<u8>) {
        let sparse = tempfile::tempfile().unwrap();
        sparse.set_len(size).unwrap();
        let mut whole = vec![0; usize::try_from(size).unwrap()];
        for (at, bytes) in pieces {
            sparse.write_all_at(bytes, *at).unwrap();
            let at = usize::try_from(*at).unwrap();
            whole[at..at + bytes.len()].copy_from_slice(bytes);
        }
        let full = tempfile::tempfile().unwrap();
        full.write_all_at(&whole, 0).unwrap();
        (of(&sparse), of(&full), whole)
    }

    #[test]
    fn terabytes_of_nothing_are_read_in_no_time() {
        let file = tempfile::tempfile().unwrap();
        let mut seen = std::collections::HashSet::new();
        for terabytes in [1_u64, 8] {
            file.set_len(terabytes << 40).unwrap();
            assert!(seen.insert(of(&file)), "the size counts");
        }
        file.write_all_at(b"x", 5 << 40).unwrap();
        assert!(seen.insert(of(&file)), "a byte in the middle counts");
        file.write_all_at(b"\0", 5 << 40).unwrap();
        assert!(!seen.insert(of(&file)), "zeros that were written are zeros");
    }

    #[test]
    fn a_file_that_becomes_shorter_and_one_that_nobody_wants_have_no_digest() {
        let file = tempfile::tempfile().unwrap();
        file.write_all_at(&[7; 10_000], 0).unwrap();
        let fd: OwnedFd = file.try_clone().unwrap().into();
        assert_eq!(digest(&fd, 10_001, &mut [0; 4096], || false), Ok(None));
        assert_eq!(digest(&fd, 10_000, &mut [0; 4096], || true), Ok(None));
        assert!(digest(&fd, 10_000, &mut [0; 4096], || false).unwrap().is_some());
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]

        #[test]
        fn the_same_content_has_the_same_digest_with_holes_or_without_and_no_other(
            size in 60_000_u64..70_000,
            pieces in prop::collection::vec((0_u64..50_000, prop::collection::vec(0_u8..3, 1..9_000)), 0..4),
            at in 0_usize..60_000,
        ) {
            let (sparse, full, mut whole) = both(size, &pieces);
            prop_assert_eq!(sparse, full);
            whole[at] = whole[at].wrapping_add(1);
            let other = tempfile::tempfile().unwrap();
            other.write_all_at(&whole, 0).unwrap();
            prop_assert_ne!(of(&other), full);
            other.set_len(size - 1).unwrap();
            whole[at] = whole[at].wrapping_sub(1);
            other.write_all_at(&whole[..whole.len() - 1], 0).unwrap();
            prop_assert_ne!(of(&other), full);
        }
    }
}
