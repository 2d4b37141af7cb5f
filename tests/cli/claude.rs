//! The real `claude` in the loop, against a model on loopback.

use ralph_orchestrator_testkit::model_server::{ModelServer, Reply, Script, Turn};
use serde_json::json;

use crate::environment::{TestEnvironment, of_run};
use crate::real::Real;
use crate::waits::waiting_until_ms;

fn environment(server: &ModelServer, limits: &str) -> TestEnvironment {
    Real::ClaudeCli.environment(
        server,
        &format!(
            "[[validator]]\nkind = \"evidence-files\"\n\
             [[validator]]\nkind = \"command\"\nname = \"tests\"\n\
             program = [\"grep\", \"-qx\", \"hello ralph\", \"hello.txt\"]\n[limits]\n{limits}\n"
        ),
    )
}

const CLAIM: &str = "All done.\n\n<promise>COMPLETE: hello.txt is written</promise>";

#[test]
fn claims_without_evidence_is_refused_repairs_it_and_is_accepted() {
    let work = "echo 'hello ralph' > hello.txt && mkdir -p validation-evidence && \
                for i in 1 2 3; do echo \"check $i: $(cat hello.txt)\" > validation-evidence/$i.txt; done";
    let server = ModelServer::scripted(
        Script::new()
            .then(Turn::text(CLAIM))
            .then(Turn::tool("Bash", &json!({"command": work, "description": "do the work"})))
            .then(Turn::text("Now it is really done.")),
    );
    let env = environment(&server, "max_iterations = 3");
    let ended = env.ralph(&["run", "--json"]).expect(0);

    let requests = server.main_requests();
    assert_eq!(requests.len(), 3);
    // The CLI puts reminders of its own before the prompt; the prompt is a block of its own.
    let prompt = |n: usize| {
        let content = &requests[n].body["messages"][0]["content"];
        let blocks = content.as_array().cloned().unwrap_or_else(|| vec![json!({"text": content})]);
        let mut texts = blocks.iter().filter_map(|block| block["text"].as_str());
        texts.rfind(|text| text.contains("# Task")).unwrap().to_owned()
    };
    assert!(prompt(0).starts_with("# Task"), "{}", prompt(0));
    let second_prompt = prompt(1);
    assert!(
        second_prompt
            .starts_with("Your claim that the task is complete was checked and REJECTED:\n- "),
        "the reasons come first: {second_prompt}"
    );
    assert!(second_prompt.contains("validation-evidence") && second_prompt.contains("hello.txt"));

    let costs: Vec<f64> = ended
        .events()
        .iter()
        .filter(|event| event["event"] == "iteration_finished")
        .map(|event| event["cost_usd"].as_f64().unwrap())
        .collect();
    assert_eq!(costs.len(), 2);
    let status = env.status();
    let reported: f64 = transcripts(&env, 2).iter().sum();
    assert!(reported > 0.0);
    assert!((status["cost_usd"].as_f64().unwrap() - reported).abs() < 1e-8, "{status} {reported}");
    assert_eq!(status["latch"]["state"], "completed");
    assert_eq!(status["latch"]["rejections"], 1);
    assert!(of_run(&env.root()).is_empty());
}

/// What the CLI itself reported as `total_cost_usd`, iteration by iteration.
fn transcripts(env: &TestEnvironment, iterations: usize) -> Vec<f64> {
    (1..=iterations)
        .map(|n| {
            let path =
                env.journal_path().with_file_name(format!("iterations/{n:04}/transcript.jsonl"));
            let text = std::fs::read_to_string(path).unwrap();
            text.lines()
                .filter_map(|line| {
                    let event: serde_json::Value = serde_json::from_str(line).ok()?;
                    let raw: serde_json::Value =
                        serde_json::from_str(event["line"].as_str()?).ok()?;
                    raw["total_cost_usd"].as_f64()
                })
                .next_back()
                .unwrap()
        })
        .collect()
}

#[test]
fn a_refused_key_needs_a_human() {
    let server =
        ModelServer::scripted(Script::new().forever(Reply::error(401, "invalid x-api-key")));
    let env = environment(&server, "max_iterations = 3");
    env.run().expect(2).says("unauthenticated");
    assert_eq!(env.status()["phase"], "needs_human");
}

#[test]
fn no_credit_needs_a_human() {
    let message = "Your credit balance is too low to access the Anthropic API.";
    let server = ModelServer::scripted(Script::new().forever(Reply::error(400, message)));
    let env = environment(&server, "max_iterations = 3");
    env.run().expect(2).says("billing");
}

#[test]
fn a_rate_limit_waits_and_is_no_iteration() {
    let server = ModelServer::scripted(
        Script::new().forever(Reply::error(429, "This request would exceed your rate limit")),
    );
    let env = environment(&server, "max_iterations = 3\nmax_wait = \"20s\"");
    env.run().expect(2).says("rate_limited").says("limits.max_wait");
    let status = env.status();
    assert_eq!((&status["iterations"], &status["failures"]), (&1.into(), &0.into()));
}

#[test]
fn a_window_of_a_subscription_that_is_nearly_used_up_is_waited_for() {
    let reset = jiff::Timestamp::now().as_second() + 3600;
    let reply = Reply::from(Turn::text("Not yet."))
        .header("anthropic-ratelimit-unified-status", "allowed_warning")
        .header("anthropic-ratelimit-unified-representative-claim", "five_hour")
        .header("anthropic-ratelimit-unified-reset", &reset.to_string())
        .header("anthropic-ratelimit-unified-5h-status", "allowed_warning")
        .header("anthropic-ratelimit-unified-5h-utilization", "0.93")
        .header("anthropic-ratelimit-unified-5h-surpassed-threshold", "0.9")
        .header("anthropic-ratelimit-unified-5h-reset", &reset.to_string());
    let server = ModelServer::scripted(Script::new().forever(reply));
    let mut env = environment(&server, "max_iterations = 3\nmax_window = { five_hour = 90 }");
    env.unset("ANTHROPIC_API_KEY");
    env.var("CLAUDE_CODE_OAUTH_TOKEN", "sk-ant-oat01-dummy");
    let mut running = env.start(&["run"]);
    running.says("93 % of the window `five_hour`");
    let status = env.status();
    running.signal(rustix::process::Signal::INT);
    running.wait().expect(130);
    assert_eq!(waiting_until_ms(&status), Some(reset * 1000), "{status}");
    assert_eq!(status["rate_windows"][0]["used_percent"], 93.0, "{status}");
}

#[test]
fn the_time_that_a_subscription_is_refused_until_is_waited_for() {
    let now = jiff::Timestamp::now().as_second();
    let reset = now + 3600;
    let refusal = Reply::error(429, "This request would exceed your account's rate limit")
        .header("anthropic-ratelimit-unified-status", "rejected")
        .header("anthropic-ratelimit-unified-reset", &reset.to_string())
        .header("anthropic-ratelimit-unified-representative-claim", "five_hour");
    let server = ModelServer::scripted(Script::new().forever(refusal));
    let mut env = environment(&server, "max_iterations = 3");
    // An account with a subscription has a token instead of a key.
    env.unset("ANTHROPIC_API_KEY");
    env.var("CLAUDE_CODE_OAUTH_TOKEN", "sk-ant-oat01-dummy");
    let mut running = env.start(&["run"]);
    running.says("  waiting ");
    let status = env.status();
    running.signal(rustix::process::Signal::INT);
    let ended = running.wait();
    assert_eq!(waiting_until_ms(&status), Some(reset * 1000), "{status}\n{ended:?}");
    assert_eq!((&status["iterations"], &status["failures"]), (&1.into(), &0.into()));
    ended.expect(130);
    assert!(of_run(&env.root()).is_empty());
}
