//! Looking at the workspace between iterations.

use super::error::EngineError;
use super::session::Session;
use crate::contract::{Findings, View};
use crate::machine::{Input, Look};
use crate::workspace::evidence_digests;

impl Session {
    /// Detectors, tree, evidence, and whether anything else was changed that matters.
    pub(super) async fn look(&mut self) -> Result<Vec<Input>, EngineError> {
        let mut inputs = Vec::new();
        let (prompt, warning) = self.prompt.read()?;
        inputs.extend(warning.map(Input::Warn));
        let final_text = self.final_text.take();
        let findings = self.inspect(&prompt.text, final_text.as_deref()).await;
        let tree = self.tree().await?;
        let evidence = self.evidence().await?;
        inputs.extend(self.config_change().map(Input::Warn));
        if *self.stop.borrow() > 0 {
            inputs.push(Input::Signal);
        }
        inputs.push(Input::Looked(Look {
            claims: findings.claims,
            near_misses: findings.near_misses,
            tree,
            evidence,
        }));
        Ok(inputs)
    }

    pub(super) async fn inspect(&self, prompt: &str, final_text: Option<&str>) -> Findings {
        let path = self.prompt.path();
        let view = View {
            workspace: &self.workspace,
            prompt_path: path,
            // Text in the configuration is the user's: no agent can have put a claim there.
            prompt: path.map(|_| prompt),
            final_text,
        };
        let mut all = Findings::default();
        for detector in self.judges.detectors.iter() {
            let found = detector.inspect(view).await;
            all.claims.extend(found.claims);
            all.near_misses.extend(found.near_misses);
        }
        all
    }

    /// Digest of the workspace tree.
    pub(super) async fn tree(&mut self) -> Result<String, EngineError> {
        let Some(mut hasher) = self.hasher.take() else {
            return Err(EngineError::Internal("a look at the tree was broken off".into()));
        };
        let (hasher, result) = blocking(move || {
            let result = hasher.digest();
            (hasher, result)
        })
        .await?;
        self.hasher = Some(hasher);
        Ok(result?.digest.to_string())
    }

    /// Digests of what lies in the evidence folders.
    pub(super) async fn evidence(&self) -> Result<Vec<String>, EngineError> {
        let dirs = self.judges.evidence_dirs();
        if dirs.is_empty() {
            return Ok(Vec::new());
        }
        let found = blocking(move || evidence_digests(&dirs)).await?;
        Ok(found.digests.into_iter().collect())
    }

    /// Says once that the configuration was changed on disk.
    fn config_change(&mut self) -> Option<String> {
        let content = std::fs::read(&self.config_file.path).unwrap_or_default();
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

/// Work that would hold up everything else.
pub(super) async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> T + Send + 'static,
) -> Result<T, EngineError> {
    tokio::task::spawn_blocking(work)
        .await
        .map_err(|error| EngineError::Internal(error.to_string()))
}
