//! The limits that stop a run: one table, from which everything else that knows of limits reads.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::time::Duration;

use ralph_orchestrator_config::{Limits, MaxWait, duration_text};
use ralph_orchestrator_contract::{CancelReason, Capabilities, Tokens, Usd};
use serde::{Deserialize, Serialize};

use super::stop::StopReason;

/// A limit of `[limits]` that the machine applies.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Limit {
    /// Iterations.
    Iterations,
    /// Wall time.
    Runtime,
    /// Money.
    Cost,
    /// Tokens of all kinds.
    Tokens,
    /// Consecutive failed iterations.
    Failures,
    /// Iterations in a row without progress.
    Stagnant,
    /// Rejections of the same tree and evidence.
    Rejections,
    /// The longest wait for a rate limit.
    Wait,
}

/// The unit in which a limit is counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LimitUnit {
    /// Whole numbers.
    Count,
    /// Milliseconds.
    Duration,
    /// Billionths of a dollar.
    Money,
}

impl LimitUnit {
    /// Returns a value of that amount.
    #[must_use]
    pub const fn to_value(self, amount: u64) -> LimitValue {
        match self {
            Self::Count => LimitValue::Count(amount),
            Self::Duration => LimitValue::Duration(amount),
            Self::Money => LimitValue::Money(Usd::from_nanos(amount)),
        }
    }
}

/// The value of a limit, with its unit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LimitValue {
    /// A number of what is counted.
    Count(u64),
    /// A duration in milliseconds.
    Duration(u64),
    /// An amount of money.
    Money(Usd),
}

impl LimitValue {
    /// Returns the number of what is counted, of milliseconds, or of billionths of a dollar.
    #[must_use]
    pub const fn amount(self) -> u64 {
        match self {
            Self::Count(amount) | Self::Duration(amount) => amount,
            Self::Money(usd) => usd.nanos(),
        }
    }
}

impl fmt::Display for LimitValue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Count(count) => write!(f, "{count}"),
            Self::Duration(ms) => f.write_str(&duration_text(Duration::from_millis(*ms))),
            Self::Money(usd) => write!(f, "{usd}"),
        }
    }
}

/// A row of the table of limits. A limit that is off is `None` everywhere.
#[derive(Clone, Copy, Debug)]
pub struct LimitRow {
    /// Its key in `[limits]`, with the table.
    pub key: &'static str,
    /// In what it is counted.
    pub unit: LimitUnit,
    /// The reason for which a run stops that has used it up.
    pub stop_reason: StopReason,
    /// What a limit on what the run may use counts; `None` for any other limit.
    pub budget: Option<BudgetRow>,
    configured: fn(&Limits) -> Option<u64>,
    value: fn(&RunLimits) -> Option<u64>,
    set: fn(&mut RunLimits, Option<u64>),
}

/// The part of a row about what a run, or all runs of a backlog together, may use. People may change such a limit
/// while the run is under way.
#[derive(Clone, Copy, Debug)]
pub struct BudgetRow {
    /// One word for what is counted.
    pub label: &'static str,
    /// The words after an amount that is used up.
    pub used_up: &'static str,
    /// The option that sets it.
    pub option: &'static str,
    /// The help of that option, without its last words, that there may be no limit.
    pub about: &'static str,
    /// Whether an agent reports what is counted; `None` if the orchestrator counts it.
    pub is_reported: Option<fn(&Capabilities) -> bool>,
    /// Whether nothing used is what is known, instead of what is not reported.
    has_report: fn(&BudgetUse) -> bool,
    /// Why an agent is cancelled whose usage reaches it; `None` if it is checked between iterations, or by a clock.
    pub cancel_reason: Option<CancelReason>,
    used: fn(&RunUsage) -> u64,
    configure: fn(&mut Limits, Option<u64>),
}

impl Limit {
    /// All of them, in the order of the documentation.
    pub const ALL: [Self; 8] = [
        Self::Iterations,
        Self::Runtime,
        Self::Cost,
        Self::Tokens,
        Self::Failures,
        Self::Stagnant,
        Self::Rejections,
        Self::Wait,
    ];

    /// Returns what is known of it.
    #[must_use]
    pub const fn row(self) -> &'static LimitRow {
        match self {
            Self::Iterations => &ITERATIONS,
            Self::Runtime => &RUNTIME,
            Self::Cost => &COST,
            Self::Tokens => &TOKENS,
            Self::Failures => &FAILURES,
            Self::Stagnant => &STAGNANT,
            Self::Rejections => &REJECTIONS,
            Self::Wait => &WAIT,
        }
    }

    /// Returns the limits on what a run may use, each with what it counts.
    pub fn budgets() -> impl Iterator<Item = (Self, &'static BudgetRow)> {
        Self::ALL.into_iter().filter_map(|limit| Some((limit, limit.row().budget.as_ref()?)))
    }

    /// Returns its key in `ralph.toml`.
    #[must_use]
    pub const fn key(self) -> &'static str {
        self.row().key
    }

    /// Returns its key within `[limits]`.
    #[must_use]
    pub fn name(self) -> &'static str {
        self.key().trim_start_matches("limits.")
    }

    /// Returns its name in JSON for programs, where durations are in seconds.
    #[must_use]
    pub fn json_name(self) -> String {
        self.name_with(if self.row().unit == LimitUnit::Duration { "_s" } else { "" })
    }

    /// Returns its name in the journal, where durations are in milliseconds.
    #[must_use]
    pub fn record_name(self) -> String {
        self.name_with(if self.row().unit == LimitUnit::Duration { "_ms" } else { "" })
    }

    fn name_with(self, suffix: &str) -> String {
        format!("{}{suffix}", self.name())
    }

    /// Returns the reason for which a run stops that has used it up.
    #[must_use]
    pub const fn stop_reason(self) -> StopReason {
        self.row().stop_reason
    }

    /// Returns the value of a configuration.
    #[must_use]
    pub fn configured(self, limits: &Limits) -> Option<LimitValue> {
        (self.row().configured)(limits).map(|max| self.row().unit.to_value(max))
    }
}

impl StopReason {
    /// Returns the limit on what the run may use that is used up.
    #[must_use]
    pub fn budget(self) -> Option<Limit> {
        Limit::budgets().map(|(limit, _)| limit).find(|limit| limit.stop_reason() == self)
    }
}

impl BudgetRow {
    /// Returns whether nobody has reported how much is used, of which these are the figures.
    #[must_use]
    pub fn is_unreported(&self, usage: &RunUsage, budget: &BudgetUse) -> bool {
        self.used(usage) == 0 && !(self.has_report)(budget)
    }

    /// Returns how much is used of it, as an amount.
    #[must_use]
    pub fn used(&self, usage: &RunUsage) -> u64 {
        (self.used)(usage)
    }

    /// Sets the value of a configuration.
    pub fn configure(&self, limits: &mut Limits, max: Option<u64>) {
        (self.configure)(limits, max);
    }
}

// The table of limits.

const ITERATIONS: LimitRow = LimitRow {
    key: "limits.max_iterations",
    unit: LimitUnit::Count,
    stop_reason: StopReason::MaxIterations,
    budget: Some(BudgetRow {
        label: "iterations",
        used_up: "iterations are used",
        option: "max-iterations",
        about: "Most iterations of the run",
        is_reported: None,
        has_report: |_| true,
        cancel_reason: None,
        used: |usage| usage.iterations,
        configure: |limits, max| limits.max_iterations = max,
    }),
    configured: |limits| limits.max_iterations,
    value: |limits| limits.max_iterations,
    set: |limits, max| limits.max_iterations = max,
};

const RUNTIME: LimitRow = LimitRow {
    key: "limits.max_runtime",
    unit: LimitUnit::Duration,
    stop_reason: StopReason::MaxRuntime,
    budget: Some(BudgetRow {
        label: "runtime",
        used_up: "are used",
        option: "max-runtime",
        about: "Longest time that the run may take, such as 90m",
        is_reported: None,
        has_report: |_| true,
        cancel_reason: None,
        used: |usage| usage.runtime_ms,
        configure: |limits, max| limits.max_runtime = max.map(Duration::from_millis),
    }),
    configured: |limits| limits.max_runtime.map(millis),
    value: |limits| limits.max_runtime_ms,
    set: |limits, max| limits.max_runtime_ms = max,
};

const COST: LimitRow = LimitRow {
    key: "limits.max_cost_usd",
    unit: LimitUnit::Money,
    stop_reason: StopReason::MaxCost,
    budget: Some(BudgetRow {
        label: "cost",
        used_up: "are spent",
        option: "max-cost",
        about: "Most dollars that the run may cost",
        is_reported: Some(|can| can.cost),
        has_report: |budget| budget.cost_reported,
        cancel_reason: Some(CancelReason::MaxCost),
        used: |usage| usage.cost_usd.nanos(),
        configure: |limits, max| limits.max_cost_usd = max.map(Usd::from_nanos),
    }),
    configured: |limits| limits.max_cost_usd.map(Usd::nanos),
    value: |limits| limits.max_cost_usd.map(Usd::nanos),
    set: |limits, max| limits.max_cost_usd = max.map(Usd::from_nanos),
};

const TOKENS: LimitRow = LimitRow {
    key: "limits.max_tokens",
    unit: LimitUnit::Count,
    stop_reason: StopReason::MaxTokens,
    budget: Some(BudgetRow {
        label: "tokens",
        used_up: "tokens are used",
        option: "max-tokens",
        about: "Most tokens of all kinds that the run may use",
        is_reported: Some(|can| can.tokens),
        has_report: |budget| budget.tokens_used.total() > 0,
        cancel_reason: Some(CancelReason::MaxTokens),
        used: |usage| usage.tokens.total(),
        configure: |limits, max| limits.max_tokens = max,
    }),
    configured: |limits| limits.max_tokens,
    value: |limits| limits.max_tokens,
    set: |limits, max| limits.max_tokens = max,
};

const FAILURES: LimitRow = LimitRow {
    key: "limits.max_failures",
    unit: LimitUnit::Count,
    stop_reason: StopReason::Failures,
    budget: None,
    configured: |limits| limits.max_failures.map(u64::from),
    value: |limits| finite(limits.max_failures),
    set: |limits, max| limits.max_failures = or_endless(max),
};

const STAGNANT: LimitRow = LimitRow {
    key: "limits.max_stagnant",
    unit: LimitUnit::Count,
    // With a claim pending it is thrashing.
    stop_reason: StopReason::Stagnation,
    budget: None,
    configured: |limits| limits.max_stagnant.map(u64::from),
    value: |limits| finite(limits.max_stagnant),
    set: |limits, max| limits.max_stagnant = or_endless(max),
};

const REJECTIONS: LimitRow = LimitRow {
    key: "limits.max_rejections",
    unit: LimitUnit::Count,
    stop_reason: StopReason::Thrashing,
    budget: None,
    configured: |limits| limits.max_rejections.map(u64::from),
    value: |limits| finite(limits.max_rejections),
    set: |limits, max| limits.max_rejections = or_endless(max),
};

const WAIT: LimitRow = LimitRow {
    key: "limits.max_wait",
    unit: LimitUnit::Duration,
    stop_reason: StopReason::NeedsHuman,
    budget: None,
    configured: |limits| Some(millis(limits.max_wait.longest())).filter(|max| *max < u64::MAX),
    value: |limits| Some(limits.max_wait_ms).filter(|max| *max < u64::MAX),
    set: |limits, max| limits.max_wait_ms = max.unwrap_or(u64::MAX),
};

fn finite(max: u32) -> Option<u64> {
    (max < u32::MAX).then_some(max.into())
}

fn or_endless(max: Option<u64>) -> u32 {
    max.and_then(|max| u32::try_from(max).ok()).unwrap_or(u32::MAX)
}

/// Returns the milliseconds of a duration.
#[must_use]
pub fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

/// What was used of the limits on money, tokens and time.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct BudgetUse {
    /// Charged for iterations that are over.
    pub cost_charged: Usd,
    /// The largest charge of an iteration.
    pub largest_charge: Usd,
    /// Some of the cost was computed, not reported.
    pub cost_estimated: bool,
    /// The agent has reported its cost, at least once.
    pub cost_reported: bool,
    /// Tokens of iterations that are over.
    pub tokens_used: Tokens,
    /// Runtime in milliseconds.
    pub runtime_ms: u64,
}

/// What runs have used.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct RunUsage {
    /// Iterations.
    pub iterations: u64,
    /// Wall time, in milliseconds.
    pub runtime_ms: u64,
    /// Cost.
    pub cost_usd: Usd,
    /// Tokens, by class.
    pub tokens: Tokens,
}

impl RunUsage {
    /// Returns both together.
    #[must_use]
    pub fn plus(self, other: Self) -> Self {
        Self {
            iterations: self.iterations.saturating_add(other.iterations),
            runtime_ms: self.runtime_ms.saturating_add(other.runtime_ms),
            cost_usd: self.cost_usd + other.cost_usd,
            tokens: self.tokens + other.tokens,
        }
    }
}

/// The limits as the machine applies them; durations in milliseconds.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RunLimits {
    /// Iterations; `None` is no limit.
    pub max_iterations: Option<u64>,
    /// Wall time of the run, without the time it was down.
    pub max_runtime_ms: Option<u64>,
    /// Money.
    pub max_cost_usd: Option<Usd>,
    /// Tokens of all kinds.
    pub max_tokens: Option<u64>,
    /// Consecutive failed iterations.
    pub max_failures: u32,
    /// Iterations in a row without progress.
    pub max_stagnant: u32,
    /// Rejections of the same tree and evidence.
    pub max_rejections: u32,
    /// The longest waits for the provider in a row.
    pub max_wait_ms: u64,
    /// A wait whose end the provider named has no such bound.
    #[serde(default, skip_serializing_if = "is_false")]
    pub waits_until_reset: bool,
    /// The percentages of rate windows at which no further iteration begins.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub max_window: BTreeMap<String, u8>,
    /// Iterations of the initializer; `None` if there is none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_initializer_attempts: Option<u32>,
    /// The run ends once the initializer's products are there.
    #[serde(default, skip_serializing_if = "is_false")]
    pub ends_initialized: bool,
    /// What an iteration is charged at least if its end is never known, while none has been charged
    /// yet. Zero for an agent that costs nothing.
    pub first_reservation: Usd,
    /// The share of its context, in thousandths, at which an iteration is handed off.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub handoff_per_mille: Option<u64>,
    /// Those that the command line of this start states. A stricter one holds for it instead of what `limits` has set.
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    pub stated: BTreeSet<Limit>,
}

// The signature is serde's.
#[allow(clippy::trivially_copy_pass_by_ref)]
pub(super) const fn is_false(value: &bool) -> bool {
    !*value
}

impl Default for RunLimits {
    fn default() -> Self {
        Self {
            max_iterations: None,
            max_runtime_ms: None,
            max_cost_usd: None,
            max_tokens: None,
            max_failures: u32::MAX,
            max_stagnant: u32::MAX,
            max_rejections: u32::MAX,
            max_wait_ms: u64::MAX,
            waits_until_reset: false,
            max_window: BTreeMap::new(),
            max_initializer_attempts: None,
            ends_initialized: false,
            first_reservation: Usd::ZERO,
            handoff_per_mille: None,
            stated: BTreeSet::new(),
        }
    }
}

impl RunLimits {
    /// Returns the value of a limit; `None` if it is off.
    #[must_use]
    pub fn value(&self, limit: Limit) -> Option<LimitValue> {
        let row = limit.row();
        (row.value)(self).map(|max| row.unit.to_value(max))
    }

    /// Sets a limit; `None` is none.
    pub(super) fn set(&mut self, limit: Limit, max: Option<LimitValue>) {
        (limit.row().set)(self, max.map(LimitValue::amount));
    }

    /// Returns the limits of a configuration, with nothing beside them.
    #[must_use]
    pub fn from_config(configured: &Limits) -> Self {
        let mut limits = Self::default();
        for limit in Limit::ALL {
            limits.set(limit, limit.configured(configured));
        }
        limits.waits_until_reset = configured.max_wait == MaxWait::UntilReset;
        limits.max_window.clone_from(&configured.max_window);
        limits
    }

    /// Returns the share of this rate window, in thousandths, at which no further iteration begins.
    #[must_use]
    pub fn window_per_mille(&self, name: &str) -> Option<u64> {
        self.max_window.get(name).map(|percent| u64::from(*percent) * 10)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ralph_orchestrator_config::keys;

    /// A limit that is added to the configuration alone would never stop a run.
    #[test]
    fn every_limit_of_the_configuration_on_the_whole_run_is_applied() {
        let all = keys();
        let configured = all.iter().filter(|key| key.starts_with("limits.max_"));
        // It makes a run wait, and stops none.
        let configured = configured.filter(|key| *key != "limits.max_window");
        let configured: BTreeSet<&str> = configured.map(String::as_str).collect();
        assert_eq!(BTreeSet::from(Limit::ALL.map(Limit::key)), configured);
    }

    #[test]
    fn each_row_is_about_the_limit_of_its_name() {
        for limit in Limit::ALL {
            let max = Some(limit.row().unit.to_value(7));
            let mut limits = RunLimits::default();
            limits.set(limit, max);
            let set: Vec<Limit> =
                Limit::ALL.into_iter().filter(|other| limits.value(*other).is_some()).collect();
            assert_eq!((limits.value(limit), set), (max, vec![limit]));
            limits.set(limit, None);
            assert_eq!(limits, RunLimits::default());
        }
        for (limit, row) in Limit::budgets() {
            let mut configured = Limits::default();
            for (_, row) in Limit::budgets() {
                row.configure(&mut configured, None);
            }
            row.configure(&mut configured, Some(7));
            let applied = RunLimits::from_config(&configured);
            let set: Vec<Limit> = Limit::budgets()
                .map(|(limit, _)| limit)
                .filter(|other| applied.value(*other).is_some())
                .collect();
            assert_eq!((applied.value(limit).map(LimitValue::amount), set), (Some(7), vec![limit]));
        }
    }

    #[test]
    fn what_is_not_reported_is_told_of_each_limit_by_itself() {
        let unreported = |usage: &RunUsage, budget: &BudgetUse| -> Vec<Limit> {
            let rows = Limit::budgets().filter(|(_, row)| row.is_unreported(usage, budget));
            rows.map(|(limit, _)| limit).collect()
        };
        let (nothing, mut budget) = (RunUsage::default(), BudgetUse::default());
        assert_eq!(unreported(&nothing, &budget), [Limit::Cost, Limit::Tokens]);
        let used = RunUsage { tokens: Tokens { input: 1, ..Tokens::default() }, ..nothing };
        assert_eq!(unreported(&used, &budget), [Limit::Cost]);
        // What costs nothing costs nothing; how many tokens that were is not said.
        budget.cost_reported = true;
        assert_eq!(unreported(&nothing, &budget), [Limit::Tokens]);
    }

    #[test]
    fn a_limit_that_is_off_has_no_value() {
        let off = RunLimits::default();
        assert!(Limit::ALL.into_iter().all(|limit| off.value(limit).is_none()));
        let on = RunLimits { max_failures: 3, max_wait_ms: 5, ..off };
        assert_eq!(on.value(Limit::Failures), Some(LimitValue::Count(3)));
        assert_eq!(on.value(Limit::Wait), Some(LimitValue::Duration(5)));
    }
}
