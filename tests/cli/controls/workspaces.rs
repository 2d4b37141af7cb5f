//! Runs of all workspaces, reached from anywhere, and deleted when they are old.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

use rustix::process::Signal;
use serde_json::Value;

use super::{Moment, Scene};
use crate::environment::{Ended, Running, TestEnvironment};

/// A folder that belongs to no workspace.
fn elsewhere(env: &TestEnvironment) -> PathBuf {
    let folder = env.root().join("elsewhere");
    fs::create_dir_all(&folder).unwrap();
    folder
}

/// Runs a command in another folder.
#[track_caller]
fn in_folder(env: &TestEnvironment, folder: &Path, args: &[&str]) -> Ended {
    let mut command = env.command(args);
    command.current_dir(folder);
    let child = command.stdout(std::process::Stdio::piped()).stderr(std::process::Stdio::piped());
    Running::new(child.spawn().unwrap()).wait()
}

fn listed(env: &TestEnvironment) -> Vec<Value> {
    let ended = in_folder(env, &elsewhere(env), &["runs", "--json"]).expect(0);
    serde_json::from_str(&ended.stdout).unwrap()
}

fn run_of(env: &TestEnvironment) -> String {
    env.status()["run"].as_str().unwrap().to_owned()
}

#[test]
fn every_workspace_is_listed_where_there_is_no_configuration() {
    let mut scene = Scene::at(Moment::BeforeTheFirstRun);
    let empty = in_folder(&scene.env, &elsewhere(&scene.env), &["runs"]);
    empty.expect(0).says("no run of this user yet");
    for (moment, phase, waits_for) in [
        (Moment::InAnIteration, "running", Value::Null),
        (Moment::InAPause, "paused", "`resume`".into()),
        (Moment::WhenComplete, "completed", Value::Null),
        (Moment::AfterAKill, "interrupted", "`run`".into()),
    ] {
        scene = Scene::at(moment);
        let rows = listed(&scene.env);
        assert_eq!(rows.len(), 1, "{rows:?}");
        let row = &rows[0];
        assert_eq!((&row["phase"], &row["waits_for"]), (&phase.into(), &waits_for), "{row}");
        assert_eq!(row["workspace"], scene.env.workspace().display().to_string());
        assert!(row["since"].is_string() && row["iterations"].as_u64() >= Some(1), "{row}");
        assert_eq!(row["pid"].is_null(), scene.running.is_none());
        // In a project as well, if that is asked for.
        scene.env.ralph(&["runs", "--all"]).expect(0).says("WAITS FOR").says(phase);
    }
    scene.running = None;
}

#[test]
fn another_workspace_is_listed_and_a_damaged_one_hides_none() {
    let scene = Scene::at(Moment::WhenComplete);
    let env = &scene.env;
    let state = env.state();
    // The same as another one, of a workspace that is gone.
    let copy = state.with_file_name("other-000000000000");
    let copied = std::process::Command::new("cp").arg("-r").arg(&state).arg(&copy).status();
    assert!(copied.unwrap().success());
    let owner = fs::read_to_string(copy.join("owner.json")).unwrap();
    let gone = env.root().join("gone");
    let owner = owner.replace(&env.workspace().display().to_string(), &gone.display().to_string());
    fs::write(copy.join("owner.json"), owner).unwrap();
    fs::write(copy.join("latch"), "nonsense\n").unwrap();
    let rows = listed(env);
    let phases: Vec<_> = rows.iter().map(|row| row["phase"].as_str().unwrap()).collect();
    assert_eq!(phases, ["completed", "damaged"]);
    assert!(rows[1]["waits_for"].as_str().unwrap().contains("latch"), "{}", rows[1]);
}

#[test]
fn a_run_is_reached_by_its_workspace_or_its_id_from_anywhere() {
    let mut scene = Scene::at(Moment::InAnIteration);
    let (env, folder) = (&scene.env, elsewhere(&scene.env));
    let workspace = env.workspace().display().to_string();
    let id = run_of(env);
    let at = |args: &[&str]| in_folder(env, &folder, args);
    at(&["status"]).expect(78).says("could not find");
    at(&["-w", &workspace, "status"]).expect(0).says("running: iteration 1 (pid").says(&id);
    at(&["-w", id.split_at(18).0, "steer", "from elsewhere"]).expect(0).says("queued");
    at(&["pause", "-w", "../w"]).expect(0).says("pausing after iteration 1");
    at(&["-w", &workspace, "resume"]).expect(0).says("the pause is over");
    at(&["-w", &workspace, "limits"]).expect(0).says("max_cost_usd");
    at(&["-w", &workspace, "log"]).expect(0).says("pause ended by");
    let goal = ["run", "--goal", "x", "--check", "test -e done", "--", "true"];
    let other = env.root().join("other");
    fs::create_dir_all(&other).unwrap();
    in_folder(env, &other, &[&goal[..3], &["--max-iterations", "1"], &goal[3..]].concat())
        .expect(1);
    let without_file = at(&["-w", "../other", "status"]).expect(0);
    without_file.says("stopped (max_iterations)");
    let workspace_of_other = other.display().to_string();
    let hint = at(&["-w", "../other", "steer", "y"]).expect(0);
    hint.says(&format!("`ralph-orchestrator -w {workspace_of_other} run` resumes"));
    at(&["-w", "nowhere", "status"]).expect(64).says("no run is known in").says("runs --all");
    at(&["-w", "ffffffff", "status"]).expect(64).says("by the id `ffffffff`");
    at(&["-w", &workspace, "-c", "x.toml", "status"]).expect(64).says("cannot be used with");
    at(&["-w", &workspace, "completions", "bash"]).expect(64).says("-w has no effect");
    scene.release();
    scene.ends(0);
    assert!(scene.prompt(2).contains("from elsewhere"));
}

#[test]
fn a_run_whose_configuration_is_gone_is_listed_and_reached() {
    let scene = Scene::at(Moment::WhenComplete);
    let env = &scene.env;
    fs::remove_file(env.path("ralph.toml")).unwrap();
    let workspace = env.workspace().display().to_string();
    let ended = in_folder(env, &elsewhere(env), &["-w", &workspace, "status"]).expect(0);
    ended.says("completed");
    assert_eq!(listed(env)[0]["phase"], "completed");
    let id = run_of(env);
    fs::rename(env.workspace(), env.root().join("elsewhere/gone")).unwrap();
    let folder = elsewhere(env);
    fs::remove_dir_all(folder.join("gone")).unwrap();
    for (command, says) in [("status", "completed"), ("why", "completed"), ("log", "COMPLETED")] {
        in_folder(env, &folder, &["-w", &id, command]).expect(0).says(says);
    }
}

#[test]
fn an_earlier_run_is_not_controlled_by_its_id() {
    let scene = Scene::at(Moment::WhenComplete);
    let env = &scene.env;
    let first = run_of(env);
    env.ralph(&["run", "--restart"]).expect(0);
    let ended = in_folder(env, &elsewhere(env), &["-w", &first, "steer", "x"]).expect(64);
    ended.says("is an earlier one of").says("status --run ID");
}

/// Three runs that completed; the ids of the earlier two, the newer one first.
fn three_runs() -> (Scene, Vec<String>) {
    let scene = Scene::at(Moment::WhenComplete);
    let mut ids = vec![run_of(&scene.env)];
    for _ in 0..2 {
        scene.env.ralph(&["run", "--restart"]).expect(0);
        ids.insert(0, run_of(&scene.env));
    }
    ids.remove(0);
    (scene, ids)
}

fn folders(env: &TestEnvironment) -> usize {
    fs::read_dir(env.state().join("runs")).unwrap().count()
}

#[test]
fn prune_deletes_old_runs_and_never_the_current_one() {
    let (scene, earlier) = three_runs();
    let env = &scene.env;
    env.ralph(&["runs", "prune"]).expect(64).says("give --older-than, --keep, or both");
    env.ralph(&["runs", "prune", "--older-than", "x"]).expect(64).says("expected a duration");
    env.ralph(&["runs", "prune", "--older-than", "1h"]).expect(0).says("nothing to delete");
    let dry = env.ralph(&["runs", "prune", "--keep", "0", "--dry-run"]).expect(0);
    dry.says(&earlier[0]).says(&earlier[1]).says("2 runs, ").says("would be deleted");
    assert_eq!(folders(env), 3);
    let kept = env.ralph(&["runs", "prune", "--keep", "1", "--json"]).expect(0);
    let rows: Value = serde_json::from_str(&kept.stdout).unwrap();
    assert_eq!(rows.as_array().unwrap().len(), 1);
    assert_eq!((&rows[0]["run"], &rows[0]["deleted"]), (&earlier[1].as_str().into(), &true.into()));
    env.ralph(&["runs", "prune", "--keep", "0", "--older-than", "0s"]).expect(0).says("1 run, ");
    assert_eq!(folders(env), 1);
    assert_eq!(env.status()["phase"], "completed");
    env.run().expect(0).says("already completed");
}

#[test]
fn prune_leaves_alone_what_is_active_or_has_not_ended() {
    let mut scene = Scene::at(Moment::AfterAKill);
    let killed = run_of(&scene.env);
    scene.env.agent.call(2).script("true\n").rc(1);
    scene.env.ralph(&["run", "--restart", "--once"]);
    let prune = ["runs", "prune", "--keep", "0"];
    scene.env.ralph(&prune).expect(0).says("nothing to delete");
    assert!(scene.env.state().join("runs").join(&killed).exists(), "it was killed, not ended");
    let (other, earlier) = three_runs();
    let env = &other.env;
    let (up, gate) = (env.fifo("up"), env.fifo("gate"));
    fs::remove_file(env.path("done")).unwrap();
    let calls = env.agent.calls();
    let script = format!("echo > '{}'; cat '{}'; touch done\n", up.display(), gate.display());
    env.agent.call(calls + 1).script(&script);
    let running = env.start(&["run", "--restart"]);
    fs::read(&up).unwrap();
    env.ralph(&prune).expect(0).says("left alone, since a run is active").says("nothing to delete");
    assert!(env.state().join("runs").join(&earlier[0]).exists());
    running.signal(Signal::KILL);
    scene.running = None;
}

#[test]
fn prune_follows_no_link_and_refuses_a_state_without_its_latch() {
    let (scene, earlier) = three_runs();
    let env = &scene.env;
    env.write("precious/file", "mine");
    let run = env.state().join("runs").join(&earlier[0]);
    symlink(env.path("precious"), run.join("link")).unwrap();
    // A whole run that is a link elsewhere.
    let moved = env.root().join("moved");
    let other = env.state().join("runs").join(&earlier[1]);
    fs::rename(&other, &moved).unwrap();
    symlink(&moved, &other).unwrap();
    let latch = env.state().join("latch");
    let text = fs::read(&latch).unwrap();
    fs::remove_file(&latch).unwrap();
    env.ralph(&["runs", "prune", "--keep", "0"]).expect(65).says("the latch is gone");
    assert!(run.exists());
    fs::write(&latch, text).unwrap();
    env.ralph(&["runs", "prune", "--keep", "0"]).expect(0);
    assert!(!run.exists());
    assert_eq!(env.read("precious/file"), "mine");
    assert!(moved.join("config.toml").exists(), "what a link leads to is not deleted");
}
