//! Guidance that reaches a session that goes on, with the real `claude` against a model on loopback.

use std::fs;
use std::path::PathBuf;

use ralph_orchestrator_testkit::model_server::{ModelServer, Script, Turn};
use rustix::process::Signal;
use serde_json::json;

use crate::environment::{Running, TestEnvironment};
use crate::real::Real;

const GUIDANCE: &str = "look at the parser first";

/// A run in a tool that has written to `runs` and waits for `go`.
struct Scene {
    env: TestEnvironment,
    server: ModelServer,
    running: Running,
    runs: PathBuf,
    go: PathBuf,
}

/// The agent goes on with the turns of `then`, which is given the command that waits.
fn in_a_tool(then: impl FnOnce(&str) -> Vec<Turn>) -> Scene {
    let check = "[[validator]]\nkind = \"command\"\nname = \"tests\"\nprogram = [\"test\", \"-e\", \"done\"]\n";
    let mut env = Real::ClaudeSdk.environment(&ModelServer::scripted(Script::new()), check);
    let (runs, go) = (env.fifo("runs"), env.fifo("go"));
    let wait = format!("echo > {}; cat {}", runs.display(), go.display());
    let script = then(&wait).into_iter().fold(Script::new().then(shell(&wait)), Script::then);
    let server = ModelServer::scripted(script);
    Real::ClaudeSdk.ask(&mut env, &server);
    let mut running = env.start(&["run", "--json"]);
    fs::read(&runs).unwrap();
    env.ralph(&["steer", GUIDANCE]).expect(0);
    running.prints("\"event\":\"control_received\"");
    assert_eq!(env.status()["guidance"][0]["state"], "queued");
    Scene { env, server, running, runs, go }
}

fn shell(command: &str) -> Turn {
    Turn::tool("Bash", &json!({"command": command, "description": "work"}))
}

#[test]
fn a_session_that_calls_a_tool_is_given_guidance_at_once() {
    let claim = Turn::text("<promise>COMPLETE: made it</promise>");
    let scene = in_a_tool(|_| vec![shell("touch done"), claim]);
    let Scene { env, server, mut running, go, .. } = scene;
    fs::write(go, "").unwrap();
    running.prints("\"event\":\"guidance_delivered\"");
    running.wait().expect(0);
    let requests = server.main_requests();
    assert_eq!(requests.len(), 3, "one session");
    assert!(!requests[1].body["messages"].to_string().contains(GUIDANCE), "too early");
    assert!(requests[2].body["messages"].to_string().contains(GUIDANCE));
    let status = env.status();
    assert_eq!((&status["phase"], &status["iterations"]), (&"completed".into(), &1.into()));
    assert_eq!(status["guidance"][0]["state"], "seen", "{status}");
    assert_eq!(status["guidance"][0]["iteration"], 1);
    env.ralph(&["log"]).expect(0).says("guidance delivered to the running agent");
}

#[test]
fn guidance_of_a_session_that_was_killed_is_in_the_next_prompt() {
    let scene = in_a_tool(|wait| vec![shell(&format!("touch done; {wait}"))]);
    let Scene { mut env, server, mut running, runs, go } = scene;
    fs::write(&go, "").unwrap();
    running.prints("\"event\":\"guidance_delivered\"");
    fs::read(&runs).unwrap();
    assert_eq!(env.status()["guidance"][0]["state"], "delivered");
    running.signal(Signal::KILL);
    running.wait();
    assert_eq!(server.main_requests().len(), 2);
    let claim = Turn::text("<promise>COMPLETE: made it</promise>");
    let server = ModelServer::scripted(Script::new().then(claim));
    Real::ClaudeSdk.ask(&mut env, &server);
    env.run().expect(0);
    let prompt = server.main_requests()[0].body["messages"][0].to_string();
    assert!(prompt.contains(GUIDANCE), "{prompt}");
    assert_eq!(env.status()["guidance"][0]["state"], "seen");
}
