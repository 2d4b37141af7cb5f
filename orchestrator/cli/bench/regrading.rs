//! Verifies the work of a trial again, after the trial.

use std::fs;
use std::path::Path;

use jiff::Timestamp;
use ralph_orchestrator_bench::task::{TaskForm, reward};
use ralph_orchestrator_bench::trial::{Regrading, TrialRecord};

use super::runner::Runner;
use super::trial_environment::{TrialEnvironment, add_logs};
use super::verification::Verifier;

/// What the verifier of the trial itself has written, once its folder is needed again.
const FIRST_LOGS: &str = "first-verification";

impl Runner<'_> {
    /// Verifies what an attempt left in its folder, by the task's verifier as it is now.
    ///
    /// # Errors
    /// Says why the attempt is left as it is: nothing to verify is kept, or the verifier gave no valid reward.
    pub(crate) async fn regrade(
        &self,
        record: &TrialRecord,
        attempt: &Path,
    ) -> Result<Regrading, String> {
        let task = self.task(&record.key.task).ok_or("the task is gone")?;
        if task.form == TaskForm::Own {
            return Err("its validators decided within the run".to_owned());
        }
        let [step] = task.steps.as_slice() else {
            return Err("of a task with several steps only the last work is kept".to_owned());
        };
        let into = attempt.join("environment");
        if !into.join("root").is_dir() {
            return Err("its environment was not kept".to_owned());
        }
        let vars = self.variables(&record.key);
        let text = |error: &dyn std::fmt::Display| error.to_string();
        let mut staged = task.adopt_files(&into, &vars).map_err(|error| text(&error))?;
        keep_first_logs(attempt).map_err(|error| text(&error))?;
        add_logs(&mut staged, attempt).map_err(|error| text(&error))?;
        let switch = &self.signals.switch;
        let environment = TrialEnvironment::create(task, &staged, attempt, self.setup, switch)
            .map_err(|error| text(&error))?;
        let time = Timestamp::now();
        let name = format!("0-again-{}", time.as_millisecond());
        let (staged, environment) = (&staged, &environment);
        let verifier = Verifier { vars, task, step, staged, environment, name };
        let found = verifier.verify().await;
        let found = found.map_err(|fault| format!("{}: {}", fault.kind, fault.message))?;
        let rewards = reward::combine_rewards(task.reward_strategy, &[Some(found)]);
        let task_digest = task.digest.clone();
        Ok(Regrading { time, task_digest, rewards: rewards.unwrap_or_default() })
    }
}

/// Keeps what the verifier of the trial has written. What later ones write takes the place of each other.
fn keep_first_logs(attempt: &Path) -> std::io::Result<()> {
    let (logs, kept) = (attempt.join("logs/verifier"), attempt.join(FIRST_LOGS));
    if kept.symlink_metadata().is_err() && logs.symlink_metadata().is_ok() {
        fs::rename(logs, kept)?;
    }
    Ok(())
}
