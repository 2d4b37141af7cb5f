//! The only place that prints: results on stdout, messages for people on stderr.
//!
//! A command prints what it has found out, and waits for its reader. A run does not: as soon as it has
//! begun, everything goes through a [`Writer`], which never holds it up.

use std::io::{self, IsTerminal as _, Write as _};
use std::os::fd::{AsFd as _, BorrowedFd};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::{Duration, Instant};

use ralph_orchestrator_text::fold;
use serde_json::json;

use crate::size::{stderr_width, stdout_width};
use crate::writer::{Overflow, Stream, Writer};

/// How long the end of the program waits for a reader that reads nothing.
const DRAIN_TIMEOUT: Duration = Duration::from_secs(5);

/// The same after a stop request.
const SHORT_DRAIN_TIMEOUT: Duration = Duration::from_secs(1);

/// The writers of a run, once it has begun.
static WRITERS: OnceLock<Writers> = OnceLock::new();

/// The run whose events are printed, if they are.
static RUN: OnceLock<String> = OnceLock::new();

/// Only results and errors are printed.
static QUIET: AtomicBool = AtomicBool::new(false);

/// Lines are printed as they are: without colours, and without one that moves.
static PLAIN: AtomicBool = AtomicBool::new(false);

static DRAIN_SHORTENED: AtomicBool = AtomicBool::new(false);

/// Whether the live line is on the terminal; held while anything is printed.
static LIVE: Mutex<bool> = Mutex::new(false);

/// Before and after the live line: a terminal that has just become narrower cuts it instead of folding it.
const NO_WRAP: [&str; 2] = ["\x1b[?7l", "\x1b[?7h"];

/// Erases the live line. Its cursor stands at its beginning, wherever a terminal that became narrower has
/// folded it: what is below the cursor is all of it, and nothing else.
const ERASE: &str = "\r\x1b[J";

struct Writers {
    stdout: Arc<Writer>,
    /// The same if both lead to the same place, so that all comes in its order.
    stderr: Arc<Writer>,
}

/// Starts printing through writers that never block. `events`: stdout gets JSON lines.
pub fn begin_run(events: bool) {
    WRITERS.get_or_init(|| {
        let stderr = Writer::new(Box::new(|lines| format!("warning: {}\n", dropped(lines))));
        let stdout = if !events && same_place(io::stdout().as_fd(), io::stderr().as_fd()) {
            Arc::clone(&stderr)
        } else {
            Writer::new(Box::new(dropped_event))
        };
        Writers { stdout, stderr }
    });
}

fn same_place(one: BorrowedFd<'_>, other: BorrowedFd<'_>) -> bool {
    let place = |fd| rustix::fs::fstat(fd).map(|stat| (stat.st_dev, stat.st_ino)).ok();
    place(one).is_some() && place(one) == place(other)
}

fn dropped(lines: u64) -> String {
    format!("dropped {lines} lines: the reader did not read them")
}

fn dropped_event(lines: u64) -> String {
    let event = json!({
        "event": "lines_dropped",
        "time": jiff::Timestamp::now(),
        "run": RUN.get(),
        "lines": lines,
        "message": dropped(lines),
    });
    format!("{event}\n")
}

/// Shortens the wait for readers, after a stop request.
pub fn shorten_drain() {
    DRAIN_SHORTENED.store(true, Ordering::Relaxed);
}

/// Waits until all was read, if there is a reader that reads.
pub fn finish() {
    set_live_line(None);
    let Some(Writers { stdout, stderr }) = WRITERS.get() else { return };
    let began = Instant::now();
    let patience = || {
        if DRAIN_SHORTENED.load(Ordering::Relaxed) { SHORT_DRAIN_TIMEOUT } else { DRAIN_TIMEOUT }
    };
    let missed = stdout.drain(began, patience);
    if !Arc::ptr_eq(stdout, stderr) {
        if missed > 0 {
            info(&format!("warning: {}", dropped(missed)));
        }
        stderr.drain(began, patience);
    }
}

/// Whether stderr is a terminal that wants colours.
pub fn has_colour() -> bool {
    io::stderr().is_terminal() && wants_colour()
}

/// Whether the terminal of this process, if it has one, wants colours.
pub fn wants_colour() -> bool {
    !is_plain()
        && std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty())
        && std::env::var_os("TERM").is_none_or(|term| term != "dumb")
}

/// Whether people see a line that moves: on a terminal that wants one, unless only results are printed.
pub fn has_live_line() -> bool {
    has_colour() && !QUIET.load(Ordering::Relaxed)
}

/// Whether results go to a terminal.
pub fn is_stdout_terminal() -> bool {
    io::stdout().is_terminal()
}

/// Prints a line of a result. A reader that is gone is not an error.
pub fn result(line: &str) {
    print(Stream::Stdout, &[line, "\n"], Overflow::Keep);
}

/// Prints a result for people as it fits the terminal. Where a line is folded, it goes on after so many spaces.
pub fn result_folded(text: &str, indent: usize) {
    let width = stdout_width().unwrap_or(usize::MAX);
    let lines = text.split('\n').flat_map(|line| fold(line, indent, width));
    lines.for_each(|line| result(&line));
}

/// Prints bytes of a result unchanged.
pub fn raw(bytes: &[u8]) {
    let mut out = io::stdout().lock();
    drop(out.write_all(bytes).and_then(|()| out.flush()));
}

/// From now on only results and errors are printed.
pub fn set_quiet() {
    QUIET.store(true, Ordering::Relaxed);
}

/// From now on lines are printed as they are.
pub fn set_plain() {
    PLAIN.store(true, Ordering::Relaxed);
}

/// Whether lines are printed as they are.
pub fn is_plain() -> bool {
    PLAIN.load(Ordering::Relaxed)
}

/// Prints a line for people.
pub fn info(line: &str) {
    if QUIET.load(Ordering::Relaxed) {
        return;
    }
    print(Stream::Stderr, &[&fold_lines(line), "\n"], Overflow::Drop);
}

/// Prints a part of a line for people.
pub fn info_part(text: &str) {
    print(Stream::Stderr, &[text], Overflow::Drop);
}

/// Prints a question, whose answer follows on its last line.
pub fn question(text: &str) {
    print(Stream::Stderr, &[&fold_lines(text.trim_end()), " "], Overflow::Keep);
}

/// A line for people that is not lost although they do not read for a while: of these there are few.
pub fn report(line: &str) {
    print(Stream::Stderr, &[&fold_lines(line), "\n"], Overflow::Keep);
}

/// Returns the lines as they fit the terminal behind stderr, if it is one.
fn fold_lines(text: &str) -> String {
    let Some(width) = stderr_width() else { return text.to_owned() };
    let indent = |line: &str| 2 + line.len() - line.trim_start_matches(' ').len();
    let lines = text.split('\n').flat_map(|line| fold(line, indent(line), width));
    lines.collect::<Vec<_>>().join("\n")
}

/// Shows this in the last line of the terminal, until anything else is printed; `None` removes it.
pub fn set_live_line(line: Option<&str>) {
    let mut is_shown = lock_live_line();
    let text = match line {
        Some(line) => {
            let [cut, fold] = NO_WRAP;
            format!("{ERASE}{cut}{line}\r{fold}")
        }
        None if *is_shown => ERASE.to_owned(),
        None => return,
    };
    *is_shown = line.is_some();
    push(Stream::Stderr, text.into_bytes(), Overflow::Drop);
}

fn lock_live_line() -> MutexGuard<'static, bool> {
    LIVE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Prints why a command failed: `render` is given whether there are colours, and the width of the terminal.
pub fn error(render: impl FnOnce(bool, Option<usize>) -> String) {
    print(Stream::Stderr, &[&render(has_colour(), stderr_width()), "\n"], Overflow::Keep);
}

/// Prints what is wrong with the command line, or the help that it asks for. A closed terminal is nothing to
/// complain about to a closed terminal.
pub fn usage(error: &clap::Error) {
    if !error.use_stderr() || stderr_width().is_none() {
        return drop(error.print());
    }
    let text = error.render();
    let text = if has_colour() { text.ansi().to_string() } else { text.to_string() };
    print(Stream::Stderr, &[&fold_lines(&text)], Overflow::Keep);
}

/// One JSON value on a line.
pub fn json(value: &impl serde::Serialize) {
    match serde_json::to_string(value) {
        Ok(text) => result(&text),
        Err(error) => info(&format!("error: {error}")),
    }
}

/// An event of a run, one JSON value on a line. Only the last one is sure to be kept.
pub fn event(run: &str, value: &serde_json::Value, is_last: bool) {
    RUN.get_or_init(|| run.to_owned());
    let overflow = if is_last { Overflow::Keep } else { Overflow::Drop };
    print(Stream::Stdout, &[&value.to_string(), "\n"], overflow);
}

fn print(stream: Stream, parts: &[&str], overflow: Overflow) {
    let mut is_shown = lock_live_line();
    if std::mem::take(&mut *is_shown) {
        push(Stream::Stderr, ERASE.into(), overflow);
    }
    push(stream, parts.concat().into_bytes(), overflow);
}

fn push(stream: Stream, text: Vec<u8>, overflow: Overflow) {
    match (WRITERS.get(), stream) {
        (Some(writers), Stream::Stdout) => writers.stdout.push(stream, text, overflow),
        (Some(writers), Stream::Stderr) => writers.stderr.push(stream, text, overflow),
        (None, Stream::Stdout) => drop(io::stdout().lock().write_all(&text)),
        (None, Stream::Stderr) => drop(io::stderr().lock().write_all(&text)),
    }
}
