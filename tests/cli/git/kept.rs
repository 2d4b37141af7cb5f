//! What of the user's stays as it is, and what of the run's is not lost.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;

use super::{checkpoints, committed, git, init, two_iterations, write_hook};
use crate::environment::TestEnvironment;

#[test]
fn files_that_were_ignored_stay_the_users_though_the_agent_rewrites_the_rules() {
    let env = committed("iteration");
    env.write("ignored/customers.csv", "Ann").write("src/local.log", "rows");
    env.agent
        .default_call()
        .script("echo 'target/' > .gitignore; touch done\n")
        .out("<promise>COMPLETE: made it</promise>\n");
    let ended = env.run().expect(0);
    ended.says("git would show 2 files that it ignored").says("ignored/customers.csv");
    assert_eq!(ended.stderr.matches("git would show").count(), 1, "{}", ended.stderr);
    assert_eq!(git(&env, &["show", "--format=", "--name-only"]), ".gitignore\ndone");
    let changed = env.ralph(&["diff", "0", "1", "--stat"]).expect(0);
    assert!(!changed.stdout.contains("customers"), "{}", changed.stdout);
    env.ralph(&["rollback", "--to", "0"]).expect(0);
    assert!(!env.path("done").exists());
    assert_eq!(
        (env.read("ignored/customers.csv"), env.read("src/local.log")),
        ("Ann".into(), "rows".into())
    );
}

#[test]
fn what_a_checkpoint_left_out_is_named_and_no_rollback_deletes_it() {
    let env = committed("checkpoint");
    let key = "-----BEGIN PRIVATE KEY-----\nx\n";
    env.write("notes.txt", key);
    git(&env, &["init", "-q", "library"]);
    env.write("library/lib.rs", "1");
    env.agent
        .default_call()
        .script("echo harmless > notes.txt; echo 2 > library/lib.rs; touch done\n")
        .out("<promise>COMPLETE: made it</promise>\n");
    let ended = env.run().expect(0);
    let left_out = "library (a repository of its own), notes.txt (looks like a secret)";
    ended.says(&format!("warning: checkpoints leave out {left_out}"));
    env.ralph(&["rollback", "--list"]).expect(0).says("without 2 files").says("without 1 file");
    let done = env.ralph(&["rollback", "--to", "0"]).expect(0);
    done.says("not restored")
        .says("library (a repository of its own)")
        .says("notes.txt (looks like a secret)");
    assert_eq!((env.read("notes.txt"), env.path("done").exists()), ("harmless\n".into(), false));
    let again = env.ralph(&["rollback", "--to", "0", "--json"]).expect(0).events().remove(0);
    assert_eq!(again["not_restored"][0]["path"], "library");
    env.ralph(&["rollback", "--to", "0"]).expect(0).says("as far as that has its files");
}

#[test]
fn a_commit_that_a_hook_rejects_is_made_up_for_by_the_next() {
    let env = committed("iteration");
    write_hook(&env, "pre-commit", "grep -q 2 work.txt || { echo 'lint: no 2' >&2; exit 1; }");
    two_iterations(&env);
    let ended = env.run().expect(0);
    ended.says("warning: no commit: ");
    assert!(!ended.stderr.contains("not in git"), "{}", ended.stderr);
    let prompt = String::from_utf8(env.agent.stdin(2)).unwrap();
    assert!(prompt.starts_with("What the last iteration left could not be committed:"), "{prompt}");
    assert!(prompt.contains("lint: no 2"), "{prompt}");
    assert_eq!(git(&env, &["show", "--format=", "--name-only"]), "done\nwork.txt");
    assert_eq!(git(&env, &["status", "--porcelain"]), "");
    assert_eq!(checkpoints(&env), ["0", "1", "2"]);
}

#[test]
fn a_stale_lock_of_the_index_holds_the_work_up_and_loses_none() {
    let env = committed("iteration");
    env.agent.call(1).script("echo 1 > work.txt; touch .git/index.lock\n");
    env.agent
        .call(2)
        .script("rm .git/index.lock; touch done\n")
        .out("<promise>COMPLETE: made it</promise>\n");
    env.run().expect(0).says("index.lock");
    assert_eq!(git(&env, &["show", "--format=", "--name-only"]), "done\nwork.txt");
}

#[test]
fn the_end_and_why_name_what_of_the_run_is_in_no_commit() {
    let env = committed("iteration");
    env.write("a.txt", "the user's\n").write("scratch.txt", "the user's, and never changed\n");
    git(&env, &["init", "-q", "library"]);
    git(
        &env,
        &[
            "-C",
            "library",
            "-c",
            "user.name=A",
            "-c",
            "user.email=a@b",
            "commit",
            "-q",
            "--allow-empty",
            "-m",
            "x",
        ],
    );
    env.write("library/lib.rs", "1");
    env.agent
        .default_call()
        .script("echo more >> a.txt; echo 2 > library/lib.rs; touch done\n")
        .out("<promise>COMPLETE: made it</promise>\n");
    let named = "a.txt (was not committed before the iteration), library (a repository of its own)";
    let ended = env.run().expect(0);
    ended.says("not in git").says(named);
    let status = env.ralph(&["status"]).expect(0);
    status.says("not in git");
    let why = env.ralph(&["why"]).expect(0);
    why.says("commit what you want to keep");
    for said in [ended, status, why] {
        assert!(
            !said
                .stderr
                .lines()
                .any(|line| line.contains("not in git") && line.contains("scratch"))
        );
    }
}

#[test]
fn a_commit_that_fails_last_is_named_at_the_end() {
    let env = committed("iteration");
    write_hook(&env, "pre-commit", "echo 'lint: never' >&2; exit 1");
    two_iterations(&env);
    env.run().expect(0).says("2 files in no commit: done, work.txt; the last commit failed:");
    env.ralph(&["why"]).expect(0).says("in no commit").says("lint: never");
    // Once it is committed, there is nothing to say.
    git(&env, &["add", "done", "work.txt"]);
    git(&env, &["commit", "-qnm", "by hand"]);
    assert!(!env.ralph(&["status"]).expect(0).stdout.contains("not in git"));
}

#[test]
fn a_worktree_s_ignored_files_are_named_and_kept_by_the_printed_commands() {
    let env = TestEnvironment::with_checks_in_workspace();
    env.config("[git]\ncommit = \"iteration\"\nworktree = true\n");
    init(&env);
    env.write("a.txt", "one\n").write(".gitignore", "results/\n*.bin\n");
    git(&env, &["add", "."]);
    git(&env, &["commit", "-qm", "first"]);
    env.write("results/model.txt", "the user's\n");
    env.agent
        .default_call()
        .script("mkdir -p results src; echo 12 hours > results/model.txt; echo x > results/log.txt; echo x > 'src/it is.bin'; touch done\n")
        .out("<promise>COMPLETE: made it</promise>\n");
    let ended = env.run().expect(0);
    ended.says("ignored").says("results, src/it is.bin: ignored, so in no commit");
    let printed = |label: &str| {
        let line = ended.stderr.lines().find_map(|line| line.trim_start().strip_prefix(label));
        line.unwrap().trim().to_owned()
    };
    for label in ["merge ", "keep ", "remove "] {
        let output =
            env.program(std::path::Path::new("sh")).args(["-c", &printed(label)]).output().unwrap();
        assert!(output.status.success() || label == "keep ", "{label}: {output:?}");
    }
    assert_eq!(env.read("results/model.txt"), "the user's\n", "nothing is overwritten");
    assert_eq!(
        (env.read("results/log.txt"), env.read("src/it is.bin")),
        ("x\n".into(), "x\n".into())
    );
    assert!(env.path("done").exists());
}

#[test]
fn many_ignored_files_of_a_worktree_within_a_repository_are_kept_by_one_command() {
    let env = TestEnvironment::with_checks_in_workspace();
    env.config("[git]\ncommit = \"iteration\"\nworktree = true\n");
    init(&env);
    env.write("sub/PROMPT.md", "Make a file called done.\n").write(".gitignore", "*.bin\n");
    let text = env.read("ralph.toml");
    let of_run = "[run]\nworkspace = \"sub\"\nprompt = \"sub/PROMPT.md\"\n";
    env.write("ralph.toml", text.replacen("[run]\n", of_run, 1));
    git(&env, &["add", "."]);
    git(&env, &["commit", "-qm", "first"]);
    env.agent
        .default_call()
        .script("for i in 1 2 3 4 5 6 7; do echo $i > $i.bin; done; touch done\n")
        .out("<promise>COMPLETE: made it</promise>\n");
    let ended = env.run().expect(0);
    ended.says("and 2 more: ignored");
    let line = ended.stderr.lines().find_map(|line| line.trim_start().strip_prefix("keep "));
    let output = env
        .program(std::path::Path::new("sh"))
        .args(["-c", line.unwrap().trim()])
        .output()
        .unwrap();
    assert!(output.status.success(), "{output:?}");
    assert_eq!((env.read("sub/1.bin"), env.read("sub/7.bin")), ("1\n".into(), "7\n".into()));
}

#[test]
fn files_that_are_not_committed_are_said_once_when_a_run_begins() {
    let env = committed("off");
    two_iterations(&env);
    env.config("[env]\nset = { PLACE = \"secret-place-9\" }\n");
    git(&env, &["commit", "-qam", "configuration"]);
    let quiet = env.ralph(&["doctor"]).expect(0);
    assert!(!quiet.stdout.contains("not committed"), "{}", quiet.stdout);
    env.write("a.txt", "half an edit\n")
        .write("in-secret-place-9.txt", "x")
        .write("PROMPT.md", "Make a file called done.\n");
    let warning = "2 files of yours in";
    env.ralph(&["doctor"]).expect(0).says(warning);
    let begun = env.ralph(&["run", "--set", "limits.max_iterations=1"]).expect(1);
    begun.says(warning).says("(a.txt, in-***.txt)").says("worktree = true");
    assert_eq!(begun.stderr.matches(warning).count(), 1, "{}", begun.stderr);
    let resumed = env.run().expect(0);
    assert!(!resumed.stderr.contains("of yours"), "{}", resumed.stderr);
}

#[test]
fn nothing_is_said_of_files_where_the_run_has_a_worktree_or_there_is_no_repository() {
    let env = committed("off");
    two_iterations(&env);
    env.write("scratch.txt", "x");
    let inside = env.ralph(&["run", "--set", "git.worktree=true"]).expect(0);
    assert!(!inside.stderr.contains("of yours"), "{}", inside.stderr);
    let env = TestEnvironment::new();
    two_iterations(&env);
    env.write("scratch.txt", "x");
    assert!(!env.run().expect(0).stderr.contains("of yours"));
}

#[test]
fn init_offers_a_worktree_in_a_repository_only() {
    for is_repository in [true, false] {
        let env = TestEnvironment::new();
        fs::remove_file(env.path("ralph.toml")).unwrap();
        if is_repository {
            init(&env);
        }
        env.ralph(&["init", "--no-run", "--test", "true", "--", "true"]).expect(0);
        assert_eq!(env.read("ralph.toml").contains("# worktree = true"), is_repository);
        env.ralph(&["config", "check"]).expect(0);
    }
}

#[test]
fn a_program_that_waits_to_sign_holds_up_neither_the_run_nor_its_validation() {
    let env = committed("iteration");
    env.config("[git]\ncommit = \"iteration\"\ntimeout = \"1s\"\n");
    two_iterations(&env);
    let (gate, signer) = (env.fifo("gate"), env.root().join("signer"));
    let script = format!("#!/bin/sh\necho at > '{}'; exec tail -f /dev/null\n", gate.display());
    fs::write(&signer, script).unwrap();
    fs::set_permissions(&signer, fs::Permissions::from_mode(0o755)).unwrap();
    git(&env, &["config", "commit.gpgSign", "true"]);
    git(&env, &["config", "gpg.program", signer.to_str().unwrap()]);
    let mut running = env.start(&["run"]);
    for iteration in ["1", "2"] {
        assert_eq!(fs::read_to_string(&gate).unwrap(), "at\n", "{iteration}");
        if iteration == "1" {
            env.ralph(&["status"]).expect(0).says("waiting     for the commit of iteration 1");
        }
    }
    let ended = running.wait().expect(0);
    ended.says("[git] timeout says how long").says("2 files in no commit: done, work.txt");
    git(&env, &["config", "commit.gpgSign", "false"]);
    env.ralph(&["why"]).expect(0).says("commit what you want to keep");
}

#[test]
fn a_file_that_a_submodule_has_is_named_as_not_restorable_and_in_no_commit() {
    let library = committed("off");
    let env = committed("iteration");
    let source = library.workspace().display().to_string();
    git(&env, &["-c", "protocol.file.allow=always", "submodule", "add", "-q", &source, "lib"]);
    git(&env, &["commit", "-qm", "submodule"]);
    env.agent
        .default_call()
        .script("echo changed > lib/a.txt\ntouch done\n")
        .out("<promise>COMPLETE: made it</promise>\n");
    let ended = env.run().expect(0);
    ended.says("checkpoints leave out lib (a repository of its own)");
    ended.says("1 file in no commit: lib (a repository of its own)");
    env.ralph(&["rollback", "--to", "0"]).expect(0).says("  lib (a repository of its own)");
    assert_eq!(env.read("lib/a.txt"), "changed\n");
    env.ralph(&["rollback", "--to", "0"]).expect(0).says("as far as that has its files");
}
