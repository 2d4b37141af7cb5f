//! The project's own tasks.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use ralph_orchestrator_bench::task::{Capabilities, IsolationKind, Task, load};

use super::scratch::namespace;

fn tasks() -> Vec<Task> {
    let folder: PathBuf = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/bench/tasks");
    load(&[folder]).unwrap()
}

#[test]
fn every_task_can_be_staged_verified_and_solved() {
    let tasks = tasks();
    assert!(tasks.len() >= 12, "{}", tasks.len());
    let host = BTreeMap::new();
    for task in &tasks {
        assert_eq!(task.find_obstacles(&namespace()), [], "{}", task.name);
        assert_eq!(task.warnings, [], "{}", task.name);
        assert_eq!(
            task.name,
            format!("ralph/{}", task.folder.file_name().unwrap().to_str().unwrap())
        );
        let temp = tempfile::tempdir().unwrap();
        let staged = task.stage(temp.path(), &host).unwrap();
        assert_eq!(staged.workdir, "/app");
        assert!(staged.setup.iter().all(|command| command.is_covered(&[])), "{}", task.name);
        for (number, step) in task.steps.iter().enumerate() {
            let into = |name: &str| temp.path().join(format!("{name}{number}"));
            task.install_step_files(step, &staged).unwrap();
            let tests = task.install_tests(step, &staged, &into("tests")).unwrap().unwrap();
            assert!(tests.join("test.sh").is_file());
            let solution = task.install_solution(step, &staged, &into("solution")).unwrap();
            assert!(solution.unwrap().join("solve.sh").is_file(), "{}", task.name);
            if let Some(environment) = &step.verifier.environment {
                task.stage_verifier(environment, &into("verifier"), &host).unwrap();
            }
        }
    }
}

#[test]
fn the_set_has_every_kind() {
    let tasks = tasks();
    let count = |is_kind: &dyn Fn(&Task) -> bool| tasks.iter().filter(|task| is_kind(task)).count();
    let marked = |key: &'static str| {
        move |task: &Task| task.about.metadata.get(key).and_then(toml::Value::as_bool) == Some(true)
    };
    let has_difficulty = |word: &'static str| {
        move |task: &Task| {
            task.about.metadata.get("difficulty").and_then(toml::Value::as_str) == Some(word)
        }
    };
    assert_eq!(count(&Task::is_multi_step), 1);
    assert_eq!(count(&marked("flaky")), 1);
    assert_eq!(count(&marked("cheatable")), 1);
    assert_eq!(count(&|task| task.steps.iter().any(|step| step.verifier.environment.is_some())), 1);
    assert!(count(&has_difficulty("easy")) >= 3 && count(&has_difficulty("hard")) >= 2);
    assert!(count(&|task| !task.environment.env.is_empty()) >= 1);
}

#[test]
fn no_task_can_run_without_isolation() {
    let none = Capabilities::new(IsolationKind::None);
    assert!(tasks().iter().all(|task| !task.find_obstacles(&none).is_empty()));
}
