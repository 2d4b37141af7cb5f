//! What validators decide, and what it means for the claim.

use std::collections::BTreeMap;

use ralph_orchestrator_contract::{EvidenceFile, Verdict};
use ralph_orchestrator_test_results::TestCounts;
use serde::{Deserialize, Serialize};

use super::policy::{FrozenPolicy, ValidatorInfo};

/// Why nothing is accepted if the tree differs before and after the validators.
const UNSTABLE_TREE: &str = "the checks change the files that they check, each time they run; the user has been \
                             warned, and your work did not cause it";

/// What is said of a required validator that another one has kept from being run.
const NOT_RUN: &str = "it did not run";

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
    /// The tests that its check ran, if what it printed has their number.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tests: Option<TestCounts>,
}

impl ValidatorVerdict {
    /// Returns a verdict of this validator, to which it came in this many milliseconds.
    #[must_use]
    pub fn new(validator: &ValidatorInfo, verdict: Verdict, duration_ms: u64) -> Self {
        let ValidatorInfo { name, required, .. } = validator;
        Self { validator: name.clone(), required: *required, duration_ms, verdict, tests: None }
    }

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
                "{name}: the check could not run, and your work may not be the cause: {message}"
            )],
        }
    }
}

/// Returns whether nothing but errors of validators kept the work from being accepted: they say nothing of
/// the work.
pub(super) fn has_only_errors(verdicts: &[ValidatorVerdict]) -> bool {
    let mut required = verdicts.iter().filter(|named| named.required);
    required.clone().any(|named| named.required_error().is_some())
        && required.all(|named| !matches!(named.verdict, Verdict::Rejected { .. }))
}

/// Returns whether a validation that did not accept says nothing of the work: validators reached no verdict, and
/// nothing else is wrong.
#[must_use]
pub fn is_unchecked(verdicts: &[ValidatorVerdict], reasons: &[String]) -> bool {
    let is_of_error = |reason: &String| {
        reason.ends_with(NOT_RUN)
            || verdicts.iter().filter(|named| named.required_error().is_some()).any(|named| {
                reason.strip_prefix(&named.validator).is_some_and(|rest| rest.starts_with(": "))
            })
    };
    has_only_errors(verdicts) && reasons.iter().all(is_of_error)
}

/// The result of running all validators once.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Validation {
    /// All verdicts, in order.
    pub verdicts: Vec<ValidatorVerdict>,
    /// The tree before the first validator.
    pub tree_before: String,
    /// The tree after the last one, apart from artefacts.
    pub tree_after: String,
    /// The tree after the last one.
    pub tree_left: String,
    /// New files that each validator left.
    pub artefacts: BTreeMap<String, Vec<String>>,
    /// Warnings to the user about what validators did to the workspace.
    pub warnings: Vec<String>,
    /// Why nothing can be accepted, found before any work: validators or others change what is checked.
    pub hopeless: Vec<String>,
    /// Changes to protected paths meanwhile, for the agent: nothing is accepted then.
    pub tampering: Vec<String>,
    /// Accepted evidence, already copied.
    pub evidence: Vec<EvidenceFile>,
    /// Digest of the prompt, claims aside.
    pub task: String,
    /// What made it green is to be found out, if it is accepted.
    pub is_explained: bool,
    /// Broken off by a request to stop: the verdicts do not count.
    pub interrupted: bool,
    /// Broken off by `limits.max_runtime`: the verdicts do not count.
    pub out_of_time: bool,
}

impl Validation {
    /// Returns why the claim is rejected, for the agent. Empty if it is accepted.
    #[must_use]
    pub fn rejection_reasons(&self, policy: &FrozenPolicy) -> Vec<String> {
        let (mut reasons, mut not_run) = (Vec::new(), Vec::new());
        for expected in policy.validators.iter().filter(|validator| validator.required) {
            match self.verdicts.iter().find(|verdict| verdict.validator == expected.name) {
                Some(verdict) => reasons.extend(verdict.reasons()),
                None => not_run.push(format!("{}: {NOT_RUN}", expected.name)),
            }
        }
        // A review follows once nothing else is wrong.
        if reasons.is_empty() {
            reasons = not_run;
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
