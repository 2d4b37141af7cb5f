//! Finds the processes that have a file open for writing.

use std::fs;
use std::path::Path;

/// Where the system tells of processes and of what they have open.
const PROCESSES: &str = "/proc";
/// The bits of a descriptor's flags that say that it can be written through.
const WRITES: u32 = 0o3;

/// Whether anybody writes a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum OpenWriters {
    /// Somebody has it open for that.
    Some,
    /// Nobody has.
    None,
    /// Nobody of whom this process may know; another user might.
    NoneSeen,
    /// The system does not tell.
    Unknown,
}

/// Looks through all processes for one that has the file with this path, absolute and without links, open
/// to write it. Never touches the file, nor any other that a process has open.
pub(super) fn find_writers(path: &Path) -> OpenWriters {
    let Ok(processes) = fs::read_dir(PROCESSES) else { return OpenWriters::Unknown };
    let (mut any, mut hidden) = (false, false);
    for process in processes.flatten() {
        let is_process = process.file_name().as_encoded_bytes().iter().all(u8::is_ascii_digit);
        if !is_process {
            continue;
        }
        any = true;
        match has_open_for_writing(&process.path(), path) {
            Ok(true) => return OpenWriters::Some,
            Ok(false) => {}
            // One that has ended writes nothing.
            Err(error) => hidden |= error.kind() == std::io::ErrorKind::PermissionDenied,
        }
    }
    match (any, hidden) {
        (false, _) => OpenWriters::Unknown,
        (true, true) => OpenWriters::NoneSeen,
        (true, false) => OpenWriters::None,
    }
}

fn has_open_for_writing(process: &Path, path: &Path) -> std::io::Result<bool> {
    for open in fs::read_dir(process.join("fd"))? {
        let open = open?;
        // Only the name of what is open: to look at that itself might wait for whoever serves it.
        if !fs::read_link(open.path()).is_ok_and(|target| target == path) {
            continue;
        }
        let info = fs::read_to_string(process.join("fdinfo").join(open.file_name()));
        if info.is_ok_and(|info| is_writable(&info)) {
            return Ok(true);
        }
    }
    Ok(false)
}

fn is_writable(info: &str) -> bool {
    let flags = info.lines().find_map(|line| line.strip_prefix("flags:"));
    let flags = flags.and_then(|flags| u32::from_str_radix(flags.trim(), 8).ok());
    flags.is_some_and(|flags| flags & WRITES != 0)
}

#[cfg(test)]
mod tests {
    use std::fs::OpenOptions;

    use super::*;

    #[test]
    fn only_whoever_has_it_open_to_write_counts() {
        let temp = tempfile::tempdir().unwrap();
        let folder = temp.path().canonicalize().unwrap();
        let (path, other) = (folder.join("file"), folder.join("other"));
        let writer = fs::File::create(&path).unwrap();
        assert_eq!(find_writers(&path), OpenWriters::Some);
        assert_ne!(find_writers(&other), OpenWriters::Some);
        drop(writer);
        let _reader = fs::File::open(&path).unwrap();
        let _other = fs::File::create(&other).unwrap();
        assert!(matches!(find_writers(&path), OpenWriters::None | OpenWriters::NoneSeen));
        for options in [OpenOptions::new().append(true), OpenOptions::new().read(true).write(true)]
        {
            let writer = options.open(&path).unwrap();
            assert_eq!(find_writers(&path), OpenWriters::Some);
            drop(writer);
        }
        // What it was once called does not matter.
        let writer = OpenOptions::new().append(true).open(&path).unwrap();
        fs::rename(&path, folder.join("old")).unwrap();
        fs::write(&path, "new").unwrap();
        assert_ne!(find_writers(&path), OpenWriters::Some);
        assert_eq!(find_writers(&folder.join("old")), OpenWriters::Some);
        drop(writer);
    }
}
