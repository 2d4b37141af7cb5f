//! What is noticed of protected paths.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use proptest::prelude::*;
use ralph_orchestrator_contract::{Change, ChangeKind};
use ralph_orchestrator_workspace::{Baseline, ProtectedError, ProtectedHasher};

use crate::support::Workspace;

fn globs(globs: &[&str]) -> Vec<String> {
    globs.iter().map(|glob| (*glob).to_owned()).collect()
}

fn take(ws: &Workspace, list: &[&str]) -> Baseline {
    Baseline::take(&ws.root(), &globs(list)).unwrap()
}

/// What an edit changes, as far as the globs go.
fn changes(ws: &Workspace, list: &[&str], edit: impl FnOnce(&Workspace)) -> Vec<Change> {
    let before = take(ws, list);
    edit(ws);
    before.changes(&take(ws, list), &globs(list)).unwrap()
}

fn change(path: &str, kind: ChangeKind) -> Vec<Change> {
    vec![Change { path: PathBuf::from(path), kind }]
}

/// Python takes them instead of what is protected.
#[test]
fn what_is_imported_instead_of_a_protected_module_is_added() {
    use ChangeKind::Added;
    let ws = Workspace::with_git();
    ws.write("tests/helper.py", "1").write("tests/built.py", "1").write("tests/built.so", "1");
    for list in [&["tests/*.py"][..], &["tests/helper.py", "tests/built.py"]] {
        for path in [
            "tests/helper.so",
            "tests/helper.abi3.so",
            "tests/helper.cpython-312-x86_64-linux-gnu.so",
            "tests/helper/__init__.py",
            "tests/helper/__init__.pyc",
            "tests/helper/__init__.abi3.so",
        ] {
            let added = changes(&ws, list, |ws| ws.write(path, "2").end());
            assert_eq!(added, change(path, Added), "{list:?}");
            ws.remove(path);
        }
        // Of no module that is protected; no package; there when the run began.
        for path in [
            "tests/other.so",
            "helper.so",
            "tests/helper/x.py",
            "tests/built.so",
            "a/helper/__init__.py",
        ] {
            assert_eq!(changes(&ws, list, |ws| ws.write(path, "2").end()), [], "{path}");
        }
        std::fs::remove_dir_all(ws.path("tests/helper")).unwrap();
    }
}

/// Python takes them instead of the folder that protected modules lie in.
#[test]
fn what_is_imported_instead_of_the_folder_of_protected_modules_is_added() {
    let ws = Workspace::with_git();
    ws.write("tests/unit/test_a.py", "1").write("package/__init__.py", "").write("there.py", "1");
    ws.write("package/tests/test_b.py", "1").write("there/test_c.py", "1").write("data/a.txt", "1");
    let list = ["**/test_*.py", "data/**"];
    for (path, text, is_added) in [
        ("tests.py", "__path__ = ['evil']", true),
        ("tests.pyc", "1", true),
        ("tests.so", "1", true),
        ("tests.cpython-312-x86_64-linux-gnu.so", "1", true),
        ("tests/unit.py", "1", true),
        ("tests/__init__.py", "__path__ = ['evil']", true),
        ("tests/__init__.abi3.so", "1", true),
        ("package/tests.py", "1", true),
        // Nothing is in it; the folder is a package, whose own name comes first; no module lies there; no module.
        ("tests/__init__.py", "", false),
        ("package.py", "1", false),
        ("data.py", "1", false),
        ("tests.txt", "1", false),
        ("other.py", "1", false),
        ("new/__init__.py", "1", false),
        ("there.py", "2", false),
    ] {
        let before = std::fs::read(ws.path(path)).ok();
        let expected = if is_added { change(path, ChangeKind::Added) } else { Vec::new() };
        assert_eq!(changes(&ws, &list, |ws| ws.write(path, text).end()), expected, "{path}");
        ws.remove(path);
        before.into_iter().for_each(|text| std::fs::write(ws.path(path), text).unwrap());
    }
    // As soon as the package is none, what lies beside it is taken.
    ws.write("package.py", "1");
    let found = changes(&ws, &list, |ws| ws.remove("package/__init__.py").end());
    assert_eq!(found, change("package.py", ChangeKind::Added));
}

/// Code counts in whatever folder it lies; the data of tools do not.
#[test]
fn below_a_glob_no_folder_hides_code() {
    let ws = Workspace::new();
    ws.write("tests/a.sh", "1").write("tests/repo/.git/HEAD", "ref: refs/heads/main");
    ws.write("tests/repo/.git/refs/heads/main", "1");
    for path in [
        "tests/.git/0.sh",
        "tests/.git/HEAD",
        "tests/b/.git/hooks/x",
        "tests/repo/.git/0.sh",
        "tests/repo/.git/hooks/post-checkout",
        "tests/.pytest_cache/0.sh",
        "tests/.pytest_cache/v/cache/0.sh",
        "tests/.mypy_cache/0.sh",
        "tests/.ruff_cache/0.sh",
        "tests/__pycache__/0.sh",
        "tests/.cache/0.sh",
    ] {
        let added = changes(&ws, &["tests/**"], |ws| ws.write(path, "2").end());
        assert_eq!(added, change(path, ChangeKind::Added));
        ws.remove(path);
    }
    for path in [
        ".git/HEAD",
        "tests/repo/.git/index",
        "tests/repo/.git/refs/heads/main",
        "tests/repo/.git/objects/0f/ab",
        "tests/__pycache__/a.cpython-312.pyc",
        "tests/.pytest_cache/v/cache/nodeids",
        "tests/.mypy_cache/3.12/a.meta.json",
    ] {
        assert_eq!(changes(&ws, &["tests/**"], |ws| ws.write(path, "2").end()), [], "{path}");
    }
}

/// Nothing that is protected is touched, and yet another file would be reached.
#[test]
fn a_path_that_is_led_elsewhere_is_a_change() {
    let rename = |ws: &Workspace, from: &str, to: &str| {
        std::fs::rename(ws.path(from), ws.path(to)).unwrap();
    };
    let relink = |ws: &Workspace, link: &str, target: &str| {
        ws.remove(link).link(link, target).end();
    };
    let replace = |ws: &Workspace, folder: &str| {
        rename(ws, folder, "old");
        ws.link(folder, "evil/app").end();
    };
    type Edit<'a> = &'a dyn Fn(&Workspace);
    let table: &[(&str, Edit<'_>, &str)] = &[
        ("app/../ci/check.sh", &|ws| replace(ws, "app"), "app/../ci/check.sh"),
        ("app", &|ws| replace(ws, "app"), "app"),
        ("app/deep", &|ws| replace(ws, "app"), "app/deep"),
        ("link/../ci/check.sh", &|ws| relink(ws, "link", "evil/app"), "link/../ci/check.sh"),
        ("link/main", &|ws| relink(ws, "link", "evil/app"), ""),
        ("link", &|ws| relink(ws, "link", "evil/app"), "link"),
        ("to-check", &|ws| relink(ws, "to-check", "evil/ci/check.sh"), "to-check"),
        ("gone/../ci/check.sh", &|ws| ws.link("gone", "evil/app").end(), "gone/../ci/check.sh"),
        ("to-outside", &|ws| relink(ws, "to-outside", "evil/ci/check.sh"), "to-outside"),
        // What an honest agent does.
        ("app", &|ws| rename(ws, "app", "old"), ""),
        ("app/main", &|ws| relink(ws, "app/main", "../free.sh"), ""),
        ("build", &|ws| ws.link("build", "evil/app").end(), ""),
        ("build/../free.sh", &|ws| ws.link("build", "app").end(), ""),
        ("node_modules/.bin/tool", &|ws| relink(ws, "node_modules/.bin/tool", "../../free.sh"), ""),
        ("node_modules/x", &|ws| relink(ws, "node_modules/x", "../evil"), ""),
        (".venv/bin/python", &|ws| relink(ws, ".venv/bin/python", "/bin/cat"), ""),
        ("ci/check.sh", &|ws| ws.write("free.sh", "2").end(), ""),
        ("link/../ci/check.sh", &|ws| ws.write("app/new", "2").end(), ""),
    ];
    for (path, edit, expected) in table {
        let ws = Workspace::new();
        ws.write("ci/check.sh", "1").write("evil/ci/check.sh", "1").write("free.sh", "1");
        ws.write("app/main", "1").write("app/deep/x", "1").write("evil/app/deep/x", "1");
        ws.write("evil/app/main", "1").link("link", "app").link("to-check", "ci/check.sh");
        ws.write("packages/x/index.js", "1").write("node_modules/.bin/other", "1");
        ws.link("node_modules/.bin/tool", "../../packages/x/index.js");
        ws.link("node_modules/x", "../packages/x").link("to-outside", "/bin/sh");
        ws.write(".venv/pyvenv.cfg", "1").write(".venv/bin/activate", "1");
        ws.link(".venv/bin/python", "/bin/sh");
        let mut before = take(&ws, &["ci/**"]);
        // As a command joins it, so that `..` stays.
        let paths = [ws.root().join(path)];
        before.add_passed(&ws.root(), paths.clone());
        let kept = serde_json::to_string(&before).unwrap();
        let before: Baseline = serde_json::from_str(&kept).unwrap();
        assert_eq!(before.passed_changes(&ws.root(), &paths), [], "{path}");
        edit(&ws);
        let expected =
            if expected.is_empty() { Vec::new() } else { change(expected, ChangeKind::Redirected) };
        assert_eq!(before.passed_changes(&ws.root(), &paths), expected, "{path}");
    }
}

#[test]
fn every_kind_of_change_is_named() {
    use ChangeKind::{Added, Modified, Removed};
    let ws = Workspace::with_git();
    ws.write("tests/a.py", "1").write("Makefile", "1").write("src/x", "1");
    let list = ["tests/**", "Makefile", "**/conftest.py"];
    let changed = |edit: &dyn Fn(&Workspace)| changes(&ws, &list, edit);
    assert_eq!(changed(&|ws| ws.write("src/x", "2").write("README", "2").end()), []);
    assert_eq!(changed(&|ws| ws.write("tests/a.py", "1").end()), [], "same content");
    assert_eq!(changed(&|ws| ws.write("tests/a.py", "2").end()), change("tests/a.py", Modified));
    assert_eq!(changed(&|ws| ws.mode("Makefile", 0o755).end()), change("Makefile", Modified));
    assert_eq!(changed(&|ws| ws.mode("Makefile", 0o700).end()), []);
    assert_eq!(changed(&|ws| ws.write("tests/b/c", "").end()), change("tests/b/c", Added));
    assert_eq!(
        changed(&|ws| ws.write("src/conftest.py", "").end()),
        change("src/conftest.py", Added)
    );
    assert_eq!(changed(&|ws| ws.remove("tests/b/c").end()), change("tests/b/c", Removed));
    let to_link = |ws: &Workspace| ws.remove("Makefile").link("Makefile", "src/x").end();
    assert_eq!(changed(&to_link), change("Makefile", Modified));
    let elsewhere = |ws: &Workspace| ws.remove("Makefile").link("Makefile", "tests/a.py").end();
    assert_eq!(changed(&elsewhere), change("Makefile", Modified));
    let to_pipe = |ws: &Workspace| ws.remove("Makefile").fifo("Makefile").end();
    assert_eq!(changed(&to_pipe), change("Makefile", Modified));
    let to_folder = |ws: &Workspace| {
        ws.remove("Makefile");
        std::fs::create_dir(ws.path("Makefile")).unwrap();
    };
    assert_eq!(changed(&to_folder), change("Makefile", Removed));
}

#[test]
fn a_folder_behind_a_link_is_gone() {
    let ws = Workspace::new();
    ws.write("tests/a", "1").write("copy/a", "1");
    let found = changes(&ws, &["tests"], |ws| {
        std::fs::rename(ws.path("tests"), ws.path("moved")).unwrap();
        ws.link("tests", "copy");
    });
    assert_eq!(
        found,
        [change("tests", ChangeKind::Added), change("tests/a", ChangeKind::Removed)].concat()
    );
}

#[test]
fn ignored_files_are_protected_and_git_only_by_name() {
    let ws = Workspace::with_git();
    ws.write(".gitignore", "secret\n").write("secret", "1").write(".git/hooks/x", "1");
    let edit = |ws: &Workspace| ws.write("secret", "2").write(".git/hooks/x", "2").end();
    assert_eq!(changes(&ws, &["**"], edit), change("secret", ChangeKind::Modified));
    let edit = |ws: &Workspace| ws.write("secret", "3").write(".git/hooks/x", "3").end();
    assert_eq!(changes(&ws, &[".git/hooks"], edit), change(".git/hooks/x", ChangeKind::Modified));
}

#[test]
fn changes_are_reported_for_the_asked_globs_only() {
    let ws = Workspace::new();
    ws.write("a", "1").write("b", "1");
    let before = take(&ws, &["a", "b"]);
    ws.write("a", "2").write("b", "2");
    let now = take(&ws, &["a", "b"]);
    let for_a = before.changes(&now, &globs(&["a"])).unwrap();
    assert_eq!(for_a, change("a", ChangeKind::Modified));
    assert_eq!(before.changes(&now, &[]).unwrap(), []);
    assert!(take(&ws, &[]).is_empty());
    assert_eq!(before.len(), 2);
}

#[test]
fn what_is_wrong_is_named() {
    let ws = Workspace::new();
    let error = Baseline::take(&ws.root(), &globs(&["ok", "a[b"])).unwrap_err();
    assert!(matches!(error, ProtectedError::Glob(_)));
    assert!(error.to_string().contains("a[b"), "{error}");
    let error = Baseline::default().changes(&Baseline::default(), &globs(&["../x"])).unwrap_err();
    assert!(error.to_string().contains("../x"), "{error}");
    let error = Baseline::take(&ws.path("gone"), &globs(&["x"])).unwrap_err();
    assert!(error.to_string().contains("gone"), "{error}");
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 40, ..ProptestConfig::default() })]
    #[test]
    fn a_baseline_comes_back_from_json(
        names in prop::collection::vec(
            prop::collection::vec(any::<u8>().prop_filter("a name", |byte| *byte != 0 && *byte != b'/'), 1..20),
            0..6,
        ),
    ) {
        let ws = Workspace::new();
        for name in names.iter().filter(|name| !matches!(name.as_slice(), b"." | b".." | b".git")) {
            ws.write(name, name);
        }
        let baseline = take(&ws, &["**"]);
        let json = serde_json::to_string(&baseline).unwrap();
        prop_assert_eq!(&serde_json::from_str::<Baseline>(&json).unwrap(), &baseline);
        prop_assert_eq!(baseline.changes(&take(&ws, &["**"]), &globs(&["**"])).unwrap(), vec![]);
    }
}

#[test]
fn a_damaged_baseline_is_refused() {
    assert!(serde_json::from_str::<Baseline>(r#"{"a\\q":"file 00"}"#).is_err());
}

#[test]
fn more_paths_than_can_be_protected_are_some_that_were_added() {
    let ws = Workspace::new();
    ws.write("tests/kept", "x").write("tests/gone", "x");
    let globs = globs(&["tests/**"]);
    let before = Baseline::take(&ws.root(), &globs).unwrap();
    ws.remove("tests/gone");
    // Links are the cheapest of files: all are the same one.
    let folder = ws.path("tests/many");
    std::fs::create_dir(&folder).unwrap();
    std::fs::write(folder.join("0"), "x").unwrap();
    for number in 1..=200_001 {
        if std::fs::hard_link(folder.join("0"), folder.join(number.to_string())).is_err() {
            // Some file systems give a file only so many names.
            std::fs::write(folder.join(number.to_string()), "").unwrap();
        }
    }
    assert!(Baseline::take(&ws.root(), &globs).is_err(), "at the start it is a mistake");
    let now = Baseline::observe(&ws.root(), &globs, Arc::default()).unwrap();
    let changes = before.changes(&now, &globs).unwrap();
    assert!(!changes.is_empty());
    assert!(changes.iter().all(|change| change.kind == ChangeKind::Added), "{:?}", changes[0]);
}

#[test]
fn a_look_is_cancelled_however_large_the_files_are() {
    let ws = Workspace::new();
    let file = std::fs::File::create(ws.path("huge")).unwrap();
    file.set_len(8 << 40).unwrap();
    let flag = Arc::new(AtomicBool::new(true));
    let taken = Baseline::take_until(&ws.root(), &globs(&["**"]), flag);
    assert!(matches!(taken, Err(ProtectedError::Cancelled)), "{taken:?}");
    assert_eq!(take(&ws, &["**"]).len(), 1, "and in no time if it is not");
}

#[test]
fn what_is_reserved_is_what_was_not_there_and_survives_being_written_down() {
    let ws = Workspace::with_git();
    ws.write("there.py", "x");
    ws.write("package/a", "x");
    std::fs::create_dir(ws.path("empty")).unwrap();
    let all = globs(&["there.py", "package", "gone.py", "empty", "deep/er"]);
    let mut before = Baseline::default();
    before.reserve(&ws.root(), &all).unwrap();
    let kept = serde_json::to_string(&before).unwrap();
    let before: Baseline = serde_json::from_str(&kept).unwrap();
    let reserved = before.reserved(&all);
    assert_eq!(reserved, ["gone.py", "empty", "deep/er"]);
    // A later version that reserves more does not change what this run reserves.
    assert!(before.reserved(&globs(&["new.py"])).is_empty());
    ws.write("there.py", "y");
    ws.write("package/b", "x");
    ws.write("empty/file", "");
    ws.write("deep/er/still", "");
    let now = Baseline::observe(&ws.root(), &reserved, Arc::default()).unwrap();
    let changes = before.changes(&now, &reserved).unwrap();
    let named: Vec<String> =
        changes.iter().map(|change| change.path.display().to_string()).collect();
    assert_eq!(named, ["deep/er/still", "empty/file"]);
    assert!(changes.iter().all(|change| change.kind == ChangeKind::Added));
}

/// Sets the time of the last modification back to what it was.
fn set_back(path: &std::path::Path, to: std::time::SystemTime) {
    std::fs::File::options().write(true).open(path).unwrap().set_modified(to).unwrap();
}

/// Whatever the clock of the file system shows: two writes may leave the same time.
#[test]
fn a_hasher_that_is_used_again_misses_no_rewrite() {
    let ws = Workspace::new();
    let list = globs(&["**"]);
    let mut hasher = ProtectedHasher::default();
    let mut look = || hasher.observe(&ws.root(), &list, Arc::default()).unwrap();
    ws.write("a", "0000");
    let modified = std::fs::metadata(ws.path("a")).unwrap().modified().unwrap();
    let mut before = look();
    for round in 1..100 {
        ws.write("a", format!("{round:04}"));
        set_back(&ws.path("a"), modified);
        let now = look();
        let changes = before.changes(&now, &list).unwrap();
        assert_eq!(changes, change("a", ChangeKind::Modified), "{round}");
        before = now;
    }
    ws.remove("a").write("b", "0099");
    assert_eq!(before.changes(&look(), &list).unwrap().len(), 2);
    assert_eq!(look(), take(&ws, &["**"]), "as one that is used once");
}
