//! Finding programs.

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;

use ralph_orchestrator_supervisor::{NotFound, find_program, path_outside};

#[test]
fn bare_names_are_searched_and_paths_are_taken_from_the_base() {
    let dir = tempfile::tempdir().unwrap();
    let base = dir.path();
    for (name, mode) in [("bin/tool", 0o755), ("bin/dull", 0o644), ("late/dull", 0o755)] {
        let path = base.join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(&path, "").unwrap();
        fs::set_permissions(&path, Permissions::from_mode(mode)).unwrap();
    }
    let path = format!("/no/such:{}:{}", base.join("bin").display(), base.join("late").display());
    let find = |name: &str| find_program(name, &path, base);
    assert_eq!(find("tool"), Ok(base.join("bin/tool")));
    assert_eq!(find("dull"), Ok(base.join("late/dull")), "what cannot be executed is passed over");
    assert_eq!(find("bin/tool"), Ok(base.join("bin/tool")));
    assert_eq!(
        find("./bin/tool").unwrap().canonicalize().unwrap(),
        base.join("bin/tool").canonicalize().unwrap()
    );
    assert_eq!(find_program("tool", "bin", base), Ok(base.join("bin/tool")));
    assert_eq!(find("/bin/sh"), Ok("/bin/sh".into()));
    assert_eq!(find("bin/dull"), Err(NotFound::NotExecutable { file: base.join("bin/dull") }));
    assert_eq!(find("bin/none"), Err(NotFound::NoFile { file: base.join("bin/none") }));
    assert_eq!(find("./bin"), Err(NotFound::NotAFile { file: base.join("./bin") }));
    assert_eq!(find(""), Err(NotFound::Empty));
    assert_eq!(
        find_program("dull", "bin", base),
        Err(NotFound::NotExecutable { file: base.join("bin/dull") })
    );
}

#[test]
fn the_error_names_the_program_and_a_path_that_is_empty() {
    let find = |path| find_program("no-such-tool", path, Path::new("/")).unwrap_err();
    let error = find("/usr/bin:/bin");
    assert!(matches!(&error, NotFound::InPath { path, .. } if path == "/usr/bin:/bin"));
    let text = error.to_string();
    assert!(text.contains("`no-such-tool` is not in PATH;"), "{text}");
    assert!(find("").to_string().contains("is not in PATH, which is empty;"));
    // An empty PATH is not the current folder.
    assert!(find_program("sh", "", Path::new("/bin")).is_err());
}

#[test]
fn a_path_outside_of_places_has_no_folder_that_leads_into_them() {
    let dir = tempfile::tempdir().unwrap();
    let root = dir.path().canonicalize().unwrap();
    let work = root.join("work");
    fs::create_dir_all(work.join(".venv/bin")).unwrap();
    std::os::unix::fs::symlink(&work, root.join("link")).unwrap();
    let text = |path: &Path| path.display().to_string();
    let inside = [text(&work.join(".venv/bin")), text(&root.join("link/.venv/bin"))];
    let later = text(&root.join("link/not/there/yet"));
    let path = format!(":{}:bin:{later}:/usr/bin:.:{}", inside[0], inside[1]);
    assert_eq!(path_outside(&path, &[work]), "/usr/bin");
    assert_eq!(path_outside("/usr/bin:/bin", &[]), "/usr/bin:/bin");
}
