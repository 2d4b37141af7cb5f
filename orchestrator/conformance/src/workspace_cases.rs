//! Workspaces that a validator has to accept or to reject, and in which a detector has to find a claim or none.

use std::collections::BTreeMap;
use std::path::{Component, Path};

use ralph_orchestrator_contract::{CompletionDetector, EvidenceValidator, NeverCancelled, Verdict};
use serde_json::Value;

use crate::ItemFixture;
use crate::detectors_validators::{BuildItem, CheckResult, look, verdict};

/// The result that is expected in a workspace.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CaseExpectation {
    /// A validator accepts the claim.
    Accepted,
    /// A validator rejects the claim, with reasons.
    Rejected,
    /// A detector finds a claim.
    Claim,
    /// A detector finds none.
    NoClaim,
}

/// A workspace, and the result that is expected in it.
#[derive(Clone, Debug)]
pub struct WorkspaceCase {
    /// What is special about it.
    pub name: String,
    /// The contents of its files, by paths relative to the workspace.
    pub files: BTreeMap<String, String>,
    /// The text of the claim, or the agent's last message for a detector.
    pub text: String,
    /// The result that is expected.
    pub expected: CaseExpectation,
}

impl WorkspaceCase {
    /// Returns the name of its check for people.
    #[must_use]
    pub fn title(&self) -> String {
        format!("workspace {}", self.name)
    }

    pub(crate) async fn check_validator(
        &self,
        place: &ItemFixture,
        table: &Value,
        make: BuildItem<'_, dyn EvidenceValidator>,
    ) -> CheckResult {
        let case = self.lay_out(place)?;
        let built = make(table.clone(), &case.context).await.map_err(|error| error.to_string())?;
        let result = verdict(&case, &*built, &self.text, &NeverCancelled).await?;
        match (self.expected, result) {
            (CaseExpectation::Accepted, Verdict::Accepted { .. })
            | (CaseExpectation::Rejected, Verdict::Rejected { .. }) => Ok(()),
            (CaseExpectation::Accepted | CaseExpectation::Rejected, result) => {
                let expected =
                    if self.expected == CaseExpectation::Accepted { "accept" } else { "reject" };
                Err(format!("expected it to {expected} the claim, got {}", describe(&result)))
            }
            _ => Err("`expect` of a validator is \"accepted\" or \"rejected\"".to_owned()),
        }
    }

    pub(crate) async fn check_detector(
        &self,
        place: &ItemFixture,
        table: &Value,
        make: BuildItem<'_, dyn CompletionDetector>,
    ) -> CheckResult {
        let case = self.lay_out(place)?;
        let built = make(table.clone(), &case.context).await.map_err(|error| error.to_string())?;
        let found = look(&case, &*built, None, Some(&self.text)).await?;
        match (self.expected, found.claims.first()) {
            (CaseExpectation::Claim, Some(_)) | (CaseExpectation::NoClaim, None) => Ok(()),
            (CaseExpectation::Claim, None) => Err("expected a claim, got none".to_owned()),
            (CaseExpectation::NoClaim, Some(claim)) => {
                Err(format!("expected no claim, got {:?}", claim.text))
            }
            _ => Err("`expect` of a detector is \"claim\" or \"none\"".to_owned()),
        }
    }

    /// Writes the files into a workspace of their own.
    fn lay_out(&self, place: &ItemFixture) -> Result<ItemFixture, String> {
        let mut case = ItemFixture::new();
        case.env.clone_from(&place.env);
        for (name, content) in &self.files {
            let path = Path::new(name);
            if !path.components().all(|part| matches!(part, Component::Normal(_))) {
                return Err(format!("`files`: {name} is not a path below the workspace"));
            }
            let path = case.workspace().join(path);
            let folder = path.parent().unwrap_or_else(|| case.workspace());
            std::fs::create_dir_all(folder)
                .and_then(|()| std::fs::write(&path, content))
                .map_err(|error| format!("{} cannot be written: {error}", path.display()))?;
        }
        Ok(case)
    }
}

fn describe(verdict: &Verdict) -> String {
    match verdict {
        Verdict::Accepted { summary, .. } => format!("accepted: {summary}"),
        Verdict::Rejected { reasons } => format!("rejected: {}", reasons.join("; ")),
        Verdict::Error { message } => format!("error: {message}"),
    }
}
