//! Content of the state that no search finds: secrets that a run needs again when it is resumed.
//!
//! It is enciphered with a key stream of BLAKE3 that depends on the state's key and a random nonce. The key lies beside
//! it, so that this keeps secrets out of what people read, copy and search, not from whoever can read the whole state.

use std::borrow::Cow;

use super::error::StateError;
use super::key::Key;

/// What sealed content begins with; nothing else in the state does.
const HEADER: &[u8] = b"ralph-orchestrator sealed 1\n";
const NONCE: usize = 24;
const CODE: usize = 32;
const STREAM_CONTEXT: &str = "ralph-orchestrator 2026 state: key stream of sealed content";
const CODE_CONTEXT: &str = "ralph-orchestrator 2026 state: code of sealed content";

impl Key {
    /// Seals content.
    ///
    /// # Errors
    /// The system has no random numbers.
    pub fn seal(&self, content: &[u8]) -> Result<Vec<u8>, StateError> {
        let mut nonce = [0; NONCE];
        getrandom::fill(&mut nonce)
            .map_err(|error| std::io::Error::other(error.to_string()))
            .map_err(StateError::io("seal", std::path::Path::new("a file of the state")))?;
        let mut sealed = nonce.to_vec();
        sealed.extend(self.encipher(&nonce, content));
        let code = self.code_of_sealed(&sealed);
        Ok([HEADER, code.as_bytes(), &sealed].concat())
    }

    /// Returns content as it was before it was sealed, if it was; `None` if it was changed since, or sealed with
    /// another key.
    pub fn unseal<'a>(&self, content: &'a [u8]) -> Option<Cow<'a, [u8]>> {
        let Some(rest) = content.strip_prefix(HEADER) else { return Some(Cow::Borrowed(content)) };
        let (code, sealed) = rest.split_at_checked(CODE)?;
        let (nonce, enciphered) = sealed.split_at_checked(NONCE)?;
        let is_right = self.code_of_sealed(sealed) == blake3::Hash::from_slice(code).ok()?;
        is_right.then(|| Cow::Owned(self.encipher(nonce, enciphered)))
    }

    fn code_of_sealed(&self, sealed: &[u8]) -> blake3::Hash {
        blake3::keyed_hash(&self.derive(CODE_CONTEXT), sealed)
    }

    /// Enciphers, and deciphers.
    fn encipher(&self, nonce: &[u8], content: &[u8]) -> Vec<u8> {
        let mut stream = vec![0; content.len()];
        let mut hasher = blake3::Hasher::new_keyed(&self.derive(STREAM_CONTEXT));
        hasher.update(nonce).finalize_xof().fill(&mut stream);
        content.iter().zip(stream).map(|(byte, key)| byte ^ key).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Disk;

    #[test]
    fn only_the_key_opens_what_it_has_sealed() {
        let folder = tempfile::tempdir().unwrap();
        let key = |name| Key::create(&Disk::default(), &folder.path().join(name)).unwrap();
        let (key, other) = (key("a"), key("b"));
        for content in [&b""[..], b"a secret value", &[7; 100_000]] {
            let sealed = key.seal(content).unwrap();
            assert!(content.len() < 8 || !sealed.windows(8).any(|part| content.starts_with(part)));
            assert_ne!(sealed, key.seal(content).unwrap(), "the nonce is another one");
            assert_eq!(key.unseal(&sealed).as_deref(), Some(content));
            assert_eq!(other.unseal(&sealed), None);
            let mut changed = sealed.clone();
            *changed.last_mut().unwrap() ^= 1;
            assert_eq!(key.unseal(&changed), None);
            assert_eq!(key.unseal(sealed.get(..40).unwrap()), None);
        }
        assert_eq!(key.unseal(b"plain").as_deref(), Some(&b"plain"[..]));
    }
}
