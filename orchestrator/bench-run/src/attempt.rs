//! Performs an attempt at a trial: makes its environment, performs the steps, and records what that came to.

use std::collections::BTreeMap;
use std::path::Path;
use std::time::{Duration, Instant};

use async_trait::async_trait;
use jiff::Timestamp;
use ralph_orchestrator_assembly::agent_names::is_reserved;
use ralph_orchestrator_bench::host::Machine;
use ralph_orchestrator_bench::job::{LedgerEntry, StartedTrial, TrialOrder, TrialRunner};
use ralph_orchestrator_bench::task::{StagedEnvironment, Task, reward};
use ralph_orchestrator_bench::trial::{
    Cause, Column, Fault, NOP, ResourceCeiling, TrialKey, TrialRecord, reduce_rewards,
};
use ralph_orchestrator_config::KeptFiles;
use ralph_orchestrator_contract::{Usage, Usd};
use ralph_orchestrator_machine::StopReason;
use ralph_orchestrator_store::Layout;
use ralph_orchestrator_story::run_facts::{IterationUsage, RunFacts};

use super::container::ContainerSetup;
use super::contention::THRESHOLD;
use super::faults::fault;
use super::resources::list_ceilings;
use super::runner::{Progress, Runner, millis, state_dir};
use super::step::StepTrial;
use super::trial_environment::{PROBE_TIMEOUT, TrialEnvironment, add_logs};

/// What is said of trials in which processes waited for a processor in 20 % of the time or more.
const CONTENDED: &str = "the processors were contended for 20 % or more of the agent's time in some trials (`contention` of \
     their records): time limits weighed more there; use a lower `concurrency`, or a machine that does nothing else";

/// What is said of an attempt that waited for the provider when the job was stopped.
const NOT_BEGUN: &str = "the job was stopped while it waited for the provider";

impl Runner<'_> {
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

    /// Waits, as before an attempt. Returns whether it can begin: no stop was requested meanwhile.
    async fn wait(&self, pause: Duration) -> bool {
        let mut stop = self.stop.clone();
        tokio::select! {
            biased;
            _ = stop.wait_for(|request| request.times > 0), if !pause.is_zero() => false,
            () = tokio::time::sleep(pause) => true,
        }
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
            let logs = order.dir.join("logs");
            staged.install_logs(&logs).map_err(|error| failed(std::io::Error::other(error)))?;
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

    /// Makes the environment of a task as a trial does, in a folder that exists and is empty, and starts in it what its tests
    /// need first. No agent is started.
    ///
    /// # Errors
    /// No trial could begin.
    pub async fn try_environment(&self, task: &Task, dir: &Path) -> Result<(), Fault> {
        let column = Column { agent: NOP.to_owned(), variant: None };
        let order = TrialOrder {
            key: TrialKey { column, task: task.name.clone(), trial: 1 },
            name: "check".to_owned(),
            attempt: 1,
            dir: dir.to_owned(),
            max_cost: None,
            usual_cost: None,
            pause: Duration::ZERO,
        };
        let (staged, environment) = self.prepare(task, &order).await?;
        let started = self.start_in(task, &order, (&staged, &environment)).await;
        drop(environment.remove().await);
        started
    }

    async fn start_in(
        &self,
        task: &Task,
        order: &TrialOrder,
        (staged, environment): (&StagedEnvironment, &TrialEnvironment),
    ) -> Result<(), Fault> {
        let ended =
            environment.run(&["true".to_owned()], &BTreeMap::new(), PROBE_TIMEOUT, &[]).await?;
        if !ended.is_success {
            let message = format!("`true` ended with {}: {}", ended.status, ended.output.trim());
            return Err(fault(Cause::Sandbox, "EnvironmentError", message));
        }
        if let Some(check) = &task.environment.healthcheck {
            environment.wait_until_healthy(check).await?;
        }
        for (index, step) in task.steps.iter().enumerate() {
            let trial = StepTrial { runner: self, order, task, step, index, staged, environment };
            trial.require_test_tools().await?;
        }
        Ok(())
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
            machine: Some(Machine::this()),
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
        let is_free = self.wait(order.pause).await;
        let started = Timestamp::now();
        let mut progress = Progress::default();
        let ended = match is_free {
            true => Box::pin(self.perform(&order, &mut progress)).await,
            false => Err(fault(Cause::Cancelled, "CancelledError", NOT_BEGUN.to_owned())),
        };
        if let Err(fault) = ended {
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
        progress.charge_lost(order.usual_cost);
        self.remove_files(&order.dir, &mut progress);
        let costs = Self::costs(&order.key, &order.name, order.attempt, &progress.facts);
        (self.record(&order.key, order.attempt, started, progress), costs)
    }

    async fn recover(
        &self,
        started: &StartedTrial,
        name: &str,
        usual_cost: Option<Usd>,
    ) -> (TrialRecord, Vec<LedgerEntry>) {
        let mut progress = Progress::default();
        for index in 0.. {
            let state = state_dir(&started.dir, index);
            if !state.exists() {
                break;
            }
            progress.add_runs(&Layout::new(state));
        }
        progress.charge_lost(usual_cost);
        let message = "the process that performed it ended".to_owned();
        progress.fault = Some(fault(Cause::Cancelled, "CancelledError", message));
        let costs = Self::costs(&started.key, name, started.attempt, &progress.facts);
        let now = Timestamp::now();
        (self.record(&started.key, started.attempt, now, progress), costs)
    }

    async fn idle(&self, time: Duration) {
        self.wait(time).await;
    }
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
