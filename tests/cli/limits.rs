//! Nothing is spent beyond what is allowed: before an iteration, inside it, across restarts.

use std::time::{Duration, Instant};

use rustix::process::Signal;
use serde_json::Value;
use serde_json::json;

use crate::completion::claude_result;
use crate::environment::{TestEnvironment, eventually, of_run, parents};

fn metered(limits: &str) -> TestEnvironment {
    let env = TestEnvironment::new();
    env.raw_config(&format!(
        "[run]\ndelay = \"0s\"\n[agent]\nadapter = \"command\"\n[agent.config]\n\
         program = [\"@AGENT@\"]\noutput = \"claude-json\"\n\
         [[validator]]\nkind = \"command\"\nprogram = [\"test\", \"-e\", \"done\"]\n\
         [limits]\n{limits}\n"
    ));
    env
}

#[test]
fn max_iterations_holds_across_restarts() {
    let env = TestEnvironment::new();
    env.agent.default_call().script("echo $n > x\n");
    for _ in 0..3 {
        env.ralph(&["run", "--max-iterations", "2"]).expect(1).says("max_iterations");
        assert_eq!(env.agent.calls(), 2);
    }
    env.ralph(&["run", "--max-iterations", "3"]).expect(1);
    assert_eq!(env.agent.calls(), 3, "a raised limit lets it go on");
    let numbers: Vec<_> =
        env.records("iteration_started").iter().map(|r| r["iteration"].clone()).collect();
    assert_eq!(numbers, [1, 2, 3]);
}

#[test]
fn max_cost_stops_after_the_iteration_that_reaches_it_and_stays_reached() {
    let env = metered("max_cost_usd = 2.0");
    env.agent.default_call().script("echo $n > x\n").out(claude_result("working", 1.0));
    for _ in 0..3 {
        env.run().expect(1).says("max_cost");
        assert_eq!(env.agent.calls(), 2);
        assert_eq!(env.status()["cost_usd"], 2.0);
    }
}

#[test]
pub(crate) fn max_cost_cuts_an_iteration_that_would_exceed_it() {
    let env = metered("max_tokens = 1000\nmax_cost_usd = 1.0");
    env.raw_config(
        "[run]\ndelay = \"0s\"\n[agent]\nadapter = \"command\"\n\
         [agent.prices]\ninput = 1000.0\noutput = 1000.0\ncache_read = 0.0\ncache_write = 0.0\n\
         [agent.config]\nprogram = [\"@AGENT@\"]\noutput = \"opencode-json\"\n\
         [[validator]]\nkind = \"command\"\nprogram = [\"test\", \"-e\", \"done\"]\n\
         [limits]\nmax_cost_usd = 1.0\n",
    );
    let step = json!({"type": "step_finish", "part": {"type": "step-finish", "cost": 0.4,
        "tokens": {"input": 10, "output": 1, "reasoning": 0, "cache": {"read": 0, "write": 0}}}});
    // The third of its steps is one too many.
    env.agent.call(1).script(&format!(
        "trap 'exit 1' INT TERM; printf '%s\\n' '{step}' '{step}' '{step}'; sleep 1000\n"
    ));
    env.run().expect(1).says("stopped by limits.max_cost_usd");
    let cost = env.status()["cost_usd"].as_f64().unwrap();
    assert!((cost - 1.2).abs() < 1e-9, "three steps: {cost}");
    assert_eq!(env.agent.calls(), 1);
}

#[test]
fn max_runtime_ends_an_agent_that_talks_for_ever() {
    let env = TestEnvironment::new();
    env.agent.default_call().script("while :; do echo talking; sleep 0.01; done\n");
    let began = Instant::now();
    env.ralph(&["run", "--max-runtime", "3s"]).expect(1).says("max_runtime");
    assert!(began.elapsed() >= Duration::from_secs(3));
    let status = env.status();
    let runtime = status["runtime_s"].as_f64().unwrap();
    assert!((3.0..3.0 + 10.5).contains(&runtime), "within the graces: {runtime}");
    assert!(of_run(&env.root()).is_empty(), "nothing is left");
    env.ralph(&["run", "--max-runtime", "3s"]).expect(1);
    assert_eq!(env.agent.calls(), 1, "no time is left for another");
}

#[test]
fn max_runtime_holds_over_restarts_in_sum() {
    let env = TestEnvironment::new();
    env.agent.default_call().script("while :; do echo talking; sleep 0.01; done\n");
    let args = ["run", "--max-runtime", "3s"];
    // What is on record: `status` shows the runtime until now.
    let recorded = || {
        let log = env.ralph(&["log", "--json"]);
        let records = log.stdout.lines().filter_map(|line| serde_json::from_str(line).ok());
        let runtimes = records.filter_map(|record: Value| record["runtime_ms"].as_u64());
        runtimes.max().unwrap_or(0)
    };
    for n in 1..=2 {
        let before = if n == 1 { 0 } else { recorded() };
        let mut running = env.start(&args);
        eventually("a second of runtime is on record", || recorded() > before + 700);
        running.signal(Signal::KILL);
        running.wait();
    }
    let used = env.status()["runtime_s"].as_f64().unwrap();
    assert!(used > 1.4, "{used}");
    let began = Instant::now();
    env.ralph(&args).expect(1).says("max_runtime");
    assert!(began.elapsed() < Duration::from_secs(20));
    assert!(env.status()["runtime_s"].as_f64().unwrap() >= 3.0);
}

/// Of an agent that reports neither, nothing is called $0.00.
#[test]
fn what_the_agent_does_not_report_is_called_so() {
    let env = TestEnvironment::new();
    env.agent.default_call().script("echo $n > x\n");
    env.ralph(&["run", "--max-iterations", "1"]).expect(1);
    let shown = env.ralph(&["limits"]).expect(0);
    let lines: Vec<_> = shown.stdout.lines().collect();
    for limit in ["max_cost_usd", "max_tokens"] {
        let line = lines.iter().find(|line| line.starts_with(limit)).unwrap();
        assert!(line.contains("not reported") && !line.contains("used"), "{line}");
    }
    let limits: Value =
        serde_json::from_str(&env.ralph(&["limits", "--json"]).expect(0).stdout).unwrap();
    assert_eq!(limits["limits"]["max_cost_usd"]["used"], Value::Null);
    let env = metered("");
    env.agent.default_call().script("echo $n > x\n").out(claude_result("working", 1.0));
    env.ralph(&["run", "--max-iterations", "1"]).expect(1);
    env.ralph(&["limits"]).expect(0).says("$1.00 used");
}

/// The runtime is on record every 30 seconds; a signed file that is written each second says the rest.
#[test]
fn max_runtime_counts_what_a_killed_start_had_not_recorded() {
    let env = TestEnvironment::new();
    env.agent.default_call().script("sleep 1000\n");
    let mut running = env.start(&["run", "--max-runtime", "1h"]);
    let heartbeat = || env.journal_path().with_file_name("heartbeat");
    eventually("the agent", || env.agent.calls() == 1);
    eventually("a sign of life", || heartbeat().metadata().is_ok_and(|file| file.len() > 0));
    running.signal(Signal::KILL);
    running.wait();
    let file = heartbeat();
    let written = std::fs::read_to_string(&file).unwrap();
    let used = env.status()["runtime_s"].as_f64().unwrap();
    assert!((1.0..60.0).contains(&used), "{used}: {written}");
    std::fs::write(&file, written.replacen("000", "999", 1)).unwrap();
    let forged = env.status()["runtime_s"].as_f64().unwrap();
    assert!(forged < used, "{forged}: what is not signed counts for nothing");
    std::fs::write(&file, written).unwrap();
    env.ralph(&["run", "--max-runtime", "1s"]).expect(1).says("max_runtime");
    assert_eq!(env.agent.calls(), 1, "nothing was left for another iteration");
    assert!(env.status()["runtime_s"].as_f64().unwrap() >= used);
}

#[test]
fn iteration_timeout_and_idle_timeout_end_an_iteration_as_a_failure() {
    for (limit, script) in [
        ("iteration_timeout = \"1s\"", "while :; do echo busy; sleep 0.05; done\n"),
        ("idle_timeout = \"1s\"", "sleep 1000\n"),
    ] {
        let env = TestEnvironment::new();
        env.config(&format!("\n[limits]\nmax_failures = 2\n{limit}\n"));
        env.agent.default_call().script(script);
        env.run().expect(1).says("failures");
        assert_eq!(env.agent.calls(), 2, "{limit}");
        assert!(of_run(&env.root()).is_empty());
    }
}

#[test]
fn failures_in_a_row_stop_the_run_and_a_success_counts_them_anew() {
    let env = TestEnvironment::new();
    env.config("\n[limits]\nmax_failures = 3\n");
    env.agent.default_call().rc(7);
    env.agent.call(3).script("echo 1 > x\n").rc(0);
    env.run().expect(1).says("failures").says("exit 7");
    assert_eq!(env.agent.calls(), 6);
}

#[test]
fn trees_that_go_to_and_fro_are_stagnation() {
    let env = TestEnvironment::new();
    env.config("\n[limits]\nmax_stagnant = 3\n");
    env.agent.default_call().script("echo $((n % 2)) > x\n");
    env.run().expect(1).says("stagnation");
    assert_eq!(env.agent.calls(), 5, "two trees were new, three looks brought nothing");
}

#[test]
fn a_cost_limit_that_cannot_be_kept_is_refused() {
    let env = TestEnvironment::new();
    let config = "[agent]\nadapter = \"command\"\n[agent.config]\nprogram = [\"@AGENT@\"]\n\
                  [[validator]]\nkind = \"command\"\nprogram = [\"true\"]\n";
    env.raw_config(&format!("{config}[limits]\nmax_cost_usd = 5.0\n"));
    env.run().expect(78).says("max_cost_usd").says("unmetered");
    env.raw_config(&format!("{config}[limits]\nmax_tokens = 5\n"));
    env.run().expect(78).says("max_tokens");
    env.raw_config(config);
    env.agent.default_call().out("<promise>COMPLETE: x</promise>\n");
    env.run().expect(0).says("cannot be enforced");
}

#[test]
fn a_lost_iteration_is_charged_and_cost_never_falls() {
    let env = metered("max_cost_usd = 10.0\nmax_iterations = 3");
    env.agent.call(1).script("echo 1 > x\n").out(claude_result("working", 1.0));
    let parents = parents();
    env.agent.call(2).script(&format!("{parents}echo 2 > x; kill -9 $orchestrator; sleep 1000\n"));
    env.agent.call(3).out(claude_result("working", 0.25));
    let ended = env.run();
    assert_eq!(ended.code, None, "killed by its own agent");
    assert_eq!(env.status()["phase"], "interrupted");
    env.run().expect(1);
    assert_eq!(env.agent.env(3)["RALPH_ITERATION"], "3");
    assert_eq!(env.status()["cost_usd"], 1.0 + 1.0 + 0.25, "charged like the dearest one");
}

#[test]
fn max_cost_holds_over_restarts_in_sum_whatever_an_iteration_was_cut_by() {
    let env = TestEnvironment::new();
    env.raw_config(
        "[run]\ndelay = \"0s\"\n[agent]\nadapter = \"command\"\n[agent.config]\n\
         program = [\"@AGENT@\"]\noutput = \"opencode-json\"\n\
         [[validator]]\nkind = \"command\"\nprogram = [\"test\", \"-e\", \"done\"]\n\
         [limits]\nmax_cost_usd = 1.0\n",
    );
    let step = json!({"type": "step_finish", "part": {"type": "step-finish", "cost": 0.4,
        "tokens": {"input": 10, "output": 1, "reasoning": 0, "cache": {"read": 0, "write": 0}}}});
    env.agent.default_call().script(&format!("printf '%s\\n' '{step}'; sleep 1000\n"));
    for n in 1..=2 {
        let mut running = env.start(&["run"]);
        eventually("the cost is on record", || {
            env.has_state()
                && env.state().join("latch").exists()
                && env.ralph(&["log", "--json"]).stdout.matches("\"kind\":\"usage\"").count() == n
        });
        running.signal(Signal::KILL);
        running.wait();
        assert_eq!(env.status()["cost_usd"], 0.4 * f64::from(u32::try_from(n).unwrap()));
    }
    env.run().expect(1).says("stopped by limits.max_cost_usd");
    assert_eq!(env.agent.calls(), 3);
    env.run().expect(1).says("max_cost");
    assert_eq!(env.agent.calls(), 3, "nothing is left for another");
}

/// A silent agent under `idle_timeout = "2s"`; how long it took.
fn silent(script: &str, code: i32) -> (TestEnvironment, Duration) {
    silent_under("2s", script, code)
}

fn silent_under(idle: &str, script: &str, code: i32) -> (TestEnvironment, Duration) {
    let env = TestEnvironment::new();
    env.config(&format!("\n[limits]\nmax_failures = 1\nidle_timeout = \"{idle}\"\n"));
    env.agent.default_call().script(script).out("<promise>COMPLETE: made it</promise>\n");
    let began = Instant::now();
    env.run().expect(code);
    assert!(of_run(&env.root()).is_empty());
    (env, began.elapsed())
}

#[test]
pub(crate) fn who_uses_the_processor_is_not_idle_before_twice_the_time() {
    // By a child, in a session of its own, as a compiler started by a tool would be.
    // Its end is three seconds from the cut, which a busy machine needs.
    silent_under("4s", "setsid -w timeout 5 sh -c 'while :; do :; done'; touch done\n", 0);
}

#[test]
fn who_has_a_connection_open_is_not_idle_before_twice_the_time() {
    for address in ["127.0.0.1", "::1"] {
        // Nobody answers, as a model that thinks.
        let server = std::net::TcpListener::bind((address, 0)).unwrap();
        let port = server.local_addr().unwrap().port();
        let script =
            format!("bash -c 'exec 3<>/dev/tcp/{address}/{port}; exec sleep 5'; touch done\n");
        silent_under("4s", &script, 0);
    }
}

#[test]
fn who_is_busy_for_ever_is_cut_at_twice_the_time() {
    let (env, took) = silent("while :; do :; done\n", 1);
    let cut = &env.records("iteration_ended")[0]["outcome"];
    assert_eq!(cut["reason"], "idle", "{cut}");
    assert!((Duration::from_secs(4)..Duration::from_secs(30)).contains(&took), "{took:?}");
}

#[test]
fn who_sleeps_is_cut_in_time_though_it_listens_and_was_busy_before() {
    // A socket that listens is no connection, and work of the past is none of now.
    let script = "timeout 1 sh -c 'while :; do :; done'
        python3 -c 'import socket,time; s=socket.create_server((\"127.0.0.1\",0)); time.sleep(1000)'\n";
    // Python's own start is work, which takes seconds on a busy machine.
    let (env, _) = silent_under("4s", script, 1);
    let ended = &env.records("iteration_ended")[0];
    assert_eq!(ended["outcome"]["reason"], "idle", "{ended}");
    // How long the run took to begin and the agent to end is the machine's.
    let at = |kind| {
        let time: jiff::Timestamp = env.records(kind)[0]["time"].as_str().unwrap().parse().unwrap();
        time.as_millisecond()
    };
    let ms = at("cancelling") - at("iteration_started");
    assert!((3_900..7_900).contains(&ms), "after {ms} ms");
}

#[test]
fn a_run_that_no_limit_would_ever_end_is_refused_also_when_it_is_unmetered() {
    let config = |agent: &str, limits: &str| {
        format!(
            "[agent]\nadapter = \"command\"\n{agent}\n[agent.config]\nprogram = [\"@AGENT@\"]\n\
             [[validator]]\nkind = \"command\"\nprogram = [\"test\", \"-e\", \"done\"]\n\
             [limits]\nmax_iterations = \"none\"\nmax_runtime = \"none\"\n{limits}"
        )
    };
    for (agent, limits) in
        [("unmetered = true", "max_cost_usd = 5.0\n"), ("unmetered = true", ""), ("", "")]
    {
        let env = TestEnvironment::new();
        env.raw_config(&config(agent, limits));
        env.run().expect(78).says("no limit would ever end this run").says("max_iterations");
        assert_eq!(env.agent.calls(), 0);
    }
    let env = TestEnvironment::new();
    env.raw_config(
        &config("unmetered = true", "").replace("max_runtime = \"none\"", "max_runtime = \"1h\""),
    );
    env.agent.default_call().script("touch done\n").out("<promise>COMPLETE: x</promise>\n");
    env.run().expect(0);
}

#[test]
fn a_lost_iteration_names_its_agent_and_its_own_time() {
    let env = TestEnvironment::new();
    let parents = parents();
    env.agent.call(1).script(&format!("{parents}kill -9 $orchestrator; sleep 1000\n"));
    env.agent.call(2).script("touch done\n").out("<promise>COMPLETE: x</promise>\n");
    assert_eq!(env.run().code, None);
    env.run().expect(0).says("iteration 1 interrupted (the orchestrator died)  (command, ");
}

#[test]
fn an_agent_that_fails_at_once_is_not_started_again_at_once() {
    let env = TestEnvironment::new();
    env.config("\n[limits]\nmax_failures = 4\n");
    env.agent.default_call().rc(7);
    let began = Instant::now();
    env.run().expect(1).says("failures");
    assert!(began.elapsed() >= Duration::from_millis(100 + 200 + 400), "{:?}", began.elapsed());
}

#[test]
fn limits_that_were_raised_in_the_file_are_named_when_a_run_is_resumed() {
    let env = TestEnvironment::new();
    env.config("[limits]\nmax_iterations = 1\nmax_runtime = \"1h\"\n");
    env.agent.default_call().script(
        "echo $n > x; sed -i 's/max_iterations = 1/max_iterations = 2/; s/\"1h\"/\"9h\"/' ralph.toml\n",
    );
    env.run().expect(1);
    let resumed = env.run().expect(1);
    resumed.says("limits.max_iterations is 2 now (").says("; it was 1 at the last start");
    resumed.says("limits.max_runtime is 9h now (").says("; it was 1h at the last start");
    env.ralph(&["limits", "--max-runtime", "30m"]).expect(0);
    let set = env.run().expect(1);
    assert!(!set.stderr.contains("limits.max_runtime is"), "another one holds: {}", set.stderr);
    let asked = env.ralph(&["run", "--max-iterations", "3"]).expect(1);
    assert!(!asked.stderr.contains("limits.max_iterations is 3"), "{}", asked.stderr);
}
