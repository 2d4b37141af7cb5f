//! A detector that is compiled in: its panics are its own.

use std::borrow::Cow;
use std::sync::{Mutex, PoisonError};

use async_trait::async_trait;
use ralph_orchestrator_contract::{
    BuildError, Claim, CompletionDetector, DetectorInput, Event, Findings,
};

use crate::panics::{CatchPanic, build_guarded};

/// Reports a panic as a warning: what the detector looked at when it panicked, it found nothing in.
pub(crate) struct CompiledDetector {
    /// Its name, also if it returns another one.
    name: String,
    detector: Box<dyn CompletionDetector>,
    observes: bool,
    instructions: String,
    forms: Vec<String>,
    /// Warnings for the next inspection.
    warnings: Mutex<Vec<String>>,
}

impl CompiledDetector {
    /// Builds the detector of this name.
    ///
    /// # Errors
    /// It cannot be built, or panics.
    pub(crate) fn build(
        name: &str,
        build: impl FnOnce() -> Result<Box<dyn CompletionDetector>, BuildError>,
    ) -> Result<Self, BuildError> {
        let build = || {
            let detector = build()?;
            Ok(Self {
                name: detector.name().to_owned(),
                observes: detector.observes(),
                instructions: detector.instructions(),
                forms: detector.forms(),
                warnings: Mutex::default(),
                detector,
            })
        };
        build_guarded(build, |panic| format!("the detector `{name}` panicked: {panic}"))
    }

    /// Adds a warning about a panic, unless the same one is pending.
    fn warn(&self, panic: &str) {
        let message = format!("the detector `{}` panicked: {panic}; it found no claims", self.name);
        let mut warnings = self.warnings.lock().unwrap_or_else(PoisonError::into_inner);
        if !warnings.contains(&message) {
            warnings.push(message);
        }
    }
}

#[async_trait]
impl CompletionDetector for CompiledDetector {
    fn name(&self) -> &str {
        &self.name
    }

    fn observes(&self) -> bool {
        self.observes
    }

    async fn observe(&self, event: &Event) -> Vec<Claim> {
        let observed = CatchPanic::new(self.detector.observe(event)).await;
        observed.unwrap_or_else(|panic| {
            self.warn(&panic);
            Vec::new()
        })
    }

    async fn inspect(&self, input: DetectorInput<'_>) -> Findings {
        let inspected = CatchPanic::new(self.detector.inspect(input)).await;
        let mut findings = inspected.unwrap_or_else(|panic| {
            self.warn(&panic);
            Findings::default()
        });
        let mut warnings = self.warnings.lock().unwrap_or_else(PoisonError::into_inner);
        findings.warnings.append(&mut warnings);
        findings
    }

    async fn strip_claims<'a>(&self, prompt: &'a str) -> Cow<'a, str> {
        let stripped = CatchPanic::new(self.detector.strip_claims(prompt)).await;
        stripped.unwrap_or_else(|panic| {
            self.warn(&panic);
            Cow::Borrowed(prompt)
        })
    }

    fn instructions(&self) -> String {
        self.instructions.clone()
    }

    fn forms(&self) -> Vec<String> {
        self.forms.clone()
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    /// Panics in the method of this name.
    struct Panics(&'static str);

    #[async_trait]
    impl CompletionDetector for Panics {
        fn name(&self) -> &str {
            "toy"
        }

        async fn observe(&self, _: &Event) -> Vec<Claim> {
            assert_ne!(self.0, "observe", "cause");
            Vec::new()
        }

        async fn inspect(&self, _: DetectorInput<'_>) -> Findings {
            assert_ne!(self.0, "inspect", "cause");
            Findings::default()
        }

        async fn strip_claims<'a>(&self, prompt: &'a str) -> Cow<'a, str> {
            assert_ne!(self.0, "strip_claims", "cause");
            Cow::Borrowed(prompt)
        }

        fn instructions(&self) -> String {
            assert_ne!(self.0, "instructions", "cause");
            String::new()
        }
    }

    #[track_caller]
    fn names_all(message: &str) {
        let parts = ["the detector `toy` panicked: ", "cause", "compiled_detector.rs:"];
        assert!(parts.iter().all(|part| message.contains(part)), "{message}");
    }

    #[tokio::test]
    async fn a_panic_anywhere_is_reported_with_text_place_and_detector() {
        let build = |how| CompiledDetector::build("toy", || Ok(Box::new(Panics(how))));
        names_all(&build("instructions").err().unwrap().message);
        for how in ["observe", "inspect", "strip_claims"] {
            let detector = build(how).unwrap();
            // Each event is the same panic.
            for _ in 0..2 {
                assert_eq!(detector.observe(&Event::Unknown).await, []);
                assert_eq!(detector.strip_claims("x").await, "x");
            }
            let input = DetectorInput {
                workspace: Path::new("/"),
                prompt_path: None,
                prompt: None,
                final_text: None,
                given: None,
            };
            let warnings = detector.inspect(input).await.warnings;
            assert_eq!(warnings.len(), 1, "{how}: {warnings:?}");
            names_all(&warnings[0]);
        }
    }
}
