//! Whiteouts, opaque folders, and what is left of an overlay.

use std::fs;
use std::os::fd::AsFd as _;
use std::path::Path;

use ralph_orchestrator_safe_fs::{create_whiteout, open_folder, remove_layer, set_opaque};

use crate::fixture::Fixture;

fn files(folder: &Path, names: &[&str]) {
    for name in names {
        let path = folder.join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, "").unwrap();
    }
}

#[tokio::test]
async fn a_middle_layer_hides_what_lies_below_and_not_what_lies_above() {
    let mut fixture = Fixture::new();
    let (top, middle) = (fixture.folder("top"), fixture.folder("middle"));
    files(&fixture.ws, &["gone", "back", "d/below", "e/f/g", "tree/x/y", "stays"]);
    files(&top, &["back"]);
    files(&middle, &["d/middle"]);
    for name in ["gone", "back", "tree", "never was"] {
        create_whiteout(open_folder(&middle).unwrap().as_fd(), name.as_bytes()).unwrap();
    }
    fs::create_dir_all(middle.join("e/f")).unwrap();
    for name in ["d", "e/f"] {
        set_opaque(open_folder(&middle.join(name)).unwrap().as_fd()).unwrap();
    }
    fixture.overlay.layers = vec![top, middle, fixture.ws.clone()];
    let text = "find . | sort | tr '\\n' ' '; echo made > gone; mkdir tree; ls tree; cat gone";
    assert_eq!(fixture.script(text).await, ". ./back ./d ./d/middle ./e ./e/f ./stays made\n");
}

/// What a tree has written is a layer for the next, with all that it has hidden.
#[tokio::test]
async fn an_upper_folder_becomes_a_layer() {
    let mut fixture = Fixture::new();
    files(&fixture.ws, &["a", "b", "d/x", "kept"]);
    fixture.script("rm a; rm -r d; mkdir d; touch d/new; echo > b").await;
    let frozen = fixture.overlay.upper.clone();
    fixture.overlay.upper = fixture.folder("next/upper");
    fixture.overlay.work = fixture.folder("next/work");
    fixture.overlay.layers.insert(0, frozen.clone());
    let before = crate::fixture::snapshot(&frozen);
    let text = "find . | sort | tr '\\n' ' '; rm b; touch a";
    assert_eq!(fixture.script(text).await, ". ./b ./d ./d/new ./kept ");
    assert_eq!(crate::fixture::snapshot(&frozen), before);
    remove_layer(&fixture.overlay.upper.with_file_name("work")).unwrap();
    remove_layer(&frozen.with_file_name("work")).unwrap();
    assert!(!frozen.with_file_name("work").exists());
}
