//! One step of a trial: what is put into the environment, the run of the agent, and the verification.

use std::collections::BTreeMap;
use std::fs::{self, OpenOptions};
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
use std::time::Instant;

use ralph_orchestrator_assembly::agent_names::{ORACLE, is_reserved};
use ralph_orchestrator_assembly::error::{CommandError, exit};
use ralph_orchestrator_bench::job::{CONFIGURATION_ERROR, MISSING_PROGRAM_ERROR, TrialOrder};
use ralph_orchestrator_bench::task::{
    LeftFiles, Oracle, StagedEnvironment, Step, Task, TaskForm, TestFiles, resolve_env, reward,
};
use ralph_orchestrator_bench::trial::{Cause, Fault, IterationReward, REWARD};
use ralph_orchestrator_config::{LoadedConfig, VerifierTimeout};
use ralph_orchestrator_contract::Usd;
use ralph_orchestrator_machine::StopReason;
use ralph_orchestrator_shell_text::quote_command;
use ralph_orchestrator_store::Layout;
use ralph_orchestrator_supervisor::{Mount, MountAccess};

use super::agent_run::{self, AgentEnd};
use super::contention::CpuPressure;
use super::decoys::Decoys;
use super::faults::fault;
use super::faults::{self, AGENT_NOT_AVAILABLE};
use super::needed_programs::ProgramSight;
use super::opener::TrialOpener;
use super::runner::{Progress, Runner, millis, state_dir};
use super::snapshots::Snapshots;
use super::trial_config::{self, TrialSettings};
use super::trial_environment::{COMMAND_ERROR, PROBE_TIMEOUT, SOLUTION, TrialEnvironment};
use super::verification::{Rewards, UNUSABLE_WORK, VERIFIER_TIMEOUT, Verifier, unusable_work};

/// Performs a command, and claims that all is done if it succeeds.
const CLAIM_AFTER: &str =
    r#""$@" >&2 && echo "<promise>COMPLETE: whatever there was to do</promise>""#;

/// One step of a trial.
pub(super) struct StepTrial<'a> {
    pub(super) runner: &'a Runner<'a>,
    pub(super) order: &'a TrialOrder,
    pub(super) task: &'a Task,
    pub(super) step: &'a Step,
    /// Its place among the steps, from 0.
    pub(super) index: usize,
    pub(super) staged: &'a StagedEnvironment,
    pub(super) environment: &'a TrialEnvironment,
}

/// What the agent of a step sees beside its environment, and the words that perform the solution.
struct AgentSight {
    mounts: Vec<Mount>,
    solution: Vec<String>,
    decoys: Option<Decoys>,
}

impl StepTrial<'_> {
    /// Performs the step. Returns its rewards.
    ///
    /// # Errors
    /// The work is not judged.
    pub(super) async fn perform(&self, progress: &mut Progress) -> Result<Rewards, Fault> {
        let before = Instant::now();
        let has_setup =
            self.task.install_step_files(self.step, self.staged).map_err(no_environment)?;
        if has_setup {
            self.environment.run_setup().await?;
        }
        if let Some(check) = &self.step.healthcheck {
            self.environment.wait_until_healthy(check).await?;
        }
        // That of an earlier step is not the agent's.
        reward::remove_rewards(&self.order.dir.join("logs/verifier")).map_err(no_environment)?;
        let tests = self.task.record_test_files(self.step, self.staged).map_err(no_environment)?;
        self.require_test_tools().await?;
        let sight = self.prepare_sight()?;
        progress.durations.setup_ms += millis(before);
        let before = Instant::now();
        let state = state_dir(&self.order.dir, self.index);
        let pressure = CpuPressure::now();
        let ended = Box::pin(self.run_agent(&state, &sight)).await;
        progress.durations.run_ms += millis(before);
        let waited = pressure.measure_since();
        progress.contention = progress.contention.into_iter().chain(waited).reduce(f64::max);
        let runs = progress.add_runs(&Layout::new(state));
        let is_cancelled = |end: &AgentEnd| {
            end.fault.as_ref().is_some_and(|fault| fault.cause == Cause::Cancelled)
        };
        if let Some(fault) = self.environment.find_defect()
            && !ended.as_ref().is_ok_and(is_cancelled)
        {
            return Err(fault);
        }
        let AgentEnd { reason, fault: found, warnings } =
            ended.map_err(|error| self.explain(run_fault(&error)))?;
        progress.stop_reason = reason;
        progress.warnings.extend(warnings);
        if let Some(fault) = found.clone().filter(|fault| !faults::is_judged(fault.cause)) {
            return Err(self.explain(fault));
        }
        progress.fault = found;
        let before = Instant::now();
        let rewards = self.judge(reason, &tests, &sight, progress).await;
        if self.runner.setup.loaded.config.bench.curve && self.task.form != TaskForm::Own {
            self.verify_iterations(progress, runs).await;
        }
        progress.durations.verifier_ms += millis(before);
        rewards
    }

    /// Checks that what runs the tests is there, before an agent is paid for work that nothing could verify.
    ///
    /// # Errors
    /// It is not.
    pub(super) async fn require_test_tools(&self) -> Result<(), Fault> {
        let Some(probe) = self.step.verification.find_probe() else { return Ok(()) };
        let words: Vec<String> = probe.iter().map(|word| (*word).to_owned()).collect();
        let missing = |what: &str| {
            let sight = ProgramSight::of(self.runner.setup);
            let known = sight.find_missing_for_tests(self.task, self.step).into_iter().next();
            let advice = known.map_or_else(|| what.to_owned(), |program| sight.explain(&program));
            let message = format!("the tests cannot be run: {advice}");
            fault(Cause::Infrastructure, MISSING_PROGRAM_ERROR, message)
        };
        let ended = self.environment.run(&words, &BTreeMap::new(), PROBE_TIMEOUT, &[]).await;
        match ended {
            Ok(end) if end.is_success => Ok(()),
            Ok(end) => {
                let command = quote_command(&words);
                Err(missing(&format!(
                    "`{command}` ended with {}: {}",
                    end.status,
                    end.output.trim()
                )))
            }
            Err(error) if error.kind == COMMAND_ERROR => Err(missing(&error.message)),
            Err(error) => Err(error),
        }
    }

    /// Returns the rewards of what the agent left, and what it did to the verification. Work that cannot be verified for
    /// what the agent itself left has none.
    async fn judge(
        &self,
        reason: Option<StopReason>,
        tests: &TestFiles,
        sight: &AgentSight,
        progress: &mut Progress,
    ) -> Result<Rewards, Fault> {
        let rewards = match self.find_cheating(tests, sight) {
            Ok(found) => {
                progress.cheating.extend(found);
                self.verify(reason).await
            }
            Err(fault) => Err(fault),
        };
        match rewards {
            Err(fault) if self.is_worth_nothing(&fault) => {
                progress.fault = Some(fault);
                Ok(Rewards::from([(REWARD.to_owned(), 0.0)]))
            }
            rewards => rewards,
        }
    }

    /// Whether work that could not be verified has the reward 0: what the agent left may be why. No work of `oracle` and `nop` keeps
    /// tests from ending.
    fn is_worth_nothing(&self, fault: &Fault) -> bool {
        let is_late = fault.kind == VERIFIER_TIMEOUT
            && self.runner.setup.loaded.config.bench.verifier_timeout == VerifierTimeout::Zero
            && !is_reserved(&self.order.key.column.agent);
        fault.kind == UNUSABLE_WORK || is_late
    }

    /// Returns the fault with what helps where an agent is installed, and a trial does not see it.
    fn explain(&self, mut fault: Fault) -> Fault {
        if fault.kind == AGENT_NOT_AVAILABLE && self.environment.has_root() {
            fault.message.push_str(
                "; trials see the folders of the system, and what `read` and `write` in [sandbox] name",
            );
        }
        fault
    }

    /// Returns the words of a reserved agent. Where validators decide, they decide about a claim.
    fn reserved_words(&self, sight: &AgentSight) -> Vec<String> {
        if self.task.form != TaskForm::Own {
            return sight.solution.clone();
        }
        let claim = ["sh", "-c", CLAIM_AFTER, "sh"].map(str::to_owned);
        [claim.to_vec(), sight.solution.clone()].concat()
    }

    /// Makes what the agent sees: a task's own solution if it performs that, else nothing in its place.
    fn prepare_sight(&self) -> Result<AgentSight, Fault> {
        let failed =
            |error: io::Error| fault(Cause::Infrastructure, "EnvironmentError", error.to_string());
        let mut sight =
            AgentSight { mounts: Vec::new(), solution: vec!["true".to_owned()], decoys: None };
        if self.order.key.column.agent == ORACLE {
            let into = self.order.dir.join(format!("solution-{}", self.index));
            let folder = self
                .task
                .install_solution(self.step, self.staged, &into)
                .map_err(no_environment)?;
            if let Some((folder, script)) = folder.zip(solution_script(self.step)) {
                let seen = self.environment.inside(SOLUTION, &folder).join(script);
                sight.solution = vec!["bash".to_owned(), seen.display().to_string()];
                let access = MountAccess::ReadOnly;
                sight.mounts.push(Mount { source: folder, target: SOLUTION.into(), access });
            }
            return Ok(sight);
        }
        if self.environment.has_root() {
            let folder = match self.environment.container() {
                // It shows these folders only.
                Some(container) => {
                    container.show(&[]).map_err(failed)?;
                    container.folders().to_owned()
                }
                None => self.order.dir.join(format!("decoys-{}", self.index)),
            };
            let decoys = Decoys::create(&folder).map_err(failed)?;
            sight.mounts.extend(decoys.mounts());
            sight.decoys = Some(decoys);
        }
        Ok(sight)
    }

    /// Returns what the agent did to the verification.
    fn find_cheating(
        &self,
        tests: &TestFiles,
        sight: &AgentSight,
    ) -> Result<Vec<ralph_orchestrator_bench::trial::CheatFinding>, Fault> {
        if is_reserved(&self.order.key.column.agent) {
            return Ok(Vec::new());
        }
        let logs = self.order.dir.join("logs/verifier");
        let left = LeftFiles { verifier_logs: Some(&logs), ..LeftFiles::default() };
        let found = self.task.find_cheating(self.staged, tests, &left);
        let mut found = found.map_err(|error| unusable_work(self.task, error))?;
        found.extend(sight.decoys.iter().flat_map(Decoys::find_visits));
        Ok(found)
    }

    async fn verify(&self, reason: Option<StopReason>) -> Result<Rewards, Fault> {
        if self.task.form == TaskForm::Own {
            let reward = f64::from(u8::from(reason == Some(StopReason::Completed)));
            return Ok(Rewards::from([(REWARD.to_owned(), reward)]));
        }
        self.verifier(self.staged, self.environment, "").verify().await
    }

    fn verifier<'a>(
        &'a self,
        staged: &'a StagedEnvironment,
        environment: &'a TrialEnvironment,
        name: &'a str,
    ) -> Verifier<'a> {
        Verifier {
            vars: self.runner.variables(&self.order.key),
            task: self.task,
            step: self.step,
            staged,
            environment,
            name: format!("{}{name}", self.index),
            layers: self.runner.layers(),
            containers: self.runner.verifier_containers(&self.order.name, self.order.attempt),
        }
    }

    /// Verifies what each iteration of the last runs left, in the place of the work.
    async fn verify_iterations(&self, progress: &mut Progress, runs: usize) {
        let first = progress.facts.len().saturating_sub(runs);
        let snapshots = Snapshots { folder: self.snapshots() };
        let mut cost = Some(Usd::ZERO);
        let mut curve = Vec::new();
        // The runs of a backlog go on counting where the one before ended.
        let (mut before, mut before_ms) = (0, 0);
        for facts in progress.facts.iter().skip(first) {
            for (number, usage) in &facts.usage {
                cost = cost.zip(usage.cost).map(|(sum, cost)| sum + cost);
                let folder = snapshots.iteration(&facts.run, *number);
                if !folder.is_dir() {
                    continue;
                }
                let iteration = before + *number;
                let environment = self.environment.with_workspace(&folder);
                let staged = with_workspace(self.staged, &self.environment.workspace, &folder);
                let name = format!("-iteration-{iteration}");
                let found = self.verifier(&staged, &environment, &name).verify().await;
                curve.push(IterationReward {
                    iteration,
                    rewards: found.ok(),
                    cost_usd: cost.map(Usd::dollars),
                    elapsed_ms: before_ms + usage.ended_ms,
                });
            }
            before += facts.iterations;
            before_ms += facts.usage.values().map(|usage| usage.ended_ms).max().unwrap_or(0);
        }
        progress.curve.extend(curve);
        // They are as large as the workspace, once for each iteration.
        drop(fs::remove_dir_all(self.snapshots()));
    }

    fn snapshots(&self) -> PathBuf {
        self.order.dir.join(format!("iterations-{}", self.index))
    }

    /// Runs the agent on the step.
    async fn run_agent(&self, state: &Path, sight: &AgentSight) -> Result<AgentEnd, CommandError> {
        let column = &self.order.key.column;
        let loaded = self.configure(state, sight)?;
        self.require_program(&loaded).await?;
        if let Some(container) = self.environment.container() {
            container.show(&sight.mounts)?;
            container.start_ahead().await;
        }
        let prompt = self.write_prompt(&loaded).map_err(CommandError::from)?;
        let environment = self.environment.with_network(self.step.agent.network.as_ref());
        let opener = TrialOpener {
            job: self.runner.setup,
            loaded,
            is_first: self.task.form == TaskForm::Own && self.index == 0,
            agent: &column.agent,
            environment,
            mounts: &sight.mounts,
            snapshots: self.snapshots(),
        };
        let layout = Layout::new(state.to_owned());
        // It is large, and awaited by others that are.
        let ended = Box::pin(agent_run::perform(opener, layout, self.runner.stop.clone())).await;
        if let Some(file) = prompt {
            // It is no part of the work. The agent may have removed it, or made a folder of it.
            drop(fs::remove_file(&file).or_else(|_| fs::remove_dir_all(&file)));
        }
        ended
    }

    /// Checks that the agent's program is in the environment, where its start would not say so.
    async fn require_program(&self, loaded: &LoadedConfig) -> Result<(), CommandError> {
        let column = &self.order.key.column;
        if !self.environment.hides_missing_programs() || is_reserved(&column.agent) {
            return Ok(());
        }
        let agent = trial_config::build_agent(self.runner.setup, loaded, column).await?;
        let Some(program) = agent.agent().describe().program else { return Ok(()) };
        if self.environment.sees(&program).await {
            return Ok(());
        }
        let message =
            format!("the program of {column} is not in the environment: {}", program.display());
        Err(CommandError::unavailable(message))
    }

    /// Writes the instruction into the prompt file, if the agent is to claim there. Returns that file.
    fn write_prompt(&self, loaded: &LoadedConfig) -> io::Result<Option<PathBuf>> {
        let file = loaded.config.run.prompt.as_ref();
        let Some(file) = file.filter(|_| self.task.form != TaskForm::Own) else { return Ok(None) };
        let created = OpenOptions::new().write(true).create_new(true).open(file);
        let written = created.and_then(|mut created| {
            created.write_all(self.step.instruction.as_deref().unwrap_or_default().as_bytes())
        });
        let explain = |error: io::Error| {
            io::Error::new(
                error.kind(),
                format!("the prompt file {} cannot be written: {error}", file.display()),
            )
        };
        written.map_err(explain)?;
        Ok(Some(file.clone()))
    }

    /// Returns the configuration of the run.
    fn configure(&self, state: &Path, sight: &AgentSight) -> Result<LoadedConfig, CommandError> {
        let job = self.runner.setup;
        let column = &self.order.key.column;
        let factor = job.loaded.config.bench.agent_time_factor;
        let mut env = self.environment.env.clone();
        if column.agent == ORACLE {
            let solution =
                resolve_env(&self.task.solution_env, &self.runner.variables(&self.order.key));
            env.extend(solution.map_err(|error| CommandError::config(error.to_string()))?);
        }
        let settings = TrialSettings {
            column,
            prompt: self.step.instruction.as_deref().unwrap_or_default(),
            workspace: &self.environment.workspace,
            state,
            max_runtime: self.step.agent.timeout.map(|time| time.mul_f64(factor)),
            max_cost: self.order.max_cost,
            reserved: &self.reserved_words(sight),
            env: &env,
            path: &self.environment.agent_path(env.get("PATH")),
        };
        match self.task.form {
            TaskForm::Own => {
                trial_config::load_own(&job.sources, &job.loaded, &settings, &self.staged.root)
            }
            TaskForm::Harbor | TaskForm::TerminalBench | TaskForm::Exercism => {
                trial_config::load(&job.sources, &job.loaded, &settings)
            }
        }
    }
}

/// Returns the same files with another folder as the work directory.
fn with_workspace(
    staged: &StagedEnvironment,
    workspace: &Path,
    folder: &Path,
) -> StagedEnvironment {
    let mut staged = staged.clone();
    for mount in &mut staged.mounts {
        if mount.folder == workspace {
            folder.clone_into(&mut mount.folder);
        }
    }
    staged
}

/// Returns the script that solves a step, relative to its folder.
fn solution_script(step: &Step) -> Option<&Path> {
    match &step.oracle {
        Some(Oracle::Script { script, .. }) => Some(script),
        Some(Oracle::Files(_)) | None => None,
    }
}

/// Returns the fault of a run that could not begin or go on.
fn run_fault(error: &CommandError) -> Fault {
    let kind = match error.code() {
        exit::CONFIG => CONFIGURATION_ERROR,
        exit::UNAVAILABLE => AGENT_NOT_AVAILABLE,
        _ => "RunError",
    };
    fault(Cause::Infrastructure, kind, error.summary())
}

fn no_environment(error: impl std::fmt::Display) -> Fault {
    fault(Cause::Sandbox, "EnvironmentError", error.to_string())
}
