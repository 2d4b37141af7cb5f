//! The digest of a task: the same for the same files, wherever they lie.

use std::fmt::Write as _;
use std::fs::File;
use std::io;
use std::io::Read as _;
use std::path::{Path, PathBuf};

use ralph_orchestrator_safe_fs::{FileFingerprint, path_bytes};
use sha2::{Digest as _, Sha256};

use super::problem::TreeError;
use super::tree::{MAX_FILE, TreeSink, walk_tree};

/// Returns the BLAKE3 digest of a folder in hexadecimal, over the sorted paths of its entries with type, executable
/// bit and content. Other bits of the mode depend on who unpacked the task, so they are left out.
pub(super) fn digest_tree(root: &Path) -> Result<String, TreeError> {
    let mut digest = TreeDigest { root, entries: Vec::new() };
    walk_tree(root, &mut digest)?;
    let mut entries = digest.entries;
    entries.sort_unstable_by(|a, b| path_bytes(&a.path).cmp(path_bytes(&b.path)));
    let mut hasher = blake3::Hasher::new();
    for entry in &entries {
        let path = path_bytes(&entry.path);
        hasher.update(&[entry.kind]);
        hasher.update(&path.len().to_le_bytes());
        hasher.update(path);
        hasher.update(entry.content.as_bytes());
    }
    Ok(hasher.finalize().to_hex().to_string())
}

struct Entry {
    path: PathBuf,
    kind: u8,
    content: blake3::Hash,
}

struct TreeDigest<'r> {
    root: &'r Path,
    entries: Vec<Entry>,
}

impl TreeDigest<'_> {
    fn add(&mut self, path: &Path, kind: u8, content: blake3::Hash) {
        self.entries.push(Entry { path: path.to_owned(), kind, content });
    }
}

impl TreeSink for TreeDigest<'_> {
    fn visit_folder(&mut self, path: &Path, _mode: u32) -> Result<(), TreeError> {
        self.add(path, b'd', blake3::hash(b""));
        Ok(())
    }

    fn visit_file(
        &mut self,
        path: &Path,
        file: File,
        found: &FileFingerprint,
    ) -> Result<(), TreeError> {
        let content = hash_file(file).map_err(|e| TreeError::from_io(&self.root.join(path), e))?;
        self.add(path, if found.is_executable() { b'x' } else { b'f' }, content);
        Ok(())
    }

    fn visit_link(&mut self, path: &Path, target: &Path) -> Result<(), TreeError> {
        self.add(path, b'l', blake3::hash(path_bytes(target)));
        Ok(())
    }
}

/// Returns the digest of a file's content, at most of as many bytes as a file of a task may have.
pub(super) fn hash_file(file: File) -> io::Result<blake3::Hash> {
    let mut hasher = blake3::Hasher::new();
    hasher.update_reader(file.take(MAX_FILE))?;
    Ok(hasher.finalize())
}

/// Returns a SHA-256 that says as much as this digest, for formats that need one, in hexadecimal.
#[must_use]
pub fn sha256_of(digest: &str) -> String {
    let mut text = String::new();
    for byte in Sha256::digest(digest.as_bytes()) {
        // Writing to a String cannot fail.
        let _ = write!(text, "{byte:02x}");
    }
    text
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::{PermissionsExt as _, symlink};

    use super::*;

    fn tree(change: impl Fn(&Path)) -> String {
        let temp = tempfile::tempdir().unwrap();
        let root = temp.path().canonicalize().unwrap();
        fs::create_dir_all(root.join("a/b")).unwrap();
        fs::write(root.join("a/file"), "content").unwrap();
        fs::write(root.join("a.b"), "").unwrap();
        symlink("file", root.join("a/link")).unwrap();
        change(&root);
        digest_tree(&root).unwrap()
    }

    #[test]
    fn is_the_same_for_the_same_files_and_another_for_every_change() {
        let same = tree(|_| {});
        let umask = |root: &Path| {
            fs::set_permissions(root.join("a/file"), fs::Permissions::from_mode(0o600)).unwrap();
        };
        assert_eq!(tree(umask), same);
        let changes: [&dyn Fn(&Path); 6] = [
            &|root| fs::write(root.join("a/file"), "other").unwrap(),
            &|root| fs::rename(root.join("a/file"), root.join("a/b/file")).unwrap(),
            &|root| fs::create_dir(root.join("empty")).unwrap(),
            &|root| fs::write(root.join("new"), "").unwrap(),
            &|root| {
                fs::remove_file(root.join("a/link")).unwrap();
                symlink("b", root.join("a/link")).unwrap();
            },
            &|root| {
                let mode = fs::Permissions::from_mode(0o755);
                fs::set_permissions(root.join("a/file"), mode).unwrap();
            },
        ];
        let mut digests: Vec<String> = changes.iter().map(tree).collect();
        digests.push(same);
        digests.sort();
        digests.dedup();
        assert_eq!(digests.len(), 7);
    }

    #[test]
    fn takes_names_that_are_not_text() {
        use std::os::unix::ffi::OsStrExt as _;
        let name = |byte| std::ffi::OsStr::from_bytes(&[b'n', byte]).to_owned();
        let with = |byte| tree(|root| fs::write(root.join(name(byte)), "x").unwrap());
        assert_ne!(with(0xff), with(0xfe));
    }

    #[test]
    fn refuses_links_that_lead_outside_pipes_and_huge_files() {
        let refuse = |change: &dyn Fn(&Path)| {
            let temp = tempfile::tempdir().unwrap();
            let root = temp.path().canonicalize().unwrap();
            change(&root);
            digest_tree(&root).unwrap_err().to_string()
        };
        let link = refuse(&|root| symlink("/etc/passwd", root.join("link")).unwrap());
        assert!(link.contains("link leads to /etc/passwd"), "{link}");
        let up = refuse(&|root| symlink("../other", root.join("up")).unwrap());
        assert!(up.contains("/up: the link leads to ../other"), "{up}");
        let pipe = refuse(&|root| {
            rustix::fs::mkfifoat(rustix::fs::CWD, root.join("pipe"), 0o600.into()).unwrap();
        });
        assert!(pipe.contains("/pipe: neither a file"), "{pipe}");
        let huge = refuse(&|root| {
            File::create(root.join("huge")).unwrap().set_len(MAX_FILE + 1).unwrap();
        });
        assert!(huge.contains("/huge: the file is too large"), "{huge}");
    }
}
