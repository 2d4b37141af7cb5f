//! The end of what the checks of a validation printed, for who reviews the work.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::sync::{Mutex, PoisonError};

use ralph_orchestrator_contract::Verdict;
use ralph_orchestrator_machine::ValidatorVerdict;

/// What each check printed last, by its name.
#[derive(Debug, Default)]
pub(super) struct CheckOutputs(Mutex<BTreeMap<String, String>>);

impl CheckOutputs {
    /// Keeps what a check printed, in the place of what it printed before.
    pub(super) fn keep(&self, validator: &str, output: String) {
        let mut kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        kept.insert(validator.to_owned(), output);
    }

    /// Returns what the validators say, and what their checks printed.
    pub(super) fn describe(&self, verdicts: &[ValidatorVerdict]) -> String {
        let kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let mut text = String::new();
        for named in verdicts {
            let said = match &named.verdict {
                Verdict::Accepted { summary, .. } => format!("accepted: {summary}"),
                Verdict::Rejected { reasons } => format!("rejected: {}", reasons.join("\n")),
                Verdict::Error { message } => format!("no verdict: {message}"),
            };
            let optional = if named.required { "" } else { " (not required)" };
            // Writing to a String cannot fail.
            let _ = writeln!(text, "{}{optional}: {said}", named.validator);
            if let Some(output) = kept.get(&named.validator).filter(|output| !output.is_empty()) {
                let _ = writeln!(text, "It printed:\n{}\n", output.trim_end());
            }
        }
        text
    }
}
