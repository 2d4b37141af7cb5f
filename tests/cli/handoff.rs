//! `[handoff]`: an iteration ends in good order before its context is full.

use ralph_orchestrator_contract::Tokens;
use ralph_orchestrator_testkit::model_server::{ModelServer, Script, Turn};
use rustix::process::Signal;

use crate::environment::{TestEnvironment, eventually, of_run};
use crate::git::{committed, git};
use crate::real::Real;

/// A real agent whose first turn fills three quarters of its context and then waits for ever.
fn hands_off(real: Real) {
    let pipe = tempfile::TempDir::new().unwrap();
    let gate = pipe.path().join("gate");
    assert!(std::process::Command::new("mkfifo").arg(&gate).status().unwrap().success());
    let work = format!("echo half > work.txt; cat '{}'", gate.display());
    let full = Tokens { input: 150_000, output: 10, ..Tokens::default() };
    let server = ModelServer::scripted(
        Script::new()
            .then(Turn::shell(&work).usage(full))
            .then(Turn::shell("touch done"))
            .then(Turn::text("Done.\n\n<promise>COMPLETE: it is done</promise>")),
    );
    let env = real.environment(
        &server,
        "[[validator]]\nkind = \"command\"\nprogram = [\"test\", \"-e\", \"done\"]\n\
         [handoff]\nat = 0.7\n",
    );
    env.run().expect(0).says("iteration 1 handed off");
    let status = env.status();
    assert_eq!((status["iterations"].as_u64(), status["failures"].as_u64()), (Some(2), Some(0)));
    let notes = env.records("note");
    assert!(notes[0]["text"].as_str().unwrap().contains("75.0 % of its context"), "{notes:?}");
}

#[test]
fn claude_is_handed_off_at_the_share_of_its_context() {
    hands_off(Real::ClaudeCli);
}

#[test]
fn an_agent_without_a_context_is_handed_off_after_its_time() {
    let env = committed("handoff");
    env.config("[git]\ncommit = \"handoff\"\n[handoff]\nat = 0.7\nafter = \"1s\"\n");
    let gate = env.fifo("gate");
    env.agent.call(1).script(&format!("echo half > work.txt; cat '{}'\n", gate.display()));
    env.agent.call(2).script("touch done\n").out("<promise>COMPLETE: made it</promise>\n");
    // Never written to: the agent waits until it is ended.
    let hold = std::fs::OpenOptions::new().read(true).write(true).open(&gate).unwrap();
    let ended = env.run().expect(0);
    drop(hold);
    ended.says("iteration 1 handed off");
    assert_eq!(env.status()["failures"], 0);
    let ends = env.records("iteration_ended");
    assert_eq!(ends[0]["outcome"]["reason"], "handoff");
    let notes = env.records("note");
    assert_eq!(notes.len(), 1);
    assert!(notes[0]["text"].as_str().unwrap().starts_with("Hand-off: iteration 1 was ended"));
    let prompt = String::from_utf8(env.agent.stdin(2)).unwrap();
    assert!(prompt.contains("Hand-off: iteration 1 was ended"), "{prompt}");
    let commits = git(&env, &["log", "--format=%s", "main"]);
    assert_eq!(commits, "wip: Add work.txt - iteration 1 handoff\nfirst");
    let kinds: Vec<String> =
        env.journal().iter().map(|record| record["kind"].as_str().unwrap().to_owned()).collect();
    let at = |kind: &str| kinds.iter().position(|other| other == kind).unwrap();
    let saved = kinds.iter().enumerate().filter(|(_, kind)| *kind == "saved").nth(1).unwrap().0;
    assert!(at("cancelling") < at("iteration_ended") && at("iteration_ended") < saved);
    assert!(saved < at("note"), "commit, then note: {kinds:?}");
}

#[test]
fn the_doctor_says_which_bound_applies() {
    let env = TestEnvironment::new();
    assert!(!env.ralph(&["doctor"]).stdout.contains("handoff"));
    env.config("[handoff]\nat = 0.7\n");
    env.ralph(&["doctor"]).says("does not report its context").says("handoff.after");
    env.config("[handoff]\nat = 0.7\nafter = \"20m\"\n");
    env.ralph(&["doctor"]).says("after 20m");
    env.config("[handoff]\nat = 1.5\n");
    env.ralph(&["config", "check"]).expect(78).says("handoff.at").says("below 1");
}

/// Hands off the first iteration, and kills the orchestrator at the record of this kind.
fn killed_at(kind: &str) {
    let env = committed("handoff");
    env.config("[git]\ncommit = \"handoff\"\n[handoff]\nafter = \"1s\"\n");
    let gate = env.fifo("gate");
    let hold = std::fs::OpenOptions::new().read(true).write(true).open(&gate).unwrap();
    env.agent.call(1).script(&format!("echo half > work.txt; cat '{}'\n", gate.display()));
    env.agent.call(2).script("touch done\n").out("<promise>COMPLETE: made it</promise>\n");
    let mut running = env.start(&["run"]);
    let wanted = format!("\"kind\":\"{kind}\",\"iteration\":1");
    let wanted = if kind == "cancelling" { "\"kind\":\"cancelling\"".to_owned() } else { wanted };
    eventually("the record", || {
        env.has_state()
            && std::fs::read_dir(env.state().join("runs"))
                .is_ok_and(|mut runs| runs.next().is_some())
            && std::fs::read_to_string(env.journal_path()).is_ok_and(|text| text.contains(&wanted))
    });
    running.signal(Signal::KILL);
    running.wait();
    env.run().expect(0);
    drop(hold);
    let ends = env.records("iteration_ended");
    let is_handed_off = ends[0]["outcome"]["reason"] == "handoff";
    assert!(is_handed_off || kind == "cancelling", "{kind}: {ends:?}");
    let expected = usize::from(is_handed_off);
    assert_eq!(env.records("note").len(), expected, "notes after a kill at {kind}");
    let commits = git(&env, &["log", "--format=%s", "main"]);
    assert_eq!(commits.matches("iteration 1 handoff").count(), expected, "{kind}: {commits}");
    assert!(of_run(&env.root()).is_empty(), "{kind}");
}

#[test]
fn kill_9_at_each_step_finishes_the_hand_off_once() {
    for kind in ["cancelling", "iteration_ended", "observed", "saved", "note"] {
        killed_at(kind);
    }
}
