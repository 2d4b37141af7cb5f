//! A scripted agent command.
//!
//! It is a shell script in a folder of its own. Called for the n-th time it
//! - writes what it was given to `calls/n.argv` (each argument ended by NUL), `calls/n.cwd`,
//!   `calls/n.env` (sorted), `calls/n.pid` and `calls/n.stdin` (byte for byte),
//! - runs `n.sh` in its own shell, so that traps and `exit` in it are the agent's,
//! - prints `n.out` and exits with the number in `n.rc`.
//!
//! Where a file of its number is missing, `default.sh`, `default.out` and `default.rc` serve; where
//! these are missing too, it does nothing, prints nothing and exits with 0.

use std::collections::BTreeMap;
use std::fs;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::Stdio;

const SCRIPT: &str = r#"#!/bin/sh
PATH=${PATH:-/usr/bin:/bin}
FAKE_DIR='@DIR@'
n=1
# Without clobbering a file can be made only once: two calls never get the same number.
until (set -C; printf '%s\0' "$@" >"$FAKE_DIR/calls/$n.argv") 2>/dev/null; do n=$((n + 1)); done
call=$FAKE_DIR/calls/$n
pwd -P >"$call.cwd"
env | LC_ALL=C sort >"$call.env"
echo $$ >"$call.pid"
cat >"$call.stdin"
file() { if [ -e "$FAKE_DIR/$n.$1" ]; then echo "$FAKE_DIR/$n.$1"; else echo "$FAKE_DIR/default.$1"; fi; }
script=$(file sh); out=$(file out); rc=$(file rc)
if [ -e "$script" ]; then . "$script"; fi
if [ -e "$out" ]; then cat "$out"; fi
if [ -e "$rc" ]; then exit "$(cat "$rc")"; fi
exit 0
"#;

/// The agent and what it was called with.
#[derive(Clone, Debug)]
pub struct FakeAgent {
    dir: PathBuf,
}

impl FakeAgent {
    /// Sets the agent up in `dir`, which is made if need be and must outlive it.
    ///
    /// # Panics
    /// If the folder cannot be written or its path has a single quote in it.
    #[must_use]
    pub fn new(dir: impl Into<PathBuf>) -> Self {
        let dir: PathBuf = dir.into();
        fs::create_dir_all(dir.join("calls")).expect("the fake agent's folder can be made");
        let dir = dir.canonicalize().expect("the fake agent's folder has a real path");
        let text = dir.to_str().expect("the fake agent's folder is UTF-8").to_owned();
        assert!(!text.contains('\''), "the fake agent's folder has a single quote in it: {text}");
        let agent = Self { dir };
        write_executable(&agent.program(), &SCRIPT.replace("@DIR@", &text));
        agent
    }

    /// The program to call.
    #[must_use]
    pub fn program(&self) -> PathBuf {
        self.dir.join("fake-agent")
    }

    /// What the `n`-th call, from 1, shall do.
    #[must_use]
    pub fn call(&self, n: usize) -> Call<'_> {
        Call { agent: self, stem: n.to_string() }
    }

    /// What every call shall do that has no orders of its own.
    #[must_use]
    pub fn default_call(&self) -> Call<'_> {
        Call { agent: self, stem: "default".to_owned() }
    }

    /// How often it was called.
    ///
    /// # Panics
    /// If the folder is gone.
    #[must_use]
    pub fn calls(&self) -> usize {
        fs::read_dir(self.dir.join("calls"))
            .expect("the fake agent's folder is there")
            .filter_map(Result::ok)
            .filter(|entry| entry.path().extension().is_some_and(|kind| kind == "argv"))
            .count()
    }

    /// The arguments of the `n`-th call, without the program.
    ///
    /// # Panics
    /// If there was no such call.
    #[must_use]
    pub fn argv(&self, n: usize) -> Vec<String> {
        let text = self.text(n, "argv");
        let mut arguments: Vec<String> = text.split('\0').map(str::to_owned).collect();
        arguments.pop();
        // `printf` with no argument at all still ends one.
        if arguments == [""] { Vec::new() } else { arguments }
    }

    /// The folder the `n`-th call ran in.
    ///
    /// # Panics
    /// If there was no such call.
    #[must_use]
    pub fn cwd(&self, n: usize) -> PathBuf {
        PathBuf::from(self.text(n, "cwd").trim_end_matches('\n'))
    }

    /// The environment of the `n`-th call; values with line breaks are cut.
    ///
    /// # Panics
    /// If there was no such call.
    #[must_use]
    pub fn env(&self, n: usize) -> BTreeMap<String, String> {
        self.text(n, "env")
            .lines()
            .filter_map(|line| line.split_once('='))
            .map(|(name, value)| (name.to_owned(), value.to_owned()))
            .collect()
    }

    /// What the `n`-th call read from its standard input.
    ///
    /// # Panics
    /// If there was no such call.
    #[must_use]
    pub fn stdin(&self, n: usize) -> Vec<u8> {
        self.record(n, "stdin")
    }

    fn text(&self, n: usize, kind: &str) -> String {
        String::from_utf8_lossy(&self.record(n, kind)).into_owned()
    }

    fn record(&self, n: usize, kind: &str) -> Vec<u8> {
        let path = self.dir.join(format!("calls/{n}.{kind}"));
        fs::read(&path).unwrap_or_else(|error| {
            panic!("no call {n} of the fake agent ({}: {error})", path.display())
        })
    }
}

/// Orders for a call.
#[derive(Debug)]
pub struct Call<'a> {
    agent: &'a FakeAgent,
    stem: String,
}

impl Call<'_> {
    /// Shell commands to run first.
    ///
    /// # Panics
    /// If the folder cannot be written.
    pub fn script(self, commands: &str) -> Self {
        self.write("sh", commands.as_bytes())
    }

    /// What to print.
    ///
    /// # Panics
    /// If the folder cannot be written.
    pub fn out(self, output: impl AsRef<[u8]>) -> Self {
        self.write("out", output.as_ref())
    }

    /// The exit code.
    ///
    /// # Panics
    /// If the folder cannot be written.
    pub fn rc(self, code: u8) -> Self {
        self.write("rc", code.to_string().as_bytes())
    }

    fn write(self, kind: &str, content: &[u8]) -> Self {
        let path = self.agent.dir.join(format!("{}.{kind}", self.stem));
        fs::write(&path, content).expect("the fake agent's folder can be written");
        self
    }
}

/// Writes a program. By way of another process: as long as a file is open for writing anywhere it cannot be run, and a
/// process that another thread forks at the wrong moment would hold it open.
///
/// # Panics
/// If it cannot be written.
#[allow(clippy::disallowed_methods)]
pub fn write_executable(path: &Path, content: &str) {
    let mut writer = std::process::Command::new("/bin/sh")
        .args(["-c", "cat >\"$1\" && chmod 755 \"$1\"", "sh"])
        .arg(path)
        .stdin(Stdio::piped())
        .spawn()
        .expect("/bin/sh starts");
    let mut stdin = writer.stdin.take().expect("the pipe was asked for");
    stdin.write_all(content.as_bytes()).expect("/bin/sh reads");
    drop(stdin);
    assert!(writer.wait().expect("/bin/sh ends").success(), "{} cannot be written", path.display());
}
