//! What an engine does wrong is never the agent's fault, and never a score.

use serde_json::{Value, json};

use crate::environment::{Running, TestEnvironment, eventually, of_run};

use super::{
    PODMAN, SOLVES, StandIn, add_lines, add_task, environment, run, trial_files, trial_of,
};

/// The only attempt of the agent has no reward, and this fault.
fn expect_fault(env: &TestEnvironment, agent: &str, cause: &str, kind: &str) -> String {
    let trial = trial_of(env, "job", agent);
    assert_eq!(trial["rewards"], json!({}), "{trial:#}");
    assert_eq!((&trial["fault"]["cause"], &trial["fault"]["kind"]), (&json!(cause), &json!(kind)));
    trial["fault"]["message"].as_str().unwrap().to_owned()
}

/// Starts trials of an agent that solves its task and waits until `shared/go` is there.
fn start(env: &TestEnvironment) -> Running {
    let run = ["bench", "run", "--agents", "waits", "--out", "job"];
    let running = env.start(&[&run[..], &PODMAN, &["--set=bench.max_retries=0"]].concat());
    eventually("the agent", || env.path("shared/up").exists());
    running
}

fn waiting() -> TestEnvironment {
    let waits = "touch \"$shared/up\"; while [ ! -e \"$shared/go\" ]; do sleep 0.02; done\n";
    environment(&[("waits", &format!("{waits}{SOLVES}"))])
}

#[test]
fn a_line_that_fails_is_named_with_its_output_and_not_repeated() {
    let mut env = environment(&[("solves", SOLVES)]);
    let engine = StandIn::start(&mut env);
    add_task(&env, "one", 600);
    add_lines(&env, "one", "RUN echo the compiler is unhappy; exit 3\n");
    run(&env, "solves", &[]).expect(1);
    let message = expect_fault(&env, "solves", "sandbox", "TaskSetupError");
    assert!(message.contains("environment/Dockerfile"), "{message}");
    assert!(message.contains("the compiler is unhappy"), "{message}");
    assert_eq!(engine.calls("create").len(), 0);
}

#[test]
fn an_image_that_cannot_be_pulled_is_named() {
    let mut env = environment(&[("solves", SOLVES)]);
    let engine = StandIn::start(&mut env);
    add_task(&env, "one", 600);
    let more = "[environment]\ndocker_image = \"example.org/none:1\"\n";
    env.write("tasks/one/task.toml", format!("{}{more}", env.read("tasks/one/task.toml")));
    run(&env, "solves", &[]).expect(1);
    let message = expect_fault(&env, "solves", "sandbox", "TaskSetupError");
    assert!(message.contains("example.org/none:1: no registry"), "{message}");
    assert_eq!((engine.calls("pull").len(), engine.calls("build").len()), (1, 0));
}

#[test]
fn an_engine_that_makes_no_container_is_tried_again() {
    let mut env = environment(&[("solves", SOLVES)]);
    let engine = StandIn::start(&mut env);
    add_task(&env, "one", 600);
    engine.break_verb("create", "125 the storage is full");
    run(&env, "solves", &["--set=bench.max_retries=1"]).expect(1);
    let trials = trial_files(&env, "job");
    assert_eq!(trials.len(), 2);
    for trial in trials {
        assert_eq!(trial["fault"]["kind"], "ContainerEngineError", "{trial:#}");
        assert!(trial["fault"]["message"].as_str().unwrap().contains("the storage is full"));
    }
    assert_eq!(engine.containers(), Vec::<String>::new());
}

#[test]
fn a_container_that_does_not_start_is_no_fault_of_the_agent() {
    let mut env = environment(&[("solves", SOLVES)]);
    let engine = StandIn::start(&mut env);
    add_task(&env, "one", 600);
    engine.break_verb("start", "125 no such runtime");
    run(&env, "solves,oracle", &["--set=bench.max_retries=0"]).expect(1);
    for agent in ["solves", "oracle"] {
        let message = expect_fault(&env, agent, "sandbox", "ContainerError");
        assert!(message.contains("no such runtime"), "{message}");
    }
    assert_eq!(engine.containers(), Vec::<String>::new());
}

#[test]
fn an_engine_that_hangs_ends_with_the_time_of_what_it_was_to_start() {
    let mut env = environment(&[]);
    let engine = StandIn::start(&mut env);
    add_task(&env, "one", 1);
    let text = env.read("tasks/one/task.toml");
    env.write("tasks/one/task.toml", text.replace("timeout_sec = 120", "timeout_sec = 1"));
    engine.break_verb("exec", "hang");
    run(&env, "oracle", &["--set=bench.max_retries=0"]).expect(1);
    expect_fault(&env, "oracle", "verifier", "VerifierTimeoutError");
    engine.mend_verb("exec");
    assert_eq!(engine.containers(), Vec::<String>::new());
    assert!(of_run(&env.root()).is_empty());
}

#[test]
fn a_container_that_vanishes_is_no_fault_of_the_agent() {
    let mut env = waiting();
    let engine = StandIn::start(&mut env);
    add_task(&env, "one", 600);
    let mut running = start(&env);
    let names = engine.containers();
    assert_eq!(names.len(), 1);
    engine.call(&["rm", "--force", "--volumes", &names[0]]);
    running.wait().expect(1);
    let message = expect_fault(&env, "waits", "sandbox", "ContainerError");
    assert!(message.contains(&names[0]), "{message}");
    assert!(of_run(&env.root()).is_empty());
}

#[test]
fn an_agent_that_the_image_does_not_have_is_never_scored() {
    let mut env = environment(&[("hidden", SOLVES), ("solves", SOLVES)]);
    let _engine = StandIn::start(&mut env);
    add_task(&env, "one", 600);
    run(&env, "hidden,solves", &["--set=sandbox.read=[\"agents/solves.sh\"]"]).expect(0);
    let message = expect_fault(&env, "hidden", "infrastructure", "AgentNotAvailableError");
    assert!(message.contains("hidden.sh"), "{message}");
    assert_eq!(trial_of(&env, "job", "solves")["rewards"]["reward"], 1.0);
}

#[test]
fn what_could_not_be_removed_is_said() {
    let mut env = environment(&[("solves", SOLVES)]);
    let engine = StandIn::start(&mut env);
    add_task(&env, "one", 600);
    engine.break_verb("rm", "125 device or resource busy");
    // The container that files are copied from has to go before there is a trial.
    run(&env, "solves", &["--set=bench.max_retries=0"]).expect(1);
    let message = expect_fault(&env, "solves", "sandbox", "ContainerEngineError");
    assert!(message.contains("device or resource busy"), "{message}");
    assert_eq!(engine.containers().len(), 1);

    engine.mend_verb("rm");
    let mut env = waiting();
    let engine = StandIn::start(&mut env);
    add_task(&env, "one", 600);
    let mut running = start(&env);
    engine.break_verb("rm", "125 device or resource busy");
    env.write("shared/go", "");
    running.wait().expect(0);
    let trial = trial_of(&env, "job", "waits");
    assert_eq!(trial["rewards"]["reward"], 1.0, "{trial:#}");
    let warnings: Vec<&Value> = trial["warnings"].as_array().unwrap().iter().collect();
    let said = warnings.iter().filter_map(|warning| warning.as_str());
    assert!(said.clone().any(|warning| warning.contains("could not be removed")), "{warnings:?}");
}
