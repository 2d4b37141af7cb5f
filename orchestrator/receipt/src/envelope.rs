//! DSSE envelopes: a payload with its type, and signatures over both.

use data_encoding::BASE64;
use serde::{Deserialize, Serialize};

use crate::key::{PublicKey, SigningKey};
use crate::statement::{Statement, StatementError};

/// The type of an in-toto statement.
pub const PAYLOAD_TYPE: &str = "application/vnd.in-toto+json";
/// The largest envelope that is read, in bytes.
pub const MAX_ENVELOPE: usize = 16 * 1024 * 1024;

/// A signed statement.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Envelope {
    /// The statement, in Base64.
    payload: String,
    /// What it is.
    payload_type: String,
    /// Signatures over both.
    signatures: Vec<Signature>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Signature {
    /// The name of the key; only a hint, which nothing rests on.
    #[serde(default)]
    keyid: String,
    /// In Base64.
    sig: String,
}

/// An envelope proves nothing.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum EnvelopeError {
    /// It is larger than any receipt.
    #[error("it has {bytes} bytes; a receipt has at most {MAX_ENVELOPE}")]
    TooLarge {
        /// Its size.
        bytes: usize,
    },
    /// It is no DSSE envelope.
    #[error("it is no DSSE envelope: {0}")]
    Form(#[from] serde_json::Error),
    /// It contains something else than a statement.
    #[error("it contains {found:?}, expected {PAYLOAD_TYPE:?}")]
    PayloadType {
        /// The type.
        found: String,
    },
    /// The payload is no Base64.
    #[error("its payload is no Base64")]
    Encoding,
    /// No key that is trusted has signed it.
    #[error("no key that is trusted has signed it; it names {named}")]
    Signature {
        /// The names of the keys in it.
        named: String,
    },
    /// What is signed is no receipt.
    #[error(transparent)]
    Statement(#[from] StatementError),
}

impl Envelope {
    /// Signs a statement.
    ///
    /// # Errors
    /// It cannot be written as JSON.
    pub fn sign(statement: &Statement, key: &SigningKey) -> Result<Self, serde_json::Error> {
        let payload = serde_json::to_vec(statement)?;
        let signature = key.sign(&signed_bytes(PAYLOAD_TYPE, &payload));
        Ok(Self {
            payload: BASE64.encode(&payload),
            payload_type: PAYLOAD_TYPE.to_owned(),
            signatures: vec![Signature {
                keyid: key.public().id(),
                sig: BASE64.encode(&signature),
            }],
        })
    }

    /// Reads an envelope.
    ///
    /// # Errors
    /// It is none.
    pub fn from_json(bytes: &[u8]) -> Result<Self, EnvelopeError> {
        if bytes.len() > MAX_ENVELOPE {
            return Err(EnvelopeError::TooLarge { bytes: bytes.len() });
        }
        Ok(serde_json::from_slice(bytes)?)
    }

    /// Returns the envelope as JSON, with a line end.
    ///
    /// # Errors
    /// It cannot be written as JSON.
    pub fn to_json(&self) -> Result<String, serde_json::Error> {
        Ok(serde_json::to_string_pretty(self)? + "\n")
    }

    /// Returns the statement if one of these keys has signed it and it states an acceptance, and the key.
    ///
    /// # Errors
    /// What is wrong with it, the signature before everything in the payload.
    pub fn verify<'a>(
        &self,
        keys: &'a [PublicKey],
    ) -> Result<(Statement, &'a PublicKey), EnvelopeError> {
        if self.payload_type != PAYLOAD_TYPE {
            return Err(EnvelopeError::PayloadType { found: self.payload_type.clone() });
        }
        let payload =
            BASE64.decode(self.payload.as_bytes()).map_err(|_| EnvelopeError::Encoding)?;
        let message = signed_bytes(&self.payload_type, &payload);
        let mut signatures = self.signatures.iter().filter_map(Signature::bytes);
        let signer = signatures
            .find_map(|signature| keys.iter().find(|key| key.has_signed(&message, &signature)));
        let Some(signer) = signer else {
            let named: Vec<&str> =
                self.signatures.iter().map(|signature| signature.keyid.as_str()).collect();
            let named = if named.is_empty() { "none".to_owned() } else { named.join(", ") };
            return Err(EnvelopeError::Signature { named });
        };
        let statement: Statement = serde_json::from_slice(&payload)?;
        statement.check()?;
        Ok((statement, signer))
    }
}

impl Signature {
    fn bytes(&self) -> Option<[u8; 64]> {
        BASE64.decode(self.sig.as_bytes()).ok()?.try_into().ok()
    }
}

/// What is signed: DSSE's "pre-authentication encoding".
fn signed_bytes(payload_type: &str, payload: &[u8]) -> Vec<u8> {
    let head = format!("DSSEv1 {} {payload_type} {} ", payload_type.len(), payload.len());
    [head.as_bytes(), payload].concat()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_signed_bytes_are_those_of_the_specification() {
        assert_eq!(
            signed_bytes("http://example.com/HelloWorld", b"hello world"),
            b"DSSEv1 29 http://example.com/HelloWorld 11 hello world"
        );
    }
}
