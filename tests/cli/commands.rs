//! The other commands, as a new user tries them.

use std::fs;

use ralph_orchestrator_store::{Disk, Layout, Lock, Work};
use rustix::process::Signal;

use crate::environment::{TestEnvironment, eventually};
use crate::screen::Screen;

const DONE: &str = "<promise>COMPLETE: made it</promise>\n";

#[test]
fn help_and_usage() {
    let env = TestEnvironment::new();
    let help = env.ralph(&["--help"]).expect(0).stdout;
    for command in [
        "run",
        "status",
        "log",
        "why",
        "answer",
        "stop",
        "reset",
        "init",
        "doctor",
        "config",
        "agents",
        "completions",
    ] {
        assert!(help.contains(&format!("\n  {command} ")), "{command} in\n{help}");
    }
    env.ralph(&["--version"]).expect(0).says(env!("CARGO_PKG_VERSION"));
    env.ralph(&["rum"]).expect(64).says("run");
    env.ralph(&["run", "--max-iterations", "many"]).expect(64);
    env.ralph(&[]).expect(64);
}

#[test]
fn init_writes_a_configuration_that_is_right() {
    let env = TestEnvironment::new();
    env.ralph(&["init"]).expect(64).says("already exist").says("--force");
    fs::remove_file(env.path("ralph.toml")).unwrap();
    fs::remove_file(env.path("PROMPT.md")).unwrap();
    env.write("Cargo.toml", "");
    env.ralph(&["init"]).expect(0).says("cargo test");
    env.ralph(&["config", "check"]).expect(0).says(": ok");
    env.ralph(&["init", "--force", "--test", "make check"]).expect(0);
    assert!(env.read("ralph.toml").contains("program = [\"make\", \"check\"]"));
    env.ralph(&["init", "--force", "--test", "make check && true"]).expect(64).says("script");
}

#[test]
fn config_show_says_where_every_value_comes_from() {
    let mut env = TestEnvironment::new();
    env.var("RALPH_LIMITS__MAX_TOKENS", "1000");
    let shown = env.ralph(&["config", "show", "--set", "limits.max_failures=2"]).expect(0).stdout;
    let origin = |key: &str| {
        let line = shown.lines().find(|line| line.starts_with(key));
        line.unwrap_or_else(|| panic!("{key} in\n{shown}")).split('#').next_back().unwrap().trim()
    };
    assert_eq!(origin("limits.max_iterations"), "default");
    assert_eq!(origin("limits.max_tokens"), "RALPH_LIMITS__MAX_TOKENS");
    assert_eq!(origin("limits.max_failures"), "--set");
    assert!(origin("run.delay").contains("ralph.toml:3:9"), "{}", origin("run.delay"));
    let json = env.ralph(&["config", "show", "--json"]).expect(0).stdout;
    assert!(serde_json::from_str::<serde_json::Value>(&json).unwrap().is_array());
}

#[test]
fn status_before_during_and_after_says_the_same_as_everything_else() {
    let env = TestEnvironment::new();
    env.ralph(&["status"]).expect(0).says("no run");
    assert_eq!(env.status()["phase"], "none");
    let fifo = env.fifo("fifo");
    env.agent
        .call(1)
        .script(&format!("echo x > '{0}'; cat '{0}'; touch done\n", fifo.display()))
        .out(DONE);
    let mut running = env.start(&["run", "--json"]);
    fs::read(&fifo).unwrap();
    let during = env.status();
    assert_eq!(during["phase"], "running");
    assert_eq!((&during["iterations"], &during["latch"]["state"]), (&1.into(), &"open".into()));
    fs::write(&fifo, "go").unwrap();
    let events = running.wait().expect(0).events();
    let last = events.last().unwrap();
    assert_eq!(last["event"], "run_finished");
    let after = env.status();
    assert_eq!(after["phase"], "completed");
    assert_eq!(after["stop_reason"], last["stop_reason"]);
    // The agent reports none.
    let runs = env.ralph(&["runs", "--json"]).expect(0);
    let runs: serde_json::Value = serde_json::from_str(&runs.stdout).unwrap();
    for costs in [&after, last, &runs[0]] {
        assert_eq!(costs.get("cost_usd"), Some(&serde_json::Value::Null), "{costs}");
    }
    assert_eq!(last["cost_reported"], false);
    assert_eq!((&last["exit_code"], &last["stop_reason"]), (&0.into(), &"completed".into()));
    env.ralph(&["status"]).expect(0).says("completed").says("accepted after iteration 1");
    for key in ["run", "agent", "limits", "tokens", "runtime_s", "state_dir", "cost_estimated"] {
        assert!(!after[key].is_null(), "{key}");
    }
}

#[test]
fn run_json_prints_one_event_a_line_and_nothing_else() {
    let env = TestEnvironment::new();
    env.agent.call(1).out(format!("hello\n{DONE}"));
    env.agent.call(2).script("touch done\n");
    let events = env.ralph(&["run", "--json"]).expect(0).events();
    let names: Vec<&str> = events.iter().map(|event| event["event"].as_str().unwrap()).collect();
    for name in [
        "run_started",
        "iteration_started",
        "agent_text",
        "iteration_finished",
        "claim",
        "verdict",
        "run_finished",
    ] {
        assert!(names.contains(&name), "{name} in {names:?}");
    }
    for event in &events {
        assert!(event["time"].is_string() && event["run"].is_string(), "{event}");
    }
    let of = |name: &str| names.iter().position(|n| *n == name).unwrap();
    assert!(of("claim") < of("iteration_finished") && of("iteration_finished") < of("verdict"));
}

#[test]
fn once_stops_after_one_iteration() {
    let env = TestEnvironment::new();
    env.agent.default_call().script("echo $n > x\n");
    env.ralph(&["run", "--once"]).expect(0).says("once");
    assert_eq!(env.agent.calls(), 1);
    env.agent.default_call().rc(1);
    env.ralph(&["run", "--once"]).expect(1);
    env.agent.default_call().rc(0).script("touch done\n").out(DONE);
    env.ralph(&["run", "--once"]).expect(0).says("completed");
}

#[test]
fn dry_run_starts_nothing() {
    let env = TestEnvironment::new();
    let ended = env.ralph(&["run", "--dry-run"]).expect(0);
    ended.says("would run command").says("tests").says("PATH");
    assert_eq!(env.agent.calls(), 0);
    assert_eq!(env.status()["phase"], "none");
}

/// All that lies below a folder, with what files hold.
fn content(folder: &std::path::Path, all: &mut Vec<(std::path::PathBuf, Vec<u8>)>) {
    for entry in folder.read_dir().into_iter().flatten().flatten() {
        all.push((entry.path(), fs::read(entry.path()).unwrap_or_default()));
        content(&entry.path(), all);
    }
    all.sort();
}

#[test]
fn dry_run_leaves_nothing_in_the_state_directory() {
    let env = TestEnvironment::new();
    let states = || {
        let mut all = Vec::new();
        content(&env.root().join("home/.local/state/ralph-orchestrator"), &mut all);
        all
    };
    env.ralph(&["run", "--dry-run"]).expect(0);
    assert_eq!(states(), []);
    env.ralph(&["runs"]).expect(0).says("no run");
    env.ralph(&["run", "--dry-run", "--set", "agent.config.program=[\"nowhere\"]"]).expect(69);
    assert_eq!(states(), []);
    // Beside a run, unfinished or complete, too.
    env.agent.call(1).out("nothing yet\n");
    env.ralph(&["run", "--once"]).expect(0);
    let before = states();
    assert!(!before.is_empty());
    for args in [&["run", "--dry-run"][..], &["run", "--dry-run", "--restart"]] {
        env.ralph(args).expect(0).says("would run");
        assert!(states() == before, "{args:?}");
    }
}

#[test]
fn log_tells_what_happened_and_what_the_agent_read() {
    let env = TestEnvironment::new();
    env.ralph(&["log"]).expect(0).says("no run");
    env.agent.call(1).out(format!("first words \u{1b}[31mred\n{DONE}"));
    env.agent.call(2).script("touch done\n").out("second words\n");
    env.run().expect(0);
    env.ralph(&["log"]).expect(0).says("rejected: tests").says("COMPLETED");
    let first = env.ralph(&["log", "1"]).expect(0).stdout;
    assert!(first.contains("first words") && !first.contains('\u{1b}'), "{first:?}");
    let prompt = env.ralph(&["log", "2", "--prompt"]).expect(0).stdout;
    assert_eq!(prompt.into_bytes(), env.agent.stdin(2));
    env.ralph(&["log", "3"]).expect(64).says("no iteration 3");
    for line in env.ralph(&["log", "--json"]).expect(0).stdout.lines() {
        serde_json::from_str::<serde_json::Value>(line).unwrap();
    }
}

#[test]
fn reset_asks_first_and_forgets_only_the_runs() {
    let env = TestEnvironment::new();
    env.agent.default_call().script("touch done\n").out(DONE);
    env.run().expect(0);
    env.ralph(&["reset"]).expect(64).says("--yes");
    let mut screen = Screen::start(&env, &["reset"], 80, "xterm");
    screen.shows("undone. [y/N]");
    screen.press(b"n\r");
    screen.shows("nothing was deleted");
    assert_eq!(screen.wait(), Some(0));
    env.run().expect(0).says("already completed");
    env.ralph(&["reset", "--yes"]).expect(0).says("deleted 1 run of this configuration");
    assert_eq!(env.status()["phase"], "none");
    assert!(env.path("done").exists());
    env.run().expect(0);
    assert_eq!(env.agent.calls(), 2);
}

#[test]
fn a_reset_that_is_killed_leaves_no_damaged_state() {
    let env = TestEnvironment::new();
    env.agent.default_call().script("touch done\n").out(DONE);
    env.run().expect(0);
    let run = env.status()["run"].as_str().unwrap().to_owned();
    let large = env.state().join("runs").join(run).join("iterations/large");
    fs::create_dir(&large).unwrap();
    (0..20_000).for_each(|file| fs::write(large.join(file.to_string()), "").unwrap());
    let mut running = env.start(&["reset", "--yes"]);
    let begun = env.state().join("deletion.json");
    eventually("it has begun", || begun.exists() || running.child.try_wait().unwrap().is_some());
    running.signal(Signal::KILL);
    drop(running.wait());
    env.ralph(&["status"]).expect(0).says("no run");
    assert!(!env.state().join("key").exists() && !begun.exists());
    env.run().expect(0);
}

#[test]
fn stop_ends_runs_and_nothing_else_that_holds_a_state() {
    let env = TestEnvironment::new();
    env.agent.default_call().script("touch done\n").out(DONE);
    env.run().expect(0);
    // This process holds it: a signal would end the test.
    for (work, name) in
        [(Work::Reset, "`reset`"), (Work::Prune, "`runs prune`"), (Work::Rollback, "`rollback`")]
    {
        let held = Lock::take(&Disk::default(), &Layout::new(env.state()), work).unwrap();
        env.ralph(&["stop"]).expect(0).says("no run is active").says(name);
        env.ralph(&["run", "--restart"]).expect(75).says(name);
        drop(held);
    }
}

/// What an agent leaves in the workspace to have a command write elsewhere.
#[test]
fn no_command_writes_through_a_link_of_the_agent() {
    let env = TestEnvironment::new();
    let outside = env.root().join("outside");
    fs::create_dir(&outside).unwrap();
    for name in ["0001.json", "page.html"] {
        fs::write(outside.join(name), "mine").unwrap();
    }
    let kept = || {
        let entries = fs::read_dir(&outside).unwrap().map(|entry| entry.unwrap().path());
        entries.map(|path| fs::read_to_string(path).unwrap()).collect::<Vec<_>>()
            == ["mine", "mine"]
    };
    env.agent.default_call().script(&format!("ln -s '{}' out; touch done\n", outside.display()));
    env.agent.default_call().out(DONE);
    env.run().expect(0);
    for args in [
        &["export", "out"][..],
        &["export", "out/deep"],
        &["export", "--otlp", "out/trace.json"],
        &["report", "--html", "out/page.html"],
        &["man", "out"],
        &["plugin", "new", "mine", "--kind", "detector", "--path", "out/mine"],
        &["prompts", "eject", "coding", "--set", "prompts.paths=[\"out/{name}.md\"]"],
        &["-c", "out/ralph.toml", "init", "--no-run", "--goal", "x", "--", "true"],
    ] {
        env.ralph(args).expect(64).says("is a link, and an agent could have made it");
        assert!(kept(), "{args:?}");
    }
    // A file with its name gives way.
    std::os::unix::fs::symlink(outside.join("page.html"), env.path("page.html")).unwrap();
    env.ralph(&["report", "--html", "page.html"]).expect(0);
    fs::create_dir(env.path("transcripts")).unwrap();
    std::os::unix::fs::symlink(outside.join("0001.json"), env.path("transcripts/0001.json"))
        .unwrap();
    env.ralph(&["export", "transcripts"]).expect(0);
    assert!(kept() && env.path("transcripts/0001.json").symlink_metadata().unwrap().is_file());
}

#[test]
fn reset_keeps_and_names_the_runs_of_other_configurations() {
    let env = TestEnvironment::new();
    env.write("other.toml", env.read("ralph.toml"));
    env.ralph(&["run", "--once"]).expect(0);
    env.ralph(&["run", "--once", "--restart"]).expect(0);
    env.ralph(&["-c", "other.toml", "run", "--once"]).expect(0);
    let all = || env.ralph(&["runs", "--json"]).expect(0).events()[0].as_array().unwrap().len();
    assert_eq!(all(), 3);
    env.ralph(&["reset", "--yes"])
        .expect(0)
        .says("deleted 2 runs of this configuration")
        .says("the workspace is untouched; 1 run of other configurations kept (see `runs`)");
    assert_eq!(all(), 1);
    let help = env.ralph(&["reset", "--help"]).expect(0);
    help.says("Deleted: ").says("Kept: ").says("cannot be undone");
    env.ralph(&["reset", "--yes"]).expect(0).says("nothing to delete");
    env.ralph(&["reset", "--yes", "-c", "other.toml"]).expect(0).says("deleted 1 run");
    assert_eq!(all(), 0);
}

#[test]
fn doctor_and_agents() {
    let env = TestEnvironment::new();
    env.ralph(&["doctor"]).expect(0).says("ok    agent");
    fs::remove_file(env.agent.program()).unwrap();
    env.ralph(&["doctor"]).expect(69).says("FAIL  agent");
    env.run().expect(69).says("fake-agent");
    let agents = env.ralph(&["agents"]).expect(0);
    agents.says("claude-cli").says("claude-sdk").says("hand-off").says("command").says("replay");
    env.ralph(&["completions", "bash"]).expect(0).says("ralph-orchestrator");
}

#[test]
fn a_named_agent_and_a_clean_environment() {
    let mut env = TestEnvironment::new();
    let agent = env.agent.program().display().to_string();
    env.config(&format!(
        "\n[agents.other]\nadapter = \"command\"\nunmetered = true\n[agents.other.config]\n\
         program = [\"{agent}\", \"--other\"]\n[env]\npass = [\"PASSED\"]\nset = {{ TZ = \"UTC\" }}\n"
    ));
    env.var("PASSED", "yes");
    env.var("SECRET", "no");
    env.agent.default_call().script("touch done\n").out(DONE);
    env.ralph(&["run", "--agent", "other"]).expect(0);
    assert_eq!(env.agent.argv(1), ["--other"]);
    let seen = env.agent.env(1);
    assert_eq!((seen["PASSED"].as_str(), seen["TZ"].as_str()), ("yes", "UTC"));
    assert!(!seen.contains_key("SECRET"));
    env.ralph(&["run", "--restart", "--agent", "othr"]).expect(78).says("other");
}
