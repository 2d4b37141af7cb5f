//! What a stop says to do next, and what a plain `run` does after it.

use std::fs;

use crate::environment::{Ended, TestEnvironment};

const DONE: &str = "<promise>COMPLETE: made it</promise>\n";

/// What `claude -p --output-format stream-json` prints when a request is refused.
fn claude_refused(error: &str, status: &str, text: &str) -> String {
    format!(
        "{{\"type\":\"assistant\",\"parent_tool_use_id\":null,\"error\":\"{error}\",\"message\":{{\"id\":\"x\",\
         \"model\":\"<synthetic>\",\"content\":[{{\"type\":\"text\",\"text\":\"{text}\"}}]}}}}\n\
         {{\"type\":\"result\",\"subtype\":\"success\",\"is_error\":true,\"api_error_status\":{status},\
         \"terminal_reason\":\"completed\",\"result\":\"{text}\",\"total_cost_usd\":0,\"usage\":{{}}}}\n"
    )
}

const CLAUDE_DONE: &str = "{\"type\":\"result\",\"subtype\":\"success\",\"is_error\":false,\
     \"api_error_status\":null,\"terminal_reason\":\"completed\",\"result\":\"<promise>COMPLETE: made it</promise>\",\
     \"total_cost_usd\":0.01,\"usage\":{}}\n";

/// What `codex exec --json` prints then.
fn codex_refused(message: &str) -> String {
    format!(
        "{{\"type\":\"thread.started\",\"thread_id\":\"t\"}}\n{{\"type\":\"turn.started\"}}\n\
         {{\"type\":\"error\",\"message\":\"{message}\"}}\n\
         {{\"type\":\"turn.failed\",\"error\":{{\"message\":\"{message}\"}}}}\n"
    )
}

const CODEX_DONE: &str = "{\"type\":\"thread.started\",\"thread_id\":\"t\"}\n{\"type\":\"turn.started\"}\n\
     {\"type\":\"item.completed\",\"item\":{\"id\":\"1\",\"type\":\"agent_message\",\
     \"text\":\"<promise>COMPLETE: made it</promise>\"}}\n\
     {\"type\":\"turn.completed\",\"usage\":{\"input_tokens\":1,\"cached_input_tokens\":0,\"output_tokens\":1}}\n";

fn printing(output: &str) -> TestEnvironment {
    let env = TestEnvironment::new();
    env.raw_config(&format!(
        "[run]\ndelay = \"0s\"\n[agent]\nadapter = \"command\"\nunmetered = true\n[agent.config]\n\
         program = [\"@AGENT@\"]\noutput = \"{output}\"\n[[validator]]\nkind = \"command\"\n\
         name = \"tests\"\nprogram = [\"test\", \"-e\", \"done\"]\n"
    ));
    env
}

/// Fails if this was printed.
#[track_caller]
fn never_says(ended: &Ended, text: &str) {
    let all = format!("{}{}", ended.stdout, ended.stderr);
    assert!(!all.contains(text), "unexpected {text:?} in\n{all}");
}

#[test]
fn a_limit_of_the_command_line_is_not_said_to_be_that_of_the_file() {
    let env = TestEnvironment::new();
    env.config("\n[limits]\nmax_iterations = 30\n");
    env.agent.default_call().script("echo $n > x\n");
    let ended = env.ralph(&["run", "--max-iterations", "2"]).expect(1);
    let advice = "limits.max_iterations (2) was the limit of this start only: `ralph-orchestrator run` \
                  resumes, up to 30 (";
    ended.says(advice).says("ralph.toml:");
    never_says(&ended, "raises limits.");
    env.ralph(&["why"]).expect(0).says("was the limit of this start only");
    let shown = env.ralph(&["limits"]).expect(0);
    shown.says("max_iterations  2").says("of the last start; the next has 30 (");
    env.ralph(&["run", "--set", "limits.max_stagnant=40"]).expect(1);
    assert_eq!(env.agent.calls(), 30, "it does what was said");
    // That of the file has to be raised there.
    env.ralph(&["why"]).expect(0).says("`ralph-orchestrator limits --max-iterations 60` raises");
    let text = env.read("ralph.toml").replace("max_iterations = 30", "max_iterations = 50");
    env.write("ralph.toml", text);
    env.ralph(&["why"])
        .expect(0)
        .says("limits.max_iterations (30) was the limit at the last start");
}

#[test]
fn a_limit_that_was_set_is_raised_by_limits() {
    let env = TestEnvironment::new();
    env.config("\n[limits]\nmax_iterations = 1\n");
    env.agent.default_call().script("echo $n > x\n");
    env.run().expect(1).says("raises limits.max_iterations (1)");
    env.ralph(&["limits", "--max-iterations", "2"]).expect(0);
    let ended = env.run().expect(1);
    ended.says("limits.max_iterations (2) was set by `limits`").says("limits --max-iterations 4`");
    // The configuration allows none of these two.
    never_says(&ended, "--clear");
    never_says(&ended, "raises limits.");
}

#[test]
fn stops_at_once_when_the_provider_does_not_know_the_model() {
    let gone = "There's an issue with the selected model (claude-none). It may not exist";
    let prose = "unexpected status 404 Not Found: The model `x` does not exist";
    for (output, refused, done) in [
        ("claude-json", claude_refused("model_not_found", "404", gone), CLAUDE_DONE),
        ("codex-json", codex_refused(prose), CODEX_DONE),
    ] {
        let env = printing(output);
        env.agent.call(1).out(&refused).rc(1);
        let ended = env.run().expect(69);
        assert_eq!(env.agent.calls(), 1, "{output}: no retry mends it");
        assert_eq!(env.status()["stop_reason"], "agent_unavailable");
        assert_eq!(env.records("iteration_ended")[0]["outcome"]["class"], "not_found");
        ended.says("model").says("`ralph-orchestrator run` resumes");
        never_says(&ended, "answer");
        // Not mended: once more, and no more than that.
        env.agent.call(2).out(&refused).rc(1);
        env.run().expect(69);
        assert_eq!(env.agent.calls(), 2, "{output}");
        env.agent.call(3).script("touch done\n").out(done);
        env.run().expect(0);
    }
}

#[test]
fn still_retries_a_request_that_was_refused_for_what_is_in_it() {
    let env = printing("claude-json");
    env.agent.call(1).out(claude_refused("invalid_request", "400", "bad")).rc(1);
    env.agent.call(2).script("touch done\n").out(CLAUDE_DONE);
    env.run().expect(0);
}

#[test]
fn tries_again_after_a_login_or_credit_was_missing_and_never_asks_for_an_answer() {
    for (error, status, helps) in
        [("authentication_failed", "401", "log the agent in"), ("billing_error", "400", "credit")]
    {
        let env = printing("claude-json");
        env.agent.call(1).out(claude_refused(error, status, "no")).rc(1);
        let ended = env.run().expect(2);
        ended.says(helps).says("`ralph-orchestrator run` resumes");
        never_says(&ended, "answer");
        let why = env.ralph(&["why"]).expect(0);
        why.says(helps);
        never_says(&why, "answer");
        assert_eq!(env.agent.calls(), 1);
        env.agent.call(2).script("touch done\n").out(CLAUDE_DONE);
        env.run().expect(0);
    }
}

#[test]
fn tries_again_after_stagnation() {
    let env = TestEnvironment::new();
    env.config("\n[limits]\nmax_stagnant = 2\n");
    env.agent.default_call().out("hm\n");
    env.run().expect(1).says("limits.max_stagnant").says("`ralph-orchestrator run` resumes");
    assert_eq!((env.status()["stop_reason"].as_str(), env.agent.calls()), (Some("stagnation"), 2));
    // Not mended: as many again, and no more.
    env.run().expect(1);
    assert_eq!((env.status()["stop_reason"].as_str(), env.agent.calls()), (Some("stagnation"), 4));
    env.write("PROMPT.md", "# Task\n\nMake a file called done. It is easy.\n");
    env.agent.call(5).script("touch done\n").out(DONE);
    env.run().expect(0);
}

#[test]
fn stagnation_is_counted_on_after_a_kill() {
    use crate::environment::parents;
    let env = TestEnvironment::new();
    env.config("\n[limits]\nmax_stagnant = 2\n");
    env.agent.default_call().out("hm\n");
    env.agent.call(2).script(&format!("{}kill -KILL $orchestrator; sleep 1000\n", parents()));
    assert_eq!(env.run().code, None);
    env.run().expect(1);
    assert_eq!((env.status()["stop_reason"].as_str(), env.agent.calls()), (Some("stagnation"), 3));
}

#[test]
fn each_limit_is_named_with_its_key_and_what_helps() {
    let cases: [(&str, &str, &str, &[&str]); 4] = [
        (
            "max_iterations = 1",
            "hm\n",
            "max_iterations",
            &[
                "`ralph-orchestrator limits --max-iterations 2` raises limits.max_iterations (1), then",
            ],
        ),
        ("max_runtime = \"100ms\"\n", "", "max_runtime", &["raises limits.max_runtime (0.1 s)"]),
        (
            "max_rejections = 2",
            DONE,
            "thrashing",
            &[
                "`ralph-orchestrator run --set limits.max_rejections=4` raises limits.max_rejections (2)",
                "`ralph-orchestrator run --restart`",
            ],
        ),
        ("max_failures = 1", "", "failures", &["limits.max_failures", "`ralph-orchestrator log`"]),
    ];
    for (limit, out, reason, hints) in cases {
        let env = TestEnvironment::new();
        env.config(&format!("\n[limits]\n{limit}\n"));
        env.agent.default_call().out(out);
        match reason {
            "failures" => drop(env.agent.default_call().rc(1)),
            "max_runtime" => drop(env.agent.default_call().script("sleep 1000\n")),
            _ => {}
        }
        let ended = env.run().expect(1);
        assert_eq!(env.status()["stop_reason"], reason);
        for hint in hints {
            ended.says(hint);
        }
        never_says(&ended, "answer");
        let why = env.ralph(&["why"]).expect(0);
        let said = why.stdout.split_whitespace().collect::<Vec<_>>().join(" ");
        assert!(said.contains(hints[0]), "{limit}: {said}");
    }
}

/// The work may be done: nobody looked.
#[test]
fn an_agent_that_never_claims_is_named_as_the_reason() {
    let env = TestEnvironment::new();
    env.config("\n[limits]\nmax_stagnant = 2\n");
    env.agent.default_call().script("touch done\n").out("The task is complete.\n");
    let ended = env.run().expect(1);
    assert_eq!(env.status()["stop_reason"], "stagnation");
    ended.says("the agent never claimed completion, so the checks were not run");
    let why = env.ralph(&["why"]).expect(0).stdout;
    assert_eq!(why.matches("how to claim").count(), 1, "{why}");
    env.ralph(&[
        "run",
        "--restart",
        "--set",
        "completion.when=proved",
        "--set",
        "completion.baseline=off",
    ]);
    assert_eq!(
        env.status()["stop_reason"],
        "stagnation",
        "nothing changed, so nothing was checked"
    );
    fs::remove_file(env.path("done")).unwrap();
    env.ralph(&["run", "--restart", "--set", "completion.when=proved"]).expect(0);
}

#[test]
fn thrashing_without_another_verdict_names_the_limit_that_stopped_it() {
    let env = TestEnvironment::new();
    env.config("\n[limits]\nmax_stagnant = 2\nmax_rejections = 100\n");
    env.agent.default_call().script("date +%s%N >> work\n").out(DONE);
    let ended = env.run().expect(1);
    assert_eq!(env.status()["stop_reason"], "thrashing");
    ended.says("raises limits.max_stagnant (2)").says("run --restart");
    never_says(&ended, "max_rejections");
}

#[test]
fn an_interrupted_run_says_so_once() {
    let env = TestEnvironment::new();
    let up = env.fifo("up");
    env.agent.call(1).script(&format!("echo > '{}'; sleep 1000\n", up.display()));
    let mut running = env.start(&["run"]);
    fs::read(&up).unwrap();
    running.signal(rustix::process::Signal::INT);
    let ended = running.wait().expect(130);
    never_says(&ended, "interrupted: interrupted");
    let status = env.ralph(&["status"]).expect(0);
    let head = status.stdout.lines().next().unwrap();
    assert_eq!(head.matches("interrupted").count(), 1, "{head}");
    let why = env.ralph(&["why"]).expect(0);
    never_says(&why, "interrupted: interrupted");
}

#[test]
fn a_stop_is_reported_once_by_status() {
    let env = TestEnvironment::new();
    env.agent.default_call().out("<promise>NEEDS_HUMAN: which colour?</promise>\n");
    env.run().expect(2);
    let status = env.ralph(&["status"]).expect(0);
    let head = status.stdout.lines().next().unwrap();
    assert_eq!(head, "needs human: which colour?");
}

#[test]
fn without_any_run_every_command_that_shows_one_says_so_and_succeeds() {
    let env = TestEnvironment::new();
    for args in
        [&["status"][..], &["log"], &["log", "--follow"], &["log", "--determinism"], &["why"]]
    {
        let ended = env.ralph(args).expect(0);
        ended.says("no run in this workspace yet");
    }
    for args in [&["status", "--json"][..], &["why", "--json"]] {
        let ended = env.ralph(args).expect(0);
        let object: serde_json::Value = serde_json::from_str(&ended.stdout).unwrap();
        assert_eq!(object["run"], serde_json::Value::Null, "{args:?}");
    }
    for args in [&["log", "--json"][..], &["log", "--follow", "--json"]] {
        // No line is a valid stream of JSON lines.
        assert_eq!(env.ralph(args).expect(0).stdout, "", "{args:?}");
    }
    // What names an iteration cannot be answered.
    env.ralph(&["log", "3"]).expect(64).says("no run in this workspace yet");
    env.ralph(&["rollback", "--to", "2"]).expect(64).says("no run in this workspace yet");
    env.ralph(&["log", "--diff", "1", "2"]).expect(64);
    assert!(!env.has_state(), "nothing is made by looking");
}
