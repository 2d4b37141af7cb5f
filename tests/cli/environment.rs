//! A home, a workspace and a fake agent for one test.

use std::cell::Cell;
use std::fs;
use std::io::{BufRead as _, BufReader};
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::OnceLock;
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::{Duration, Instant};

use ralph_orchestrator_testkit::fake_agent::FakeAgent;
use rustix::process::Signal;
use serde_json::Value;
use tempfile::TempDir;

use crate::hostile::{own_binary, packed};

/// Each is the parent of the one before.
const PARENTS: &str = "up() { awk '/^PPid:/ { print $2 }' \"/proc/$1/status\"; }
shim=$(up $$); fork_server=$(up \"$shim\"); orchestrator=$(up \"$fork_server\")\n";

/// The same where a plugin drives the agent, which those above found in the orchestrator's place.
const PARENTS_OF_PLUGIN: &str = "host=$orchestrator; its_shim=$(up $host)
its_fork_server=$(up $its_shim); orchestrator=$(up $its_fork_server)\n";

/// Shell that sets the numbers of those above an agent: `shim`, `fork_server`, `orchestrator`, and of those
/// above its plugin if it has one: `host`, `its_shim`, `its_fork_server`.
pub(crate) fn parents() -> String {
    format!("{PARENTS}{}", if PACKED.get() { PARENTS_OF_PLUGIN } else { "" })
}

/// Longer than anything takes on a busy machine; a test that needs it has failed.
pub(crate) const PATIENCE: Duration = Duration::from_secs(600);

/// What every test's agent and validator are, unless it says otherwise.
const DEFAULT: &str = r#"
[run]
delay = "0s"

[agent]
adapter = "command"
unmetered = true

[agent.config]
program = ["@AGENT@"]

[[validator]]
kind = "command"
name = "tests"
program = ["test", "-e", "done"]
"#;

thread_local! {
    /// The program is `examples/own-binary`, whose own agent drives what the adapter `command` would drive.
    pub(crate) static OWN_BINARY: Cell<bool> = const { Cell::new(false) };
    /// Agents that the adapter `command` would drive are driven by the same adapter as a plugin.
    pub(crate) static PACKED: Cell<bool> = const { Cell::new(false) };
}

/// The program that is tested.
pub(crate) fn tested_program() -> &'static Path {
    match OWN_BINARY.get() {
        true => own_binary::program(),
        false => Path::new(env!("CARGO_BIN_EXE_ralph-orchestrator")),
    }
}

/// Whether a folder among the states is that of a workspace.
fn is_state(path: &Path) -> bool {
    let others = ["sessions", ".trust", ".checks", ".budget"];
    !others.iter().any(|name| path.ends_with(name))
}

pub(crate) struct TestEnvironment {
    folder: TempDir,
    pub(crate) agent: FakeAgent,
    vars: Vec<(String, String)>,
    /// What every configuration ends with.
    end: OnceLock<&'static str>,
}

/// What a finished command left.
#[derive(Debug)]
pub(crate) struct Ended {
    pub(crate) code: Option<i32>,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
}

impl Ended {
    /// Fails with everything that was printed unless the exit status is as expected.
    #[track_caller]
    pub(crate) fn expect(self, code: i32) -> Self {
        assert_eq!(
            self.code,
            Some(code),
            "\n--- stdout\n{}\n--- stderr\n{}",
            self.stdout,
            self.stderr
        );
        self
    }

    /// Every line of `--json` output.
    pub(crate) fn events(&self) -> Vec<Value> {
        self.stdout.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
    }

    #[track_caller]
    pub(crate) fn says(&self, text: &str) -> &Self {
        let all = format!("{}{}", self.stdout, self.stderr);
        assert!(all.contains(text), "expected {text:?} in\n{all}");
        self
    }
}

impl TestEnvironment {
    /// A workspace with a prompt, a configuration and a fake agent that does nothing.
    pub(crate) fn new() -> Self {
        let folder = TempDir::new().unwrap();
        let root = folder.path().canonicalize().unwrap();
        fs::create_dir_all(root.join("w")).unwrap();
        fs::create_dir_all(root.join("home")).unwrap();
        let agent = FakeAgent::new(root.join("agent"));
        // Most tests write their configuration anew after an agent has worked: see `trusted`.
        let vars = vec![("RALPH_TRUST".to_owned(), "always".to_owned())];
        let mut this = Self { folder, agent, vars, end: OnceLock::new() };
        if PACKED.get() {
            // The one copy for all tests, which is no stray file.
            let copies = packed::library().with_extension("copies");
            this.var("XDG_CACHE_HOME", &copies.display().to_string());
        }
        this.write("PROMPT.md", "# Task\n\nMake a file called done.\n");
        this.config("");
        this
    }

    /// The same, whose checks run in the workspace.
    pub(crate) fn with_checks_in_workspace() -> Self {
        let this = Self::new();
        this.check_in_workspace();
        this
    }

    /// Has the checks run in the workspace, by this configuration and all later ones.
    pub(crate) fn check_in_workspace(&self) {
        let end = "\n[validation]\nwhere = \"workspace\"\n";
        self.end.set(end).unwrap();
        if self.path("ralph.toml").exists() {
            let text = self.read("ralph.toml");
            self.write("ralph.toml", text + end);
        }
    }

    /// The standard configuration, with more tables after it.
    pub(crate) fn config(&self, more: &str) {
        let agent = self.agent.program().display().to_string();
        self.raw_config(&format!("{}{more}", DEFAULT.replace("@AGENT@", &agent)));
    }

    /// Another configuration; `@AGENT@` is the fake agent.
    pub(crate) fn raw_config(&self, text: &str) {
        let agent = self.agent.program().display().to_string();
        let mut text = text.replace("@AGENT@", &agent);
        if PACKED.get() {
            text = text.replace("adapter = \"command\"", "adapter = \"packed\"");
            text.push_str(&format!(
                "\n[plugins.packed]\nlibrary = \"{}\"\n",
                packed::library().display()
            ));
        }
        if OWN_BINARY.get() {
            text = text.replace("adapter = \"command\"", "adapter = \"piped\"");
        }
        text.push_str(self.end.get().copied().unwrap_or_default());
        self.write("ralph.toml", text);
    }

    pub(crate) fn root(&self) -> PathBuf {
        self.folder.path().canonicalize().unwrap()
    }

    /// The workspace.
    pub(crate) fn workspace(&self) -> PathBuf {
        self.root().join("w")
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.workspace().join(name)
    }

    pub(crate) fn write(&self, name: &str, text: impl AsRef<[u8]>) -> &Self {
        let path = self.path(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
        self
    }

    /// Sets who may do what with a file.
    pub(crate) fn write_mode(&self, name: &str, mode: u32) {
        fs::set_permissions(self.path(name), fs::Permissions::from_mode(mode)).unwrap();
    }

    pub(crate) fn read(&self, name: &str) -> String {
        fs::read_to_string(self.path(name)).unwrap()
    }

    pub(crate) fn var(&mut self, name: &str, value: &str) {
        self.vars.push((name.to_owned(), value.to_owned()));
    }

    pub(crate) fn unset(&mut self, name: &str) {
        self.vars.retain(|(known, _)| known != name);
    }

    /// The only state directory.
    pub(crate) fn state(&self) -> PathBuf {
        let parent = self.root().join("home/.local/state/ralph-orchestrator");
        // It may be in the making.
        let states = || {
            let found = fs::read_dir(&parent).into_iter().flatten();
            found.map(|entry| entry.unwrap().path()).filter(|path| is_state(path))
        };
        eventually("a state directory", || states().next().is_some());
        let mut found = states();
        let state = found.next().expect("a state directory");
        assert!(found.next().is_none(), "more than one state directory in {}", parent.display());
        state
    }

    pub(crate) fn has_state(&self) -> bool {
        let parent = self.root().join("home/.local/state/ralph-orchestrator");
        let mut found = fs::read_dir(&parent).into_iter().flatten();
        found.any(|entry| is_state(&entry.unwrap().path()))
    }

    /// The journal of the newest run.
    pub(crate) fn journal_path(&self) -> PathBuf {
        let mut runs: Vec<PathBuf> = fs::read_dir(self.state().join("runs"))
            .unwrap()
            .map(|entry| entry.unwrap().path())
            .collect();
        runs.sort();
        runs.pop().unwrap().join("journal.jsonl")
    }

    /// The records of the newest run. A line that is being written is none yet.
    pub(crate) fn journal(&self) -> Vec<Value> {
        fs::read_to_string(self.journal_path())
            .unwrap()
            .split_inclusive('\n')
            .filter(|line| line.ends_with('\n'))
            .map(|line| serde_json::from_str(line).unwrap())
            .collect()
    }

    pub(crate) fn records(&self, kind: &str) -> Vec<Value> {
        self.journal().into_iter().filter(|record| record["kind"] == kind).collect()
    }

    /// Whether any run has come so far as to have a record of this kind.
    pub(crate) fn has_record(&self, kind: &str) -> bool {
        let status = self.ralph(&["log", "--json"]);
        status.stdout.contains(&format!("\"kind\":\"{kind}\""))
    }

    pub(crate) fn command(&self, args: &[&str]) -> Command {
        let mut command = self.program(tested_program());
        command.args(args);
        command
    }

    /// Any program, in the same workspace and environment.
    pub(crate) fn program(&self, program: &Path) -> Command {
        let mut command = Command::new(program);
        command
            .current_dir(self.workspace())
            .env_clear()
            .env("PATH", std::env::var("PATH").unwrap())
            .env("HOME", self.root().join("home"))
            .envs(self.vars.iter().map(|(name, value)| (name, value)))
            .stdin(Stdio::null());
        command
    }

    /// Runs a command to its end.
    #[track_caller]
    pub(crate) fn ralph(&self, args: &[&str]) -> Ended {
        let mut running = self.start(args);
        running.wait()
    }

    /// `run`
    #[track_caller]
    pub(crate) fn run(&self) -> Ended {
        self.ralph(&["run"])
    }

    /// Starts a command; it is killed when the handle is dropped.
    pub(crate) fn start(&self, args: &[&str]) -> Running {
        let child =
            self.command(args).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        Running::new(child)
    }

    /// `run`, killed by `kill -9` once a journal has this many records, unless it has ended before.
    #[track_caller]
    pub(crate) fn run_and_kill_after_record(&self, record: usize) {
        let mut running = self.start(&["run"]);
        let mut ended = false;
        eventually("that many records", || {
            ended = running.child.try_wait().unwrap().is_some();
            ended || self.count_records() >= record
        });
        if !ended {
            running.signal(Signal::KILL);
        }
        running.wait();
    }

    /// The records of the longest journal, as far as they are written.
    fn count_records(&self) -> usize {
        if !self.has_state() {
            return 0;
        }
        let runs = fs::read_dir(self.state().join("runs")).into_iter().flatten();
        runs.filter_map(|entry| fs::read(entry.ok()?.path().join("journal.jsonl")).ok())
            .map(|text| text.iter().filter(|byte| **byte == b'\n').count())
            .max()
            .unwrap_or(0)
    }

    pub(crate) fn status(&self) -> Value {
        let ended = self.ralph(&["status", "--json"]).expect(0);
        serde_json::from_str(&ended.stdout).unwrap()
    }

    /// A pipe that the agent can open: reading or writing it meets the other side.
    pub(crate) fn fifo(&self, name: &str) -> PathBuf {
        let path = self.root().join(name);
        let status = Command::new("mkfifo").arg(&path).status().unwrap();
        assert!(status.success());
        path
    }
}

/// A running command.
pub(crate) struct Running {
    pub(crate) child: Child,
    stdout: Lines,
    stderr: Lines,
}

struct Lines {
    receiver: Receiver<String>,
    seen: String,
}

impl Lines {
    fn of(stream: impl std::io::Read + Send + 'static) -> Self {
        let (sender, receiver) = channel();
        std::thread::spawn(move || {
            let mut reader = BufReader::new(stream);
            let mut line = Vec::new();
            while reader.read_until(b'\n', &mut line).is_ok_and(|read| read > 0) {
                let text = String::from_utf8_lossy(&line).into_owned();
                if sender.send(text).is_err() {
                    return;
                }
                line.clear();
            }
        });
        Self { receiver, seen: String::new() }
    }

    #[track_caller]
    fn until(&mut self, text: &str) {
        let deadline = Instant::now() + PATIENCE;
        while !self.seen.contains(text) {
            let left = deadline.saturating_duration_since(Instant::now());
            let line = self.receiver.recv_timeout(left);
            self.seen.push_str(&line.unwrap_or_else(|_| panic!("it never said {text:?}")));
        }
    }

    fn rest(&mut self) -> String {
        let deadline = Instant::now() + PATIENCE;
        loop {
            match self.receiver.recv_timeout(deadline.saturating_duration_since(Instant::now())) {
                Ok(line) => self.seen.push_str(&line),
                Err(RecvTimeoutError::Disconnected) => return std::mem::take(&mut self.seen),
                Err(RecvTimeoutError::Timeout) => panic!("output never ended:\n{}", self.seen),
            }
        }
    }
}

impl Running {
    pub(crate) fn new(mut child: Child) -> Self {
        let stdout = Lines::of(child.stdout.take().unwrap());
        let stderr = Lines::of(child.stderr.take().unwrap());
        Self { child, stdout, stderr }
    }

    pub(crate) fn pid(&self) -> i32 {
        i32::try_from(self.child.id()).unwrap()
    }

    pub(crate) fn signal(&self, signal: Signal) {
        let pid = rustix::process::Pid::from_raw(self.pid()).unwrap();
        rustix::process::kill_process(pid, signal).unwrap();
    }

    /// Waits until it has said that on stderr.
    #[track_caller]
    pub(crate) fn says(&mut self, text: &str) {
        self.stderr.until(text);
    }

    /// Waits until it has printed that on stdout.
    #[track_caller]
    pub(crate) fn prints(&mut self, text: &str) {
        self.stdout.until(text);
    }

    /// Waits for the end.
    #[track_caller]
    pub(crate) fn wait(&mut self) -> Ended {
        let deadline = Instant::now() + PATIENCE;
        let status = loop {
            if let Some(status) = self.child.try_wait().unwrap() {
                break status;
            }
            assert!(
                Instant::now() < deadline,
                "it did not end\n--- stderr so far\n{}",
                self.stderr.seen.clone() + &self.stderr.receiver.try_iter().collect::<String>()
            );
            std::thread::sleep(Duration::from_millis(2));
        };
        Ended { code: status.code(), stdout: self.stdout.rest(), stderr: self.stderr.rest() }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Waits until something is so.
#[track_caller]
pub(crate) fn eventually(what: &str, mut check: impl FnMut() -> bool) {
    let deadline = Instant::now() + PATIENCE;
    while !check() {
        assert!(Instant::now() < deadline, "never: {what}");
        std::thread::sleep(Duration::from_millis(2));
    }
}

/// Whether a process is there and no zombie.
pub(crate) fn alive(pid: i32) -> bool {
    fs::read_to_string(format!("/proc/{pid}/stat")).is_ok_and(|stat| !stat.contains(") Z "))
}

/// Processes whose environment says that they belong to this run.
pub(crate) fn of_run(marker: &Path) -> Vec<i32> {
    let marker = marker.display().to_string();
    fs::read_dir("/proc")
        .unwrap()
        .filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok())
        .filter(|pid: &i32| {
            let environ = fs::read(format!("/proc/{pid}/environ")).unwrap_or_default();
            String::from_utf8_lossy(&environ).contains(&marker) && alive(*pid)
        })
        .collect()
}
