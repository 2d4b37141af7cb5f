//! Work that no clone of a commit would have, or not as it is.

use std::path::Path;
use std::sync::Arc;

use ralph_orchestrator_workspace::{
    IndexMark, PinnedPaths, TreeHasher, Uncommitted, UncommittedReason,
};

use crate::support::{Workspace, git};

/// Returns what a run that began in this workspace has to know later.
fn begin(workspace: &Path) -> Arc<PinnedPaths> {
    let mut hasher = TreeHasher::new(workspace.to_owned(), Vec::new());
    let snapshot = hasher.snapshot().unwrap();
    let paths: PinnedPaths = snapshot.paths().collect();
    let pins = paths.with_outer_rules(Some(hasher.outer_rules().clone()));
    Arc::new(pins.with_uncommitted(snapshot.uncommitted().to_vec()))
}

fn find(workspace: &Path, pins: &Arc<PinnedPaths>) -> Vec<Uncommitted> {
    let mut hasher = TreeHasher::new(workspace.to_owned(), Vec::new());
    hasher.pin(Arc::clone(pins));
    pins.find_uncommitted(&hasher.snapshot().unwrap())
}

fn found(path: &str, reason: UncommittedReason) -> Uncommitted {
    Uncommitted { path: path.into(), reason }
}

/// A repository with `a` and `b`, and `forced`, which is tracked and ignored.
fn repository() -> Workspace {
    let ws = Workspace::with_git();
    ws.write(".gitignore", "forced\n").write("a", "x").write("b", "x").write("forced", "x");
    ws.git(&["add", "-A"]);
    ws.git(&["add", "-f", "forced"]);
    ws.git(&["commit", "-qm", "x"]);
    ws
}

#[test]
fn work_that_git_ignores_and_tracks_no_longer_is_found() {
    let ws = repository();
    let pins = begin(&ws.root());
    ws.write("a", "y").write("forced", "y").write(".gitignore", "forced\na\nb\n");
    assert_eq!(find(&ws.root(), &pins), [], "it is tracked");
    ws.git(&["rm", "-q", "--cached", "a", "forced"]);
    let untracked = |path| found(path, UncommittedReason::Untracked);
    assert_eq!(find(&ws.root(), &pins), [untracked("a"), untracked("forced")]);
    ws.write(".gitignore", "");
    assert_eq!(find(&ws.root(), &pins), [], "the next commit has it");
    ws.write(".gitignore", "a\n");
    ws.git(&["update-index", "--split-index"]);
    let unread = find(&ws.root(), &pins);
    let [Uncommitted { reason: UncommittedReason::UnreadIndex { problem }, .. }] = &*unread else {
        panic!("{unread:?}");
    };
    assert!(problem.contains("split index"));
    assert_eq!(find(&ws.root(), &begin(&ws.root())), [], "as when the run began");
    std::fs::remove_dir_all(ws.path(".git")).unwrap();
    assert_eq!(find(&ws.root(), &pins), [], "nobody takes it for one that has the work");
}

#[test]
fn without_a_repository_nothing_is_said() {
    let ws = Workspace::new();
    ws.write("a", "x");
    let pins = begin(&ws.root());
    ws.write(".gitignore", "a\n").link("out", "/etc").fifo("pipe");
    assert_eq!(find(&ws.root(), &pins), []);
}

#[test]
fn what_git_takes_for_unchanged_is_found() {
    let ws = repository();
    ws.git(&["update-index", "--assume-unchanged", "forced"]);
    let pins = begin(&ws.root());
    assert_eq!(find(&ws.root(), &pins), []);
    ws.git(&["update-index", "--assume-unchanged", "a"]);
    ws.git(&["update-index", "--skip-worktree", "b"]);
    let overlooked = |path, mark| found(path, UncommittedReason::Overlooked { mark });
    let expected =
        [overlooked("a", IndexMark::AssumeUnchanged), overlooked("b", IndexMark::SkipWorktree)];
    assert_eq!(find(&ws.root(), &pins), expected);
}

#[test]
fn settings_by_which_git_overlooks_work_are_found() {
    let ws = repository();
    ws.git(&["config", "core.fileMode", "off"]);
    let pins = begin(&ws.root());
    ws.git(&["config", "core.fsmonitor", "true"]);
    ws.git(&["config", "core.ignoreStat", "false"]);
    ws.git(&["config", "core.trustctime", "true"]);
    assert_eq!(find(&ws.root(), &pins), [], "as it was, or harmless");
    ws.git(&["config", "core.trustctime", "no"]);
    ws.git(&["config", "core.checkStat", "minimal"]);
    ws.git(&["config", "core.fsmonitor", "/bin/true"]);
    let setting = |text: &str| found("", UncommittedReason::Setting { setting: text.to_owned() });
    let expected =
        ["core.checkstat=minimal", "core.fsmonitor=/bin/true", "core.trustctime=no"].map(setting);
    assert_eq!(find(&ws.root(), &pins), expected);
}

#[test]
fn a_sparse_checkout_of_the_start_is_no_find() {
    let ws = repository();
    for number in 0..1100 {
        ws.write(format!("far/{number}"), "x");
    }
    ws.git(&["add", "-A"]);
    ws.git(&["commit", "-qm", "far"]);
    let whole = begin(&ws.root());
    ws.git(&["sparse-checkout", "set", "near"]);
    let pins = begin(&ws.root());
    ws.git(&["sparse-checkout", "set", "other"]);
    ws.write("far/0", "y");
    assert_eq!(find(&ws.root(), &pins), []);
    let all = find(&ws.root(), &whole);
    assert!(matches!(&*all, [one] if one.path == Path::new("")), "{all:?}");
}

#[test]
fn links_that_leave_the_repository_and_what_is_no_file_are_found() {
    let outer = Workspace::with_git();
    let ws = outer.path("ws");
    outer.write("ws/d/f", "x").link("ws/before", "/etc").fifo("ws/waiting");
    git(&ws, &["add", "-A"]);
    let pins = begin(&ws);
    let inside = ["d/f", "../shared", "./d/../../x"];
    let root = outer.root();
    let absolute = ws.join("d/f");
    let outside =
        ["../../x", "/etc/passwd", "d/../../../x", root.to_str().unwrap(), "../../../ws/x"];
    for (number, target) in inside.iter().chain([&absolute.to_str().unwrap()]).enumerate() {
        outer.link(&format!("ws/in{number}"), target);
    }
    for (number, target) in outside.iter().enumerate() {
        outer.link(&format!("ws/out{number}"), target);
    }
    outer.link("ws/d/up", "../../../x").link("ws/d/stays", "../../x").fifo("ws/pipe");
    let mut expected: Vec<Uncommitted> = outside
        .iter()
        .enumerate()
        .map(|(number, target)| {
            let target = (*target).to_owned();
            found(&format!("out{number}"), UncommittedReason::LeadsOutside { target })
        })
        .collect();
    expected.push(found("pipe", UncommittedReason::NoFile));
    expected
        .push(found("d/up", UncommittedReason::LeadsOutside { target: "../../../x".to_owned() }));
    let mut ours = find(&ws, &pins);
    ours.sort_by(|one, other| one.path.cmp(&other.path));
    expected.sort_by(|one, other| one.path.cmp(&other.path));
    assert_eq!(ours, expected);
}
