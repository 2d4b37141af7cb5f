//! The detector `backlog`: an agent that sets the status of its item to completed claims completion.

use std::sync::Arc;

use async_trait::async_trait;
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::Value;
use tokio::task::spawn_blocking;

use ralph_orchestrator_contract::{
    BuildError, Claim, ClaimKind, ClaimSource, CompletionDetector, DetectorInput, Findings,
    parse_config,
};

/// The detector's name in `[completion] detectors`.
pub const BACKLOG_DETECTOR: &str = "backlog";

/// Returns what is claimed of the item of a run, if its status says that it is complete. Reads the backlog.
pub type ItemClaim = Arc<dyn Fn() -> Option<String> + Send + Sync>;

/// Returns the detector, which looks at the item of a run; without one it finds nothing.
///
/// # Errors
/// A key: it has none.
pub fn build_backlog_detector(
    config: Value,
    item: Option<ItemClaim>,
) -> Result<Box<dyn CompletionDetector>, BuildError> {
    let BacklogDetectorKeys {} = parse_config(config)?;
    Ok(Box::new(BacklogDetector { item }))
}

/// The detector has no keys.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct BacklogDetectorKeys {}

struct BacklogDetector {
    item: Option<ItemClaim>,
}

#[async_trait]
impl CompletionDetector for BacklogDetector {
    fn name(&self) -> &str {
        BACKLOG_DETECTOR
    }

    async fn inspect(&self, _input: DetectorInput<'_>) -> Findings {
        let Some(item) = self.item.clone() else { return Findings::default() };
        let claimed = spawn_blocking(move || item()).await.ok().flatten();
        let claim = |text| Claim {
            kind: ClaimKind::Complete,
            detector: BACKLOG_DETECTOR.to_owned(),
            source: ClaimSource::State,
            text,
        };
        Findings { claims: claimed.map(claim).into_iter().collect(), ..Findings::default() }
    }

    fn instructions(&self) -> String {
        "When the item is done, set its status in the backlog to completed. It is then checked."
            .to_owned()
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use serde_json::json;

    use super::*;

    async fn claims(item: Option<ItemClaim>) -> Vec<Claim> {
        let detector = build_backlog_detector(json!({}), item).unwrap();
        let input = DetectorInput {
            workspace: Path::new("/"),
            prompt_path: None,
            prompt: None,
            final_text: None,
            given: None,
        };
        detector.inspect(input).await.claims
    }

    #[tokio::test]
    async fn a_completed_item_is_a_claim_and_nothing_else_is() {
        assert!(claims(None).await.is_empty());
        assert!(claims(Some(Arc::new(|| None))).await.is_empty());
        let found = claims(Some(Arc::new(|| Some("item `a`".to_owned())))).await;
        let [claim] = found.as_slice() else { panic!("{found:?}") };
        assert_eq!((claim.kind, claim.text.as_str()), (ClaimKind::Complete, "item `a`"));
    }

    #[test]
    fn a_key_is_refused() {
        let refused = build_backlog_detector(json!({ "word": "x" }), None);
        assert!(refused.err().unwrap().to_string().contains("word"));
    }
}
