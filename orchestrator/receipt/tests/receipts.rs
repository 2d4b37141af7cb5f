//! Receipts as others get them: whole, changed, signed by somebody else, and made by nobody.

#![allow(
    clippy::disallowed_methods,
    clippy::indexing_slicing,
    clippy::unwrap_used,
    clippy::expect_used
)]

use std::collections::BTreeMap;
use std::process::Command;

use data_encoding::BASE64;
use proptest::prelude::*;
use ralph_orchestrator_receipt::{
    Acceptance, Completion, Envelope, EnvelopeError, PublicKey, SigningKey, Statement,
    StatementError, Subject, ValidatorStatement,
};

fn validator(name: &str, required: bool, accepts: bool) -> ValidatorStatement {
    let verdict = if accepts {
        Acceptance::Accepted { summary: "exit 0".into() }
    } else {
        Acceptance::NotAccepted { reason: "exit 1".into() }
    };
    let definition = serde_json::json!({ "kind": "command", "program": ["make", "test"] });
    ValidatorStatement { name: name.into(), required, definition, verdict }
}

fn statement(validators: Vec<ValidatorStatement>) -> Result<Statement, StatementError> {
    let digest = BTreeMap::from([("ralphTree".to_owned(), "ab".repeat(32))]);
    let subject = vec![Subject { name: "workspace".into(), digest }];
    Statement::new(subject, Completion { run: "r".into(), validators, ..Completion::default() })
}

fn key(byte: u8) -> SigningKey {
    SigningKey::from_seed(&[byte; 32])
}

fn signed() -> Envelope {
    let validators = vec![validator("tests", true, true), validator("style", false, false)];
    Envelope::sign(&statement(validators).unwrap(), &key(1)).unwrap()
}

#[test]
fn there_is_no_receipt_without_an_acceptance() {
    assert_eq!(statement(vec![]).unwrap_err(), StatementError::NothingRequired);
    let optional = vec![validator("style", false, true)];
    assert_eq!(statement(optional).unwrap_err(), StatementError::NothingRequired);
    let rejected = vec![validator("tests", true, true), validator("lint", true, false)];
    let error = statement(rejected).unwrap_err().to_string();
    assert_eq!(error, "the required validator `lint` did not accept: exit 1");
    assert!(Statement::new(vec![], Completion::default()).is_err());
}

#[test]
fn a_receipt_is_verified_by_the_key_that_signed_it() {
    let text = signed().to_json().unwrap();
    let envelope = Envelope::from_json(text.as_bytes()).unwrap();
    let keys = [key(2).public(), key(1).public()];
    let (statement, signer) = envelope.verify(&keys).unwrap();
    assert_eq!((statement.completion().run.as_str(), signer), ("r", &key(1).public()));
    let error = envelope.verify(&[key(2).public()]).unwrap_err().to_string();
    assert!(error.contains(&key(1).public().id()), "{error}");
    assert!(envelope.verify(&[]).is_err());
}

/// An envelope whose statement was changed, and signed again by a key that is trusted.
fn signed_by_hand(change: impl Fn(&mut serde_json::Value)) -> Envelope {
    let mut envelope = serde_json::to_value(signed()).unwrap();
    let payload = BASE64.decode(envelope["payload"].as_str().unwrap().as_bytes()).unwrap();
    let mut statement: serde_json::Value = serde_json::from_slice(&payload).unwrap();
    change(&mut statement);
    let payload = statement.to_string();
    let message = format!("DSSEv1 28 application/vnd.in-toto+json {} {payload}", payload.len());
    let secret = ed25519_dalek::SigningKey::from_bytes(&[1; 32]);
    let signature = ed25519_dalek::Signer::sign(&secret, message.as_bytes());
    envelope["payload"] = BASE64.encode(payload.as_bytes()).into();
    envelope["signatures"][0]["sig"] = BASE64.encode(&signature.to_bytes()).into();
    serde_json::from_value(envelope).unwrap()
}

#[test]
fn what_a_trusted_key_signs_is_no_receipt_if_it_states_no_acceptance() {
    let keys = [key(1).public()];
    assert!(signed_by_hand(|_| ()).verify(&keys).is_ok());
    let rejected = signed_by_hand(|statement| {
        statement["predicate"]["validators"][0]["verdict"] =
            serde_json::json!({ "result": "not_accepted", "reason": "exit 1" });
    });
    let error = rejected.verify(&keys).unwrap_err();
    assert!(matches!(error, EnvelopeError::Statement(StatementError::NotAccepted { .. })));
    let other =
        signed_by_hand(|statement| statement["predicateType"] = "https://slsa.dev/v1".into());
    assert!(matches!(
        other.verify(&keys).unwrap_err(),
        EnvelopeError::Statement(StatementError::Type { .. })
    ));
    let none =
        signed_by_hand(|statement| statement["predicate"]["validators"] = serde_json::json!([]));
    assert!(none.verify(&keys).is_err());
}

#[test]
fn openssl_reads_the_keys_and_verifies_the_signature() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name).display().to_string();
    let envelope = serde_json::to_value(signed()).unwrap();
    let payload = BASE64.decode(envelope["payload"].as_str().unwrap().as_bytes()).unwrap();
    let signature = &envelope["signatures"][0]["sig"];
    let signature = BASE64.decode(signature.as_str().unwrap().as_bytes()).unwrap();
    let head = format!("DSSEv1 28 application/vnd.in-toto+json {} ", payload.len());
    std::fs::write(path("message"), [head.as_bytes(), &payload].concat()).unwrap();
    std::fs::write(path("signature"), signature).unwrap();
    std::fs::write(path("public.pem"), key(1).public().to_pem()).unwrap();
    std::fs::write(path("private.pem"), key(1).to_pem()).unwrap();
    let openssl = |args: &[&str]| {
        let output = Command::new("openssl").args(args).output().expect(
            "openssl is missing: install the package `openssl`, such as by `apt install openssl`",
        );
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).unwrap()
    };
    let public = openssl(&["pkey", "-in", &path("private.pem"), "-pubout"]);
    assert_eq!(PublicKey::from_pem(&public).unwrap(), key(1).public());
    let (public, message, signature) = (path("public.pem"), path("message"), path("signature"));
    openssl(&[
        "pkeyutl", "-verify", "-pubin", "-inkey", &public, "-rawin", "-in", &message, "-sigfile",
        &signature,
    ]);
    let made = openssl(&["genpkey", "-algorithm", "ed25519"]);
    assert_eq!(SigningKey::from_pem(&made).unwrap().to_pem(), made);
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, ..ProptestConfig::default() })]

    /// Whatever is changed in an envelope, it is refused, or says what was signed.
    #[test]
    fn no_change_states_anything_else(at in any::<prop::sample::Index>(), byte in any::<u8>(), cut in any::<bool>()) {
        let original = signed();
        let keys = [key(1).public()];
        let expected = original.verify(&keys).unwrap().0;
        let mut text = original.to_json().unwrap().into_bytes();
        let at = at.index(text.len());
        if cut {
            text.truncate(at);
        } else {
            text[at] = byte;
        }
        if let Ok(envelope) = Envelope::from_json(&text)
            && let Ok((statement, _)) = envelope.verify(&keys)
        {
            prop_assert_eq!(statement, expected);
        }
    }
}
