//! Copies what is in a file with its holes: a file of terabytes may hold next to nothing.

use std::fs::File;
use std::io::{self, Read as _, Seek as _, SeekFrom};
use std::os::unix::fs::MetadataExt as _;

use rustix::fd::AsFd;
use rustix::io::Errno;

/// What the size of a file on disk is counted in, in bytes.
const BLOCK: u64 = 512;

/// Copies what is in a file to one that was made for it.
///
/// # Errors
/// One of them cannot be read or written.
pub fn copy_data(from: &File, to: &File) -> io::Result<()> {
    let found = from.metadata()?;
    if found.blocks().saturating_mul(BLOCK) >= found.len() {
        return io::copy(&mut &*from, &mut &*to).map(drop);
    }
    copy_sparse(from, to, found.len())
}

/// Copies what is in a file into an empty one, at most `most` bytes. A file can be grown while it is copied: what lies
/// beyond is left out.
///
/// # Errors
/// Returns an error if one of the files cannot be read or written.
pub fn copy_sparse(from: &File, to: &File, most: u64) -> io::Result<()> {
    let size = from.metadata()?.len().min(most);
    let mut at = 0;
    while at < size {
        let Some((start, end)) = find_data(from, at, size)? else { break };
        let (mut reader, mut writer) = (from, to);
        reader.seek(SeekFrom::Start(start))?;
        writer.seek(SeekFrom::Start(start))?;
        io::copy(&mut reader.take(end.saturating_sub(start)), &mut writer)?;
        at = end;
    }
    // A hole at the end.
    to.set_len(size)
}

/// Returns where from `at` on the next data begin and end; none if only a hole is left. A file system that knows of no holes
/// has one piece of data.
///
/// # Errors
/// The file cannot be searched.
pub fn find_data(file: impl AsFd, at: u64, size: u64) -> Result<Option<(u64, u64)>, Errno> {
    let start = match rustix::fs::seek(&file, rustix::fs::SeekFrom::Data(at)) {
        Ok(start) => start,
        Err(Errno::NXIO) => return Ok(None),
        Err(Errno::INVAL | Errno::OPNOTSUPP) => return Ok(Some((at, size))),
        Err(error) => return Err(error),
    };
    if start >= size {
        return Ok(None);
    }
    let end = match rustix::fs::seek(&file, rustix::fs::SeekFrom::Hole(start)) {
        Ok(end) => end,
        Err(Errno::NXIO | Errno::INVAL | Errno::OPNOTSUPP) => size,
        Err(error) => return Err(error),
    };
    Ok(Some((start, end.clamp(start.saturating_add(1), size))))
}

#[cfg(test)]
mod tests {
    use std::fs::{self, OpenOptions};
    use std::os::unix::fs::FileExt as _;
    use std::path::Path;

    use proptest::prelude::*;

    use super::*;

    fn copy(from: &Path, to: &Path, most: u64) {
        let new = OpenOptions::new().write(true).create_new(true).open(to).unwrap();
        copy_sparse(&File::open(from).unwrap(), &new, most).unwrap();
    }

    #[test]
    fn a_hole_of_a_gigabyte_takes_no_blocks() {
        let temp = tempfile::tempdir().unwrap();
        let (from, to) = (temp.path().join("from"), temp.path().join("to"));
        let file = File::create_new(&from).unwrap();
        file.write_all_at(b"end", (1 << 30) - 3).unwrap();
        if file.metadata().unwrap().blocks() > 1000 {
            // A file system without holes has none to keep.
            return;
        }
        copy(&from, &to, 1 << 30);
        let found = fs::metadata(&to).unwrap();
        assert_eq!(found.len(), 1 << 30);
        assert!(found.blocks() <= file.metadata().unwrap().blocks() + 16, "{}", found.blocks());
        let mut end = [0; 3];
        File::open(&to).unwrap().read_exact_at(&mut end, (1 << 30) - 3).unwrap();
        assert_eq!(&end, b"end");
    }

    proptest! {
        #[test]
        fn a_copy_has_the_bytes_of_its_file_up_to_the_limit(
            pieces in proptest::collection::vec((0..300_000_u64, 1..9000_usize), 0..5),
            tail in 0..100_000_u64,
            most in 0..500_000_u64,
        ) {
            let temp = tempfile::tempdir().unwrap();
            let (from, to) = (temp.path().join("from"), temp.path().join("to"));
            let file = File::create_new(&from).unwrap();
            for (at, length) in &pieces {
                file.write_all_at(&vec![b'x'; *length], *at).unwrap();
            }
            let size = file.metadata().unwrap().len() + tail;
            file.set_len(size).unwrap();
            copy(&from, &to, most);
            let mut expected = fs::read(&from).unwrap();
            expected.truncate(usize::try_from(most).unwrap());
            prop_assert!(fs::read(&to).unwrap() == expected);
        }
    }
}
