//! Checks that run in the work as a clean checkout would have it: what an agent hides in ignored files does not count, and
//! what checks write does not reach the user's tree.

use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::environment::TestEnvironment;

const CLAIM: &str = "<promise>COMPLETE: made it</promise>\n";

fn git(env: &TestEnvironment, args: &[&str]) -> String {
    let mut command = Command::new("git");
    command.arg("-C").arg(env.workspace()).args([
        "-c",
        "user.name=t",
        "-c",
        "user.email=t@localhost",
    ]);
    let output = command.args(args).env("HOME", env.root()).output().unwrap();
    assert!(output.status.success(), "{args:?}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

/// A repository that ignores `out` and `venv`, whose check is this script; `protect` is what it protects.
fn repository(place: &str, check: &str, protect: &str) -> TestEnvironment {
    configured(&format!("where = \"{place}\"\n"), check, protect)
}

/// The same, with these keys of `[validation]`.
fn configured(validation: &str, check: &str, protect: &str) -> TestEnvironment {
    let env = TestEnvironment::new();
    let agent = env.agent.program().display().to_string();
    env.raw_config(&format!(
        "[run]\ndelay = \"0s\"\n[agent]\nadapter = \"command\"\nunmetered = true\n[agent.config]\n\
         program = [\"{agent}\"]\n[limits]\nmax_iterations = 2\n[validation]\n{validation}\
         [[validator]]\nkind = \"command\"\nname = \"tests\"\nprogram = [\"sh\", \"check.sh\"]\n\
         protect = [{protect}]\n"
    ));
    env.write(".gitignore", "/out\n/venv\n");
    env.write("check.sh", check);
    env.write("src/a", "base\n");
    fs::create_dir_all(env.path("venv")).unwrap();
    env.write("venv/tool", "exit 0\n");
    git(&env, &["init", "-q", "-b", "main"]);
    git(&env, &["add", "."]);
    git(&env, &["commit", "-qm", "base"]);
    env
}

/// Every entry but git's own, with what a touch of it would change.
fn stamps(env: &TestEnvironment) -> Vec<(PathBuf, i64, i64)> {
    fn visit(folder: &Path, all: &mut Vec<(PathBuf, i64, i64)>) {
        for entry in fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.file_name().unwrap() == ".git" || path.file_name().unwrap() == ".ralph" {
                continue;
            }
            let found = fs::symlink_metadata(&path).unwrap();
            all.push((path.clone(), found.ctime(), found.ctime_nsec()));
            if found.is_dir() {
                visit(&path, all);
            }
        }
    }
    let mut all = Vec::new();
    visit(&env.workspace(), &mut all);
    all.sort();
    all
}

/// Each cheats by a file that git ignores: it completes in the agent's tree, and not in a checkout.
#[test]
fn what_is_ignored_and_new_does_not_make_a_check_green() {
    let cheats = [
        ("[ -e out/forged ]", "mkdir out; touch out/forged"),
        ("sh venv/tool && grep -q work src/a || [ -e venv/site.pth ]", "touch venv/site.pth"),
        ("grep -q forged venv/tool", "echo '# forged' >> venv/tool"),
        ("grep -q forged venv/tool", "echo '# forged' >> venv/tool; git add -f venv/tool"),
        ("grep -q forged venv/tool", "echo '# forged' >> venv/tool; : > .gitignore"),
        ("[ -e venv/site.pth ]", "touch venv/site.pth; git add -f venv/site.pth"),
        ("cd out 2>/dev/null && sh ./test", "mkdir out; echo 'exit 0' > out/test"),
    ];
    for (check, cheat) in cheats {
        for (place, code) in [("workspace", 0), ("checkout", 1)] {
            let env = repository(place, check, "\"check.sh\"");
            env.agent.default_call().script(&format!("{cheat}\n")).out(CLAIM);
            let ended = env.run();
            assert_eq!(ended.code, Some(code), "{place} {cheat}: {}", ended.stderr);
            if place == "checkout" {
                let named = env.ralph(&["log", "1"]).stdout;
                assert!(named.contains("green only with"), "{named}");
            }
        }
    }
}

#[test]
fn honest_work_is_accepted_at_once_and_the_users_tree_is_not_touched() {
    // It sees what was there before, builds into a protected folder, rewrites a tracked file, and leaves a daemon.
    let check = "sh venv/tool && mkdir -p tests && echo built > tests/product && echo x >> src/log && \
                 mkdir -p out && echo cache > out/cache && rm check.sh && (sleep 600 & ) && grep -q work src/a\n";
    let env = repository("checkout", check, "\"check.sh\", \"tests/**\"");
    fs::create_dir(env.path("tests")).unwrap();
    env.write("tests/test", "");
    env.write("src/log", "base\n");
    git(&env, &["add", "."]);
    git(&env, &["commit", "-qm", "log"]);
    let stamp = env.root().join("stamp");
    let script = "echo work > src/a; echo new > src/b\n";
    env.agent.default_call().script(script).out(CLAIM);
    let before = stamps(&env);
    fs::write(&stamp, "").unwrap();
    env.run().expect(0);
    assert_eq!(env.agent.calls(), 1);
    let changed: Vec<PathBuf> = stamps(&env)
        .into_iter()
        .filter(|entry| !before.contains(entry))
        .map(|(path, ..)| path.strip_prefix(env.workspace()).unwrap().to_owned())
        .collect();
    assert_eq!(changed, ["src", "src/a", "src/b"].map(PathBuf::from));
    // Nor is there a copy of the repository left, which can have an address with a password.
    let run = fs::read_dir(env.state().join("runs")).unwrap().next().unwrap().unwrap().path();
    assert!(run.join("checkout.json").exists() && !run.join("checkout").exists());
}

#[test]
fn what_a_rejected_validation_wrote_is_gone_before_the_next() {
    // The work plants a file by way of the check that runs it.
    let check = "sh src/a; [ -e venv/planted ]\n";
    let env = repository(
        "checkout",
        &format!("before=$(ls venv); {check}echo \"$before\" | grep -q planted\n"),
        "\"check.sh\"",
    );
    env.agent.default_call().script("echo touch venv/planted > src/a\n").out(CLAIM);
    let ended = env.run();
    assert_ne!(ended.code, Some(0), "{}", ended.stderr);
    assert_eq!(env.agent.calls(), 2);
    assert!(!env.path("venv/planted").exists());
}

#[test]
fn what_slow_checks_built_first_speeds_up_a_rejection_and_proves_nothing() {
    // The build takes what is there, and does not notice that its source is gone.
    let check = "[ -e out/lib ] || { echo >> ../builds; sleep 3; mkdir -p out; cp src/lib out/lib || exit 1; }\n\
                 grep -q work src/a\n";
    let env = configured("explain = \"0s\"\n", check, "\"check.sh\"");
    env.write("src/lib", "");
    let builds = || fs::read_to_string(env.root().join("builds")).unwrap().lines().count();
    env.agent.call(1).out(CLAIM);
    env.agent.call(2).script("rm src/lib; echo work > src/a\n").out(CLAIM);
    env.ralph(&["run", "--once"]).expect(0);
    assert_eq!(builds(), 1);
    env.run().expect(1);
    assert_eq!(builds(), 2);
    env.ralph(&["log", "2"]).says("in a fresh checkout they are red");
}

#[test]
fn what_is_green_without_the_work_is_not_proved_by_it() {
    for change in ["", "echo a note > note; "] {
        let env = configured("", "[ -e ../outside ]\n", "\"check.sh\"");
        env.agent.default_call().script(&format!("{change}touch ../outside\n")).out(CLAIM);
        env.run().expect(1);
        env.ralph(&["log", "1"]).says("so is the workspace without the work");
    }
    // What a person has checks see as it is may be the work, too.
    let env = configured("link = [\"out/made\"]\n", "[ -e out/made ]\n", "\"check.sh\"");
    env.agent.default_call().script("mkdir out; touch out/made\n").out(CLAIM);
    env.run().expect(0);
}

#[test]
fn what_the_agent_installs_again_is_as_it_was() {
    let env = configured("", "sh venv/tool && grep -q work src/a\n", "\"check.sh\"");
    let install = "rm -r venv; mkdir venv; echo 'exit 0' > venv/tool";
    env.agent.call(1).script(&format!("{install}\n")).out(CLAIM);
    env.agent.call(2).script("touch venv/tool; echo work > src/a\n").out(CLAIM);
    // A later process knows what was there, too.
    env.ralph(&["run", "--once"]).expect(0);
    env.run().expect(0);
}

#[test]
fn what_checks_write_to_they_find_as_it_was_although_the_agent_runs_them_too() {
    let check = "[ \"$(cat venv/base)\" = table ] && echo row >> venv/base && grep -q work src/a\n";
    let env = configured("", check, "\"check.sh\"");
    env.write("venv/base", "table\n");
    env.agent.default_call().script("echo work > src/a; sh check.sh\n").out(CLAIM);
    env.run().expect(0);
    assert_eq!(env.read("venv/base"), "table\nrow\n");
}

#[test]
fn what_is_added_under_protection_changes_no_check_and_rejects_no_work() {
    let check = "[ ! -e tests/more ] && grep -q work src/a\n";
    let env = configured("", check, "\"check.sh\", \"tests/**\"");
    env.write("tests/test", "");
    env.agent.default_call().script("touch tests/more; echo work > src/a\n").out(CLAIM);
    env.run().expect(0).says("did not see these").says("`tests/more`");
}

#[test]
fn git_is_for_checks_as_it_was_when_the_run_began() {
    let check = "git rev-parse HEAD > /dev/null && git -c user.name=c -c user.email=c@localhost commit -qam by-check && \
                 [ \"$(git log --format=%s | tail -n +2)\" = base ] && [ ! -e hooked ]\n";
    let env = repository("checkout", check, "\"check.sh\"");
    env.agent
        .default_call()
        .script(
            "echo work > src/a; git -c user.name=a -c user.email=a@localhost commit -qam agent; echo more >> src/a; \
             mkdir -p .git/hooks; printf '#!/bin/sh\\ntouch hooked\\n' > .git/hooks/pre-commit; \
             chmod +x .git/hooks/pre-commit\n",
        )
        .out(CLAIM);
    env.run().expect(0);
    assert_eq!(git(&env, &["log", "--format=%s"]), "agent\nbase\n");
    assert_eq!(git(&env, &["status", "--porcelain"]).trim(), "M src/a");
}

#[test]
fn a_resumed_run_knows_what_was_there_and_believes_no_other_record() {
    let env = repository("checkout", "[ -e out/forged ] || grep -q work src/a\n", "\"check.sh\"");
    env.agent.call(1).script("mkdir out; touch out/forged\n").out("hm\n");
    env.agent.call(2).script("echo work > src/a\n").out(CLAIM);
    env.ralph(&["run", "--once"]).expect(0);
    let run = env.state().join(format!("runs/{}", env.status()["run"].as_str().unwrap()));
    let record = run.join("checkout.json");
    let text = fs::read_to_string(&record).unwrap();
    fs::write(&record, text.replace("src/a", "src/b")).unwrap();
    env.run().expect(65).says("was changed from outside");
    fs::remove_file(&record).unwrap();
    env.run().expect(65).says("was changed from outside");
    fs::write(&record, text).unwrap();
    // What others put into the layers that checks see again is not seen.
    fs::create_dir_all(run.join("checkout/base/out")).unwrap();
    fs::write(run.join("checkout/base/out/forged"), "").unwrap();
    env.run().expect(0);
    assert_eq!(env.agent.calls(), 2);
}

#[test]
fn where_there_can_be_no_checkout_nothing_begins() {
    let mut env = repository("checkout", "true\n", "\"check.sh\"");
    // The workspace holds its own state then.
    env.var("XDG_STATE_HOME", "/proc/self/none");
    for command in ["run", "doctor"] {
        assert_ne!(env.ralph(&[command]).code, Some(0), "{command}");
    }
    env.unset("XDG_STATE_HOME");
    env.ralph(&["doctor"]).says("ok    checkout");
    assert_eq!(env.agent.calls(), 0);
}

#[test]
fn a_run_that_stops_for_what_checks_do_not_see_says_how_they_see_it() {
    let env = configured("", "[ -e out/made ]\n", "\"check.sh\"");
    env.agent.default_call().script("mkdir -p out; touch out/made\n").out(CLAIM);
    let command = "run --restart --set 'validation.link=[\"out\"]'` shows it";
    env.run().expect(1).says(command);
    env.ralph(&["why"]).says("give the checks what they do not see: ");
    env.ralph(&["run", "--restart", "--set", "validation.link=[\"out\"]"]).expect(0);
}

#[test]
fn an_empty_folder_is_not_called_ignored() {
    let env = configured("", "[ -d data/in ]\n", "\"check.sh\"");
    env.agent.call(1).script("mkdir -p data/in out; touch out/made\n").out(CLAIM);
    env.agent.call(2).script("rm -r out; mkdir out\n").out(CLAIM);
    env.run().expect(1);
    let log = |iteration| env.ralph(&["log", iteration]).stdout.replace("\n", " ");
    let empty = "data, empty folders, which git does not keep: put a file into each";
    assert!(log("1").contains("green only with out, which git ignores and"), "{}", log("1"));
    assert!(log("1").contains(&format!("; and with {empty}")), "{}", log("1"));
    assert!(
        log("2").contains("green only with data, out, empty folders, which git"),
        "{}",
        log("2")
    );
}

#[test]
fn a_check_of_the_state_of_git_is_said_to_need_it_and_may_be_shown_it() {
    // Its own commits are not for the user's repository, whatever it sees.
    let check =
        "test -z \"$(git status --porcelain)\" && git tag -l | grep -q v1 && git tag -d v1\n";
    for is_linked in [false, true] {
        let keys = if is_linked { "link = [\".git\"]\n" } else { "" };
        let env = configured(keys, check, "\"check.sh\"");
        let commit = "git -c user.name=a -c user.email=a@localhost commit -qam work";
        env.agent
            .default_call()
            .script(&format!("echo work >> src/a; {commit}; git tag -f v1\n"))
            .out(CLAIM);
        env.run().expect(if is_linked { 0 } else { 1 });
        if !is_linked {
            let log = env.ralph(&["log", "1"]).stdout.replace('\n', " ");
            assert!(log.contains("green only with .git as it is now: checks see its"), "{log}");
            assert!(
                log.contains("and these are not: index, refs/heads/main, refs/tags/v1."),
                "{log}"
            );
            env.ralph(&["why"]).says("'validation.link=[\".git\"]'`");
        }
        git(&env, &["rev-parse", "-q", "--verify", "v1"]);
    }
}

#[test]
fn work_whose_path_is_too_long_is_rejected() {
    let env = configured("", "grep -q work src/a\n", "\"check.sh\"");
    let name = "x".repeat(200);
    let deep = format!("for n in $(seq 22); do mkdir {name}; cd {name}; done; echo > f\n");
    env.agent.call(1).script(&format!("echo work > src/a; {deep}")).out(CLAIM);
    env.agent.call(2).script(&format!("rm -r {name}\n")).out(CLAIM);
    env.run().expect(0).says("…: the path is too long to be checked: make it shorter than");
    assert_eq!(env.agent.calls(), 2);
}

#[test]
fn a_file_that_would_vanish_beneath_other_layers_is_rejected() {
    let env = configured("", "! [ -e venv/tool ]\n", "\"check.sh\"");
    let mark = "python3 -c \"import os; os.setxattr('venv/tool', 'user.overlay.metacopy', b'')\"\n";
    env.agent.default_call().script(mark).out(CLAIM);
    env.run().expect(1).says("venv/tool: its extended attributes");
}

#[test]
fn only_what_makes_a_difference_is_named_and_tried_once() {
    let env = configured("", "echo >> ../executions; grep -q work src/a\n", "\"check.sh\"");
    env.agent.default_call().script("mkdir -p out; touch out/new\n").out(CLAIM);
    env.run().expect(1);
    assert!(!env.ralph(&["log", "1"]).stdout.contains("green only with"));
    // The baseline, the first claim with and without the file, the second one.
    assert_eq!(fs::read_to_string(env.root().join("executions")).unwrap().lines().count(), 4);
}

#[test]
fn a_setup_makes_what_is_ignored_and_runs_again_where_its_inputs_changed() {
    let keys = "setup = [\"sh\", \"-c\", \"mkdir -p out && cp lock out/deps && echo >> ../setups\"]\n\
                setup_inputs = [\"lock\"]\nexplain = \"0s\"\n";
    let env = configured(keys, "cmp lock out/deps && grep -q work src/a\n", "\"check.sh\"");
    env.write("lock", "1\n");
    let setups = || fs::read_to_string(env.root().join("setups")).unwrap().lines().count();
    env.agent.call(1).out(CLAIM);
    env.agent.call(2).script("echo 2 > lock; echo work > src/a\n").out(CLAIM);
    env.ralph(&["run", "--once"]).expect(0);
    assert_eq!(setups(), 1);
    env.run().expect(0);
    assert_eq!((setups(), env.path("out").exists()), (2, false));
}

#[test]
fn what_is_set_up_when_the_run_begins_is_set_up_again_only_for_other_inputs() {
    let keys = "setup = [\"sh\", \"-c\", \"echo >> ../setups; grep -q right lock && cp lock out/deps\"]\n\
                setup_inputs = [\"lock\"]\nsetup_outputs = [\"out\"]\nexplain = \"0s\"\n";
    let env =
        configured(keys, "grep -q installed out/deps && grep -q work src/a\n", "\"check.sh\"");
    env.write("lock", "1\n").write("out/deps", "installed\n");
    let setups =
        || fs::read_to_string(env.root().join("setups")).unwrap_or_default().lines().count();
    env.agent.call(1).script("echo wrong > lock; echo work > src/a\n").out(CLAIM);
    env.agent.call(2).script("echo right and installed > lock\n").out(CLAIM);
    // Inputs with which it fails are the agent's to mend. Before the first checks there is nothing to do.
    env.ralph(&["run", "--once"]).expect(0).says("(`validation.setup`), failed");
    env.ralph(&["log", "1"]).says("It is run since one of these was changed: lock");
    env.run().expect(0);
    // What was pending is checked once more first.
    assert_eq!(setups(), 3);
}

#[test]
fn what_tools_rewrite_among_what_is_set_up_is_set_up_again() {
    let keys = "setup = [\"sh\", \"-c\", \"echo >> ../setups; mkdir -p out/.cache && cp lock out/deps\"]\n\
                setup_inputs = [\"lock\"]\nsetup_outputs = [\"out\"]\nexplain = \"0s\"\n";
    // For the work, and for the proof that the checks still reject the start.
    for (rewritten, times) in [("out/deps", 2), ("out/.cache/hits", 0)] {
        let env =
            configured(keys, "grep -q installed out/deps && grep -q work src/a\n", "\"check.sh\"");
        env.write("lock", "installed\n").write("out/deps", "installed\n");
        env.write("out/.cache/hits", "1\n");
        let script = format!("echo other > {rewritten}; echo work > src/a\n");
        env.agent.default_call().script(&script).out(CLAIM);
        env.run().expect(0);
        let setups = fs::read_to_string(env.root().join("setups")).unwrap_or_default();
        assert_eq!((setups.lines().count(), env.agent.calls()), (times, 1), "{rewritten}");
    }
}

#[test]
fn where_the_setup_fails_there_is_no_verdict() {
    let keys = "setup = [\"sh\", \"-c\", \"echo no network; exit 3\"]\n";
    let env = configured(keys, "true\n", "\"check.sh\"");
    env.agent.default_call().out(CLAIM);
    assert_ne!(env.run().code, Some(0));
    let log = env.ralph(&["log", "1"]);
    log.says("the setup of the checkout, `sh -c ").says("no network");
}

#[test]
fn what_a_person_links_is_seen_as_the_agent_made_it() {
    let env = configured(
        "link = [\"./out/made\"]\n",
        "[ -e out/made ] && [ ! -e out/other ]\n",
        "\"check.sh\"",
    );
    env.agent.default_call().script("mkdir out; touch out/made out/other\n").out(CLAIM);
    env.run().expect(0);
}

#[test]
fn what_a_check_builds_into_a_protected_folder_may_be_built_by_the_agent_too() {
    // Its own build is not seen, and does not keep its work from being accepted.
    let check = "mkdir -p tests && cp src/a tests/product && grep -q work tests/product\n";
    let env = configured("", check, "\"check.sh\", \"tests/**\"");
    env.write(".gitignore", "/out\n/venv\n/tests/product\n");
    env.write("tests/product", "base\n");
    git(&env, &["commit", "-qam", "ignore the product"]);
    env.agent.default_call().script("echo work > src/a; echo forged > tests/product\n").out(CLAIM);
    env.run().expect(0);
    assert_eq!(env.agent.calls(), 1);
}

#[test]
fn what_a_check_runs_may_not_change_what_is_protected() {
    let env = configured("", "sh src/a; grep -q pass tests/t\n", "\"check.sh\", \"tests/**\"");
    env.write("src/a", "true\n").write("tests/t", "fail\n");
    git(&env, &["add", "."]);
    git(&env, &["commit", "-qm", "tests"]);
    env.agent.default_call().script("echo 'echo pass > tests/t' > src/a\n").out(CLAIM);
    env.run().expect(1).says("changed protected files while it ran: tests/t");
}

#[test]
fn what_a_check_writes_itself_into_a_protected_folder_rejects_nothing() {
    let check = "echo $$ > tests/log; grep -q work src/a\n";
    let env = configured("", check, "\"check.sh\", \"tests/**\"");
    env.write("tests/log", "\n");
    git(&env, &["add", "."]);
    git(&env, &["commit", "-qm", "tests"]);
    env.agent.default_call().script("echo work > src/a\n").out(CLAIM);
    env.run().expect(0);
    assert_eq!(env.agent.calls(), 1);
}

#[test]
fn a_check_does_not_see_what_an_earlier_one_did_to_the_work() {
    // The first check runs the agent's code, which rewrites the second one.
    let env = configured("", "grep -q done src/a\n", "\"check.sh\"");
    let config = env.read("ralph.toml");
    let first =
        "[[validator]]\nkind = \"command\"\nname = \"runs\"\nprogram = [\"sh\", \"src/a\"]\n";
    env.write("ralph.toml", config.replacen("[[validator]]", &format!("{first}[[validator]]"), 1));
    env.agent.default_call().script("echo 'echo true > check.sh' > src/a\n").out(CLAIM);
    env.run().expect(1);
}

#[test]
fn work_in_a_repository_that_the_agent_made_is_no_work() {
    let env = configured("", "grep -q work lib/a\n", "\"check.sh\"");
    env.agent.call(1).script("mkdir lib; echo work > lib/a; git -C lib init -q\n").out(CLAIM);
    env.agent.call(2).script("rm -r lib/.git\n").out(CLAIM);
    env.run().expect(0);
    assert_eq!(env.agent.calls(), 2);
}

#[test]
fn what_the_first_checks_wrote_into_a_protected_folder_is_not_there_again() {
    // The first time it records what it sees, as tests with snapshots do, and compares with that later.
    let check = "mkdir -p tests; if [ -e tests/snapshot ]; then cmp src/a tests/snapshot; else cp src/a tests/snapshot; \
                 exit 1; fi\n";
    let env = configured("", check, "\"check.sh\", \"tests/**\"");
    env.write("tests/kept", "");
    env.agent.default_call().out(CLAIM);
    env.run().expect(1);
}

#[test]
fn right_work_that_needs_what_is_hidden_is_told_so_after_wrong_work() {
    let env = configured("", "grep -q work src/a && [ -e out/made ]\n", "\"check.sh\"");
    env.agent.call(1).script("mkdir out; touch out/made\n").out(CLAIM);
    env.agent.default_call().script("echo work > src/a\n").out(CLAIM);
    env.run().expect(1);
    assert!(!env.ralph(&["log", "1"]).stdout.contains("green only with"));
    env.ralph(&["log", "2"]).says("green only with out");
}

#[test]
fn rules_outside_of_the_workspace_are_those_of_the_start_too() {
    // The user ignores `private`. The agent has it count, and in a later start hides its own file from a commit.
    let check = "grep -q work src/a private/made || grep -q work hidden\n";
    let env = configured("", check, "\"check.sh\"");
    let rules = env.root().join("home/.config/git/ignore");
    fs::create_dir_all(rules.parent().unwrap()).unwrap();
    fs::write(&rules, "private\n").unwrap();
    let script = "mkdir private; echo work > private/made; echo > \"$HOME/.config/git/ignore\"\n";
    env.agent.call(1).script(script).out(CLAIM);
    let script = "rm -r private; echo work > hidden; echo hidden > \"$HOME/.config/git/ignore\"\n";
    env.agent.call(2).script(script).out(CLAIM);
    env.ralph(&["run", "--once"]);
    env.run().expect(1);
    env.ralph(&["log", "1"]).says("green only with private");
    env.ralph(&["log", "2"]).says("green only with hidden");
}

/// Each is green in the agent's tree, and red in a clone of `git add -A && git commit`. Undone, it is accepted.
#[test]
fn work_that_a_clone_would_not_have_is_rejected() {
    let far = "ln -sf ../../elsewhere src/a; echo work > ../elsewhere";
    let cheats = [
        (
            "echo work > src/a; echo /src/a >> .gitignore; git rm -q --cached src/a",
            "sed -i '/src/d' .gitignore",
            "git no longer tracks src/a, and ignores it",
        ),
        (
            "echo work > src/a; git update-index --assume-unchanged src/a",
            "git update-index --no-assume-unchanged src/a",
            "`git update-index --no-assume-unchanged src/a`",
        ),
        (
            "echo work > src/a; git update-index --skip-worktree src/a",
            "git update-index --no-skip-worktree src/a",
            "`git update-index --no-skip-worktree src/a`",
        ),
        (
            far,
            "rm src/a; echo work > src/a",
            "src/a leads to ../../elsewhere, outside of the repository",
        ),
        (
            "echo work > src/a; git update-index --split-index",
            "git update-index --no-split-index",
            "`git update-index --no-split-index`",
        ),
        (
            "echo work > src/a; git config core.trustctime false",
            "git config --unset core.trustctime",
            "`git config --unset core.trustctime`",
        ),
        ("mkfifo src/pipe", "echo work > src/a", "src/pipe is neither a file nor a link"),
    ];
    let env = configured("", "[ -p src/pipe ] || grep -q work src/a\n", "\"check.sh\"");
    for (cheat, repair, named) in cheats {
        let call = env.agent.calls() + 1;
        env.agent.call(call).script(&format!("{cheat}\n")).out(CLAIM);
        env.agent.call(call + 1).script(&format!("{repair}\n")).out(CLAIM);
        let ended = env.ralph(&["run", "--restart"]);
        assert_eq!(ended.code, Some(0), "{cheat}: {}", ended.stderr);
        assert_eq!(env.agent.calls(), call + 1, "{cheat}");
        env.ralph(&["log", "1"]).says(named);
        git(&env, &["reset", "-q", "--hard", "HEAD"]);
        git(&env, &["clean", "-qfd", "src"]);
    }
}

#[test]
fn what_was_tracked_though_ignored_and_links_of_the_start_stay_work() {
    let env =
        configured("", "grep -q work out/forced && cat src/far > /dev/null\n", "\"check.sh\"");
    env.write("out/forced", "base\n");
    fs::write(env.root().join("elsewhere"), "").unwrap();
    std::os::unix::fs::symlink("../../elsewhere", env.path("src/far")).unwrap();
    git(&env, &["add", "-f", "out/forced", "src/far"]);
    git(&env, &["commit", "-qm", "force"]);
    // Git makes the link anew.
    let script = "git rm -q src/far; git reset -q --hard; echo work > out/forced\n";
    env.agent.default_call().script(script).out(CLAIM);
    env.run().expect(0);
    assert_eq!(env.agent.calls(), 1);
}

#[test]
fn what_a_clone_has_otherwise_is_said_of_accepted_work() {
    let env = configured("", "grep -q work src/a lib/f\n", "\"check.sh\"");
    let module = env.root().join("module");
    fs::create_dir(&module).unwrap();
    fs::write(module.join("f"), "base\n").unwrap();
    let at = module.to_str().unwrap();
    git(&env, &["-C", at, "init", "-q"]);
    git(&env, &["-C", at, "add", "f"]);
    git(&env, &["-C", at, "commit", "-qm", "base"]);
    git(&env, &["-c", "protocol.file.allow=always", "submodule", "--quiet", "add", at, "lib"]);
    env.write(".gitattributes", "*.dos text=auto\n");
    git(&env, &["add", "-A"]);
    git(&env, &["commit", "-qm", "module"]);
    let script = "echo work > lib/f; printf 'work\\r\\n' > src/a.dos; echo work > src/a; \
                  git config filter.own.clean 'sed s/work/base/'; echo 'src/a filter=own' > .git/info/attributes\n";
    env.agent.default_call().script(script).out(CLAIM);
    let ended = env.run().expect(0);
    for named in [
        "the submodule lib is in no commit of this repository",
        "lines of src/a.dos end in CR and LF",
        "the filter `sed s/work/base/` makes of src/a:",
    ] {
        assert!(ended.stdout.contains(named) || ended.stderr.contains(named), "{named}: {ended:?}");
    }
}
