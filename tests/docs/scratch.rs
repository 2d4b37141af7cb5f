//! A home, a folder and programs for one test.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};

use tempfile::TempDir;

/// Longer than anything takes on a busy machine; a test that needs it has failed.
const PATIENCE: Duration = Duration::from_secs(300);

pub(crate) fn repository() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

pub(crate) struct Scratch {
    folder: TempDir,
}

impl Scratch {
    pub(crate) fn new() -> Self {
        let this = Self { folder: TempDir::new().unwrap() };
        fs::create_dir_all(this.work()).unwrap();
        fs::create_dir_all(this.root().join("home")).unwrap();
        fs::create_dir_all(this.root().join("bin")).unwrap();
        let program = env!("CARGO_BIN_EXE_ralph-orchestrator");
        std::os::unix::fs::symlink(program, this.root().join("bin/ralph-orchestrator")).unwrap();
        this
    }

    pub(crate) fn root(&self) -> PathBuf {
        self.folder.path().canonicalize().unwrap()
    }

    /// Where commands run.
    pub(crate) fn work(&self) -> PathBuf {
        self.folder.path().canonicalize().unwrap().join("project")
    }

    pub(crate) fn write(&self, name: &str, text: &str) -> &Self {
        let path = self.work().join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
        self
    }

    /// A program of this test in `PATH`.
    pub(crate) fn program(&self, name: &str, script: &str) -> &Self {
        let path = self.root().join("bin").join(name);
        ralph_orchestrator_testkit::fake_agent::write_executable(&path, script);
        self
    }

    pub(crate) fn command(&self, program: &str) -> Command {
        let mut command = Command::new(program);
        let path =
            format!("{}:{}", self.root().join("bin").display(), std::env::var("PATH").unwrap());
        command
            .current_dir(self.work())
            .env_clear()
            .env("PATH", path)
            .env("HOME", self.root().join("home"))
            .env("LANG", "C.UTF-8")
            .env("TZ", "UTC")
            .stdin(Stdio::null());
        command
    }

    pub(crate) fn ralph(&self, args: &[&str]) -> Output {
        let mut command = self.command(env!("CARGO_BIN_EXE_ralph-orchestrator"));
        command.args(args);
        self.output(command)
    }

    /// Runs a command to its end, and ends it if it does not come.
    pub(crate) fn output(&self, mut command: Command) -> Output {
        let (out, err) = (self.root().join("stdout"), self.root().join("stderr"));
        command.stdout(fs::File::create(&out).unwrap()).stderr(fs::File::create(&err).unwrap());
        let mut child = command.spawn().unwrap();
        let deadline = Instant::now() + PATIENCE;
        let status = loop {
            match child.try_wait().unwrap() {
                Some(status) => break status,
                None if Instant::now() >= deadline => {
                    child.kill().unwrap();
                    child.wait().unwrap();
                    panic!("it did not end: {command:?}\n{}", fs::read_to_string(&err).unwrap());
                }
                None => std::thread::sleep(Duration::from_millis(5)),
            }
        };
        Output { status, stdout: fs::read(out).unwrap(), stderr: fs::read(err).unwrap() }
    }
}

/// What a command printed, if it ended with this status.
#[track_caller]
pub(crate) fn expect(output: &Output, code: i32) -> String {
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let (stdout, stderr) = (text(&output.stdout), text(&output.stderr));
    assert_eq!(output.status.code(), Some(code), "\n--- stdout\n{stdout}\n--- stderr\n{stderr}");
    stdout
}
