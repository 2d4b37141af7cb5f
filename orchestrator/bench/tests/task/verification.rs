//! What enters after the agent, what it did to that, and what is kept.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _, symlink};

use ralph_orchestrator_bench::task::{
    Artifact, LeftFiles, Mount, StagedEnvironment, Task, copy_artifacts,
};
use ralph_orchestrator_bench::trial::CheatKind;

use super::scratch::{Scratch, list};

fn ready(scratch: &Scratch) -> (Task, StagedEnvironment) {
    (scratch.task(), scratch.stage().unwrap())
}

#[test]
fn tests_and_solution_come_into_fresh_folders() {
    let scratch = Scratch::harbor("");
    scratch.write("task/tests/data/x", "x");
    fs::set_permissions(scratch.path("task/tests/test.sh"), fs::Permissions::from_mode(0o444))
        .unwrap();
    let (task, staged) = ready(&scratch);
    let step = &task.steps[0];
    let tests = task.install_tests(step, &staged, &scratch.path("t")).unwrap().unwrap();
    assert_eq!(list(&tests), ["data/", "data/x", "test.sh"]);
    assert_eq!(fs::metadata(tests.join("test.sh")).unwrap().permissions().mode() & 0o111, 0o111);
    let again = task.install_tests(step, &staged, &scratch.path("t")).unwrap_err().to_string();
    assert!(again.contains("/t: "), "{again}");
    let solution = task.install_solution(step, &staged, &scratch.path("s")).unwrap().unwrap();
    assert_eq!(list(&solution), ["solve.sh"]);
}

#[test]
fn what_the_image_has_there_lies_below_tests_and_solution_and_no_agent_sees_it() {
    let to = |path: &str| format!("COPY Dockerfile {path}\n");
    let lines = ["/tests/extra", "/tests/test.sh", "/solution/extra", "/logs/verifier/extra"];
    let text = format!("FROM x\nWORKDIR /tests\nWORKDIR /app\n{}", lines.map(to).concat());
    let scratch = Scratch::dockerfile(&text);
    let (task, staged) = ready(&scratch);
    let seen: Vec<&str> = staged.mounts.iter().map(|mount| mount.path.as_str()).collect();
    assert_eq!(seen, ["/app"]);
    let step = &task.steps[0];
    let tests = task.install_tests(step, &staged, &scratch.path("t")).unwrap().unwrap();
    assert_eq!(list(&tests), ["extra", "test.sh"]);
    // The task's own take the place of the image's.
    let script = fs::read(tests.join("test.sh")).unwrap();
    assert_eq!(script, fs::read(scratch.path("task/tests/test.sh")).unwrap());
    let solution = task.install_solution(step, &staged, &scratch.path("s")).unwrap().unwrap();
    assert_eq!(list(&solution), ["extra", "solve.sh"]);
    staged.install_logs(&scratch.path("logs")).unwrap();
    assert_eq!(list(&scratch.path("logs")), ["verifier/", "verifier/extra"]);
}

#[test]
fn the_files_of_a_step_replace_what_the_agent_put_in_their_way() {
    let scratch = Scratch::harbor("[[steps]]\nname = \"a\"\n");
    scratch.write("task/steps/a/instruction.md", "x");
    scratch.write("task/steps/a/workdir/setup.sh", "true");
    scratch.write("task/steps/a/workdir/dir/file", "of the step");
    scratch.write("task/steps/a/workdir/plain", "of the step");
    scratch.write("outside/file", "not theirs");
    let (task, staged) = ready(&scratch);
    let app = staged.host_path(".").unwrap();
    symlink(scratch.path("outside"), app.join("dir")).unwrap();
    fs::create_dir_all(app.join("plain/full")).unwrap();
    symlink(scratch.path("outside/file"), app.join("setup.sh")).unwrap();
    assert!(task.install_step_files(&task.steps[0], &staged).unwrap());
    assert_eq!(list(&app), ["dir/", "dir/file", "plain", "setup.sh"]);
    assert_eq!(fs::read_to_string(app.join("dir/file")).unwrap(), "of the step");
    assert_eq!(fs::read_to_string(scratch.path("outside/file")).unwrap(), "not theirs");
}

#[test]
fn the_work_directory_itself_may_have_become_a_link() {
    let scratch =
        Scratch::harbor("[environment]\nworkdir = \"/srv/work\"\n[[steps]]\nname = \"a\"\n");
    scratch.write("task/steps/a/instruction.md", "x");
    scratch.write("task/steps/a/workdir/file", "of the step");
    scratch.write("outside/file", "not theirs");
    let (task, staged) = ready(&scratch);
    let work = staged.host_path(".").unwrap();
    fs::remove_dir(&work).unwrap();
    symlink(scratch.path("outside"), &work).unwrap();
    task.install_step_files(&task.steps[0], &staged).unwrap();
    assert_eq!(fs::read_to_string(work.join("file")).unwrap(), "of the step");
    assert_eq!(fs::read_to_string(scratch.path("outside/file")).unwrap(), "not theirs");
}

#[test]
fn tells_what_the_agent_did_to_the_verification() {
    let scratch = Scratch::dockerfile("FROM x\nWORKDIR /app\nCOPY . .\n");
    for name in ["seen.py", "removed.py", "kept.py", "linked.py"] {
        scratch.write(&format!("task/environment/{name}"), "shown");
        scratch.write(&format!("task/tests/{name}"), "hidden");
    }
    scratch.write("task/tests/made.py", "hidden");
    let (task, staged) = ready(&scratch);
    let before = task.record_test_files(&task.steps[0], &staged).unwrap();
    let nothing = LeftFiles::default();
    assert_eq!(task.find_cheating(&staged, &before, &nothing).unwrap(), []);
    let app = staged.host_path(".").unwrap();
    fs::write(app.join("seen.py"), "changed").unwrap();
    fs::write(app.join("made.py"), "made").unwrap();
    fs::write(app.join("test.sh"), "a script of its own").unwrap();
    fs::write(app.join("kept.py"), "shown").unwrap();
    fs::remove_file(app.join("removed.py")).unwrap();
    fs::remove_file(app.join("linked.py")).unwrap();
    symlink("/etc/passwd", app.join("linked.py")).unwrap();
    for (folder, file) in
        [("logs", "reward.txt"), ("logs", "test-stdout.txt"), ("tests", "x"), ("solution", "y")]
    {
        scratch.write(&format!("{folder}/{file}"), "1");
    }
    let (logs, tests, solution) =
        (scratch.path("logs"), scratch.path("tests"), scratch.path("solution"));
    let left =
        LeftFiles { verifier_logs: Some(&logs), tests: Some(&tests), solution: Some(&solution) };
    let found = task.find_cheating(&staged, &before, &left).unwrap();
    let found: Vec<(CheatKind, &str)> =
        found.iter().map(|finding| (finding.kind, finding.path.as_str())).collect();
    assert_eq!(
        found,
        [
            (CheatKind::WroteReward, "/logs/verifier/reward.txt"),
            (CheatKind::EditedTests, "/app/made.py"),
            (CheatKind::EditedTests, "/app/seen.py"),
            (CheatKind::EditedTests, "/tests/x"),
            (CheatKind::DeletedTests, "/app/linked.py"),
            (CheatKind::DeletedTests, "/app/removed.py"),
            (CheatKind::ReachedForSolution, "/solution/y"),
        ]
    );
}

fn artifact(source: &str) -> Artifact {
    Artifact { source: source.to_owned(), destination: None, exclude: Vec::new(), service: None }
}

#[test]
fn artifacts_are_kept_and_given_to_a_separate_verifier() {
    let scratch = Scratch::harbor("[verifier]\nenvironment_mode = \"separate\"\n");
    let (task, mut staged) = ready(&scratch);
    let environment = task.steps[0].verifier.environment.clone().unwrap();
    let mut verifier =
        task.stage_verifier(&environment, &scratch.path("v"), &BTreeMap::new()).unwrap();
    let published = scratch.path("published");
    scratch.write("published/note", "n");
    staged.mounts.push(Mount { path: "/logs/artifacts".to_owned(), folder: published });
    let received = scratch.path("received");
    scratch.write("received/old", "to be removed");
    verifier.mounts.push(Mount { path: "/logs/artifacts".to_owned(), folder: received.clone() });
    let app = staged.host_path(".").unwrap();
    for path in ["out/a.txt", "out/b.o", "out/sub/c.o", "single"] {
        fs::create_dir_all(app.join(path).parent().unwrap()).unwrap();
        fs::write(app.join(path), path).unwrap();
    }
    symlink("/etc/passwd", app.join("out/secret")).unwrap();
    symlink("/etc", app.join("linked")).unwrap();
    let artifacts = [
        Artifact { exclude: vec!["*.o".to_owned()], ..artifact("/app/out") },
        Artifact { destination: Some("renamed/one".to_owned()), ..artifact("single") },
        artifact("/app/none"),
        artifact("/app/linked"),
        artifact("/etc/passwd"),
        Artifact { service: Some("db".to_owned()), ..artifact("/app/out") },
    ];
    let kept = scratch.path("kept");
    let findings = copy_artifacts(&artifacts, &staged, &kept, Some(&mut verifier)).unwrap();
    assert_eq!(
        list(&kept),
        [
            "app/",
            "app/out/",
            "app/out/a.txt",
            "app/out/sub/",
            "logs/",
            "logs/artifacts/",
            "logs/artifacts/note",
            "renamed/",
            "renamed/one"
        ]
    );
    assert_eq!(list(&received), ["note"]);
    assert_eq!(
        list(&verifier.host_path("/app").unwrap()),
        ["out/", "out/a.txt", "out/sub/", "single"]
    );
    let sources: Vec<&str> = findings.iter().map(|finding| finding.source.as_str()).collect();
    assert_eq!(
        sources,
        ["/app/out", "/app/none", "/app/linked", "/etc/passwd", "/app/out"],
        "{findings:?}"
    );
    assert!(
        findings[0].message.contains("out/secret was left out: an unsafe link"),
        "{findings:?}"
    );
}

#[test]
fn what_an_agent_leaves_among_artifacts_does_not_end_the_trial() {
    let scratch = Scratch::harbor("");
    let (_, staged) = ready(&scratch);
    let app = staged.host_path(".").unwrap();
    fs::create_dir(app.join("out")).unwrap();
    fs::File::create(app.join("out/huge")).unwrap().set_len(1 << 40).unwrap();
    fs::create_dir(app.join("first")).unwrap();
    symlink("elsewhere", app.join("first/way")).unwrap();
    fs::write(app.join("second"), "2").unwrap();
    let artifacts = [
        artifact("/app/out"),
        Artifact { destination: Some("d".to_owned()), ..artifact("/app/first") },
        Artifact { destination: Some("d/way/x".to_owned()), ..artifact("/app/second") },
    ];
    let findings = copy_artifacts(&artifacts, &staged, &scratch.path("kept"), None).unwrap();
    let messages: Vec<&str> = findings.iter().map(|finding| finding.message.as_str()).collect();
    assert_eq!(messages.len(), 2, "{messages:?}");
    assert!(messages[0].contains("huge: the file is too large"), "{messages:?}");
    assert!(messages[1].contains("a link, or below one"), "{messages:?}");
}

#[test]
fn artifacts_keep_their_holes() {
    let scratch = Scratch::harbor("");
    let (_, staged) = ready(&scratch);
    let path = staged.host_path("sparse").unwrap();
    let file = fs::File::create_new(&path).unwrap();
    file.set_len(1 << 30).unwrap();
    let kept = scratch.path("kept");
    let findings = copy_artifacts(&[artifact("/app/sparse")], &staged, &kept, None).unwrap();
    assert_eq!(findings, []);
    let found = fs::metadata(kept.join("app/sparse")).unwrap();
    assert_eq!(found.len(), 1 << 30);
    assert!(found.blocks() <= file.metadata().unwrap().blocks() + 16, "{}", found.blocks());
    // One byte more is beyond what is kept of a file.
    file.set_len((1 << 30) + 1).unwrap();
    let findings = copy_artifacts(&[artifact("/app/sparse")], &staged, &scratch.path("more"), None);
    assert!(findings.unwrap()[0].message.contains("1024 MiB a file"));
}
