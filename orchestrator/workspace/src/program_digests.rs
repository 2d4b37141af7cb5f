//! The digests of programs.

use std::collections::HashMap;
use std::io;
use std::path::{Path, PathBuf};

use ralph_orchestrator_safe_fs::{self as safe_fs, FileFingerprint, escape};
use rustix::fs::FileType;

/// Of a larger program, in bytes, only the metadata counts.
const LARGEST_PROGRAM: u64 = 1024 * 1024 * 1024;
const BUFFER: usize = 256 * 1024;

/// Digests of programs, each read once as long as nothing touches it.
#[derive(Debug, Default)]
pub struct ProgramDigests(HashMap<PathBuf, (FileFingerprint, String)>);

impl ProgramDigests {
    /// Returns where a path leads, over links, and the same of what is there.
    pub fn of_target(&mut self, path: &Path) -> String {
        match path.canonicalize() {
            Ok(real) => format!("{} {}", self.of(&real), escape(&real)),
            Err(error) => format!("missing: {}", error.kind()),
        }
    }

    /// Returns the BLAKE3 of a file that may be large, in hexadecimal, or why there is none.
    pub fn of(&mut self, path: &Path) -> String {
        let Ok(now) = FileFingerprint::from_path(path) else { return "missing".to_owned() };
        if let Some((seen, digest)) = self.0.get(path)
            && *seen == now
        {
            return digest.clone();
        }
        let started = safe_fs::wall_clock();
        let digest = hash(path, &now).unwrap_or_else(|error| format!("unreadable: {error}"));
        if now.is_trusted(started) {
            self.0.insert(path.to_owned(), (now, digest.clone()));
        }
        digest
    }
}

fn hash(path: &Path, now: &FileFingerprint) -> io::Result<String> {
    if now.file_type() != FileType::RegularFile {
        return Ok("no regular file".to_owned());
    }
    if now.size > LARGEST_PROGRAM {
        return Ok(format!("inode {} of {} bytes, changed {}", now.ino, now.size, now.ctime));
    }
    let file = safe_fs::open_file(path)?;
    let mut hasher = blake3::Hasher::new();
    let mut buffer = vec![0; BUFFER];
    let mut left = LARGEST_PROGRAM;
    loop {
        let count = rustix::io::retry_on_intr(|| rustix::io::read(&file, &mut buffer))?;
        let Some(part) = buffer.get(..count).filter(|part| !part.is_empty()) else { break };
        hasher.update(part);
        left = left.saturating_sub(u64::try_from(count).unwrap_or(u64::MAX));
        if left == 0 {
            break;
        }
    }
    Ok(hasher.finalize().to_hex().to_string())
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn a_program_is_read_again_only_when_it_was_touched() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("program");
        let mut digests = ProgramDigests::default();
        assert_eq!(digests.of(&path), "missing");
        fs::write(&path, "one").unwrap();
        let first = digests.of(&path);
        assert_eq!(first, blake3::hash(b"one").to_hex().to_string());
        assert_eq!(digests.of(&path), first);
        fs::write(&path, "two").unwrap();
        assert_ne!(digests.of(&path), first);
        assert_eq!(digests.of(folder.path()), "no regular file");
    }
}
