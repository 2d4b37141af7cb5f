//! The real agents with the hooks in their settings, and a model on loopback.

use std::process::Command;

use ralph_orchestrator_testkit::model_server::{ModelServer, Script, Turn};

use super::CONFIG;
use crate::environment::TestEnvironment;
use crate::real::Real;

const GOAL: &str = "write done.txt";
const WORK: &str = "echo yes > done.txt";

fn environment(agent: Real, model: &ModelServer) -> TestEnvironment {
    let env = agent.environment(model, "");
    env.write("ralph.toml", CONFIG);
    env.write("check.sh", "test -f done.txt || { echo 'done.txt is missing'; exit 1; }\n");
    env
}

/// Runs an agent to its end.
fn finish(mut command: Command) -> String {
    let output = command.stdin(std::process::Stdio::null()).output().unwrap();
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let problems = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{}\n{text}\n{problems}", output.status);
    text
}

#[test]
fn claude_stops_too_early_does_the_work_and_is_let_go() {
    let server = ModelServer::scripted(
        Script::new()
            .then(Turn::text("All done!"))
            .then(Turn::shell(WORK))
            .then(Turn::text("Now it is.")),
    );
    let env = environment(Real::ClaudeCli, &server);
    let settings = env.root().join("home/.claude/settings.json");
    let before = std::fs::read(&settings).ok();
    env.ralph(&["hook", "install", "claude", "--yes"]).expect(0);
    env.ralph(&["hook", "arm", GOAL]).expect(0);
    finish(Real::ClaudeCli.alone(&env, "Write the file."));
    let requests = server.main_requests();
    assert_eq!(requests.len(), 3);
    assert!(requests[0].body.to_string().contains("The goal of this session: write done.txt"));
    assert!(requests[1].body.to_string().contains("done.txt is missing"));
    assert_eq!(env.status()["latch"]["state"], "completed");
    assert_eq!(env.status()["latch"]["rejections"], 1);
    // What the first stop was preceded by was counted, too.
    assert!(env.status()["tokens"]["output"].as_u64().unwrap() > 0, "{}", env.status());
    env.ralph(&["hook", "remove", "claude", "--yes"]).expect(0);
    assert_eq!(std::fs::read(&settings).ok(), before);
}

#[test]
fn claude_is_blocked_more_often_than_it_would_allow_by_itself() {
    let server = ModelServer::scripted(Script::new().forever(Turn::text("All done!")));
    let env = environment(Real::ClaudeCli, &server);
    env.ralph(&["hook", "install", "claude", "--yes"]).expect(0);
    env.ralph(&["hook", "arm", GOAL, "--max-blocks", "11"]).expect(0);
    finish(Real::ClaudeCli.alone(&env, "Write the file."));
    // Its own limit is 8.
    assert_eq!(server.main_requests().len(), 12);
    let status = env.status();
    assert_eq!((&status["latch"]["state"], &status["iterations"]), (&"claimed".into(), &12.into()));
}

#[test]
fn codex_stops_too_early_does_the_work_and_is_let_go() {
    let server = ModelServer::scripted(
        Script::new()
            .then(Turn::text("All done!"))
            .then(Turn::shell(WORK))
            .then(Turn::text("Now it is.")),
    );
    let env = environment(Real::Codex, &server);
    env.ralph(&["hook", "install", "codex", "--yes"]).expect(0);
    env.ralph(&["hook", "arm", GOAL]).expect(0);
    let mut command = Real::Codex.alone(&env, "Write the file.");
    // Otherwise a person has to trust the hooks first.
    command.arg("--dangerously-bypass-hook-trust");
    finish(command);
    let requests = server.main_requests();
    assert_eq!(requests.len(), 3);
    assert!(requests[1].body["input"].to_string().contains("done.txt is missing"));
    assert_eq!(env.status()["latch"]["state"], "completed");
    env.ralph(&["hook", "remove", "codex", "--yes"]).expect(0);
    assert!(!env.root().join("home/.codex/hooks.json").exists());
}
