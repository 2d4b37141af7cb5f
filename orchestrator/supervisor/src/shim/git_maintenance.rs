//! Git's maintenance of a repository, which `git commit` and others start in the background: it ends by itself, mostly within
//! moments, and nobody has left it behind.

use std::collections::HashSet;
use std::fs;
use std::path::Path;

use crate::procfs::Stat;

/// What git is asked to do in the background.
const SUBCOMMANDS: [&str; 2] = ["maintenance", "gc"];

/// Removes git's maintenance, with what that has started of git. Returns whether there is any.
pub(super) fn remove_maintenance(processes: &mut Vec<Stat>) -> bool {
    let is_git = |process: &&Stat| process.name == "git";
    let mut found: HashSet<i32> = processes
        .iter()
        .filter(is_git)
        .filter(|process| is_maintenance(process.pid))
        .map(|process| process.pid)
        .collect();
    let mut before = 0;
    while before < found.len() {
        before = found.len();
        let parts = processes.iter().filter(is_git);
        let more: Vec<i32> =
            parts.filter(|part| found.contains(&part.parent)).map(|part| part.pid).collect();
        found.extend(more);
    }
    processes.retain(|process| !found.contains(&process.pid));
    !found.is_empty()
}

fn is_maintenance(pid: i32) -> bool {
    let Ok(line) = fs::read(format!("/proc/{pid}/cmdline")) else { return false };
    let mut words = line.split(|byte| *byte == 0).filter_map(|word| std::str::from_utf8(word).ok());
    let is_git = words.next().is_some_and(|name| Path::new(name).ends_with("git"));
    is_git && words.find(|word| !word.starts_with('-')).is_some_and(|w| SUBCOMMANDS.contains(&w))
}
