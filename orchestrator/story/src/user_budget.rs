//! The budget of all runs of a user: what is left of it, and what it was used for.

use std::collections::BTreeMap;
use std::path::PathBuf;

use jiff::Zoned;
use jiff::civil::Date;
use ralph_orchestrator_config::UserBudget;
use ralph_orchestrator_engine::{BudgetUsage, budget_usage};
use ralph_orchestrator_machine::LimitValue;
use ralph_orchestrator_store::{Charge, Spending, UsedAmount};
use ralph_orchestrator_text::{count, local_minute, timestamp};
use serde_json::{Value, json};

/// The limits of a budget, and what was used.
#[derive(Clone, Debug)]
pub struct UserBudgetView {
    usage: Vec<BudgetUsage>,
    history: BTreeMap<SpendingGroup, UsedAmount>,
}

/// What charges are added up by. The newest day, the workspaces and the agents are in this order.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct SpendingGroup {
    /// The day, by local time.
    pub day: Date,
    /// Where the agents worked.
    pub workspace: PathBuf,
    /// The agent.
    pub agent: String,
    /// Its model, if that was known.
    pub model: Option<String>,
}

impl UserBudgetView {
    /// Returns what is used of the budget now.
    ///
    /// # Errors
    /// The calendar ends here.
    pub fn new(limits: &UserBudget, spending: &Spending) -> Result<Self, jiff::Error> {
        let now = Zoned::now();
        let usage = budget_usage(limits, spending, &now, None)?;
        let mut history: BTreeMap<SpendingGroup, UsedAmount> = BTreeMap::new();
        for charge in spending.charges() {
            let sum = history.entry(group_of(charge, &now)).or_default();
            *sum = sum.plus(charge.used);
        }
        Ok(Self { usage, history })
    }

    /// Returns what was used, the newest day first.
    pub fn history(&self) -> impl Iterator<Item = (&SpendingGroup, &UsedAmount)> {
        self.history.iter().rev()
    }

    /// Returns each limit in words, such as `$3.10 of $20.00 of this day, $16.90 left until 2026-11-30 00:00`.
    pub fn describe(&self) -> impl Iterator<Item = String> {
        self.usage.iter().map(describe)
    }

    /// Returns what is left of each limit in a few words, such as `all runs: $16.90 left of this day`; `None` without a limit.
    #[must_use]
    pub fn shares(&self) -> Option<String> {
        let of_row = |row: &BudgetUsage| {
            format!("{}{} left of this {}", row.left(), unit(row), row.period.word())
        };
        let rows: Vec<String> = self.usage.iter().map(of_row).collect();
        (!rows.is_empty()).then(|| format!("all runs: {}", rows.join(", ")))
    }

    /// Returns what `budget --json` prints.
    #[must_use]
    pub fn object(&self) -> Value {
        let history = self.history().map(|(group, used)| {
            json!({
                "day": group.day.to_string(),
                "workspace": group.workspace,
                "agent": group.agent,
                "model": group.model,
                "sessions": used.sessions,
                "cost_usd": used.cost_usd,
                "tokens": used.tokens,
                "unreported_costs": used.unreported_costs,
                "unreported_tokens": used.unreported_tokens,
            })
        });
        json!({"limits": self.limit_objects(), "history": history.collect::<Vec<_>>()})
    }

    /// Returns the limits as `status --json` prints them.
    #[must_use]
    pub fn limit_objects(&self) -> Vec<Value> {
        let rows = self.usage.iter().map(|row| {
            json!({
                "key": row.key,
                "max": amount(row.max),
                "used": amount(row.used),
                "reserved": amount(row.reserved),
                "left": amount(row.left()),
                "unreported_sessions": row.unreported,
                "ends_at": timestamp(row.ends_ms),
            })
        });
        rows.collect()
    }
}

fn group_of(charge: &Charge, now: &Zoned) -> SpendingGroup {
    let at = timestamp(charge.at_ms).unwrap_or_else(|| now.timestamp());
    SpendingGroup {
        day: at.to_zoned(now.time_zone().clone()).date(),
        workspace: charge.workspace.clone(),
        agent: charge.agent.clone(),
        model: charge.model.clone(),
    }
}

fn amount(value: LimitValue) -> Value {
    match value {
        LimitValue::Money(usd) => json!(usd),
        LimitValue::Count(count) | LimitValue::Duration(count) => json!(count),
    }
}

/// Returns what follows an amount, which is told for money by the amount itself.
const fn unit(row: &BudgetUsage) -> &'static str {
    if matches!(row.max, LimitValue::Money(_)) { "" } else { " tokens" }
}

fn describe(row: &BudgetUsage) -> String {
    let tokens = unit(row);
    let until = timestamp(row.ends_ms)
        .map_or_else(String::new, |at| format!(" until {}", local_minute(at)));
    let mut text = format!(
        "{} of {}{tokens} of this {} used, {} left{until}",
        row.used,
        row.max,
        row.period.word(),
        row.left()
    );
    if row.reserved.amount() > 0 {
        text = format!("{text}; {} reserved", row.reserved);
    }
    if row.unreported > 0 {
        let what = if tokens.is_empty() { "cost" } else { "tokens" };
        text = format!("{text}; {what} unknown of {}", count(row.unreported, "session"));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use ralph_orchestrator_contract::Usd;
    use ralph_orchestrator_engine::BudgetPeriod;

    #[test]
    fn what_is_unknown_is_said_and_not_called_nothing() {
        let money = |dollars| LimitValue::Money(Usd::from_dollars(dollars).unwrap());
        let mut row = BudgetUsage {
            key: "budget.max_cost_usd.day".to_owned(),
            period: BudgetPeriod::Day,
            max: money(20.0),
            used: money(3.5),
            reserved: money(0.0),
            unreported: 0,
            ends_ms: u64::MAX,
        };
        assert_eq!(describe(&row), "$3.50 of $20.00 of this day used, $16.50 left");
        (row.reserved, row.unreported) = (money(1.0), 2);
        let expected = "$3.50 of $20.00 of this day used, $15.50 left; $1.00 reserved; cost unknown of 2 sessions";
        assert_eq!(describe(&row), expected);
        let tokens = BudgetUsage {
            max: LimitValue::Count(100),
            used: LimitValue::Count(150),
            reserved: LimitValue::Count(0),
            unreported: 1,
            ..row
        };
        let expected = "150 of 100 tokens of this day used, 0 left; tokens unknown of 1 session";
        assert_eq!(describe(&tokens), expected);
    }
}
