//! The review validator: demands that an agent, possibly of another model, accepts the work that the checks accept.
//! Knows neither the engine nor another validator, and runs nothing: whoever has the validator runs the agent.

mod answer;
mod prompt;

use ralph_orchestrator_contract::{
    BuildContext, BuildError, CancelSignal, EvidenceValidator, ReviewMaterial, Reviewer,
    ValidationContext, ValidatorDescription, Verdict, async_trait, parse_config,
};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::Value;

/// The validator's kind in `[[validator]] kind`.
pub const KIND: &str = "review";

/// `[[validator]]` with `kind = "review"`.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Keys {
    /// The agent that reviews, by its name in [agents].
    #[schemars(length(min = 1))]
    agent: String,
}

/// Builds the validator. Its one key is `agent`.
///
/// # Errors
/// No name of an agent.
pub fn build(
    config: Value,
    _context: &BuildContext,
) -> Result<Box<dyn EvidenceValidator>, BuildError> {
    let Keys { agent } = parse_config(config)?;
    if agent.trim().is_empty() {
        return Err(BuildError::at("agent", "must name an agent of [agents]"));
    }
    Ok(Box::new(Review { agent }))
}

struct Review {
    agent: String,
}

#[async_trait]
impl EvidenceValidator for Review {
    fn describe(&self) -> ValidatorDescription {
        let demands = format!("the agent `{}` accepts the work after reading it", self.agent);
        ValidatorDescription { kind: KIND.into(), demands }
    }

    fn runs_check(&self) -> bool {
        false
    }

    fn is_read_only(&self) -> bool {
        true
    }

    fn reviewer(&self) -> Option<&dyn Reviewer> {
        Some(self)
    }

    async fn validate(
        &self,
        _context: ValidationContext<'_>,
        _cancel: &dyn CancelSignal,
    ) -> Verdict {
        let message = "no agent can be run here to review the work".to_owned();
        Verdict::Error { message }
    }
}

impl Reviewer for Review {
    fn agent(&self) -> &str {
        &self.agent
    }

    fn prompt(&self, material: &ReviewMaterial<'_>) -> String {
        prompt::write(material)
    }

    fn read_verdict(&self, answer: &str) -> Verdict {
        answer::read(answer)
    }
}
