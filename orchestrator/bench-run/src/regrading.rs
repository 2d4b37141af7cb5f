//! Verifies the work of a trial again, after the trial.

use std::fs;
use std::path::Path;

use jiff::Timestamp;
use ralph_orchestrator_bench::task::{Step, Task, TaskForm, reward};
use ralph_orchestrator_bench::trial::{Regrading, TrialRecord};

use super::runner::Runner;
use super::snapshots::copy_tree;
use super::trial_environment::{TrialEnvironment, add_logs};
use super::verification::Verifier;
use crate::isolation::IsolationRow;

/// Where an attempt is verified again: what a verifier changes must not change what the next one finds.
const SCRATCH: &str = "regrading";
/// The most that is copied of an environment.
const MAX_BYTES: u64 = 64 << 30;
const MAX_DEPTH: usize = 128;

impl Runner<'_> {
    /// Verifies what an attempt left in its folder, by the task's verifier as it is now.
    ///
    /// # Errors
    /// Says why the attempt is left as it is: nothing to verify is kept, or the verifier gave no valid reward.
    pub async fn regrade(&self, record: &TrialRecord, attempt: &Path) -> Result<Regrading, String> {
        let task = self.task(&record.key.task).ok_or("the task is gone")?;
        if task.form == TaskForm::Own {
            return Err("its validators decided within the run".to_owned());
        }
        if IsolationRow::of(self.setup.loaded.config.bench.isolation).is_container() {
            return Err(
                "its container was removed, and with it what it had beside the work".to_owned()
            );
        }
        let [step] = task.steps.as_slice() else {
            return Err("of a task with several steps only the last work is kept".to_owned());
        };
        let kept = attempt.join("environment");
        if !kept.join("root").is_dir() {
            return Err("its environment was not kept".to_owned());
        }
        let scratch = attempt.join(SCRATCH);
        drop(fs::remove_dir_all(&scratch));
        let into = scratch.join("environment");
        copy_tree(&kept, &into, MAX_DEPTH, &mut { MAX_BYTES })
            .map_err(|error| error.to_string())?;
        let found = self.verify_again(record, task, step, &scratch).await;
        drop(fs::remove_dir_all(&scratch));
        if self.switch.is_pulled() {
            // Whatever it has left by then.
            return Err("the verification was killed on request".to_owned());
        }
        found
    }

    /// Verifies the copy of an environment in this folder.
    async fn verify_again(
        &self,
        record: &TrialRecord,
        task: &Task,
        step: &Step,
        attempt: &Path,
    ) -> Result<Regrading, String> {
        let into = attempt.join("environment");
        let vars = self.variables(&record.key);
        let text = |error: &dyn std::fmt::Display| error.to_string();
        let mut staged = task.adopt_files(&into, &vars).map_err(|error| text(&error))?;
        add_logs(&mut staged, attempt).map_err(|error| text(&error))?;
        let supervisor = &self.supervisor;
        let environment = TrialEnvironment::create(task, &staged, attempt, self.setup, supervisor)
            .map_err(|error| text(&error))?;
        let (time, name) = (Timestamp::now(), "0".to_owned());
        let (staged, environment) = (&staged, &environment);
        let (layers, containers) = (self.layers(), None);
        let verifier = Verifier { vars, task, step, staged, environment, name, layers, containers };
        let found = verifier.verify().await;
        let found = found.map_err(|fault| format!("{}: {}", fault.kind, fault.message))?;
        let rewards = reward::combine_rewards(task.reward_strategy, &[Some(found)]);
        let task_digest = task.digest.clone();
        Ok(Regrading { time, task_digest, rewards: rewards.unwrap_or_default() })
    }
}
