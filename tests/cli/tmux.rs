//! The program in a real terminal multiplexer, which folds lines again when its window gets another size.

use std::path::PathBuf;
use std::process::{Command, Output};
use std::sync::atomic::{AtomicUsize, Ordering};

use crate::environment::{TestEnvironment, eventually};
use crate::screen::snapshot;
use crate::screens::{Scripted, live_lines, without_spinner};

/// How many servers were started.
static SERVERS: AtomicUsize = AtomicUsize::new(0);

/// A server of its own with one window, in which the program runs.
pub(crate) struct Tmux {
    socket: PathBuf,
}

impl Tmux {
    /// Starts the program in a window that stays when it has ended, with all that it printed: see `SESSION` of
    /// `screen`.
    pub(crate) fn start(env: &TestEnvironment, args: &[&str], columns: u16) -> Self {
        let stays = "trap : HUP INT QUIT TERM\n\"$@\"\nexec tail -f /dev/null";
        let shell = ["/bin/sh", "-c", stays, "sh"].map(str::to_owned);
        let words = [&shell[..], &program_words(env, args)].concat();
        Self::start_words(env, &words, (columns, 60), "screen-256color")
    }

    /// Starts the program in a window of a certain size.
    pub(crate) fn start_with(
        env: &TestEnvironment,
        args: &[&str],
        size: (u16, u16),
        term: &str,
    ) -> Self {
        Self::start_words(env, &program_words(env, args), size, term)
    }

    /// Starts any command in a window of a certain size.
    pub(crate) fn start_words(
        env: &TestEnvironment,
        command: &[String],
        (columns, rows): (u16, u16),
        term: &str,
    ) -> Self {
        // One that was ended a moment ago may still be going.
        let number = SERVERS.fetch_add(1, Ordering::Relaxed);
        let tmux = Self { socket: env.root().join(format!("tmux{number}")) };
        let config = env.root().join("tmux.conf");
        std::fs::write(&config, "set -g remain-on-exit on\nset -g status off\n").unwrap();
        let program = env.command(&[]);
        let mut words = vec!["env".to_owned(), "-i".to_owned()];
        for (name, value) in program.get_envs() {
            let (name, value) = (name.to_str().unwrap(), value.unwrap().to_str().unwrap());
            words.push(format!("{name}={value}"));
        }
        words.push(format!("TERM={term}"));
        words.extend_from_slice(command);
        let (columns, rows) = (columns.to_string(), rows.to_string());
        let mut command = tmux.command();
        command.arg("-f").arg(config).args(["new-session", "-d", "-x", &columns, "-y", &rows]);
        command.arg("-c").arg(env.workspace()).args(words);
        run(command);
        tmux
    }

    fn command(&self) -> Command {
        let mut command = Command::new("tmux");
        command.arg("-u").arg("-S").arg(&self.socket).env("LC_ALL", "C.UTF-8").env_remove("TMUX");
        command
    }

    pub(crate) fn tell(&self, words: &[&str]) -> String {
        let mut command = self.command();
        command.args(words);
        String::from_utf8(run(command).stdout).unwrap()
    }

    /// Types keys, each by its name for tmux or as text.
    pub(crate) fn press(&self, keys: &[&str]) {
        self.tell(&[&["send-keys"], keys].concat());
    }

    /// The number of the process in the window.
    pub(crate) fn pid(&self) -> i32 {
        self.tell(&["display-message", "-p", "#{pane_pid}"]).trim().parse().unwrap()
    }

    /// What is to be seen; a line that tmux has folded is one.
    pub(crate) fn text(&self) -> String {
        let shown = self.tell(&["capture-pane", "-p", "-J"]);
        let lines: Vec<&str> = shown.lines().map(str::trim_end).collect();
        format!("{}\n", lines.join("\n").trim_end())
    }

    #[track_caller]
    pub(crate) fn until(&self, what: &str, mut check: impl FnMut(&str) -> bool) -> String {
        let mut text = String::new();
        eventually(what, || {
            text = self.text();
            check(&text)
        });
        text
    }
}

fn program_words(env: &TestEnvironment, args: &[&str]) -> Vec<String> {
    let program = env.command(&[]);
    let mut words = vec![program.get_program().to_str().unwrap().to_owned()];
    words.extend(args.iter().map(|arg| (*arg).to_owned()));
    words
}

impl Drop for Tmux {
    fn drop(&mut self) {
        let _ = self.command().arg("kill-server").output();
    }
}

#[track_caller]
fn run(mut command: Command) -> Output {
    let output = command.output().unwrap_or_else(|error| {
        panic!("tmux cannot be started ({error}); install it with `apt-get install tmux`")
    });
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    output
}

#[test]
fn a_window_that_changes_its_size_keeps_no_rests_of_the_live_line() {
    let scripted = Scripted::new();
    let tmux = Tmux::start(&scripted.env, &["run"], 120);
    scripted.agent_works();
    tmux.until("the line", |text| text.contains("[Bash]"));
    let mut shown = Vec::new();
    for (columns, sign) in [(80, "iteration 1/12  "), (40, "1/12  "), (200, "iteration 1/12, ")] {
        tmux.tell(&["resize-window", "-x", &columns.to_string()]);
        let text = tmux.until("the line is drawn anew", |text| {
            live_lines(text).last().is_some_and(|line| {
                without_spinner(line).starts_with(sign) && line.chars().count() < columns
            })
        });
        let lines = live_lines(&text);
        assert_eq!(lines.len(), 1, "rests of the line are left:\n{text}");
        // What of the rest is to be seen is for tmux to say.
        shown.push(format!("== {columns} columns\n{}\n", lines[0]));
    }
    tmux.tell(&["resize-window", "-x", "100"]);
    // tmux tells the program a moment later.
    tmux.until("the line is drawn anew", |text| {
        live_lines(text).last().is_some_and(|line| line.chars().count() < 100)
    });
    scripted.release();
    let text = tmux.until("the end", |text| text.contains("\n  next  "));
    assert!(live_lines(&text).is_empty(), "{text}");
    shown.push(format!("== 100 columns, at the end\n{}", the_end(&text)));
    snapshot("tmux", &shown.join("\n"));
}

#[test]
fn ctrl_c_in_a_window_begins_a_line() {
    let scripted = Scripted::new();
    let tmux = Tmux::start(&scripted.env, &["run"], 80);
    scripted.agent_works();
    tmux.until("the line", |text| text.contains("[Bash]"));
    tmux.tell(&["send-keys", "C-c"]);
    let text = tmux.until("the end", |text| text.contains("\nnext: "));
    assert!(live_lines(&text).is_empty(), "{text}");
    assert!(text.contains("\nstopping: interrupting the agent (press Ctrl-C again"), "{text}");
}

/// From the end of the first iteration on.
fn the_end(text: &str) -> String {
    text.lines()
        .skip_while(|line| !line.starts_with("iteration 1 ended"))
        .map(|line| format!("{line}\n"))
        .collect()
}
