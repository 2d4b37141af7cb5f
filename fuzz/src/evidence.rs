//! Examining evidence: what is accepted is what its name says, and what is not gets a reason.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::task::{Context, Poll, Waker};

use ralph_orchestrator_contract::{
    BuildContext, Claim, ClaimKind, ClaimSource, NeverCancelled, ValidationContext, Verdict,
};
use serde_json::json;

use crate::folder;

/// The first byte chooses the type of the file, the rest are its content.
pub fn check(data: &[u8]) {
    let (kind, content) = data.split_first().unwrap_or((&0, &[]));
    let extension = ["png", "json", "txt", "bin"][usize::from(kind % 4)];
    folder::with(|folder| inside(folder, extension, content));
}

fn inside(folder: &Path, extension: &str, content: &[u8]) {
    let evidence = folder.join("evidence");
    let path = evidence.join(format!("file.{extension}"));
    fs::create_dir_all(&evidence).unwrap();
    fs::write(&path, content).unwrap();
    let verdict = verdict(folder, extension);
    fs::remove_file(&path).unwrap();
    match verdict {
        Verdict::Accepted { evidence, .. } => {
            let [file] = &evidence[..] else { panic!("{evidence:?}") };
            assert!(file.path.ends_with(path.file_name().unwrap()));
            assert_eq!(file.bytes, u64::try_from(content.len()).unwrap());
            assert_eq!(file.digest, blake3::hash(content).to_hex().as_str());
            match extension {
                "png" => assert!(content.starts_with(b"\x89PNG\r\n\x1a\n")),
                "json" => {
                    let text = content.strip_prefix(b"\xef\xbb\xbf").unwrap_or(content);
                    let read = serde_json::from_slice::<serde::de::IgnoredAny>(text);
                    read.expect("accepted JSON is JSON");
                }
                "txt" => assert!(!std::str::from_utf8(content).unwrap().trim().is_empty()),
                _ => assert!(!content.is_empty()),
            }
        }
        Verdict::Rejected { reasons } => {
            assert!(!reasons.is_empty() && reasons.iter().all(|reason| !reason.is_empty()));
            assert!(reasons.iter().all(|reason| !reason.contains('\n')), "{reasons:?}");
        }
        Verdict::Error { message } => panic!("{message}"),
    }
}

fn verdict(folder: &Path, extension: &str) -> Verdict {
    let build = BuildContext {
        config_dir: folder.into(),
        workspace: folder.into(),
        prompt_dir: folder.into(),
        path: String::new(),
    };
    let config =
        json!({"dir": "evidence", "min_files": 1, "extensions": [extension], "fresh": "any"});
    let validator = ralph_validator_evidence_files::build(config, &build).unwrap();
    let claim = Claim {
        kind: ClaimKind::Complete,
        detector: "marker".into(),
        source: ClaimSource::State,
        text: String::new(),
    };
    let context = ValidationContext {
        checkout: &[],
        output: None,
        run: "run",
        iteration: 1,
        claim: &claim,
        workspace: folder,
        tree_since: 0,
        written_in: &BTreeMap::new(),
        evidence_listed: true,
        protected_changes: &[],
        env: &BTreeMap::new(),
    };
    let mut future = validator.validate(context, &NeverCancelled);
    let mut waker = Context::from_waker(Waker::noop());
    // The validator wakes itself until it is finished, so polling is all it takes.
    for _ in 0..1_000_000 {
        if let Poll::Ready(verdict) = future.as_mut().poll(&mut waker) {
            return verdict;
        }
    }
    panic!("the validator does not come to an end");
}
