//! Controls of a run that works on a backlog.

use std::fs;

use rustix::process::Signal;

use crate::backlog::{CLAIM, feature, features, statuses};
use crate::environment::{Running, TestEnvironment};

/// Two items; the agent of the first one works until the gate is opened.
fn in_the_first_item() -> (TestEnvironment, Running, std::path::PathBuf) {
    let env = features(&[feature("one", 1, &[]), feature("two", 2, &[])]);
    let (up, gate) = (env.fifo("up"), env.fifo("gate"));
    let script =
        format!("echo > '{}'; cat '{}'\n{}", up.display(), gate.display(), crate::backlog::WORK);
    env.agent.call(1).script(&script).out(CLAIM);
    let running = env.start(&["run", "--json"]);
    fs::read(&up).unwrap();
    (env, running, gate)
}

#[test]
fn a_pause_holds_although_its_item_completes() {
    let (env, mut running, gate) = in_the_first_item();
    env.ralph(&["pause"]).expect(0).says("pausing after iteration 1");
    fs::write(&gate, "").unwrap();
    running.prints("\"event\":\"pause_began\"");
    assert_eq!(env.agent.calls(), 1, "no further item begins");
    env.ralph(&["resume"]).expect(0).says("the pause is over");
    running.wait().expect(0);
    assert!(statuses(&env).iter().all(|(_, status)| status == "completed"), "{:?}", statuses(&env));
}

#[test]
fn a_pause_beyond_an_item_survives_a_kill() {
    let (env, mut running, gate) = in_the_first_item();
    env.ralph(&["pause"]).expect(0);
    fs::write(&gate, "").unwrap();
    running.prints("\"event\":\"pause_began\"");
    running.signal(Signal::KILL);
    running.wait();
    let mut again = env.start(&["run", "--json"]);
    again.prints("\"event\":\"pause_began\"");
    assert_eq!(env.agent.calls(), 1, "no further item begins");
    env.ralph(&["stop"]).expect(0);
    again.wait().expect(143);
    env.ralph(&["resume"]).expect(0).says("the pause is over");
    env.run().expect(0);
    assert_eq!(env.agent.calls(), 2);
}

#[test]
fn guidance_reaches_the_item_that_is_worked_on() {
    let (env, mut running, gate) = in_the_first_item();
    env.agent.call(1).out("not yet\n");
    env.ralph(&["steer", "look at the parser"]).expect(0).says("queued: this goes");
    fs::write(&gate, "").unwrap();
    running.wait().expect(0);
    let prompt = |call| String::from_utf8(env.agent.stdin(call)).unwrap();
    assert!(prompt(2).contains("look at the parser"), "{}", prompt(2));
    assert!(!prompt(3).contains("look at the parser"), "{}", prompt(3));
}
