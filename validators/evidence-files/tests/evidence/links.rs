use std::os::unix::fs::symlink;
use std::os::unix::net::UnixListener;

use serde_json::json;

use crate::Place;

fn one() -> serde_json::Value {
    json!({"min_files": 1})
}

#[test]
fn a_linked_file_does_not_count() {
    let place = Place::new();
    let target = place.root.path().join("target.txt");
    std::fs::write(&target, "proof").unwrap();
    for to in
        [target.as_path(), "../../../target.txt".as_ref(), "nowhere".as_ref(), "/dev/zero".as_ref()]
    {
        symlink(to, place.path("a.txt")).unwrap();
        let why = place.refusal(one());
        assert_eq!(why, "`a.txt` is a link; put the file itself there");
        std::fs::remove_file(place.path("a.txt")).unwrap();
    }
}

#[test]
fn linked_folders_are_not_entered() {
    let place = Place::new();
    let outside = place.root.path().join("outside");
    std::fs::create_dir(&outside).unwrap();
    std::fs::write(outside.join("a.txt"), "proof").unwrap();
    symlink(&outside, place.path("more")).unwrap();
    symlink("..", place.path("up")).unwrap();
    symlink(".", place.path("self")).unwrap();
    let reasons = place.reasons(one());
    assert_eq!(reasons.len(), 4, "{reasons:?}");
    assert!(reasons[1..].iter().all(|why| why.contains("is a link")), "{reasons:?}");
}

#[test]
fn the_folder_itself_must_not_be_a_link() {
    let place = Place::bare();
    let outside = place.root.path().join("outside");
    std::fs::create_dir(&outside).unwrap();
    std::fs::write(outside.join("a.txt"), "proof").unwrap();
    symlink(&outside, place.dir()).unwrap();
    let reasons = place.reasons(one());
    assert!(reasons[0].contains("is reached by a link"), "{reasons:?}");
    // Nor may a folder on the way to it be one, nor by way of `..`.
    std::fs::create_dir(outside.join("deep")).unwrap();
    for dir in ["validation-evidence/deep", "../a/validation-evidence"] {
        let reasons = place.reasons(json!({"min_files": 1, "dir": dir}));
        assert!(reasons[0].contains("is reached by a link"), "{dir}: {reasons:?}");
    }
}

#[test]
fn the_prompts_folder_may_well_be_reached_by_a_link() {
    let place = Place::new();
    place.write("a.txt", "proof");
    symlink(place.prompt_dir(), place.root.path().join("tasks/b")).unwrap();
    let dir = place.root.path().join("tasks/b/validation-evidence");
    assert!(place.verdict(json!({"min_files": 1, "dir": dir})).is_accepted());
    assert!(
        place.verdict(json!({"min_files": 1, "dir": "../b/validation-evidence"})).is_accepted()
    );
}

#[test]
fn a_file_with_two_names_does_not_count() {
    let place = Place::new();
    place.write("a.txt", "proof");
    std::fs::hard_link(place.path("a.txt"), place.root.path().join("other")).unwrap();
    assert!(place.refusal(one()).contains("has 2 names"));
}

#[test]
fn what_is_no_file_is_reported_and_not_waited_for() {
    let place = Place::new();
    let fifo = place.path("a.txt");
    rustix::fs::mknodat(
        rustix::fs::CWD,
        &fifo,
        rustix::fs::FileType::Fifo,
        rustix::fs::Mode::RWXU,
        0,
    )
    .unwrap();
    let _socket = UnixListener::bind(place.path("b.txt")).unwrap();
    std::fs::create_dir(place.path("c.png")).unwrap();
    let reasons = place.reasons(one());
    let reported = ["`a.txt` is a FIFO", "`b.txt` is a socket", "`c.png` is a folder"];
    assert_eq!(reasons.len(), 4, "{reasons:?}");
    for (why, part) in reasons[1..].iter().zip(reported) {
        assert!(why.starts_with(part), "{reasons:?}");
    }
}

#[test]
fn unreadable_files_and_folders_are_reported() {
    use std::os::unix::fs::PermissionsExt as _;
    let place = Place::new();
    place.write("a.txt", "proof").write("closed/b.txt", "other proof");
    let set = |mode| {
        for name in ["a.txt", "closed"] {
            let mode = std::fs::Permissions::from_mode(mode);
            std::fs::set_permissions(place.path(name), mode).unwrap();
        }
    };
    set(0o000);
    let verdict = place.verdict(json!({"min_files": 2}));
    // Root may read everything.
    if rustix::process::geteuid().is_root() {
        assert!(verdict.is_accepted());
    } else {
        let reasons = place.reasons(json!({"min_files": 2}));
        assert_eq!(reasons[1], "`a.txt` cannot be read: permission denied");
        assert_eq!(reasons[2], "`closed` cannot be read: permission denied");
    }
    set(0o700);
}
