//! Signatures of webhooks, by the rules of Standard Webhooks.

use data_encoding::{BASE64, BASE64_NOPAD};
use hmac::{Hmac, KeyInit as _, Mac as _};
use sha2::Sha256;

/// What a secret begins with whose rest is base64.
const PREFIX: &str = "whsec_";

/// Returns the value of the header `webhook-signature`; `None` if the secret is no base64 after its prefix.
pub(crate) fn signature(secret: &str, id: &str, timestamp: i64, body: &str) -> Option<String> {
    let key = key(secret)?;
    // A key of any length is allowed.
    let mut code = Hmac::<Sha256>::new_from_slice(&key).ok()?;
    code.update(format!("{id}.{timestamp}.{body}").as_bytes());
    Some(format!("v1,{}", BASE64.encode(&code.finalize().into_bytes())))
}

/// Returns the bytes of a secret. One without the prefix is taken as it is.
pub(crate) fn key(secret: &str) -> Option<Vec<u8>> {
    match secret.strip_prefix(PREFIX) {
        Some(rest) => BASE64_NOPAD.decode(rest.trim_end_matches('=').as_bytes()).ok(),
        None => Some(secret.as_bytes().to_vec()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_example_of_the_specification() {
        let secret = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw";
        let signed = signature(
            secret,
            "msg_p5jXN8AQM9LWM0D4loKWxJek",
            1_614_265_330,
            r#"{"test": 2432232314}"#,
        );
        assert_eq!(signed.as_deref(), Some("v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE="));
    }

    #[test]
    fn secrets_of_either_form() {
        assert_eq!(key("plain"), Some(b"plain".to_vec()));
        assert_eq!(key("whsec_YQ=="), Some(b"a".to_vec()));
        assert_eq!(key("whsec_YQ"), Some(b"a".to_vec()));
        assert_eq!(key("whsec_*"), None);
    }
}
