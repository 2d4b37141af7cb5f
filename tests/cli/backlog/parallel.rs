//! Items that are worked on at once, each in a worktree and a run of its own, and merged one after the other.

use rustix::process::Signal;
use serde_json::Value;

use super::crash::kill_after_record;
use super::{feature, feature_list};
use crate::environment::{TestEnvironment, eventually};
use crate::git::git;

/// Reads the prompt; `$id` is the item, `$again` whether it was sent back.
const AGENT: &str =
    "prompt=$(cat); id=$(printf '%s\\n' \"$prompt\" | sed -n 's/^Id: //p' | head -1)
[ -n \"$id\" ] || exit 1
again=$(printf '%s\\n' \"$prompt\" | grep -c 'with it the item is not complete')
claim() { echo '<promise>COMPLETE: made it</promise>'; }\n";

/// A repository with these items, an agent that does this, and a check that is this command.
pub(super) fn lanes(items: &[Value], agent: &str, check: &str, more: &str) -> TestEnvironment {
    let env = TestEnvironment::new();
    let script = env.root().join("agent.sh");
    std::fs::write(&script, format!("{AGENT}{agent}")).unwrap();
    env.raw_config(&format!(
        "[run]\ndelay = \"0s\"\n[backlog]\nkind = \"json\"\npath = \"feature-list.json\"\n\
         [parallel]\nmax = 2\n[git]\ncommit = \"iteration\"\nworktree = true\n\
         [agent]\nadapter = \"command\"\nunmetered = true\n\
         [agent.config]\nprogram = [\"sh\", '{}']\n\
         [[validator]]\nkind = \"command\"\nname = \"check\"\nprogram = [\"sh\", \"-c\", '''{check}''']\n{more}",
        script.display()
    ));
    env.write("PROMPT.md", "# Rules\n\nMake what the item wants.\n");
    env.write("feature-list.json", feature_list(items));
    env.write("shared", "1\n2\n3\n");
    git(&env, &["init", "-qb", "main"]);
    git(&env, &["config", "user.name", "Ada User"]);
    git(&env, &["config", "user.email", "ada@example.org"]);
    git(&env, &["add", "."]);
    git(&env, &["commit", "-qm", "first"]);
    env
}

/// The record beside the runs, which have states of their own.
fn series(env: &TestEnvironment) -> Vec<Value> {
    let all = env.root().join("home/.local/state/ralph-orchestrator");
    let states = std::fs::read_dir(all).unwrap().map(|entry| entry.unwrap().path());
    let mut records =
        states.filter_map(|state| std::fs::read_to_string(state.join("series/journal.jsonl")).ok());
    let text = records.next().expect("a record beside the runs");
    assert!(records.next().is_none(), "more than one");
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

pub(super) fn series_of(env: &TestEnvironment, kind: &str) -> Vec<Value> {
    series(env).into_iter().filter(|record| record["kind"] == kind).collect()
}

/// The branch of the run.
pub(super) fn branch(env: &TestEnvironment) -> String {
    let trunk = &series_of(env, "lanes_started")[0]["trunk"];
    trunk["branch"].as_str().unwrap().to_owned()
}

pub(super) fn show(env: &TestEnvironment, file: &str) -> String {
    git(env, &["show", &format!("{}:{file}", branch(env))])
}

/// Kinds of records about items, in order.
fn steps(env: &TestEnvironment) -> Vec<(String, String)> {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    series(env).iter().map(|record| (text(&record["kind"]), text(&record["item"]))).collect()
}

fn place_of(steps: &[(String, String)], kind: &str, item: &str) -> usize {
    let found = steps.iter().position(|(k, i)| k == kind && i == item);
    found.unwrap_or_else(|| panic!("no {kind} of {item} in {steps:?}"))
}

/// Fails unless each item is merged once and complete, and nothing is left but the run's own worktree and branch.
pub(super) fn verify_merged(env: &TestEnvironment, items: &[&str], moment: &str) {
    let branch = branch(env);
    let subjects = git(env, &["log", "--first-parent", "--format=%s", &branch]);
    for item in items {
        for subject in [
            format!("Merge item {item}: Make {item}"),
            format!("Complete item {item}: Make {item}"),
        ] {
            assert_eq!(subjects.matches(&subject).count(), 1, "{subject} {moment}\n{subjects}");
        }
    }
    let list: Value = serde_json::from_str(&show(env, "feature-list.json")).unwrap();
    for item in list["features"].as_array().unwrap() {
        assert_eq!(item["status"], "completed", "{moment} {item}");
    }
    let branches = git(env, &["for-each-ref", "--format=%(refname:short)", "refs/heads"]);
    assert_eq!(branches.lines().collect::<Vec<_>>(), ["main", &branch], "{moment}");
    let worktrees = git(env, &["worktree", "list"]);
    assert_eq!(worktrees.lines().count(), 2, "{moment}\n{worktrees}");
    // The user's checkout, and the run's worktree, which is what its branch is.
    assert_eq!(git(env, &["status", "--porcelain"]), "", "{moment}");
    assert_eq!(git(env, &["log", "--format=%s", "main"]), "first", "{moment}");
    let folder = worktrees.lines().nth(1).unwrap().split(' ').next().unwrap();
    assert_eq!(git(env, &["-C", folder, "status", "--porcelain"]), "", "{moment}");
}

/// Two agents meet: each says that it is there and waits for the other.
#[test]
fn two_items_are_worked_on_at_the_same_time() {
    let probe = TestEnvironment::new();
    let (one, other) = (probe.fifo("one"), probe.fifo("other"));
    let agent = format!(
        "echo $id > made-$id\nif [ $id = a ]; then echo here > '{0}'; cat '{1}' > /dev/null; else cat '{0}' > /dev/null; echo here > '{1}'; fi\nclaim\n",
        one.display(),
        other.display()
    );
    let env = lanes(&[feature("a", 2, &[]), feature("b", 1, &[])], &agent, "ls made-*", "");
    env.run().expect(0).says("backlog 2/2 (100.0%): completed").says("[a] Iteration 1/");
    verify_merged(&env, &["a", "b"], "in the end");
    assert_eq!((show(&env, "made-a"), show(&env, "made-b")), ("a".to_owned(), "b".to_owned()));
    env.run().expect(0).says("already completed");
    env.ralph(&["status"]).expect(0).says("completed\n").says("backlog     2/2 (100.0%)");
}

#[test]
fn the_same_line_is_sent_back_with_both_versions_and_what_depends_on_it_waits() {
    let agent = "if [ $again = 1 ]; then\n\
                 grep -q '^<<<<<<<' shared && printf '1\\n2 a b\\n3\\n' > shared\n\
                 else sed -i \"s/^2.*/2 $id/\" shared; fi\n\
                 [ $id = c ] && echo c > made-c\nclaim\n";
    let items = [feature("a", 3, &[]), feature("b", 2, &[]), feature("c", 1, &["a", "b"])];
    let env = lanes(&items, agent, "grep -q '^2 ' shared", "");
    env.run().expect(0);
    verify_merged(&env, &["a", "b", "c"], "in the end");
    let steps = steps(&env);
    let rejected = series_of(&env, "merge_rejected");
    assert_eq!(rejected.len(), 1, "{steps:?}");
    assert!(rejected[0]["reason"].as_str().unwrap().contains("- shared"), "{rejected:?}");
    let begun = place_of(&steps, "item_started", "c");
    for item in ["a", "b"] {
        assert!(place_of(&steps, "status_written", item) < begun, "{steps:?}");
    }
}

#[test]
fn what_is_green_alone_and_red_together_is_sent_back_and_blocks_nothing_else() {
    let agent = "echo $id > made-$id\n[ $again = 1 ] && echo both > both\nclaim\n";
    let check = "ls made-* && { [ ! -e made-a ] || [ ! -e made-b ] || [ -e both ]; }";
    let items =
        [feature("a", 4, &[]), feature("b", 3, &[]), feature("c", 2, &[]), feature("d", 1, &["b"])];
    let env = lanes(&items, agent, check, "");
    env.run().expect(0);
    verify_merged(&env, &["a", "b", "c", "d"], "in the end");
    let rejected = series_of(&env, "merge_rejected");
    assert!(rejected[0]["reason"].as_str().unwrap().contains("`check` rejects the merged work"));
    env.ralph(&["log"]).expect(0).says("is merged as ").says("sent back: `check` rejects");
    let branch = branch(&env);
    for commit in git(&env, &["rev-list", "--first-parent", &branch]).lines() {
        let files = git(&env, &["ls-tree", "--name-only", commit]);
        let has = |name: &str| files.lines().any(|file| file == name);
        assert!(!has("made-a") || !has("made-b") || has("both"), "the branch was red at {commit}");
    }
}

#[test]
fn what_was_merged_stays_complete_by_its_own_check() {
    // Who mends a conflict first keeps only what is its own.
    let agent = "case $prompt in\n*'was complete, and with this work it is not'*) printf 'a\\nb\\n' > shared;;\n\
                 *) echo $id > shared;;\nesac\nclaim\n";
    let env = lanes(&[feature("a", 2, &[]), feature("b", 1, &[])], agent, "test -s shared", "");
    let own = "path = \"feature-list.json\"\ncheck = [\"sh\", \"accept.sh\", \"{item}\"]\n";
    let config = env.read("ralph.toml").replace("path = \"feature-list.json\"\n", own);
    env.write("ralph.toml", config).write("accept.sh", "grep -qx \"$1\" shared\n");
    git(&env, &["add", "."]);
    git(&env, &["commit", "-q", "--amend", "--no-edit"]);
    env.run().expect(0);
    verify_merged(&env, &["a", "b"], "in the end");
    assert_eq!(show(&env, "shared"), "a\nb");
    let rejected = series_of(&env, "merge_rejected");
    let reasons: Vec<&str> = rejected.iter().map(|it| it["reason"].as_str().unwrap()).collect();
    assert!(reasons.len() == 2 && reasons[1].contains("` was complete, and with"), "{reasons:?}");
}

#[test]
fn what_is_sent_back_with_marks_of_a_conflict_still_has_to_run_the_tests_of_before() {
    let tests = "import unittest, m\nclass T(unittest.TestCase):\n    def test_1(self): pass\n    def test_2(self): pass\n";
    // Who mends the conflict leaves a test out until it is told.
    let agent = format!(
        "if [ $again = 1 ]; then\nprintf 'a = 1\\nb = 1\\n' > m.py\n\
         case $prompt in\n*'Have them run again'*) printf '{0}' > test_m.py;;\n\
         *) printf '{0}' | head -3 > test_m.py;;\nesac\n\
         else echo \"$id = 1\" > m.py; fi\nclaim\n",
        tests.replace('\n', "\\n")
    );
    let check = "python3 -B -m unittest && grep -q $RALPH_ITEM m.py";
    let env = lanes(&[feature("a", 2, &[]), feature("b", 1, &[])], &agent, check, "");
    env.write("m.py", "x = 1\n").write("test_m.py", tests);
    git(&env, &["add", "."]);
    git(&env, &["commit", "-q", "--amend", "--no-edit"]);
    let ended = env.run().expect(0);
    verify_merged(&env, &["a", "b"], "in the end");
    assert!(!ended.stderr.contains("can never accept"), "{}", ended.stderr);
    assert_eq!(show(&env, "test_m.py").trim(), tests.trim());
}

#[test]
fn an_item_that_is_sent_back_too_often_is_blocked_and_the_others_go_on() {
    // What is sent back is claimed again as it is, with the marks of the conflict.
    let agent = "[ $again = 1 ] || sed -i \"s/^2.*/2 $id/\" shared\n[ $id = c ] && echo c > made-c\nclaim\n";
    let items = [feature("a", 3, &[]), feature("b", 2, &[]), feature("c", 1, &["a"])];
    let env = lanes(&items, agent, "grep -q '^2 [a-c]' shared", "[limits]\nmax_rejections = 2\n");
    let ended = env.run().expect(2);
    ended.says("2 times not with what was merged meanwhile (limits.max_rejections)");
    let steps = steps(&env);
    let merged = steps.iter().filter(|(kind, _)| kind == "item_merged").count();
    assert!(merged >= 1 && series_of(&env, "merge_rejected").len() >= 2, "{steps:?}");
    for commit in git(&env, &["rev-list", &branch(&env)]).lines() {
        assert!(!git(&env, &["show", &format!("{commit}:shared")]).contains("<<<<<<<"), "{commit}");
    }
}

#[test]
fn killed_after_any_record_nothing_is_half_merged() {
    let agent = "if [ $again = 1 ]; then printf '1\\n2 a b\\n3\\n' > shared\n\
                 else sed -i \"s/^2.*/2 $id/\" shared; fi\nclaim\n";
    let make =
        || lanes(&[feature("a", 2, &[]), feature("b", 1, &[])], agent, "grep -q '^2 ' shared", "");
    let whole = make();
    whole.run().expect(0);
    verify_merged(&whole, &["a", "b"], "at once");
    let records = series(&whole).len();
    assert!(records >= 18, "{records}");
    for at in 1..=records {
        let env = make();
        kill_after_record(&env, at);
        env.run().expect(0);
        verify_merged(&env, &["a", "b"], &format!("killed after record {at}"));
    }
}

#[test]
fn all_runs_together_use_no_more_than_the_limits() {
    let agent = "echo x >> work-$id\n";
    let env = lanes(
        &[feature("a", 2, &[]), feature("b", 1, &[])],
        agent,
        "false",
        "[limits]\nmax_iterations = 5\n",
    );
    env.run()
        .expect(1)
        .says("limits.max_iterations is used up by the runs of this backlog together: 5");
    env.run().expect(1).says("limits.max_iterations");
}

#[test]
fn a_question_of_one_item_leaves_the_others_going() {
    let agent = "if [ $id = a ]; then echo '<promise>NEEDS_HUMAN: which colour?</promise>'; exit; fi\n\
                 echo $id > made-$id\nclaim\n";
    let items = [feature("a", 3, &[]), feature("b", 2, &[]), feature("c", 1, &[])];
    let env = lanes(&items, agent, "ls made-*", "");
    env.run().expect(2).says("stopped (needs_human): item `a`: which colour?");
    let merged: Vec<String> = steps(&env)
        .into_iter()
        .filter(|(kind, _)| kind == "item_merged")
        .map(|(_, item)| item)
        .collect();
    assert_eq!(merged, ["b", "c"]);
}

#[test]
fn a_worktree_that_was_deleted_by_hand_is_made_again_from_its_branch() {
    let probe = TestEnvironment::new();
    let gate = probe.fifo("gate");
    let agent = format!(
        "if [ -e half ]; then echo $id > made-$id; claim; exit; fi\n\
         if [ -e first ]; then echo here > '{}'; sleep 600; fi\n\
         echo half > first\n",
        gate.display()
    );
    let env = lanes(&[feature("a", 2, &[])], &agent, "ls made-*", "");
    let mut running = env.start(&["run"]);
    assert_eq!(std::fs::read_to_string(&gate).unwrap(), "here\n");
    running.signal(Signal::KILL);
    running.wait();
    let status = env.status();
    let lane = &status["backlog"]["lanes"][0];
    assert_eq!((&lane["item"], &lane["phase"]), (&"a".into(), &"interrupted".into()), "{status}");
    assert_eq!(status["phase"], "interrupted", "{status}");
    env.ralph(&["status"]).expect(0).says("lane        a: interrupted, ");
    let opened = series_of(&env, "lane_opened");
    let folder = opened[0]["lane"]["folder"].as_str().unwrap().to_owned();
    std::fs::write(format!("{folder}/lost"), "").unwrap();
    eventually("the agent's end", || std::fs::remove_dir_all(&folder).is_ok());
    std::fs::write(
        env.root().join("agent.sh"),
        format!("{AGENT}test -e first && echo $id > made-$id\nclaim\n"),
    )
    .unwrap();
    env.run().expect(0);
    verify_merged(&env, &["a"], "in the end");
    assert_eq!(show(&env, "first"), "half", "what was committed is there");
}

#[test]
fn an_agents_edit_of_its_copy_of_the_backlog_reaches_nothing() {
    let agent = "sed -i 's/\"status\": \"[a-z_]*\"/\"status\": \"completed\"/; s/A file for/Nothing for/' feature-list.json\n\
                 git add -A; git commit -qm 'all of it'\n\
                 echo $id > made-$id\nclaim\n";
    let env = lanes(&[feature("a", 2, &[]), feature("b", 1, &[])], agent, "ls made-*", "");
    env.run().expect(0).says("was edited; it was restored");
    verify_merged(&env, &["a", "b"], "in the end");
    let list = show(&env, "feature-list.json");
    assert!(list.contains("A file for a.") && !list.contains("Nothing"), "{list}");
}

#[test]
fn the_configuration_has_to_give_items_worktrees_and_commits() {
    let env = lanes(&[feature("a", 1, &[])], "", "false", "");
    let text = env.read("ralph.toml");
    env.write("ralph.toml", text.replace("worktree = true\n", ""));
    env.run()
        .expect(78)
        .says("parallel.max")
        .says("`worktree = true` and `commit = \"iteration\"`");
    env.write("ralph.toml", text.replace("[git]\n", "[git]\non_complete = \"pull-request\"\n"));
    env.run().expect(78).says("a pull request is of runs on one branch");
}
