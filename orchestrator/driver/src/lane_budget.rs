//! What a run in a lane may use, so that all of them together use no more than there is.
//!
//! A run that begins is given a share of what is neither used nor given to another. One whose share is used up goes on with a share
//! of what is left then.

use ralph_orchestrator_config::Limits;
use ralph_orchestrator_machine::{Limit, LimitValue, RunUsage};

use crate::driver::{BacklogDriver, read_state};
use crate::error::DriverError;
use crate::executor::{Executor, RunReport};
use crate::ledger::ItemRun;

/// What a run that goes on may use.
#[derive(Clone, Debug)]
pub(crate) struct Reservation {
    pub(crate) item: String,
    pub(crate) limits: Limits,
}

/// What a run may use.
#[derive(Clone, Debug, Default)]
pub(crate) struct Grant {
    /// Its limits.
    pub(crate) limits: Limits,
    /// What they would be if no other run went on.
    alone: Limits,
}

impl Grant {
    /// Returns whether the run ended because only its share is used up.
    pub(crate) fn is_share_used(&self, report: &RunReport) -> bool {
        let Some(limit) = report.reason.budget() else { return false };
        // A limit that a person set for this run is that person's.
        if report.state.controls.limits.origin(limit).is_some() {
            return false;
        }
        match (amount(limit, &self.limits), amount(limit, &self.alone)) {
            (Some(share), Some(alone)) => share < alone,
            (Some(_), None) => true,
            (None, _) => false,
        }
    }
}

fn amount(limit: Limit, limits: &Limits) -> Option<u64> {
    limit.configured(limits).map(LimitValue::amount)
}

/// Returns what one of `lanes` that are free may use of each limit, of which the others have used and been given so much: all that it
/// could use if nothing were given to others, and its share. Nothing if a limit leaves it nothing, or, `beside` others that go on, less
/// than an iteration of those that have ended used.
fn divide(
    limits: &Limits,
    others: impl Fn(Limit) -> (u64, u64),
    own: RunUsage,
    (lanes, beside): (usize, Option<&RunUsage>),
) -> Option<(Limits, Limits)> {
    let (mut alone, mut share) = (limits.clone(), limits.clone());
    for (limit, row) in Limit::budgets() {
        let Some(max) = amount(limit, limits) else { continue };
        let (used, given) = others(limit);
        let (left, own) = (max.saturating_sub(used), row.used(&own));
        let unused = left.saturating_sub(given).saturating_sub(own);
        let usual = |ended: &RunUsage| row.used(ended).checked_div(ended.iterations);
        if unused == 0 || beside.and_then(usual).is_some_and(|usual| unused < usual) {
            return None;
        }
        let lanes = u64::try_from(lanes).unwrap_or(u64::MAX).max(1);
        row.configure(&mut alone, Some(left));
        row.configure(&mut share, Some(own.saturating_add(unused.div_ceil(lanes))));
    }
    Some((alone, share))
}

impl<E: Executor> BacklogDriver<E> {
    /// Returns what the next run of an item may use, where `free` lanes are left beside the runs that go on.
    pub(crate) fn grant(
        &self,
        item: &str,
        resume: Option<&ItemRun>,
        (reserved, free, has_others): (&[Reservation], usize, bool),
    ) -> Result<Option<Grant>, DriverError> {
        let state = match resume {
            Some(entry) => read_state(&entry.layout(&self.setup.layout), &entry.run)?,
            None => None,
        };
        let own = state.as_ref().map(RunUsage::from_state).unwrap_or_default();
        let run = resume.map(|entry| entry.run.as_str());
        let ledger = self.work.state().ledger.clone();
        let is_going = |entry: &ItemRun| {
            let latest = ledger.latest_of(&entry.item).map(|latest| latest.run.as_str());
            let is_latest = latest == Some(entry.run.as_str()) && entry.reason.is_none();
            is_latest && reserved.iter().any(|going| going.item == entry.item)
        };
        let counted = ledger.runs.iter();
        let ended = counted
            .filter(|entry| !self.begins && Some(entry.run.as_str()) != run && !is_going(entry));
        let ended = ended.fold(RunUsage::default(), |sum, entry| sum.plus(entry.usage));
        let others = |limit: Limit| {
            let row = limit.row().budget.as_ref();
            let given = reserved.iter().filter_map(|going| amount(limit, &going.limits));
            (row.map_or(0, |row| row.used(&ended)), given.fold(0, u64::saturating_add))
        };
        let limits = &self.setup.limits;
        let beside = (!reserved.is_empty()).then_some(&ended);
        let divided = divide(limits, others, own, (free, beside));
        let Some((alone, share)) = divided else { return Ok(None) };
        let used = match self.begins {
            true => RunUsage::default(),
            false => ledger.used_since_aside(item, run),
        };
        let bound = |left: &Limits| self.setup.item_limits.bound(left, limits, used, has_others);
        Ok(Some(Grant { limits: bound(&share), alone: bound(&alone) }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_together_are_what_is_left() {
        let limits = Limits { max_iterations: Some(10), ..Limits::default() };
        for (used, lanes, expected) in [
            (0, 3, vec![4, 3, 3]),
            (8, 3, vec![1, 1]),
            (9, 2, vec![1]),
            (10, 2, vec![]),
            (0, 1, vec![10]),
        ] {
            let (mut given, mut shares) = (0, Vec::new());
            for free in (1..=lanes).rev() {
                let others =
                    |limit| if limit == Limit::Iterations { (used, given) } else { (0, 0) };
                let Some((_, share)) = divide(&limits, others, RunUsage::default(), (free, None))
                else {
                    break;
                };
                let share = share.max_iterations.unwrap();
                shares.push(share);
                given += share;
            }
            assert_eq!(shares, expected, "{used} used, {lanes} lanes");
            assert!(used + given <= 10);
        }
    }

    #[test]
    fn a_run_that_goes_on_keeps_what_it_has_used() {
        let limits = Limits { max_iterations: Some(10), ..Limits::default() };
        let own = RunUsage { iterations: 4, ..RunUsage::default() };
        let others = |limit| if limit == Limit::Iterations { (1, 1) } else { (0, 0) };
        let (alone, share) = divide(&limits, others, own, (2, None)).unwrap();
        assert_eq!((alone.max_iterations, share.max_iterations), (Some(9), Some(6)));
    }

    #[test]
    fn beside_others_nothing_begins_that_would_use_more_than_is_left() {
        let limits = Limits { max_iterations: Some(10), max_runtime: None, ..Limits::default() };
        let limits = Limits { max_tokens: Some(1000), ..limits };
        let ended = RunUsage {
            iterations: 3,
            tokens: ralph_orchestrator_contract::Tokens { input: 900, ..Default::default() },
            ..RunUsage::default()
        };
        let others = |limit| if limit == Limit::Tokens { (900, 0) } else { (3, 0) };
        let begins = |beside| divide(&limits, others, RunUsage::default(), (2, beside)).is_some();
        assert!(begins(None));
        assert!(!begins(Some(&ended)));
        assert!(begins(Some(&RunUsage::default())));
    }
}
