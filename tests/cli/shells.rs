//! Completions in real shells: bash and zsh on a terminal, with keys as a person presses them, and fish by
//! its own `complete`.

use std::fs::File;
use std::io::{Read as _, Write as _};
use std::os::fd::OwnedFd;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::Instant;

use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};

use crate::environment::{PATIENCE, TestEnvironment};

/// Shows the line as it has become: what `SHOW` is bound to.
const SHOW: &str = "\x18";
/// Empties the line.
const CLEAR: &str = "\x15";

/// An interactive shell on a terminal.
struct Shell {
    child: Child,
    keys: File,
    screen: Receiver<Vec<u8>>,
    seen: String,
}

impl Shell {
    fn start(env: &TestEnvironment, words: &[&str]) -> Self {
        let main = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY).unwrap();
        grantpt(&main).unwrap();
        unlockpt(&main).unwrap();
        let name = ptsname(&main, Vec::new()).unwrap().into_string().unwrap();
        let side = File::options().read(true).write(true).open(name).unwrap();
        let mut command = in_path(env, "setsid");
        command.args(["--ctty", "--wait"]).args(words).env("TERM", "dumb").env("COLUMNS", "200");
        let handle = || OwnedFd::from(side.try_clone().unwrap());
        command.stdin(handle()).stdout(handle()).stderr(handle());
        let child = command.spawn().expect("setsid; install it: apt-get install util-linux");
        drop(side);
        let keys = File::from(main);
        let (sender, screen) = channel();
        let mut reader = keys.try_clone().unwrap();
        std::thread::spawn(move || {
            let mut piece = [0; 4096];
            while let Ok(count @ 1..) = reader.read(&mut piece) {
                if sender.send(piece[..count].to_vec()).is_err() {
                    return;
                }
            }
        });
        Self { child, keys, screen, seen: String::new() }
    }

    fn press(&mut self, keys: &str) {
        self.keys.write_all(keys.as_bytes()).unwrap();
    }

    /// What stands on the screen between these two, from now on.
    #[track_caller]
    fn between(&mut self, start: &str, end: &str) -> String {
        let deadline = Instant::now() + PATIENCE;
        loop {
            if let Some((_, after)) = self.seen.split_once(start)
                && let Some((inside, rest)) = after.split_once(end)
            {
                let (inside, rest) = (inside.to_owned(), rest.to_owned());
                self.seen = rest;
                return inside;
            }
            let left = deadline.saturating_duration_since(Instant::now());
            match self.screen.recv_timeout(left) {
                Ok(piece) => self.seen.push_str(&String::from_utf8_lossy(&piece)),
                Err(_) => panic!("{start:?} to {end:?} never came:\n{:?}", self.seen),
            }
        }
    }

    /// Runs a line and waits until it has ended.
    #[track_caller]
    fn run(&mut self, line: &str) {
        self.press(&format!("{line}; echo rea\"\"dy-$?-\n"));
        assert_eq!(self.between("ready-", "-"), "0", "{line}");
    }

    /// The line that this becomes, completed by `key`.
    #[track_caller]
    fn completed(&mut self, line: &str, key: &str) -> String {
        self.press(&format!("{line}{key}{SHOW}"));
        let line = self.between("LINE<", ">");
        self.press(CLEAR);
        line
    }

    #[track_caller]
    fn completes(&mut self, typed: &str, line: &str) {
        assert_eq!(self.completed(typed, "\t"), line, "{typed:?} and Tab");
    }
}

impl Drop for Shell {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A program that finds ours in PATH.
fn in_path(env: &TestEnvironment, program: &str) -> Command {
    let ours = std::path::Path::new(env!("CARGO_BIN_EXE_ralph-orchestrator")).parent().unwrap();
    let mut command = env.program(program.as_ref());
    command.env("PATH", format!("{}:{}", ours.display(), std::env::var("PATH").unwrap()));
    command
}

#[track_caller]
fn is_installed(shell: &str) {
    let found = Command::new(shell)
        .args(["-c", "true"])
        .stdin(Stdio::null())
        .status()
        .is_ok_and(|status| status.success());
    assert!(found, "{shell} is not installed; install it: apt-get install {shell}");
}

fn environment() -> TestEnvironment {
    let env = TestEnvironment::new();
    env.config("\n[agents.reviewer]\nadapter = \"codex\"\n[agents.spare]\nadapter = \"codex\"\n");
    env
}

/// What every shell completes to one word and a space.
#[track_caller]
fn completes_everything(shell: &mut Shell) {
    for program in ["ralph-orchestrator", "ralph"] {
        shell.completes(&format!("{program} stat"), &format!("{program} status "));
        shell.completes(
            &format!("{program} run --max-i"),
            &format!("{program} run --max-iterations "),
        );
        shell.completes(&format!("{program} config sch"), &format!("{program} config schema "));
    }
    shell.completes(
        "ralph-orchestrator run --agent rev",
        "ralph-orchestrator run --agent reviewer ",
    );
    shell.completes(
        "ralph-orchestrator completions po",
        "ralph-orchestrator completions powershell ",
    );
    shell.completes(
        "ralph-orchestrator bench run --agents orac",
        "ralph-orchestrator bench run --agents oracle ",
    );
    // What is for the program itself is nobody's to complete.
    shell.completes("ralph-orchestrator plugin-h", "ralph-orchestrator plugin-h");
}

#[test]
fn bash() {
    is_installed("bash");
    let env = environment();
    let mut shell = Shell::start(&env, &["bash", "--norc", "--noprofile", "-i"]);
    shell.run("bind -x '\"\\C-x\": echo \"LINE<$READLINE_LINE>\"'");
    shell.run("bind 'set enable-bracketed-paste off'");
    shell.run("alias ralph=ralph-orchestrator");
    shell.run("source <(ralph-orchestrator completions bash --alias ralph)");
    completes_everything(&mut shell);
    shell.completes(
        "ralph-orchestrator run --set limits.max_co",
        "ralph-orchestrator run --set limits.max_cost_usd=",
    );
    // All that there is, put into the line.
    let all = shell.completed("ralph-orchestrator ", "\u{1b}*");
    assert!(all.contains(" run ") && all.contains(" doctor "), "{all}");
    assert!(!all.contains("plugin-host") && !all.contains(" man "), "{all}");
}

/// A zsh that shows its line, before its completions are set up.
fn zsh_on_terminal(env: &TestEnvironment) -> Shell {
    is_installed("zsh");
    let mut shell = Shell::start(env, &["zsh", "-f", "-i"]);
    shell.run("unsetopt zle_bracketed_paste beep 2> /dev/null; bindkey -e");
    shell.run("show() { print -r -- \"LINE<$BUFFER>\" }; zle -N show; bindkey '^X' show");
    shell
}

#[test]
fn zsh() {
    let env = environment();
    let mut shell = zsh_on_terminal(&env);
    shell.run("autoload -Uz compinit && compinit -D -u");
    shell.run("alias ralph=ralph-orchestrator");
    shell.run("source <(ralph-orchestrator completions zsh --alias ralph)");
    completes_everything(&mut shell);
}

#[test]
fn zsh_loads_the_script_that_a_package_installs() {
    let env = environment();
    let mut shell = zsh_on_terminal(&env);
    shell.run("mkdir fpath && ralph-orchestrator completions zsh > fpath/_ralph-orchestrator");
    shell.run("fpath=($PWD/fpath $fpath); autoload -Uz compinit && compinit -D -u");
    // The very first key loads it, and completes.
    shell.completes("ralph-orchestrator stat", "ralph-orchestrator status ");
    shell.completes("ralph-orchestrator run --max-i", "ralph-orchestrator run --max-iterations ");
}

#[test]
fn fish() {
    is_installed("fish");
    let env = environment();
    let script = "alias ralph=ralph-orchestrator
        ralph-orchestrator completions fish --alias ralph | source
        for line in 'ralph-orchestrator stat' 'ralph run --max-i' 'ralph-orchestrator config sch' \
            'ralph-orchestrator run --agent rev' 'ralph-orchestrator run --set limits.max_co' \
            'ralph-orchestrator plugin-h'
            set found (complete -C $line | string split -f1 \\t | string join ,)
            echo \"$line|$found\"
        end
        complete -C 'ralph-orchestrator '";
    let output = in_path(&env, "fish").args(["--no-config", "-c", script]).output().unwrap();
    let shown = String::from_utf8(output.stdout).unwrap();
    let mut lines = shown.lines();
    for expected in [
        "ralph-orchestrator stat|status",
        "ralph run --max-i|--max-iterations",
        "ralph-orchestrator config sch|schema",
        "ralph-orchestrator run --agent rev|reviewer",
        "ralph-orchestrator run --set limits.max_co|limits.max_cost_usd=",
        "ralph-orchestrator plugin-h|",
    ] {
        assert_eq!(lines.next(), Some(expected), "{shown}\n{:?}", output.stderr);
    }
    let all: Vec<&str> = lines.collect();
    let has = |name: &str| all.iter().any(|line| line.split('\t').next() == Some(name));
    assert!(has("run") && has("doctor"), "{all:?}");
    assert!(!has("plugin-host") && !has("man"), "{all:?}");
}

#[test]
fn other_shells_get_a_script_and_no_alias() {
    let env = TestEnvironment::new();
    for shell in ["elvish", "powershell"] {
        env.ralph(&["completions", shell]).expect(0).says("ralph-orchestrator");
        let refused = env.ralph(&["completions", shell, "--alias", "ralph"]).expect(64);
        assert_eq!(refused.stdout, "", "no half of a script");
    }
    env.ralph(&["completions", "bash", "--alias", "a; rm x"]).expect(64).says("expected a name");
    env.ralph(&["completions", "tcsh"]).expect(64).says("possible values");
}
