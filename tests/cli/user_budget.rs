//! The budget of all runs of a user, in whatever workspace, and its ledger.

use std::fs;
use std::path::PathBuf;

use ralph_orchestrator_testkit::fake_agent::FakeAgent;
use rustix::process::Signal;
use serde_json::Value;

use crate::completion::claude_result;
use crate::environment::{TestEnvironment, eventually};
use crate::waits::waiting_until_ms;

const PROMISE: &str = "<promise>COMPLETE: made it</promise>";

/// A workspace of the user whose home is that of `of`, or its own; the agent costs 0.40 a time and works on.
fn workspace(of: Option<&TestEnvironment>) -> TestEnvironment {
    let mut env = TestEnvironment::new();
    if let Some(of) = of {
        env.var("HOME", &of.root().join("home").display().to_string());
    }
    env.raw_config(
        "[run]\ndelay = \"0s\"\n[agent]\nadapter = \"command\"\n[agent.config]\n\
         program = [\"@AGENT@\"]\noutput = \"claude-json\"\n\
         [[validator]]\nkind = \"command\"\nprogram = [\"test\", \"-e\", \"done\"]\n\
         [limits]\nmax_wait = \"1s\"\nmax_stagnant = \"none\"\n",
    );
    env.agent.default_call().script("echo $n > x\n").out(claude_result("working", 0.4));
    env
}

fn with_budget(text: &str) -> TestEnvironment {
    let env = workspace(None);
    set_budget(&env, text);
    env
}

fn set_budget(env: &TestEnvironment, text: &str) {
    let file = env.root().join("home/.config/ralph-orchestrator/config.toml");
    fs::create_dir_all(file.parent().unwrap()).unwrap();
    fs::write(file, format!("[budget]\n{text}\n")).unwrap();
}

fn folder(env: &TestEnvironment) -> PathBuf {
    env.root().join("home/.local/state/ralph-orchestrator/.budget")
}

fn budget(env: &TestEnvironment) -> Value {
    serde_json::from_str(&env.ralph(&["budget", "--json"]).expect(0).stdout).unwrap()
}

/// Cents that all runs were charged.
fn spent(env: &TestEnvironment) -> i64 {
    let rows = budget(env)["history"].as_array().unwrap().clone();
    cents(rows.iter().map(|row| row["cost_usd"].as_f64().unwrap()).sum::<f64>())
}

// So little is exact.
#[allow(clippy::cast_possible_truncation)]
fn cents(dollars: f64) -> i64 {
    (dollars * 100.0).round() as i64
}

#[test]
fn a_budget_that_is_reached_stops_every_run_until_its_period_ends() {
    let env = with_budget("max_cost_usd = { month = 1.0 }");
    env.run()
        .expect(1)
        .says("budget: all runs have used $1.20 of $1.00 (budget.max_cost_usd.month)");
    assert_eq!((env.agent.calls(), spent(&env)), (3, 120));
    assert_eq!(env.status()["stop_reason"], "budget");
    env.ralph(&["why"]).expect(0).says("wait until the period of the budget ends");
    let other = workspace(Some(&env));
    other.run().expect(1).says("budget.max_cost_usd.month");
    env.run().expect(1).says("budget.max_cost_usd.month");
    assert_eq!((env.agent.calls(), other.agent.calls(), spent(&env)), (3, 0, 120));
    set_budget(&env, "max_cost_usd = { month = 1.5 }");
    env.run().expect(1).says("$1.60 of $1.50");
    set_budget(&env, "");
    other.agent.call(1).script("touch done\n").out(claude_result(PROMISE, 0.4));
    other.run().expect(0);
    assert_eq!(spent(&env), 160, "without a budget nothing is recorded");
}

#[test]
fn a_run_waits_for_the_end_of_the_period_where_it_may() {
    let env = with_budget("max_tokens = { day = 3 }");
    let mut running = env.start(&["run", "--set", "limits.max_wait=until reset"]);
    running.says("budget: all runs have used 4 of 3 (budget.max_tokens.day)");
    eventually("it waits", || waiting_until_ms(&env.status()).is_some());
    let limit = &budget(&env)["limits"][0];
    assert_eq!((&limit["used"], &limit["left"]), (&4.into(), &0.into()));
    assert_eq!(limit["ends_at"], env.status()["waiting_until"]);
    running.signal(Signal::INT);
    running.wait().expect(130);
    assert_eq!(env.agent.calls(), 2);
}

#[test]
fn runs_at_the_same_time_exceed_it_by_one_iteration_at_most() {
    let env = with_budget("max_cost_usd = { day = 1.0 }");
    let other = workspace(Some(&env));
    let gate = env.fifo("gate");
    let hold = |agent: &FakeAgent, call| {
        let script = format!("echo {call} > x; read line < '{}'\n", gate.display());
        agent.call(call).script(&script).out(claude_result("working", 0.4));
    };
    hold(&env.agent, 1);
    hold(&env.agent, 2);
    let mut first = env.start(&["run"]);
    eventually("the first agent works", || env.agent.calls() == 1);
    // Nobody knows yet what an iteration may use.
    let mut second = other.start(&["run"]);
    second.says("iterations of other runs have reserved the rest (budget.max_cost_usd.day)");
    assert_eq!(other.agent.calls(), 0);
    fs::write(&gate, "go\n").unwrap();
    // The second iteration of the one and the first of the other begin, and reserve what is left.
    eventually("both agents have worked", || env.agent.calls() == 2 && other.agent.calls() == 1);
    fs::write(&gate, "go\n").unwrap();
    first.wait().expect(1).says("budget.max_cost_usd.day");
    second.wait().expect(1).says("budget.max_cost_usd.day");
    assert_eq!((env.agent.calls(), other.agent.calls(), spent(&env)), (2, 1, 120));
    assert_eq!(budget(&env)["limits"][0]["reserved"], 0.0);
}

#[test]
fn a_run_killed_before_its_charge_is_charged_once_when_it_goes_on() {
    let env = with_budget("max_cost_usd = { month = 5.0 }");
    let gate = env.fifo("gate");
    let script = format!("echo 1 > x; read line < '{}'\n", gate.display());
    env.agent.call(1).script(&script).out(claude_result("working", 0.4));
    env.agent.call(2).script("touch done\n").out(claude_result(PROMISE, 0.4));
    let mut running = env.start(&["run"]);
    eventually("the agent works", || env.agent.calls() == 1);
    // While the ledger is held nothing can be charged.
    let lock = fs::File::open(folder(&env).join("lock")).unwrap();
    lock.lock().unwrap();
    fs::write(&gate, "go\n").unwrap();
    eventually("the end of the iteration is on record", || env.has_record("iteration_ended"));
    running.signal(Signal::KILL);
    running.wait();
    drop(lock);
    assert_eq!(spent(&env), 0);
    env.run().expect(0);
    assert_eq!((env.agent.calls(), spent(&env)), (2, 80));
    env.run().expect(0);
    assert_eq!(spent(&env), 80);
}

#[test]
fn a_run_that_is_killed_anywhere_is_charged_in_the_end_what_it_cost() {
    for record in (1..20).step_by(3) {
        let env = with_budget("max_cost_usd = { month = 50.0 }");
        env.agent.call(2).script("touch done\n").out(claude_result(PROMISE, 0.4));
        env.agent.call(3).script("touch done\n").out(claude_result(PROMISE, 0.4));
        env.run_and_kill_after_record(record);
        env.run().expect(0);
        let cost = cents(env.status()["cost_usd"].as_f64().unwrap());
        assert_eq!(spent(&env), cost, "killed after record {record}");
    }
}

#[test]
fn a_damaged_ledger_is_refused_and_not_begun_anew() {
    let env = with_budget("max_cost_usd = { month = 50.0 }");
    env.ralph(&["run", "--max-iterations", "1"]).expect(1);
    let ledger = folder(&env).join("ledger.jsonl");
    let whole = fs::read_to_string(&ledger).unwrap();
    // As a crash in the middle of a line leaves it.
    fs::write(&ledger, format!("{whole}{{\"prev\":\"")).unwrap();
    assert_eq!(spent(&env), 40);
    let sabotage: [&dyn Fn(); 2] =
        [&|| fs::write(&ledger, whole.replace("0.4", "0.1")).unwrap(), &|| {
            fs::remove_file(&ledger).unwrap();
        }];
    for act in sabotage {
        act();
        for args in [&["run"][..], &["budget"]] {
            env.ralph(args).expect(65).says("ledger.jsonl").says("move the folder");
        }
        env.ralph(&["status"]).expect(0).says("ledger.jsonl");
    }
    assert_eq!(env.agent.calls(), 1);
    fs::remove_dir_all(folder(&env)).unwrap();
    env.ralph(&["run", "--max-iterations", "2"]).expect(1);
    assert_eq!(spent(&env), 40, "what was used before the new ledger does not count");
}

#[test]
fn a_cost_that_is_not_reported_is_called_unknown() {
    let env = TestEnvironment::new();
    set_budget(&env, "max_cost_usd = { week = 20.0 }");
    env.agent.call(1).script("touch done\n").out(PROMISE);
    env.run().expect(0);
    let unknown = "of $20.00 of this week used, $20.00 left until";
    env.ralph(&["budget"])
        .expect(0)
        .says(unknown)
        .says("; cost unknown of 1 session")
        .says("unknown  ");
    env.ralph(&["status"]).expect(0).says("all runs    $0.00").says("cost unknown of 1 session");
    env.ralph(&["runs"]).expect(0).says("all runs: $0.00");
    assert_eq!(env.status()["user_budget"][0]["unreported_sessions"], 1);
    let csv = env.ralph(&["budget", "--csv"]).expect(0).stdout;
    let row = csv.lines().nth(1).unwrap();
    assert!(row.ends_with(",1,0,0,1,1"), "{csv}");
}

#[test]
fn the_workspace_cannot_set_it() {
    let env = with_budget("max_cost_usd = { day = 1.0 }");
    let text = env.read("ralph.toml");
    env.write("ralph.toml", format!("{text}\n[budget]\nmax_cost_usd = {{ day = 100.0 }}\n"));
    env.run().expect(78).says("budget").says("belongs into the user's own configuration");
    env.ralph(&["budget"]).expect(0).says("$0.00 of $1.00 of this day used");
}
