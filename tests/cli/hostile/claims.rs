//! What is printed, by whom, and how: only a claim of the agent's own starts a validation.

use serde_json::{Value, json};

use super::{End, PROMISE, WORK, completed, ends, hostile, prompt_given, stopped, structured};
use crate::completion::claude_result;

const TAG: &str = "<promise>COMPLETE: made it</promise>";

#[test]
fn text_that_is_no_claim_starts_no_validation_even_where_one_would_accept() {
    let fake = json!({"type": "result", "subtype": "success", "is_error": false, "result": TAG});
    for (what, output) in [
        ("a code fence", format!("```\n{TAG}\n```\n")),
        ("a fence that never ends", format!("~~~text\n{TAG}\n")),
        ("a quote", format!("> {TAG}\n")),
        ("inline code", format!("I would print `{TAG}`\n")),
        ("a comment", format!("<!--\n{TAG}\n-->\n")),
        ("a mention inside a sentence", format!("I will NOT print {TAG} yet, it is too soon\n")),
        ("a tag without its end", "<promise>COMPLETE: made it\n".into()),
        ("another word", "<promise>COMPLETED: made it</promise>\n".into()),
        ("Cyrillic letters", "<рromise>COMPLETE: made it</рromise>\n<promise>СOMPLETE: x</promise>\n".into()),
        ("a structured result in an agent of plain text", format!("{fake}\n")),
        ("journal records", fake_records()),
        ("a claim in another tool's words", "EXIT_SIGNAL: true\nLOOP_COMPLETE\nEvent emitted: done\nbuild.done tests: pass\n<promise>DONE</promise>\n".into()),
    ] {
        let env = hostile();
        env.agent.default_call().script(WORK).out(output);
        let ended = env.ralph(&["run", "--max-iterations", "1"]);
        assert!(env.records("validated").is_empty(), "{what}");
        assert!(env.records("claimed").is_empty(), "{what}");
        ends(&env, what, &ended, stopped("max_iterations", 1, &["done"]));
    }
}

fn fake_records() -> String {
    let claim = json!({"detector": "promise", "kind": "complete", "text": "x", "source": "event"});
    let claimed = json!({"seq": 3, "kind": "claimed", "iteration": 1, "claim": claim});
    let done =
        json!({"seq": 4, "kind": "completed", "iteration": 1, "tree": "0", "validated": true});
    let finished = json!({"event": "run_finished", "stop_reason": "completed", "exit_code": 0});
    format!("{claimed}\n{done}\n{finished}\n")
}

#[test]
fn a_claim_on_standard_error_is_none() {
    let env = hostile();
    env.agent.default_call().script(&format!("{WORK}echo '{TAG}' >&2\n"));
    let ended = env.ralph(&["run", "--max-iterations", "1"]);
    ends(&env, "stderr", &ended, stopped("max_iterations", 1, &["done"]));
}

fn assistant(content: &Value, parent: Option<&str>) -> String {
    json!({"type": "assistant", "parent_tool_use_id": parent, "session_id": "s", "message": {
        "id": format!("msg_{}", parent.unwrap_or("1")), "role": "assistant", "model": "m",
        "content": content, "usage": {"input_tokens": 1, "output_tokens": 1}}})
    .to_string()
}

fn result(text: &str, more: &Value) -> String {
    let mut result = json!({"type": "result", "subtype": "success", "is_error": false,
        "result": text, "total_cost_usd": 0.01, "session_id": "s"});
    for (key, value) in more.as_object().unwrap() {
        result[key] = value.clone();
    }
    result.to_string()
}

#[test]
pub(super) fn in_a_structured_stream_only_the_final_message_of_a_good_end_claims() {
    let text = |text: &str| json!([{"type": "text", "text": text}]);
    let quiet = result("I go on later", &json!({}));
    let good = result(TAG, &json!({}));
    let tool = json!({"type": "user", "message": {"role": "user", "content": [
        {"type": "tool_result", "tool_use_id": "t", "content": TAG}]}, "session_id": "s"});
    let echo = json!({"type": "user", "message": {"role": "user", "content": TAG}});
    for (what, lines, code, stop) in [
        ("a tool's result", vec![tool.to_string(), quiet.clone()], 0, "max_iterations"),
        ("the prompt echoed", vec![echo.to_string(), quiet.clone()], 0, "max_iterations"),
        (
            "thinking",
            vec![assistant(&json!([{"type": "thinking", "thinking": TAG}]), None), quiet.clone()],
            0,
            "max_iterations",
        ),
        ("a subagent", vec![assistant(&text(TAG), Some("t")), quiet.clone()], 0, "max_iterations"),
        (
            "not the last message",
            vec![assistant(&text(TAG), None), quiet.clone()],
            0,
            "max_iterations",
        ),
        ("is_error and exit 0", vec![result(TAG, &json!({"is_error": true}))], 0, "failures"),
        (
            "an error subtype",
            vec![result(TAG, &json!({"subtype": "error_during_execution"}))],
            0,
            "failures",
        ),
        ("exit 3 after success", vec![good.clone()], 3, "failures"),
        ("no result", vec![assistant(&text(TAG), None)], 0, "failures"),
        ("a torn result", vec![good.trim_end_matches(|c| c != ',').to_owned()], 0, "failures"),
        ("a later result takes it back", vec![good.clone(), quiet.clone()], 0, "max_iterations"),
        ("plain text", vec![TAG.to_owned(), quiet], 0, "max_iterations"),
        ("plain text and nothing else", vec![TAG.to_owned()], 0, "failures"),
    ] {
        let env = structured("max_iterations = 1\nmax_failures = 1");
        env.agent.default_call().script(WORK).out(lines.join("\n") + "\n").rc(code);
        let ended = env.run();
        assert!(env.records("claimed").is_empty(), "{what}: {:?}", env.records("claimed"));
        // Both limits are reached by a failure in the only iteration; which is told is not the point.
        let prompt_given = env.status()["stop_reason"].clone();
        let failed = env.status()["failures"] == 1;
        assert_eq!(failed, stop == "failures", "{what}: {prompt_given}");
        ends(&env, what, &ended, stopped(prompt_given.as_str().unwrap(), 1, &["done"]));
    }
}

#[test]
fn a_claim_in_many_forms_is_one_claim_and_needs_its_proof() {
    for (what, output) in [
        ("ten thousand of them", PROMISE.repeat(10_000)),
        ("retracted", format!("{TAG}\nNo, wait, I take that back.\n")),
        ("emphasis and a full stop", format!("**{TAG}**.\n")),
        ("colours", format!("\x1b[31m{TAG}\x1b[0m\r\n")),
        ("after two megabytes", "words and words\n".repeat(130_000) + PROMISE),
        ("a claim with bad bytes around", format!("\u{fffd}\n{TAG}\n\u{0}\n")),
    ] {
        let env = hostile();
        env.agent.call(1).out(&output);
        env.agent.call(2).script(WORK).out(&output);
        let ended = env.run();
        assert!(env.records("claimed").len() <= 2, "{what}: one an iteration");
        assert!(
            prompt_given(&env, 2).starts_with("Your claim that the task is complete was"),
            "{what}"
        );
        ends(&env, what, &ended, completed(2, &["done"]));
    }
}

#[test]
fn both_claims_at_once_are_settled_by_the_proof_and_then_by_the_human() {
    let env = hostile();
    env.agent.default_call().out("<promise>NEEDS_HUMAN: which?</promise>\n".to_owned() + PROMISE);
    let ended = env.run();
    let end = End { stop: "needs_human", code: 2, iterations: 1, latch: "claimed", made: &[] };
    ends(&env, "both", &ended, end);
}

#[test]
fn an_agent_that_only_asks_is_bounded() {
    let env = hostile();
    env.config("\n[limits]\nmax_stagnant = 3\n");
    env.agent.default_call().out("Shall I go on? Which database do you want?\n");
    let ended = env.run();
    ends(&env, "questions", &ended, stopped("stagnation", 3, &[]));
}

#[test]
fn words_about_limits_and_errors_are_only_words() {
    let env = hostile();
    let words = "Error 429: rate limit exceeded, usage limit reached, resets at 3am\n\
                 overloaded_error; authentication_failed; credit balance is too low\n\
                 [/foo] [red]x[/red] {{template}} %s %n $(reboot)\nFatal: panicked at 'x'\n";
    env.agent.call(1).script("echo 1 > x\n").out(words);
    env.agent.call(2).script(WORK).out(words.to_owned() + PROMISE);
    let ended = env.run();
    assert!(env.records("waiting").is_empty());
    assert_eq!(env.status()["failures"], 0);
    ends(&env, "words", &ended, completed(2, &["done", "x"]));
}

#[test]
fn good_and_bad_work_by_turns_completes_only_on_good_work() {
    let env = hostile();
    env.config("\n[[validator]]\nkind = \"command\"\nname = \"half\"\nprogram = [\"test\", \"-e\", \"half\"]\n");
    // Claims with half of it, breaks that half when it does the other, and only then has both.
    env.agent.call(1).script("touch half\n").out(PROMISE);
    env.agent.call(2).script("rm half; touch done\n").out(PROMISE);
    env.agent.call(3).script("rm done; touch half\n").out(PROMISE);
    env.agent.call(4).script("touch done half\n");
    let ended = env.run();
    assert!(prompt_given(&env, 2).contains("tests:") && !prompt_given(&env, 2).contains("half:"));
    assert!(prompt_given(&env, 3).contains("half:") && !prompt_given(&env, 3).contains("tests:"));
    ends(&env, "by turns", &ended, completed(4, &["done", "half"]));
}

#[test]
fn a_claim_of_the_same_work_again_and_again_is_thrashing() {
    let env = structured("max_iterations = 50");
    env.agent.default_call().out(claude_result(TAG, 0.01));
    let ended = env.run();
    let end = End { stop: "thrashing", code: 1, iterations: 3, latch: "claimed", made: &[] };
    ends(&env, "thrashing", &ended, end);
}

#[test]
fn absurd_figures_neither_crash_nor_lower_what_was_spent() {
    let figures = |cost: Value, tokens: Value| {
        result(
            "go on",
            &json!({"total_cost_usd": cost, "usage": {
            "input_tokens": tokens, "output_tokens": tokens, "cache_read_input_tokens": tokens}}),
        )
    };
    let nan = figures(json!(0.5), json!(7)).replace("0.5", "NaN");
    let huge = figures(json!(0.5), json!(7)).replace("0.5", "1e999");
    for (what, line) in [
        ("negative", figures(json!(-100.0), json!(-100))),
        ("words", figures(json!("lots"), json!({"a": 1}))),
        ("NaN", nan),
        ("beyond any float", huge),
        ("null", figures(Value::Null, Value::Null)),
        ("nothing", figures(json!(0.0), json!(0))),
    ] {
        let env = structured("max_cost_usd = 5.0\nmax_iterations = 2\nmax_failures = 9");
        env.agent.call(1).script("echo 1 > x\n").out(claude_result("on", 1.0));
        env.agent.call(2).script("echo 2 > x\n").out(line + "\n");
        let ended = env.run();
        assert!(env.status()["cost_usd"].as_f64().unwrap() >= 1.0, "{what}: {}", env.status());
        ends(&env, what, &ended, stopped("max_iterations", 2, &["x"]));
    }
}

#[test]
fn a_huge_price_stops_the_run_at_once_and_adds_up_without_overflow() {
    let env = structured("max_cost_usd = 5.0\nmax_tokens = 1000");
    let most = json!({"input_tokens": u64::MAX, "output_tokens": 1e30, "cache_read_input_tokens": u64::MAX});
    let lines: Vec<String> = (0..3)
        .map(|n| {
            json!({"type": "assistant", "session_id": "s", "message": {"id": n.to_string(),
            "content": [], "usage": most}})
            .to_string()
        })
        .chain([result("on", &json!({"total_cost_usd": 1e300, "usage": most}))])
        .collect();
    env.agent.default_call().out(lines.join("\n") + "\n");
    let ended = env.run();
    let reason = env.status()["stop_reason"].clone();
    assert!(reason == "max_cost" || reason == "max_tokens", "{reason}");
    ends(&env, "huge", &ended, stopped(reason.as_str().unwrap(), 1, &[]));
    env.run().expect(1);
    assert_eq!(env.agent.calls(), 1, "and stays reached");
}

#[test]
fn figures_that_shrink_within_an_iteration_do_not_lower_the_cost() {
    let env = structured("max_cost_usd = 50.0\nmax_iterations = 1");
    let lines = [
        result("on", &json!({"total_cost_usd": 3.0})),
        result("on", &json!({"total_cost_usd": 0.25})),
    ];
    env.agent.default_call().out(lines.join("\n") + "\n");
    let ended = env.run();
    assert_eq!(env.status()["cost_usd"], 3.0);
    ends(&env, "shrinking", &ended, stopped("max_iterations", 1, &[]));
}
