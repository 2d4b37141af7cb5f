//! The setup: the command that prepares the workspace before each iteration. What it changes is no work.

use super::between_iterations::{self, ignores_verdicts};
use super::record::Record;
use super::state::State;
use super::transition::Transition;

/// How far the setup of the workspace has come.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SetupState {
    /// It has run, and no iteration has begun since.
    pub is_done: bool,
    /// It has begun, and the workspace was not observed since.
    pub is_unobserved: bool,
    /// Why it failed the last time, for the agent.
    pub problem: Option<String>,
}

/// The end of the setup, as reported by the driver.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SetupEnd {
    /// Why it failed, for the agent.
    pub problem: Option<String>,
    /// The tree as it left it; `None` if that could not be observed.
    pub tree: Option<String>,
    /// Ended by a request to stop.
    pub interrupted: bool,
    /// Ended by `limits.max_runtime`.
    pub out_of_time: bool,
}

impl State {
    pub(super) fn setup_finished(&mut self, tree: Option<&str>, problem: Option<&str>) {
        self.setup.is_done = true;
        self.setup.problem = problem.map(str::to_owned);
        if let Some(tree) = tree {
            self.tree_set_up(tree);
        }
    }

    /// Takes the tree as the setup left it: no progress, and no older evidence.
    pub(super) fn tree_set_up(&mut self, tree: &str) {
        self.setup.is_unobserved = false;
        let workspace = &mut self.workspace;
        if workspace.is_same_tree(tree) {
            return;
        }
        tree.clone_into(&mut workspace.tree);
        workspace.tree_left = None;
        // What was rejected without it may be accepted with it.
        workspace.changed_since_validation |= self.validation.rejection.is_some();
        self.progress.trees_seen.insert(tree.to_owned());
    }
}

/// Records that the setup begins, before it changes anything.
pub(super) fn started(next: &mut Transition) {
    if next.state.is_between_iterations() {
        let iteration = between_iterations::next_attempt(&next.state).0;
        next.record(Record::SetupStarted { iteration });
    }
}

/// Records the end of the setup, and resumes where it was needed. One that was broken off is run again.
pub(super) fn finished(next: &mut Transition, end: SetupEnd) {
    if !next.state.is_between_iterations()
        || ignores_verdicts(next, end.interrupted, end.out_of_time)
    {
        return;
    }
    let iteration = between_iterations::next_attempt(&next.state).0;
    let runtime_ms = next.runtime_ms();
    let SetupEnd { problem, tree, .. } = end;
    next.record(Record::SetupFinished { iteration, problem, tree, runtime_ms });
    if next.state.iterations == 0 && !next.state.process.stop_requested {
        // The checks before any work need it as well.
        between_iterations::decide(next);
    } else {
        between_iterations::wait_finished(next);
    }
}
