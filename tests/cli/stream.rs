//! An agent whose JSON lines are read by the rules of `[agent.config.stream]`, and `agents try`.

use serde_json::{Value, json};

use crate::environment::TestEnvironment;

/// The lines of a program that nobody has heard of.
const RULES: &str = r#"
[[agent.config.stream.rule]]
session = "$.ctx.session"
model = "$.ctx.model"

[[agent.config.stream.rule]]
when = { ev = "delta" }
text = "$.payload.text"

[[agent.config.stream.rule]]
each = "$.payload.calls[*]"
when = { ev = "act", "@.kind" = "tool" }
tool_call = { id = "@.ref", name = "@.tool", input = "@.with" }

[[agent.config.stream.rule]]
when = { ev = "acted" }
tool_result = { id = "$.ref", text = "$.out", is_error = "$.failed" }

[[agent.config.stream.rule]]
has = ["$.bill"]
[agent.config.stream.rule.usage]
counts = "per_message"
input = "$.bill.tokens.prompt"
output = "$.bill.tokens.reply"
cache_read = "$.bill.tokens.cached"
input_includes_cache = true
cost = "$.bill.micros"
cost_unit = "micro_usd"

[[agent.config.stream.rule]]
when = { ev = "bye" }
end = true

[[agent.config.stream.rule]]
when = { ev = "logged_out" }
failure = { class = "unauthenticated", message = "$.why" }

[[agent.config.stream.rule]]
when = { ev = "ask" }
question = "$.payload.text"
"#;

/// An agent that is read by the rules, with this check and these limits.
fn configured(limits: &str) -> TestEnvironment {
    let env = TestEnvironment::new();
    env.raw_config(&format!(
        "[run]\ndelay = \"0s\"\n[agent]\nadapter = \"command\"\n[agent.config]\nprogram = [\"@AGENT@\"]\n{RULES}\n\
         [[validator]]\nkind = \"command\"\nprogram = [\"test\", \"-e\", \"done\"]\n[limits]\n{limits}\n"
    ));
    env
}

fn lines(lines: &[Value]) -> String {
    lines.iter().map(|line| format!("{line}\n")).collect()
}

/// A session that says this at its end.
fn session(last: &str, micros: u64) -> String {
    let (first, second) = last.split_at(last.len() / 2);
    let bill = json!({"tokens": {"prompt": 100, "reply": 7, "cached": 60}, "micros": micros});
    let calls = json!([{"kind": "thought"}, {"kind": "tool", "ref": "c1", "tool": "shell", "with": {"line": "touch done"}}]);
    let told = lines(&[
        json!({"ev": "hello", "ctx": {"session": "sess-9", "model": "any-1"}}),
        json!({"ev": "delta", "payload": {"text": "I will try. "}}),
        json!({"ev": "act", "payload": {"calls": calls}, "bill": bill}),
        json!({"ev": "acted", "ref": "c1", "out": "fine", "failed": false}),
        json!({"ev": "delta", "payload": {"text": first}}),
        json!({"ev": "delta", "payload": {"text": second}}),
        json!({"ev": "stats", "bill": bill}),
        json!({"ev": "bye"}),
    ]);
    format!("loading the model\n{told}")
}

#[test]
fn a_run_is_completed_and_charged_by_what_the_rules_find() {
    let env = configured("");
    let claim = "<promise>COMPLETE: made it</promise>";
    env.agent.call(1).script("touch done\n").out(session(claim, 250_000));
    env.run().expect(0).says("completed");
    let status = env.status();
    assert_eq!(status["cost_usd"], 0.5);
    assert_eq!(
        status["tokens"],
        json!({"input": 80, "output": 14, "cache_read": 120, "cache_write": 0})
    );
    let events = env.ralph(&["log", "1", "--json"]).expect(0).events();
    for expected in [
        json!({"type": "session", "id": "sess-9", "model": "any-1"}),
        json!({"type": "tool_call", "id": "c1", "name": "shell", "input": {"line": "touch done"}}),
        json!({"type": "tool_result", "id": "c1", "is_error": false, "text": "fine"}),
    ] {
        let keys = expected.as_object().unwrap();
        let is_it = |event: &Value| keys.iter().all(|(key, value)| event[key] == *value);
        assert!(events.iter().any(is_it), "{expected}: {events:?}");
    }
}

#[test]
fn limits_on_cost_hold() {
    let env = configured("max_cost_usd = 0.9");
    env.agent.default_call().script("echo $n > x\n").out(session("working", 250_000));
    env.run().expect(1).says("max_cost: $1.00 of $0.90");
    assert_eq!(env.agent.calls(), 2);
    assert_eq!(env.status()["cost_usd"], 1.0);
    // Without a rule for it no limit can hold.
    let unmetered = env.read("ralph.toml").replace("cost = \"$.bill.micros\"\n", "");
    env.write("ralph.toml", unmetered);
    env.ralph(&["config", "check"]).expect(78).says("reports no cost");
}

#[test]
fn what_the_agent_reports_instead_of_work_ends_the_run() {
    let env = configured("");
    env.agent.default_call().out(lines(&[json!({"ev": "logged_out", "why": "key expired"})])).rc(1);
    env.run().expect(2).says("key expired");
    let env = configured("");
    let ask = json!({"ev": "ask", "payload": {"text": "which colour?"}});
    env.agent.default_call().out(lines(&[ask, json!({"ev": "bye"})]));
    env.run().expect(2).says("which colour?");
    assert_eq!(env.agent.calls(), 1);
}

#[test]
fn a_mistake_in_a_rule_is_named_with_its_place() {
    for (good, bad, place, message) in [
        ("\"$.payload.text\"", "\"$.payload..text\"", ":14:8", "at character 11"),
        ("text = \"$.payload.text\"", "txet = \"$.payload.text\"", ":14:1", "text"),
        ("{ ev = \"delta\" }", "{ ev = [] }", ":13:", "expected a string, a number"),
        ("counts = \"per_message\"\n", "", ":", "counts"),
        ("each = \"$.payload.calls[*]\"\n", "", ":", "begins with `@`"),
        ("program = [", "output = \"codex-json\"\nprogram = [", ":6:10", "`stream`"),
    ] {
        let env = configured("");
        env.write("ralph.toml", env.read("ralph.toml").replacen(good, bad, 1));
        let ended = env.ralph(&["config", "check"]).expect(78);
        ended.says(&format!("ralph.toml{place}")).says(message);
    }
}

#[test]
fn a_recording_is_tried_and_nothing_started() {
    let env = configured("");
    let recording =
        session("all done", 250_000) + &lines(&[json!({"ev": "delta", "payload": {"text": 7}})]);
    env.write("recording.jsonl", recording);
    let tried = env.ralph(&["agents", "try", "recording.jsonl"]).expect(0);
    tried
        .says("not JSON")
        .says("rule 5, usage: tokens")
        .says("cost: $0.25")
        .says("warning: expected a string");
    tried.says("final text").says("all done").says("$0.5").says("rule 7 found nothing in any line");
    let tried = env.ralph(&["agents", "try", "recording.jsonl", "--json"]).expect(0).stdout;
    let tried: Value = serde_json::from_str(&tried).unwrap();
    assert_eq!(tried["report"]["final_text"], "all done");
    assert_eq!(tried["report"]["usage"]["cost"], 0.5);
    assert_eq!(tried["report"]["session"], "sess-9");
    assert_eq!(tried["lines"][4]["found"][0]["key"], "tool_result");
    assert!(env.agent.calls() == 0 && !env.has_state());

    env.ralph(&["agents", "try", "missing.jsonl"]).expect(69).says("missing.jsonl");
    let text = "[agent]\nadapter = \"command\"\nconfig = { program = [\"true\"] }\n\
                [[validator]]\nkind = \"command\"\nprogram = [\"true\"]\n";
    env.write("text.toml", text);
    let tried = env.ralph(&["-c", "text.toml", "agents", "try", "recording.jsonl"]).expect(78);
    tried.says("[[agent.config.stream.rule]]");
}

#[test]
fn a_recorded_program_is_tried_with_how_it_ended_and_without_secrets() {
    let mut env = configured("");
    env.var("MY_TOKEN", "abcdefghijkl1234");
    let line = json!({"ev": "delta", "payload": {"text": "with abcdefghijkl1234"}});
    let script = format!("echo '{line}'; echo 'abcdefghijkl1234 is wrong' >&2; exit 3");
    let recorded = env.ralph(&["agents", "record", "-o", "r.jsonl", "--", "sh", "-c", &script]);
    recorded.expect(0).says("r.jsonl: 1 lines, exit 3");
    let end = env.read("r.jsonl.end.json");
    assert!(env.read("r.jsonl").contains("with ***") && end.contains("*** is wrong"), "{end}");
    let tried = env.ralph(&["agents", "try", "r.jsonl"]).expect(0);
    tried.says("text: \"with ***\"").says("prints this and ends with exit 3");
    tried.says("crashed: ").says("exit 3").says("*** is wrong");
    // Nothing is started but what is named, and a recording in its place is replaced as a whole.
    assert!(env.agent.calls() == 0 && !env.has_state());
    let recorded = env.ralph(&["agents", "record", "-o", "r.jsonl", "--", "no-such-program"]);
    recorded.expect(69).says("no-such-program");
    assert!(env.read("r.jsonl").contains("with ***"));
    env.write("r.jsonl.end.json", "{");
    env.ralph(&["agents", "try", "r.jsonl"]).expect(69).says("cannot read r.jsonl.end.json");
}

#[test]
fn a_flood_is_recorded_up_to_a_bound() {
    let env = configured("");
    let script = "head -c 17000000 /dev/zero | tr '\\0' x";
    let recorded = env.ralph(&["agents", "record", "-o", "r.jsonl", "--", "sh", "-c", script]);
    recorded.expect(0).says("after the first 16 MiB are left out");
    assert_eq!(env.read("r.jsonl").len(), 16 << 20);
}
