//! Verdicts of validators, and what they mean for the claim.

use serde::{Deserialize, Serialize};

use super::input::Validation;
use super::policy::FrozenPolicy;
use ralph_orchestrator_contract::Verdict;

/// Why nothing is accepted if the tree differs before and after the validators.
const UNSTABLE_TREE: &str = "the checks change the files that they check, each time they run: this was \
                         reported to the user, and is no fault of your work";

/// A validator's verdict under its name.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ValidatorVerdict {
    /// The validator's name.
    pub validator: String,
    /// Whether completion needs its acceptance.
    pub required: bool,
    /// How long it took, in milliseconds.
    pub duration_ms: u64,
    /// Its verdict.
    pub verdict: Verdict,
}

impl ValidatorVerdict {
    /// Returns the message if a required validator could not come to a verdict.
    pub(super) fn required_error(&self) -> Option<&str> {
        match &self.verdict {
            Verdict::Error { message } if self.required => Some(message),
            _ => None,
        }
    }

    fn reasons(&self) -> Vec<String> {
        let name = &self.validator;
        match &self.verdict {
            Verdict::Accepted { .. } => Vec::new(),
            Verdict::Rejected { reasons } if reasons.is_empty() => {
                vec![format!("{name}: rejected")]
            }
            Verdict::Rejected { reasons } => {
                reasons.iter().map(|reason| format!("{name}: {reason}")).collect()
            }
            Verdict::Error { message } => vec![format!(
                "{name}: could not be checked, which may be no fault of your work: {message}"
            )],
        }
    }
}

impl Validation {
    /// Returns why the claim is rejected, for the agent. Empty if it is accepted.
    #[must_use]
    pub fn rejection_reasons(&self, policy: &FrozenPolicy) -> Vec<String> {
        let mut reasons = Vec::new();
        for expected in policy.validators.iter().filter(|validator| validator.required) {
            match self.verdicts.iter().find(|verdict| verdict.validator == expected.name) {
                Some(verdict) => reasons.extend(verdict.reasons()),
                None => reasons.push(format!("{}: it did not run", expected.name)),
            }
        }
        reasons.extend(self.tampering.iter().cloned());
        if self.tree_before != self.tree_after && reasons.is_empty() {
            reasons.push(UNSTABLE_TREE.into());
        }
        if reasons.is_empty() && !policy.validates() && !policy.trust_agent {
            reasons.push("no required validator is configured".into());
        }
        reasons
    }
}
