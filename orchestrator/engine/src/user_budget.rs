//! A run within the budget of all runs of its user: what it has used is recorded in their ledger, and an iteration begins
//! only where that has room.

use std::path::PathBuf;

use jiff::Zoned;
use ralph_orchestrator_config::UserBudget;
use ralph_orchestrator_contract::{Budget, Usd};
use ralph_orchestrator_machine::{Effect, Input, LimitValue, StartIteration, State};
use ralph_orchestrator_store::{
    Layout, ReservedAmount, Spending, SpendingEntry, SpendingLedger, UsedAmount,
};

use super::budget_use::{BudgetUsage, budget_usage};
use super::clock;
use super::controls::RunControls;
use super::error::EngineError;
use super::run_context::RunContext;
use super::run_journal::RunJournal;

/// The part of a run in the budget of its user.
pub(super) struct RunBudget {
    ledger: SpendingLedger,
    limits: UserBudget,
    run: String,
    state_dir: PathBuf,
    workspace: PathBuf,
}

/// Whether an iteration may begin.
enum BudgetAnswer {
    /// It may, and use so much.
    Granted(Budget),
    /// Iterations of other runs have reserved what is left.
    Reserved { reason: String },
    /// Nothing is left until then.
    Reached { reason: String, until_ms: u64 },
}

/// Records what was used before an effect is performed. Returns what an iteration may begin with, or what keeps it from
/// beginning.
pub(super) async fn check_budget(
    budget: &mut Option<RunBudget>,
    journal: &mut RunJournal,
    controls: &mut RunControls,
    effect: Effect,
) -> Result<Result<Effect, Vec<Input>>, EngineError> {
    let Some(budget) = budget else { return Ok(Ok(effect)) };
    if matches!(effect, Effect::Start(_)) || journal.state.running.is_some() {
        return Ok(Ok(effect));
    }
    budget.settle(&journal.state)?;
    let start = match effect {
        // The agent of a person works already.
        Effect::Prepare(start) if !journal.state.process.attached => start,
        other => return Ok(Ok(other)),
    };
    match budget.reserve(&journal.state, &start)? {
        BudgetAnswer::Granted(budget) => {
            Ok(Ok(Effect::Prepare(StartIteration { budget, ..start })))
        }
        BudgetAnswer::Reached { reason, until_ms } => {
            Ok(Err(vec![Input::UserBudgetReached { reason, until_ms }]))
        }
        BudgetAnswer::Reserved { reason } => {
            // Until when, nobody knows: the other iterations may use less, and may end at once.
            journal.announce_wait(0, format!("waiting: {reason}"));
            let waited = controls.wait_for_others(journal, || budget.is_reserved()).await?;
            Ok(Err(waited))
        }
    }
}

impl RunBudget {
    /// Returns the part of a run with this state directory.
    pub(super) fn new(ledger: SpendingLedger, context: &RunContext, layout: &Layout) -> Self {
        Self {
            ledger,
            limits: context.config.budget.clone(),
            run: context.run.clone(),
            state_dir: layout.root().to_owned(),
            workspace: context.workspace.clone(),
        }
    }

    /// Records that the run is one of those that count. What a run that is resumed had used before that does not.
    pub(super) fn begin(&mut self, state: &State) -> Result<(), EngineError> {
        if self.ledger.spending().entry(&self.run).is_none() {
            let entry = self.entry(state, None);
            self.ledger.update(|_| (Some(entry), ()))?;
        }
        Ok(())
    }

    /// Records what the run has used, unless the ledger says so. Nothing is reserved then.
    pub(super) fn settle(&mut self, state: &State) -> Result<(), EngineError> {
        let entry = self.entry(state, None);
        let known = self.ledger.spending().entry(&self.run);
        if known.is_none_or(|known| known.used != entry.used || known.reserved.is_some()) {
            self.ledger.update(|_| (Some(entry), ()))?;
        }
        Ok(())
    }

    /// Reserves what an iteration may use, if that is left.
    fn reserve(
        &mut self,
        state: &State,
        start: &StartIteration,
    ) -> Result<BudgetAnswer, EngineError> {
        let now = Zoned::now();
        let reserved = self.estimate(state, start);
        let entry = self.entry(state, Some(reserved));
        let (limits, run) = (&self.limits, self.run.as_str());
        self.ledger.update(|spending| match usage(limits, spending, &now, run) {
            Err(error) => (None, Err(error)),
            Ok(usage) => match find_obstacle(&usage) {
                Some(obstacle) => (None, Ok(obstacle)),
                None => {
                    (Some(entry), Ok(BudgetAnswer::Granted(what_is_left(&usage, start.budget))))
                }
            },
        })?
    }

    /// Returns what may be used beside what all runs have used and reserved, and why nothing if that is so.
    pub(super) fn find_left(
        &mut self,
        of_run: Budget,
    ) -> Result<(Budget, Option<String>), EngineError> {
        let (limits, run) = (&self.limits, self.run.as_str());
        let usage = usage(limits, self.ledger.refresh()?, &Zoned::now(), run)?;
        let refusal = find_obstacle(&usage).and_then(|obstacle| match obstacle {
            BudgetAnswer::Reserved { reason } | BudgetAnswer::Reached { reason, .. } => {
                Some(reason)
            }
            BudgetAnswer::Granted(_) => None,
        });
        Ok((what_is_left(&usage, of_run), refusal))
    }

    /// Whether iterations of other runs have still reserved what is left.
    fn is_reserved(&mut self) -> Result<bool, EngineError> {
        let (limits, run) = (&self.limits, self.run.as_str());
        let usage = usage(limits, self.ledger.refresh()?, &Zoned::now(), run)?;
        Ok(matches!(find_obstacle(&usage), Some(BudgetAnswer::Reserved { .. })))
    }

    /// Returns what an iteration is expected to use: as much as the agent's largest charge, in any run of the user.
    fn estimate(&self, state: &State, start: &StartIteration) -> ReservedAmount {
        let largest = self.ledger.spending().largest_charge(&state.agent.name);
        let most = largest.unwrap_or_default();
        // Another limit may allow less.
        let within = |amount: u64, max: Option<u64>| max.map_or(amount, |max| amount.min(max));
        // That earlier iterations cost nothing says nothing about this one.
        let cost = if most.cost_usd > Usd::ZERO { most.cost_usd } else { start.reservation };
        ReservedAmount {
            cost_usd: Usd::from_nanos(within(cost.nanos(), start.budget.cost.map(Usd::nanos))),
            tokens: within(most.tokens, start.budget.tokens),
            is_known: largest.is_some(),
        }
    }

    fn entry(&self, state: &State, reserved: Option<ReservedAmount>) -> SpendingEntry {
        let used = state.agent.used.iter().map(|(agent, used)| {
            let used = UsedAmount {
                cost_usd: used.cost_usd,
                tokens: used.tokens.total(),
                sessions: used.attempts,
                unreported_costs: used.unreported_costs,
                unreported_tokens: used.unreported_tokens,
            };
            (agent.clone(), used)
        });
        SpendingEntry {
            at_ms: clock::unix_ms(),
            run: self.run.clone(),
            state: self.state_dir.clone(),
            workspace: self.workspace.clone(),
            agent: state.agent.name.clone(),
            model: state.agent.model().map(ToOwned::to_owned),
            used: used.collect(),
            reserved,
        }
    }
}

fn usage(
    limits: &UserBudget,
    spending: &Spending,
    now: &Zoned,
    run: &str,
) -> Result<Vec<BudgetUsage>, EngineError> {
    let failed = |error: jiff::Error| EngineError::Internal(format!("the clock is wrong: {error}"));
    budget_usage(limits, spending, now, Some(run)).map_err(failed)
}

/// Returns what keeps an iteration from beginning: of several limits that are reached the one whose period ends last.
fn find_obstacle(usage: &[BudgetUsage]) -> Option<BudgetAnswer> {
    let reached = usage.iter().filter(|row| row.is_reached()).max_by_key(|row| row.ends_ms);
    if let Some(row) = reached {
        let reason =
            format!("budget: all runs have used {} of {} ({})", row.used, row.max, row.key);
        return Some(BudgetAnswer::Reached { reason, until_ms: row.ends_ms });
    }
    let row = usage.iter().find(|row| row.left().amount() == 0)?;
    let reason = format!(
        "budget: all runs have used {} of {}, and iterations of other runs have reserved the rest ({})",
        row.used, row.max, row.key
    );
    Some(BudgetAnswer::Reserved { reason })
}

/// Returns what an iteration may use that may use so much by the limits of its run.
fn what_is_left(usage: &[BudgetUsage], of_run: Budget) -> Budget {
    usage.iter().map(BudgetUsage::left).fold(of_run, |budget, left| match left {
        LimitValue::Money(left) => {
            Budget { cost: Some(budget.cost.map_or(left, |cost| cost.min(left))), ..budget }
        }
        LimitValue::Count(left) | LimitValue::Duration(left) => {
            Budget { tokens: Some(budget.tokens.map_or(left, |tokens| tokens.min(left))), ..budget }
        }
    })
}
