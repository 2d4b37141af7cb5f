//! What a validation says about the work.

use super::input::Validation;
use super::record::Policy;
use ralph_orchestrator_contract::Verdict;

/// What holds for one tree proves nothing of another.
const UNSETTLED: &str = "the checks change the files that they check, each time they run; the user has been \
                         warned, and your work did not cause it";

impl Validation {
    /// Why it does not prove that the work is done, for the agent. Empty if it does.
    #[must_use]
    pub fn objections(&self, policy: &Policy) -> Vec<String> {
        let mut reasons = Vec::new();
        for expected in policy.validators.iter().filter(|validator| validator.required) {
            match self.verdicts.iter().find(|verdict| verdict.validator == expected.name) {
                Some(verdict) => reasons.extend(reasons_of(&verdict.validator, &verdict.verdict)),
                None => reasons.push(format!("{}: it did not run", expected.name)),
            }
        }
        reasons.extend(self.tampering.iter().cloned());
        if self.tree_before != self.tree_after && reasons.is_empty() {
            reasons.push(UNSETTLED.into());
        }
        if reasons.is_empty() && !policy.validates() && !policy.trust_agent {
            reasons.push("no required validator is configured".into());
        }
        reasons
    }
}

fn reasons_of(name: &str, verdict: &Verdict) -> Vec<String> {
    match verdict {
        Verdict::Accepted { .. } => Vec::new(),
        Verdict::Rejected { reasons } if reasons.is_empty() => vec![format!("{name}: rejected")],
        Verdict::Rejected { reasons } => {
            reasons.iter().map(|reason| format!("{name}: {reason}")).collect()
        }
        Verdict::Error { message } => {
            vec![format!(
                "{name}: the check could not run, and your work may not be the cause: {message}"
            )]
        }
    }
}
