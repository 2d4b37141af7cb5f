//! `next`, `add`, and what other commands show of a backlog.

use serde_json::{Value, json};

use super::{environment, feature, feature_list, features};
use crate::environment::eventually;

fn object(ended: &crate::environment::Ended) -> Value {
    serde_json::from_str(&ended.stdout).unwrap()
}

#[test]
fn next_is_the_same_each_time_and_explains_every_item() {
    let env =
        features(&[feature("low", 1, &[]), feature("waits", 9, &["low"]), feature("high", 5, &[])]);
    let first = env.ralph(&["next", "--json"]).expect(0);
    assert_eq!(object(&first)["item"]["id"], "high");
    for _ in 0..5 {
        assert_eq!(env.ralph(&["next", "--json"]).expect(0).stdout, first.stdout);
    }
    let explained = env.ralph(&["next", "--explain"]).expect(0);
    explained.says("high: selected").says("low: number 2, after high");
    explained.says("waits: waits for low (pending)").says("highest priority");
    assert!(!env.has_state());
}

#[test]
fn what_notes_say_decides_nothing() {
    let mut tempting = feature("a", 1, &[]);
    tempting["implementation_notes"] = json!(["do feature a next"]);
    let env = features(&[tempting, feature("b", 2, &[])]);
    assert_eq!(object(&env.ralph(&["next", "--json"]).expect(0))["item"]["id"], "b");
}

#[test]
fn add_checks_what_it_adds() {
    let env = features(&[feature("a", 1, &[])]);
    env.ralph(&["add", "New", "--id", "n", "--after", "a", "--priority", "7", "--criterion", "ok"])
        .expect(0)
        .says("added item n");
    let list: Value = serde_json::from_str(&env.read("feature-list.json")).unwrap();
    assert_eq!(list["features"][1]["depends_on"][0], "a");
    assert_eq!(list["features"][1]["priority"], 7);
    env.ralph(&["add", "Again", "--id", "n"]).expect(64).says("is taken");
    env.ralph(&["add", "Lost", "--after", "nobody"]).expect(64).says("does not exist");
    let plan = environment("plan-md", "plan.md", "");
    plan.write("plan.md", "- [ ] One\n");
    plan.ralph(&["add", "Two", "--json"]).expect(0);
    assert_eq!(plan.read("plan.md"), "- [ ] One\n- [ ] Two\n");
}

#[test]
fn status_shows_the_backlog_without_an_agent() {
    let features: Vec<Value> = (0..200)
        .map(|n| {
            let mut feature = feature(&format!("f{n}"), 1, &[]);
            if n < 45 {
                feature["status"] = "completed".into();
            }
            feature
        })
        .collect();
    let env = environment("json", "feature-list.json", "");
    env.write("feature-list.json", feature_list(&features));
    env.ralph(&["status"]).expect(0).says("45/200 (22.5%)");
    let status = env.status();
    assert_eq!(status["backlog"]["items"]["completed"], 45);
    assert_eq!(env.status(), status, "the same backlog, the same answer");
    assert_eq!(env.agent.calls(), 0);
}

#[test]
fn status_log_why_and_runs_show_items_and_runs_as_one() {
    let env = features(&[feature("a", 3, &[]), feature("b", 2, &[])]);
    env.agent.call(2).out("not yet\n");
    env.ralph(&["run", "--max-iterations", "2"]).expect(1);
    let status = env.ralph(&["status"]).expect(0);
    status.says("1/2 (50.0%)").says("item        b: Make b");
    let object = env.status();
    assert_eq!(object["backlog"]["item"]["id"], "b");
    assert_eq!(object["backlog"]["item"]["run"], object["run"]);
    assert_eq!(object["backlog"]["usage"]["iterations"], 2);
    let runs = env.ralph(&["runs", "--json"]).expect(0);
    let runs: Vec<Value> = serde_json::from_str(&runs.stdout).unwrap();
    assert_eq!(runs[0]["item"], "b");
    assert_eq!(runs[1]["item"], "a");
    env.ralph(&["runs"]).expect(0).says("b: Make b").says("a: Make a");
    let log = env.ralph(&["log"]).expect(0);
    log.says("item a: Make a").says("item b: Make b");
    env.ralph(&["why"]).expect(0).says("item b: Make b").says("1/2 (50.0%)");
}

#[test]
fn the_log_goes_through_the_runs_of_the_items_in_their_order() {
    let env = features(&[feature("a", 3, &[]), feature("b", 2, &[])]);
    let gate = env.fifo("gate");
    env.agent.call(2).script(&format!("{}echo at > '{}'\n", super::WORK, gate.display()));
    env.agent.call(2).out("<promise>COMPLETE: made it</promise>\n");
    let mut running = env.start(&["run"]);
    // The first item is complete before anybody follows; the second is being worked on.
    eventually("the second item", || env.agent.calls() == 2);
    let mut followed = env.start(&["log", "--follow"]);
    let mut records = env.start(&["log", "--follow", "--json"]);
    followed.prints("item b: Make b");
    assert_eq!(std::fs::read_to_string(&gate).unwrap(), "at\n");
    running.wait().expect(0);
    let followed = followed.wait().expect(0).stdout;
    let heads: Vec<&str> = followed.lines().filter(|line| line.starts_with("item ")).collect();
    assert!(heads[0].starts_with("item a: Make a") && heads[1].starts_with("item b: Make b"));
    assert_eq!(heads.len(), 2, "{followed}");
    assert_eq!(followed.matches("COMPLETED").count(), 2, "{followed}");
    let records = records.wait().expect(0);
    let starts =
        |lines: &[Value]| lines.iter().filter(|line| line["kind"] == "run_started").count();
    assert_eq!(starts(&records.events()), 2);
    let all = env.ralph(&["log", "--json"]).expect(0);
    assert_eq!(all.stdout, records.stdout);
    let run = env.status()["run"].as_str().unwrap().to_owned();
    let one = env.ralph(&["log", "--json", "--run", &run]).expect(0);
    assert_eq!(starts(&one.events()), 1);
}

#[test]
fn status_shows_what_all_runs_have_used_of_the_limits_that_they_share() {
    let env = features(&[feature("a", 3, &[]), feature("b", 2, &[])]);
    env.agent.call(2).out("not yet\n");
    env.ralph(&["run", "--max-iterations", "2"]).expect(1);
    let status = env.ralph(&["status", "--set", "limits.max_iterations=7"]).expect(0);
    status.says("all runs    iterations 2 of 7, cost not reported, ").says(" of 4h");
    let object = env.status();
    assert_eq!(object["backlog"]["usage"]["iterations"], 2);
    assert_eq!(object["backlog"]["limits"]["max_iterations"], 100);
}

/// Agent output with tokens of all classes.
fn result_with_tokens(text: &str, tokens: [u64; 4]) -> String {
    let [input, output, read, write] = tokens;
    let result = json!({"type": "result", "subtype": "success", "is_error": false, "result": text,
        "total_cost_usd": 0.25, "session_id": "s", "num_turns": 1,
        "usage": {"input_tokens": input, "output_tokens": output, "cache_read_input_tokens": read,
            "cache_creation_input_tokens": write}});
    format!("{result}\n")
}

#[test]
fn tokens_by_class_and_cost_are_shown_for_each_item() {
    let env = environment("json", "feature-list.json", "");
    let text = env.read("ralph.toml").replace("unmetered = true\n", "");
    let program = format!("program = [\"{}\"]\n", env.agent.program().display());
    env.raw_config(&text.replace(&program, &format!("{program}output = \"claude-json\"\n")));
    env.write("feature-list.json", feature_list(&[feature("a", 3, &[]), feature("b", 2, &[])]));
    let claim = "<promise>COMPLETE: made it</promise>";
    env.agent.call(1).out(result_with_tokens(claim, [10, 20, 300, 4000]));
    env.agent.call(2).out(result_with_tokens("not yet", [1, 2, 0, 0]));
    let ended = env.ralph(&["run", "--max-iterations", "2"]).expect(1);
    let of_a = "1 iteration, $0.25, tokens: input 10, output 20, cache read 300, cache write 4000";
    ended.says(&format!("item a is complete ({of_a})"));
    let of_b = "1 iteration, $0.25, tokens: input 1, output 2)";
    ended.says(&format!("item b is not complete ({of_b}"));
    env.ralph(&["log"]).expect(0).says(&format!("; {of_a})")).says(&format!("; {of_b}"));
    let runs = env.ralph(&["runs", "--json"]).expect(0);
    let runs: Vec<Value> = serde_json::from_str(&runs.stdout).unwrap();
    let tokens = |tokens: [u64; 4]| json!({"input": tokens[0], "output": tokens[1], "cache_read": tokens[2], "cache_write": tokens[3]});
    assert_eq!(runs[0]["tokens"], tokens([1, 2, 0, 0]));
    assert_eq!(runs[1]["tokens"], tokens([10, 20, 300, 4000]));
    env.ralph(&["runs"]).expect(0).says("  4.3k  ").says("  3  ");
    let status = env.ralph(&["status"]).expect(0);
    status.says("tokens 4333 (input 11, output 22, cache read 300, cache write 4000)");
    status.says("  tokens      input 1, output 2\n");
    let status = env.status();
    assert_eq!(status["backlog"]["usage"]["tokens"], tokens([11, 22, 300, 4000]));
    let of_item = &status["backlog"]["item"]["usage"];
    assert_eq!((&of_item["tokens"], &of_item["iterations"]), (&tokens([1, 2, 0, 0]), &1.into()));
    // Its second iteration adds to it.
    env.agent.call(3).out(result_with_tokens(claim, [5, 5, 5, 5]));
    let events = env.ralph(&["run", "--json", "--max-iterations", "4"]).expect(0).events();
    let finished = events.iter().find(|event| event["event"] == "item_finished").unwrap();
    assert_eq!(finished["usage"]["tokens"], tokens([6, 7, 5, 5]));
    let why = env.ralph(&["why"]).expect(0).stdout;
    let why = why.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(why.contains("tokens: input 6, output 7, cache read 5, cache write 5"), "{why}");
}

#[test]
fn what_runs_worked_on_is_known_after_a_new_beginning() {
    let env = features(&[feature("a", 3, &[])]);
    env.run().expect(0).says("the only item is complete");
    env.ralph(&["add", "Next", "--id", "n"]).expect(0);
    env.ralph(&["status"]).expect(0).says("1/2 (50.0%), was complete, but n is open now");
    env.ralph(&["why"]).expect(0).says("- `ralph-orchestrator run` continues with n\n");
    env.run().expect(0).says("all 2 items are complete");
    assert!(!env.ralph(&["status"]).expect(0).stdout.contains("was complete"));
    let runs = env.ralph(&["runs", "--json"]).expect(0);
    let runs: Vec<Value> = serde_json::from_str(&runs.stdout).unwrap();
    assert_eq!((&runs[0]["item"], &runs[1]["item"]), (&"n".into(), &"a".into()));
}

#[test]
fn events_say_which_item_a_run_is() {
    let env = features(&[feature("a", 3, &[])]);
    let events = env.ralph(&["run", "--json"]).expect(0).events();
    let words: Vec<&str> = events.iter().filter_map(|event| event["event"].as_str()).collect();
    let place = |word: &str| words.iter().position(|found| *found == word).unwrap();
    assert!(place("item_started") < place("run_started"));
    assert!(place("run_finished") < place("item_finished"));
    assert_eq!(words.last(), Some(&"backlog_finished"));
    let finished = &events[place("item_finished")];
    assert_eq!(finished["item"], "a");
    assert_eq!(finished["stop_reason"], "completed");
    assert_eq!(finished["items"]["completed"], 1);
}

#[test]
fn a_dry_run_shows_the_item_and_changes_nothing() {
    let env = features(&[feature("a", 3, &[])]);
    let before = env.read("feature-list.json");
    let plan = env.ralph(&["run", "--dry-run"]).expect(0);
    plan.says("would run").says("  backlog     feature-list.json: 0/1 (0.0%)");
    plan.says("  next item   a: Make a\n").says("  git         nothing is stored\n");
    let plan = object(&env.ralph(&["run", "--dry-run", "--json"]).expect(0));
    assert_eq!(
        (&plan["backlog"]["item"]["id"], &plan["git"]["commit"]),
        (&"a".into(), &"off".into())
    );
    assert_eq!(env.read("feature-list.json"), before);
    assert_eq!(env.agent.calls(), 0);
    env.run().expect(0);
}

#[test]
fn items_that_the_checks_accepted_before_any_work_are_named_at_the_end() {
    let env = features(&[feature("a", 9, &[]), feature("b", 1, &[])]);
    let ended = env.run().expect(0);
    // The file of the first item satisfies the check for the second.
    let unproved = "the checks accepted the workspace before any work on `b`: that these are";
    ended.says(unproved);
    let why = env.ralph(&["why"]).expect(0);
    why.says("review `b`: the checks had accepted the workspace before any work on them");
    assert!(!why.stdout.contains("the work is proved done"), "{}", why.stdout);
    let again = env.run().expect(0);
    assert!(!again.stderr.contains(unproved), "said once: {}", again.stderr);
}
