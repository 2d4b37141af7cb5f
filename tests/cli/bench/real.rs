//! The real `claude` and `codex` as agents of a job, with a model on loopback.

use std::path::Path;

use ralph_orchestrator_testkit::model_server::{ModelServer, Script, Turn};
use ralph_orchestrator_testkit::{claude_binary, codex_binary};
use serde_json::{Value, json};

use crate::environment::{TestEnvironment, of_run};
use crate::real::Real;

use super::{add_task, report, status, trial_of};

const CLAIM: &str = "Done.\n\n<promise>COMPLETE: out.txt is written</promise>";

/// A task, and an agent that asks this model. What `tables` say of the agent is followed by what trials see of it.
fn environment(real: Real, server: &ModelServer, program: &Path, tables: &str) -> TestEnvironment {
    let mut env = super::environment(&[]);
    real.ask(&mut env, server);
    add_task(&env, "one", 600);
    let installed = program.ancestors().nth(3).unwrap();
    env.raw_config(&format!(
        "[run]\ndelay = \"0s\"\n[limits]\nmax_iterations = 2\n{tables}program = \"{}\"\n\
         [env]\npass = [\"DISABLE_*\", \"CLAUDE_CODE_*\", \"IS_SANDBOX\", \"LOOP_KEY\"]\n\
         [bench]\ntasks = [\"tasks\"]\ntrust_agent = true\n[sandbox]\nread = [\"{}\"]\n",
        program.display(),
        installed.display()
    ));
    env
}

/// Performs a job of one trial, which has to solve the task, and compares it with what the model served, at these
/// prices in dollars for a million tokens of input and of output.
#[track_caller]
fn check_job(env: &TestEnvironment, server: &ModelServer, agent: &str, prices: [f64; 2]) -> Value {
    env.ralph(&["bench", "run", "--agents", agent, "--out", "job"]).expect(0);
    let trial = trial_of(env, "job", agent);
    assert_eq!(trial["rewards"]["reward"], 1.0, "{trial:#}");
    assert!(trial.get("fault").is_none(), "{trial:#}");
    assert_eq!((&trial["iterations"], &trial["completed"]), (&1.into(), &true.into()));

    let served = server.served();
    let tokens = &trial["usage"]["tokens"];
    assert_eq!([&tokens["input"], &tokens["output"]], [served.input, served.output], "{trial:#}");
    let dollars = |tokens: u64, price: f64| f64::from(u32::try_from(tokens).unwrap()) * price / 1e6;
    let cost = dollars(served.input, prices[0]) + dollars(served.output, prices[1]);
    let paid = status(env, "job")["cost_usd"].as_f64().unwrap();
    assert!(cost > 0.0 && (paid - cost).abs() < 1e-8, "served ${cost}, paid ${paid}");
    let (_, summary) = report(env, "job");
    let of_column = summary["columns"][0]["cost_usd"].as_f64().unwrap();
    assert!((of_column - paid).abs() < 1e-9);
    assert!(of_run(&env.root()).is_empty());
    trial
}

#[test]
fn claude_solves_a_task_and_its_costs_are_in_the_ledger() {
    let work = json!({"command": "echo hello > /app/out.txt", "description": "do the work"});
    let script = Script::new().then(Turn::tool("Bash", &work)).then(Turn::text(CLAIM));
    let server = ModelServer::scripted(script);
    let table =
        "[agents.claude]\nadapter = \"claude-cli\"\n[agents.claude.config]\nmodel = \"opus\"\n";
    let env = environment(Real::ClaudeCli, &server, &claude_binary(), table);
    check_job(&env, &server, "claude", [5.0, 25.0]);
}

#[test]
fn codex_solves_the_same_task_and_what_it_costs_is_computed() {
    let script =
        Script::new().then(Turn::shell("echo hello > /app/out.txt")).then(Turn::text(CLAIM));
    let server = ModelServer::scripted(script);
    let table =
        "[agents.codex]\nadapter = \"codex\"\n[agents.codex.config]\nmodel = \"gpt-5.1-codex\"\n";
    let env = environment(Real::Codex, &server, &codex_binary(), table);
    let settings = env.root().join("home/.codex");
    let config = env.read("ralph.toml");
    env.raw_config(&format!("{config}write = [\"{}\"]\n", settings.display()));
    let trial = check_job(&env, &server, "codex", [1.25, 10.0]);
    assert_eq!(trial["usage"]["estimated"], true, "Codex reports tokens, not money: {trial:#}");
}
