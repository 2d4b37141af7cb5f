//! Processes that end by themselves, mostly within moments, and that nobody has left behind: git's maintenance of a
//! repository, which `git commit` and others start in the background; the supervising processes of a leader that has
//! ended, as of a plugin's host; and those that are ending already.

use std::collections::HashSet;
use std::fs;
use std::path::Path;

use super::invocation::is_supervising;
use crate::procfs::{Stat, has_living_thread};

/// What git is asked to do in the background.
const MAINTENANCE: [&str; 2] = ["maintenance", "gc"];

/// Removes those that end by themselves, and what git's maintenance has started of git. Returns whether there is any.
pub(super) fn remove_transient(processes: &mut Vec<Stat>) -> bool {
    let before = processes.len();
    let mut maintenance = HashSet::new();
    processes.retain(|process| {
        let words = command_line(process.pid);
        if process.name == "git" && is_maintenance(&words) {
            maintenance.insert(process.pid);
        }
        // The kernel shows none of a process that is ending, nor of one whose first thread has ended.
        let is_ending =
            words.is_empty() && !(process.is_outlived && has_living_thread(process.pid));
        !is_ending && !is_supervising(&words)
    });
    let mut known = 0;
    while known < maintenance.len() {
        known = maintenance.len();
        let git = processes.iter().filter(|process| process.name == "git");
        let parts = git.filter(|part| maintenance.contains(&part.parent)).map(|part| part.pid);
        maintenance.extend(parts.collect::<Vec<_>>());
    }
    processes.retain(|process| !maintenance.contains(&process.pid));
    processes.len() < before
}

fn command_line(pid: i32) -> Vec<u8> {
    fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default()
}

fn is_maintenance(line: &[u8]) -> bool {
    let mut words = line.split(|byte| *byte == 0).filter_map(|word| std::str::from_utf8(word).ok());
    let is_git = words.next().is_some_and(|name| Path::new(name).ends_with("git"));
    is_git && words.find(|word| !word.starts_with('-')).is_some_and(|w| MAINTENANCE.contains(&w))
}
