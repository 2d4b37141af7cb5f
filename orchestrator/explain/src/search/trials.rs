//! Runs variants within limit and budget, and says what a run shows.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use crate::conditions::ExplainConditions;
use crate::content::FileRole;
use crate::explanation::{PartVerdict, StopCause};
use crate::patch::{PartSet, Patch};
use crate::variant::{VariantChecker, VariantOutcome};

/// A run may take so many times as long as the checks took on the work.
const LIMIT_FACTOR: u32 = 5;
const MIN_LIMIT: Duration = Duration::from_secs(3);

/// Why a search ends before everything was tried.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Stop {
    Budget,
    Error(String),
    /// A result could not be repeated, so nothing can follow from it.
    Unstable,
}

impl Stop {
    pub(super) fn into_cause(self) -> Option<StopCause> {
        match self {
            Self::Budget => Some(StopCause::Budget),
            Self::Error(message) => Some(StopCause::Error { message }),
            Self::Unstable => None,
        }
    }
}

/// The runs so far, and what they showed.
pub(super) struct Trials<'a> {
    patch: &'a Patch<'a>,
    conditions: &'a ExplainConditions,
    checker: &'a mut dyn VariantChecker,
    /// The first outcome without each set of parts.
    known: BTreeMap<PartSet, VariantOutcome>,
    verdicts: Vec<PartVerdict>,
    /// Files that the checks write anew.
    rewritten: BTreeSet<usize>,
    pub(super) runs: u64,
    /// For how many more runs time is held back.
    pub(super) held_back: u32,
}

impl<'a> Trials<'a> {
    pub(super) fn start(
        patch: &'a Patch<'a>,
        conditions: &'a ExplainConditions,
        checker: &'a mut dyn VariantChecker,
    ) -> Self {
        let mut known = BTreeMap::new();
        if let Some(base) = &conditions.base {
            known.insert((0..patch.parts.len()).collect(), base.clone());
        }
        known.insert(PartSet::new(), VariantOutcome::Green);
        let files = patch.files.iter().enumerate();
        let rewritten = files.filter(|(_, file)| file.role == FileRole::RewrittenByChecks);
        Self {
            patch,
            conditions,
            checker,
            known,
            verdicts: vec![PartVerdict::NotTried; patch.parts.len()],
            rewritten: rewritten.map(|(number, _)| number).collect(),
            runs: 0,
            held_back: 0,
        }
    }

    pub(super) fn time_limit(&self) -> Duration {
        self.conditions.green_run.saturating_mul(LIMIT_FACTOR).max(MIN_LIMIT)
    }

    pub(super) fn elapsed(&self) -> Duration {
        self.checker.elapsed()
    }

    pub(super) fn budget(&self) -> Duration {
        self.conditions.budget
    }

    pub(super) fn verdict(&self, part: usize) -> &PartVerdict {
        self.verdicts.get(part).unwrap_or(&PartVerdict::NotTried)
    }

    pub(super) fn set_verdict(&mut self, parts: &PartSet, verdict: &PartVerdict) {
        for part in parts {
            if let Some(known) = self.verdicts.get_mut(*part) {
                known.clone_from(verdict);
            }
        }
    }

    pub(super) fn is_rewritten(&self, file: usize) -> bool {
        self.rewritten.contains(&file)
    }

    /// Returns the parts whose files the checks do not write anew.
    pub(super) fn without_rewritten(&self, parts: &PartSet) -> PartSet {
        let is_open = |part: &&usize| {
            self.patch.part(**part).is_some_and(|(place, _)| !self.is_rewritten(place.file))
        };
        parts.iter().filter(is_open).copied().collect()
    }

    /// Returns whether a part is noticed, but by no test that the work repaired.
    pub(super) fn breaks_no_repaired_test(&self, part: usize) -> bool {
        match self.verdict(part) {
            PartVerdict::HoldsBuild => true,
            PartVerdict::Needed { tests } => {
                let tests: BTreeSet<String> = tests.iter().cloned().collect();
                self.repaired(&tests).is_empty()
            }
            _ => false,
        }
    }

    /// Returns the tests that failed at the base, too.
    fn repaired(&self, failed: &BTreeSet<String>) -> Vec<String> {
        match &self.conditions.base {
            Some(VariantOutcome::Red { failed: before, .. }) => {
                failed.intersection(before).cloned().collect()
            }
            _ => Vec::new(),
        }
    }

    /// Says what leaving a set of parts out shows. A failure that is not of a test that the work repaired counts if
    /// the same test fails again.
    pub(super) async fn find_verdict(&mut self, left_out: &PartSet) -> Result<PartVerdict, Stop> {
        let failed = match self.run(left_out).await? {
            VariantOutcome::Green => return Ok(PartVerdict::NoCheckNotices),
            VariantOutcome::DidNotEnd => return Ok(PartVerdict::DoesNotEnd),
            // What does not build fails again: to repeat it doubles the price where a compiler notices most parts.
            VariantOutcome::Red { is_built: false, .. } => return Ok(PartVerdict::HoldsBuild),
            VariantOutcome::Red { failed, is_built: true } => failed,
            VariantOutcome::Error(message) => return Err(Stop::Error(message)),
        };
        let repaired = self.repaired(&failed);
        if !repaired.is_empty() {
            return Ok(PartVerdict::Needed { tests: repaired });
        }
        let VariantOutcome::Red { failed: again, is_built: true } = self.repeat(left_out).await?
        else {
            return Ok(PartVerdict::Unstable);
        };
        let tests: Vec<String> = failed.intersection(&again).cloned().collect();
        let is_same = !tests.is_empty() || (failed.is_empty() && again.is_empty());
        Ok(if is_same { PartVerdict::Needed { tests } } else { PartVerdict::Unstable })
    }

    /// Returns whether the checks are green without a set of parts; a failure is not confirmed.
    pub(super) async fn is_green_once(&mut self, left_out: &PartSet) -> Result<bool, Stop> {
        Ok(self.run(left_out).await? == VariantOutcome::Green)
    }

    /// Returns whether the checks are green without a set of parts, with failures confirmed.
    pub(super) async fn is_green(&mut self, left_out: &PartSet) -> Result<bool, Stop> {
        match self.find_verdict(left_out).await? {
            PartVerdict::NoCheckNotices => Ok(true),
            PartVerdict::Unstable => Err(Stop::Unstable),
            _ => Ok(false),
        }
    }

    async fn run(&mut self, left_out: &PartSet) -> Result<VariantOutcome, Stop> {
        if let Some(outcome) = self.known.get(left_out) {
            return Ok(outcome.clone());
        }
        let outcome = self.repeat(left_out).await?;
        self.known.insert(left_out.clone(), outcome.clone());
        Ok(outcome)
    }

    /// Runs the checks, once more if they could not run.
    async fn repeat(&mut self, left_out: &PartSet) -> Result<VariantOutcome, Stop> {
        let variant = self.patch.compose(left_out);
        let mut is_second = false;
        loop {
            let limit = self.remaining_limit()?;
            let checked = self.checker.check_variant(&variant, limit).await;
            self.runs = self.runs.saturating_add(1);
            match checked.outcome {
                VariantOutcome::Error(message) if is_second => return Err(Stop::Error(message)),
                VariantOutcome::Error(_) => is_second = true,
                VariantOutcome::DidNotEnd if limit < self.time_limit() => return Err(Stop::Budget),
                outcome => {
                    self.exclude_rewritten(left_out, &checked.rewritten);
                    return Ok(outcome);
                }
            }
        }
    }

    fn remaining_limit(&self) -> Result<Duration, Stop> {
        let remaining = self.conditions.budget.saturating_sub(self.checker.elapsed());
        let held_back = self.conditions.green_run.saturating_mul(self.held_back);
        let remaining = remaining.saturating_sub(held_back);
        if remaining.is_zero() || remaining < self.conditions.green_run {
            return Err(Stop::Budget);
        }
        Ok(remaining.min(self.time_limit()))
    }

    /// Excludes files of which a part was left out and which the checks then wrote: the checks did not run without it.
    fn exclude_rewritten(&mut self, left_out: &PartSet, rewritten: &BTreeSet<String>) {
        for part in left_out {
            if let Some((place, file)) = self.patch.part(*part)
                && rewritten.contains(file.path)
            {
                self.rewritten.insert(place.file);
            }
        }
    }
}
