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

use std::path::Path;

use orchestrator::contract::{BuildContext, CompletionDetector, Findings, View};

fn context() -> BuildContext {
    BuildContext {
        config_dir: "/project".into(),
        workspace: "/project".into(),
        prompt_dir: "/project".into(),
        path: String::new(),
    }
}

/// A detector never waits for anything, so one poll has to do.
fn inspect(detector: &dyn CompletionDetector, view: View<'_>) -> Findings {
    let mut future = detector.inspect(view);
    let mut nothing = std::task::Context::from_waker(std::task::Waker::noop());
    match future.as_mut().poll(&mut nothing) {
        std::task::Poll::Ready(findings) => findings,
        std::task::Poll::Pending => panic!("a detector waits"),
    }
}

fn view<'a>(prompt: Option<&'a str>, final_text: Option<&'a str>) -> View<'a> {
    View { workspace: Path::new("/project"), prompt_path: None, prompt, final_text }
}
