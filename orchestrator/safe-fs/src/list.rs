//! Lists open folders.

use std::ffi::CStr;
use std::mem::MaybeUninit;

use rustix::fd::BorrowedFd;
use rustix::fs::{FileType, RawDir, SeekFrom};
use rustix::io::Errno;

/// Bytes of the buffer into which the kernel lists a folder.
const BUFFER: usize = 64 * 1024;

/// A name in a folder.
#[derive(Debug)]
pub struct DirEntryName {
    /// The name.
    pub bytes: Vec<u8>,
    /// What the folder says it is; `Unknown` on file systems that do not keep it there.
    pub file_type: FileType,
}

/// Lists folders, with one buffer for all of them.
#[derive(Debug)]
pub struct DirLister {
    buffer: Box<[MaybeUninit<u8>]>,
}

impl Default for DirLister {
    fn default() -> Self {
        Self { buffer: Box::new_uninit_slice(BUFFER) }
    }
}

impl DirLister {
    /// Returns the names in a folder, sorted by their bytes, and whether there are more than `limit`,
    /// which then are left out.
    ///
    /// # Errors
    /// Returns the error of the system.
    pub fn list(
        &mut self,
        folder: BorrowedFd<'_>,
        limit: usize,
    ) -> Result<(Vec<DirEntryName>, bool), Errno> {
        rustix::fs::seek(folder, SeekFrom::Start(0))?;
        let mut names = Vec::new();
        let mut more = false;
        let mut raw = RawDir::new(folder, &mut self.buffer);
        while let Some(entry) = raw.next() {
            let entry = entry?;
            let name: &CStr = entry.file_name();
            let bytes = name.to_bytes();
            if bytes == b"." || bytes == b".." {
                continue;
            }
            if names.len() >= limit {
                more = true;
                break;
            }
            names.push(DirEntryName { bytes: bytes.to_vec(), file_type: entry.file_type() });
        }
        names.sort_unstable_by(|a, b| a.bytes.cmp(&b.bytes));
        Ok((names, more))
    }
}
