//! Tries, without a model, what agents do to checks, and finds what would be accepted.

mod advice;
mod edits;
mod moves;
mod runners;

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use ralph_orchestrator_assembly::context::Context;
use ralph_orchestrator_assembly::error::CommandError;
use ralph_orchestrator_assembly::transient_checkout::TransientCheckout;
use ralph_orchestrator_checkout::Variant;
use ralph_orchestrator_config::ValidatorConfig;
use ralph_orchestrator_engine::{CheckSite, Rehearsal, RehearsedOutcome, StopRequests};
use ralph_orchestrator_terminal::validation_setup::ValidationSetup;

pub use moves::MoveKind;
use moves::{Move, find_moves};

/// What came of one thing that was tried.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RowVerdict {
    /// Honest work that would be accepted, as far as it goes.
    Accepted,
    /// A cheat that would be accepted.
    AcceptedCheat,
    /// A cheat that is rejected.
    Rejected,
    /// Honest work that is rejected.
    RejectedWork,
    /// The checks do not see it.
    Unseen,
    /// The checks ran the same tests.
    NoEffect,
    /// It cannot be said.
    Unknown,
    /// There was no time for it.
    NotTried,
}

impl RowVerdict {
    /// Returns the word for it.
    #[must_use]
    pub const fn word(self) -> &'static str {
        match self {
            Self::Accepted => "accepted",
            Self::AcceptedCheat => "ACCEPTED",
            Self::Rejected => "rejected",
            Self::RejectedWork => "REJECTED",
            Self::Unseen => "not seen",
            Self::NoEffect => "no effect",
            Self::Unknown => "unknown",
            Self::NotTried => "not tried",
        }
    }

    /// Whether the configuration is to be changed for it.
    #[must_use]
    pub const fn is_problem(self) -> bool {
        matches!(self, Self::AcceptedCheat | Self::RejectedWork)
    }
}

/// One thing that was tried.
#[derive(Clone, Debug)]
pub struct RehearsedRow {
    /// The validator that it was to mislead.
    pub check: String,
    /// What was tried.
    pub kind: MoveKind,
    /// With which files.
    pub what: String,
    /// What came of it.
    pub verdict: RowVerdict,
    /// Why, where there is more to say.
    pub why: String,
    /// What to add to the configuration.
    pub advice: Option<String>,
}

/// All that was tried.
#[derive(Clone, Debug, Default)]
pub struct RehearsalReport {
    /// In the order in which it was tried.
    pub rows: Vec<RehearsedRow>,
    /// The checks that already accept the work as it is.
    pub accepting: Vec<String>,
}

/// Tries all moves against the required checks of a configuration, for `budget` at most; `None` if a stop was requested. No
/// file of the user's is changed.
///
/// # Errors
/// There can be no checkout, no check can be tried, or the workspace cannot be read.
pub async fn rehearse(
    context: &Context,
    setup: &ValidationSetup,
    (budget, stop): (Duration, StopRequests),
) -> Result<Option<RehearsalReport>, CommandError> {
    let config = &context.loaded.config;
    let checks: Vec<&ValidatorConfig> =
        config.validators.iter().filter(|check| is_command(check)).collect();
    if checks.is_empty() {
        return Err(CommandError::config(
            "no required validator of this configuration runs a command",
        )
        .hinted("add one of the kind \"command\", such as `program = [\"cargo\", \"test\"]`"));
    }
    let workspace = config.run.workspace.canonicalize().map_err(|error| {
        CommandError::config(format!("the workspace {}: {error}", config.run.workspace.display()))
    })?;
    let deadline = Instant::now() + budget;
    let mut checkout = TransientCheckout::require(context).await?;
    let site = CheckSite { workspace: &workspace, checkout: checkout.overlays(), env: &setup.env };
    let begun = Rehearsal::begin(&setup.policy, &context.loaded, site, (budget, stop)).await?;
    let Some(rehearsal) = begun else { return Ok(None) };
    let accepting = rehearsal.accepting().into_iter().map(str::to_owned).collect();
    let mut report = RehearsalReport { rows: Vec::new(), accepting };
    for check in checks {
        let words: Vec<String> = advice::strings(check, "program");
        let cwd = check.config.get("cwd").and_then(|cwd| cwd.as_str()).unwrap_or_default();
        for one in find_moves(&workspace.join(cwd), &words) {
            let change = beneath(cwd, &one.change);
            let visible = rehearsal.find_visible(&change);
            checkout.show(&visible)?;
            let site =
                CheckSite { workspace: &workspace, checkout: checkout.overlays(), env: &setup.env };
            let outcome = match play(&rehearsal, &visible, site, deadline).await? {
                Played::Outcome(outcome) => Some(outcome),
                Played::OutOfTime => None,
                Played::Stopped => return Ok(None),
            };
            let (verdict, why) = read_outcome(&one, outcome);
            let advice =
                verdict.is_problem().then(|| advice::advise(&workspace, check, &one, &visible));
            let (kind, what) = (one.kind, one.what);
            report.rows.push(RehearsedRow {
                check: check.name.clone(),
                kind,
                what,
                verdict,
                why,
                advice,
            });
        }
    }
    Ok(Some(report))
}

/// What came of playing one change.
enum Played {
    Outcome(RehearsedOutcome),
    OutOfTime,
    Stopped,
}

async fn play(
    rehearsal: &Rehearsal<'_>,
    visible: &Variant,
    site: CheckSite<'_>,
    deadline: Instant,
) -> Result<Played, CommandError> {
    let left = deadline.saturating_duration_since(Instant::now());
    if left.is_zero() {
        return Ok(Played::OutOfTime);
    }
    Ok(match rehearsal.play(visible, site, left).await? {
        None => Played::Stopped,
        // The check may have been ended for it.
        Some(RehearsedOutcome::Rejected { .. }) if Instant::now() >= deadline => Played::OutOfTime,
        Some(outcome) => Played::Outcome(outcome),
    })
}

fn is_command(check: &ValidatorConfig) -> bool {
    check.required && check.kind == "command"
}

/// Returns the same change of a folder of the workspace, by paths relative to that.
fn beneath(cwd: &str, change: &Variant) -> Variant {
    let place = |path: &Path| -> PathBuf {
        Path::new(cwd).join(path).components().filter(|part| part.as_os_str() != ".").collect()
    };
    change.iter().map(|(path, content)| (place(path), content.clone())).collect()
}

/// Returns what was found, without what an agent would be told to do about it.
fn first_sentence(reason: &str) -> String {
    let ends = |(at, _): &(usize, &str)| {
        reason.get(at + 2..).is_some_and(|rest| rest.starts_with(|c: char| c.is_ascii_uppercase()))
    };
    let end = reason.match_indices(". ").find(ends).map(|(at, _)| at);
    end.and_then(|at| reason.get(..at)).unwrap_or(reason).to_owned()
}

/// Returns what an outcome means for what was tried, and why.
fn read_outcome(one: &Move, outcome: Option<RehearsedOutcome>) -> (RowVerdict, String) {
    let Some(outcome) = outcome else {
        return (RowVerdict::NotTried, "the time was used up; `--max-time` gives more".to_owned());
    };
    let is_honest = one.kind.is_honest();
    match outcome {
        RehearsedOutcome::Accepted | RehearsedOutcome::Unnoticed | RehearsedOutcome::Unchanged
            if is_honest =>
        {
            (RowVerdict::Accepted, String::new())
        }
        RehearsedOutcome::Accepted => (RowVerdict::AcceptedCheat, String::new()),
        RehearsedOutcome::Unnoticed => {
            (RowVerdict::AcceptedCheat, "once the tests pass that fail without it, too".to_owned())
        }
        RehearsedOutcome::Unchanged if one.is_subtle => {
            (RowVerdict::AcceptedCheat, "the checks do not notice it".to_owned())
        }
        RehearsedOutcome::Unchanged => (RowVerdict::NoEffect, "the same tests ran".to_owned()),
        RehearsedOutcome::Rejected { reason, .. } if is_honest => {
            (RowVerdict::RejectedWork, first_sentence(&reason))
        }
        RehearsedOutcome::Rejected { reason, .. } => {
            (RowVerdict::Rejected, first_sentence(&reason))
        }
        RehearsedOutcome::Unseen => {
            (RowVerdict::Unseen, "the checkout of the checks has nothing of it".to_owned())
        }
        RehearsedOutcome::Unknown { why } => (RowVerdict::Unknown, why),
    }
}
