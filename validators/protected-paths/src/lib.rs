//! The protected-paths validator: demands that files which the agent has no business with, such as the
//! tests that judge it, are as they were when the run began.
//! Knows neither the engine nor another validator.

use std::path::Path;

use globset::GlobBuilder;
use ralph_orchestrator_contract::{
    BuildContext, BuildError, CancelSignal, Change, ChangeKind, EvidenceValidator,
    PROTECTED_CHANGED, ValidationContext, ValidatorDescription, Verdict, async_trait, parse_config,
};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::Value;

/// The validator's kind in `[[validator]] kind`.
pub const KIND: &str = "protected-paths";

/// Reasons in one verdict; what is more is counted.
const MOST_REASONS: usize = 20;
/// Characters of a path in a reason.
const LONGEST_PATH: usize = 200;

/// `[[validator]]` with `kind = "protected-paths"`.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Keys {
    /// Globs, relative to the workspace, of what must be as it was when the run began.
    #[schemars(length(min = 1))]
    paths: Vec<String>,
}

/// Builds the validator. Its one key is `paths`: a list of globs, relative to the workspace, such as
/// `tests/**`.
///
/// # Errors
/// No globs, or one that is wrong or could never match, with its index.
pub fn build(
    config: Value,
    _context: &BuildContext,
) -> Result<Box<dyn EvidenceValidator>, BuildError> {
    let Keys { paths } = parse_config(config)?;
    if paths.is_empty() {
        let message = "must name at least one glob, such as \"tests/**\"";
        return Err(BuildError::at("paths", message));
    }
    for (index, glob) in paths.iter().enumerate() {
        check(glob).map_err(|message| BuildError::at_element(&["paths"], index, message))?;
    }
    Ok(Box::new(ProtectedPaths { paths }))
}

/// A glob that never matches protects nothing, so it is a mistake as much as one that is malformed.
fn check(glob: &str) -> Result<(), String> {
    let never = |why: &str| Err(format!("the glob `{}` {why}", glob.escape_debug()));
    if glob.trim().is_empty() {
        return Err("an empty glob protects nothing; name a path such as \"tests/**\"".into());
    }
    if glob.starts_with('/') {
        return never("is absolute; write it relative to the workspace");
    }
    if glob.starts_with('!') {
        return never("begins with `!`, but exceptions are not possible; name what is protected");
    }
    if glob.ends_with('/') {
        return Err(format!("the glob `{glob}` names only a folder; write `{glob}**`"));
    }
    if glob.split('/').any(|part| matches!(part, "" | "." | "..")) {
        return never("has an empty part, `.` or `..`; write it relative to the workspace without");
    }
    match GlobBuilder::new(glob).literal_separator(true).build() {
        Ok(_) => Ok(()),
        Err(error) => never(&format!("is malformed: {}", error.kind())),
    }
}

struct ProtectedPaths {
    paths: Vec<String>,
}

#[async_trait]
impl EvidenceValidator for ProtectedPaths {
    fn describe(&self) -> ValidatorDescription {
        let globs: Vec<_> = self.paths.iter().map(|glob| format!("`{glob}`")).collect();
        let demands = format!("{} as when the run began", globs.join(", "));
        ValidatorDescription { kind: KIND.into(), demands }
    }

    fn runs_check(&self) -> bool {
        false
    }

    fn protects(&self) -> Vec<String> {
        self.paths.clone()
    }

    async fn validate(
        &self,
        context: ValidationContext<'_>,
        _cancel: &dyn CancelSignal,
    ) -> Verdict {
        let changes = context.protected_changes;
        if changes.is_empty() {
            let summary = "protected paths are as when the run began".to_owned();
            return Verdict::Accepted { summary, evidence: Vec::new() };
        }
        let reported = if changes.len() > MOST_REASONS { MOST_REASONS - 1 } else { changes.len() };
        let mut reasons: Vec<_> = changes.iter().take(reported).map(reason).collect();
        if reported < changes.len() {
            let more = changes.len() - reported;
            reasons.push(format!("and {more} more protected paths: restore them too"));
        }
        Verdict::Rejected { reasons }
    }
}

fn reason(change: &Change) -> String {
    let path = show(&change.path);
    match change.kind {
        ChangeKind::Added => {
            format!(
                "{PROTECTED_CHANGED} `{path}` was added: remove it, the work has to do without it"
            )
        }
        ChangeKind::Modified => {
            format!(
                "{PROTECTED_CHANGED} `{path}` was modified: restore it as it was when the run began"
            )
        }
        ChangeKind::Removed => {
            format!(
                "{PROTECTED_CHANGED} `{path}` was removed: restore it as it was when the run began"
            )
        }
        ChangeKind::Redirected => {
            format!(
                "the path `{path}` leads elsewhere: let it lead where it led when the run began"
            )
        }
    }
}

/// A path on one line, control and invisible characters escaped, cut.
fn show(path: &Path) -> String {
    let whole = path.to_string_lossy();
    let mut shown: String = whole.chars().take(LONGEST_PATH).flat_map(char::escape_debug).collect();
    if whole.chars().nth(LONGEST_PATH).is_some() {
        shown.push('…');
    }
    shown
}
