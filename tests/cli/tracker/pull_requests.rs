//! `[git] on_complete = "pull-request"`: the branch at the remote, and one draft pull request.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::PathBuf;

use rustix::process::Signal;
use serde_json::{Value, json};

use super::{HOSTS, Tracker, issue};
use crate::backlog::WORK;
use crate::environment::eventually;
use crate::git::{git, init, write_hook};

const TABLE: &str =
    "[git]\nworktree = true\ncommit = \"iteration\"\non_complete = \"pull-request\"\n";

/// A repository with a remote at this kind of host, and an issue to work on.
fn repository(kind: &str) -> Tracker {
    let tracker = Tracker::new(kind, &[issue(1, "Make it", "Do.", &["ralph"])], "");
    let env = &tracker.env;
    let text = env.read("ralph.toml");
    env.write("ralph.toml", text + TABLE).write(".gitignore", "order\n");
    init(env);
    git(env, &["init", "-q", "--bare", "-b", "main", remote(&tracker).to_str().unwrap()]);
    let url = format!("https://{kind}.example.org/acme/widgets");
    let instead = format!("url.{}.insteadOf", remote(&tracker).display());
    git(env, &["config", "--global", &instead, &url]);
    git(env, &["remote", "add", "origin", &url]);
    git(env, &["add", "."]);
    git(env, &["commit", "-qm", "first"]);
    git(env, &["push", "-q", "origin", "main"]);
    tracker
}

/// The same for a single run.
fn single(kind: &str) -> Tracker {
    let tracker = repository(kind);
    let backlog = format!("[backlog]\nkind = \"{kind}\"\nrepository = \"acme/widgets\"\n");
    let text = tracker.env.read("ralph.toml");
    assert!(text.contains(&backlog));
    tracker.env.write("ralph.toml", text.replace(&backlog, ""));
    tracker
}

fn remote(tracker: &Tracker) -> PathBuf {
    tracker.env.root().join("remote.git")
}

/// The branches at the remote.
fn pushed(tracker: &Tracker) -> Vec<String> {
    let folder = remote(tracker).display().to_string();
    let refs = git(&tracker.env, &["-C", &folder, "for-each-ref", "--format=%(refname)"]);
    refs.lines().map(str::to_owned).collect()
}

fn pulls(tracker: &Tracker) -> Vec<Value> {
    tracker.host()["pulls"].as_array().unwrap().clone()
}

/// Fails unless the run's branch and main are at the remote, and one draft is open for it.
fn verify(tracker: &Tracker, moment: &str) {
    let (refs, pulls) = (pushed(tracker), pulls(tracker));
    assert_eq!((refs.len(), pulls.len()), (2, 1), "{moment}: {refs:?} {pulls:?}");
    assert_eq!(refs[0], "refs/heads/main");
    assert_eq!(refs[1], format!("refs/heads/{}", pulls[0]["headRefName"].as_str().unwrap()));
    assert_eq!((&pulls[0]["isDraft"], &pulls[0]["state"]), (&json!(true), &json!("OPEN")));
}

#[test]
fn a_complete_run_has_its_branch_at_the_remote_and_one_draft_whose_text_is_the_receipt() {
    for (kind, _) in HOSTS {
        let mut tracker = single(kind);
        tracker.env.var("MY_API_TOKEN", "hunter2-hunter2");
        tracker.env.write("PROMPT.md", "# Rules of hunter2-hunter2\n\nMake it.\n");
        git(&tracker.env, &["commit", "-qam", "prompt"]);
        let head = git(&tracker.env, &["rev-parse", "HEAD"]);
        tracker.env.run().expect(0).says("draft pull request: https://example.org/pull/100");
        verify(&tracker, kind);
        let pull = &pulls(&tracker)[0];
        assert_eq!(pull["title"], "Rules of ***");
        let body = pull["body"].as_str().unwrap();
        let parts = [
            "**Complete.**",
            "| `made` | accepted",
            "Cost: ",
            "1 iteration",
            "ralph-orchestrator verify",
        ];
        for part in parts {
            assert!(body.contains(part), "{part}: {body}");
        }
        // Another start has nothing to do, and asks nothing.
        let asked = tracker.calls().len();
        tracker.env.run().expect(0).says("already completed");
        assert_eq!(tracker.calls().len(), asked);
        assert_eq!(git(&tracker.env, &["rev-parse", "HEAD"]), head);
    }
}

#[test]
fn the_items_of_a_backlog_are_named_and_closed_by_the_pull_request() {
    let tracker = repository("github");
    tracker.env.run().expect(0);
    verify(&tracker, "backlog");
    let pull = &pulls(&tracker)[0];
    assert_eq!(pull["title"], "Make it");
    let body = pull["body"].as_str().unwrap();
    assert!(body.contains("## Item 1: `Make it`\n\nCloses acme/widgets#1.\n"), "{body}");
}

/// Adds an issue at the host.
fn add_issue(tracker: &Tracker, number: u64, title: &str) {
    tracker.change(|host| {
        host["issues"].as_array_mut().unwrap().push(issue(number, title, "Do.", &["ralph"]));
    });
}

#[test]
fn a_further_night_adds_to_the_open_request_and_keeps_what_its_owner_wrote() {
    for (kind, _) in HOSTS {
        let tracker = repository(kind);
        tracker.env.run().expect(0);
        tracker.change(|host| {
            let body = host["pulls"][0]["body"].as_str().unwrap().to_owned();
            host["pulls"][0]["body"] = json!(format!("Mine, above.\n\n{body}\nMine, below.\n"));
        });
        for (number, title) in [(2, "And this"), (3, "And that")] {
            add_issue(&tracker, number, title);
            if number == 3 {
                tracker.change(|host| host["pulls"][0]["title"] = json!("Mine"));
            }
            tracker.env.run().expect(0);
            verify(&tracker, kind);
            let pull = &pulls(&tracker)[0];
            let body = pull["body"].as_str().unwrap();
            let sections: Vec<&str> = body.split("## Item ").skip(1).collect();
            assert_eq!(sections.len() as u64, number, "{body}");
            for (n, section) in sections.iter().enumerate() {
                let closes = format!("Closes acme/widgets#{}.\n", n + 1);
                assert!(section.contains(&closes) && section.contains("| `made` |"), "{body}");
            }
            assert!(body.starts_with("Mine, above.\n\n<!--"), "{body}");
            assert!(body.ends_with("-->\n\nMine, below.\n"), "{body}");
            let title = if number == 3 { "Mine" } else { "2 items of the backlog" };
            assert_eq!(pull["title"], title);
        }
    }
}

#[test]
fn once_the_request_is_merged_or_closed_the_next_issue_is_on_a_new_branch_of_what_main_is_then() {
    for (kind, state) in [("github", "MERGED"), ("gitlab", "CLOSED")] {
        let tracker = repository(kind);
        // A start that finds no further issue makes no branch.
        tracker.env.run().expect(0);
        tracker.change(|host| host["pulls"][0]["state"] = json!(state));
        tracker.env.run().expect(0);
        assert_eq!(pushed(&tracker).len(), 2);
        let of_branches = ["for-each-ref", "--format=%(refname)", "refs/heads/ralph"];
        assert_eq!(git(&tracker.env, &of_branches).lines().count(), 1);
        // Somebody else has pushed, and the user's checkout is as it was.
        let (tree, head) = ("HEAD^{tree}", git(&tracker.env, &["rev-parse", "HEAD"]));
        let theirs = git(&tracker.env, &["commit-tree", "-p", &head, "-m", "theirs", tree]);
        git(&tracker.env, &["push", "-q", "origin", &format!("{theirs}:refs/heads/main")]);
        add_issue(&tracker, 2, "The next");
        let word = state.to_lowercase();
        tracker.env.run().expect(0).says(&format!("its pull request was {word}: a new run begins"));
        let pull = &pulls(&tracker)[1];
        let branch = format!("refs/heads/{}", pull["headRefName"].as_str().unwrap());
        assert!(pushed(&tracker).contains(&branch) && pushed(&tracker).len() == 3);
        let base = git(&tracker.env, &["rev-parse", &format!("{branch}~1")]);
        assert_eq!(base, theirs, "{kind}");
        let files = git(&tracker.env, &["ls-tree", "--name-only", &branch]);
        assert!(files.contains("made-2") && !files.contains("made-1"), "{files}");
        let body = pull["body"].as_str().unwrap();
        assert!(body.contains("Item 2") && !body.contains("Item 1"), "{body}");
        assert_eq!(tracker.env.agent.calls(), 2);
    }
}

#[test]
fn work_that_no_check_accepted_is_named_and_then_no_issue_is_closed() {
    let tracker = repository("github");
    tracker.change(|host| {
        host["issues"].as_array_mut().unwrap().push(issue(2, "Not made", "Do.", &["ralph"]));
    });
    let env = &tracker.env;
    let text = env.read("ralph.toml");
    let check =
        "[backlog]\nmax_item_iterations = 1\ncheck = [\"test\", \"{item}\", \"=\", \"1\"]\n";
    env.write("ralph.toml", text.replace("[backlog]\n", check));
    git(env, &["commit", "-qam", "check"]);
    env.run().expect(2).says("draft pull request: ");
    let pull = &pulls(&tracker)[0];
    let body = pull["body"].as_str().unwrap();
    let named = "which may have changed what is complete:\n\n- Item 2: `Not made`\n";
    for part in [named, "Part of acme/widgets#1.\n", "Its own check: `test 1 = 1`\n"] {
        assert!(body.contains(part), "{part}: {body}");
    }
    assert!(!body.contains("Closes"), "{body}");
}

#[test]
fn commits_with_the_value_of_a_secret_are_not_pushed() {
    let mut tracker = single("github");
    tracker.env.var("MY_API_TOKEN", "hunter2-hunter2");
    let leak = format!("{WORK}echo 'token: hunter2-hunter2' > notes.txt\n");
    tracker.env.agent.default_call().script(&leak);
    let ended = tracker.env.run().expect(69);
    ended.says("the branch is not pushed: notes.txt in commit ").says("has the value of a secret");
    assert_eq!((pushed(&tracker).len(), pulls(&tracker).len()), (1, 0));
}

#[test]
fn what_looks_like_a_secret_in_commits_of_agents_is_pushed_by_a_person_or_not_at_all() {
    let table = [
        ("sub/.env", "A=1", "sub/.env in commit ", "looks like a file of secrets"),
        (
            "a b.txt",
            "ghp_0123456789abcdefghijABCDEFGHIJ012345",
            "a b.txt in commit ",
            "has what looks like a key",
        ),
    ];
    for (file, content, place, sign) in table {
        let tracker = single("github");
        // It is not in the last commit any more.
        tracker.env.agent.default_call().script(&format!(
            "{WORK}mkdir -p sub; echo '{content}' > '{file}'; git add -A; git commit -qm work; git rm -q '{file}'; git commit -qm less\n"
        ));
        let ended = tracker.env.run().expect(69);
        ended.says(&format!("the branch is not pushed: {place}")).says(sign);
        assert_eq!((pushed(&tracker).len(), pulls(&tracker).len()), (1, 0));
        let branch = ["for-each-ref", "--format=%(refname:short)", "refs/heads/ralph"];
        let branch = git(&tracker.env, &branch);
        git(&tracker.env, &["push", "-q", "origin", &branch]);
        tracker.env.run().expect(0).says("draft pull request: ");
        verify(&tracker, file);
    }
}

#[test]
fn what_the_host_would_run_is_named_and_no_host_acts_on_what_an_agent_claims() {
    let tracker = repository("github");
    tracker.change(|host| host["issues"][0]["title"] = json!("Make it, fixes #43"));
    let claim = "<promise>COMPLETE: fixes #43, closes o/r#3, @admin [skip ci]</promise>\n";
    let workflow = "mkdir -p .github/workflows; echo 'on: push' > .github/workflows/x.yml\n";
    tracker.env.agent.default_call().script(&format!("{WORK}{workflow}")).out(claim);
    let ended = tracker.env.run().expect(0);
    ended.says("with the repository's secrets: .github/workflows/x.yml");
    let pull = &pulls(&tracker)[0];
    let body = pull["body"].as_str().unwrap();
    assert!(body.contains("let it run.\n\n- `.github/workflows/x.yml`\n"), "{body}");
    assert_eq!(pull["title"], "Make it, fixes # 43");
    let messages = git(
        &tracker.env,
        &["log", "--format=%B", &format!("main..{}", pull["headRefName"].as_str().unwrap())],
    );
    assert!(messages.contains("fixes # 43"), "{messages}");
    for acting in ["#43", "#3", "@admin", "[skip ci]"] {
        assert!(!messages.contains(acting), "{acting}: {messages}");
    }
}

#[test]
fn the_commands_in_the_request_verify_the_work_in_a_clone_of_somebody_else() {
    let tracker = repository("github");
    let text = tracker.env.read("ralph.toml");
    let text = text.replace("ls made-*", "ls made-$RALPH_ITEM");
    let check = "[backlog]\ncheck = [\"test\", \"-e\", \"made-{item}\"]\n";
    tracker.env.write("ralph.toml", text.replace("[backlog]\n", check));
    git(&tracker.env, &["commit", "-qam", "checks"]);
    git(&tracker.env, &["push", "-q", "origin", "main"]);
    tracker.env.run().expect(0);
    let pull = &pulls(&tracker)[0];
    let (body, branch) = (pull["body"].as_str().unwrap(), pull["headRefName"].as_str().unwrap());
    assert!(body.contains("\nralph-orchestrator verify --item 1\n```\n"), "{body}");
    let clone = tracker.env.root().join("clone");
    let from = remote(&tracker).display().to_string();
    git(&tracker.env, &["clone", "-q", "-b", branch, &from, clone.to_str().unwrap()]);
    for (item, code, says) in [("1", 0, "ok    made"), ("2", 1, "FAIL  backlog.check")] {
        let mut command = tracker.env.command(&["verify", "--item", item]);
        let ended = command.current_dir(&clone).output().unwrap();
        let printed = String::from_utf8(ended.stdout).unwrap();
        assert!(ended.status.code() == Some(code) && printed.contains(says), "{item}: {printed}");
    }
}

#[test]
fn a_first_start_that_the_host_refuses_leaves_no_branch() {
    let tracker = repository("github");
    let message = "GraphQL: Could not resolve to a Repository with the name 'a/b'.";
    tracker.change(|host| host["fail"]["issue list"] = json!({"times": 1, "message": message}));
    tracker.env.run().expect(69).says("check `repository`");
    let branches = git(&tracker.env, &["for-each-ref", "--format=%(refname)", "refs/heads"]);
    assert_eq!(branches, "refs/heads/main");
    tracker.env.run().expect(0);
}

#[test]
fn an_issue_is_done_once_its_work_is_at_the_host_and_not_worked_on_again_until_then() {
    for (kind, _) in HOSTS {
        let tracker = repository(kind);
        add_issue(&tracker, 2, "Later");
        let hook = remote(&tracker).join("hooks/pre-receive");
        fs::write(&hook, "#!/bin/sh\necho 'not on this branch' >&2\nexit 1\n").unwrap();
        fs::set_permissions(&hook, fs::Permissions::from_mode(0o755)).unwrap();
        for _ in 0..2 {
            let ended = tracker.env.run().expect(69);
            ended.says("item `1` is complete, and its work is only here");
            ended.says("not on this branch").says("by hand: `git -C ");
            assert_eq!(tracker.labels(1), ["ralph", "ralph:in-progress"], "{kind}");
            assert_eq!((tracker.comments(1).len(), tracker.env.agent.calls()), (0, 1), "{kind}");
        }
        fs::remove_file(&hook).unwrap();
        tracker.env.run().expect(0).says("draft pull request: ");
        verify(&tracker, kind);
        for number in [1, 2] {
            assert_eq!(tracker.labels(number), ["ralph", "ralph:done"], "{kind}");
            assert_eq!(tracker.comments(number).len(), 1, "{kind}");
        }
        assert_eq!(tracker.env.agent.calls(), 2);
    }
}

#[test]
fn killed_when_the_branch_is_pushed_or_the_request_is_open_there_is_one_afterwards() {
    for step in ["push", "pr list", "pr create"] {
        let tracker = single("github");
        let held = tracker.env.root().join("held");
        let hook = remote(&tracker).join("hooks/post-receive");
        if step == "push" {
            let waits = tracker.env.fifo("waits");
            let script =
                format!("#!/bin/sh\n: > '{}'\ncat '{}'\n", held.display(), waits.display());
            fs::write(&hook, script).unwrap();
            fs::set_permissions(&hook, fs::Permissions::from_mode(0o755)).unwrap();
        } else {
            tracker.change(|host| host["hold"] = json!(step));
        }
        let mut running = tracker.env.start(&["run"]);
        eventually("the step", || held.exists());
        running.signal(Signal::KILL);
        running.wait();
        let _ = fs::remove_file(&hook);
        tracker.env.run().expect(0).says("draft pull request: ");
        verify(&tracker, step);
        assert_eq!(tracker.env.agent.calls(), 1);
    }
}

#[test]
fn what_keeps_the_request_from_being_opened_undoes_no_completion_and_is_tried_again_by_the_next_run()
 {
    let tracker = single("github");
    let elsewhere = tracker.env.root().join("elsewhere.git");
    fs::rename(remote(&tracker), &elsewhere).unwrap();
    let ended = tracker.env.run().expect(69);
    ended.says("the branch is not pushed").says("by hand: `git -C ");
    fs::rename(&elsewhere, remote(&tracker)).unwrap();
    let message = "error connecting to api.github.com";
    tracker.change(|host| host["fail"]["pr create"] = json!({"times": 4, "message": message}));
    let ended = tracker.env.run().expect(69);
    ended.says("the branch is pushed, and no pull request is open");
    ended.says("by hand: `gh pr create --repo https://github.example.org/acme/widgets --draft");
    tracker.env.run().expect(0).says("draft pull request: ");
    verify(&tracker, "afterwards");
    assert_eq!(tracker.env.agent.calls(), 1);
}

#[test]
fn a_pre_push_hook_decides_and_no_branch_is_forced() {
    let tracker = single("github");
    write_hook(&tracker.env, "pre-push", "echo 'not now' >&2; exit 1");
    tracker.env.run().expect(69).says("the branch is not pushed").says("not now");
    assert_eq!((pushed(&tracker).len(), pulls(&tracker).len()), (1, 0));
    let branch =
        git(&tracker.env, &["for-each-ref", "--format=%(refname:short)", "refs/heads/ralph"]);
    // Somebody else has pushed another branch of this name.
    write_hook(&tracker.env, "pre-push", "exit 0");
    git(&tracker.env, &["commit", "-q", "--allow-empty", "-m", "theirs"]);
    git(&tracker.env, &["push", "-q", "origin", &format!("HEAD:refs/heads/{branch}")]);
    let theirs = git(&tracker.env, &["ls-remote", "origin", &branch]);
    tracker.env.run().expect(69).says("the branch is not pushed");
    assert_eq!(git(&tracker.env, &["ls-remote", "origin", &branch]), theirs);
    assert!(pulls(&tracker).is_empty());
}

#[test]
fn a_dry_run_shows_it_and_a_run_without_a_branch_of_its_own_is_refused() {
    let tracker = single("github");
    tracker.env.ralph(&["run", "--dry-run"]).expect(0).says("draft pull request");
    assert_eq!((pushed(&tracker).len(), tracker.calls().len()), (1, 0));
    let text = tracker.env.read("ralph.toml").replace("worktree = true\n", "");
    tracker.env.write("ralph.toml", text);
    tracker.env.ralph(&["config", "check"]).expect(78).says("git.on_complete");
}
