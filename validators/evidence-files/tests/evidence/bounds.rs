use std::os::unix::ffi::OsStrExt as _;

use serde_json::json;

use crate::Place;

#[test]
fn sub_folders_count_hidden_names_do_not() {
    let place = Place::new();
    place.write("a/b.txt", "1").write("a/b/c.txt", "2").write("z.txt", "3");
    place
        .write(".hidden.txt", "4")
        .write(".git/d.txt", "5")
        .write("note.md", "6")
        .write("txt", "7");
    assert_eq!(place.counted(json!({})), ["a/b/c.txt", "a/b.txt", "z.txt"]);
    assert!(place.reasons(json!({"min_files": 4}))[0].starts_with("only 3 of 4"));
}

#[test]
fn folders_nest_to_a_bound() {
    let place = Place::new();
    place.write("1/2/3/4/5/6/7/8/a.txt", "proof");
    assert!(place.verdict(json!({"min_files": 1})).is_accepted());
    let place = Place::new();
    place.write("1/2/3/4/5/6/7/8/9/a.txt", "proof");
    let why = place.refusal(json!({"min_files": 1}));
    assert!(why.starts_with("`1/2/3/4/5/6/7/8/9` is not looked into"), "{why}");
}

#[test]
fn a_huge_file_is_not_read() {
    let place = Place::new();
    place.write("a.txt", "");
    std::fs::File::create(place.path("a.txt")).unwrap().set_len(1 << 40).unwrap();
    let why = place.refusal(json!({"min_files": 1}));
    assert_eq!(why, "`a.txt` is too large: 1024.0 GiB, at most max_file_size = 10.0 MiB is read");
}

#[test]
fn the_bound_on_size_is_inclusive() {
    let place = Place::new();
    place.write("a.txt", "x".repeat(2048));
    for (size, counts) in [(json!("2 KiB"), true), (json!(2048), true), (json!(2047), false)] {
        let config = json!({"min_files": 1, "max_file_size": size});
        assert_eq!(place.verdict(config).is_accepted(), counts, "{size}");
    }
}

#[test]
fn many_files_are_refused_in_one_line() {
    let place = Place::new();
    for n in 0..10_000 {
        place.write(format!("{n}.txt"), n.to_string());
    }
    let reasons = place.reasons(json!({}));
    assert_eq!(reasons.len(), 1, "{reasons:?}");
    assert!(reasons[0].contains("more than max_files = 200 fresh files"), "{reasons:?}");
    assert!(place.verdict(json!({"max_files": 10_000})).is_accepted());
}

#[test]
fn many_old_files_do_no_harm() {
    let place = Place::new();
    for n in 0..500 {
        place.write(format!("{n}.txt"), n.to_string()).seen(n.to_string(), 0);
    }
    place.write("new.txt", "proof");
    assert_eq!(place.counted(json!({"min_files": 1})), ["new.txt"]);
    let reasons = place.reasons(json!({}));
    assert_eq!(reasons.len(), 20);
    assert_eq!(reasons[19], "and 482 more of this kind");
}

#[test]
fn all_files_together_are_bounded() {
    let place = Place::new();
    for n in 0..5 {
        place
            .write(format!("{n}.txt"), n.to_string().repeat(100))
            .seen(n.to_string().repeat(100), 0);
    }
    let reasons = place.reasons(json!({"min_files": 1, "max_files": 4, "max_file_size": 100}));
    assert!(reasons[0].contains("more than 400 bytes of files"), "{reasons:?}");
}

#[test]
fn names_are_escaped() {
    let place = Place::new();
    for name in [&b"a\n- [x] done.txt"[..], b"b\xff.txt", b"c\x1b[31m.txt"] {
        place.write(std::ffi::OsStr::from_bytes(name), "");
    }
    let reasons = place.reasons(json!({}));
    assert_eq!(reasons[1], "`a\\n- [x] done.txt` is empty");
    assert_eq!(reasons[2], "`b\\xff.txt` is empty");
    assert_eq!(reasons[3], "`c\\u{1b}[31m.txt` is empty");
}

#[test]
fn undecodable_names_may_count() {
    let place = Place::new();
    place.write(std::ffi::OsStr::from_bytes(b"\xff.txt"), "proof");
    assert!(place.verdict(json!({"min_files": 1})).is_accepted());
}
