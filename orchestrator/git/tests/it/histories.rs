//! Histories that are read, and copied up to a commit.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;

use ralph_orchestrator_git::{EntryKind, GitError, HistoryReader, ObjectId, SystemGit};

use crate::fixture::Fixture;

fn open(fixture: &Fixture, folder: &Path) -> ralph_orchestrator_git::Result<HistoryReader> {
    let scratch = fixture.folder.path().join("scratch");
    drop(fs::remove_dir_all(&scratch));
    fs::create_dir(&scratch).unwrap();
    let git = Arc::new(SystemGit::find().unwrap());
    HistoryReader::open(folder, &scratch, git, fixture.environment())
}

/// Every file below a folder, with its bytes and when it was changed.
fn snapshot(folder: &Path) -> BTreeMap<PathBuf, (Vec<u8>, std::time::SystemTime)> {
    let mut files = BTreeMap::new();
    let mut folders = vec![folder.to_owned()];
    while let Some(next) = folders.pop() {
        for entry in fs::read_dir(next).unwrap() {
            let path = entry.unwrap().path();
            let found = path.symlink_metadata().unwrap();
            let bytes = if found.is_file() { fs::read(&path).unwrap() } else { Vec::new() };
            if found.is_dir() {
                folders.push(path.clone());
            }
            files.insert(path, (bytes, found.modified().unwrap()));
        }
    }
    files
}

fn commit(fixture: &Fixture, message: &str) -> String {
    fixture.git(&["add", "-A"]);
    fixture.git(&["commit", "-qm", message]);
    fixture.git(&["rev-parse", "HEAD"])
}

/// Runs git in a copied history.
fn git_in(copied: &Path, arguments: &[&str]) -> String {
    let output = Command::new("git").arg("-C").arg(copied).args(arguments).output().unwrap();
    assert!(output.status.success(), "{arguments:?}: {output:?}");
    String::from_utf8(output.stdout).unwrap().trim_end().to_owned()
}

#[test]
fn a_copied_history_ends_at_its_commit_and_the_repository_stays_as_it_was() {
    let fixture = Fixture::committed();
    let base = fixture.git(&["rev-parse", "HEAD"]);
    fixture.write("later.txt", "later\n");
    let later = commit(&fixture, "later");
    fixture.git(&["tag", "-a", "v1", "-m", "release"]);
    fixture.git(&["pack-refs", "--all"]);
    fixture.write("a.txt", "uncommitted\n");
    fixture.write("untracked.txt", "new\n");
    let before = snapshot(&fixture.workspace);

    let reader = open(&fixture, &fixture.workspace).unwrap();
    assert_eq!((reader.head().as_str(), reader.branch()), (later.as_str(), Some("main")));
    let copied = fixture.folder.path().join("copied");
    fs::create_dir(&copied).unwrap();
    let id = ObjectId::parse(&base).unwrap();
    reader.write_history(&id, &copied.join(".git")).unwrap();
    reader.write_files(&id, None, &copied).unwrap();

    assert_eq!(snapshot(&fixture.workspace), before);
    assert_eq!(git_in(&copied, &["rev-parse", "HEAD"]), base);
    assert_eq!(git_in(&copied, &["status", "--porcelain"]), "");
    assert_eq!(git_in(&copied, &["for-each-ref", "--format=%(refname)"]), "refs/heads/main");
    assert_eq!(git_in(&copied, &["remote"]), "");
    let objects = ["cat-file", "--batch-all-objects", "--batch-check=%(objectname)"];
    let (all, wanted) = (git_in(&copied, &objects), fixture.git(&["rev-list", "--objects", &base]));
    let mut wanted: Vec<&str> = wanted.lines().filter_map(|line| line.split(' ').next()).collect();
    wanted.sort_unstable();
    assert_eq!(all.lines().collect::<Vec<_>>(), wanted);
    git_in(&copied, &["fsck", "--strict"]);
    let short = |id: &str| id.chars().take(8).collect::<String>();
    let words = [short(&later), later.to_uppercase(), short(&base)];
    let words = [words[0].as_str(), &words[1], &words[2], "0000000", "e69de29"];
    let is_later = reader.find_later_objects(&copied.join(".git"), &words).unwrap();
    assert_eq!(is_later, [true, true, false, false, false]);
}

#[test]
fn commits_are_listed_by_first_parents_with_what_they_change_and_say() {
    let fixture = Fixture::committed();
    let base = fixture.git(&["rev-parse", "HEAD"]);
    fixture.git(&["checkout", "-qb", "side"]);
    fixture.git(&["mv", "a.txt", "b.txt"]);
    commit(&fixture, "Rename it");
    std::os::unix::fs::symlink("b.txt", fixture.path("link")).unwrap();
    commit(&fixture, "Link it\n\nBecause.");
    fixture.git(&["checkout", "-q", "main"]);
    fixture.git(&["merge", "-q", "--no-ff", "-m", "Merge branch 'side'", "side"]);

    let reader = open(&fixture, &fixture.workspace).unwrap();
    let commits = reader.list_commits().unwrap();
    assert_eq!(commits.len(), 2, "{commits:?}");
    assert_eq!((commits[0].parents.len(), commits[0].parents[0].as_str()), (2, base.as_str()));
    assert!(commits[1].parents.is_empty());
    let (merge, first) = (&commits[0].id, &commits[0].parents[0]);
    let changes = reader.list_changes(first, merge).unwrap();
    let changes: Vec<_> = changes
        .iter()
        .map(|change| (change.path.to_string(), change.before, change.after))
        .collect();
    let (file, link) = (Some(EntryKind::File), Some(EntryKind::Link));
    let expected = [("a.txt", file, None), ("b.txt", None, file), ("link", None, link)];
    assert_eq!(changes, expected.map(|(path, before, after)| (path.to_owned(), before, after)));
    assert_eq!(reader.read_message(merge).unwrap().trim(), "Merge branch 'side'");
    let merged = reader.read_merged_messages(first, merge).unwrap();
    assert_eq!(merged, ["Rename it", "Link it\n\nBecause."]);
}

#[test]
fn bare_and_shallow_repositories_are_read_and_others_are_not() {
    let fixture = Fixture::committed();
    for number in 0..3 {
        fixture.write("a.txt", format!("{number}\n"));
        commit(&fixture, &format!("commit {number}"));
    }
    fixture.git(&["clone", "-q", "--bare", ".", "../bare.git"]);
    let source = format!("file://{}", fixture.workspace.display());
    fixture.git(&["clone", "-q", "--depth=2", &source, "../shallow"]);
    let beside = fixture.workspace.parent().unwrap();
    let reader = open(&fixture, &beside.join("bare.git")).unwrap();
    assert_eq!((reader.list_commits().unwrap().len(), reader.is_shallow()), (4, false));

    let reader = open(&fixture, &beside.join("shallow")).unwrap();
    let commits = reader.list_commits().unwrap();
    assert_eq!((commits.len(), reader.is_shallow()), (2, true));
    assert!(commits[1].parents.is_empty(), "the history is cut off there");
    let copied = beside.join("copied");
    fs::create_dir(&copied).unwrap();
    reader.write_history(&commits[1].id, &copied.join(".git")).unwrap();
    assert_eq!(git_in(&copied, &["log", "--format=%s"]), "commit 1");
    git_in(&copied, &["fsck"]);

    let nothing = beside.join("nothing");
    fs::create_dir(&nothing).unwrap();
    let error = open(&fixture, &nothing).err().unwrap();
    assert!(matches!(error, GitError::NotARepository(_)), "{error}");
    let empty = Fixture::new();
    let error = open(&empty, &empty.workspace).err().unwrap();
    assert!(matches!(error, GitError::EmptyRepository(_)), "{error}");
}

#[test]
fn a_message_of_any_encoding_is_text() {
    let fixture = Fixture::committed();
    fixture.write("message", b"Gr\xfc\xdfe\n");
    fixture.write("a.txt", "two\n");
    fixture.git(&["-c", "i18n.commitEncoding=ISO-8859-1", "commit", "-qaF", "message"]);
    let raw = fixture.git(&["cat-file", "commit", "HEAD"]);
    let (head, _) = raw.split_once("\n\n").unwrap();
    let head = head.replace("encoding ISO-8859-1", "encoding UTF-8");
    fixture.write("raw", [format!("{head}\n\n").as_bytes(), b"Gr\xfc\xdfe\n"].concat());
    let raw = fixture.git(&["hash-object", "-t", "commit", "-w", "raw"]);
    let reader = open(&fixture, &fixture.workspace).unwrap();
    let message = |id: &str| reader.read_message(&ObjectId::parse(id).unwrap()).unwrap();
    assert_eq!(message(reader.head().as_str()).trim(), "Grüße");
    assert_eq!(message(&raw).trim(), "Gr\u{fffd}\u{fffd}e");
}
