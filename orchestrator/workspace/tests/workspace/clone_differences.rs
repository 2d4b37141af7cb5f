//! Work that a clone has otherwise than it is, compared with a real clone.

use std::path::{Path, PathBuf};

use ralph_orchestrator_workspace::{CloneDifferences, Conversion, GitEnvironment, PinnedPaths};

use crate::support::{Workspace, git};

fn find(ws: &Workspace, changed: &[&str]) -> CloneDifferences {
    let changed: Vec<PathBuf> = changed.iter().map(PathBuf::from).collect();
    let pinned: PinnedPaths = ["old"].into_iter().collect();
    CloneDifferences::find(&ws.root(), &changed, &pinned, &GitEnvironment::default())
}

/// Whether a clone of a commit of everything has other bytes.
fn is_other_in_clone(ws: &Workspace, file: &str) -> bool {
    ws.git(&["add", "-A"]);
    ws.git(&["commit", "-qm", "x"]);
    let clone = ws.beside("clone");
    git(&ws.root(), &["clone", "-q", ".", clone.to_str().unwrap()]);
    std::fs::read(clone.join(file)).unwrap() != std::fs::read(ws.path(file)).unwrap()
}

#[test]
fn line_ends_that_git_does_not_store_are_found() {
    // The attributes, and a file with its content.
    let cases: &[(&str, &str, &[u8])] = &[
        ("* text=auto\n", "f", b"a\r\n"),
        ("* text=auto\n", "f", b"a\n"),
        ("* text=auto\n", "f", b"a\0\r\n"),
        ("* text=auto eol=crlf\n", "f", b"a\r\n"),
        ("* text eol=lf\n", "f", b"a\r\n"),
        ("* eol=lf\n", "f", b"a\r\n"),
        ("*.txt text\n", "f", b"a\r\n"),
        ("*.txt text\n", "d/f.txt", b"a\r\n"),
        ("* text\n*.txt -text\n", "f.txt", b"a\r\n"),
        ("* text\n*.txt binary\n", "f.txt", b"a\r\n"),
        ("* text\n*.txt !text\n", "f.txt", b"a\r\n"),
        ("/f.txt text\n", "d/f.txt", b"a\r\n"),
        ("\"f g\" text\n", "f g", b"a\r\n"),
        ("* text=auto\n", ".gitattributes", b"* text=auto\r\n"),
        ("", "f", b"a\r\n"),
    ];
    for (attributes, file, content) in cases {
        let ws = Workspace::with_git();
        ws.write(".gitattributes", attributes).write(file, content);
        let found = find(&ws, &[file]);
        let is_found = found.converted.contains_key(&Conversion::LineEnds);
        assert_eq!(is_found, is_other_in_clone(&ws, file), "{attributes:?} {file} {content:?}");
    }
    let ws = Workspace::with_git();
    ws.write(".gitattributes", "* text=auto\n").write("d/.gitattributes", "f -text\n");
    ws.write(".git/info/attributes", "g text\n").write("d/f", "a\r\n").write("g", "a\r\n");
    ws.write("old", "a\r\n");
    let found = find(&ws, &["d/f", "g", "old", "gone"]);
    let files = found.converted.into_values().flatten().collect::<Vec<_>>();
    assert_eq!(files, [Path::new("g")]);
}

#[test]
fn filters_and_keywords_are_found() {
    let ws = Workspace::with_git();
    ws.git(&["config", "filter.z.clean", "sed s/a/b/"]);
    ws.git(&["config", "filter.lfs.process", "git-lfs filter-process"]);
    ws.write(".git/info/attributes", "a filter=z\nb filter=lfs\nc filter=unknown\nd ident\n");
    ws.write("a", "a").write("b", "a").write("c", "a").write("d", "$Id: x$").write("e", "$Id: x$");
    let found = find(&ws, &["a", "b", "c", "d", "e"]);
    let expected = [
        (Conversion::Filter { command: "sed s/a/b/".to_owned() }, vec![PathBuf::from("a")]),
        (Conversion::Keyword, vec![PathBuf::from("d")]),
    ];
    assert_eq!(found.converted.into_iter().collect::<Vec<_>>(), expected);
}

#[test]
fn submodules_with_work_are_found() {
    let (module, ws) = (Workspace::with_git(), Workspace::with_git());
    module.write("f", "x");
    module.git(&["add", "-A"]);
    module.git(&["commit", "-qm", "x"]);
    let url = module.root();
    ws.git(&["submodule", "--quiet", "add", url.to_str().unwrap(), "lib/sub"]);
    ws.write("lib/f", "x").write("lib/sub/f", "y");
    let found = find(&ws, &["lib/f", "lib/sub/f", "lib/sub/new"]);
    assert_eq!(found.submodules.into_iter().collect::<Vec<_>>(), [Path::new("lib/sub")]);
}
