//! What git ignored when the run or an iteration began.

use std::fs;

use ralph_orchestrator_git::{
    CheckpointName, CommitPolicy, Repository, RollbackGuard, SkipReason, SkippedFile,
};

use crate::fixture::{Fixture, Step, run};

/// A repository in which files of the user's are ignored by three files of rules, at the start of a run.
fn begin() -> (Fixture, Repository) {
    let fixture = Fixture::committed();
    let rules = fixture.folder.path().join("rules");
    fs::write(&rules, "*.sqlite\n").unwrap();
    fixture.git(&["config", "core.excludesFile", rules.to_str().unwrap()]);
    fixture.write(".git/info/exclude", "notes/\n");
    for name in ["ignored/customers.csv", "src/local.log", "data.sqlite", "notes/a/b.md"] {
        fixture.write(name, "the user's");
    }
    fixture.open().checkpoint(&run(), 0, "m").unwrap();
    let repository = fixture.begin(1);
    (fixture, repository)
}

fn list_ignored(skipped: &[SkippedFile]) -> Vec<String> {
    let ignored = skipped.iter().filter(|file| file.reason == SkipReason::Ignored);
    ignored.map(|file| file.path.to_string()).collect()
}

/// Makes a checkpoint and a commit, rolls back to the start, and returns what of the user's was left out.
fn save_and_roll_back(fixture: &Fixture, repository: &Repository, iteration: u64) -> Vec<String> {
    let saved = repository.checkpoint(&run(), iteration, "m").unwrap();
    let committed = repository.commit(iteration, "m", &CommitPolicy::default()).unwrap();
    assert_eq!(list_ignored(&saved.skipped), list_ignored(&committed.skipped));
    for of in ["HEAD", &format!("refs/ralph/0198-run/{iteration}")] {
        let names = fixture.git(&["ls-tree", "-r", "--name-only", of]);
        let is_users = |name: &str| {
            ["ignored/", ".log", ".sqlite", "notes/"].iter().any(|part| name.contains(part))
        };
        assert!(!names.lines().any(is_users), "{of}: {names}");
    }
    let start = CheckpointName::Iteration(0);
    let outcome = repository.rollback(&run(), start, RollbackGuard::SaveFirst).unwrap();
    assert!(!outcome.files.is_empty());
    for name in ["ignored/customers.csv", "src/local.log", "data.sqlite", "notes/a/b.md"] {
        assert_eq!(fixture.read(name), b"the user's", "{name}");
    }
    list_ignored(&saved.skipped)
}

#[test]
fn stays_the_users_whatever_the_rules_say_later() {
    let all = ["data.sqlite", "ignored/customers.csv", "notes/a/b.md", "src/local.log"];
    let cases: [(&str, Step, &[&str]); 6] = [
        ("rewritten", |fixture| fixture.write(".gitignore", "target/\n"), &all[1..2]),
        ("removed", |fixture| fs::remove_file(fixture.path(".gitignore")).unwrap(), &all[1..2]),
        ("below", |fixture| fixture.write("src/.gitignore", "!*.log\n"), &[]),
        ("exclude", |fixture| fixture.write(".git/info/exclude", ""), &all[2..3]),
        (
            "configured",
            |fixture| fs::write(fixture.folder.path().join("rules"), "").unwrap(),
            &all[..1],
        ),
        ("added", |fixture| drop(fixture.git(&["add", "-f", "."])), &all[..]),
    ];
    for (name, change, shown) in cases {
        let (fixture, repository) = begin();
        fixture.write("work.txt", "the run's");
        change(&fixture);
        let found = save_and_roll_back(&fixture, &repository, 1);
        for path in shown {
            assert!(found.iter().any(|found| found == path), "{name}: {found:?}");
        }
        assert_eq!(fixture.git(&["show", "HEAD:work.txt"]), "the run's", "{name}");
    }
}

#[test]
fn what_an_earlier_iteration_began_with_counts_too() {
    let (fixture, repository) = begin();
    fixture.write("work.txt", "1");
    save_and_roll_back(&fixture, &repository, 1);
    fixture.write("late.log", "written by the user between two iterations");
    repository.begin_iteration(2).unwrap();
    fixture.write(".gitignore", "");
    fixture.write("work.txt", "2");
    let found = save_and_roll_back(&fixture, &repository, 2);
    assert_eq!(found, ["ignored/customers.csv", "late.log", "src/local.log"]);
    assert!(fixture.path("late.log").exists());
}

#[test]
fn new_files_beside_ignored_ones_are_the_runs() {
    let (fixture, repository) = begin();
    fixture.write("logs/old.log", "the user's");
    repository.begin_iteration(2).unwrap();
    fixture.write(".gitignore", "");
    fixture.write("logs/new.txt", "the run's");
    repository.commit(2, "m", &CommitPolicy::default()).unwrap();
    assert_eq!(fixture.git(&["show", "HEAD:logs/new.txt"]), "the run's");
    assert!(fixture.git(&["ls-files", "logs/old.log"]).is_empty());
}
