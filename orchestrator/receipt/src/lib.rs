//! Receipts: signed statements that work was accepted by its validators, for people and machines that were not there.
//! A receipt is an in-toto statement in a DSSE envelope, signed with Ed25519. There is none without an acceptance by
//! every required validator.
//! Knows neither journals nor files nor the engine.

mod envelope;
mod key;
mod statement;

pub use envelope::{Envelope, EnvelopeError, MAX_ENVELOPE, PAYLOAD_TYPE};
pub use key::{KeyError, PublicKey, SigningKey};
pub use statement::{
    Acceptance, Completion, EvidenceDigest, JournalHead, PREDICATE_TYPE, Statement, StatementError,
    Subject, TokenCounts, ValidatorStatement,
};
