//! Validations between iterations: of a claim, and of the baseline.

use std::sync::Arc;
use std::time::Duration;

use ralph_orchestrator_contract::{
    CancelReason, Claim, ClaimKind, ClaimSource, EvidenceFile, Verdict,
};
use ralph_orchestrator_machine::{BaselineCheck, BaselineMode, Validation, ValidatorVerdict};
use ralph_orchestrator_store::store_evidence;
use ralph_orchestrator_workspace::TreeSnapshot;
use tokio::sync::watch;

use super::clock::LONGEST_SLEEP_MS;
use super::error::EngineError;
use super::execution::GRACE;
use super::session::Session;
use super::stop::stop_requested;
use super::validation_policy::baseline_mode;
use super::validation_task::{Selection, ValidationTask, is_stored};

impl Session {
    /// Returns the task of validating the work as it is now, while the agent runs, which `cancel` ends early.
    pub(super) fn preview_task(
        &mut self,
        claim: Claim,
        cancel: watch::Receiver<Option<CancelReason>>,
    ) -> ValidationTask {
        self.validation_task(Selection::All, claim, cancel, true)
    }

    fn validation_task(
        &mut self,
        selection: Selection,
        claim: Claim,
        cancel: watch::Receiver<Option<CancelReason>>,
        is_preview: bool,
    ) -> ValidationTask {
        let taken = self.policy.validators.iter().filter(|check| selection.includes(check));
        let names = taken.map(|check| check.info.name.clone()).collect();
        // What is accepted has to be observed right before it is validated.
        if selection == Selection::All {
            self.known_tree.set(None);
        }
        self.announce_validators(names);
        ValidationTask {
            run: self.run.clone(),
            workspace: self.workspace.clone(),
            held: self.held.clone(),
            env: self.env.clone(),
            policy: Arc::clone(&self.policy),
            baseline: Arc::clone(&self.baseline),
            clock: Arc::clone(&self.clock),
            iteration: self.state.iterations,
            tree: self.state.workspace.tree.clone(),
            tree_left: self.state.workspace.tree_left.clone(),
            disk: self.store.disk().clone(),
            snapshot_file: self.layout().snapshot(&self.run),
            secret_files: self.secret_files(),
            pinned: Arc::clone(&self.pinned),
            artefacts: self.state.workspace.artefacts.clone(),
            changes: None,
            tree_since: self.state.workspace.tree_since,
            evidence: self.state.workspace.evidence_history.clone(),
            selection,
            claim,
            hasher: Some(self.take_hasher()),
            known_tree: self.known_tree.clone(),
            cancel,
            stop: self.stop.clone(),
            is_preview,
        }
    }

    /// Copies the evidence of an accepted claim, before anything is recorded.
    async fn keep_accepted(
        &mut self,
        mut validation: Validation,
    ) -> Result<Validation, EngineError> {
        if validation.tampering.is_empty() {
            match self.store_evidence(&mut validation.verdicts)? {
                Some(evidence) => validation.evidence = evidence,
                None => return Ok(Validation { interrupted: true, ..validation }),
            }
        }
        // A validator may have removed the prompt since it was read.
        if let Some(text) = self.prompt.last_text() {
            validation.task = self.policy.task_digest(&text).await;
        }
        Ok(validation)
    }

    /// Begins to encode what is stored before the baseline is checked, beside what is recorded until then.
    pub(super) fn encode_baseline_snapshot(&self, snapshot: &TreeSnapshot) {
        let is_checked = baseline_mode(self.config.completion.baseline) != BaselineMode::Off;
        if is_checked && is_stored(snapshot, &self.policy, Selection::RequiredChecks) {
            self.known_tree.begin_encoding();
        }
    }

    /// Runs the required validators that run something, before any work is done.
    pub(super) async fn check_baseline(&mut self) -> Result<BaselineCheck, EngineError> {
        let done = self.validate(Selection::RequiredChecks, baseline_claim()).await?;
        let Validation { verdicts, artefacts, mut warnings, interrupted, out_of_time, .. } = done;
        warnings
            .extend(done.tampering.iter().map(|what| format!("nothing can be accepted: {what}")));
        let check = BaselineCheck { verdicts, artefacts, warnings, ..BaselineCheck::default() };
        if interrupted || out_of_time {
            return Ok(BaselineCheck { interrupted, out_of_time, ..check });
        }
        let (Some(tree), Some(evidence)) = (self.tree().await?, self.evidence().await?) else {
            let interrupted = *self.stop.borrow() > 0;
            return Ok(BaselineCheck { interrupted, out_of_time: !interrupted, ..check });
        };
        let evidence = evidence.contents.into_values().collect();
        Ok(BaselineCheck { tree, evidence, ..check })
    }

    /// Runs validators in order, on one tree, while the runtime is recorded.
    pub(super) async fn validate(
        &mut self,
        selection: Selection,
        claim: Claim,
    ) -> Result<Validation, EngineError> {
        let (cancel, cancelled) = watch::channel(None);
        let mut task = self.validation_task(selection, claim, cancelled, false);
        let mut work = Box::pin(async move {
            let result = match task.run().await {
                // A cancelled validation decides nothing; only what it left is recorded.
                Ok(None) => task.find_artefacts().await.map(|artefacts| Validation {
                    artefacts,
                    interrupted: true,
                    ..Validation::default()
                }),
                Ok(Some(validation)) => Ok(validation),
                Err(error) => Err(error),
            };
            (task.hasher, result)
        });
        let (mut stop, mut allowance) = (self.stop.clone(), self.validation_allowance());
        let mut inbox = self.lend_inbox_watch();
        let (hasher, result) = loop {
            let goes_on = cancel.borrow().is_none();
            tokio::select! {
                biased;
                done = &mut work => break done,
                () = stop_requested(&mut stop, 1), if goes_on => {
                    cancel.send_replace(Some(CancelReason::Signal));
                }
                () = allowance.expired(), if goes_on => {
                    cancel.send_replace(Some(CancelReason::MaxRuntime));
                }
                () = inbox.changed() => {}
                () = tokio::time::sleep(Duration::from_millis(LONGEST_SLEEP_MS)) => {}
            }
            let max_ms = self.state.limits.max_runtime_ms;
            let recorded = self.take_controls().and_then(|_| self.tick());
            if self.state.limits.max_runtime_ms != max_ms {
                allowance = self.validation_allowance();
            }
            if let Err(error) = recorded {
                cancel.send_replace(Some(CancelReason::Signal));
                drop(tokio::time::timeout(GRACE, work).await);
                return Err(error);
            }
        };
        self.return_inbox_watch(inbox);
        self.hasher = hasher;
        let validation = result?;
        if !validation.interrupted {
            return match selection {
                Selection::All => self.keep_accepted(validation).await,
                Selection::Checks | Selection::RequiredChecks => Ok(validation),
            };
        }
        let out_of_time = *cancel.borrow() == Some(CancelReason::MaxRuntime);
        Ok(Validation { interrupted: !out_of_time, out_of_time, ..validation })
    }

    /// Copies accepted evidence if every required validator accepted. A file that changed since it was
    /// examined is not accepted. `None` if the run was asked to stop meanwhile.
    fn store_evidence(
        &self,
        verdicts: &mut [ValidatorVerdict],
    ) -> Result<Option<Vec<EvidenceFile>>, EngineError> {
        if verdicts.iter().any(|verdict| verdict.required && !verdict.verdict.is_accepted()) {
            return Ok(Some(Vec::new()));
        }
        let folder = self.layout().evidence(&self.run);
        let mut kept = Vec::new();
        for named in verdicts {
            let Verdict::Accepted { evidence, .. } = &named.verdict else { continue };
            for file in evidence.clone() {
                if *self.stop.borrow() > 0 {
                    return Ok(None);
                }
                if !store_evidence(self.store.disk(), &folder, &file)? {
                    let path = file.path.display();
                    named.verdict =
                        Verdict::rejected(format!("{path} changed while it was examined"));
                    break;
                }
                kept.push(file);
            }
        }
        Ok(Some(kept))
    }
}

/// Returns what takes the place of a claim where nothing is claimed.
pub(super) fn baseline_claim() -> Claim {
    Claim {
        kind: ClaimKind::Complete,
        detector: "baseline".to_owned(),
        source: ClaimSource::State,
        text: "nothing is claimed: this is before any work".to_owned(),
    }
}
