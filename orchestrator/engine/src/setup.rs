//! Problems in the set-up of validators, and their verdicts before a run.

use std::collections::BTreeMap;
use std::path::Path;
use std::time::{Duration, Instant};

use ralph_orchestrator_config::{ConfigError, ConfigErrors, LoadedConfig};
use ralph_orchestrator_contract::{
    Change, LayeredFolder, Setup, SetupProblem, ValidationContext, Verdict,
};
use ralph_orchestrator_machine::ValidatorVerdict;
use ralph_orchestrator_machine::millis;
use ralph_orchestrator_safe_fs::real_path;
use ralph_orchestrator_workspace::ProtectedPaths;

use super::bytecode::BytecodeDir;
use super::check_tests::{CheckTests, CheckTestsReader};
use super::environment::keep_in_checkout;
use super::execution::{Execution, WaitEnd};
use super::test_floor::TestFloor;
use super::validate::baseline_claim;
use super::validation_policy::{CompletionPolicy, ConfiguredValidator};
use super::validation_task::Selection;
use crate::workspace_setup::SetupContext;

/// Where checks are run outside of any run.
#[derive(Clone, Copy, Debug)]
pub struct CheckSite<'a> {
    /// The workspace.
    pub workspace: &'a Path,
    /// What they see over it; nothing if they run in the workspace itself.
    pub checkout: &'a [LayeredFolder],
    /// Their environment.
    pub env: &'a BTreeMap<String, String>,
}

impl CheckSite<'_> {
    /// Returns the environment that checks have in a run, with this folder for Python's bytecode. Without it they work all the same.
    pub(super) fn environment(&self, folder: Option<&BytecodeDir>) -> BTreeMap<String, String> {
        let mut env = self.env.clone();
        if !self.checkout.is_empty() {
            keep_in_checkout(&mut env);
        }
        if let Some(folder) = folder {
            let path = folder.path().display().to_string();
            env.entry(BytecodeDir::VARIABLE.to_owned()).or_insert(path);
        }
        env
    }
}

/// A problem in the set-up of a validator.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SetupFinding {
    /// The validator's name.
    pub validator: String,
    /// The problem.
    pub problem: SetupProblem,
    /// The key of the validator's table.
    key: Vec<String>,
}

/// What was found in the set-up of all validators.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SetupReport {
    /// The names of all validators, in their order.
    pub validators: Vec<String>,
    /// What was found, in the same order.
    pub findings: Vec<SetupFinding>,
}

/// What the required checks say before any work is done.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct BaselineReport {
    /// Their verdicts, in order.
    pub verdicts: Vec<ValidatorVerdict>,
    /// What is wrong with checks that cannot run a test.
    pub warnings: Vec<String>,
}

impl CompletionPolicy {
    /// Returns the problems that all validators find in their set-up, in this environment.
    pub async fn check_setup(
        &self,
        loaded: &LoadedConfig,
        env: &BTreeMap<String, String>,
    ) -> SetupReport {
        let workspace = real_path(&loaded.config.run.workspace);
        // What only an optional validator protects, the agent can change all the same.
        let required = self.validators.iter().filter(|check| check.info.required);
        let globs: Vec<String> = required.flat_map(|check| check.validator.protects()).collect();
        // A glob that is wrong is found when the protected paths are looked at.
        let protected = ProtectedPaths::new(&globs).ok();
        let protected = |path: &Path| protected.as_ref().is_none_or(|globs| globs.contains(path));
        let mut report = SetupReport::default();
        for check in &self.validators {
            let name = &check.info.name;
            let required = check.info.required;
            // What an optional validator says decides nothing.
            let is_protected = |path: &Path| !required || protected(path);
            let setup = Setup { workspace: &workspace, env, is_protected: &is_protected };
            let problems = check.validator.find_setup_problems(setup).await;
            report.validators.push(name.clone());
            report.findings.extend(problems.into_iter().map(|problem| SetupFinding {
                validator: name.clone(),
                problem,
                key: check.key.clone(),
            }));
        }
        report
    }
}

impl CompletionPolicy {
    /// Finds what the required validators that run something say before any work is done and
    /// outside of any run. Each may take as long as its time-out allows, and no longer than
    /// `at_most`.
    pub async fn check_baseline(
        &self,
        place: CheckSite<'_>,
        at_most: Option<Duration>,
    ) -> BaselineReport {
        let floor = TestFloor::default();
        let verdicts = self.run_checks(place, at_most, (Selection::RequiredChecks, &floor)).await;
        BaselineReport { verdicts, warnings: floor.warnings() }
    }

    /// Returns the verdicts of all validators that run something, on the workspace as it is and outside of any run.
    /// Each may take as long as its time-out allows.
    pub async fn verify(&self, place: CheckSite<'_>) -> Vec<ValidatorVerdict> {
        self.run_checks(place, None, (Selection::Checks, &TestFloor::default())).await
    }

    /// Returns the names of the validators that run nothing: they judge what the agent of a run has written.
    #[must_use]
    pub fn names_of_others(&self) -> Vec<&str> {
        let others = self.validators.iter().filter(|check| !Selection::Checks.includes(check));
        others.map(|check| check.info.name.as_str()).collect()
    }

    async fn run_checks(
        &self,
        site: CheckSite<'_>,
        at_most: Option<Duration>,
        (selection, floor): (Selection, &TestFloor),
    ) -> Vec<ValidatorVerdict> {
        let bytecode = BytecodeDir::create("setup").ok();
        let env = &site.environment(bytecode.as_ref());
        let site = CheckSite { env, ..site };
        let problem = self.set_up(site).await.err();
        let mut verdicts = Vec::new();
        for check in self.validators.iter().filter(|check| selection.includes(check)) {
            let started = Instant::now();
            let time = at_most.map_or(check.timeout, |most| most.min(check.timeout));
            let executed = match &problem {
                Some(message) => {
                    Some((Verdict::Error { message: message.clone() }, CheckTests::default()))
                }
                None => check.execute_outside(site, &[], time_out(time)).await,
            };
            let Some(executed) = executed else { continue };
            let (verdict, tests) = selection.examine(floor, check, executed);
            let duration_ms = millis(started.elapsed());
            let named = ValidatorVerdict::new(&check.info, verdict, duration_ms);
            verdicts.push(ValidatorVerdict { tests, ..named });
        }
        verdicts
    }

    /// Prepares a checkout for its checks.
    pub(super) async fn set_up(
        &self,
        CheckSite { workspace, checkout, env }: CheckSite<'_>,
    ) -> Result<(), String> {
        match &self.checkout.setup {
            Some(setup) if !checkout.is_empty() => {
                let context = SetupContext { run: "", iteration: 0, workspace, checkout, env };
                let done = setup.run(context, time_out(setup.timeout)).await;
                done.unwrap_or(Ok(()))
            }
            _ => Ok(()),
        }
    }
}

impl ConfiguredValidator {
    /// Executes it once outside of any run, until `end`; `None` if it was cancelled.
    pub(super) async fn execute_outside(
        &self,
        CheckSite { workspace, checkout, env }: CheckSite<'_>,
        protected_changes: &[Change],
        end: impl Future<Output = WaitEnd>,
    ) -> Option<(Verdict, CheckTests)> {
        let (claim, written_in) = (baseline_claim(), BTreeMap::new());
        let (execution, reader) = (Execution::default(), CheckTestsReader::default());
        let context = ValidationContext {
            checkout,
            output: Some(&reader),
            run: "",
            iteration: 0,
            claim: &claim,
            workspace,
            tree_since: 0,
            written_in: &written_in,
            evidence_listed: false,
            protected_changes,
            env,
        };
        let work = self.validator.validate(context, &execution.cancel);
        let verdict = execution.wait(work, end).await?;
        let tests = reader.finish(&verdict);
        Some((verdict, tests))
    }
}

pub(super) async fn time_out(time: Duration) -> WaitEnd {
    tokio::time::sleep(time).await;
    WaitEnd::TimedOut(time)
}

impl SetupReport {
    /// Returns the findings as warnings if none is fatal. `clean` removes secrets.
    ///
    /// # Errors
    /// Every fatal finding, with its place.
    pub fn accept(
        &self,
        loaded: &LoadedConfig,
        clean: impl Fn(&str) -> String,
    ) -> Result<Vec<String>, ConfigErrors> {
        let fatal = self.findings.iter().filter(|finding| finding.problem.is_fatal);
        let errors: Vec<ConfigError> =
            fatal.map(|finding| finding.error(loaded, &clean(&finding.text()))).collect();
        ConfigErrors::ensure_none(errors)?;
        Ok(self.findings.iter().map(|finding| clean(&finding.text())).collect())
    }
}

impl SetupFinding {
    /// Returns the finding in one line, with the validator's name.
    #[must_use]
    pub fn text(&self) -> String {
        format!("validator `{}`: {}", self.validator, self.problem.message)
    }

    fn error(&self, loaded: &LoadedConfig, message: &str) -> ConfigError {
        let key: Vec<String> = self.key.iter().chain(&self.problem.key).cloned().collect();
        loaded.error_at(&key, None, message)
    }

    /// Returns the place of its cause, such as `ralph.toml:9:12`.
    #[must_use]
    pub fn place(&self, loaded: &LoadedConfig) -> String {
        self.error(loaded, "").location.to_string()
    }
}
