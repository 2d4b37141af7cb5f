//! Limits hold for the whole backlog; a stop leaves the item to be resumed.

use rustix::process::Signal;

use super::{WORK, environment, feature, feature_list, features, series_of, statuses, worked};
use crate::completion::claude_result;

#[test]
fn iterations_are_counted_over_all_items() {
    let env = features(&[feature("a", 3, &[]), feature("b", 2, &[]), feature("c", 1, &[])]);
    env.agent.call(1).out("not yet\n");
    env.ralph(&["run", "--max-iterations", "3"]).expect(1).says("max_iterations");
    assert_eq!(env.agent.calls(), 3);
    assert_eq!(worked(&env), ["a", "a", "b"]);
    assert_eq!(statuses(&env)[2].1, "pending");
    env.ralph(&["run", "--max-iterations", "3"]).expect(1);
    assert_eq!(env.agent.calls(), 3, "used up is used up");
    env.ralph(&["run", "--max-iterations", "4"]).expect(0);
    assert_eq!(env.agent.calls(), 4);
}

#[test]
fn money_is_counted_over_all_items_and_the_rest_is_passed_on() {
    let env = environment("json", "feature-list.json", "");
    let text = env.read("ralph.toml").replace("unmetered = true\n", "");
    let program = format!("program = [\"{}\"]\n", env.agent.program().display());
    env.raw_config(&text.replace(&program, &format!("{program}output = \"claude-json\"\n")));
    env.write(
        "feature-list.json",
        feature_list(&[feature("a", 3, &[]), feature("b", 2, &[]), feature("c", 1, &[])]),
    );
    env.agent.default_call().out(claude_result("<promise>COMPLETE: made it</promise>", 0.25));
    let ended = env.ralph(&["run", "--json", "--max-cost", "0.5"]).expect(1);
    let events = ended.events();
    let last = events.last().unwrap();
    assert_eq!(last["stop_reason"], "max_cost");
    assert_eq!(last["usage"]["cost_usd"], 0.5);
    let limits: Vec<f64> = events
        .iter()
        .filter(|event| event["event"] == "run_started")
        .map(|event| event["max_cost_usd"].as_f64().unwrap())
        .collect();
    assert_eq!(limits, [0.5, 0.25], "each run gets what is left");
    assert_eq!(worked(&env), ["a", "b"]);
}

#[test]
fn limits_lets_the_item_that_is_worked_on_go_on() {
    let env = environment("json", "feature-list.json", "[limits]\nmax_iterations = 2\n");
    env.write("feature-list.json", feature_list(&[feature("a", 2, &[]), feature("b", 1, &[])]));
    env.agent.call(1).out("not yet\n");
    env.agent.call(3).out("not yet\n");
    env.run().expect(1);
    env.ralph(&["run", "--max-iterations", "3"]).expect(1);
    let shown = env.ralph(&["limits"]).expect(0);
    shown.says("of 3 for all items at the last start; the next has 2 (");
    for command in [&["run"][..], &["doctor"]] {
        env.ralph(command).expect(1).says("limits.max_iterations is used up by");
    }
    env.ralph(&["limits", "--max-iterations", "3"]).expect(0);
    env.ralph(&["doctor"]).expect(0);
    env.run().expect(0);
    assert_eq!(worked(&env), ["a", "a", "b", "b"]);
}

#[test]
fn restart_counts_from_zero() {
    let env = features(&[feature("a", 3, &[]), feature("b", 2, &[])]);
    env.ralph(&["run", "--max-iterations", "1"]).expect(1);
    env.ralph(&["run", "--restart", "--max-iterations", "1"]).expect(0).says("2/2");
}

#[test]
fn interrupted_it_is_resumed_with_the_item_that_was_being_worked_on() {
    let env = features(&[feature("a", 3, &[]), feature("b", 2, &[])]);
    let fifo = env.fifo("hang");
    env.agent.call(2).script(&format!("{WORK}trap 'exit 1' INT; cat '{}'\n", fifo.display()));
    let mut running = env.start(&["run"]);
    crate::environment::eventually("the second item", || env.agent.calls() == 2);
    running.says("Iteration 1");
    running.signal(Signal::INT);
    let ended = running.wait().expect(130);
    ended.says("interrupted");
    assert_eq!(statuses(&env)[0].1, "completed");
    assert_eq!(statuses(&env)[1].1, "in_progress");
    env.run().expect(0).says("resuming item b");
    assert_eq!(series_of(&env, "item_started").len(), 2, "the same run went on");
    assert_eq!(series_of(&env, "status_written").len(), 2);
}

#[test]
fn once_is_one_iteration() {
    let env = features(&[feature("a", 3, &[]), feature("b", 2, &[])]);
    env.agent.call(1).out("not yet\n");
    env.ralph(&["run", "--once"]).expect(0);
    assert_eq!(env.agent.calls(), 1);
    env.ralph(&["run", "--once"]).expect(0);
    assert_eq!((env.agent.calls(), statuses(&env)[0].1.as_str()), (2, "completed"));
    env.run().expect(0);
}

#[test]
fn a_second_orchestrator_is_refused_also_between_items() {
    let env = features(&[feature("a", 3, &[])]);
    let (from, to) = (env.fifo("from"), env.fifo("to"));
    env.agent.call(1).script(&format!(
        "{WORK}echo > '{}'; cat '{}'\n",
        from.display(),
        to.display()
    ));
    let mut running = env.start(&["run"]);
    std::fs::read(&from).unwrap();
    env.run().expect(75).says("pid");
    std::fs::write(&to, "go on\n").unwrap();
    running.wait().expect(0);
}
