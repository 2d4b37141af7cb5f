//! What counts, compared with what git says.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};

use proptest::prelude::*;

use crate::support::{Workspace, git};

/// What git would look at: tracked files that are there, and untracked ones not ignored.
fn counted_by_git(ws: &Workspace) -> Vec<PathBuf> {
    let output = ws.git(&["ls-files", "-z", "--cached", "--others", "--exclude-standard"]);
    let mut paths: Vec<PathBuf> = output
        .stdout
        .split(|byte| *byte == 0)
        .filter(|path| !path.is_empty())
        .map(|path| PathBuf::from(OsStr::from_bytes(path)))
        .filter(|path| ws.root().join(path).symlink_metadata().is_ok())
        .collect();
    paths.sort();
    paths.dedup();
    paths
}

#[test]
fn ignore_rules_are_respected_with_and_without_a_repository() {
    for ws in [Workspace::new(), Workspace::with_git()] {
        ws.write(".gitignore", "*.o\n/build/\n!keep.o\n# c\n")
            .write("d/.gitignore", "!x.o\nsecret\n");
        for file in ["a.o", "keep.o", "build/x", "d/x.o", "d/y.o", "d/build/x", "d/secret", "f"] {
            ws.write(file, "x");
        }
        let expected =
            [".gitignore", "d/.gitignore", "d/build/x", "d/x.o", "f", "keep.o"].map(str::to_owned);
        assert_eq!(ws.paths(), expected);
        assert!(!ws.changes(|ws| ws.write("build/x", "y").write("build/new", "y").end()));
        assert!(ws.changes(|ws| ws.write("keep.o", "y").end()));
    }
}

#[test]
fn rules_of_other_tools_do_not_count() {
    let ws = Workspace::with_git();
    ws.write(".ignore", "f\n").write(".rgignore", "f\n").write("f", "x");
    std::fs::write(ws.beside(".gitignore"), "f\n").unwrap();
    assert_eq!(ws.paths(), [".ignore", ".rgignore", "f"]);
    ws.write(".git/info/exclude", "f\n");
    assert_eq!(ws.paths(), [".ignore", ".rgignore"]);
}

#[test]
fn editing_the_rules_is_a_change() {
    let ws = Workspace::with_git();
    ws.write(".gitignore", "*.log\n").write("a.log", "x").write("f", "x");
    assert!(ws.changes(|ws| ws.write(".gitignore", "*.log\n\n").end()));
    assert!(ws.changes(|ws| ws.write(".gitignore", "\n").end()));
    // Rules that hide everything, themselves included, are seen as well.
    assert!(ws.changes(|ws| ws.write(".gitignore", "*\n").end()));
    assert_eq!(ws.paths(), [".gitignore"]);
    assert!(ws.changes(|ws| ws.write(".gitignore", "*\n#\n").end()));
}

#[test]
fn odd_rule_files_stop_nobody() {
    let ws = Workspace::with_git();
    ws.write("f", "x").write("a{b}", "x").write("acb", "x");
    let odd: [&[u8]; 8] = [
        b"\xef\xbb\xbff\r\n",
        b"\xff\xfe\nf\n",
        b"[\nf\n***\n",
        b"a{b}\n",
        b"\\\n\\\\\nf\\\n",
        b"a\0b\nf\n",
        &b"{".repeat(400_000),
        &b"*a".repeat(2_000),
    ];
    for rules in odd {
        ws.write(".gitignore", rules);
        let _ = ws.state();
    }
    ws.write(".gitignore", b"\xef\xbb\xbff\r\na{c,b}\n");
    assert_eq!(ws.paths(), [".gitignore", "acb", "a{b}"]);
    ws.write(".gitignore", b"a{b}\n\xff\n");
    assert_eq!(ws.paths(), [".gitignore", "acb", "f"]);
    // Too large to be read, and said so; it hides nothing.
    ws.write(".gitignore", b"f\n".repeat(300_000));
    let state = ws.state();
    assert_eq!(state.files, 4);
    assert!(state.notes.iter().any(|note| note.contains(".gitignore")), "{:?}", state.notes);
    // A link with rules is content, not rules; git sees it so, too.
    ws.remove(".gitignore").write("rules", "f\n").link(".gitignore", "rules");
    assert_eq!(ws.paths(), [".gitignore", "acb", "a{b}", "f", "rules"]);
    ws.remove(".gitignore").write(".gitignore/x", "");
    assert_eq!(ws.state().files, 5);
}

#[test]
fn what_is_tracked_counts_though_ignored() {
    for version in ["2", "3", "4"] {
        let ws = Workspace::with_git();
        ws.write(".gitignore", "ignored/\n*.log\n").write("ignored/deep/tracked", "x");
        ws.write("ignored/other", "x").write("a.log", "x").write("b.log", "x");
        assert_eq!(ws.state().files, 1);
        ws.git(&["add", "-f", "ignored/deep/tracked", "a.log"]);
        ws.git(&["update-index", "--index-version", version]);
        assert_eq!(ws.paths(), [".gitignore", "a.log", "ignored/deep/tracked"]);
        assert!(ws.changes(|ws| ws.write("a.log", "y").end()));
        assert!(ws.changes(|ws| ws.write("ignored/deep/tracked", "y").end()));
        assert!(!ws.changes(|ws| ws.write("ignored/other", "y").write("b.log", "y").end()));
        assert!(!ws.changes(|ws| ws.write("ignored/deep/.gitignore", "x").end()));
        assert!(ws.changes(|ws| ws.remove("ignored/deep/tracked").end()));
        assert!(!ws.changes(|ws| drop(ws.git(&["commit", "-qm", "x"]))), "committing is no edit");
    }
}

#[test]
fn a_link_on_the_way_to_a_tracked_file_is_not_followed() {
    let ws = Workspace::with_git();
    ws.write(".gitignore", "ignored\n").write("ignored/f", "x");
    ws.git(&["add", "-f", "ignored/f"]);
    std::fs::rename(ws.path("ignored"), ws.beside("moved")).unwrap();
    ws.link("ignored", "../moved");
    assert_eq!(ws.paths(), [".gitignore"]);
}

#[test]
fn an_index_that_cannot_be_read_is_reported() {
    let ws = Workspace::with_git();
    ws.write(".gitignore", "*.log\n").write("a.log", "x").write("f", "x");
    ws.git(&["add", "-f", "a.log"]);
    assert_eq!(ws.state().files, 3);
    ws.git(&["update-index", "--split-index"]);
    let state = ws.state();
    assert_eq!(state.files, 2);
    assert!(state.notes.iter().any(|note| note.contains("split index")), "{:?}", state.notes);
    ws.write(".git/index", "garbage");
    let state = ws.state();
    assert_eq!(state.files, 2);
    assert!(state.notes.iter().any(|note| note.contains("damaged")), "{:?}", state.notes);
}

#[test]
fn the_index_is_read_anew_when_it_changes() {
    let ws = Workspace::with_git();
    ws.write(".gitignore", "*.log\n").write("a.log", "x");
    let mut hasher = ws.hasher();
    assert_eq!(hasher.digest().unwrap().files, 1);
    ws.git(&["add", "-f", "a.log"]);
    assert_eq!(hasher.digest().unwrap().files, 2);
    ws.git(&["rm", "-q", "--cached", "a.log"]);
    assert_eq!(hasher.digest().unwrap().files, 1);
    std::fs::remove_dir_all(ws.path(".git")).unwrap();
    assert_eq!(hasher.digest().unwrap().files, 1);
}

#[test]
fn a_workspace_within_a_repository_follows_its_rules() {
    let outer = Workspace::with_git();
    outer.write(".gitignore", "target/\n/pkg/gen\n*.log\n").write("pkg/.gitignore", "!b.log\n");
    for file in ["target/x", "gen", "a.log", "b.log", "src/f", "tracked.log"] {
        outer.write(format!("pkg/{file}"), "x");
    }
    outer.git(&["add", "-f", "pkg/tracked.log"]);
    let pkg = outer.path("pkg");
    let paths = || {
        let mut hasher = ralph_orchestrator_workspace::TreeHasher::new(pkg.clone(), Vec::new());
        let snapshot = hasher.snapshot().unwrap();
        let paths = snapshot.paths().collect::<Vec<_>>();
        paths.iter().map(|path| path.to_str().unwrap().to_owned()).collect::<Vec<_>>()
    };
    assert_eq!(paths(), [".gitignore", "b.log", "src/f", "tracked.log"]);
    // A repository that ignores all of the workspace (a home folder kept in git) is not about it.
    for rules in ["*\n", "/pkg\n", "pkg/\n"] {
        outer.write(".gitignore", rules);
        assert_eq!(paths().len(), 7, "{rules}");
    }
    let mut hasher = ralph_orchestrator_workspace::TreeHasher::new(pkg.clone(), Vec::new());
    assert!(hasher.digest().unwrap().notes.iter().any(|note| note.contains("hide")));
}

#[test]
fn worktrees_are_understood() {
    let ws = Workspace::with_git();
    ws.write(".gitignore", "*.log\n").write("a.log", "x");
    ws.git(&["add", "-f", "-A"]);
    ws.git(&["commit", "-qm", "x"]);
    let tree = ws.beside("tree");
    ws.git(&["worktree", "add", "-q", tree.to_str().unwrap()]);
    std::fs::write(tree.join("b.log"), "x").unwrap();
    std::fs::write(tree.join("c.tmp"), "x").unwrap();
    ws.write(".git/info/exclude", "*.tmp\n");
    let mut hasher = ralph_orchestrator_workspace::TreeHasher::new(tree, Vec::new());
    assert_eq!(
        hasher.snapshot().unwrap().paths().collect::<Vec<_>>(),
        [".gitignore", "a.log"].map(PathBuf::from)
    );
    assert_eq!(hasher.digest().unwrap().digest, ws.state().digest);
}

#[test]
fn nested_repositories_are_folders_like_others() {
    let ws = Workspace::with_git();
    std::fs::create_dir(ws.path("nested")).unwrap();
    git(&ws.path("nested"), &["init", "-q"]);
    ws.write("nested/f", "x").write("nested/.gitignore", "*.o\n").write("nested/a.o", "x");
    assert_eq!(ws.paths(), ["nested/.gitignore", "nested/f"]);
    assert!(ws.changes(|ws| ws.write("nested/f", "y").end()));
    let nested = ws.path("nested");
    git(&nested, &["add", "f"]);
    assert!(!ws.changes(|_| drop(git(&nested, &["commit", "-qm", "x"]))));
}

#[test]
fn submodules_count_though_ignored() {
    let (module, ws) = (Workspace::with_git(), Workspace::with_git());
    module.write("f", "x");
    module.git(&["add", "-A"]);
    module.git(&["commit", "-qm", "x"]);
    let url = module.root();
    ws.git(&["submodule", "--quiet", "add", url.to_str().unwrap(), "sub"]);
    ws.write(".gitignore", "sub\n");
    assert!(ws.path("sub/.git").is_file());
    assert_eq!(ws.paths(), [".gitignore", ".gitmodules", "sub/f"]);
    assert!(ws.changes(|ws| ws.write("sub/f", "y").end()));
}

fn name() -> impl Strategy<Value = String> {
    prop::sample::select(vec!["a", "b", "ab", "a.o", "b.o", ".h", "d", "e", "é", "x y"])
        .prop_map(str::to_owned)
}

fn path() -> impl Strategy<Value = String> {
    prop::collection::vec(name(), 1..4).prop_map(|names| names.join("/"))
}

fn rule() -> impl Strategy<Value = String> {
    let pattern = prop_oneof![
        4 => path(),
        1 => Just("*".to_owned()),
        2 => Just("*.o".to_owned()),
        1 => Just("**/b".to_owned()),
        1 => Just("a/**".to_owned()),
        1 => Just("d/*".to_owned()),
        1 => Just("[a-b]".to_owned()),
        1 => Just("?".to_owned()),
    ];
    (any::<bool>(), any::<bool>(), any::<bool>(), pattern).prop_map(
        |(not, top, folder, pattern)| {
            let sign = |yes: bool, text: &'static str| if yes { text } else { "" };
            format!("{}{}{pattern}{}", sign(not, "!"), sign(top, "/"), sign(folder, "/"))
        },
    )
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 60, ..ProptestConfig::default() })]
    #[test]
    fn what_counts_is_what_git_says(
        files in prop::collection::btree_set(path(), 1..25),
        rules in prop::collection::vec((prop_oneof![Just(String::new()), path()], prop::collection::vec(rule(), 1..5)), 0..3),
        added in prop::collection::vec(any::<prop::sample::Index>(), 0..3),
    ) {
        let ws = Workspace::with_git();
        let mut made = Vec::new();
        for file in &files {
            let path = ws.path(file);
            if std::fs::create_dir_all(path.parent().unwrap()).is_ok()
                && std::fs::write(&path, file).is_ok()
            {
                made.push(file.clone());
            }
        }
        for (folder, rules) in &rules {
            if ws.path(folder).is_dir() {
                ws.write(format!("{folder}/.gitignore").trim_start_matches('/'), rules.join("\n"));
            }
        }
        for index in added {
            ws.git(&["add", "-f", "--", index.get(&made).as_str()]);
        }
        // Rules that hide themselves count here, unlike for git.
        let counted = |paths: Vec<PathBuf>| -> Vec<PathBuf> {
            paths.into_iter().filter(|path| !path.ends_with(".gitignore")).collect()
        };
        let mut ours = counted(ws.hasher().snapshot().unwrap().paths().map(Path::to_owned).collect());
        ours.sort_unstable();
        prop_assert_eq!(ours, counted(counted_by_git(&ws)), "rules: {:?}", rules);
    }
}
