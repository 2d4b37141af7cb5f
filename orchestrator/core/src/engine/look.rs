//! Looking at the workspace between iterations.

use std::path::Path;

use super::allowance::cancellable;
use super::error::EngineError;
use super::session::Session;
use crate::contract::Findings;
use crate::machine::{Input, Look};
use crate::state::read_regular;
use crate::workspace::{TreeError, TreeHasher, evidence_digests_until};

/// Larger than any configuration, in bytes.
const LARGEST_CONFIG: u64 = 4 * 1024 * 1024;

impl Session {
    /// Detectors, tree, evidence, and whether anything else was changed that matters.
    pub(super) async fn look(&mut self) -> Result<Vec<Input>, EngineError> {
        let mut inputs = Vec::new();
        let (prompt, warning) = self.prompt.read()?;
        inputs.extend(warning.map(Input::Warn));
        let final_text = self.final_text.take();
        // A detector that is no part of this program may take its time.
        let enough = self.time_to_look().over();
        let findings = tokio::select! {
            biased;
            findings = self.inspect(&prompt.text, final_text.as_deref()) => findings,
            () = enough => Findings::default(),
        };
        inputs.extend(findings.warnings.into_iter().map(Input::Warn));
        let (tree, evidence) = (self.tree().await?, self.evidence().await?);
        // A signal is told below.
        let out_of_time = (tree.is_none() || evidence.is_none()) && *self.stop.borrow() == 0;
        inputs.extend(self.config_change().map(Input::Warn));
        if *self.stop.borrow() > 0 {
            inputs.push(Input::Signal);
        }
        inputs.push(Input::Looked(Look {
            claims: findings.claims,
            near_misses: findings.near_misses,
            // What was claimed is recorded nevertheless, on a tree like no other.
            tree: tree.unwrap_or_else(|| "not looked at".into()),
            evidence: evidence.unwrap_or_default(),
            out_of_time,
        }));
        Ok(inputs)
    }

    pub(super) async fn inspect(&self, prompt: &str, final_text: Option<&str>) -> Findings {
        self.inspection(prompt.to_owned(), final_text.map(str::to_owned)).run().await
    }

    /// Digest of the workspace tree; `None` if a signal or the limit on the run's time broke the look off,
    /// which may take for ever: a file can be as large as the agent says.
    pub(super) async fn tree(&mut self) -> Result<Option<String>, EngineError> {
        let hasher = self.take_hasher();
        let (hasher, tree) = digest(hasher, self.time_to_look().over()).await?;
        self.hasher = Some(hasher);
        Ok(tree)
    }

    /// What remembers the contents that it has seen; another one if it got lost.
    pub(super) fn take_hasher(&mut self) -> TreeHasher {
        self.hasher.take().unwrap_or_else(|| {
            let mut exclude = self.judges.evidence_dirs();
            exclude.extend(self.config.run.prompt.clone());
            TreeHasher::new(self.workspace.clone(), exclude)
        })
    }

    /// Digests of what lies in the evidence folders; `None` if the look was broken off.
    pub(super) async fn evidence(&self) -> Result<Option<Vec<String>>, EngineError> {
        let dirs = self.judges.evidence_dirs();
        if dirs.is_empty() {
            return Ok(Some(Vec::new()));
        }
        let enough = self.time_to_look().over();
        let found = cancellable(enough, move |flag| evidence_digests_until(&dirs, flag)).await?;
        Ok(found.map(|found| found.digests.into_iter().collect()))
    }

    /// Says once that the configuration was changed on disk.
    fn config_change(&mut self) -> Option<String> {
        let content = read_config(&self.config_file.path);
        if content == self.config_file.content {
            return None;
        }
        let gone = content.is_empty();
        self.config_file.content = content;
        let path = self.config_file.path.display();
        let what = if gone { "is gone" } else { "was changed" };
        Some(format!(
            "{path} {what}; this run goes on with what it was started with (limits and agent are \
             read again by the next `run`, detectors and validators by `run --restart`)"
        ))
    }
}

/// Digest of the workspace tree; `None` if it took longer than until `enough`.
pub(super) async fn digest(
    hasher: TreeHasher,
    enough: impl Future<Output = ()>,
) -> Result<(TreeHasher, Option<String>), EngineError> {
    let look = move |flag| {
        let mut hasher = hasher.cancelled_by(flag);
        let result = hasher.digest();
        (hasher, result)
    };
    let (hasher, result) = cancellable(enough, look).await?;
    match result {
        Ok(state) => Ok((hasher, Some(state.digest.to_string()))),
        Err(TreeError::Cancelled) => Ok((hasher, None)),
        Err(error) => Err(error.into()),
    }
}

/// The configuration file as it is now; empty if it cannot be read, whatever is in its place.
pub(super) fn read_config(path: &Path) -> Vec<u8> {
    read_regular(path, LARGEST_CONFIG).unwrap_or_default()
}

/// Work that would hold up everything else.
pub(super) async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> T + Send + 'static,
) -> Result<T, EngineError> {
    tokio::task::spawn_blocking(work)
        .await
        .map_err(|error| EngineError::Internal(error.to_string()))
}
