//! What a receipt states.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::Value;

/// The type of in-toto's statements.
const STATEMENT_TYPE: &str = "https://in-toto.io/Statement/v1";
/// The type of what is stated about the subject.
pub const PREDICATE_TYPE: &str = "urn:ralph-orchestrator:completion:v1";

/// An in-toto statement about accepted work.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Statement {
    #[serde(rename = "_type")]
    kind: String,
    subject: Vec<Subject>,
    predicate_type: String,
    predicate: Completion,
}

/// Something that the statement is about.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Subject {
    /// Its name.
    pub name: String,
    /// Its digests, in hexadecimal, by algorithm.
    pub digest: BTreeMap<String, String>,
}

/// How the work was accepted.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Completion {
    /// The run.
    pub run: String,
    /// Digest of the task.
    pub task: String,
    /// When the run began, and when it was completed (RFC 3339).
    pub started: Option<String>,
    /// When it was completed.
    pub completed: Option<String>,
    /// Iterations.
    pub iterations: u64,
    /// Claims that were rejected before.
    pub rejections: u64,
    /// Whether the checks had accepted before any work, if that is known.
    pub accepted_before: Option<bool>,
    /// The agent.
    pub agent: String,
    /// Its model, if it reports it.
    pub model: Option<String>,
    /// The version of the orchestrator.
    pub orchestrator: String,
    /// Cost in dollars; none if nobody knows it.
    pub cost_usd: Option<f64>,
    /// Tokens, by class.
    pub tokens: TokenCounts,
    /// Digest of everything that decided about completion.
    pub policy: String,
    /// The validators, what they are, and what they said.
    pub validators: Vec<ValidatorStatement>,
    /// Paths that validators left in the workspace: no part of the work.
    #[serde(default)]
    pub artefacts: Vec<String>,
    /// The evidence that was accepted.
    pub evidence: Vec<EvidenceDigest>,
    /// The journal of the run.
    pub journal: JournalHead,
}

/// Tokens, by class.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct TokenCounts {
    /// Billed in full.
    pub input: u64,
    /// Written by the model.
    pub output: u64,
    /// Read from the cache.
    pub cache_read: u64,
    /// Written to the cache.
    pub cache_write: u64,
}

/// A validator of the run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ValidatorStatement {
    /// Its name.
    pub name: String,
    /// Whether completion needed its acceptance.
    pub required: bool,
    /// Its table in the configuration.
    pub definition: Value,
    /// What it said.
    pub verdict: Acceptance,
}

/// The verdict of a validator.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "result", rename_all = "snake_case")]
pub enum Acceptance {
    /// It accepted.
    Accepted {
        /// What it saw.
        summary: String,
    },
    /// It did not, which one that is not required may.
    NotAccepted {
        /// Why.
        reason: String,
    },
}

/// A file of the evidence.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct EvidenceDigest {
    /// Its path, as in the journal.
    pub path: String,
    /// Its size.
    pub bytes: u64,
    /// BLAKE3 of its content, in hexadecimal.
    pub blake3: String,
}

/// The journal of a run, which the receipt is drawn from.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct JournalHead {
    /// Its records.
    pub records: u64,
    /// SHA-256 of the file, in hexadecimal.
    pub sha256: String,
}

/// A statement is no receipt.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum StatementError {
    /// It states something else.
    #[error("it states {found:?}, expected {expected:?}")]
    Type {
        /// What it states.
        found: String,
        /// What a receipt states.
        expected: &'static str,
    },
    /// It is about nothing.
    #[error("it has no subject")]
    NoSubject,
    /// No validator was required, so nothing was proved.
    #[error("no validator was required, so nothing is proved")]
    NothingRequired,
    /// A required validator did not accept.
    #[error("the required validator `{name}` did not accept: {reason}")]
    NotAccepted {
        /// Its name.
        name: String,
        /// Why.
        reason: String,
    },
}

impl Statement {
    /// Returns the statement about this subject.
    ///
    /// # Errors
    /// Not all required validators accepted, or there is none: there is no receipt for that.
    pub fn new(subject: Vec<Subject>, completion: Completion) -> Result<Self, StatementError> {
        let statement = Self {
            kind: STATEMENT_TYPE.to_owned(),
            subject,
            predicate_type: PREDICATE_TYPE.to_owned(),
            predicate: completion,
        };
        statement.check()?;
        Ok(statement)
    }

    /// Returns what it is about.
    #[must_use]
    pub fn subject(&self) -> &[Subject] {
        &self.subject
    }

    /// Returns what it states.
    #[must_use]
    pub const fn completion(&self) -> &Completion {
        &self.predicate
    }

    pub(crate) fn check(&self) -> Result<(), StatementError> {
        for (found, expected) in
            [(&self.kind, STATEMENT_TYPE), (&self.predicate_type, PREDICATE_TYPE)]
        {
            if found != expected {
                return Err(StatementError::Type { found: found.clone(), expected });
            }
        }
        if self.subject.is_empty() {
            return Err(StatementError::NoSubject);
        }
        let mut required =
            self.predicate.validators.iter().filter(|validator| validator.required).peekable();
        if required.peek().is_none() {
            return Err(StatementError::NothingRequired);
        }
        let refused = required.find_map(|validator| match &validator.verdict {
            Acceptance::Accepted { .. } => None,
            Acceptance::NotAccepted { reason } => Some((validator.name.clone(), reason.clone())),
        });
        match refused {
            Some((name, reason)) => Err(StatementError::NotAccepted { name, reason }),
            None => Ok(()),
        }
    }
}
