//! The same task, by the same script of the model, done by every agent that the tests have.

use std::time::{Duration, Instant};

use ralph_orchestrator_contract::Tokens;
use ralph_orchestrator_testkit::model_server::{ModelServer, Script, Turn};
use serde_json::{Value, json};

use crate::environment::{TestEnvironment, eventually, of_run};
use crate::real::Real;

const WORK: &str = "echo 'hello ralph' > hello.txt && mkdir -p notes && echo done > notes/done.txt";
const CLAIM: &str = "All done.\n\n<promise>COMPLETE: hello.txt is written</promise>";
const USAGE: Tokens = Tokens { input: 1000, output: 10, cache_read: 0, cache_write: 0 };

/// What came of it, but for what each agent calls its own, and what it took.
struct Done {
    came_to: Value,
    row: Option<String>,
}

/// Whether the table of docs/dev/performance.md is wanted, for which each agent works once more by itself.
fn wants_figures() -> bool {
    std::env::var_os("RALPH_TEST_FIGURES").is_some()
}

fn script() -> Script {
    Script::new()
        .then(Turn::shell(WORK).usage(USAGE))
        .then(Turn::text(CLAIM).usage(USAGE))
        // Some ask for more than the turn needs, such as for what could come next.
        .forever(Turn::text("").usage(Tokens::default()))
}

fn environment(real: Real, model: &ModelServer) -> TestEnvironment {
    real.environment(
        model,
        "[[validator]]\nkind = \"command\"\nname = \"tests\"\n\
         program = [\"grep\", \"-qx\", \"hello ralph\", \"hello.txt\"]\n\
         [limits]\nmax_iterations = 3\n",
    )
}

fn done_by(real: Real) -> Done {
    let server = ModelServer::scripted(script());
    let env = environment(real, &server);
    let begin = Instant::now();
    let mut running = env.start(&["run"]);
    eventually("the model is asked", || !server.main_requests().is_empty());
    let asked = begin.elapsed();
    running.wait().expect(0);
    let whole = begin.elapsed();
    assert!(of_run(&env.root()).is_empty(), "{real:?}");
    let status = env.status();
    let cost = status["cost_usd"].as_f64().unwrap();
    assert!(cost > 0.0, "{real:?}: {status}");
    let sum: u64 = status["tokens"].as_object().unwrap().values().filter_map(Value::as_u64).sum();
    let about = if status["cost_estimated"] == true { "about " } else { "" };
    let row = wants_figures().then(|| {
        let more = whole.as_millis().saturating_sub(alone(real).as_millis());
        let (asked, whole) = (asked.as_millis(), whole.as_millis());
        format!(
            "| {:<12} | {sum:>6} | {:>13} | {asked:>8} | {whole:>5} | {more:>8} |",
            format!("{real:?}"),
            format!("{about}${cost:.4}"),
        )
    });
    let validated = env.records("validated");
    let verdicts = validated[0]["verdicts"].as_array().unwrap().iter();
    let verdicts: Vec<_> =
        verdicts.map(|named| json!([named["validator"], named["verdict"]["verdict"]])).collect();
    let came_to = json!({
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
    });
    Done { came_to, row }
}

/// How long the agent takes for the task by itself.
fn alone(real: Real) -> Duration {
    let server = ModelServer::scripted(script());
    let env = environment(real, &server);
    let mut command = real.alone(&env, &env.read("PROMPT.md"));
    let begin = Instant::now();
    let output = command.output().unwrap();
    assert!(output.status.success() && env.path("hello.txt").exists(), "{real:?}: {output:?}");
    begin.elapsed()
}

/// Prints the table of docs/dev/performance.md, too, if `RALPH_TEST_FIGURES` is set.
#[test]
#[allow(clippy::print_stdout)]
fn all_agents_come_to_the_same() {
    let all: Vec<_> = Real::ALL.into_iter().map(|real| (real, done_by(real))).collect();
    let first = &all[0].1.came_to;
    assert_eq!((&first["phase"], &first["iterations"]), (&"completed".into(), &1.into()));
    assert_eq!(first["input"], 2 * USAGE.input, "{first}");
    for (real, done) in &all {
        assert_eq!(&done.came_to, first, "{real:?}");
    }
    let rows: Vec<_> = all.iter().filter_map(|(_, done)| done.row.as_deref()).collect();
    if !rows.is_empty() {
        println!("| adapter      | tokens |          cost | asked ms | whole | more ms |");
        println!("{}", rows.join("\n"));
    }
}
