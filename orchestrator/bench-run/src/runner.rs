//! Performs trials: the environment of the task, a run of the engine, and the verification of what it left.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Instant;

use async_trait::async_trait;
use jiff::Timestamp;
use ralph_orchestrator_assembly::agent_names::is_reserved;
use ralph_orchestrator_assembly::registry;
use ralph_orchestrator_bench::job::{LedgerEntry, StartedTrial, TrialOrder, TrialRunner};
use ralph_orchestrator_bench::task::{StagedEnvironment, Task, reward};
use ralph_orchestrator_bench::trial::{
    Cause, CheatFinding, Durations, Fault, IterationReward, ResourceCeiling, TrialKey, TrialRecord,
    reduce_rewards,
};
use ralph_orchestrator_config::KeptFiles;
use ralph_orchestrator_contract::{Usage, Usd};
use ralph_orchestrator_engine::StopRequests;
use ralph_orchestrator_machine::StopReason;
use ralph_orchestrator_store::Layout;
use ralph_orchestrator_story::run_facts::{IterationUsage, RunFacts};
use ralph_orchestrator_supervisor::{KillSwitch, Supervisor};

use super::container::{ContainerSetup, JobContainers};
use super::contention::THRESHOLD;
use super::faults::fault;
use super::job_setup::JobSetup;
use super::resources::list_ceilings;
use super::setup_layer::SetupLayers;
use super::step::StepTrial;
use super::trial_environment::{TrialEnvironment, add_logs};
use super::verification::{Rewards, VerifierContainers};

/// The folder of an attempt with the states of its runs.
const STATE: &str = "state";

/// What is said of trials in which processes waited for a processor in 20 % of the time or more.
const CONTENDED: &str = "the processors were contended for 20 % or more of the agent's time in some trials (`contention` of \
     their records): time limits weighed more there; use a lower `concurrency`, or a machine that does nothing else";

/// The variable with the seed of a trial: that of the job, and the number of the trial.
const TRIAL_SEED: &str = "TRIAL_SEED";

/// Performs the trials of a job in this process.
pub struct Runner<'a> {
    pub(super) setup: &'a JobSetup,
    tasks: BTreeMap<String, Task>,
    /// Kills all that trials have started.
    pub(super) switch: KillSwitch,
    pub(super) stop: StopRequests,
    /// Its fork server serves all trials.
    pub(super) supervisor: Supervisor,
    /// What makes containers, if trials are performed in them.
    containers: Option<JobContainers>,
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

    /// Performs an attempt. What it came to until a fault is in `progress`.
    async fn perform(&self, order: &TrialOrder, progress: &mut Progress) -> Result<(), Fault> {
        let task = self.tasks.get(&order.key.task).ok_or_else(|| {
            fault(Cause::Infrastructure, "TaskNotFoundError", "the task is gone".to_owned())
        })?;
        let started = Instant::now();
        let (staged, environment) = self.prepare(task, order).await?;
        progress.durations.setup_ms = millis(started);
        let ended = self.perform_steps(task, order, (&staged, &environment), progress).await;
        progress.warnings.extend(environment.remove().await);
        ended
    }

    /// Makes the environment of an attempt.
    async fn prepare(
        &self,
        task: &Task,
        order: &TrialOrder,
    ) -> Result<(StagedEnvironment, TrialEnvironment), Fault> {
        let failed = |error: std::io::Error| {
            fault(Cause::Infrastructure, "EnvironmentError", error.to_string())
        };
        let (switch, supervisor) = (&self.switch, &self.supervisor);
        let Some(containers) = &self.containers else {
            let mut staged = self.stage(task, order).await?;
            add_logs(&mut staged, &order.dir).map_err(failed)?;
            let environment =
                TrialEnvironment::create(task, &staged, &order.dir, self.setup, supervisor);
            return environment.map_err(failed).map(|environment| (staged, environment));
        };
        let setup = ContainerSetup {
            task,
            source: &task.source,
            settings: &task.environment,
            dir: &order.dir,
            name: containers.name(&order.name, order.attempt),
            shared: self.setup.shared_mounts(),
            vars: &self.variables(&order.key),
            shown: Vec::new(),
            has_bundled_tests: false,
            network: &task.environment.network,
            cache: self.setup.image_locks(),
            switch,
        };
        let (staged, image) = containers.stage(&setup).await?;
        let container = containers.create(&setup, &image, &staged).await?;
        let isolation = self.setup.loaded.config.bench.isolation;
        let environment =
            TrialEnvironment::from_container(container, &staged, &order.dir, isolation, supervisor);
        Ok((staged, environment))
    }

    /// Performs the steps of a task in its environment.
    async fn perform_steps(
        &self,
        task: &Task,
        order: &TrialOrder,
        (staged, environment): (&StagedEnvironment, &TrialEnvironment),
        progress: &mut Progress,
    ) -> Result<(), Fault> {
        if let Some(check) = &task.environment.healthcheck {
            environment.wait_until_healthy(check).await?;
        }
        let mut rewards = Vec::new();
        for (index, step) in task.steps.iter().enumerate() {
            let trial = StepTrial { runner: self, order, task, step, index, staged, environment };
            let found = Box::pin(trial.perform(progress)).await?;
            let failure = reward::find_gate_failure(step.min_reward.as_ref(), Some(&found));
            rewards.push(Some(found));
            if let Some(failure) = failure {
                let name = step.name.as_deref().unwrap_or("the step");
                progress.warnings.push(format!("ended after {name}: {failure}"));
                break;
            }
        }
        progress.rewards =
            reward::combine_rewards(task.reward_strategy, &rewards).unwrap_or_default();
        Ok(())
    }

    /// Makes the files of the task's environment.
    async fn stage(&self, task: &Task, order: &TrialOrder) -> Result<StagedEnvironment, Fault> {
        let (into, vars) = (order.dir.join("environment"), self.variables(&order.key));
        let (layers, environment) = (self.layers(), task.agent_environment());
        let staged = if layers.is_needed(environment) {
            layers.copy_into(environment, &into, &into).await?;
            task.adopt_files(&into, &vars)
        } else {
            task.stage(&into, &vars)
        };
        staged.map_err(|error| fault(Cause::Sandbox, "EnvironmentError", error.to_string()))
    }

    /// Removes the files of an attempt that are not to be kept.
    fn remove_files(&self, dir: &Path, progress: &mut Progress) {
        let reward = reduce_rewards(&progress.rewards);
        let is_solved = reward.is_some_and(|reward| reward >= 1.0);
        let is_kept = match self.setup.loaded.config.bench.keep {
            KeptFiles::All => true,
            KeptFiles::Failed => !is_solved,
            KeptFiles::None => false,
        };
        if is_kept {
            return;
        }
        if let Err(error) = std::fs::remove_dir_all(dir.join("environment")) {
            let message = format!("the files of an attempt could not be removed: {error}");
            progress.warnings.push(message);
        }
    }

    /// Returns the record of an attempt.
    fn record(
        &self,
        key: &TrialKey,
        attempt: u32,
        started: Timestamp,
        mut progress: Progress,
    ) -> TrialRecord {
        if progress.contention.is_some_and(|share| share >= THRESHOLD) {
            // The same words for all of these trials, so that the report has them once.
            progress.warnings.push(CONTENDED.to_owned());
        }
        let redactor = self.setup.redactor();
        // What a command of the task printed may be in it.
        progress.fault = redactor.redact(progress.fault);
        progress.warnings = redactor.redact(progress.warnings);
        let task = self.tasks.get(&key.task);
        let last = progress.facts.last();
        let totals: Vec<Usage> = progress.facts.iter().map(RunFacts::total).collect();
        let cost = totals.iter().map(|total| total.cost).sum::<Option<Usd>>();
        let usage = Usage {
            tokens: totals.iter().filter_map(|total| total.tokens).reduce(|one, other| one + other),
            cost: if is_reserved(&key.column.agent) { Some(Usd::ZERO) } else { cost },
            estimated: totals.iter().any(|total| total.estimated),
        };
        TrialRecord {
            key: key.clone(),
            attempt,
            task_digest: task.map(|task| task.digest.clone()).unwrap_or_default(),
            started,
            finished: Timestamp::now(),
            run: last.map(|facts| facts.run.clone()),
            stop_reason: progress.stop_reason.map(|reason| reason.word().to_owned()),
            agent_version: last.and_then(|facts| facts.version.clone()),
            model: last.and_then(|facts| facts.model.clone()),
            reused: None,
            regraded: None,
            usage,
            iterations: progress.facts.iter().map(|facts| facts.iterations).sum(),
            claims: progress.facts.iter().map(|facts| facts.claims).sum(),
            completed: progress.stop_reason == Some(StopReason::Completed),
            rewards: progress.rewards,
            fault: progress.fault,
            durations: progress.durations,
            curve: progress.curve,
            cheating: progress.cheating,
            contention: progress.contention,
            resources: task.map(|task| self.list_resources(task)).unwrap_or_default(),
            warnings: progress.warnings,
        }
    }

    /// Returns what a task wants of the machine at most, and whether it got no more.
    fn list_resources(&self, task: &Task) -> BTreeMap<String, ResourceCeiling> {
        match &self.containers {
            Some(containers) => containers.list_ceilings(&task.environment),
            None => list_ceilings(&task.environment, &[]),
        }
    }

    /// Returns the lines of the ledger for the runs of an attempt.
    fn costs(key: &TrialKey, name: &str, attempt: u32, facts: &[RunFacts]) -> Vec<LedgerEntry> {
        let mut entries = Vec::new();
        for (step, facts) in facts.iter().enumerate() {
            let mut lines = to_ledger(facts, name, &key.column.agent, attempt);
            // Steps are runs of their own, and the ledger knows iterations of the attempt.
            let offset = entries.len() as u64;
            if step > 0 {
                lines.iter_mut().for_each(|line| line.iteration += offset);
            }
            entries.extend(lines);
        }
        entries
    }
}

#[async_trait(?Send)]
impl TrialRunner for Runner<'_> {
    async fn run(&self, order: TrialOrder) -> (TrialRecord, Vec<LedgerEntry>) {
        let started = Timestamp::now();
        let mut progress = Progress::default();
        if let Err(fault) = Box::pin(self.perform(&order, &mut progress)).await {
            progress.fault = Some(fault);
            progress.rewards.clear();
        }
        if self.switch.is_pulled() {
            // A verifier that was killed has said nothing, whatever it has left.
            let message = "everything that ran was killed on request".to_owned();
            progress.fault = Some(fault(Cause::Cancelled, "CancelledError", message));
            progress.rewards.clear();
            progress.curve.clear();
        }
        self.remove_files(&order.dir, &mut progress);
        let costs = Self::costs(&order.key, &order.name, order.attempt, &progress.facts);
        (self.record(&order.key, order.attempt, started, progress), costs)
    }

    async fn recover(&self, started: &StartedTrial, name: &str) -> (TrialRecord, Vec<LedgerEntry>) {
        let mut progress = Progress::default();
        for index in 0.. {
            let state = state_dir(&started.dir, index);
            if !state.exists() {
                break;
            }
            progress.add_runs(&Layout::new(state));
        }
        let message = "the process that performed it ended".to_owned();
        progress.fault = Some(fault(Cause::Cancelled, "CancelledError", message));
        let costs = Self::costs(&started.key, name, started.attempt, &progress.facts);
        let now = Timestamp::now();
        (self.record(&started.key, started.attempt, now, progress), costs)
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

/// Returns the lines of the ledger for a run of an attempt.
fn to_ledger(facts: &RunFacts, trial: &str, agent: &str, attempt: u32) -> Vec<LedgerEntry> {
    let line = |(iteration, usage): (&u64, &IterationUsage)| LedgerEntry {
        trial: trial.to_owned(),
        agent: agent.to_owned(),
        attempt,
        iteration: *iteration,
        run: facts.run.clone(),
        tokens: usage.tokens,
        cost_usd: usage.cost,
        estimated: usage.is_estimated,
    };
    facts.usage.iter().map(line).collect()
}
