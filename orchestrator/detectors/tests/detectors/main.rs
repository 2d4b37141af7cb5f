//! The detectors as the engine uses them.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::panic,
    missing_docs
)]

mod config;
mod hostile;
mod marker;
mod promise;

use std::borrow::Cow;
use std::path::Path;
use std::pin::Pin;

use ralph_orchestrator_contract::{BuildContext, CompletionDetector, DetectorInput, Findings};

fn context() -> BuildContext {
    BuildContext {
        config_dir: "/project".into(),
        workspace: "/project".into(),
        prompt_dir: "/project".into(),
        path: String::new(),
    }
}

fn inspect(detector: &dyn CompletionDetector, input: DetectorInput<'_>) -> Findings {
    at_once(detector.inspect(input))
}

fn strip<'a>(detector: &dyn CompletionDetector, prompt: &'a str) -> Cow<'a, str> {
    at_once(detector.strip_claims(prompt))
}

/// A detector that is built in never waits for anything, so one poll has to do.
fn at_once<T>(mut future: Pin<Box<dyn Future<Output = T> + Send + '_>>) -> T {
    let mut nothing = std::task::Context::from_waker(std::task::Waker::noop());
    match future.as_mut().poll(&mut nothing) {
        std::task::Poll::Ready(done) => done,
        std::task::Poll::Pending => panic!("a detector waits"),
    }
}

fn input<'a>(prompt: Option<&'a str>, final_text: Option<&'a str>) -> DetectorInput<'a> {
    DetectorInput {
        workspace: Path::new("/project"),
        prompt_path: None,
        prompt,
        final_text,
        given: None,
    }
}
