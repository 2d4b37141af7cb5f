//! Files of the state that may name secrets: a path of the workspace can have one in it. They are sealed then.

use std::borrow::Cow;

use ralph_orchestrator_store::{Key, StateError};

use super::redact::Redactor;

/// Seals what has secrets in it. [`Key::unseal`] opens it.
#[derive(Clone)]
pub(super) struct SecretFiles {
    key: Key,
    redactor: Redactor,
}

impl SecretFiles {
    pub(super) const fn new(key: Key, redactor: Redactor) -> Self {
        Self { key, redactor }
    }

    /// Returns the content, sealed if it has a secret in it.
    ///
    /// # Errors
    /// The system has no random numbers.
    pub(super) fn seal<'a>(&self, content: &'a [u8]) -> Result<Cow<'a, [u8]>, StateError> {
        match self.redactor.bytes(content) {
            Cow::Borrowed(_) => Ok(Cow::Borrowed(content)),
            Cow::Owned(_) => self.key.seal(content).map(Cow::Owned),
        }
    }
}
