//! A run that is attached to an agent's session which a person runs: what is asked of it when that session stops.

use std::sync::Arc;

use ralph_orchestrator_contract::ClaimKind;

use super::error::EngineError;
use super::feedback;
use super::observation::WorkspaceObservation;
use super::pinned_paths;
use super::session::{Finished, Session};

impl Session {
    /// Returns whether the workspace is as it was when the run observed it last, or as its validators left it; false
    /// if the observation was interrupted. Nothing may change the workspace until the session is driven.
    ///
    /// # Errors
    /// The workspace or the state cannot be read.
    pub async fn is_workspace_unchanged(&mut self) -> Result<bool, EngineError> {
        if self.resumed {
            self.pinned = Arc::new(pinned_paths::read(&self.store)?);
        }
        let Some(observed) = self.finish_observation().await? else { return Ok(false) };
        let known = &self.state.workspace;
        let is_known =
            |digest: &String| *digest == known.tree || known.tree_left.as_ref() == Some(digest);
        let is_unchanged = is_known(&observed.tree) || observed.work.as_ref().is_some_and(is_known);
        self.observation = Some(WorkspaceObservation::Done(observed));
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
