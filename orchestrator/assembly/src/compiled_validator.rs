//! A validator that is compiled in: its panics are its own.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::{Mutex, PoisonError};

use async_trait::async_trait;
use ralph_orchestrator_contract::{
    BuildError, CancelSignal, EvidenceValidator, Setup, SetupProblem, ValidationContext,
    ValidatorDescription, Verdict,
};

use crate::panics::{CatchPanic, build_guarded, catch_panic};

/// Reports a panic as a validation without a verdict, or before the run as a problem of the set-up.
pub(crate) struct CompiledValidator {
    kind: String,
    validator: Box<dyn EvidenceValidator>,
    description: ValidatorDescription,
    /// The first panic of a method that cannot fail: what it would have demanded is not known, so nothing is accepted any more.
    panicked: Mutex<Option<String>>,
}

impl CompiledValidator {
    /// Builds the validator of this kind.
    ///
    /// # Errors
    /// It cannot be built, or panics.
    pub(crate) fn build(
        kind: &str,
        build: impl FnOnce() -> Result<Box<dyn EvidenceValidator>, BuildError>,
    ) -> Result<Self, BuildError> {
        let build = || {
            let validator = build()?;
            let description = validator.describe();
            Ok((validator, description))
        };
        let (validator, description) = build_guarded(build, |panic| panicked(kind, panic))?;
        let kind = kind.to_owned();
        Ok(Self { kind, validator, description, panicked: Mutex::default() })
    }

    /// Calls a method that cannot fail. Returns `instead` if it panics.
    fn ask<T>(
        &self,
        instead: T,
        method: impl FnOnce(&(dyn EvidenceValidator + 'static)) -> T,
    ) -> T {
        catch_panic(|| method(&*self.validator)).unwrap_or_else(|panic| {
            let mut first = self.panicked.lock().unwrap_or_else(PoisonError::into_inner);
            first.get_or_insert_with(|| panicked(&self.kind, &panic));
            instead
        })
    }

    fn earlier_panic(&self) -> Option<String> {
        self.panicked.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

#[async_trait]
impl EvidenceValidator for CompiledValidator {
    fn describe(&self) -> ValidatorDescription {
        self.description.clone()
    }

    fn evidence_dirs(&self) -> Vec<PathBuf> {
        self.ask(Vec::new(), EvidenceValidator::evidence_dirs)
    }

    fn protects(&self) -> Vec<String> {
        self.ask(Vec::new(), EvidenceValidator::protects)
    }

    fn reserved_paths(&self) -> Vec<String> {
        self.ask(Vec::new(), EvidenceValidator::reserved_paths)
    }

    fn outside_files(&self) -> Vec<PathBuf> {
        self.ask(Vec::new(), EvidenceValidator::outside_files)
    }

    fn passed_paths(&self) -> Vec<PathBuf> {
        self.ask(Vec::new(), EvidenceValidator::passed_paths)
    }

    fn is_read_only(&self) -> bool {
        self.ask(true, EvidenceValidator::is_read_only)
    }

    fn runs_check(&self) -> bool {
        self.ask(true, EvidenceValidator::runs_check)
    }

    fn sees_checkout(&self) -> bool {
        self.ask(false, EvidenceValidator::sees_checkout)
    }

    fn passes_required(&self) -> u32 {
        self.ask(1, EvidenceValidator::passes_required)
    }

    fn allows_fewer_tests(&self) -> bool {
        self.ask(false, EvidenceValidator::allows_fewer_tests)
    }

    async fn check(&self, env: &BTreeMap<String, String>) -> Result<(), String> {
        if let Some(panic) = self.earlier_panic() {
            return Err(panic);
        }
        let checked = CatchPanic::new(self.validator.check(env)).await;
        checked.unwrap_or_else(|panic| Err(panicked(&self.kind, &panic)))
    }

    async fn find_setup_problems(&self, setup: Setup<'_>) -> Vec<SetupProblem> {
        let found = match self.earlier_panic() {
            Some(panic) => Err(panic),
            None => CatchPanic::new(self.validator.find_setup_problems(setup))
                .await
                .map_err(|panic| panicked(&self.kind, &panic)),
        };
        found.unwrap_or_else(|message| {
            vec![SetupProblem { key: Vec::new(), message, is_fatal: true }]
        })
    }

    async fn validate(&self, context: ValidationContext<'_>, cancel: &dyn CancelSignal) -> Verdict {
        if let Some(message) = self.earlier_panic() {
            return Verdict::Error { message };
        }
        let validated = CatchPanic::new(self.validator.validate(context, cancel)).await;
        validated.unwrap_or_else(|panic| Verdict::Error { message: panicked(&self.kind, &panic) })
    }
}

fn panicked(kind: &str, panic: &str) -> String {
    format!("the validator `{kind}` panicked: {panic}")
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use ralph_orchestrator_contract::{Claim, NeverCancelled};

    use super::*;

    /// Panics in the method of this name, and accepts.
    struct Panics(&'static str);

    #[async_trait]
    impl EvidenceValidator for Panics {
        fn describe(&self) -> ValidatorDescription {
            assert_ne!(self.0, "describe", "cause");
            ValidatorDescription { kind: "toy".into(), demands: "x".into() }
        }

        fn reserved_paths(&self) -> Vec<String> {
            assert_ne!(self.0, "reserved_paths", "cause");
            Vec::new()
        }

        async fn check(&self, _: &BTreeMap<String, String>) -> Result<(), String> {
            assert_ne!(self.0, "check", "cause");
            Ok(())
        }

        async fn validate(&self, _: ValidationContext<'_>, _: &dyn CancelSignal) -> Verdict {
            assert_ne!(self.0, "validate", "cause");
            Verdict::Accepted { summary: "x".into(), evidence: Vec::new() }
        }
    }

    #[track_caller]
    fn names_all(message: &str) {
        let parts = ["the validator `toy` panicked: ", "cause", "compiled_validator.rs:"];
        assert!(parts.iter().all(|part| message.contains(part)), "{message}");
    }

    #[tokio::test]
    async fn a_panic_anywhere_is_reported_with_text_place_and_kind_and_nothing_is_accepted() {
        let build = |how| CompiledValidator::build("toy", || Ok(Box::new(Panics(how))));
        names_all(&build("describe").err().unwrap().message);
        let (env, written_in) = (BTreeMap::new(), BTreeMap::new());
        let is_protected = |_: &Path| false;
        for (how, before, after) in [
            ("", false, false),
            ("reserved_paths", true, true),
            ("check", true, false),
            ("validate", false, true),
        ] {
            let validator = build(how).unwrap();
            assert_eq!(validator.reserved_paths(), [""; 0]);
            let workspace = Path::new("/");
            let setup = Setup { workspace, env: &env, is_protected: &is_protected };
            let problems = validator.find_setup_problems(setup).await;
            assert!(problems.iter().all(|problem| problem.is_fatal));
            problems.iter().for_each(|problem| names_all(&problem.message));
            assert_eq!(!problems.is_empty(), before, "{how}");
            let context = ValidationContext {
                run: "",
                iteration: 1,
                claim: &Claim::complete("x"),
                workspace,
                tree_since: 0,
                written_in: &written_in,
                evidence_listed: true,
                protected_changes: &[],
                env: &env,
                checkout: &[],
                output: None,
            };
            let verdict = validator.validate(context, &NeverCancelled).await;
            assert_eq!(verdict.is_accepted(), !after, "{how}");
            if let Verdict::Error { message } = verdict {
                names_all(&message);
            }
        }
    }
}
