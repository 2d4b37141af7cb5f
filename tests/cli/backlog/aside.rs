//! An item on which work leads nowhere is blocked, and the others go on; people skip it, or have it tried again.

use serde_json::{Value, json};

use super::crash::kill_after_record;
use super::{
    CLAIM, WORK, environment, feature, feature_list, features, series_of, statuses, worked,
};
use crate::environment::TestEnvironment;

/// A workspace with these items and an agent that changes something in each iteration, and makes what each item but `a`
/// wants. The check accepts if there is a file for the item that was worked on last.
fn impossible(items: &[Value], more: &str) -> TestEnvironment {
    let env = environment("json", "feature-list.json", more);
    let config = env.read("ralph.toml");
    let (before, _) = config.split_once("program = [\"sh\"").unwrap();
    let last = env.root().join("last");
    let check = format!("ls made-$(cat '{}')", last.display());
    env.raw_config(&format!("{before}program = [\"sh\", \"-c\", \"{check}\"]\n"));
    env.write("feature-list.json", feature_list(items));
    env.agent.default_call().script(&works(&env, "[ \"$id\" = a ] || "));
    env
}

/// Works on the item under this condition.
fn works(env: &TestEnvironment, condition: &str) -> String {
    let last = env.root().join("last");
    let work = WORK.replace(": > \"made", &format!("{condition}: > \"made"));
    format!("{work}echo \"$id\" > '{}'; echo \"$n\" > tries\n", last.display())
}

fn prd(items: &[&str]) -> String {
    let stories: Vec<Value> = items
        .iter()
        .map(|id| json!({"id": id, "title": id, "description": "", "acceptanceCriteria": [], "priority": 1, "passes": false}))
        .collect();
    json!({"userStories": stories}).to_string()
}

fn count(env: &TestEnvironment, item: &str) -> usize {
    worked(env).iter().filter(|worked| *worked == item).count()
}

#[test]
fn an_impossible_item_is_blocked_by_itself_and_leaves_the_others_their_turn() {
    let items = [feature("a", 9, &[]), feature("b", 5, &["a"]), feature("c", 1, &[])];
    let env = impossible(&items, "[limits]\nmax_rejections = \"none\"\n");
    let ended = env.run().expect(2);
    ended.says("item a is blocked (10 iterations): not complete after 10 iterations");
    ended.says("needs_human").says("b: waits for a (blocked)");
    assert_eq!((count(&env, "a"), count(&env, "b"), count(&env, "c")), (10, 0, 1));
    assert_eq!(statuses(&env)[0].1, "blocked", "the file can hold it");
    assert!(env.read("feature-list.json").contains("Blocked: not complete after 10 iterations"));
    let run = series_of(&env, "item_started")[0]["run"].as_str().unwrap().to_owned();
    for command in [&["next"][..], &["why"]] {
        let shown = env.ralph(command);
        let words = format!("{}{}", shown.stdout, shown.stderr);
        let words = words.split_whitespace().collect::<Vec<_>>().join(" ");
        for part in [&format!("why --run {run}"), "retry a", "skip a"] {
            assert!(words.contains(part), "{command:?}: {words}");
        }
    }
    assert_eq!(env.status()["phase"], "needs_human");
    let why = env.status()["backlog"]["set_aside"]["a"]["blocked"].to_string();
    assert!(why.contains("backlog.max_item_iterations"), "{why}");
    // Again nothing is started.
    let calls = env.agent.calls();
    env.run().expect(2);
    assert_eq!(env.agent.calls(), calls);
}

#[test]
fn mended_and_retried_it_is_worked_on_in_a_new_run_with_iterations_of_its_own() {
    let items = [feature("a", 9, &[]), feature("c", 1, &[])];
    let env = impossible(&items, "max_item_iterations = 2\n");
    env.run().expect(2);
    env.agent.default_call().script(&works(&env, ""));
    env.ralph(&["retry", "a"]).expect(0).says("a is open again");
    assert_eq!(statuses(&env)[0].1, "pending");
    env.ralph(&["retry", "a"]).expect(64).says("neither blocked nor skipped");
    env.run().expect(0).says("backlog 2/2 (100.0%): completed");
    assert_eq!(worked(&env), ["a", "a", "c", "a"]);
    let runs: Vec<Value> = series_of(&env, "item_started");
    assert_ne!(runs[0]["run"], runs[2]["run"]);
    env.ralph(&["retry", "a"]).expect(64).says("is complete already");
}

#[test]
fn a_format_without_the_status_blocked_blocks_and_skips_all_the_same() {
    let env = impossible(&[], "max_item_iterations = 2\n");
    let config = env.read("ralph.toml").replace("feature-list.json", "prd.json");
    env.raw_config(&config);
    env.write("prd.json", prd(&["a", "c"]));
    env.ralph(&["skip", "a"]).expect(64).says("no run has begun");
    env.run().expect(2).says("a: blocked: not complete after 2 iterations");
    env.ralph(&["next"]).expect(2).says("a: blocked");
    env.ralph(&["skip", "nope"]).expect(64).says("no item has the id `nope`");
    env.ralph(&["skip", "a"]).expect(0).says("skipped a");
    env.run().expect(0).says("completed: all others are complete; a: skipped");
    env.run().expect(0).says("already completed");
    env.ralph(&["add", "d"]).expect(0);
    env.run().expect(0);
    assert_eq!(count(&env, "a"), 2, "what is added later changes nothing of that");
    env.ralph(&["retry", "a"]).expect(0);
    env.agent.default_call().script(&works(&env, ""));
    env.run().expect(0).says("backlog 3/3");
}

#[test]
fn what_depends_on_a_skipped_item_is_left_out_too() {
    let items = [feature("a", 9, &[]), feature("b", 5, &["a"]), feature("c", 1, &[])];
    let env = impossible(&items, "max_item_iterations = 1\n");
    env.run().expect(2);
    env.ralph(&["skip", "a"]).expect(0).says("what depends on it: b");
    env.run().expect(0).says("b: left out, since it depends on a, which is skipped");
    env.ralph(&["next", "--explain"]).expect(0).says("a: skipped").says("b: left out");
    assert_eq!(count(&env, "b"), 0);
}

#[test]
fn stagnation_and_thrashing_block_the_item_alone() {
    for (limit, says, why) in [
        ("max_stagnant = 2", "nothing to do\n", "stagnation"),
        ("max_rejections = 2", CLAIM, "thrashing"),
    ] {
        let items = [feature("a", 9, &[]), feature("c", 1, &[])];
        let env = impossible(&items, &format!("[limits]\n{limit}\n"));
        std::fs::write(env.root().join("last"), "a\n").unwrap();
        for call in 1..=2 {
            env.agent.call(call).script(":\n").out(says);
        }
        let ended = env.run().expect(2);
        ended.says("item a is blocked").says("item c is complete");
        let stopped = series_of(&env, "item_stopped");
        assert_eq!((stopped.len(), &stopped[0]["reason"]), (1, &Value::from(why)), "{limit}");
    }
}

#[test]
fn an_items_money_is_bounded_and_all_limits_together_still_end_the_work() {
    let items = [feature("a", 9, &[]), feature("c", 1, &[])];
    let env = impossible(&items, "max_item_cost_usd = 0.5\n");
    let text = env.read("ralph.toml").replace("unmetered = true\n", "");
    let program = format!("program = [\"{}\"]\n", env.agent.program().display());
    env.raw_config(&text.replace(&program, &format!("{program}output = \"claude-json\"\n")));
    let claim = crate::completion::claude_result("<promise>COMPLETE: made it</promise>", 0.25);
    env.agent.default_call().out(claim);
    env.run().expect(2).says("a: blocked: not complete for $0.50 (backlog.max_item_cost_usd)");
    assert_eq!(worked(&env), ["a", "a", "c"]);
    env.ralph(&["retry", "a"]).expect(0);
    env.ralph(&["run", "--max-cost", "1"]).expect(1).says("max_cost");
    assert_eq!(count(&env, "a"), 3, "what is used up of the whole ends the whole");
    assert_eq!(statuses(&env)[0].1, "in_progress");
}

#[test]
fn killed_between_the_stop_of_a_run_and_the_block_of_its_item_it_is_blocked_by_the_next_start() {
    let items = [feature("a", 9, &[]), feature("c", 1, &[])];
    let whole = impossible(&items, "max_item_iterations = 2\n");
    whole.run().expect(2);
    let records = super::series(&whole).len();
    for at in 1..=records {
        let env = impossible(&items, "max_item_iterations = 2\n");
        kill_after_record(&env, at);
        env.run().expect(2).says("a: blocked");
        let stops = series_of(&env, "item_stopped");
        let blocks = stops.iter().filter(|stop| stop["blocked"].is_string()).count();
        assert_eq!(blocks, 1, "killed after record {at}");
        assert_eq!(statuses(&env)[0].1, "blocked", "killed after record {at}");
        let notes = env.read("feature-list.json").matches("Blocked: not complete").count();
        assert_eq!(notes, 1, "killed after record {at}");
        assert_eq!(statuses(&env)[1].1, "completed");
    }
}

#[test]
fn the_item_that_is_worked_on_can_be_skipped_and_the_next_begins() {
    let env = features(&[feature("a", 9, &[]), feature("c", 1, &[])]);
    let (from, to) = (env.fifo("from"), env.fifo("to"));
    env.agent.call(1).script(&format!("echo > '{}'; cat '{}'\n", from.display(), to.display()));
    env.agent.call(1).out("not yet\n");
    let mut running = env.start(&["run"]);
    std::fs::read(&from).unwrap();
    env.ralph(&["skip", "a"]).expect(0).says("queued: a");
    std::fs::write(&to, "go on\n").unwrap();
    let ended = running.wait().expect(0);
    ended.says("item `a` is skipped").says("item c is complete");
    assert_eq!(worked(&env), ["c"]);
    assert_eq!(series_of(&env, "item_skipped").len(), 1);
}

#[test]
fn an_agent_neither_skips_nor_retries_nor_unblocks_items() {
    let items = [feature("a", 9, &[]), feature("c", 1, &[])];
    let env = impossible(&items, "max_item_iterations = 1\n");
    let program = crate::environment::tested_program().display();
    let work = works(&env, "");
    env.agent.call(2).script(&format!(
        "{work}'{program}' skip c; echo $? >> told; '{program}' retry a; echo $? >> told
sed -i 's/\"blocked\"/\"pending\"/' feature-list.json\n"
    ));
    env.agent.call(2).out(CLAIM);
    env.run().expect(2).says("item `a` was set from blocked to pending; its status was restored");
    assert_eq!(env.read("told"), "64\n64\n");
    assert_eq!(worked(&env), ["a", "c"]);
}

#[test]
fn unblocked_in_the_file_by_a_person_it_is_worked_on_again_and_restart_forgets_blocks() {
    let items = [feature("a", 9, &[]), feature("c", 1, &[])];
    let env = impossible(&items, "max_item_iterations = 1\n");
    env.run().expect(2);
    let list = env.read("feature-list.json").replace("\"blocked\"", "\"pending\"");
    env.write("feature-list.json", list);
    env.run().expect(2).says("item `a` is worked on again");
    assert_eq!(count(&env, "a"), 2);
    env.agent.default_call().script(&works(&env, ""));
    env.ralph(&["run", "--restart"]).expect(0);
    assert_eq!(statuses(&env)[0].1, "completed");
}
