//! kill -9 at every point of a run, then `run`: the same end as without it.

use serde_json::Value;

use crate::environment::{TestEnvironment, of_run};

/// Rejected after the first iteration, accepted after the second, by an agent that does everything again in the same way:
/// its report has the same bytes each time, and comes before the work is whole.
fn scenario() -> TestEnvironment {
    let env = TestEnvironment::new();
    env.raw_config(
        "[run]\ndelay = \"0s\"\n[agent]\nadapter = \"command\"\n[agent.config]\n\
         program = [\"@AGENT@\"]\noutput = \"claude-json\"\n\
         [[validator]]\nkind = \"evidence-files\"\nmin_files = 1\n\
         [[validator]]\nkind = \"command\"\nprogram = [\"test\", \"-e\", \"done\"]\n",
    );
    env.agent.default_call().script(
        "mkdir -p validation-evidence; echo passed > validation-evidence/t.txt
         if [ -e half ]; then touch done; fi; echo 1 > half\n",
    );
    env.agent
        .default_call()
        .out(crate::completion::claude_result("<promise>COMPLETE: made it</promise>", 0.25));
    env
}

/// What the end of a run is, whatever happened on the way.
fn end(env: &TestEnvironment) -> Value {
    let status = env.status();
    let completed = env.records("completed");
    assert_eq!(completed.len(), 1, "a completion is made once");
    serde_json::json!({
        "phase": status["phase"],
        "latch": status["latch"]["state"],
        "claim": status["latch"]["claim"]["text"],
        "validated": status["latch"]["validated"],
        "half": env.read("half"),
        "done": env.read("done"),
        "evidence": completed[0]["evidence"][0]["digest"],
        "task": completed[0]["task"],
    })
}

fn cost(env: &TestEnvironment) -> f64 {
    env.status()["cost_usd"].as_f64().unwrap_or_default()
}

#[test]
fn kill_9_after_any_journal_record_then_run_ends_the_same() {
    let whole = scenario();
    whole.run().expect(0);
    let expected = end(&whole);
    let records = whole.journal().len();
    assert!(records > 12, "{records}");
    for kill_at in 1..=records {
        let env = scenario();
        env.run_and_kill_after_record(kill_at);
        let (before, complete) = (cost(&env), env.has_record("completed"));
        let again = env.run().expect(0);
        if complete {
            again.says("already completed");
        }
        assert_eq!(end(&env), expected, "killed at record {kill_at}");
        assert!(cost(&env) >= before, "cost fell after a kill at record {kill_at}");
        assert!(of_run(&env.root()).is_empty(), "killed at record {kill_at}");
    }
}
