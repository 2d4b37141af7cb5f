//! Observing the workspace between iterations.

use std::sync::Arc;

use ralph_orchestrator_contract::{ClaimKind, Findings};
use ralph_orchestrator_machine::{Input, Observation};
use ralph_orchestrator_safe_fs::{SymlinkPolicy, read_file};
use ralph_orchestrator_workspace::{TreeHasher, TreeSnapshot};

use super::error::EngineError;
use super::feedback;
use super::initializer::missing_products;
use super::inspect::InspectionTask;
use super::observation::{Observed, WorkspaceObservation, scan};
use super::pinned_paths;
use super::session::{Finished, Session};
use super::stop::stop_input;
use super::validator_changes::{LARGEST_SNAPSHOT, WorkspaceChanges, artefact_paths};

impl Session {
    /// Asks the detectors, and records what they find before anything slow begins, so that a claim
    /// survives whatever happens then; the rest is kept until the workspace was observed.
    pub(super) async fn record_claims(
        &mut self,
        final_text: Option<String>,
    ) -> Result<(), EngineError> {
        let made = self.observer.recreate_workspace(&self.journal.store)?;
        let (prompt, warning) = self.prompts.source.read(&self.context.workspace)?;
        let restored = self.memory.guard();
        // A detector that is no part of this program may take its time.
        let enough = self.controls.observation_allowance(&self.journal).expired_or_stopped();
        let findings = tokio::select! {
            biased;
            findings = self.inspection(prompt.text, final_text).run() => findings,
            () = enough => Findings::default(),
        };
        self.observer.near_misses = Some(findings.near_misses);
        // Beside what is recorded until it is needed.
        self.begin_observation();
        let warnings = warning.into_iter().chain(findings.warnings).map(Input::Warning);
        let claims = Input::ClaimsFound(findings.claims);
        for input in made.into_iter().chain(restored).chain(warnings).chain([claims]) {
            self.journal.advance(input)?;
        }
        Ok(())
    }

    /// Begins to observe the workspace, and to store it in git, beside each other: both only read. Until
    /// [`finish_observation`](Self::finish_observation) is called, nothing may change the workspace.
    pub(super) fn begin_observation(&mut self) {
        if self.observer.observation.is_none() {
            self.saving.begin_checkpoint(&self.journal.state);
            self.observer.begin_observation(&self.journal.state, &self.prompts.source);
        }
    }

    /// Returns the result of the observation; `None` if a signal or the limit on the run's time interrupted it.
    pub(super) async fn finish_observation(&mut self) -> Result<Option<Observed>, EngineError> {
        self.begin_observation();
        self.observer.finish_observation(&self.journal, &self.controls).await
    }

    /// Observes tree and evidence, and whether the configuration was changed.
    pub(super) async fn observe_workspace(&mut self) -> Result<Vec<Input>, EngineError> {
        if self.observer.near_misses.is_none() {
            self.record_claims(None).await?;
        }
        if !self.journal.state.agent.survivors.is_empty() {
            // They may change the work as long as they live.
            self.observer.cancel_observation().await?;
            self.saving.discard_checkpoint().await;
        }
        if let Some(survived) = self.controls.wait_for_survivors(&mut self.journal).await? {
            let signal = stop_input(&self.controls.stop);
            return Ok(signal.into_iter().chain([survived]).collect());
        }
        let near_misses = self.observer.near_misses.take().unwrap_or_default();
        let observed = self.finish_observation().await?;
        let mut inputs: Vec<Input> =
            self.observer.config_change().map(Input::Warning).into_iter().collect();
        inputs.extend(stop_input(&self.controls.stop));
        inputs.push(match observed {
            Some(Observed { tree, work, evidence, changes, .. }) => {
                let missing_products = missing_products(&self.context, &self.journal.state).await?;
                let observed =
                    Observation { near_misses, tree, work, evidence, ..Default::default() };
                Input::Observed(Observation { changes, missing_products, ..observed })
            }
            None => Input::ObservationSkipped,
        });
        Ok(inputs)
    }

    /// Returns the task of searching the prompt and the final message for claims.
    pub(super) fn inspection(&self, prompt: String, final_text: Option<String>) -> InspectionTask {
        InspectionTask {
            detectors: Arc::clone(&self.context.policy.detectors),
            workspace: self.context.workspace.clone(),
            prompt_path: self.prompts.source.path().map(ToOwned::to_owned),
            prompt,
            given: final_text.as_ref().and(self.agent.sent_prompt.clone()),
            final_text,
        }
    }

    /// Finds what validators left whose end the orchestrator did not live to see. Nothing else ran since the
    /// workspace was last observed.
    pub(super) async fn find_artefacts(&mut self) -> Result<Option<Input>, EngineError> {
        let state = &self.journal.state;
        if state.running.is_some() || !state.is_validation_due() {
            return Ok(None);
        }
        let file = self.journal.store.layout().snapshot(&self.context.run);
        let kept = read_file(&file, LARGEST_SNAPSHOT, SymlinkPolicy::Follow).ok();
        let json = kept.as_deref().and_then(|kept| self.journal.store.key().unseal(kept));
        let kept = json.and_then(|json| TreeSnapshot::from_json(&json));
        let Some(before) = kept.filter(|kept| state.workspace.is_same_tree(kept.digest().as_str()))
        else {
            return Ok(None);
        };
        let enough = self.controls.observation_allowance(&self.journal).expired_or_stopped();
        let (hasher, now) = scan(
            self.observer.take_hasher(&self.journal.state, &self.prompts.source),
            enough,
            TreeHasher::snapshot,
        )
        .await?;
        self.observer.hasher = Some(hasher);
        let known = artefact_paths(&self.journal.state.workspace.artefacts).collect();
        let changes =
            WorkspaceChanges::begin(Arc::new(before), Arc::clone(&self.observer.pinned), known);
        let left = now.map(|now| changes.into_artefacts(&now)).unwrap_or_default();
        let paths = left.into_values().flatten().collect();
        Ok(Some(Input::Artefacts(paths)))
    }

    /// Returns whether the workspace is as it was when the run observed it last, or as its validators left it; false
    /// if the observation was interrupted. Nothing may change the workspace until the session is driven.
    ///
    /// # Errors
    /// The workspace or the state cannot be read.
    pub async fn is_workspace_unchanged(&mut self) -> Result<bool, EngineError> {
        if self.context.resumed {
            self.observer.pinned = Arc::new(pinned_paths::read(&self.journal.store)?);
        }
        let Some(observed) = self.finish_observation().await? else { return Ok(false) };
        let known = &self.journal.state.workspace;
        let is_known =
            |digest: &String| *digest == known.tree || known.tree_left.as_ref() == Some(digest);
        let is_unchanged = is_known(&observed.tree) || observed.work.as_ref().is_some_and(is_known);
        self.observer.observation = Some(WorkspaceObservation::Done(observed));
        Ok(is_unchanged)
    }

    /// Returns what an agent's final message claims by itself, if the detectors find anything in it.
    pub async fn claim_in(&self, final_text: &str) -> Option<ClaimKind> {
        let found = self.inspection(String::new(), Some(final_text.to_owned())).run().await;
        let kinds = found.claims.iter().map(|claim| claim.kind);
        kinds.max_by_key(|kind| matches!(kind, ClaimKind::NeedsHuman))
    }
}

impl Finished {
    /// Returns what an agent has to know to go on, such as why its work was rejected; empty if there is nothing.
    #[must_use]
    pub fn feedback(&self) -> String {
        let block = feedback::block(&self.state, &[], "");
        block.trim_end().trim_end_matches('-').trim_end().to_owned()
    }
}
