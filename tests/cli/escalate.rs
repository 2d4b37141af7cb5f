//! `[agent] escalate`: cheap first, stronger once the checks reject, and down again for the next item.

use serde_json::{Value, json};

use crate::backlog::{self, feature};
use crate::completion::claude_result;
use crate::environment::TestEnvironment;

const DONE: &str = "<promise>COMPLETE: made it</promise>";

/// Three agents that call the same fake agent, with their names; `more` belongs to `[agent]`.
fn agents(more: &str) -> String {
    let named = ["haiku", "sonnet", "opus"].map(|name| {
        format!(
            "[agents.{name}]\nadapter = \"command\"\n[agents.{name}.config]\n\
             program = [\"@AGENT@\", \"{name}\"]\noutput = \"claude-json\"\n"
        )
    });
    format!("[agent]\nescalate = [\"haiku\", \"sonnet\", \"opus\"]\n{more}{}", named.concat())
}

fn environment(more: &str) -> TestEnvironment {
    let env = TestEnvironment::new();
    env.raw_config(&format!(
        "[run]\ndelay = \"0s\"\n{}[[validator]]\nkind = \"command\"\nname = \"tests\"\n\
         program = [\"sh\", \"-c\", \"test -e done || {{ cat seen; exit 1; }}\"]\n",
        agents(more)
    ));
    env.write("seen", "nothing\n");
    env.agent.default_call().script("echo \"$1\" >> seen\n").out(claude_result(DONE, 0.25));
    env
}

fn who(env: &TestEnvironment) -> Vec<String> {
    (1..=env.agent.calls()).map(|n| env.agent.argv(n)[0].clone()).collect()
}

fn changes(env: &TestEnvironment) -> Vec<Value> {
    let row = |record: &Value| json!([record["from"], record["to"], record["reason"]]);
    env.records("agent_changed").iter().map(row).collect()
}

#[test]
fn rejections_bring_the_next_agent_with_their_reasons_and_what_each_cost_is_shown() {
    let env = environment("");
    env.agent.call(5).script("touch done\n").out(claude_result(DONE, 2.0));
    env.run().expect(0).says("sonnet takes over from haiku: rejections: 2");
    assert_eq!(who(&env), ["haiku", "haiku", "sonnet", "sonnet", "opus"]);
    let expected =
        [json!(["haiku", "sonnet", "rejections: 2"]), json!(["sonnet", "opus", "rejections: 2"])];
    assert_eq!(changes(&env), expected);
    // A fresh session with the reasons, in the next iteration.
    let given = String::from_utf8(env.agent.stdin(3)).unwrap();
    assert!(given.contains("exit") && given.contains("nothing"), "{given}");
    let started = env.records("iteration_started");
    let attempts: Vec<_> = started.iter().map(|record| record["attempt"].clone()).collect();
    assert_eq!(attempts, [1, 1, 1, 1, 1]);
    let status = env.status();
    let of_agents = status["agents"].as_array().unwrap();
    let used = |name: &str| {
        let of_name = of_agents.iter().find(|used| used["name"] == name).unwrap();
        of_name["cost_usd"].as_f64().unwrap()
    };
    assert_eq!((used("haiku"), used("sonnet"), used("opus")), (0.5, 0.5, 2.0));
    for command in ["status", "why"] {
        let ended = env.ralph(&[command]).expect(0);
        ended.says("haiku $0.50 (2)").says("opus $2.00 (1)");
    }
}

#[test]
fn what_another_start_would_have_cost_is_said_by_what_was_used() {
    let env = environment("");
    env.ralph(&["why", "--what-if"]).expect(0).says("nothing is known");
    // The first needs the stronger one, the second does not.
    env.agent.call(3).script("touch done\n").out(claude_result(DONE, 2.0));
    env.run().expect(0);
    std::fs::remove_file(env.path("done")).unwrap();
    env.agent.call(4).script("touch done\n").out(claude_result(DONE, 0.25));
    env.ralph(&["run", "--restart"]).expect(0);
    let said = env.ralph(&["why", "--what-if"]).expect(0);
    said.says("haiku: began 2 runs, proved 1 by itself and 1 with a stronger agent, $2.75");
    said.says("sonnet: took over in 1 run, proved 1, which would have cost $2.00 instead of");
    said.says("sonnet: not known of 1 run without it, which cost $0.25");
    said.says("opus: not known of 2 runs");
    let object = env.ralph(&["why", "--what-if", "--json"]).expect(0).stdout;
    let object: Value = serde_json::from_str(&object).unwrap();
    assert_eq!(object["starts"][1]["took_over"], json!({"runs": 1, "proved": 1, "cost_usd": 2.0}));
    env.ralph(&["why", "--what-if", "--run", "0"]).expect(64);
}

#[test]
fn failures_and_a_lack_of_progress_bring_it_too() {
    let env = environment("escalate_after = { failures = 1, stagnant = 1 }\n");
    env.agent.call(1).rc(1);
    // It neither changes nor claims anything.
    env.agent.call(2).script("true\n").out(claude_result("Nothing.", 0.25));
    env.agent.call(3).script("touch done\n").out(claude_result(DONE, 0.25));
    env.run().expect(0);
    assert_eq!(who(&env), ["haiku", "sonnet", "opus"]);
    let reasons: Vec<_> = changes(&env).iter().map(|change| change[2].clone()).collect();
    assert_eq!(reasons, ["failed iterations in a row: 1", "iterations without progress: 1"]);
}

#[test]
fn a_run_that_goes_on_does_so_with_the_agent_that_worked_and_a_new_one_with_the_cheapest() {
    for (start, first) in [("cheapest", "haiku"), ("last", "sonnet")] {
        let env = environment(&format!("start = \"{start}\"\n"));
        env.ralph(&["run", "--max-iterations", "3"]).expect(1);
        assert_eq!(who(&env), ["haiku", "haiku", "sonnet"]);
        env.ralph(&["run", "--max-iterations", "4"]).expect(1);
        assert_eq!(who(&env)[3], "sonnet");
        assert_eq!(env.records("run_resumed")[0]["agent"], "sonnet");
        env.ralph(&["run", "--restart", "--max-iterations", "1"]).expect(1);
        assert_eq!(who(&env)[4], first, "{start}");
        env.ralph(&["run", "--dry-run"]).expect(0).says(&format!("would run {first} in"));
    }
}

#[test]
fn killed_after_any_record_the_same_agents_work() {
    let whole = environment("");
    let done = |env: &TestEnvironment| {
        env.agent
            .default_call()
            .script("echo \"$1\" >> seen; [ \"$1\" != sonnet ] || touch done\n");
    };
    done(&whole);
    whole.run().expect(0);
    assert_eq!(who(&whole), ["haiku", "haiku", "sonnet"]);
    for kill_at in (1..=whole.journal().len()).step_by(2) {
        let env = environment("");
        done(&env);
        env.run_and_kill_after_record(kill_at);
        env.run().expect(0);
        let who = who(&env);
        let first_strong = who.iter().position(|name| name == "sonnet").unwrap();
        assert!(who[..first_strong].iter().all(|name| name == "haiku"), "{who:?}");
        assert!(who[first_strong..].iter().all(|name| name == "sonnet"), "{who:?}");
        assert!(first_strong >= 2, "killed after record {kill_at}: {who:?}");
    }
}

#[test]
fn the_next_item_of_a_backlog_begins_with_the_cheapest_again() {
    let env = backlog::features(&[feature("a", 2, &[]), feature("b", 1, &[])]);
    let config = env.read("ralph.toml");
    let (before, rest) = config.split_once("[agent]").unwrap();
    let checks = rest.split_once("[[validator]]").unwrap().1;
    let program = env.agent.program().display().to_string();
    let checks = checks.replace("ls made-*", "test -e made-$RALPH_ITEM");
    let agents = agents("").replace("@AGENT@", &program);
    env.write("ralph.toml", format!("{before}{agents}[[validator]]{checks}"));
    // Of the first item, the weakest agent makes nothing.
    let work = format!(
        "[ \"$1 $RALPH_ITEM\" != \"haiku a\" ] || {{ echo x >> tries; exit 0; }}\n{}",
        backlog::WORK
    );
    env.agent.default_call().script(&work).out(claude_result(DONE, 0.25));
    env.run().expect(0);
    assert_eq!(who(&env), ["haiku", "haiku", "sonnet", "haiku"]);
    let why = env.ralph(&["why"]).expect(0);
    why.says("all items, by agent: haiku $1.25 (3), sonnet $0.25 (1)");
}

#[test]
fn an_agent_that_is_not_there_is_found_out_before_the_first_one_works() {
    let env = environment("");
    let config = env.read("ralph.toml");
    let (before, opus) = config.split_once("[agents.opus]").unwrap();
    let opus = opus.replacen("program = [", "program = [\"/nowhere/opus\", ", 1);
    env.write("ralph.toml", format!("{before}[agents.opus]{opus}"));
    env.run().expect(69).says("opus").says("/nowhere/opus");
    assert_eq!(env.agent.calls(), 0);
}

#[test]
fn what_makes_no_sense_is_refused() {
    for (more, says) in [
        (
            "escalate_after = { rejections = 0 }\n",
            "agent.escalate_after.rejections: must be at least 1",
        ),
        ("start = \"first\"\n", "expected \"cheapest\" or \"last\""),
    ] {
        environment(more).run().expect(78).says(says);
    }
    let env = environment("");
    let config = env.read("ralph.toml").replace("\"opus\"]", "\"opsu\"]");
    env.write("ralph.toml", config);
    env.run().expect(78).says("there is no agent called \"opsu\"").says("did you mean \"opus\"?");
}
