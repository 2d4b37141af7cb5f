//! Whether a file is the one that was last seen.

use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;

/// What a file looked like; anything else is somebody else's doing. No program can set a `ctime`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Stamp {
    dev: u64,
    ino: u64,
    pub(super) len: u64,
    ctime: (i64, i64),
}

impl Stamp {
    pub(super) fn of(meta: &fs::Metadata) -> Self {
        Self {
            dev: meta.dev(),
            ino: meta.ino(),
            len: meta.len(),
            ctime: (meta.ctime(), meta.ctime_nsec()),
        }
    }

    /// Of what lies at a path, which is no link to it.
    pub(super) fn at(path: &Path) -> Option<Self> {
        fs::symlink_metadata(path).ok().map(|meta| Self::of(&meta))
    }
}

/// The stamp of a file whose content is known to be right.
#[derive(Debug, Default)]
pub(super) struct Seen(Option<Stamp>);

impl Seen {
    /// Its content is right as it lies there now.
    pub(super) fn note(&mut self, path: &Path) {
        self.0 = Stamp::at(path);
    }

    /// Whether nobody has touched it since. If somebody has, its content has to be compared.
    pub(super) fn is_untouched(&self, path: &Path) -> bool {
        self.0.is_some() && self.0 == Stamp::at(path)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whatever_is_done_to_a_file_is_seen() {
        let temp = tempfile::tempdir().unwrap();
        let path = temp.path().join("f");
        let other = temp.path().join("other");
        let mut seen = Seen::default();
        seen.note(&path);
        assert!(!seen.is_untouched(&path), "what is not there was never seen");
        let edits: [(&str, &dyn Fn()); 5] = [
            ("same length", &|| fs::write(&path, "2").unwrap()),
            ("replaced", &|| {
                fs::write(&other, "2").unwrap();
                fs::rename(&other, &path).unwrap();
            }),
            ("link", &|| {
                fs::rename(&path, &other).unwrap();
                std::os::unix::fs::symlink(&other, &path).unwrap();
            }),
            ("folder", &|| {
                fs::remove_file(&path).unwrap();
                fs::create_dir(&path).unwrap();
            }),
            ("gone", &|| fs::remove_dir(&path).unwrap()),
        ];
        fs::write(&path, "1").unwrap();
        for (what, edit) in edits {
            seen.note(&path);
            assert!(seen.is_untouched(&path), "before: {what}");
            // The clock of the file system ticks this often at least.
            std::thread::sleep(std::time::Duration::from_millis(20));
            edit();
            assert!(!seen.is_untouched(&path), "{what}");
        }
    }
}
