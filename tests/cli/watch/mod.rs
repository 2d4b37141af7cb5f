//! `watch` in a real terminal: what it shows, what its keys do to a run, and how it ends.

mod ends;
mod keys;
mod moments;
mod views;

use regex::Regex;

use crate::environment::TestEnvironment;
use crate::screen::snapshot;
use crate::tmux::Tmux;

const TERM: &str = "screen-256color";

/// Starts the view in a window of a certain size.
fn watch(env: &TestEnvironment, columns: u16, rows: u16) -> Tmux {
    Tmux::start_with(env, &["watch"], (columns, rows), TERM)
}

/// A snapshot of screens, without what is different each time: the day, and the folder, which takes as many lines as its
/// length says. Rows that are all alike are one.
#[track_caller]
fn snapshot_views(name: &str, text: &str) {
    let has_clock = |line: &str| Regex::new(r"\d\d:\d\d:\d\d").unwrap().is_match(line);
    let mut lines: Vec<String> = Vec::new();
    let mut is_below = false;
    for line in text.lines() {
        is_below &= !has_clock(line);
        if is_below {
            continue;
        }
        is_below = line.contains("run started with command");
        let begin = line.split(" in").next().filter(|_| is_below);
        let line = begin.unwrap_or(line);
        lines.push(match line.split_once("── 20") {
            Some((pane, _)) => format!("{pane}── [day] ──"),
            None => line.to_owned(),
        });
    }
    lines.dedup();
    snapshot(name, &lines.join("\n"));
}
