//! The configuration of completion that is frozen when a run starts.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// Whether a rejected claim stays pending.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum AfterRejection {
    /// It stays pending and is validated again after each iteration.
    #[default]
    Keep,
    /// It is dropped; a new claim has to be made.
    RequireNewClaim,
}

/// What triggers a validation.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CompletionTrigger {
    /// A claim.
    #[default]
    Claimed,
    /// A claim, or an iteration that changed something.
    Proved,
}

/// What happens if the checks accept before any work is done.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum BaselineMode {
    /// They are not run before the first iteration.
    #[default]
    Off,
    /// The user is warned.
    Warn,
    /// The run does not begin.
    MustFail,
}

/// A validator as it was configured when the run started.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ValidatorInfo {
    /// Its name, unique in the run.
    pub name: String,
    /// Its kind.
    pub kind: String,
    /// Whether completion needs its acceptance.
    pub required: bool,
    /// Whether it runs something, so that its verdict rests on more than what the agent wrote.
    #[serde(default = "yes")]
    pub runs_check: bool,
}

const fn yes() -> bool {
    true
}

/// What decides about completion, frozen when the run starts.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct FrozenPolicy {
    /// The validators, in the order in which they run.
    pub validators: Vec<ValidatorInfo>,
    /// Digest of everything that decides about completion.
    pub digest: String,
    /// Whether a claim may be accepted without any required validator.
    pub trust_agent: bool,
    /// Whether a rejected claim stays pending.
    pub after_rejection: AfterRejection,
    /// What triggers a validation.
    #[serde(default)]
    pub when: CompletionTrigger,
    /// Digests of the code of detectors and validators that are plugins, by their names in the
    /// configuration.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub code: BTreeMap<String, String>,
}

impl FrozenPolicy {
    /// Whether a completion under this policy is validated.
    #[must_use]
    pub fn validates(&self) -> bool {
        self.validators.iter().any(|validator| validator.required)
    }

    /// Whether a completion under this policy rests only on what the agent wrote: no required
    /// validator runs anything.
    #[must_use]
    pub fn is_evidence_only(&self) -> bool {
        let mut required = self.validators.iter().filter(|validator| validator.required);
        self.validates() && required.all(|validator| !validator.runs_check)
    }

    /// Whether both decide about completion in the same way. What an older journal does not say
    /// makes no difference.
    #[must_use]
    pub fn decides_like(&self, other: &Self) -> bool {
        let plain = |policy: &Self| {
            let mut policy = policy.clone();
            policy.validators.iter_mut().for_each(|validator| validator.runs_check = true);
            policy
        };
        plain(self) == plain(other)
    }
}

#[cfg(test)]
mod tests;
