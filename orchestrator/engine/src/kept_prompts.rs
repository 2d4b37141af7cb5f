//! The prompts as the last iteration found and left them. Where a link has taken the place of one while the orchestrator was
//! away, it is put back; a text that has changed since then is a person's.

use std::collections::BTreeMap;
use std::path::Path;

use data_encoding::BASE64;
use ralph_orchestrator_safe_fs::escape;
use ralph_orchestrator_store::{Layout, StateError, Store};
use ralph_orchestrator_workspace::{Prompt, PromptError, PromptPlace, PromptWatch};
use serde::{Deserialize, Serialize};

use super::error::EngineError;
use super::phase_guard::HeldPrompt;
use super::prompt::PromptSource;
use super::stored_object::read_object;
use super::validation_policy::CompletionPolicy;

/// By the path in the configuration, escaped: the bytes in base64, or that there was no such file.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct KeptPrompts {
    prompts: BTreeMap<String, Option<String>>,
}

impl KeptPrompts {
    /// Reads those of the run that is open.
    pub(super) fn read(store: &Store) -> Result<Self, StateError> {
        Ok(read_object(store, Layout::PROMPTS)?.unwrap_or_default())
    }

    /// Puts back what a link has taken the place of. Returns what was done.
    pub(super) fn put_back(
        &self,
        source: &PromptSource,
        workspace: &Path,
    ) -> Result<Vec<String>, PromptError> {
        let mut notes = Vec::new();
        for place in source.place().into_iter().chain(source.role_places()) {
            let Err(error) = place.verify() else { continue };
            // Where there was no file, the link is passed over as none is there now.
            let Some(prompt) = self.get(place) else { continue };
            HeldPrompt::new(place, Some(prompt)).restore(workspace)?;
            notes.push(format!("{error}; it was put back as the run knew it"));
        }
        Ok(notes)
    }

    /// Returns the digest of what the prompt asks for, if it has changed since the last iteration; `given` is the task so far.
    pub(super) async fn changed_task(
        &self,
        source: &PromptSource,
        policy: &CompletionPolicy,
        given: &str,
    ) -> Option<String> {
        if given.is_empty() || !self.is_other(source) {
            return None;
        }
        let task = source.task()?;
        let now = task.last_text()?;
        let before = match task.place().and_then(|place| self.get(place)) {
            Some(kept) => policy.task_digest(&kept.text).await,
            None => given.to_owned(),
        };
        let digest = policy.task_digest(&now).await;
        (digest != before).then_some(digest)
    }

    /// Whether the task reads otherwise than after the last iteration, or nothing is kept of it.
    pub(super) fn is_other(&self, source: &PromptSource) -> bool {
        let Some(task) = source.task() else { return false };
        let kept = task.place().and_then(|place| self.get(place)).map(|kept| kept.text);
        kept.is_none() || kept != task.last_text()
    }

    fn get(&self, place: &PromptPlace) -> Option<Prompt> {
        let kept = self.prompts.get(&escape(place.configured()))?.as_ref()?;
        BASE64.decode(kept.as_bytes()).ok().map(Prompt::new)
    }
}

/// The prompts of a run.
pub(super) struct RunPrompts {
    pub(super) source: PromptSource,
    /// What they were around the last iteration, for the next start.
    pub(super) kept: KeptPrompts,
    /// No code of the agent has run since they were kept.
    pub(super) is_settled: bool,
    /// Watches the prompt file for changes while an agent runs; one for the whole run.
    pub(super) watch: Option<PromptWatch>,
}

impl RunPrompts {
    /// Returns the digest of what the prompt asks for, if a person has changed that since the last iteration; `given` is the
    /// task so far. In doubt it was the agent.
    pub(super) async fn changed_task(
        &self,
        policy: &CompletionPolicy,
        given: &str,
    ) -> Option<String> {
        if !self.is_settled {
            return None;
        }
        self.kept.changed_task(&self.source, policy, given).await
    }

    /// Keeps the prompts as they are now, before an agent works.
    pub(super) fn keep_prompts(&mut self, store: &mut Store) -> Result<(), EngineError> {
        self.keep(store, |_| true)
    }

    /// Keeps what the agent made of the prompts. One that it deleted stays as it was.
    pub(super) fn keep_edits(&mut self, store: &mut Store) -> Result<(), EngineError> {
        self.keep(store, Option::is_some)
    }

    fn keep(
        &mut self,
        store: &mut Store,
        is_kept: impl Fn(&Option<String>) -> bool,
    ) -> Result<(), EngineError> {
        self.is_settled = true;
        let mut kept = self.kept.clone();
        let places = self.source.place().into_iter().chain(self.source.role_places());
        for held in places.filter_map(HeldPrompt::take) {
            let (place, before) = held.into_parts();
            let text = before.map(|prompt| BASE64.encode(&prompt.bytes));
            if is_kept(&text) {
                kept.prompts.insert(escape(place.configured()), text);
            }
        }
        if kept == self.kept {
            return Ok(());
        }
        let object = serde_json::to_string(&kept)
            .map_err(|error| EngineError::Internal(error.to_string()))?;
        // A prompt may have a secret in it.
        store.write_sealed_file(Layout::PROMPTS, &object)?;
        self.kept = kept;
        Ok(())
    }
}
