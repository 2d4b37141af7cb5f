//! The real `claude` as the agent of a job, with a model on loopback.

use ralph_orchestrator_testkit::claude_binary;
use ralph_orchestrator_testkit::model_server::{ModelServer, Script, Turn};
use serde_json::json;

use crate::environment::of_run;
use crate::real::Real;

use super::{add_task, report, status, trial_of};

#[test]
fn claude_solves_a_task_and_its_costs_are_in_the_ledger() {
    let server = ModelServer::scripted(
        Script::new()
            .then(Turn::tool(
                "Bash",
                &json!({"command": "echo hello > /app/out.txt", "description": "do the work"}),
            ))
            .then(Turn::text("Done.\n\n<promise>COMPLETE: out.txt is written</promise>")),
    );
    let mut env = super::environment(&[]);
    Real::ClaudeCli.ask(&mut env, &server);
    add_task(&env, "one", 600);
    let program = claude_binary();
    let installed = program.ancestors().nth(3).unwrap();
    env.raw_config(&format!(
        "[run]\ndelay = \"0s\"\n[limits]\nmax_iterations = 2\n\
         [agents.claude]\nadapter = \"claude-cli\"\n[agents.claude.config]\nprogram = \"{}\"\nmodel = \"opus\"\n\
         [env]\npass = [\"DISABLE_*\", \"CLAUDE_CODE_*\", \"IS_SANDBOX\"]\n\
         [sandbox]\nread = [\"{}\"]\n[bench]\ntasks = [\"tasks\"]\ntrust_agent = true\n",
        program.display(),
        installed.display()
    ));
    env.ralph(&["bench", "run", "--agents", "claude", "--out", "job"]).expect(0);
    let trial = trial_of(&env, "job", "claude");
    assert_eq!(trial["rewards"]["reward"], 1.0, "{trial:#}");
    assert!(trial.get("fault").is_none(), "{trial:#}");
    assert_eq!((&trial["iterations"], &trial["completed"]), (&1.into(), &true.into()));

    let served = server.served();
    let tokens = &trial["usage"]["tokens"];
    assert_eq!([&tokens["input"], &tokens["output"]], [served.input, served.output], "{trial:#}");
    // The prices of the model that was asked: 5 and 25 dollars for a million tokens.
    let dollars = |tokens: u64, price: f64| f64::from(u32::try_from(tokens).unwrap()) * price / 1e6;
    let cost = dollars(served.input, 5.0) + dollars(served.output, 25.0);
    let paid = status(&env, "job")["cost_usd"].as_f64().unwrap();
    assert!(cost > 0.0 && (paid - cost).abs() < 1e-8, "served ${cost}, paid ${paid}");
    let (_, summary) = report(&env, "job");
    let of_column = summary["columns"][0]["cost_usd"].as_f64().unwrap();
    assert!((of_column - paid).abs() < 1e-9);
    assert!(of_run(&env.root()).is_empty());
}
