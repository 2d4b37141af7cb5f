//! Watches folders for names that appear in them, go, or are moved.

use std::collections::BTreeSet;
use std::io;
use std::path::{Path, PathBuf};

/// Watches folders of the workspace. What a program puts there and takes away again leaves no other trace: the
/// files beneath a folder that is moved and put back keep their numbers and times.
#[derive(Debug)]
pub struct FolderWatch(inotify::Watch);

impl FolderWatch {
    /// Watches these folders, relative to `root`, from now on; those that do not exist are left out.
    ///
    /// # Errors
    /// The system does not watch folders, or no more of them.
    pub fn begin<'a>(root: &Path, folders: impl IntoIterator<Item = &'a Path>) -> io::Result<Self> {
        inotify::Watch::begin(root, folders).map(Self)
    }

    /// Returns the paths, relative to the root, that appeared, went or were moved since `begin`, or since this was
    /// called last; nothing if there were more than the system remembers.
    pub fn take(&mut self) -> Option<BTreeSet<PathBuf>> {
        self.0.take()
    }
}

#[cfg(target_os = "linux")]
mod inotify {
    use std::collections::{BTreeSet, HashMap};
    use std::ffi::OsStr;
    use std::io;
    use std::mem::MaybeUninit;
    use std::os::unix::ffi::OsStrExt as _;
    use std::path::{Path, PathBuf};

    use rustix::fd::OwnedFd;
    use rustix::fs::inotify::{CreateFlags, ReadFlags, Reader, WatchFlags, add_watch, init};
    use rustix::io::Errno;

    use crate::close_in_background;

    #[derive(Debug)]
    pub(super) struct Watch {
        /// Missing only while it is dropped.
        fd: Option<OwnedFd>,
        folders: HashMap<i32, PathBuf>,
    }

    impl Watch {
        pub(super) fn begin<'a>(
            root: &Path,
            folders: impl IntoIterator<Item = &'a Path>,
        ) -> io::Result<Self> {
            let fd = init(CreateFlags::NONBLOCK | CreateFlags::CLOEXEC)?;
            let flags = WatchFlags::CREATE
                | WatchFlags::DELETE
                | WatchFlags::MOVE
                | WatchFlags::ONLYDIR
                | WatchFlags::DONT_FOLLOW;
            let mut watch = Self { fd: None, folders: HashMap::new() };
            for folder in folders {
                match add_watch(&fd, root.join(folder), flags) {
                    Ok(number) => drop(watch.folders.insert(number, folder.to_owned())),
                    Err(Errno::NOENT | Errno::NOTDIR | Errno::LOOP) => {}
                    Err(error) => return Err(error.into()),
                }
            }
            watch.fd = Some(fd);
            Ok(watch)
        }

        pub(super) fn take(&mut self) -> Option<BTreeSet<PathBuf>> {
            let mut found = BTreeSet::new();
            let mut buffer = [MaybeUninit::uninit(); 16 * 1024];
            let mut reader = Reader::new(self.fd.as_ref()?, &mut buffer);
            loop {
                match reader.next() {
                    Ok(event) if event.events().contains(ReadFlags::QUEUE_OVERFLOW) => return None,
                    Ok(event) => {
                        let folder = self.folders.get(&event.wd());
                        let name = event.file_name().map(|name| OsStr::from_bytes(name.to_bytes()));
                        found.extend(folder.zip(name).map(|(folder, name)| folder.join(name)));
                    }
                    Err(Errno::INTR) => {}
                    Err(Errno::WOULDBLOCK) => return Some(found),
                    Err(_) => return None,
                }
            }
        }
    }

    impl Drop for Watch {
        fn drop(&mut self) {
            self.fd.take().into_iter().for_each(close_in_background);
        }
    }
}

#[cfg(not(target_os = "linux"))]
mod inotify {
    use std::collections::BTreeSet;
    use std::io;
    use std::path::{Path, PathBuf};

    #[derive(Debug)]
    pub(super) struct Watch;

    impl Watch {
        pub(super) fn begin<'a>(
            _root: &Path,
            _folders: impl IntoIterator<Item = &'a Path>,
        ) -> io::Result<Self> {
            Err(io::ErrorKind::Unsupported.into())
        }

        pub(super) fn take(&mut self) -> Option<BTreeSet<PathBuf>> {
            None
        }
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    fn names(paths: &[&str]) -> BTreeSet<PathBuf> {
        paths.iter().map(PathBuf::from).collect()
    }

    #[test]
    fn what_comes_and_goes_is_named_once_taken() {
        let temp = tempfile::tempdir().unwrap();
        let root = temp.path();
        fs::create_dir_all(root.join("tests/deep")).unwrap();
        let folders = ["", "tests", "missing"].map(Path::new);
        let mut watch = FolderWatch::begin(root, folders).unwrap();
        assert_eq!(watch.take(), Some(names(&[])));
        fs::write(root.join("tests/a"), "").unwrap();
        fs::remove_file(root.join("tests/a")).unwrap();
        fs::write(root.join("tests/deep/b"), "").unwrap();
        assert_eq!(watch.take(), Some(names(&["tests/a"])));
        fs::rename(root.join("tests"), root.join("other")).unwrap();
        fs::rename(root.join("other"), root.join("tests")).unwrap();
        assert_eq!(watch.take(), Some(names(&["other", "tests"])));
        assert_eq!(watch.take(), Some(names(&[])));
    }

    #[test]
    fn more_than_the_system_remembers_is_not_nothing() {
        let limit = fs::read_to_string("/proc/sys/fs/inotify/max_queued_events").unwrap();
        let limit: usize = limit.trim().parse().unwrap();
        let temp = tempfile::tempdir().unwrap();
        let mut watch = FolderWatch::begin(temp.path(), [Path::new("")]).unwrap();
        let (one, other) = (temp.path().join("a"), temp.path().join("b"));
        fs::write(&one, "").unwrap();
        for _ in 0..=limit / 4 {
            fs::rename(&one, &other).unwrap();
            fs::rename(&other, &one).unwrap();
        }
        assert_eq!(watch.take(), None);
        assert_eq!(watch.take(), Some(BTreeSet::new()), "what came after it is known again");
    }
}
