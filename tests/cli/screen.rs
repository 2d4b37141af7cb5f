//! A terminal of a given size for a command: what somebody sees in it, at any time.

use std::fs::File;
use std::io::{Read as _, Write as _};
use std::num::NonZero;
use std::os::fd::OwnedFd;
use std::path::Path;
use std::process::{Child, Command};
use std::sync::{Arc, Condvar, Mutex};
use std::time::Instant;

use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
use rustix::termios::{Winsize, tcsetwinsize};
use vt100::Parser;

use crate::environment::{PATIENCE, TestEnvironment};

/// Enough for everything that is shown here.
const ROWS: u16 = 100;

/// Runs a command, says on the terminal how it ended, and stays. When the first process of a session ends, the kernel
/// takes away what its terminal has not yet given to the reader: it may not be the command itself.
const SESSION: &str = r#"trap : HUP INT QUIT TERM
"$@"
printf '\033]ended;%d\007' $?
exec tail -f /dev/null"#;

/// What the session says when the command has ended, up to the exit status, and behind it.
const ENDED: (&str, &str) = ("\x1b]ended;", "\x07");

/// A command on a terminal of its own, which it has for a controlling terminal.
pub(crate) struct Screen {
    child: Child,
    main: File,
    shown: Arc<(Mutex<Shown>, Condvar)>,
}

struct Shown {
    parser: Parser,
    raw: Vec<u8>,
    /// How the command ended; none if its session was ended before.
    ended: Option<Option<i32>>,
}

impl Screen {
    /// Starts the program on a terminal with so many columns.
    pub(crate) fn start(env: &TestEnvironment, args: &[&str], columns: u16, term: &str) -> Self {
        Self::start_in(env, &env.workspace(), args, columns, term)
    }

    /// The same for a command in this folder.
    pub(crate) fn start_in(
        env: &TestEnvironment,
        folder: &Path,
        args: &[&str],
        columns: u16,
        term: &str,
    ) -> Self {
        let program = env.command(args);
        let mut command = env.program("/usr/bin/setsid".as_ref());
        command.current_dir(folder);
        command.args(["--ctty", "/bin/sh", "-c", SESSION, "sh"]).arg(program.get_program());
        command.args(args).env("TERM", term);
        Self::of(command, columns)
    }

    fn of(mut command: Command, columns: u16) -> Self {
        let main = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC).unwrap();
        grantpt(&main).unwrap();
        unlockpt(&main).unwrap();
        let name = ptsname(&main, Vec::new()).unwrap().into_string().unwrap();
        let terminal = File::options().read(true).write(true).open(name).unwrap();
        let main = File::from(main);
        set_columns(&main, columns);
        let side = |terminal: &File| OwnedFd::from(terminal.try_clone().unwrap());
        command.stdin(side(&terminal)).stdout(side(&terminal)).stderr(side(&terminal));
        let child = command.spawn().unwrap();
        drop(command);
        let parser = Parser::new(count(ROWS), count(columns), 0);
        let shown = Shown { parser, raw: Vec::new(), ended: None };
        let shown = Arc::new((Mutex::new(shown), Condvar::new()));
        read(main.try_clone().unwrap(), Arc::clone(&shown));
        Self { child, main, shown }
    }

    /// Gives the terminal another size, of which the program is told.
    pub(crate) fn resize(&self, columns: u16) {
        self.shown.0.lock().unwrap().parser.screen_mut().set_size(count(ROWS), count(columns));
        set_columns(&self.main, columns);
    }

    /// Presses keys.
    pub(crate) fn press(&mut self, keys: &[u8]) {
        self.main.write_all(keys).unwrap();
    }

    /// What is to be seen, without empty lines at the end. A line that the terminal has folded is one.
    pub(crate) fn text(&self) -> String {
        text(&self.shown.0.lock().unwrap().parser)
    }

    /// All that was printed, byte for byte.
    pub(crate) fn raw(&self) -> String {
        String::from_utf8(self.shown.0.lock().unwrap().raw.clone()).unwrap()
    }

    /// Waits until what is to be seen is as expected, and returns it.
    #[track_caller]
    pub(crate) fn until(&self, what: &str, mut check: impl FnMut(&str) -> bool) -> String {
        let deadline = Instant::now() + PATIENCE;
        let (lock, changed) = &*self.shown;
        let mut shown = lock.lock().unwrap();
        loop {
            let text = text(&shown.parser);
            if check(&text) {
                return text;
            }
            let left = deadline.saturating_duration_since(Instant::now());
            assert!(shown.ended.is_none() && !left.is_zero(), "never: {what}; there is\n{text}");
            shown = changed.wait_timeout(shown, left).unwrap().0;
        }
    }

    /// Waits until this is to be seen.
    #[track_caller]
    pub(crate) fn shows(&self, expected: &str) -> String {
        self.until(expected, |text| text.contains(expected))
    }

    /// Waits for the end, and for all that was printed before it.
    #[track_caller]
    pub(crate) fn wait(&mut self) -> Option<i32> {
        let deadline = Instant::now() + PATIENCE;
        let (lock, changed) = &*self.shown;
        let mut shown = lock.lock().unwrap();
        let code = loop {
            if let Some(code) = shown.ended {
                break code;
            }
            let left = deadline.saturating_duration_since(Instant::now());
            assert!(!left.is_zero(), "it did not end; there is\n{}", text(&shown.parser));
            shown = changed.wait_timeout(shown, left).unwrap().0;
        };
        drop(shown);
        self.child.kill().unwrap();
        self.child.wait().unwrap();
        code
    }
}

impl Drop for Screen {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn count(number: u16) -> NonZero<u16> {
    NonZero::new(number).unwrap()
}

fn set_columns(main: &File, columns: u16) {
    let size = Winsize { ws_row: ROWS, ws_col: columns, ws_xpixel: 0, ws_ypixel: 0 };
    tcsetwinsize(main, size).unwrap();
}

/// Reads until the command has ended, or nobody has the other side any more.
fn read(mut main: File, shown: Arc<(Mutex<Shown>, Condvar)>) {
    std::thread::spawn(move || {
        let (lock, changed) = &*shown;
        let mut piece = [0; 4096];
        while let Ok(count @ 1..) = main.read(&mut piece) {
            let mut shown = lock.lock().unwrap();
            shown.parser.process(&piece[..count]);
            shown.raw.extend_from_slice(&piece[..count]);
            if shown.take_end() {
                break;
            }
            drop(shown);
            changed.notify_all();
        }
        lock.lock().unwrap().ended.get_or_insert(None);
        changed.notify_all();
    });
}

impl Shown {
    /// Whether the session has said that the command ended, which is no part of what it printed.
    fn take_end(&mut self) -> bool {
        let Some(rest) = self.raw.strip_suffix(ENDED.1.as_bytes()) else { return false };
        let mark = ENDED.0.as_bytes();
        let Some(at) = rest.windows(mark.len()).rposition(|bytes| bytes == mark) else {
            return false;
        };
        let Some(Ok(code)) = str::from_utf8(&rest[at + mark.len()..]).ok().map(str::parse) else {
            return false;
        };
        self.ended = Some(Some(code));
        self.raw.truncate(at);
        true
    }
}

fn text(parser: &Parser) -> String {
    let screen = parser.screen();
    let (rows, columns) = screen.size();
    let (rows, columns) = (rows.get(), columns.get());
    let mut text = String::new();
    for (row, line) in (0..rows).zip(screen.rows(0, columns)) {
        text.push_str(&line);
        if !screen.row_wrapped(row) {
            text.truncate(text.trim_end_matches(' ').len());
            text.push('\n');
        }
    }
    format!("{}\n", text.trim_end())
}

/// A snapshot of what was seen, without what is different each time.
#[track_caller]
pub(crate) fn snapshot(name: &str, text: &str) {
    let mut settings = insta::Settings::clone_current();
    settings.set_snapshot_path("screens");
    settings.set_prepend_module_to_snapshot(false);
    settings.set_omit_expression(true);
    let uuid = "[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f]{3}-[0-9a-f]{4}-[0-9a-f]{12}";
    settings.add_filter(uuid, "[run id]");
    settings.add_filter(r"\b[0-9a-f]{8}-[0-9a-f]{4}\b", "[short id]   ");
    settings.add_filter(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d UTC", "[time]");
    settings.add_filter(r"\d{4}-\d\d-\d\d \d\d:\d\d\b", "[started]       ");
    settings.add_filter(r"\b\d\d:\d\d:\d\d\b", "[clock]");
    settings.add_filter(r"\b\d+:\d\d\b", "[m:ss]");
    settings.add_filter("[\u{2800}-\u{28ff}]", "⠿");
    // A column of a table is as wide as the longest time in it.
    settings.add_filter(r"\b\d+\.\d s {2,}", "[t] s  ");
    settings.add_filter(r"\b\d+\.\d s\b", "[t] s");
    settings.add_filter(r"/\S*/\.tmp\w+", "[folder]");
    settings.add_filter(r"w-[0-9a-f]{12}", "w-[hash]");
    settings.add_filter(r"pid \d+", "pid [pid]");
    settings.bind(|| insta::assert_snapshot!(name, text));
}
