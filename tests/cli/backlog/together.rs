//! A backlog together with git and with prompts of roles.

use rustix::process::Signal;
use serde_json::Value;

use super::{environment, feature, feature_list, statuses, worked};
use crate::environment::TestEnvironment;
use crate::git::git;

const MORE: &str = "[git]\ncommit = \"iteration\"\n";

/// A repository with these items, in which each iteration is committed.
fn committed(items: &[Value]) -> TestEnvironment {
    let env = environment("json", "feature-list.json", MORE);
    env.write("feature-list.json", feature_list(items));
    git(&env, &["init", "-qb", "main"]);
    git(&env, &["config", "user.name", "Ada User"]);
    git(&env, &["config", "user.email", "ada@example.org"]);
    git(&env, &["add", "feature-list.json", "PROMPT.md", "ralph.toml"]);
    git(&env, &["commit", "-qm", "first"]);
    env
}

#[test]
fn each_items_work_is_committed_and_no_process_of_git_holds_the_next_one_up() {
    let env = committed(&[feature("a", 3, &[]), feature("b", 2, &[]), feature("c", 1, &[])]);
    env.run().expect(0).says("backlog 3/3 (100.0%): completed");
    assert_eq!(worked(&env), ["a", "b", "c"]);
    let subjects = git(&env, &["log", "--reverse", "--format=%s"]);
    let of_items = |subject: &&str| subject.starts_with("Complete item ");
    let subjects: Vec<&str> = subjects.lines().filter(of_items).collect();
    let expected = ["a", "b", "c"].map(|id| format!("Complete item {id}: Make {id}"));
    assert_eq!(subjects, expected);
    let count = git(&env, &["rev-list", "--count", "HEAD"]);
    assert_eq!(count, "7", "for each item a commit of the work and one of the status");
    assert_eq!(git(&env, &["status", "--porcelain", "--", "feature-list.json"]), "");
    for name in ["a", "b", "c"] {
        git(&env, &["cat-file", "-e", &format!("HEAD:made-{name}")]);
    }
    assert!(statuses(&env).iter().all(|(_, status)| status == "completed"));
}

#[test]
fn what_the_user_changed_in_the_backlog_is_not_committed_with_a_status() {
    let env = committed(&[feature("a", 3, &[])]);
    let edited = env.read("feature-list.json").replace("A file for a.", "Mine, not committed.");
    env.write("feature-list.json", edited);
    env.run()
        .expect(0)
        .says("the status of item `a` is not committed: feature-list.json has other");
    let committed = git(&env, &["show", "HEAD:feature-list.json"]);
    assert!(committed.contains("A file for a.") && !committed.contains("completed"));
    assert_eq!(statuses(&env), [("a".to_owned(), "completed".to_owned())]);
}

#[test]
fn kill_9_around_the_commit_of_a_status_commits_it_once() {
    // What HEAD is when the hook runs for the commit of a status.
    for (hook, head) in [("pre-commit", "(iteration 1)$"), ("post-commit", "^Complete item")] {
        let env = committed(&[feature("a", 3, &[]), feature("b", 2, &[])]);
        let (gate, once) = (env.fifo("gate"), env.root().join("once"));
        let script = format!(
            "#!/bin/sh\nif git log -1 --format=%s | grep -q '{head}' && mkdir '{}'; then\n\
             echo at > '{}'; sleep 600; fi\n",
            once.display(),
            gate.display()
        );
        std::fs::create_dir_all(env.path(".git/hooks")).unwrap();
        let path = format!(".git/hooks/{hook}");
        env.write(&path, script).write_mode(&path, 0o755);
        let mut running = env.start(&["run"]);
        assert_eq!(std::fs::read_to_string(&gate).unwrap(), "at\n");
        running.signal(Signal::KILL);
        running.wait();
        env.run().expect(0).says("backlog 2/2 (100.0%): completed");
        let subjects = git(&env, &["log", "--format=%s"]);
        for id in ["a", "b"] {
            let subject = format!("Complete item {id}: Make {id}");
            assert_eq!(subjects.matches(&subject).count(), 1, "{hook}: {subjects}");
        }
        assert_eq!(git(&env, &["status", "--porcelain", "--", "feature-list.json"]), "", "{hook}");
        assert_eq!(env.agent.calls(), 2, "{hook}");
    }
}

#[test]
fn an_item_follows_the_prompt_of_the_role() {
    let env = environment("json", "feature-list.json", "[prompts]\n");
    env.write("feature-list.json", feature_list(&[feature("a", 1, &[])]));
    std::fs::create_dir(env.path("prompts")).unwrap();
    env.write("prompts/coding.md", "You write code.\n");
    env.run().expect(0);
    let given = String::from_utf8(env.agent.stdin(1)).unwrap();
    assert!(given.starts_with("You write code.\n"), "{given}");
    assert!(given.contains("# Current item: Make a\n"), "{given}");
}

#[test]
fn an_unfinished_backlog_is_not_called_done() {
    let env = environment("json", "feature-list.json", "[limits]\nmax_iterations = 1\n");
    env.write("feature-list.json", feature_list(&[feature("a", 2, &[]), feature("b", 1, &[])]));
    env.run().expect(1).says("max_iterations");
    let why = env.ralph(&["why"]).expect(0);
    assert!(!why.stdout.contains("nothing: the work is proved done"), "{}", why.stdout);
    why.says("limits.max_iterations");
}

#[test]
fn an_item_that_is_complete_is_not_the_end_of_an_unfinished_backlog() {
    let env = environment("json", "feature-list.json", "[limits]\nmax_iterations = 1\n");
    env.write("feature-list.json", feature_list(&[feature("a", 2, &[]), feature("b", 1, &[])]));
    let ended = env.run().expect(1);
    assert!(env.has_record("completed"), "its item is");
    ended.says("next: raise limits.max_iterations, which all items use up together");
    let status = env.status();
    assert_eq!(
        (&status["phase"], &status["stop_reason"]),
        (&"stopped".into(), &"max_iterations".into())
    );
    env.ralph(&["status"]).expect(0).says("stopped (max_iterations)");
    env.ralph(&["runs", "--all"]).expect(0).says("stopped");
    env.ralph(&["report", "--html", "page.html"]).expect(0);
    assert!(env.read("page.html").contains("stopped (max_iterations)"));
    env.ralph(&["run", "--max-iterations", "2"]).expect(0);
    assert_eq!(env.status()["phase"], "completed");
}
