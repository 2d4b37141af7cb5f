//! The paths of a state directory.

use std::path::{Path, PathBuf};

/// The paths inside a state directory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Layout {
    root: PathBuf,
}

impl Layout {
    /// The name of a run's resolved configuration.
    pub const CONFIG: &str = "config.toml";
    /// The name of a run's resolved configuration with its secrets, sealed; missing if it has none.
    pub const SEALED_CONFIG: &str = "config.sealed";
    /// The name of the file with what protected paths were when the run began.
    pub const BASELINE: &str = "baseline.json";
    /// The name of the file with what the files that agents read were when the run first needed them.
    pub const INPUTS: &str = "inputs.json";

    /// The name of the file with the paths that counted in the workspace when the run began.
    pub const PATHS: &str = "paths.json";
    /// The name of the file with the prompts as they were before the last iteration.
    pub const PROMPTS: &str = "prompts.json";
    /// The name of the file that tells what the workspace held when the run began, if checks run in a checkout.
    pub const CHECKOUT: &str = "checkout.json";
    /// The name of the file that tells what is kept of the start and of the first checks for every checkout.
    pub const CHECKOUT_KEPT: &str = "checkout-kept.json";
    /// The name of the file with what files that do not count as work held when the run began, if checks run in a checkout.
    pub const CHECKOUT_CONTENTS: &str = "checkout-contents.json";
    /// The name of the file with what steered checks when the run began.
    pub const STEERING: &str = "steering.json";
    /// The name of the file with the tests that ran before any agent worked, by validator.
    pub const TESTS: &str = "tests.json";

    /// Returns the layout below `root`.
    #[must_use]
    pub const fn new(root: PathBuf) -> Self {
        Self { root }
    }

    /// Returns the state directory itself.
    #[must_use]
    pub fn root(&self) -> &Path {
        &self.root
    }

    /// Returns the lock.
    #[must_use]
    pub fn lock(&self) -> PathBuf {
        self.root.join("lock")
    }

    /// Returns the lock that lives as long as any process of an agent.
    #[must_use]
    pub fn agents_lock(&self) -> PathBuf {
        self.root.join("agents.lock")
    }

    /// Returns the file that names the owner.
    #[must_use]
    pub fn owner(&self) -> PathBuf {
        self.root.join("owner.json")
    }

    /// Returns the workspace that was made from a template.
    #[must_use]
    pub fn origin(&self) -> PathBuf {
        self.root.join("template.json")
    }

    /// Returns the file that says what is being deleted.
    #[must_use]
    pub fn deletion(&self) -> PathBuf {
        self.root.join("deletion.json")
    }

    /// Returns the record of rollbacks.
    #[must_use]
    pub fn rollbacks(&self) -> PathBuf {
        self.root.join("rollbacks.json")
    }

    /// Returns the file that says where checks were found to be able to run in layers.
    #[must_use]
    pub fn tried_layers(&self) -> PathBuf {
        self.root.join("tried-layers")
    }

    /// Returns the key.
    #[must_use]
    pub fn key(&self) -> PathBuf {
        self.root.join("key")
    }

    /// Returns the latch.
    #[must_use]
    pub fn latch(&self) -> PathBuf {
        self.root.join("latch")
    }

    /// Returns the folder of a series of runs.
    #[must_use]
    pub fn series(&self) -> PathBuf {
        self.root.join("series")
    }

    /// Returns the folder of what iterations left in words, over all runs.
    #[must_use]
    pub fn memory(&self) -> PathBuf {
        self.root.join("memory")
    }

    /// Returns the folder of all runs.
    #[must_use]
    pub fn runs(&self) -> PathBuf {
        self.root.join("runs")
    }

    /// Returns the folder of a run.
    #[must_use]
    pub fn run(&self, run: &str) -> PathBuf {
        self.runs().join(run)
    }

    /// Returns a run's journal.
    #[must_use]
    pub fn journal(&self, run: &str) -> PathBuf {
        self.run(run).join("journal.jsonl")
    }

    /// Returns the last sign of life of whoever worked on a run.
    #[must_use]
    pub fn heartbeat(&self, run: &str) -> PathBuf {
        self.run(run).join("heartbeat")
    }

    /// Returns the program's log of a run.
    #[must_use]
    pub fn log(&self, run: &str) -> PathBuf {
        self.run(run).join("log.jsonl")
    }

    /// Returns a run's resolved configuration, for people: its secrets are masked. Programs take
    /// [`read_run_config`](super::read_run_config).
    #[must_use]
    pub fn config(&self, run: &str) -> PathBuf {
        self.run(run).join(Self::CONFIG)
    }

    /// Returns the state of protected paths when the run began; missing if none are protected.
    #[must_use]
    pub fn baseline(&self, run: &str) -> PathBuf {
        self.run(run).join(Self::BASELINE)
    }

    /// Returns the snapshot of the workspace when validators were last started; missing before that.
    #[must_use]
    pub fn snapshot(&self, run: &str) -> PathBuf {
        self.run(run).join("validating.json")
    }

    /// Returns the folder of the checkout in which checks run; missing if they run in the workspace.
    #[must_use]
    pub fn checkout(&self, run: &str) -> PathBuf {
        self.run(run).join("checkout")
    }

    /// Returns the folder of what is needed to store the run's work in git; missing if it is not.
    #[must_use]
    pub fn git(&self, run: &str) -> PathBuf {
        self.run(run).join("git")
    }

    /// Returns the folder of what is recorded of git worktrees, one folder for each.
    #[must_use]
    pub fn worktrees(&self) -> PathBuf {
        self.root.join("worktrees")
    }

    /// Returns the folder of what is needed to make the worktree whose first run has this id.
    #[must_use]
    pub fn worktree_git(&self, run: &str) -> PathBuf {
        self.worktrees().join(run).join("git")
    }

    /// Returns the folder of what is needed to merge lanes onto the branch of the worktree whose first run has this id.
    #[must_use]
    pub fn lanes_git(&self, run: &str) -> PathBuf {
        self.worktrees().join(run).join("lanes")
    }

    /// Returns the folder of what is needed to commit the statuses of items in that worktree.
    #[must_use]
    pub fn statuses_git(&self, run: &str) -> PathBuf {
        self.worktrees().join(run).join("statuses")
    }

    /// Returns the lock that lives as long as anything that makes a worktree.
    #[must_use]
    pub fn worktree_lock(&self) -> PathBuf {
        self.root.join("worktree.lock")
    }

    /// Returns the folder of accepted evidence.
    #[must_use]
    pub fn evidence(&self, run: &str) -> PathBuf {
        self.run(run).join("evidence")
    }

    /// Returns the folder of an iteration.
    #[must_use]
    pub fn iteration(&self, run: &str, number: u64) -> PathBuf {
        self.run(run).join("iterations").join(format!("{number:04}"))
    }

    /// Returns the prompt that an iteration was given, if it was kept: a prompt that is the same as the one
    /// before is not written again.
    #[must_use]
    pub fn kept_prompt(&self, run: &str, number: u64) -> Option<PathBuf> {
        self.kept(run, number, "prompt.md")
    }

    /// Returns the file that says how the agent of an iteration was started: its own, or the last before
    /// it.
    #[must_use]
    pub fn kept_start(&self, run: &str, number: u64) -> Option<PathBuf> {
        self.kept(run, number, "start.json")
    }

    fn kept(&self, run: &str, number: u64, name: &str) -> Option<PathBuf> {
        let files = (1..=number).rev().map(|number| self.iteration(run, number).join(name));
        files.into_iter().find(|file| file.is_file())
    }
}
