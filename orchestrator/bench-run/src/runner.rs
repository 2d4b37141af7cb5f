//! What performs the trials of a job, and what an attempt at one has come to.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Instant;

use ralph_orchestrator_assembly::registry;
use ralph_orchestrator_bench::task::Task;
use ralph_orchestrator_bench::trial::{CheatFinding, Durations, Fault, IterationReward, TrialKey};
use ralph_orchestrator_contract::Usd;
use ralph_orchestrator_engine::StopRequests;
use ralph_orchestrator_machine::StopReason;
use ralph_orchestrator_store::Layout;
use ralph_orchestrator_story::run_facts::RunFacts;
use ralph_orchestrator_supervisor::{KillSwitch, Supervisor};

use super::container::JobContainers;
use super::job_setup::JobSetup;
use super::setup_layer::SetupLayers;
use super::verification::{Rewards, VerifierContainers};

/// The folder of an attempt with the states of its runs.
const STATE: &str = "state";

/// The variable with the seed of a trial: that of the job, and the number of the trial.
const TRIAL_SEED: &str = "TRIAL_SEED";

/// Performs the trials of a job in this process.
pub struct Runner<'a> {
    pub(super) setup: &'a JobSetup,
    pub(super) tasks: BTreeMap<String, Task>,
    /// Kills all that trials have started.
    pub(super) switch: KillSwitch,
    pub(super) stop: StopRequests,
    /// Its fork server serves all trials.
    pub(super) supervisor: Supervisor,
    /// What makes containers, if trials are performed in them.
    pub(super) containers: Option<JobContainers>,
}

/// What an attempt has come to so far.
#[derive(Default)]
pub(super) struct Progress {
    /// Of the runs of each step.
    pub(super) facts: Vec<RunFacts>,
    pub(super) rewards: Rewards,
    pub(super) durations: Durations,
    pub(super) stop_reason: Option<StopReason>,
    pub(super) fault: Option<Fault>,
    pub(super) curve: Vec<IterationReward>,
    pub(super) cheating: Vec<CheatFinding>,
    /// The share of the agent's time in which somebody waited for a processor; of several steps the largest.
    pub(super) contention: Option<f64>,
    pub(super) warnings: Vec<String>,
}

impl Progress {
    /// Adds what the runs of a step cost, and how they went. Returns how many runs these are.
    pub(super) fn add_runs(&mut self, layout: &Layout) -> usize {
        let (facts, problem) = RunFacts::read_all(layout);
        let count = facts.len();
        self.facts.extend(facts);
        self.warnings.extend(problem.map(|error| format!("what it cost is not known: {error}")));
        count
    }

    /// Charges iterations that could not say what they cost with what others of the agent usually cost.
    pub(super) fn charge_lost(&mut self, usual_cost: Option<Usd>) {
        if let Some(usual) = usual_cost {
            self.facts.iter_mut().for_each(|facts| facts.charge_lost(usual));
        }
    }
}

impl<'a> Runner<'a> {
    /// Returns what performs trials of these tasks. Everything ends at `switch`; agents end by themselves at `stop`.
    pub fn new(
        setup: &'a JobSetup,
        tasks: Vec<Task>,
        switch: KillSwitch,
        stop: StopRequests,
    ) -> Self {
        let tasks = tasks.into_iter().map(|task| (task.name.clone(), task)).collect();
        let supervisor = registry::supervisor_of_one(switch.clone());
        Self { setup, tasks, switch, stop, supervisor, containers: None }
    }

    /// Performs trials in containers.
    pub fn with_containers(self, containers: Option<JobContainers>) -> Self {
        Self { containers, ..self }
    }

    /// Returns what runs RUN lines of tasks.
    pub(super) const fn layers(&self) -> SetupLayers<'_> {
        let (switch, supervisor) = (&self.switch, &self.supervisor);
        SetupLayers { job: self.setup, switch, supervisor }
    }

    /// Returns what makes the containers of separate verifiers, for an attempt of this name.
    pub(super) fn verifier_containers(
        &self,
        name: &str,
        attempt: u32,
    ) -> Option<VerifierContainers<'_>> {
        let containers = self.containers.as_ref()?;
        Some(VerifierContainers {
            containers,
            name: format!("{}-verifier", containers.name(name, attempt)),
            shared: self.setup.shared_mounts(),
            isolation: self.setup.loaded.config.bench.isolation,
            cache: self.setup.image_locks(),
            switch: &self.switch,
            supervisor: &self.supervisor,
        })
    }

    /// Returns the task of this name.
    pub(super) fn task(&self, name: &str) -> Option<&Task> {
        self.tasks.get(name)
    }

    /// Returns the variables that tasks can name, with the seed of the trial, which is the same for all columns.
    pub(super) fn variables(&self, key: &TrialKey) -> BTreeMap<String, String> {
        let mut vars = self.setup.vars.clone();
        let seed = self.setup.loaded.config.bench.seed;
        vars.insert(TRIAL_SEED.to_owned(), seed.saturating_add(u64::from(key.trial)).to_string());
        vars
    }
}

/// Returns the state directory of the run of a step.
pub(super) fn state_dir(attempt: &Path, step: usize) -> PathBuf {
    match step {
        0 => attempt.join(STATE),
        _ => attempt.join(format!("{STATE}-{}", step + 1)),
    }
}

pub(super) fn millis(since: Instant) -> u64 {
    u64::try_from(since.elapsed().as_millis()).unwrap_or(u64::MAX)
}
