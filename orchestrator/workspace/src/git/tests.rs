//! The index reader against indexes that git made, and against damaged ones.

use std::path::Path;
use std::process::Output;

use proptest::prelude::*;

use super::*;

#[allow(clippy::disallowed_methods)]
pub(crate) fn git(folder: &Path, args: &[&str]) -> Output {
    let output = std::process::Command::new("git")
        .args(args)
        .current_dir(folder)
        .env_clear()
        .env("PATH", std::env::var_os("PATH").unwrap_or_default())
        .env("HOME", folder)
        .env("GIT_CONFIG_GLOBAL", "/dev/null")
        .env("GIT_CONFIG_SYSTEM", "/dev/null")
        .env("GIT_CONFIG_COUNT", "2")
        .env("GIT_CONFIG_KEY_0", "user.name")
        .env("GIT_CONFIG_VALUE_0", "t")
        .env("GIT_CONFIG_KEY_1", "user.email")
        .env("GIT_CONFIG_VALUE_1", "t@localhost")
        .stdin(std::process::Stdio::null())
        .output()
        .unwrap();
    assert!(output.status.success(), "git {args:?}: {output:?}");
    output
}

/// A repository with files of many names, all in the index.
fn repository(args: &[&str]) -> tempfile::TempDir {
    let temp = tempfile::tempdir().unwrap();
    git(temp.path(), &[&["init", "-q"], args].concat());
    let long = "x".repeat(250);
    let deep = format!("{}f", format!("{}/", "y".repeat(250)).repeat(6));
    let mut names: Vec<Vec<u8>> = (0..60).map(|i| format!("dir/file{i}").into_bytes()).collect();
    names.extend([b"new\nline".to_vec(), b"\xff\xfe bytes".to_vec(), deep.into_bytes()]);
    names.extend([b"a".to_vec(), b"a.b".to_vec(), b"a-b/c".to_vec(), long.into_bytes()]);
    for name in &names {
        let path = temp.path().join(OsStr::from_bytes(name));
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, name).unwrap();
    }
    git(temp.path(), &["add", "-A"]);
    temp
}

/// Returns the names as git lists them.
fn listed(folder: &Path) -> Vec<Vec<u8>> {
    let output = git(folder, &["ls-files", "-z", "--cached"]);
    let names = output.stdout.split(|byte| *byte == 0).filter(|name| !name.is_empty());
    let mut names: Vec<Vec<u8>> = names.map(<[u8]>::to_vec).collect();
    names.sort();
    names.dedup();
    names
}

fn read(folder: &Path) -> Result<Tracked, IndexError> {
    Repository::find(folder).unwrap().tracked()
}

fn assert_as_listed(folder: &Path) {
    let tracked = read(folder).unwrap();
    assert_eq!(tracked.iter().map(<[u8]>::to_vec).collect::<Vec<_>>(), listed(folder));
    for name in tracked.iter() {
        assert!(tracked.has(name));
        assert!(!tracked.has(&[name, b"x"].concat()));
    }
    assert!(tracked.has_beneath(b"dir/") && tracked.has_beneath(b"a-b/"));
    assert!(!tracked.has_beneath(b"di/") && !tracked.has_beneath(b"a/") && !tracked.has(b"dir"));
}

#[test]
fn every_version_with_either_hash_is_read() {
    for hash in ["sha1", "sha256"] {
        let temp = repository(&["--object-format", hash]);
        for version in ["2", "3", "4"] {
            git(temp.path(), &["update-index", "--index-version", version]);
            assert_as_listed(temp.path());
        }
        // Extended flags make it a real version 3.
        std::fs::write(temp.path().join("later"), "x").unwrap();
        git(temp.path(), &["update-index", "--index-version", "2"]);
        git(temp.path(), &["add", "-N", "later"]);
        let bytes = std::fs::read(temp.path().join(".git/index")).unwrap();
        assert_eq!(bytes[7], 3);
        assert_as_listed(temp.path());
        git(temp.path(), &["update-index", "--index-version", "4"]);
        assert_as_listed(temp.path());
    }
}

#[test]
fn what_git_overlooks_and_submodules_are_told() {
    let temp = repository(&[]);
    let at = temp.path();
    git(at, &["commit", "-qm", "x"]);
    git(at, &["update-index", "--assume-unchanged", "a", "dir/file3"]);
    git(at, &["update-index", "--skip-worktree", "a.b"]);
    let head = String::from_utf8(git(at, &["rev-parse", "HEAD"]).stdout).unwrap();
    let entry = format!("160000,{},sub", head.trim());
    git(at, &["update-index", "--add", "--cacheinfo", &entry]);
    for version in ["2", "3", "4"] {
        git(at, &["update-index", "--index-version", version]);
        let tracked = read(at).unwrap();
        let mut marked: Vec<_> = tracked.marked().collect();
        marked.sort_by_key(|(name, _)| *name);
        let (assumed, skipped) = (IndexMark::AssumeUnchanged, IndexMark::SkipWorktree);
        let expected: [(&[u8], _); 3] =
            [(b"a", assumed), (b"a.b", skipped), (b"dir/file3", assumed)];
        assert_eq!(marked, expected);
        assert_eq!(tracked.submodules().collect::<Vec<_>>(), [b"sub"]);
    }
}

#[test]
fn extensions_are_passed_over() {
    let temp = repository(&[]);
    git(temp.path(), &["commit", "-qm", "x"]);
    git(temp.path(), &["config", "index.threads", "2"]);
    git(temp.path(), &["config", "feature.manyFiles", "true"]);
    git(temp.path(), &["update-index", "--untracked-cache"]);
    git(temp.path(), &["status"]);
    let bytes = std::fs::read(temp.path().join(".git/index")).unwrap();
    for extension in [b"TREE", b"UNTR"] {
        assert!(memchr::memmem::find(&bytes, extension).is_some(), "{extension:?}");
    }
    assert_as_listed(temp.path());
}

#[test]
fn a_conflict_names_a_path_once() {
    let temp = repository(&[]);
    let at = temp.path();
    git(at, &["commit", "-qm", "one"]);
    git(at, &["checkout", "-qb", "other"]);
    std::fs::write(at.join("a"), "theirs").unwrap();
    git(at, &["commit", "-qam", "theirs"]);
    git(at, &["checkout", "-q", "-"]);
    std::fs::write(at.join("a"), "ours").unwrap();
    git(at, &["commit", "-qam", "ours"]);
    #[allow(clippy::disallowed_methods)]
    let merged = std::process::Command::new("git")
        .args(["-c", "user.name=t", "-c", "user.email=t@localhost", "merge", "-q", "other"])
        .env("GIT_CONFIG_GLOBAL", "/dev/null")
        .env("GIT_CONFIG_SYSTEM", "/dev/null")
        .current_dir(at)
        .output()
        .unwrap();
    assert!(!merged.status.success());
    assert_as_listed(at);
}

#[test]
fn a_split_index_is_named() {
    let temp = repository(&[]);
    git(temp.path(), &["update-index", "--split-index"]);
    assert_eq!(read(temp.path()), Err(IndexError::Unsupported("split index")));
}

#[test]
fn an_empty_or_missing_index_tracks_nothing() {
    let temp = tempfile::tempdir().unwrap();
    git(temp.path(), &["init", "-q"]);
    assert_eq!(read(temp.path()).unwrap().len(), 0);
    git(temp.path(), &["read-tree", "--empty"]);
    assert!(temp.path().join(".git/index").exists());
    assert_eq!(read(temp.path()).unwrap().len(), 0);
}

#[test]
fn an_index_that_is_no_file_is_reported() {
    let temp = repository(&[]);
    let index = temp.path().join(".git/index");
    std::fs::remove_file(&index).unwrap();
    rustix::fs::mkfifoat(rustix::fs::CWD, &index, rustix::fs::Mode::RUSR).unwrap();
    assert!(matches!(read(temp.path()), Err(IndexError::Read(_))));
}

#[test]
fn worktrees_and_what_is_no_repository_are_distinguished() {
    let temp = repository(&[]);
    let at = temp.path().canonicalize().unwrap();
    git(&at, &["commit", "-qm", "x"]);
    git(&at, &["worktree", "add", "-q", "tree"]);
    let tree = Repository::find(&at.join("tree")).unwrap();
    assert_eq!(tree.top, at.join("tree"));
    assert_eq!(tree.exclude_file().canonicalize().unwrap(), at.join(".git/info/exclude"));
    assert_as_listed(&at.join("tree"));
    // A folder called .git is not enough.
    std::fs::create_dir_all(at.join("dir/sub/.git")).unwrap();
    assert_eq!(Repository::find(&at.join("dir/sub")).unwrap().top, at);
    std::fs::write(at.join("dir/.git"), b"gitdir: nowhere\n").unwrap();
    assert_eq!(Repository::find(&at.join("dir")).unwrap().top, at);
    std::fs::write(at.join("dir/.git"), [0xff; 100_000]).unwrap();
    assert_eq!(Repository::find(&at.join("dir")).unwrap().top, at);
}

#[test]
fn every_cut_and_every_changed_byte_is_answered() {
    let temp = repository(&[]);
    for version in ["2", "4"] {
        git(temp.path(), &["update-index", "--index-version", version]);
        let bytes = std::fs::read(temp.path().join(".git/index")).unwrap();
        let whole = Tracked::parse(&bytes).unwrap();
        for length in 0..bytes.len() {
            assert_eq!(Tracked::parse(&bytes[..length]), Err(IndexError::Damaged), "{length}");
        }
        for at in 0..bytes.len() {
            let mut changed = bytes.clone();
            changed[at] ^= 0x81;
            if let Ok(tracked) = Tracked::parse(&changed) {
                assert!(tracked.len() <= whole.len());
            }
        }
    }
}

#[test]
fn names_cannot_swell_beyond_measure() {
    // Version 4 entries that each repeat the name before and add to it.
    let mut bytes = b"DIRC\0\0\0\x04".to_vec();
    let count = 3000_u32;
    bytes.extend_from_slice(&count.to_be_bytes());
    for _ in 0..count {
        bytes.extend_from_slice(&[0; 60]);
        bytes.extend_from_slice(&[0x0f, 0xff, 0, b'x', b'x', 0]);
    }
    bytes.extend_from_slice(&[0; 20]);
    assert_eq!(Tracked::parse(&bytes), Err(IndexError::Damaged));
}

proptest! {
    #[test]
    fn any_bytes_are_answered(
        version in 0_u32..6,
        count in prop_oneof![0_u32..4, any::<u32>()],
        rest in proptest::collection::vec(any::<u8>(), 0..400),
    ) {
        let mut bytes = b"DIRC".to_vec();
        bytes.extend_from_slice(&version.to_be_bytes());
        bytes.extend_from_slice(&count.to_be_bytes());
        bytes.extend_from_slice(&rest);
        let _ = Tracked::parse(&bytes);
        let _ = Tracked::parse(&rest);
    }
}

#[test]
fn a_worktree_leads_to_what_its_repository_shares() {
    let temp = tempfile::tempdir().unwrap();
    let root = temp.path().canonicalize().unwrap();
    let (main, tree) = (root.join("main"), root.join("tree"));
    std::fs::create_dir(&main).unwrap();
    git(&main, &["init", "-q"]);
    git(&main, &["commit", "-q", "--allow-empty", "-m", "x"]);
    git(&main, &["worktree", "add", "-q", "../tree"]);
    std::fs::create_dir(tree.join("sub")).unwrap();
    let common = Some(main.join(".git"));
    for folder in [&main, &tree, &tree.join("sub")] {
        assert_eq!(common_git_folder(folder), common, "{}", folder.display());
    }
    assert_eq!(common_git_folder(&root), None);
}
