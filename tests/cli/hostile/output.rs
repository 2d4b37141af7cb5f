//! What agents print: much, for ever, and things that are no text.

use super::{
    MOST_KIB, PROMISE, WORK, completed, ends, hostile, stopped, structured, wait_measured,
};
use crate::completion::claude_result;

/// Runs once and checks how much memory the orchestrator took.
fn small(env: &crate::environment::TestEnvironment, what: &str, end: super::End<'_>) -> String {
    let mut running = env.start(&["run", "--max-iterations", "1"]);
    let (ended, kib) = wait_measured(&mut running);
    assert!(kib > 0 && kib < MOST_KIB, "{what}: {kib} KiB");
    ends(env, what, &ended, end);
    ended.stdout + &ended.stderr
}

#[test]
fn two_hundred_megabytes_of_text_cost_no_memory_and_the_claim_is_recorded() {
    let env = hostile();
    env.agent
        .call(1)
        .script(&format!("yes 'words and words and words' | head -c 200M\n{WORK}"))
        .out(format!("\n{PROMISE}"));
    small(&env, "200 MB", completed(1, &["done"]));
}

#[test]
fn a_line_of_fifty_megabytes_costs_no_memory_and_hides_no_claim_after_it() {
    let line = "head -c 50M /dev/zero | tr '\\0' 'y'; echo\n";
    let env = hostile();
    env.agent.call(1).script(&format!("{line}{WORK}")).out(PROMISE);
    small(&env, "text", completed(1, &["done"]));

    let env = structured("max_failures = 3");
    env.agent.call(1).script(&format!("{line}{WORK}")).out(claude_result(PROMISE.trim(), 0.1));
    small(&env, "structured", completed(1, &["done"]));

    // A claim within such a line is in no message.
    let env = structured("max_failures = 3");
    env.agent.call(1).script(&format!(
        "printf '{{\"type\":\"result\",\"is_error\":false,\"result\":\"{} '; head -c 50M /dev/zero | tr '\\0' 'y'; echo '\"}}'\n{WORK}",
        PROMISE.trim()
    ));
    small(&env, "hidden", stopped("max_iterations", 1, &["done"]));
}

#[test]
fn fifty_megabytes_of_standard_error_cost_no_memory() {
    let env = hostile();
    env.agent
        .call(1)
        .script(&format!(
            "head -c 50M /dev/zero | tr '\\0' 'e' >&2; yes 'error and error and error' | head -c 20M >&2\n{WORK}"
        ))
        .out(PROMISE);
    small(&env, "stderr", completed(1, &["done"]));
}

#[test]
pub(super) fn a_hundred_thousand_messages_cost_no_memory() {
    let env = structured("max_iterations = 1");
    env.agent
        .call(1)
        .script(&format!(
            "awk 'BEGIN {{ for (i = 0; i < 50000; i++) {{
               printf \"{{\\\"type\\\":\\\"assistant\\\",\\\"session_id\\\":\\\"s\\\",\\\"message\\\":{{\\\"id\\\":\\\"m%d\\\",\\\"content\\\":[{{\\\"type\\\":\\\"text\\\",\\\"text\\\":\\\"on\\\"}}]}}}}\\n\", i
               printf \"{{\\\"type\\\":\\\"new%d\\\"}}\\n\", i }} }}'\n{WORK}"
        ))
        .out(claude_result(PROMISE.trim(), 0.1));
    small(&env, "messages", completed(1, &["done"]));
}

#[test]
pub(super) fn bytes_that_are_no_text_reach_no_terminal_and_break_nothing() {
    let env = hostile();
    env.agent
        .call(1)
        .script(&format!(
            "printf '\\033]0;owned\\007\\033[2J\\033[1;1Hgone\\033]8;;http://x\\033\\\\link\\n'
             printf '\\033P+q544e\\033\\\\\\233\\237\\0\\001\\r\\010\\010over\\n'
             printf '\\342\\202'; sleep 0.05; printf '\\254 euro \\360\\237'; sleep 0.05; printf '\\377\\376\\n'
             head -c 100000 /dev/urandom; echo\n{WORK}"
        ))
        .out(PROMISE);
    let printed = small(&env, "bytes", completed(1, &["done"]));
    let transcript = env.journal_path().with_file_name("iterations/0001/transcript.jsonl");
    let transcript = std::fs::read_to_string(transcript).unwrap();
    let bad: Vec<char> =
        printed.chars().filter(|c| c.is_control() && !"\n\t".contains(*c)).collect();
    assert!(bad.is_empty(), "{bad:?}");
    assert!(transcript.contains("€ euro"), "a character in two pieces is one");
}

#[test]
fn output_as_json_stays_json_whatever_is_printed() {
    let env = hostile();
    env.agent
        .call(1)
        .script(&format!(
            "printf '\\033[31m\\0\\377\"}}\\n{{\"event\":\"run_finished\",\"stop_reason\":\"completed\",\"exit_code\":0}}\\n\\342\\200\\250\\n'\n{WORK}"
        ))
        .out(PROMISE);
    let ended = env.ralph(&["run", "--json"]);
    let events = ended.events();
    let finished: Vec<_> = events.iter().filter(|e| e["event"] == "run_finished").collect();
    assert_eq!(finished.len(), 1, "the agent's own is only its text");
    assert!(finished[0]["run"].is_string());
    ends(&env, "json", &ended, completed(1, &["done"]));
}

#[test]
fn messages_that_are_nearly_right_break_nothing() {
    let deep = "[".repeat(200_000);
    let lines = [
        "{",
        "}",
        "null",
        "7",
        "\"x\"",
        "[]",
        "[[]]",
        "{\"type\":7}",
        "{\"type\":\"assistant\"}",
        "{\"type\":\"assistant\",\"message\":{\"content\":{\"text\":7}}}",
        "{\"type\":\"user\",\"message\":[]}",
        "{\"type\":\"result\",\"result\":{\"a\":1}}",
        "{\"type\":\"system\",\"subtype\":\"init\",\"session_id\":[]}",
        deep.as_str(),
        "{\"type\":\"rate_limit_event\",\"rate_limit_info\":{\"status\":\"rejected\",\"resetsAt\":-1}}",
        "\u{0}\u{0}",
        "{\"type\":\"result\",\"is_error\":\"no\",\"result\":7,\"total_cost_usd\":\"1\"}",
    ];
    let env = structured("max_iterations = 1");
    env.agent
        .call(1)
        .script(WORK)
        .out(lines.join("\n") + "\n" + &claude_result(PROMISE.trim(), 0.1));
    small(&env, "nearly", completed(1, &["done"]));
}

#[test]
fn an_agent_that_prints_nothing_at_all_and_one_that_never_stops_are_bounded() {
    let env = hostile();
    env.config("\n[limits]\nmax_stagnant = 2\n");
    ends(&env, "silent", &env.run(), stopped("stagnation", 2, &[]));
    let env = hostile();
    env.config("\n[limits]\nmax_failures = 1\niteration_timeout = \"1s\"\n");
    env.agent.call(1).script("exec yes \"$(head -c 5000 /dev/zero | tr '\\0' 'z')\"\n");
    small(&env, "endless", stopped("max_iterations", 1, &[]));
}
