//! Asking the detectors.

use std::path::PathBuf;
use std::sync::Arc;

use ralph_orchestrator_contract::{Claim, CompletionDetector, DetectorInput, Findings, NearMiss};

use super::blocking::blocking;
use super::cut::cut;
use super::warning_limit::WarningLimit;

/// A prompt that is longer, in bytes, is read in a thread of its own: nothing else has to wait.
const SHORT_PROMPT: usize = 64 * 1024;
/// Most claims and near misses that are taken from one inspection.
const MOST_FINDINGS: usize = 32;
/// The longest text of a claim, and of the parts of a near miss, in bytes.
pub(super) const LONGEST_CLAIM: usize = 8 * 1024;
const LONGEST_MISS: usize = 2 * 1024;

/// The input of the detectors, owned, so that they can run concurrently.
pub(super) struct InspectionTask {
    pub(super) detectors: Arc<Vec<Box<dyn CompletionDetector>>>,
    pub(super) workspace: PathBuf,
    pub(super) prompt_path: Option<PathBuf>,
    pub(super) prompt: String,
    pub(super) final_text: Option<String>,
    /// What the agent was given whose final message it is.
    pub(super) given: Option<String>,
}

impl InspectionTask {
    /// Returns what all detectors find.
    pub(super) async fn run(self) -> Findings {
        let is_short = self.prompt.len() <= SHORT_PROMPT;
        let find = async move {
            let prompt_path = self.prompt_path.as_deref();
            let view = DetectorInput {
                workspace: &self.workspace,
                prompt_path,
                // Text in the configuration is the user's: no agent can have put a claim there.
                prompt: prompt_path.map(|_| self.prompt.as_str()),
                final_text: self.final_text.as_deref(),
                given: self.given.as_deref(),
            };
            let mut all = Findings::default();
            for detector in self.detectors.iter() {
                let found = detector.inspect(view).await;
                let named = |claim| named(claim, detector.name());
                let claims = found.claims.into_iter().take(MOST_FINDINGS);
                all.claims.extend(claims.map(named).map(bounded));
                let misses = found.near_misses.into_iter().take(MOST_FINDINGS);
                all.near_misses.extend(misses.map(bounded_miss));
                let mut limit = WarningLimit::new(MOST_FINDINGS);
                all.warnings.extend(found.warnings.into_iter().filter_map(|one| limit.admit(one)));
                all.warnings.extend(limit.summary(&format!("the detector `{}`", detector.name())));
            }
            all
        };
        if is_short {
            return find.await;
        }
        let runtime = tokio::runtime::Handle::current();
        blocking(move || runtime.block_on(find)).await.unwrap_or_else(|error| Findings {
            warnings: vec![format!("looking for claims failed: {error}")],
            ..Findings::default()
        })
    }
}

/// Returns the claim with the name of its detector, if the detector left it out.
pub(super) fn named(mut claim: Claim, detector: &str) -> Claim {
    if claim.detector.is_empty() {
        detector.clone_into(&mut claim.detector);
    }
    claim
}

/// Returns the claim with its text cut to the longest that is stored.
pub(super) fn bounded(mut claim: Claim) -> Claim {
    cut(&mut claim.text, LONGEST_CLAIM);
    claim
}

fn bounded_miss(mut miss: NearMiss) -> NearMiss {
    cut(&mut miss.text, LONGEST_MISS);
    cut(&mut miss.hint, LONGEST_MISS);
    miss
}
