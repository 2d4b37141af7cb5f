//! What an agent may not change in the backlog is taken back; what people change stays.

use serde_json::Value;

use super::{
    CLAIM, WORK, environment, feature, feature_list, features, series_of, statuses, worked,
};
use crate::environment::TestEnvironment;

fn list(env: &TestEnvironment) -> Value {
    serde_json::from_str(&env.read("feature-list.json")).unwrap()
}

#[test]
fn criteria_and_items_that_the_agent_changes_are_restored_and_reported() {
    let env = features(&[feature("a", 9, &[]), feature("b", 1, &[])]);
    env.agent.call(1).script(&format!(
        "{WORK}python3 - <<'P'
import json
d = json.load(open('feature-list.json'))
d['features'][0]['acceptance_criteria'] = []
del d['features'][1]
json.dump(d, open('feature-list.json', 'w'))
P\n"
    ));
    let ended = env.run().expect(0);
    ended.says("`acceptance_criteria` of item `a` was edited; it was restored");
    ended.says("item `b` was removed; it was restored");
    let list = list(&env);
    assert_eq!(list["features"][0]["acceptance_criteria"][0], "made-a exists");
    assert_eq!(list["features"][1]["id"], "b");
    assert_eq!(series_of(&env, "guarded").len(), 1);
    let replaced = std::fs::read_to_string(env.state().join("series/replaced")).unwrap();
    assert!(replaced.contains("\"acceptance_criteria\": []"), "what was replaced is kept");
}

#[test]
fn a_completion_that_the_agent_writes_is_taken_back_and_the_agent_learns_of_it() {
    let env = features(&[feature("a", 9, &[]), feature("b", 1, &[])]);
    env.agent
        .call(1)
        .script("sed -i 's/\"pending\"/\"completed\"/' feature-list.json\n: > made-x\n");
    env.agent.call(1).out("all features are passing\n");
    let ended = env.ralph(&["run", "--max-iterations", "2"]).expect(1);
    ended.says("item `b` was set to completed; its status was restored");
    let given = String::from_utf8(env.agent.stdin(2)).unwrap();
    assert!(given.contains("Changes of the backlog that were taken back:\n- item `b`"), "{given}");
    assert_eq!(env.agent.calls(), 2);
    assert_eq!(statuses(&env)[1].1, "pending", "the second item is not complete");
}

#[test]
fn a_broken_file_is_restored_and_the_same_item_goes_on() {
    let env = features(&[feature("a", 9, &[])]);
    env.agent.call(1).script(": > feature-list.json; : > made-a\n");
    env.agent.call(1).out("oops\n");
    env.run().expect(0).says("the backlog could not be read and was restored");
    assert_eq!(env.agent.calls(), 2);
    assert_eq!(statuses(&env), [("a".to_owned(), "completed".to_owned())]);
}

#[test]
fn in_one_iteration_what_a_person_adds_is_kept_and_what_the_agent_does_is_undone() {
    let env = features(&[feature("a", 9, &[])]);
    let (from, to) = (env.fifo("from"), env.fifo("to"));
    env.agent.call(1).script(&format!(
        "{WORK}sed -i 's/made-a exists/anything/' feature-list.json
         echo > '{}'; cat '{}'\n",
        from.display(),
        to.display()
    ));
    let mut running = env.start(&["run"]);
    std::fs::read(&from).unwrap();
    env.ralph(&["add", "Added meanwhile", "--id", "m", "--criterion", "mine"])
        .expect(0)
        .says("queued");
    std::fs::write(&to, "go on\n").unwrap();
    let ended = running.wait().expect(0);
    ended.says("item `m` was added");
    ended.says("`acceptance_criteria` of item `a` was edited; it was restored");
    let list = list(&env);
    assert_eq!(list["features"][0]["acceptance_criteria"][0], "made-a exists");
    assert_eq!(list["features"][1]["acceptance_criteria"][0], "mine");
    assert_eq!(statuses(&env).len(), 2);
    assert!(statuses(&env).iter().all(|(_, status)| status == "completed"));
    assert_eq!(series_of(&env, "item_added").len(), 1);
}

#[test]
fn what_cannot_be_added_is_refused_at_once_while_an_agent_works() {
    let env = features(&[feature("a", 9, &[])]);
    let (from, to) = (env.fifo("from"), env.fifo("to"));
    // What the agent makes of the file does not count.
    env.agent.call(1).script(&format!(
        "{WORK}echo broken > feature-list.json\necho > '{}'; cat '{}'\n",
        from.display(),
        to.display()
    ));
    let mut running = env.start(&["run"]);
    std::fs::read(&from).unwrap();
    let add = |more: &[&str]| env.ralph(&[&["add", "Later"], more].concat());
    add(&["--id", "a"]).expect(64).says(
        "feature-list.json: cannot add the item: the id `a` is taken by \"Make a\", at line ",
    );
    add(&["--after", "nobody"]).expect(64).says("`nobody`, which does not exist (there are `a`)");
    add(&["--id", "m"]).expect(0).says("queued");
    // Also by one that waits, which others may depend on.
    add(&["--id", "m"]).expect(64).says("is taken by \"Later\"");
    add(&["--id", "n", "--after", "m"]).expect(0).says("queued");
    std::fs::write(&to, "go on\n").unwrap();
    running.wait().expect(0).says("item `m` was added");
    let ids: Vec<String> = statuses(&env).into_iter().map(|(id, _)| id).collect();
    assert_eq!(ids, ["a", "m", "n"]);
}

#[test]
fn what_a_person_edits_between_two_runs_stays() {
    let env = features(&[feature("a", 9, &[]), feature("b", 1, &[])]);
    env.ralph(&["run", "--once"]).expect(0);
    let edited = env.read("feature-list.json").replace("made-b exists", "b is better");
    env.write("feature-list.json", &edited);
    env.run().expect(0);
    assert!(env.read("feature-list.json").contains("b is better"));
    let given = String::from_utf8(env.agent.stdin(2)).unwrap();
    assert!(given.contains("- b is better\n"), "{given}");
}

#[test]
fn an_agent_may_write_notes() {
    let env = features(&[feature("a", 9, &[])]);
    env.agent.call(1).script(&format!(
        "{WORK}sed -i 's/\"id\": \"a\",/\"id\": \"a\", \"implementation_notes\": [\"half way\"],/' \
         feature-list.json\n"
    ));
    env.agent.call(1).out("more to come\n");
    env.run().expect(0);
    assert_eq!(list(&env)["features"][0]["implementation_notes"][0], "half way");
    let second = String::from_utf8(env.agent.stdin(2)).unwrap();
    assert!(second.contains("Notes from earlier sessions:\n- half way\n"), "{second}");
}

#[test]
fn an_agent_cannot_add_items() {
    let env = features(&[feature("a", 9, &[])]);
    let program = env!("CARGO_BIN_EXE_ralph-orchestrator");
    env.agent.call(1).script(&format!("{WORK}'{program}' add 'My own' 2> refused\n"));
    env.run().expect(0);
    assert!(env.read("refused").contains("an agent cannot add items"));
    assert_eq!(statuses(&env).len(), 1);
}

#[test]
fn an_edit_of_the_backlog_or_of_bookkeeping_is_no_progress() {
    let env = environment("json", "feature-list.json", "");
    env.write("feature-list.json", feature_list(&[feature("a", 9, &[])]));
    // A plan, a note in the backlog, and nothing else, in every iteration.
    env.agent.default_call().script(
        "echo \"call $n\" >> order\nsed -i \"s/A file for a/A file for a/; s/\\\"id\\\": \\\"a\\\",.*/\\\"id\\\": \\\"a\\\", \\\"implementation_notes\\\": [\\\"call $n\\\"],/\" feature-list.json\n",
    );
    env.agent.default_call().out("I keep notes.\n");
    env.raw_config(&format!("{}[limits]\nmax_stagnant = 4\n", env.read("ralph.toml")));
    env.run().expect(2).says("stagnation");
    assert!(env.agent.calls() <= 4, "{} calls", env.agent.calls());
    assert!(env.read("feature-list.json").contains("\"call "), "the notes are there");
}

#[test]
fn the_agents_word_can_be_taken_where_the_configuration_says_so() {
    let env = environment("json", "feature-list.json", "agent_completions = \"keep\"\n");
    env.write("feature-list.json", feature_list(&[feature("a", 9, &[]), feature("b", 1, &[])]));
    env.agent
        .call(1)
        .script(&format!("{WORK}sed -i 's/\"pending\"/\"completed\"/' feature-list.json\n"));
    env.agent.call(1).out(CLAIM);
    env.run().expect(0).says("item `b` was set to completed by the agent, WITHOUT validation");
    assert_eq!(env.agent.calls(), 1);
}

/// The detector `backlog`, beside the one that everybody has.
const DETECTORS: &str =
    "agent_completions = \"revert\"\n[completion]\ndetectors = [\"promise\", \"backlog\"]\n";

#[test]
fn an_item_that_the_agent_sets_to_completed_is_a_claim_that_the_validators_decide() {
    let env = environment("json", "feature-list.json", DETECTORS);
    env.write("feature-list.json", feature_list(&[feature("a", 9, &[])]));
    let mark = "sed -i 's/\"in_progress\"/\"completed\"/' feature-list.json\n";
    // Only marked; then the work, without a word about it.
    env.agent.call(1).script(mark).out("marked\n");
    env.agent.call(2).script(WORK).out("made\n");
    env.run().expect(0);
    assert_eq!(env.agent.calls(), 2, "the claim stays pending");
    assert_eq!(statuses(&env), [("a".to_owned(), "completed".to_owned())]);
    assert_eq!(env.status()["latch"]["claim"]["detector"], "backlog");
    let given = String::from_utf8(env.agent.stdin(2)).unwrap();
    assert!(given.contains("The claim is still pending"), "{given}");
    assert!(given.contains("only the validators complete it"), "{given}");
}

#[test]
fn the_detector_of_items_is_refused_without_a_backlog() {
    let env = TestEnvironment::new();
    env.raw_config(
        "[agent]\nadapter = \"command\"\nunmetered = true\n[agent.config]\nprogram = [\"true\"]\n\
         [completion]\ntrust_agent = true\ndetectors = [\"backlog\"]\n",
    );
    env.ralph(&["config", "check"]).expect(78).says("there is no [backlog]").says("ralph.toml:8");
}

#[test]
fn what_is_added_after_a_kill_outlives_the_restoring_of_what_the_agent_did() {
    let env = features(&[feature("a", 9, &[])]);
    let (from, to) = (env.fifo("from"), env.fifo("to"));
    env.agent.call(1).script(&format!(
        "sed -i 's/made-a exists/anything/' feature-list.json\necho > '{}'; cat '{}'\n",
        from.display(),
        to.display()
    ));
    let mut running = env.start(&["run"]);
    std::fs::read(&from).unwrap();
    running.signal(rustix::process::Signal::KILL);
    running.wait();
    env.ralph(&["add", "Added after the kill", "--id", "m"]).expect(0).says("by the next `run`");
    let ended = env.run().expect(0);
    ended.says("`acceptance_criteria` of item `a` was edited").says("item `m` was added");
    let ids: Vec<String> = statuses(&env).into_iter().map(|(id, _)| id).collect();
    assert_eq!(ids, ["a", "m"]);
}

#[test]
fn a_folder_in_the_place_of_the_list_gives_way() {
    let env = features(&[feature("a", 9, &[])]);
    env.agent.call(1).script(
        "rm feature-list.json; mkdir feature-list.json; : > feature-list.json/mine; : > made-a\n",
    );
    env.agent.call(1).out("oops\n");
    env.run().expect(0).says("the backlog could not be read and was restored");
    assert_eq!(statuses(&env), [("a".to_owned(), "completed".to_owned())]);
    assert!(env.path("feature-list.json.1/mine").is_file(), "nothing of the agent's is deleted");
}

#[test]
fn a_secret_that_the_agent_writes_into_the_backlog_is_not_kept_in_the_state() {
    let mut env = features(&[feature("a", 9, &[])]);
    env.var("SOME_API_TOKEN", "tok-123456789");
    env.agent.call(1).script(&format!(
        "{WORK}sed -i 's/made-a exists/tok-123456789/; s/\"id\": *\"a\"/&, \"notes\": \"tok-123456789\"/' feature-list.json\n"
    ));
    env.run();
    assert!(!series_of(&env, "guarded").is_empty());
    for name in ["journal.jsonl", "replaced"] {
        let kept = std::fs::read_to_string(env.state().join("series").join(name)).unwrap();
        assert!(!kept.contains("tok-123456789") && kept.contains("***"), "{name}: {kept}");
    }
}

#[test]
fn a_line_that_looks_like_an_item_and_is_none_is_named_everywhere() {
    let env = environment("plan-md", "fix_plan.md", "");
    env.write("fix_plan.md", "# Plan\n\n- [ ] a\n- [] forgotten\n- [~] half\n* [ ] c\n");
    let named = "fix_plan.md:4 \"- [] forgotten\", fix_plan.md:5 \"- [~] half\"";
    env.ralph(&["config", "check"]).expect(0).says(named);
    env.ralph(&["doctor"]).expect(0).says(named);
    env.run().expect(0).says(named);
    assert_eq!(worked(&env), ["a", "c"]);
    env.ralph(&["status"]).expect(0).says(named);
    assert_eq!(env.status()["backlog"]["unread"][1]["line"], 5);
    // Nobody knows whether what could not be read is done.
    env.write("fix_plan.md", "# Plan\n\n- [x] a\n-[ ] b\n");
    let next = env.ralph(&["next"]).expect(2).says("fix_plan.md:4 \"-[ ] b\"").stdout.clone();
    assert!(!next.contains("complete:"), "{next}");
    let next = env.ralph(&["next", "--json"]).expect(2).stdout;
    let next: Value = serde_json::from_str(&next).unwrap();
    assert_eq!((&next["next"], &next["unread"][0]["line"]), (&"unread".into(), &4.into()));
    env.write("fix_plan.md", "# Plan\n\n- [x] a\n- [x] b\n");
    env.ralph(&["next"]).expect(0).says("all items are complete");
}

#[test]
fn a_tick_of_a_sub_box_stays_where_the_agent_also_adds_an_item() {
    let env = environment("plan-md", "fix_plan.md", "");
    env.write("fix_plan.md", "# Plan\n- [ ] a\n  - [ ] form\n  - [ ] endpoint\n");
    env.agent.call(1).script(&format!(
        "{WORK}sed -i 's/- \\[ \\] form/- [x] form/' fix_plan.md; echo '- [ ] Bug' >> fix_plan.md\n"
    ));
    env.agent.call(1).out("not yet\n");
    env.run().expect(0).says("item `bug` was added; it was taken out");
    assert_eq!(env.read("fix_plan.md"), "# Plan\n- [x] a\n  - [x] form\n  - [ ] endpoint\n");
}

#[test]
fn agents_checks_and_the_setup_know_the_item_and_an_agent_cannot_change_what_checks_are_told() {
    let env = environment("json", "feature-list.json", "");
    let (told, check) = (env.root().join("told"), env.root().join("check.sh"));
    let text = format!(
        "echo \"$RALPH_ITEM\" >> '{}'\ngrep -q '\"id\":\"'$RALPH_ITEM'\"' $RALPH_ITEM_FILE &&
grep -q \"made-$RALPH_ITEM exists\" $RALPH_ITEM_FILE && ls made-$RALPH_ITEM\n",
        told.display()
    );
    std::fs::write(&check, text).unwrap();
    let program = format!("\"sh\", \"{}\"]", check.display());
    let config = env.read("ralph.toml").replace("\"sh\", \"-c\", \"ls made-*\"]", &program);
    let setup =
        "[run]\nsetup = [\"sh\", \"-c\", \"test -n $RALPH_ITEM && test -f $RALPH_ITEM_FILE\"]\n";
    env.raw_config(&config.replace("[run]\n", setup));
    env.write("feature-list.json", feature_list(&[feature("a", 9, &[]), feature("b", 1, &[])]));
    env.agent.default_call().script(&format!(
        "{WORK}[ \"$RALPH_ITEM\" = \"$id\" ] || exit 1\ngrep -q \"made-$id exists\" $RALPH_ITEM_FILE || exit 1\necho '{{}}' > $RALPH_ITEM_FILE\n"
    ));
    env.run().expect(0);
    let told = std::fs::read_to_string(told).unwrap();
    assert!(told.starts_with("a\n") && told.ends_with("b\n"), "{told}");
}

#[test]
fn a_backlog_that_another_program_holds_is_waited_for() {
    let env = features(&[feature("a", 9, &[]), feature("b", 1, &[])]);
    let (from, to) = (env.fifo("from"), env.fifo("to"));
    env.agent.call(1).script(&format!(
        "{WORK}echo > '{}'; cat '{}'\n",
        from.display(),
        to.display()
    ));
    let mut running = env.start(&["run"]);
    std::fs::read(&from).unwrap();
    let file = std::fs::File::open(env.path("feature-list.json")).unwrap();
    rustix::fs::flock(&file, rustix::fs::FlockOperation::LockExclusive).unwrap();
    std::fs::write(&to, "go on\n").unwrap();
    running.says("feature-list.json is held by another program; waiting for it");
    drop(file);
    running.wait().expect(0).says("backlog 2/2");
}

#[test]
fn each_item_has_a_check_of_its_own_that_the_agent_cannot_change() {
    let env = environment(
        "json",
        "feature-list.json",
        "check = [\"./accept.sh\", \"{item}\"]\n[completion]\nbaseline = \"must_fail\"\n",
    );
    // No other check.
    let config = env.read("ralph.toml");
    let (before, _) = config.split_once("[[validator]]").unwrap();
    env.raw_config(before);
    env.write("accept.sh", "#!/bin/sh\ntest -f \"made-$1\"\n").write_mode("accept.sh", 0o755);
    env.write("made-done", "");
    let items = [feature("done", 9, &[]), feature("a", 5, &[]), feature("b", 1, &[])];
    env.write("feature-list.json", feature_list(&items));
    env.ralph(&["config", "check"]).expect(0);
    env.agent.call(1).script(&format!("{WORK}rm made-a\n")).out(CLAIM);
    env.run().expect(2).says("item done is blocked").says("item b is complete");
    assert_eq!(worked(&env), ["a", "a", "b"]);
    env.ralph(&["skip", "done"]).expect(0);
    env.run().expect(0);

    let env = environment("json", "feature-list.json", "check = [\"./accept.sh\", \"{item}\"]\n");
    env.write("accept.sh", "#!/bin/sh\ntest -f \"made-$1\"\n").write_mode("accept.sh", 0o755);
    env.write("feature-list.json", feature_list(&[feature("a", 5, &[])]));
    let cheat = "echo 'exit 0' > accept.sh; : > made-other\n";
    env.agent.call(1).script(cheat).out(CLAIM);
    env.agent
        .call(2)
        .script(&format!("printf '#!/bin/sh\\ntest -f \"made-$1\"\\n' > accept.sh\n{WORK}"));
    env.agent.call(2).out(CLAIM);
    env.run().expect(0);
    assert_eq!(env.agent.calls(), 2, "a changed check accepts nothing");
}

#[test]
fn the_command_of_an_item_is_one_more_check_that_no_agent_changes() {
    let env = environment("json", "feature-list.json", "check = [\"sh\", \"-c\", \"{verify}\"]\n");
    let mut items = [feature("a", 9, &[]), feature("b", 5, &[]), feature("c", 1, &[])];
    items[0]["verify"] = "test -f proved-a".into();
    items[1]["test"] = serde_json::json!(["test -f proved-a", "test -f proved-b"]);
    env.write("feature-list.json", feature_list(&items));
    // Neither its own nor that of a later item.
    let cheat = "sed -i 's/test -f proved-[ab]/true/' feature-list.json\n";
    env.agent.call(1).script(&format!("{WORK}{cheat}")).out(CLAIM);
    env.agent.call(2).script(": > proved-a\n").out(CLAIM);
    env.agent.call(3).script(WORK).out(CLAIM);
    env.agent.call(4).script(": > proved-b\n").out(CLAIM);
    let ended = env.run().expect(0);
    ended.says("rejected by backlog.check");
    assert_eq!(env.agent.calls(), 5, "{}", ended.stderr);
    assert!(env.read("feature-list.json").contains("test -f proved-b"));
}

#[test]
fn a_check_of_items_needs_a_program() {
    let env = environment("json", "feature-list.json", "check = [\"{item}\"]\n");
    env.ralph(&["config", "check"]).expect(78).says("expected a program, such as [\"./accept.sh\"");
}
