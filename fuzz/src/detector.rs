//! Asking a detector.

use std::borrow::Cow;
use std::path::Path;
use std::pin::Pin;
use std::task::{Context, Poll, Waker};

use ralph_orchestrator_contract::{BuildContext, CompletionDetector, DetectorInput, Findings};

pub(crate) fn context() -> BuildContext {
    BuildContext {
        config_dir: "/project".into(),
        workspace: "/project".into(),
        prompt_dir: "/project".into(),
        path: String::new(),
    }
}

/// What the detector finds, which has to be bounded and the same every time.
pub(crate) fn findings(
    detector: &dyn CompletionDetector,
    prompt: Option<&str>,
    final_text: Option<&str>,
) -> Findings {
    // What claims must not be an echo of: here, nothing.
    let (workspace, given) = (Path::new("/project"), final_text.map(|_| ""));
    let view = DetectorInput { workspace, prompt_path: None, prompt, final_text, given };
    let findings = inspect(detector, view);
    assert_eq!(findings, inspect(detector, view));
    assert!(findings.claims.len() <= 2 && findings.near_misses.len() <= 8);
    assert!(findings.claims.is_empty() || findings.near_misses.is_empty());
    let text = prompt.or(final_text).unwrap_or_default();
    let most = text.split(['\n', '\r']).count();
    for miss in &findings.near_misses {
        let line = usize::try_from(miss.line).unwrap();
        assert!((1..=most).contains(&line), "line {line} of {most}");
        assert!(miss.text.len() <= 300 && !miss.hint.is_empty());
    }
    for claim in &findings.claims {
        assert_eq!(claim.detector, detector.name());
        assert!(claim.text.len() <= 4200);
    }
    findings
}

fn inspect(detector: &dyn CompletionDetector, view: DetectorInput<'_>) -> Findings {
    at_once(detector.inspect(view))
}

/// The prompt without the claims in it.
pub(crate) fn strip<'a>(detector: &dyn CompletionDetector, prompt: &'a str) -> Cow<'a, str> {
    at_once(detector.strip_claims(prompt))
}

/// A detector that is built in never waits for anything, so one poll has to do.
fn at_once<T>(mut future: Pin<Box<dyn Future<Output = T> + Send + '_>>) -> T {
    match future.as_mut().poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(done) => done,
        Poll::Pending => panic!("a detector waits"),
    }
}
