//! The evidence that an accepting verdict names, compared with the files themselves.
//!
//! A preview and the validation that decides do the same, so that both have the same result. A file that is
//! not what the verdict says is an error of the validator: the agent cannot do anything about it.

use ralph_orchestrator_contract::{EvidenceFile, Verdict};

use super::blocking::blocking;
use super::error::EngineError;

/// Completes the evidence of an accepting verdict with the digests and sizes that it leaves out, and
/// compares the others. Other verdicts are returned as they are.
pub(super) async fn checked(verdict: Verdict) -> Result<Verdict, EngineError> {
    let Verdict::Accepted { summary, evidence } = verdict else { return Ok(verdict) };
    if evidence.is_empty() {
        return Ok(Verdict::Accepted { summary, evidence });
    }
    let compare = move || evidence.iter().map(compared).collect::<Result<Vec<_>, _>>();
    Ok(match blocking(compare).await? {
        Ok(evidence) => Verdict::Accepted { summary, evidence },
        Err(message) => Verdict::Error { message },
    })
}

/// Returns the file as it is, or what the validator reported wrongly.
fn compared(file: &EvidenceFile) -> Result<EvidenceFile, String> {
    let path = file.path.display();
    if !file.path.is_absolute() {
        return Err(format!("it named the evidence {path}: expected an absolute path"));
    }
    let actual = EvidenceFile::read(&file.path)
        .map_err(|error| format!("it named the evidence {path}, which cannot be read: {error}"))?;
    if !file.digest.is_empty() && !file.digest.eq_ignore_ascii_case(&actual.digest) {
        return Err(format!(
            "it reported the digest {} for its evidence {path}, whose BLAKE3 digest is {}; leave \
             `digest` out to have it computed",
            file.digest, actual.digest
        ));
    }
    if file.bytes != 0 && file.bytes != actual.bytes {
        return Err(format!(
            "it reported {} bytes for its evidence {path}, which has {}; leave `bytes` out to have them \
             counted",
            file.bytes, actual.bytes
        ));
    }
    Ok(actual)
}

#[cfg(test)]
mod tests {
    use std::path::{Path, PathBuf};

    use super::*;

    async fn verdict_on(path: &Path, digest: &str, bytes: u64) -> Verdict {
        let evidence =
            vec![EvidenceFile { path: path.to_owned(), digest: digest.to_owned(), bytes }];
        checked(Verdict::Accepted { summary: "good".into(), evidence }).await.unwrap()
    }

    #[tokio::test]
    async fn what_is_left_out_is_computed_and_what_is_right_is_kept() {
        let folder = tempfile::tempdir().unwrap();
        for content in ["", "proof"] {
            let path = folder.path().join("proof.txt");
            std::fs::write(&path, content).unwrap();
            let digest = blake3::hash(content.as_bytes()).to_hex().to_string();
            let bytes = content.len() as u64;
            let evidence = vec![EvidenceFile { path: path.clone(), digest: digest.clone(), bytes }];
            let expected = Verdict::Accepted { summary: "good".into(), evidence };
            for (given, size) in [(digest.as_str(), bytes), ("", 0), (&digest, 0), ("", bytes)] {
                assert_eq!(verdict_on(&path, given, size).await, expected, "{given} {size}");
            }
            assert_eq!(verdict_on(&path, &digest.to_uppercase(), 0).await, expected);
        }
    }

    #[tokio::test]
    async fn a_wrong_report_is_an_error_that_names_the_file_and_both_values() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("proof.txt");
        std::fs::write(&path, "proof").unwrap();
        let link = folder.path().join("link");
        std::os::unix::fs::symlink(&path, &link).unwrap();
        let real = blake3::hash(b"proof").to_hex().to_string();
        for (file, digest, bytes, parts) in [
            (path.clone(), "beef", 0, vec!["proof.txt", "digest beef", &real]),
            (path.clone(), "", 7, vec!["proof.txt", "7 bytes", "which has 5"]),
            (folder.path().join("none"), "", 0, vec!["none", "cannot be read"]),
            (folder.path().to_owned(), "", 0, vec!["cannot be read"]),
            (link, "", 0, vec!["link", "cannot be read"]),
            (PathBuf::from("proof.txt"), "", 0, vec!["proof.txt", "an absolute path"]),
        ] {
            let verdict = verdict_on(&file, digest, bytes).await;
            let Verdict::Error { message } = verdict else { panic!("{file:?}: {verdict:?}") };
            for part in parts {
                assert!(message.contains(part), "no `{part}` in: {message}");
            }
        }
    }

    #[tokio::test]
    async fn other_verdicts_pass() {
        for verdict in [Verdict::rejected("no"), Verdict::Error { message: "broken".into() }] {
            assert_eq!(checked(verdict.clone()).await.unwrap(), verdict);
        }
    }
}
