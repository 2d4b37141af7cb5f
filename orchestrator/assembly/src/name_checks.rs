//! Checks that what a program has compiled in, and the plugins of a configuration, have names of their own.

use std::sync::Arc;

use crate::agent_names::{MAIN_AGENT, is_reserved};
use crate::compiled_in::{CompiledIn, CompiledInKind, NameError};
use crate::context::Context;
use crate::error::CommandError;
use crate::plugin_attachment::PluginAttachment;
use crate::plugins::{Plugins, error_at};
use crate::{registry, trust};

impl CompiledIn {
    /// Checks all names.
    ///
    /// # Errors
    /// The first that a configuration could not name, or that is taken.
    pub fn check(&self) -> Result<(), NameError> {
        if let Some((kind, name)) = self.doubled() {
            return Err(NameError::Doubled { kind: *kind, name: name.clone() });
        }
        let names = self.names();
        if names.iter().all(|(_, names)| names.is_empty()) {
            return Ok(());
        }
        let none = Arc::default();
        let built_in = registry::unsupervised(&Plugins::none(&none));
        for (kind, names) in names {
            for name in names {
                let is_taken = match kind {
                    CompiledInKind::Agent => {
                        built_in.agents.contains(name) || is_reserved(name) || name == MAIN_AGENT
                    }
                    CompiledInKind::Detector => built_in.detectors.contains(name),
                    CompiledInKind::Validator => built_in.validators.contains(name),
                    CompiledInKind::Backlog => registry::has_backlog(name, &none),
                };
                let name = name.clone();
                if is_taken {
                    return Err(NameError::BuiltIn { kind, name });
                }
                if !is_valid(&name) {
                    return Err(NameError::Invalid { kind, name });
                }
            }
        }
        Ok(())
    }
}

/// Whether a configuration can name it: `/` separates a plugin from what it provides.
fn is_valid(name: &str) -> bool {
    name.starts_with(|first: char| first.is_ascii_alphabetic())
        && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '-' || c == '_')
}

impl Plugins {
    /// Checks all plugins of a configuration, and copies libraries.
    ///
    /// # Errors
    /// The place of the first that cannot be used, and why.
    pub fn from_context(context: &Context) -> Result<Self, CommandError> {
        let mut plugins = Self::none(&context.compiled_in);
        if context.loaded.config.plugins.is_empty() {
            return Ok(plugins);
        }
        if !context.judged.unaccepted.is_empty() {
            return Err(trust::refusal(&context.judged.unaccepted));
        }
        if let Some(link) = context.judged.links.first() {
            return Err(trust::links::refuse_link(link));
        }
        let attachment = PluginAttachment::from_context(context)?;
        let built_in = registry::unsupervised(&plugins);
        for (name, config) in &context.loaded.config.plugins {
            let kinds = [
                ("an adapter", built_in.agents.contains(name)),
                ("a detector", built_in.detectors.contains(name)),
                ("a validator", built_in.validators.contains(name)),
                ("a format of backlogs", registry::has_backlog(name, &context.compiled_in)),
            ];
            if let Some((what, _)) = kinds.iter().find(|(_, known)| *known) {
                let message = format!("{what} of that name is built in; choose another name");
                return Err(error_at(context, name, None, &message).into());
            }
            plugins.add(context, name, config, attachment.as_ref())?;
        }
        Ok(plugins)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ralph_orchestrator_contract::{
        CancelSignal, CompletionDetector, DetectorInput, EvidenceValidator, Findings,
        ValidationContext, ValidatorDescription, Verdict, async_trait,
    };
    use schemars::JsonSchema;

    #[derive(serde::Deserialize, JsonSchema)]
    struct Keys {}

    struct Nothing;

    #[async_trait]
    impl CompletionDetector for Nothing {
        fn name(&self) -> &str {
            "nothing"
        }

        async fn inspect(&self, _: DetectorInput<'_>) -> Findings {
            Findings::default()
        }

        fn instructions(&self) -> String {
            String::new()
        }
    }

    #[async_trait]
    impl EvidenceValidator for Nothing {
        fn describe(&self) -> ValidatorDescription {
            ValidatorDescription { kind: String::new(), demands: String::new() }
        }

        fn runs_check(&self) -> bool {
            true
        }

        async fn validate(&self, _: ValidationContext<'_>, _: &dyn CancelSignal) -> Verdict {
            Verdict::Rejected { reasons: Vec::new() }
        }
    }

    fn with_validators(names: &[&str]) -> Result<(), NameError> {
        let mut compiled_in = CompiledIn::default();
        for name in names {
            compiled_in.add_validator(name, |_: Keys, _, _| Ok(Nothing));
        }
        compiled_in.check()
    }

    #[test]
    fn refuses_names_that_are_taken_doubled_or_impossible() {
        let kind = CompiledInKind::Validator;
        let of = |name: &str| name.to_owned();
        assert_eq!(with_validators(&["mine", "codex", "a-1_b"]), Ok(()));
        for name in ["command", "evidence-files", "protected-paths"] {
            let expected = NameError::BuiltIn { kind, name: of(name) };
            assert_eq!(with_validators(&["mine", name]), Err(expected));
        }
        for name in ["", "1st", "a/b", "a b", "ä", "-a"] {
            let expected = NameError::Invalid { kind, name: of(name) };
            assert_eq!(with_validators(&[name]), Err(expected), "{name:?}");
        }
        let expected = NameError::Doubled { kind, name: of("mine") };
        assert_eq!(with_validators(&["mine", "mine"]), Err(expected));
    }

    #[test]
    fn a_name_is_taken_by_its_own_kind_only() {
        let mut compiled_in = CompiledIn::default();
        compiled_in.add_detector("command", |_: Keys, _| Ok(Nothing));
        assert_eq!(compiled_in.check(), Ok(()));
        compiled_in.add_detector("promise", |_: Keys, _| Ok(Nothing));
        let kind = CompiledInKind::Detector;
        let expected = NameError::BuiltIn { kind, name: "promise".to_owned() };
        assert_eq!(compiled_in.check(), Err(expected));
    }
}
