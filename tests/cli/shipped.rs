//! What a stranger tries first: the `ralph.toml` of this repository.

use std::fs;
use std::path::Path;
use std::process::Command;

use crate::environment::TestEnvironment;

/// The repository as a clone has it, as far as `ralph.toml` needs it.
fn clone() -> TestEnvironment {
    let env = TestEnvironment::new();
    let repository = Path::new(env!("CARGO_MANIFEST_DIR"));
    fs::remove_file(env.path("PROMPT.md")).unwrap();
    fs::copy(repository.join("ralph.toml"), env.path("ralph.toml")).unwrap();
    let copied = Command::new("cp")
        .arg("-r")
        .args([repository.join("examples"), env.path("examples")])
        .status()
        .unwrap();
    assert!(copied.success());
    fs::create_dir(env.path("target")).unwrap();
    env
}

#[test]
fn the_recorded_agent_is_refused_once_and_then_accepted() {
    let env = clone();
    let ended = env.ralph(&["run", "-c", "ralph.toml"]).expect(0);
    ended
        .says("rejected by evidence-files")
        .says("rejected by tests")
        .says("completed: 2 iterations");
    let status = env.status();
    assert_eq!((&status["cost_usd"], &status["latch"]["rejections"]), (&0.0.into(), &1.into()));
    env.ralph(&["run", "-c", "ralph.toml"]).expect(0).says("no agent was started");
    let log = env.ralph(&["log", "2", "--prompt"]).expect(0).stdout;
    assert!(log.starts_with("Your claim that the task is complete was checked and REJECTED:"));
}

#[test]
fn the_demo_can_be_run_any_number_of_times() {
    let env = clone();
    env.ralph(&["run", "-c", "ralph.toml"]).expect(0);
    for _ in 0..2 {
        env.ralph(&["run", "-c", "ralph.toml", "--restart"])
            .expect(0)
            .says("rejected by tests")
            .says("completed: 2 iterations");
    }
}

#[test]
fn one_line_switches_to_claude() {
    let env = clone();
    let text = env.read("ralph.toml");
    let lines: Vec<&str> = text.lines().filter(|line| !line.starts_with("agent = ")).collect();
    let switched = lines.join("\n").replace("# agent = ", "agent = ");
    assert!(switched.contains("claude-cli"));
    env.write("ralph.toml", switched);
    env.ralph(&["config", "check"]).expect(0);
    let shown = env.ralph(&["config", "show"]).expect(0).stdout;
    assert!(shown.contains("agent.adapter = \"claude-cli\""), "{shown}");
}

#[test]
fn the_editor_line_points_to_the_schema() {
    let repository = Path::new(env!("CARGO_MANIFEST_DIR"));
    let text = fs::read_to_string(repository.join("ralph.toml")).unwrap();
    let schema = text.lines().next().unwrap().strip_prefix("#:schema ").unwrap();
    assert!(repository.join(schema).is_file());
}
