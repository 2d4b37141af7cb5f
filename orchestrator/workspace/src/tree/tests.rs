//! That what is kept from one digest to the next is never wrong.

use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
use std::path::Path;
use std::time::{Duration, Instant};

use proptest::prelude::*;

use super::*;
use crate::git::tests::git;

/// Stamps are trusted after this time here, in nanoseconds: more than a tick of any kernel.
const MARGIN: i128 = 15_000_000;

fn hasher(workspace: &Path) -> TreeHasher {
    let mut hasher = TreeHasher::new(workspace.to_owned(), Vec::new());
    hasher.hasher.local_margin = MARGIN;
    hasher
}

/// Waits until whatever was written before is old enough to be trusted.
fn settle() {
    let from = safe_fs::wall_clock();
    let limit = Instant::now() + Duration::from_secs(5);
    while safe_fs::wall_clock() <= from + MARGIN && Instant::now() < limit {
        std::thread::yield_now();
    }
}

#[derive(Clone, Debug)]
enum Edit {
    Write(u8, u8),
    /// Other bytes, same size, same modification time.
    Sneak(u8, u8),
    Remove(u8),
    Rename(u8, u8),
    Mode(u8),
    Link(u8, u8),
    Copy(u8, u8),
    Folder(u8),
    Ignore(u8),
    /// Two files exchange their names.
    Swap(u8, u8),
    Settle,
}

fn path(root: &Path, number: u8) -> PathBuf {
    const NAMES: [&str; 8] = ["a", "b", "d/a", "d/b", "d/e/a", "f", "d/.gitignore", "z"];
    root.join(NAMES[usize::from(number) % NAMES.len()])
}

fn apply(root: &Path, edit: &Edit) -> std::io::Result<()> {
    match *edit {
        Edit::Write(file, byte) => std::fs::write(path(root, file), [byte; 8]),
        Edit::Sneak(file, byte) => {
            let path = path(root, file);
            let before = std::fs::symlink_metadata(&path)?;
            if !before.is_file() {
                return Ok(());
            }
            let size = usize::try_from(before.size()).unwrap();
            std::fs::write(&path, vec![byte; size])?;
            let times = std::fs::FileTimes::new()
                .set_accessed(before.accessed()?)
                .set_modified(before.modified()?);
            std::fs::File::options().write(true).open(path)?.set_times(times)
        }
        Edit::Remove(file) => {
            let path = path(root, file);
            if path.is_dir() { std::fs::remove_dir(path) } else { std::fs::remove_file(path) }
        }
        Edit::Rename(from, to) => std::fs::rename(path(root, from), path(root, to)),
        Edit::Mode(file) => {
            let path = path(root, file);
            let mode = std::fs::metadata(&path)?.mode();
            std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode ^ 0o100))
        }
        Edit::Link(file, to) => {
            std::os::unix::fs::symlink(path(Path::new(""), to), path(root, file))
        }
        Edit::Copy(from, to) => std::fs::copy(path(root, from), path(root, to)).map(drop),
        Edit::Folder(file) => std::fs::create_dir(path(root, file)),
        Edit::Ignore(file) => {
            std::fs::write(root.join("d/.gitignore"), [b"abe"[usize::from(file) % 3], b'\n'])
        }
        Edit::Swap(one, other) => {
            let spare = root.join("spare");
            std::fs::rename(path(root, one), &spare)?;
            let swapped = std::fs::rename(path(root, other), path(root, one));
            std::fs::rename(spare, path(root, other)).and(swapped)
        }
        Edit::Settle => {
            settle();
            Ok(())
        }
    }
}

fn edit() -> impl Strategy<Value = Edit> {
    let file = || 0_u8..8;
    prop_oneof![
        4 => (file(), 0_u8..4).prop_map(|(file, byte)| Edit::Write(file, byte)),
        6 => (file(), 0_u8..4).prop_map(|(file, byte)| Edit::Sneak(file, byte)),
        1 => file().prop_map(Edit::Remove),
        2 => (file(), file()).prop_map(|(from, to)| Edit::Rename(from, to)),
        1 => file().prop_map(Edit::Mode),
        1 => (file(), file()).prop_map(|(file, to)| Edit::Link(file, to)),
        2 => (file(), file()).prop_map(|(from, to)| Edit::Copy(from, to)),
        1 => file().prop_map(Edit::Folder),
        1 => file().prop_map(Edit::Ignore),
        2 => (file(), file()).prop_map(|(one, other)| Edit::Swap(one, other)),
        3 => Just(Edit::Settle),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 60, ..ProptestConfig::default() })]
    #[test]
    fn kept_and_fresh_digests_agree(
        rounds in proptest::collection::vec(proptest::collection::vec(edit(), 0..5), 1..12),
    ) {
        let temp = tempfile::tempdir().unwrap();
        std::fs::create_dir_all(temp.path().join("d/e")).unwrap();
        for file in 0..5 {
            std::fs::write(path(temp.path(), file), [file; 8]).unwrap();
        }
        let mut kept = hasher(temp.path());
        settle();
        kept.digest().unwrap();
        for edits in rounds {
            for edit in &edits {
                // Edits that do not fit what is there do nothing.
                let _ = apply(temp.path(), edit);
            }
            let now = kept.digest().unwrap();
            let fresh = hasher(temp.path()).digest().unwrap();
            prop_assert_eq!(&now.digest, &fresh.digest);
            prop_assert_eq!((now.files, now.bytes), (fresh.files, fresh.bytes));
            prop_assert!(now.stable && now.hashed <= fresh.hashed);
        }
    }
}

#[test]
fn only_what_changed_is_read() {
    let temp = tempfile::tempdir().unwrap();
    std::fs::create_dir(temp.path().join("d")).unwrap();
    for i in 0..20 {
        std::fs::write(temp.path().join(format!("d/{i}")), format!("{i:04}")).unwrap();
    }
    let mut hasher = hasher(temp.path());
    settle();
    let first = hasher.digest().unwrap();
    assert_eq!((first.files, first.bytes, first.hashed), (20, 80, 20));
    let second = hasher.digest().unwrap();
    assert_eq!((second.hashed, &second.digest), (0, &first.digest));
    // Same size, modification time put back: only the time of change tells.
    apply_sneak(&temp.path().join("d/7"));
    settle();
    let third = hasher.digest().unwrap();
    assert_eq!(third.hashed, 1);
    assert_ne!(third.digest, first.digest);
    assert_eq!(hasher.digest().unwrap().hashed, 0);
}

fn apply_sneak(file: &Path) {
    let modified = std::fs::metadata(file).unwrap().modified().unwrap();
    std::fs::write(file, "xxxx").unwrap();
    let file = std::fs::File::options().write(true).open(file).unwrap();
    file.set_times(std::fs::FileTimes::new().set_modified(modified)).unwrap();
}

#[test]
fn two_threads_read_what_one_would() {
    let temp = tempfile::tempdir().unwrap();
    let workspace = temp.path().join("inner");
    for number in 0..600 {
        let folder = workspace.join(format!("{}", number % 7)).join("x-y");
        std::fs::create_dir_all(&folder).unwrap();
        std::fs::write(folder.join(format!("{number}")), format!("line\n{number}\n")).unwrap();
    }
    std::fs::write(workspace.join("untracked"), "x").unwrap();
    std::fs::write(temp.path().join("beside"), "x").unwrap();
    let mut alone = hasher(&workspace);
    settle();
    let expected = alone.digest().unwrap();
    git(temp.path(), &["init", "-q"]);
    git(temp.path(), &["add", "beside", "inner/0", "inner/1", "inner/2", "inner/5", "inner/6"]);
    let mut both = hasher(&workspace);
    assert_eq!(both.digest().unwrap(), expected);
    assert_eq!(both.digest().unwrap().hashed, 0, "what the second thread read is known");
    for hasher in [&mut alone, &mut both] {
        hasher.mark();
    }
    std::fs::write(workspace.join("6/x-y/6"), "line\nother\n").unwrap();
    settle();
    for hasher in [&mut alone, &mut both] {
        hasher.digest().unwrap();
    }
    assert_eq!(both.changes(), alone.changes(), "the lines of all files are known");
    assert_eq!(both.changes().unwrap().len(), 1);
}

#[test]
fn what_was_just_written_is_read_again() {
    let temp = tempfile::tempdir().unwrap();
    std::fs::write(temp.path().join("f"), "x").unwrap();
    // With the real margin, the file was changed a moment ago.
    let mut hasher = TreeHasher::new(temp.path().to_owned(), Vec::new());
    assert_eq!(hasher.digest().unwrap().hashed, 1);
    assert_eq!(hasher.digest().unwrap().hashed, 1);
}

#[test]
fn a_cancelled_digest_loses_nothing() {
    let temp = tempfile::tempdir().unwrap();
    std::fs::write(temp.path().join("f"), "x").unwrap();
    let flag = Arc::new(AtomicBool::new(false));
    let mut hasher = hasher(temp.path()).cancelled_by(Arc::clone(&flag));
    settle();
    let before = hasher.digest().unwrap();
    flag.store(true, std::sync::atomic::Ordering::Relaxed);
    assert!(matches!(hasher.digest(), Err(TreeError::Cancelled)));
    flag.store(false, std::sync::atomic::Ordering::Relaxed);
    let after = hasher.digest().unwrap();
    assert_eq!((after.digest, after.hashed), (before.digest, 0));
}

#[test]
fn a_digest_is_text() {
    let digest = TreeDigest::try_from("a1".repeat(32)).unwrap();
    let json = serde_json::to_string(&digest).unwrap();
    assert_eq!(json, format!("\"{digest}\""));
    assert_eq!(serde_json::from_str::<TreeDigest>(&json).unwrap(), digest);
    for bad in ["", "a1", &"A1".repeat(32), &"g1".repeat(32), &"é".repeat(32)] {
        assert!(TreeDigest::try_from(bad.to_owned()).is_err(), "{bad}");
        assert!(serde_json::from_str::<TreeDigest>(&format!("\"{bad}\"")).is_err());
    }
}
