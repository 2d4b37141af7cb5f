//! Digests of files and folders of this machine that trials depend on.

use std::fs::{self, File, Metadata};
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

/// The most of a file that is hashed: no configuration names more by purpose.
const MAX_FILE: u64 = 4 << 30;
/// The most of a folder that is hashed by its contents. Of what is beyond, sizes and times stand for them.
const MAX_CONTENTS: u64 = 4 << 30;

/// Returns the digest of a regular file; none if it is not there or cannot be read.
pub(super) fn digest_file(path: &Path) -> Option<String> {
    let found = fs::metadata(path).ok().filter(Metadata::is_file)?;
    if found.len() > MAX_FILE {
        return Some(format!("{} bytes", found.len()));
    }
    let mut hasher = blake3::Hasher::new();
    hasher.update_reader(File::open(path).ok()?).ok()?;
    Some(hasher.finalize().to_hex().to_string())
}

/// Returns the digest of all that is in a folder: names, executable bits, contents, and where links lead, which are not
/// followed.
pub(super) fn digest_folder(folder: &Path) -> String {
    let mut hasher = blake3::Hasher::new();
    let mut left = MAX_CONTENTS;
    let mut open = vec![folder.to_owned()];
    while let Some(path) = open.pop() {
        let name = path.strip_prefix(folder).unwrap_or(&path).as_os_str().as_bytes();
        hasher.update(&u64::try_from(name.len()).unwrap_or(u64::MAX).to_le_bytes());
        hasher.update(name);
        match path.symlink_metadata() {
            Ok(found) if found.is_dir() => open.extend(list_sorted(&path)),
            Ok(found) => hash_entry(&mut hasher, &path, &found, &mut left),
            // What cannot be read cannot be read by a trial.
            Err(_) => {}
        }
    }
    hasher.finalize().to_hex().to_string()
}

/// Returns what is in a folder, the last one first.
fn list_sorted(folder: &Path) -> Vec<PathBuf> {
    let entries = folder.read_dir().into_iter().flatten().flatten();
    let mut paths: Vec<PathBuf> = entries.map(|entry| entry.path()).collect();
    paths.sort_unstable_by(|one, other| other.cmp(one));
    paths
}

fn hash_entry(hasher: &mut blake3::Hasher, path: &Path, found: &Metadata, left: &mut u64) {
    hasher.update(&found.mode().to_le_bytes());
    if found.is_symlink() {
        let target = fs::read_link(path).unwrap_or_default();
        hasher.update(target.as_os_str().as_bytes());
    } else if found.is_file() && found.len() <= *left {
        *left -= found.len();
        let contents = File::open(path).and_then(|file| {
            let mut own = blake3::Hasher::new();
            own.update_reader(file)?;
            Ok(own.finalize())
        });
        hasher.update(contents.as_ref().map_or(&[0], |digest| digest.as_bytes().as_slice()));
    } else {
        hasher.update(&found.len().to_le_bytes());
        hasher.update(&found.mtime().to_le_bytes());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_folder_is_known_by_all_that_is_in_it() {
        let folder = std::env::temp_dir().join(format!("ralph-digest-{}", std::process::id()));
        fs::create_dir_all(folder.join("a/b")).unwrap();
        fs::write(folder.join("a/b/file"), "1").unwrap();
        std::os::unix::fs::symlink("/nowhere", folder.join("link")).unwrap();
        let mut seen = vec![digest_folder(&folder)];
        assert_eq!(digest_folder(&folder), seen[0]);
        let mut is_new = |what: &str| {
            let digest = digest_folder(&folder);
            assert!(!seen.contains(&digest), "{what}");
            seen.push(digest);
        };
        fs::write(folder.join("a/b/file"), "2").unwrap();
        is_new("contents");
        fs::rename(folder.join("a/b/file"), folder.join("a/file")).unwrap();
        is_new("place");
        fs::create_dir(folder.join("empty")).unwrap();
        is_new("empty folder");
        fs::remove_file(folder.join("link")).unwrap();
        std::os::unix::fs::symlink("/elsewhere", folder.join("link")).unwrap();
        is_new("target of a link");
        let program = std::os::unix::fs::PermissionsExt::from_mode(0o755);
        fs::set_permissions(folder.join("a/file"), program).unwrap();
        is_new("mode");
        fs::remove_dir_all(&folder).unwrap();
    }
}
