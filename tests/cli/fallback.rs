//! Another agent takes over from one that cannot go on.

use serde_json::{Value, json};

use crate::completion::claude_result;
use crate::environment::TestEnvironment;

const DONE: &str = "<promise>COMPLETE: made it</promise>";

/// `[agent]` with these fallbacks; `spare` and `last` call the same fake agent, with their names.
fn environment(program: &str, fallback: &str) -> TestEnvironment {
    let env = TestEnvironment::new();
    let named = |name: &str| {
        format!(
            "[agents.{name}]\nadapter = \"command\"\n[agents.{name}.config]\n\
             program = [\"@AGENT@\", \"{name}\"]\noutput = \"claude-json\"\n"
        )
    };
    env.raw_config(&format!(
        "[run]\ndelay = \"0s\"\n[agent]\nadapter = \"command\"\nfallback = {fallback}\n\
         [agent.config]\nprogram = [\"{program}\", \"first\"]\noutput = \"claude-json\"\n{}{}\
         [[validator]]\nkind = \"command\"\nprogram = [\"test\", \"-e\", \"done\"]\n",
        named("spare"),
        named("last"),
    ));
    env
}

/// What Claude Code prints when its provider refuses a request.
fn refused(status: u16, error: &str) -> String {
    let message = json!({
        "type": "assistant", "session_id": "s", "error": error,
        "message": {"id": "m", "role": "assistant", "model": "<synthetic>",
            "content": [{"type": "text", "text": "refused"}],
            "usage": {"input_tokens": 0, "output_tokens": 0}},
    });
    let result = json!({
        "type": "result", "subtype": "success", "is_error": true, "session_id": "s",
        "num_turns": 1, "result": "refused", "api_error_status": status, "total_cost_usd": 0.0,
    });
    format!("{message}\n{result}\n")
}

fn who(env: &TestEnvironment) -> Vec<String> {
    (1..=env.agent.calls()).map(|n| env.agent.argv(n)[0].clone()).collect()
}

fn starts(env: &TestEnvironment) -> Vec<(u64, u64)> {
    let number = |record: &Value, key: &str| record[key].as_u64().unwrap();
    let started = env.records("iteration_started");
    started.iter().map(|r| (number(r, "iteration"), number(r, "attempt"))).collect()
}

#[test]
fn one_that_is_not_logged_in_is_replaced_in_the_same_iteration() {
    let env = environment("@AGENT@", "[\"spare\"]");
    env.agent.call(1).out(refused(401, "authentication_failed")).rc(1);
    env.agent.call(2).script("touch done\n").out(claude_result(DONE, 0.25));
    let events = env.ralph(&["run", "--json"]).expect(0).events();
    assert_eq!(who(&env), ["first", "spare"]);
    assert_eq!(starts(&env), [(1, 1), (1, 2)]);
    let of = |name: &str| events.iter().find(|event| event["event"] == name).unwrap();
    let changed = of("agent_changed");
    assert_eq!((&changed["from"], &changed["to"]), (&json!("command"), &json!("spare")));
    assert!(changed["reason"].as_str().unwrap().starts_with("unauthenticated"), "{changed}");
    let last = of("run_finished");
    assert_eq!((&last["agent"], &last["agent_changed"]["to"]), (&json!("spare"), &json!("spare")));
    assert_eq!(last["iterations"], 1);
    let status = env.status();
    assert_eq!((&status["agent"], &status["fallback"]), (&json!("spare"), &json!([])));
    env.ralph(&["status"]).expect(0).says("spare (instead of command: unauthenticated");
    env.ralph(&["log"]).expect(0).says("spare takes over from command");
}

#[test]
fn when_all_are_out_it_ends_as_without_any_and_begins_with_the_first_again() {
    let env = environment("@AGENT@", "[\"spare\", \"last\"]");
    env.agent.default_call().out(refused(401, "authentication_failed")).rc(1);
    env.run().expect(2).says("spare takes over").says("last takes over").says("needs_human");
    assert_eq!(who(&env), ["first", "spare", "last"]);
    assert_eq!(starts(&env), [(1, 1), (1, 2), (1, 3)]);
    env.agent.call(4).script("touch done\n").out(claude_result(DONE, 0.25)).rc(0);
    env.run().expect(0);
    assert_eq!(who(&env)[3], "first");
    assert_eq!(env.status()["agent"], "command");
}

#[test]
fn one_that_is_not_there_is_passed_over_before_anything_runs() {
    let env = environment("/nowhere/agent", "[\"spare\"]");
    env.agent.call(1).script("touch done\n").out(claude_result(DONE, 0.25));
    env.ralph(&["doctor"]).expect(69).says("FAIL  agent").says("ok    fallback");
    env.run().expect(0).says("spare takes over from command: unavailable").says("by spare");
    assert_eq!((who(&env), starts(&env)), (vec!["spare".to_owned()], vec![(1, 1)]));
}

#[test]
fn when_none_is_there_nothing_is_started() {
    let env = environment("/nowhere/agent", "[]");
    env.run().expect(69).says("/nowhere/agent");
    assert!(env.status()["run"].is_null());
}

#[test]
fn a_fallback_has_to_keep_the_limits_too() {
    let env = TestEnvironment::new();
    env.config(
        "\n[agents.spare]\nadapter = \"command\"\n[agents.spare.config]\nprogram = [\"true\"]\n\
         [limits]\nmax_cost_usd = 1.0\n",
    );
    env.ralph(&["run", "--set", "agent.fallback=[\"spare\"]"]).expect(78).says("reports no cost");
    assert_eq!(env.agent.calls(), 0);
}

#[test]
fn names_that_are_wrong_or_lead_back_are_refused() {
    let refused = |more: &str, says: &str| {
        let env = environment("@AGENT@", "[\"spare\"]");
        let text = env.read("ralph.toml");
        env.write(
            "ralph.toml",
            text.replace("[agents.last]\n", &format!("[agents.last]\n{more}\n")),
        );
        env.ralph(&["config", "check"]).expect(78).says("ralph.toml").says(says);
    };
    refused("fallback = [\"spar\"]", "did you mean \"spare\"");
    refused("fallback = [\"spare\", \"spare\"]", "named twice");
    refused("fallback = [\"last\"]", "last -> last");
    let env = environment("@AGENT@", "[\"spare\"]");
    let text = env.read("ralph.toml");
    let text = text.replace("[agents.last]\n", "[agents.last]\nfallback = [\"spare\"]\n");
    let text = text.replace("[agents.spare]\n", "[agents.spare]\nfallback = [\"last\"]\n");
    env.write("ralph.toml", text);
    env.ralph(&["config", "check"]).expect(78).says("last -> spare -> last");
}
