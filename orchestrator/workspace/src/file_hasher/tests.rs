use super::*;

/// A folder with a file `f`, and its fingerprint.
fn file(content: &[u8]) -> (tempfile::TempDir, OwnedFd, FileFingerprint) {
    let temp = tempfile::tempdir().unwrap();
    std::fs::write(temp.path().join("f"), content).unwrap();
    let folder = safe_fs::open_folder(temp.path()).unwrap();
    let fingerprint = FileFingerprint::from_name(folder.as_fd(), b"f").unwrap();
    (temp, folder, fingerprint)
}

/// A hasher that takes every fingerprint for settled, so that caching shows at once.
fn trusting(folder: &OwnedFd) -> FileHasher {
    let mut hasher = FileHasher::new(Arc::default());
    hasher.local_margin = i128::MIN / 4;
    hasher.begin(folder.as_fd());
    let dev = FileFingerprint::from_fd(folder).unwrap().dev;
    assert_eq!(hasher.margins[&dev], Some(hasher.local_margin), "tests need a local disk");
    hasher
}

#[test]
fn a_stamp_is_trusted_only_once_it_is_old() {
    let (_temp, folder, fingerprint) = file(b"x");
    let mut hasher = FileHasher::new(Arc::default());
    hasher.begin(folder.as_fd());
    let margin = hasher.margins[&fingerprint.dev].unwrap();
    assert!(!hasher.is_trusted(&fingerprint, fingerprint.ctime));
    assert!(!hasher.is_trusted(&fingerprint, fingerprint.ctime + margin - 1));
    assert!(hasher.is_trusted(&fingerprint, fingerprint.ctime + margin));
    // Set by a clock that runs ahead.
    let ahead = FileFingerprint { ctime: fingerprint.ctime + 3_600_000_000_000, ..fingerprint };
    assert!(!hasher.is_trusted(&ahead, fingerprint.ctime + margin));
    // On a file system whose times mean nothing, or of which nothing is known.
    let elsewhere = FileFingerprint { dev: fingerprint.dev + 1, ..fingerprint };
    assert!(!hasher.is_trusted(&elsewhere, i128::MAX / 4));
    hasher.margins.insert(elsewhere.dev, None);
    assert!(!hasher.is_trusted(&elsewhere, i128::MAX / 4));
}

#[test]
fn a_file_just_written_is_read_every_time() {
    let (_temp, folder, fingerprint) = file(b"x");
    let mut hasher = FileHasher::new(Arc::default());
    for _ in 0..2 {
        hasher.begin(folder.as_fd());
        assert!(matches!(
            hasher.hash(folder.as_fd(), b"f", 0, fingerprint),
            Content::Hash { hash, .. } if hash == blake3::hash(b"x")
        ));
        hasher.finish();
        assert_eq!(hasher.reads, 1);
    }
}

#[test]
fn what_is_known_is_not_read_again_until_the_clock_is_put_back() {
    let (_temp, folder, fingerprint) = file(b"x");
    let mut hasher = trusting(&folder);
    hasher.hash(folder.as_fd(), b"f", 0, fingerprint);
    hasher.finish();
    hasher.begin(folder.as_fd());
    hasher.hash(folder.as_fd(), b"f", 0, fingerprint);
    assert_eq!(hasher.reads, 0);
    // Another path with the same inode number is not taken for the same file.
    hasher.hash(folder.as_fd(), b"f", 1, fingerprint);
    assert_eq!(hasher.reads, 1);
    hasher.finish();
    hasher.offset = hasher.offset.map(|offset| offset + 1_000_000_000);
    hasher.begin(folder.as_fd());
    hasher.hash(folder.as_fd(), b"f", 0, fingerprint);
    assert_eq!(hasher.reads, 1);
}

#[test]
fn what_a_whole_pass_did_not_meet_is_forgotten() {
    let (_temp, folder, fingerprint) = file(b"x");
    let mut hasher = trusting(&folder);
    let pass = |hasher: &mut FileHasher, paths: &[u64]| {
        for path in paths {
            hasher.hash(folder.as_fd(), b"f", *path, fingerprint);
        }
    };
    pass(&mut hasher, &[0, 1, 2]);
    hasher.finish();
    hasher.begin(folder.as_fd());
    // Met twice in one pass, with a new one: as many as are known, and yet not the same.
    pass(&mut hasher, &[0, 0, 3]);
    hasher.finish();
    let known = |hasher: &FileHasher| {
        let mut paths: Vec<_> = hasher.known.keys().map(|key| key.path).collect();
        paths.sort_unstable();
        paths
    };
    assert_eq!(known(&hasher), [0, 3]);
    // A pass that was cut short forgets nothing.
    hasher.begin(folder.as_fd());
    pass(&mut hasher, &[0]);
    hasher.begin(folder.as_fd());
    assert_eq!(known(&hasher), [0, 3]);
}

#[test]
fn each_part_of_the_stamp_counts() {
    let (_temp, folder, fingerprint) = file(b"x");
    let mut hasher = trusting(&folder);
    hasher.hash(folder.as_fd(), b"f", 0, fingerprint);
    hasher.finish();
    let others = [
        FileFingerprint { mode: fingerprint.mode ^ 0o100, ..fingerprint },
        FileFingerprint { size: fingerprint.size + 1, ..fingerprint },
        FileFingerprint { mtime: fingerprint.mtime + 1, ..fingerprint },
        FileFingerprint { ctime: fingerprint.ctime + 1, ..fingerprint },
        FileFingerprint { ino: fingerprint.ino + 1, ..fingerprint },
        FileFingerprint { dev: fingerprint.dev + 1, ..fingerprint },
    ];
    for other in others {
        let before = hasher.reads;
        hasher.hash(folder.as_fd(), b"f", 0, other);
        assert_eq!(hasher.reads, before + 1, "{other:?}");
    }
}

#[test]
fn what_is_no_file_is_not_read() {
    let (temp, folder, fingerprint) = file(b"x");
    let mut hasher = FileHasher::new(Arc::default());
    std::fs::remove_file(temp.path().join("f")).unwrap();
    assert_eq!(hasher.hash(folder.as_fd(), b"f", 0, fingerprint), Content::Gone);
    rustix::fs::mkfifoat(&folder, "f", rustix::fs::Mode::RUSR | rustix::fs::Mode::WUSR).unwrap();
    assert_eq!(hasher.hash(folder.as_fd(), b"f", 0, fingerprint), Content::Gone);
    std::fs::remove_file(temp.path().join("f")).unwrap();
    std::os::unix::fs::symlink("/etc/passwd", temp.path().join("f")).unwrap();
    assert_eq!(hasher.hash(folder.as_fd(), b"f", 0, fingerprint), Content::Gone);
}

#[test]
fn what_holds_more_than_it_says_is_unstable() {
    let folder = safe_fs::open_folder(std::path::Path::new("/proc/self")).unwrap();
    let fingerprint = FileFingerprint::from_name(folder.as_fd(), b"status").unwrap();
    let mut hasher = FileHasher::new(Arc::default());
    assert_eq!(hasher.hash(folder.as_fd(), b"status", 0, fingerprint), Content::Unstable);
}

#[test]
fn only_known_file_systems_are_trusted() {
    let mut hasher = FileHasher::new(Arc::default());
    let proc = safe_fs::open_folder(std::path::Path::new("/proc")).unwrap();
    hasher.begin(proc.as_fd());
    assert_eq!(hasher.margins[&FileFingerprint::from_fd(&proc).unwrap().dev], None);
}

#[test]
fn nothing_is_read_once_cancelled() {
    let (_temp, folder, fingerprint) = file(b"x");
    let flag = Arc::new(AtomicBool::new(true));
    let mut hasher = FileHasher::new(flag);
    assert_eq!(hasher.hash(folder.as_fd(), b"f", 0, fingerprint), Content::Cancelled);
}

#[test]
fn only_a_large_file_has_another_digest_than_its_blake3() {
    let temp = tempfile::tempdir().unwrap();
    let folder = safe_fs::open_folder(temp.path()).unwrap();
    for (size, plain) in [(LARGE, true), (LARGE + 1, false), (1 << 43, false)] {
        let file = std::fs::File::create(temp.path().join("f")).unwrap();
        file.set_len(size).unwrap();
        let fingerprint = FileFingerprint::from_name(folder.as_fd(), b"f").unwrap();
        let mut hasher = FileHasher::new(Arc::default());
        let Content::Hash { hash, .. } = hasher.hash(folder.as_fd(), b"f", 0, fingerprint) else {
            panic!("{size}");
        };
        if plain {
            let zeros = vec![0; usize::try_from(size).unwrap()];
            assert_eq!(hash, blake3::hash(&zeros));
        }
        let mut hasher = FileHasher::new(Arc::new(AtomicBool::new(true)));
        assert_eq!(hasher.hash(folder.as_fd(), b"f", 0, fingerprint), Content::Cancelled);
    }
}

#[test]
fn never_again_never_repeats() {
    let all: std::collections::HashSet<_> = (0..1000).map(|_| unique_digest()).collect();
    assert_eq!(all.len(), 1000);
}
