//! Which item is worked on, and that each is worked on in a run of its own.

use super::{CLAIM, WORK, feature, features, series_of, statuses, worked};

#[test]
fn two_items_are_two_runs_and_end_completed() {
    let env = features(&[feature("a", 1, &[]), feature("b", 5, &[])]);
    let before = env.read("feature-list.json");
    let ended = env.run().expect(0);
    ended.says("backlog 2/2 (100.0%): completed");
    assert_eq!(worked(&env), ["b", "a"], "the highest priority first");
    let expected = before.replace("\"pending\"", "\"completed\"");
    assert_eq!(env.read("feature-list.json"), expected, "nothing but the statuses was written");
    let runs = env.ralph(&["runs", "--json"]).expect(0);
    let runs: Vec<serde_json::Value> = serde_json::from_str(&runs.stdout).unwrap();
    assert_eq!(runs.len(), 2);
    assert!(runs.iter().all(|run| run["phase"] == "completed"), "{runs:?}");
    assert_eq!(series_of(&env, "status_written").len(), 2);
}

#[test]
fn the_agent_gets_the_prompt_followed_by_its_item() {
    let env = features(&[feature("a", 1, &[]), feature("b", 5, &["a"])]);
    env.run().expect(0);
    let given = String::from_utf8(env.agent.stdin(1)).unwrap();
    assert!(given.starts_with("# Rules\n\nMake what the item wants.\n\n# Current item: Make a\n"));
    assert!(given.contains("Acceptance criteria:\n- made-a exists\n"), "{given}");
    assert!(!given.contains("Make b"), "an agent is given one item: {given}");
    let second = String::from_utf8(env.agent.stdin(2)).unwrap();
    assert!(second.contains("# Current item: Make b\n") && !second.contains("Make a\n"));
}

#[test]
fn dependencies_come_before_priorities() {
    let env = features(&[feature("c", 100, &["b"]), feature("b", 1, &["a"]), feature("a", 0, &[])]);
    env.run().expect(0);
    assert_eq!(worked(&env), ["a", "b", "c"]);
}

#[test]
fn an_item_in_progress_is_first_and_equal_ones_keep_the_order_of_the_file() {
    let mut started = feature("c", 0, &[]);
    started["status"] = "in_progress".into();
    let env = features(&[feature("b", 3, &[]), feature("a", 3, &[]), started]);
    env.run().expect(0);
    assert_eq!(worked(&env), ["c", "b", "a"]);
}

#[test]
fn a_complete_backlog_starts_no_agent() {
    let mut done = feature("a", 1, &[]);
    done["status"] = "completed".into();
    let env = features(&[done]);
    env.run().expect(0).says("completed");
    assert_eq!(env.agent.calls(), 0);
    env.run().expect(0);
    assert_eq!(env.agent.calls(), 0);
}

#[test]
fn completed_once_it_stays_so_until_there_is_a_new_item() {
    let env = features(&[feature("a", 1, &[])]);
    env.run().expect(0);
    env.run().expect(0).says("no agent was started");
    assert_eq!(env.agent.calls(), 1);
    env.ralph(&["add", "One more", "--id", "z"]).expect(0).says("added item z");
    env.run().expect(0).says("2/2");
    assert_eq!(worked(&env), ["a", "z"]);
}

#[test]
fn a_marker_of_one_item_is_no_claim_of_the_next() {
    let env = features(&[feature("a", 2, &[]), feature("b", 1, &[])]);
    env.agent.call(1).script(&format!("{WORK}echo '- [x] TASK_COMPLETE' >> PROMPT.md\n"));
    env.agent.call(1).out("written into the prompt\n");
    env.agent.call(2).script(WORK);
    env.agent.call(2).out("not yet\n");
    env.agent.call(3).out(CLAIM);
    env.run().expect(0).says("claims that stood there from before this run were removed");
    assert_eq!(env.agent.calls(), 3, "the second item was worked on, and claimed itself");
    assert_eq!(env.read("PROMPT.md"), "# Rules\n\nMake what the item wants.\n");
}

#[test]
fn an_item_that_is_rejected_stays_in_progress_and_is_resumed_first() {
    let env = features(&[feature("a", 1, &[]), feature("b", 5, &[])]);
    env.raw_config(&env.read("ralph.toml").replace("ls made-*", "test -e passes"));
    env.ralph(&["run", "--max-iterations", "1"]).expect(1).says("item `b`");
    assert_eq!(statuses(&env)[1], ("b".to_owned(), "in_progress".to_owned()));
    // Another item overtakes it in the file, but not in the work.
    let list = env.read("feature-list.json").replace("\"priority\": 1,", "\"priority\": 9,");
    env.write("feature-list.json", list).write("passes", "");
    let ended = env.run().expect(0);
    ended.says("resuming item b");
    let started = series_of(&env, "item_started");
    assert_eq!(started.len(), 2, "the run of b went on: {started:?}");
    assert_eq!(started[0]["item"], "b");
}
