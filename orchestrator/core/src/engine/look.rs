//! Looking at the workspace between iterations.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use super::error::EngineError;
use super::rest::asked;
use super::session::{Session, StopRequests};
use crate::contract::{Findings, View};
use crate::machine::{Input, Look, ObservedEvidence};
use crate::state::read_regular;
use crate::workspace::{EvidenceDigests, TreeError, TreeHasher, evidence_digests};

/// How long a look may take once the run was asked to stop.
pub(super) const LAST_LOOK: Duration = Duration::from_secs(2);
/// Larger than any configuration, in bytes.
const LARGEST_CONFIG: u64 = 4 * 1024 * 1024;

impl Session {
    /// Asks the detectors. What they find is recorded before anything slow begins, so that a claim
    /// survives whatever happens then; the rest is kept until the workspace was looked at.
    pub(super) async fn find_claims(&mut self) -> Result<Vec<Input>, EngineError> {
        let made = self.make_workspace_again()?;
        let (prompt, warning) = self.prompt.read(&self.workspace)?;
        let final_text = self.final_text.take();
        let findings = self.inspect(&prompt.text, final_text.as_deref()).await;
        self.near_misses = Some(findings.near_misses);
        let warnings = warning.into_iter().chain(findings.warnings).map(Input::Warn);
        let claims = Input::ClaimsFound(findings.claims);
        Ok(made.into_iter().chain(warnings).chain([claims]).collect())
    }

    /// Tree, evidence, and whether anything else was changed that matters.
    pub(super) async fn look(&mut self) -> Result<Vec<Input>, EngineError> {
        if self.near_misses.is_none() {
            for input in self.find_claims().await? {
                self.advance(input)?;
            }
        }
        if let Some(survived) = self.outlive().await? {
            let signal = (*self.stop.borrow() > 0).then_some(Input::Signal);
            return Ok(signal.into_iter().chain([survived]).collect());
        }
        let near_misses = self.near_misses.take().unwrap_or_default();
        let tree = self.tree().await?;
        let evidence = self.evidence().await?;
        let mut inputs: Vec<Input> = self.config_change().map(Input::Warn).into_iter().collect();
        if *self.stop.borrow() > 0 {
            inputs.push(Input::Signal);
        }
        inputs.push(match tree {
            Some(tree) => Input::Looked(Look { near_misses, tree, evidence }),
            None => Input::NotLooked,
        });
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
            given: final_text.and(self.given.as_deref()),
        };
        let mut all = Findings::default();
        for detector in self.judges.detectors.iter() {
            let found = detector.inspect(view).await;
            all.claims.extend(found.claims);
            all.near_misses.extend(found.near_misses);
            all.warnings.extend(found.warnings);
        }
        all
    }

    /// Digest of the workspace tree; `None` if a signal broke the look off, which may take for ever:
    /// a file can be as large as the agent says.
    pub(super) async fn tree(&mut self) -> Result<Option<String>, EngineError> {
        let hasher = self.take_hasher();
        let mut stop = self.stop.clone();
        let (hasher, tree) = digest(hasher, patience(&mut stop)).await?;
        self.hasher = Some(hasher);
        Ok(tree)
    }

    /// What remembers the contents that it has seen; another one if it got lost.
    pub(super) fn take_hasher(&mut self) -> TreeHasher {
        self.hasher.take().unwrap_or_else(|| {
            let mut exclude = self.judges.evidence_dirs();
            exclude.extend(self.config.run.prompt.clone());
            exclude.extend(self.prompt.file().map(Path::to_owned));
            TreeHasher::new(self.workspace.clone(), exclude)
        })
    }

    /// What lies in the evidence folders.
    pub(super) async fn evidence(&self) -> Result<ObservedEvidence, EngineError> {
        observe_evidence(self.judges.evidence_dirs()).await
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

/// What lies in these folders.
pub(super) async fn observe_evidence(dirs: Vec<PathBuf>) -> Result<ObservedEvidence, EngineError> {
    if dirs.is_empty() {
        return Ok(ObservedEvidence::default());
    }
    let EvidenceDigests { contents, overflowed, skipped_large, .. } =
        blocking(move || evidence_digests(&dirs)).await?;
    Ok(ObservedEvidence { contents, overflowed, skipped_large })
}

/// Digest of the workspace tree; `None` if it took longer than until `enough`.
pub(super) async fn digest(
    hasher: TreeHasher,
    enough: impl Future<Output = ()>,
) -> Result<(TreeHasher, Option<String>), EngineError> {
    let cancelled = Arc::new(AtomicBool::new(false));
    let mut hasher = hasher.cancelled_by(Arc::clone(&cancelled));
    let mut work = std::pin::pin!(blocking(move || {
        let result = hasher.digest();
        (hasher, result)
    }));
    let done = tokio::select! {
        biased;
        done = &mut work => done,
        () = enough => {
            cancelled.store(true, Ordering::Relaxed);
            work.await
        }
    };
    let (hasher, result) = done?;
    match result {
        Ok(state) => Ok((hasher, Some(state.digest.to_string()))),
        Err(TreeError::Cancelled) => Ok((hasher, None)),
        Err(error) => Err(error.into()),
    }
}

/// Over when a signal has come and a look has had the time that one usually takes, or another signal.
async fn patience(stop: &mut StopRequests) {
    asked(stop, 1).await;
    tokio::select! {
        () = tokio::time::sleep(LAST_LOOK) => {}
        () = asked(stop, 2) => {}
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
