//! Tasks that want to read or write what is not theirs.

use std::ffi::OsStr;
use std::fs::{self, File};
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::symlink;

use ralph_orchestrator_bench::task::{LoadError, load};

use super::scratch::{Scratch, list};

fn copies_everything() -> Scratch {
    Scratch::dockerfile("FROM x\nWORKDIR /app\nCOPY . .\n")
}

#[test]
fn no_link_may_lead_outside() {
    for (link, target) in [
        ("environment/secret", "/etc/passwd"),
        ("environment/secret", "../../../../etc/passwd"),
        ("tests/secret", "../../outside"),
        ("solution/deep/up", "../../../outside"),
        ("environment/a/b", "../x/.."),
    ] {
        let scratch = copies_everything();
        scratch.write("outside", "not theirs");
        let path = scratch.path(&format!("task/{link}"));
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        symlink(target, path).unwrap();
        let refusal = scratch.refusal();
        assert!(refusal.contains(&format!("task/{link}: the link leads to {target}")), "{refusal}");
    }
}

#[test]
fn links_of_the_task_may_not_leave_what_is_copied() {
    // Within the task, but not within what COPY takes.
    let scratch = Scratch::dockerfile("FROM x\nWORKDIR /app\nCOPY data .\n");
    scratch.write("task/environment/data/file", "x");
    symlink("../Dockerfile", scratch.path("task/environment/data/link")).unwrap();
    let error = scratch.stage().unwrap_err().to_string();
    assert!(error.contains("data/link: the link leads to ../Dockerfile"), "{error}");
    // Within both: it is kept as a link.
    let scratch = Scratch::dockerfile("FROM x\nWORKDIR /app\nCOPY data .\n");
    scratch.write("task/environment/data/file", "x");
    symlink("file", scratch.path("task/environment/data/link")).unwrap();
    let staged = scratch.stage().unwrap();
    assert_eq!(fs::read_link(staged.host_path("link").unwrap()).unwrap().as_os_str(), "file");
}

#[test]
fn files_of_the_task_are_not_read_through_links() {
    for name in ["task.toml", "instruction.md", "environment", "tests"] {
        let scratch = copies_everything();
        let path = scratch.path(&format!("task/{name}"));
        let moved = scratch.path("task/moved");
        fs::rename(&path, &moved).unwrap();
        symlink("moved", &path).unwrap();
        let refusal = scratch.refusal();
        assert!(
            refusal.contains(name) && refusal.contains("a link, or below one"),
            "{name}: {refusal}"
        );
    }
}

#[test]
fn a_link_as_the_source_or_on_the_way_of_a_copy_is_refused() {
    for line in ["COPY link .", "COPY linked/file .", "COPY l*k/ ."] {
        let scratch = Scratch::dockerfile(&format!("FROM x\nWORKDIR /app\n{line}\n"));
        scratch.write("task/environment/dir/file", "x");
        symlink("dir", scratch.path("task/environment/linked")).unwrap();
        symlink("Dockerfile", scratch.path("task/environment/link")).unwrap();
        let error = scratch.stage().unwrap_err().to_string();
        assert!(error.contains("a link"), "{line}: {error}");
    }
}

#[test]
fn later_copies_do_not_write_through_links_of_earlier_ones() {
    let scratch =
        Scratch::dockerfile("FROM x\nWORKDIR /app\nCOPY first .\nCOPY second/file inner/file\n");
    scratch.write("task/environment/first/real/file", "first");
    symlink("real", scratch.path("task/environment/first/inner")).unwrap();
    scratch.write("task/environment/second/file", "second");
    let error = scratch.stage().unwrap_err().to_string();
    assert!(error.contains("inner/file: a link, or below one"), "{error}");
    let file = scratch.path("staged/root/app/real/file");
    assert_eq!(fs::read_to_string(file).unwrap(), "first");
}

#[test]
fn pipes_and_huge_files_are_refused_without_reading_them() {
    let scratch = copies_everything();
    let pipe = scratch.path("task/environment/pipe");
    rustix::fs::mkfifoat(rustix::fs::CWD, &pipe, 0o600.into()).unwrap();
    assert!(scratch.refusal().contains("pipe: neither a file, a folder nor a link"));
    let scratch = copies_everything();
    File::create(scratch.path("task/tests/huge")).unwrap().set_len(1 << 40).unwrap();
    assert!(
        scratch
            .refusal()
            .contains("tests/huge: the file is too large; a task has at most 1024 MiB a file")
    );
    let scratch = Scratch::harbor("");
    File::create(scratch.path("task/task.toml")).unwrap().set_len(5 << 20).unwrap();
    assert!(
        scratch.refusal().contains("task.toml: the file is too large"),
        "{}",
        scratch.refusal()
    );
}

#[test]
fn text_that_is_not_utf_8_is_named_and_names_may_be_anything() {
    let scratch = copies_everything();
    fs::write(scratch.path("task/instruction.md"), b"\xff\xfe").unwrap();
    assert!(scratch.refusal().contains("instruction.md: not UTF-8 text"), "{}", scratch.refusal());
    let scratch = copies_everything();
    let name = OsStr::from_bytes(b"odd\xff\nname");
    fs::write(scratch.path("task/environment").join(name), "x").unwrap();
    let staged = scratch.stage().unwrap();
    assert!(staged.host_path(".").unwrap().join(name).is_file());
}

#[test]
fn folders_without_end_are_refused() {
    let scratch = copies_everything();
    let mut path = scratch.path("task/environment");
    for _ in 0..200 {
        path.push("d");
        fs::create_dir(&path).unwrap();
    }
    let refusal = scratch.refusal();
    assert!(
        refusal.contains("folders are nested too deeply; a task has at most 128 levels"),
        "{refusal}"
    );
}

#[test]
fn targets_with_parents_stay_within_the_environment() {
    let scratch = Scratch::dockerfile("FROM x\nWORKDIR /app\nCOPY Dockerfile ../../../opt/x\n");
    let staged = scratch.stage().unwrap();
    assert_eq!(list(&staged.root), ["app/", "opt/", "opt/x"]);
    assert_eq!(list(&scratch.path("staged")).len(), 4);
}

#[test]
fn a_folder_that_cannot_be_read_is_named() {
    let scratch = Scratch::new();
    scratch.write("file", "");
    let error = load(&[scratch.path("file")]).unwrap_err();
    assert!(matches!(error, LoadError::Unreadable { .. }), "{error}");
}
