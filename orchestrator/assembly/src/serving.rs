//! The ports of the servers of this user that are running, which sandboxes close to agents.

use std::collections::BTreeSet;
use std::fs::{self, File, TryLockError};
use std::io;
use std::path::{Path, PathBuf};

/// A file named by the port, which its server has locked as long as it lives.
fn folder(cache_home: &Path) -> PathBuf {
    cache_home.join("ralph-orchestrator/serving")
}

/// Records that this process serves on a port, as long as what is returned is open.
///
/// # Errors
/// It cannot be written.
pub fn record_port(cache_home: &Path, port: u16) -> io::Result<File> {
    let folder = folder(cache_home);
    fs::create_dir_all(&folder)?;
    let file = File::create(folder.join(port.to_string()))?;
    file.lock()?;
    Ok(file)
}

/// Returns the ports on which servers run.
pub fn ports(cache_home: &Path) -> BTreeSet<u16> {
    let entries = fs::read_dir(folder(cache_home)).into_iter().flatten().flatten();
    let port = |entry: fs::DirEntry| {
        let port = entry.file_name().to_str()?.parse().ok()?;
        let locked = File::open(entry.path()).ok()?.try_lock_shared();
        if matches!(locked, Err(TryLockError::WouldBlock)) {
            return Some(port);
        }
        // Its server has ended.
        let _ = fs::remove_file(entry.path());
        None
    };
    entries.filter_map(port).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_port_is_known_as_long_as_its_server_runs() {
        let home = tempfile::tempdir().unwrap();
        assert!(ports(home.path()).is_empty());
        let server = record_port(home.path(), 7717).unwrap();
        assert_eq!(ports(home.path()), BTreeSet::from([7717]));
        drop(server);
        assert!(ports(home.path()).is_empty());
        assert!(!folder(home.path()).join("7717").exists());
    }
}
