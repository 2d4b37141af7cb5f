//! Who is above a hook: the agent whose session it is, and a run that has started it.

use ralph_orchestrator_supervisor::{Ancestor, ProcessId};

/// Programs that only start others.
const SHELLS: [&str; 6] = ["sh", "bash", "dash", "zsh", "fish", "busybox"];

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
    use ralph_orchestrator_supervisor::ancestors;

    use super::*;

    #[test]
    fn a_test_is_started_by_no_run() {
        assert!(!is_in_run(&ancestors()));
    }
}
