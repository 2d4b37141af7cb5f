//! `RALPH_PLUGIN_ATTACH`: a plugin that its author has started, and that listens on a socket.

use std::fs;
use std::io::{BufRead as _, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use crate::environment::TestEnvironment;

/// A plugin that was started by its author; it ends with this.
struct Listener {
    child: Child,
    socket: PathBuf,
}

impl Listener {
    fn start(env: &TestEnvironment) -> Self {
        let socket = env.root().join("plugin.sock");
        let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/cli/plugins/listen.py");
        let mut command = Command::new("python3");
        command.arg(script).arg(&socket).arg("plugin.py").current_dir(env.path(""));
        let mut child = command.stdout(Stdio::piped()).spawn().unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
        assert_eq!(line, "listening\n");
        Self { child, socket }
    }

    fn variable(&self) -> String {
        format!("python={}", self.socket.display())
    }
}

impl Drop for Listener {
    fn drop(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }
}

/// The example of a program, whose command in `ralph.toml` would fail if it were started.
fn example() -> TestEnvironment {
    let env = TestEnvironment::new();
    let from = Path::new(env!("CARGO_MANIFEST_DIR")).join("examples/process-plugin");
    for name in ["plugin.py", "bot.sh", "ralph.toml", "template/notes.md"] {
        env.write(name, fs::read(from.join(name)).unwrap());
    }
    let config = env.read("ralph.toml").replace("[\"python3\", \"plugin.py\"]", "[\"false\"]");
    env.write("ralph.toml", config);
    env
}

#[test]
fn a_run_connects_to_it_and_says_so_and_starts_nothing() {
    let mut env = example();
    env.run().expect(78);
    let listener = Listener::start(&env);
    env.var("RALPH_PLUGIN_ATTACH", &listener.variable());
    let note = "the plugin `python` is attached at ";
    env.ralph(&["plugin", "check", "python"]).expect(0).says(note).says("attached, not started");
    env.run().expect(0).says(note).says("completed: 2 iterations");
    assert!(!env.read("work/notes.md").contains("TODO"));
    drop(listener);
    env.ralph(&["plugin", "check", "python"]).expect(69).says("cannot attach at ");
}

#[test]
fn another_start_without_it_does_not_go_on_with_another_content() {
    let mut env = example();
    let listener = Listener::start(&env);
    env.var("RALPH_PLUGIN_ATTACH", &listener.variable());
    env.ralph(&["run", "--max-iterations", "1"]).expect(1);
    env.var("RALPH_PLUGIN_ATTACH", "");
    let config = env.read("ralph.toml").replace("[\"false\"]", "[\"python3\", \"plugin.py\"]");
    env.write("ralph.toml", config);
    env.run().expect(65).says("another content of the plugin behind `python`");
}

#[test]
fn what_a_run_has_started_is_refused_it() {
    let env = TestEnvironment::new();
    env.write("plugin.py", "");
    env.config("[plugins.python]\ncommand = [\"cat\"]\n[limits]\nmax_iterations = 1\n");
    let program = crate::environment::tested_program().display();
    env.agent.default_call().script(&format!(
        "RALPH_PLUGIN_ATTACH=python=/tmp/x.sock '{program}' plugin list > said 2>&1; echo $? > status\n"
    ));
    env.run().expect(1);
    assert_eq!(env.read("status"), "64\n", "{}", env.read("said"));
    assert!(
        env.read("said").contains("is refused to what a run has started"),
        "{}",
        env.read("said")
    );
}

#[test]
fn mistakes_are_named() {
    let mut env = example();
    let mut said = |value: &str, change: (&str, &str), code: i32| {
        let config = env.read("ralph.toml");
        env.write("ralph.toml", config.replace(change.0, change.1));
        env.var("RALPH_PLUGIN_ATTACH", value);
        let ended = env.ralph(&["plugin", "list"]).expect(code);
        env.write("ralph.toml", config);
        ended
    };
    for value in ["python", "=/x", "python=x.sock"] {
        said(value, ("", ""), 64).says("expected NAME=SOCKET");
    }
    said("other=/x", ("", ""), 69).says("names `other`, which is no plugin here");
    let pinned = format!("command = [\"false\"]\ndigest = \"{}\"", "0".repeat(64));
    said("python=/x", ("command = [\"false\"]", &pinned), 78).says("leave it out while you debug");
    let library = "library = \"x.so\"";
    said("python=/x", ("command = [\"false\"]", library), 78).says("a library cannot be attached");
}
