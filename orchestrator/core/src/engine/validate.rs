//! Running the validators on a claim.

use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::sync::watch;

use super::error::EngineError;
use super::notice::Notice;
use super::plan;
use super::rest::{LONGEST_REST_MS, asked};
use super::session::Session;
use super::sink::Cancel;
use crate::contract::{CancelReason, Change, Claim, EvidenceFile, ValidationContext, Verdict};
use crate::machine::{NamedVerdict, Validation};
use crate::state::keep_evidence;
use crate::workspace::Baseline;

/// How long a validator that was told to end may take to do so.
const GRACE: Duration = Duration::from_secs(30);

impl Session {
    /// All validators in order, on one tree. What they accept is copied before anything is recorded.
    pub(super) async fn validate(&mut self, claim: &Claim) -> Result<Validation, EngineError> {
        let names = self.judges.checks.iter().map(|check| check.info.name.clone()).collect();
        let iteration = self.state.iterations;
        self.notice(&Notice::Validating { iteration, validators: names });
        let Some(before) = self.tree().await? else { return Ok(interrupted()) };
        let mut expected = before.clone();
        let mut changed = false;
        let mut verdicts = Vec::new();
        for index in 0..self.judges.checks.len() {
            let may_change = self
                .judges
                .checks
                .get(index)
                .is_some_and(|check| !check.validator.leaves_tree_unchanged());
            if may_change {
                let Some(now) = self.tree().await? else { return Ok(interrupted()) };
                changed |= now != expected;
            }
            match self.check(index, claim).await? {
                Some(verdict) => verdicts.push(verdict),
                None => return Ok(interrupted()),
            }
            if may_change {
                let Some(now) = self.tree().await? else { return Ok(interrupted()) };
                expected = now;
            }
        }
        let Some(after) = self.tree().await? else { return Ok(interrupted()) };
        changed |= after != expected;
        let evidence = self.keep(&mut verdicts)?;
        let task = self.prompt.read_text().map(|text| self.judges.task(&text)).unwrap_or_default();
        Ok(Validation {
            verdicts,
            tree_after: if changed { format!("changed:{after}") } else { before.clone() },
            tree_before: before,
            evidence,
            task,
            interrupted: false,
        })
    }

    /// One validator; `None` if a signal broke it off.
    async fn check(
        &mut self,
        index: usize,
        claim: &Claim,
    ) -> Result<Option<NamedVerdict>, EngineError> {
        let judges = Arc::clone(&self.judges);
        let Some(check) = judges.checks.get(index) else { return Ok(None) };
        let changes = self.protected_changes(&check.validator.protects())?;
        let (run, workspace) = (self.run.clone(), self.workspace.clone());
        let (env, first_seen) = (self.env.clone(), self.state.first_seen.clone());
        let context = ValidationContext {
            run: &run,
            iteration: self.state.iterations,
            claim,
            workspace: &workspace,
            tree_since: self.state.tree_since,
            first_seen: &first_seen,
            protected_changes: &changes,
            env: &env,
        };
        let (tell, told) = watch::channel(None);
        let cancel = Cancel::new(told);
        let started = Instant::now();
        let mut work = check.validator.validate(context, &cancel);
        // By the clock of the run: a time of standstill is nobody's fault.
        let until_ms = self.clock.runtime_ms().saturating_add(plan::millis(check.timeout));
        let ended = self.verdict(&mut work, until_ms).await;
        let verdict = match ended {
            Ok(verdict) => verdict,
            Err((reason, trouble)) => {
                // The validator ends its processes; if it cannot, dropping it does.
                tell.send_replace(Some(reason));
                drop(tokio::time::timeout(GRACE, &mut work).await);
                if let Some(trouble) = trouble {
                    return Err(trouble);
                }
                if reason == CancelReason::Signal {
                    return Ok(None);
                }
                let seconds = check.timeout.as_secs_f64();
                Verdict::Error { message: format!("it did not end within {seconds} s") }
            }
        };
        Ok(Some(NamedVerdict {
            validator: check.info.name.clone(),
            required: check.info.required,
            duration_ms: plan::millis(started.elapsed()),
            verdict,
        }))
    }

    /// The verdict, or why it is waited for no longer: the time, a signal, or a state that cannot be
    /// written.
    async fn verdict(
        &mut self,
        work: &mut (impl Future<Output = Verdict> + Unpin),
        until_ms: u64,
    ) -> Result<Verdict, (CancelReason, Option<EngineError>)> {
        let mut stop = self.stop.clone();
        loop {
            let left = until_ms.saturating_sub(self.clock.runtime_ms());
            if left == 0 {
                return Err((CancelReason::Timeout, None));
            }
            let pause = left.min(LONGEST_REST_MS);
            tokio::select! {
                biased;
                verdict = &mut *work => return Ok(verdict),
                () = asked(&mut stop, 1) => return Err((CancelReason::Signal, None)),
                () = tokio::time::sleep(Duration::from_millis(pause)) => {}
            }
            self.tick().map_err(|error| (CancelReason::Signal, Some(error)))?;
        }
    }

    fn protected_changes(&self, globs: &[String]) -> Result<Vec<Change>, EngineError> {
        if globs.is_empty() {
            return Ok(Vec::new());
        }
        let now = Baseline::take(&self.workspace, globs)
            .map_err(|error| EngineError::Workspace(error.to_string()))?;
        self.baseline
            .changes(&now, globs)
            .map_err(|error| EngineError::Workspace(error.to_string()))
    }

    /// Copies accepted evidence, if everything that is required was accepted. What is no longer what
    /// was examined is not accepted.
    fn keep(&self, verdicts: &mut [NamedVerdict]) -> Result<Vec<EvidenceFile>, EngineError> {
        if verdicts.iter().any(|verdict| verdict.required && !verdict.verdict.is_accepted()) {
            return Ok(Vec::new());
        }
        let folder = self.layout().evidence(&self.run);
        let mut kept = Vec::new();
        for named in verdicts {
            let Verdict::Accepted { evidence, .. } = &named.verdict else { continue };
            for file in evidence.clone() {
                if !keep_evidence(self.store.disk(), &folder, &file)? {
                    let path = file.path.display();
                    named.verdict =
                        Verdict::rejected(format!("{path} changed while it was examined"));
                    break;
                }
                kept.push(file);
            }
        }
        Ok(kept)
    }
}

/// A signal broke it off: nothing of it counts.
fn interrupted() -> Validation {
    Validation { interrupted: true, ..Validation::default() }
}
