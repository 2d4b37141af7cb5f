//! The processes above this one: the agent whose session it is, and a run that has started it.

use std::fs;
use std::path::PathBuf;

use serde::{Deserialize, Serialize};

/// More than any chain of processes is long.
const DEEPEST: usize = 128;
/// Programs that only start others.
const SHELLS: [&str; 6] = ["sh", "bash", "dash", "zsh", "fish", "busybox"];

/// A process, whatever becomes of its number.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct ProcessId {
    pid: u32,
    /// When it was started, in clock ticks since the machine was.
    started: u64,
}

impl ProcessId {
    /// Returns whether it still runs.
    pub(crate) fn is_alive(&self) -> bool {
        Stat::read(self.pid).is_some_and(|stat| stat.started == self.started && !stat.is_over)
    }
}

/// A process above this one.
pub(crate) struct Ancestor {
    pub(crate) id: ProcessId,
    name: String,
    program: Option<PathBuf>,
}

struct Stat {
    name: String,
    is_over: bool,
    parent: u32,
    started: u64,
}

impl Stat {
    fn read(pid: u32) -> Option<Self> {
        Self::parse(&fs::read_to_string(format!("/proc/{pid}/stat")).ok()?)
    }

    /// The name is in parentheses, and may contain some.
    fn parse(text: &str) -> Option<Self> {
        let (head, rest) = text.rsplit_once(')')?;
        let (_, name) = head.split_once('(')?;
        let fields: Vec<&str> = rest.split_whitespace().collect();
        Some(Self {
            name: name.to_owned(),
            is_over: matches!(*fields.first()?, "Z" | "X"),
            parent: fields.get(1)?.parse().ok()?,
            started: fields.get(19)?.parse().ok()?,
        })
    }
}

/// Returns the processes above this one, the nearest first.
pub(crate) fn ancestors() -> Vec<Ancestor> {
    let mut found = Vec::new();
    let mut next = Stat::read(std::process::id()).map(|stat| stat.parent);
    while let Some(pid) = next.filter(|pid| *pid > 0 && found.len() < DEEPEST) {
        let Some(stat) = Stat::read(pid) else { break };
        let program = fs::read_link(format!("/proc/{pid}/exe")).ok();
        let id = ProcessId { pid, started: stat.started };
        found.push(Ancestor { id, name: stat.name, program });
        next = Some(stat.parent);
    }
    found
}

/// Returns the agent among the processes above this one: the nearest that is no shell.
pub(crate) fn agent_of(ancestors: &[Ancestor]) -> Option<ProcessId> {
    let is_shell = |name: &str| SHELLS.contains(&name);
    ancestors.iter().find(|process| !is_shell(&process.name)).map(|process| process.id.clone())
}

/// Returns whether a run of this program has started the agent, which then asks nothing here.
pub(crate) fn is_in_run(ancestors: &[Ancestor]) -> bool {
    let own = std::env::current_exe().ok();
    ancestors.iter().any(|process| own.is_some() && process.program == own)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_with_parentheses_and_spaces_is_no_obstacle() {
        let rest = " S 7 1 1 0 -1 4194560 1 0 0 0 0 0 0 0 20 0 1 0 4242 0 0";
        let stat = Stat::parse(&format!("12 (a) b) (c){rest}")).unwrap();
        assert_eq!((stat.name.as_str(), stat.parent, stat.started), ("a) b) (c", 7, 4242));
        assert!(!stat.is_over);
        assert!(Stat::parse("12 (sh").is_none());
    }

    #[test]
    fn a_process_is_known_by_its_start_as_well() {
        let above = ancestors();
        let parent = &above.first().unwrap().id;
        assert!(parent.is_alive());
        assert!(!ProcessId { started: parent.started + 1, ..parent.clone() }.is_alive());
        assert!(!is_in_run(&above));
    }
}
