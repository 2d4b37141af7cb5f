//! Workspaces created from templates.

use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};

use ralph_orchestrator_workspace::{TemplateError, TreeHasher, create_from_template};

use crate::support::Workspace;

fn template() -> Workspace {
    let ws = Workspace::new();
    ws.write("README", "x").write("bin/run", "#!/bin/sh\n").mode("bin/run", 0o755);
    ws.write(b"d/\xff\n", "bytes").link("link", "README").link("d/dangling", "../nowhere");
    ws.write(".git/config", "x").write("sub/.git", "x").write("sub/.gitignore", "*.o");
    std::fs::create_dir_all(ws.path("empty/folder")).unwrap();
    ws.write("closed/f", "x").mode("closed", 0o555);
    ws
}

fn names(folder: &std::path::Path) -> Vec<String> {
    let mut names: Vec<String> = std::fs::read_dir(folder)
        .unwrap()
        .map(|entry| entry.unwrap().file_name().to_string_lossy().into_owned())
        .collect();
    names.sort();
    names
}

#[test]
fn the_copy_is_like_the_template() {
    let template = template();
    for target in ["new", "with/parents/new", "empty"] {
        let target = template.beside(target);
        if target.ends_with("empty") {
            std::fs::create_dir(&target).unwrap();
        }
        assert!(create_from_template(&template.root(), &target).unwrap());
        let copy = TreeHasher::new(target.clone(), Vec::new()).digest().unwrap();
        assert_eq!(copy.digest, template.state().digest);
        assert!(!target.join(".git").exists() && !target.join("sub/.git").exists());
        assert!(target.join("empty/folder").is_dir());
        assert_eq!(target.join("bin/run").metadata().unwrap().mode() & 0o777, 0o755);
        assert_eq!(target.join("closed").metadata().unwrap().mode() & 0o777, 0o555);
        assert!(target.join("d/dangling").is_symlink());
        std::fs::set_permissions(target.join("closed"), std::fs::Permissions::from_mode(0o755))
            .unwrap();
    }
    assert_eq!(names(&template.beside("")), ["empty", "new", "with", "ws"]);
    template.mode("closed", 0o755);
}

#[test]
fn an_existing_workspace_is_left_alone() {
    let template = template();
    template.mode("closed", 0o755);
    let target = template.beside("new");
    std::fs::create_dir(&target).unwrap();
    std::fs::write(target.join("mine"), "x").unwrap();
    assert!(!create_from_template(&template.root(), &target).unwrap());
    assert_eq!(names(&target), ["mine"]);
    std::fs::write(template.beside("file"), "x").unwrap();
    let error = create_from_template(&template.root(), &template.beside("file")).unwrap_err();
    assert!(matches!(error, TemplateError::NotAFolder { .. }));
    std::os::unix::fs::symlink("nowhere", template.beside("dangling")).unwrap();
    let error = create_from_template(&template.root(), &template.beside("dangling")).unwrap_err();
    assert!(error.to_string().contains("dangling"), "{error}");
}

#[test]
fn a_bad_template_is_named_and_leaves_nothing() {
    let ws = Workspace::new();
    let target = ws.beside("new");
    let error = create_from_template(&ws.path("gone"), &target).unwrap_err();
    assert!(error.to_string().contains("gone"), "{error}");
    ws.write("file", "x");
    assert!(matches!(
        create_from_template(&ws.path("file"), &target),
        Err(TemplateError::Template { .. })
    ));
    ws.write("a/b", "x").fifo("a/pipe");
    let error = create_from_template(&ws.root(), &target).unwrap_err();
    assert!(matches!(&error, TemplateError::Unsupported { path } if path.ends_with("a/pipe")));
    let error = create_from_template(&ws.root(), &ws.path("inside")).unwrap_err();
    assert!(matches!(error, TemplateError::Nested { .. }));
    assert_eq!(names(&ws.beside("")), ["ws"]);
}

#[test]
fn what_a_crash_left_is_cleared() {
    let template = Workspace::new();
    template.write("f", "x");
    let left = template.beside(".new.ralph-template");
    std::fs::create_dir_all(left.join("half/done")).unwrap();
    std::fs::write(left.join("stale"), "x").unwrap();
    std::fs::set_permissions(left.join("half"), std::fs::Permissions::from_mode(0o555)).unwrap();
    assert!(create_from_template(&template.root(), &template.beside("new")).unwrap());
    assert_eq!(names(&template.beside("new")), ["f"]);
    assert_eq!(names(&template.beside("")), ["new", "ws"]);
}

#[test]
fn of_many_at_once_one_creates() {
    let template = Workspace::new();
    for i in 0..200 {
        template.write(format!("{}/{i}", i % 9), format!("{i}"));
    }
    for round in 0..10 {
        let target = template.beside(&format!("new{round}"));
        let results: Vec<_> = std::thread::scope(|scope| {
            let run = || create_from_template(&template.root(), &target);
            let threads: Vec<_> = (0..4).map(|_| scope.spawn(run)).collect();
            threads.into_iter().map(|thread| thread.join().unwrap()).collect()
        });
        assert_eq!(results.iter().filter(|result| matches!(result, Ok(true))).count(), 1);
        for result in &results {
            assert!(matches!(result, Ok(_) | Err(TemplateError::Busy { .. })), "{result:?}");
        }
        let copy = TreeHasher::new(target.clone(), Vec::new()).digest().unwrap();
        assert_eq!(copy.digest, template.state().digest);
    }
    assert_eq!(names(&template.beside("")).len(), 11);
}
