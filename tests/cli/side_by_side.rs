//! The same task, by the same script of the model, done by every agent that the tests have.

use orchestrator::contract::Tokens;
use ralph_orchestrator_testkit::model_server::{ModelServer, Script, Turn};
use ralph_orchestrator_testkit::{claude_agent_acp, claude_binary, codex_binary};
use serde_json::{Value, json};

use crate::environment::{TestEnvironment, of_run};

const WORK: &str = "echo 'hello ralph' > hello.txt && mkdir -p notes && echo done > notes/done.txt";
const CLAIM: &str = "All done.\n\n<promise>COMPLETE: hello.txt is written</promise>";
const USAGE: Tokens = Tokens { input: 1000, output: 10, cache_read: 0, cache_write: 0 };

/// `[agent]` for each adapter.
fn agents(server: &ModelServer) -> Vec<String> {
    let (claude, acp, codex) = (claude_binary(), claude_agent_acp(), codex_binary());
    let (claude, acp, codex) = (claude.display(), acp.display(), codex.display());
    let claude = |adapter: &str| {
        format!(
            "adapter = \"{adapter}\"\n[agent.config]\nprogram = \"{claude}\"\nmodel = \"opus\"\n"
        )
    };
    vec![
        claude("claude-cli"),
        claude("claude-sdk"),
        format!("adapter = \"acp\"\n[agent.config]\nprogram = [\"{acp}\"]\n"),
        format!(
            "adapter = \"codex\"\n[agent.config]\nprogram = \"{codex}\"\nmodel = \"gpt-5.1-codex\"\n\
             args = [\"-c\", \"model_provider=loop\", \"-c\", \"analytics.enabled=false\", \"-c\", \
             'model_providers.loop={{name=\"loop\",base_url=\"{}/v1\",env_key=\"CODEX_API_KEY\",\
             wire_api=\"responses\",request_max_retries=0,stream_max_retries=0}}']\n",
            server.base_url()
        ),
    ]
}

/// What came of it, but for what each agent calls its own.
fn done_by(number: usize) -> Value {
    let server = ModelServer::scripted(
        Script::new()
            .then(Turn::shell(WORK).usage(USAGE))
            .then(Turn::text(CLAIM).usage(USAGE))
            // Some ask for more than the turn needs, such as for what could come next.
            .forever(Turn::text("").usage(Tokens::default())),
    );
    let agent = agents(&server)[number].clone();
    let mut env = TestEnvironment::new();
    env.raw_config(&format!(
        "[run]\ndelay = \"0s\"\n[agent]\n{agent}\
         [[validator]]\nkind = \"command\"\nname = \"tests\"\n\
         program = [\"grep\", \"-qx\", \"hello ralph\", \"hello.txt\"]\n\
         [env]\npass = [\"DISABLE_*\", \"CLAUDE_CODE_*\", \"IS_SANDBOX\", \"CODEX_API_KEY\"]\n\
         [limits]\nmax_iterations = 3\n",
    ));
    for (name, value) in [
        ("ANTHROPIC_API_KEY", "dummy"),
        ("ANTHROPIC_BASE_URL", &server.base_url()),
        ("CODEX_API_KEY", "dummy"),
        ("DISABLE_TELEMETRY", "1"),
        ("DISABLE_ERROR_REPORTING", "1"),
        ("DISABLE_AUTOUPDATER", "1"),
        ("CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC", "1"),
        ("IS_SANDBOX", "1"),
    ] {
        env.var(name, value);
    }
    env.run().expect(0);
    assert!(of_run(&env.root()).is_empty(), "{agent}");
    let status = env.status();
    assert!(status["cost_usd"].as_f64().is_some_and(|cost| cost > 0.0), "{agent}: {status}");
    let validated = env.records("validated");
    let verdicts = validated[0]["verdicts"].as_array().unwrap().iter();
    let verdicts: Vec<_> =
        verdicts.map(|named| json!([named["validator"], named["verdict"]["verdict"]])).collect();
    json!({
        "phase": status["phase"],
        "iterations": status["iterations"],
        "claim": status["latch"]["claim"]["text"],
        "detector": status["latch"]["claim"]["detector"],
        "validated": status["latch"]["validated"],
        "input": status["tokens"]["input"],
        "output": status["tokens"]["output"],
        "tree": env.records("completed")[0]["tree"].is_string(),
        "files": [env.read("hello.txt"), env.read("notes/done.txt")],
        "validations": validated.len(),
        "verdicts": verdicts,
    })
}

#[test]
fn all_agents_come_to_the_same() {
    let first = done_by(0);
    assert_eq!((&first["phase"], &first["iterations"]), (&"completed".into(), &1.into()));
    assert_eq!(first["input"], 2 * USAGE.input, "{first}");
    for number in 1..4 {
        assert_eq!(done_by(number), first, "agent {number}");
    }
}
