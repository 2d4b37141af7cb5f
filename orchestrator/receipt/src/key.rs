//! Ed25519 keys, in the forms that OpenSSL reads and writes.

use std::fmt;

use data_encoding::{BASE64, HEXLOWER};
use ed25519_dalek::{Signer as _, VerifyingKey};
use sha2::{Digest as _, Sha256};

/// What precedes the 32 bytes of a private key in PKCS #8 (RFC 8410).
const PRIVATE_PREFIX: [u8; 16] = [
    0x30, 0x2e, 0x02, 0x01, 0x00, 0x30, 0x05, 0x06, 0x03, 0x2b, 0x65, 0x70, 0x04, 0x22, 0x04, 0x20,
];
/// What precedes the 32 bytes of a public key in a `SubjectPublicKeyInfo` (RFC 8410).
const PUBLIC_PREFIX: [u8; 12] =
    [0x30, 0x2a, 0x30, 0x05, 0x06, 0x03, 0x2b, 0x65, 0x70, 0x03, 0x21, 0x00];
const PRIVATE_LABEL: &str = "PRIVATE KEY";
const PUBLIC_LABEL: &str = "PUBLIC KEY";

/// A text is no key.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum KeyError {
    /// It has another form.
    #[error(
        "expected an Ed25519 key between `-----BEGIN {label}-----` and `-----END {label}-----`"
    )]
    Form {
        /// What stands between the dashes.
        label: &'static str,
    },
    /// The bytes are no point of the curve.
    #[error("the bytes are no Ed25519 public key")]
    NoKey,
}

/// A private key, which signs receipts.
pub struct SigningKey(ed25519_dalek::SigningKey);

impl fmt::Debug for SigningKey {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.debug_struct("SigningKey").finish_non_exhaustive()
    }
}

impl SigningKey {
    /// Returns the key of these random bytes.
    #[must_use]
    pub fn from_seed(seed: &[u8; 32]) -> Self {
        Self(ed25519_dalek::SigningKey::from_bytes(seed))
    }

    /// Reads a key in PEM, as `openssl genpkey -algorithm ed25519` writes it.
    ///
    /// # Errors
    /// It is none.
    pub fn from_pem(text: &str) -> Result<Self, KeyError> {
        let seed = read_pem(text, PRIVATE_LABEL, &PRIVATE_PREFIX)?;
        Ok(Self::from_seed(&seed))
    }

    /// Returns the key in PEM.
    #[must_use]
    pub fn to_pem(&self) -> String {
        write_pem(PRIVATE_LABEL, &PRIVATE_PREFIX, self.0.as_bytes())
    }

    /// Returns the key that verifies what this one signs.
    #[must_use]
    pub fn public(&self) -> PublicKey {
        PublicKey(self.0.verifying_key())
    }

    pub(crate) fn sign(&self, message: &[u8]) -> [u8; 64] {
        self.0.sign(message).to_bytes()
    }
}

/// A public key, which verifies receipts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PublicKey(VerifyingKey);

impl PublicKey {
    /// Reads a key in PEM, as `openssl pkey -pubout` writes it.
    ///
    /// # Errors
    /// It is none.
    pub fn from_pem(text: &str) -> Result<Self, KeyError> {
        let bytes = read_pem(text, PUBLIC_LABEL, &PUBLIC_PREFIX)?;
        VerifyingKey::from_bytes(&bytes).map(Self).map_err(|_| KeyError::NoKey)
    }

    /// Returns the key in PEM.
    #[must_use]
    pub fn to_pem(&self) -> String {
        write_pem(PUBLIC_LABEL, &PUBLIC_PREFIX, self.0.as_bytes())
    }

    /// Returns the key's name in envelopes: the SHA-256 of its DER form, in hexadecimal.
    #[must_use]
    pub fn id(&self) -> String {
        let digest = Sha256::new().chain_update(PUBLIC_PREFIX).chain_update(self.0.as_bytes());
        HEXLOWER.encode(&digest.finalize())
    }

    /// Whether the signature is this key's on the message. Signatures and keys of small order, which fit many
    /// messages, are none.
    pub(crate) fn has_signed(&self, message: &[u8], signature: &[u8; 64]) -> bool {
        let signature = ed25519_dalek::Signature::from_bytes(signature);
        self.0.verify_strict(message, &signature).is_ok()
    }
}

fn write_pem(label: &str, prefix: &[u8], key: &[u8; 32]) -> String {
    let body = BASE64.encode(&[prefix, key].concat());
    format!("-----BEGIN {label}-----\n{body}\n-----END {label}-----\n")
}

fn read_pem(text: &str, label: &'static str, prefix: &[u8]) -> Result<[u8; 32], KeyError> {
    let form = KeyError::Form { label };
    let (begin, end) = (format!("-----BEGIN {label}-----"), format!("-----END {label}-----"));
    let body = text.split_once(begin.as_str()).and_then(|(_, rest)| rest.split_once(end.as_str()));
    let Some((body, _)) = body else { return Err(form) };
    let body: String = body.chars().filter(|c| !c.is_ascii_whitespace()).collect();
    let Ok(bytes) = BASE64.decode(body.as_bytes()) else { return Err(form) };
    let key = bytes.strip_prefix(prefix).and_then(|key| key.try_into().ok());
    key.ok_or(form)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_survive_their_text() {
        let key = SigningKey::from_seed(&[7; 32]);
        let again = SigningKey::from_pem(&key.to_pem()).unwrap();
        assert_eq!(again.public(), key.public());
        assert_eq!(PublicKey::from_pem(&key.public().to_pem()).unwrap(), key.public());
        assert_eq!(key.public().id().len(), 64);
        assert!(!format!("{key:?}").contains('7'), "no key in a log");
    }

    #[test]
    fn what_is_no_key_is_refused() {
        let key = SigningKey::from_seed(&[7; 32]);
        for text in ["", "x", &key.public().to_pem(), &key.to_pem().replace('M', "N")] {
            assert!(SigningKey::from_pem(text).is_err(), "{text}");
        }
        let private = "expected an Ed25519 key between `-----BEGIN PUBLIC KEY-----` and `-----END PUBLIC KEY-----`";
        let error = PublicKey::from_pem(&key.to_pem()).unwrap_err();
        assert_eq!(error.to_string(), private);
    }

    #[test]
    fn a_key_that_verifies_anything_verifies_nothing() {
        // The neutral element: with it, one signature fits every message under lenient rules.
        let mut point = [0; 32];
        point[0] = 1;
        let key = PublicKey(VerifyingKey::from_bytes(&point).unwrap());
        let mut signature = [0; 64];
        signature[0] = 1;
        assert!(!key.has_signed(b"anything", &signature));
    }
}
