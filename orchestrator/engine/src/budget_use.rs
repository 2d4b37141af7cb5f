//! How much of the user's budget is used: the ledger of all runs, by day, week and month.

use jiff::civil::Date;
use jiff::{ToSpan as _, Zoned};
use ralph_orchestrator_config::UserBudget;
use ralph_orchestrator_contract::Usd;
use ralph_orchestrator_machine::LimitValue;
use ralph_orchestrator_store::{Layout, Lock, ReservedAmount, Spending, SpendingEntry, UsedAmount};

/// A period of the user's budget, by local time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BudgetPeriod {
    /// From midnight to midnight.
    Day,
    /// From Monday on.
    Week,
    /// A month of the calendar.
    Month,
}

impl BudgetPeriod {
    /// All of them, the shortest first.
    pub const ALL: [Self; 3] = [Self::Day, Self::Week, Self::Month];

    /// Returns its key within a limit of `[budget]`.
    #[must_use]
    pub const fn word(self) -> &'static str {
        match self {
            Self::Day => "day",
            Self::Week => "week",
            Self::Month => "month",
        }
    }

    /// Returns its first day, and the day after its last.
    fn dates(self, today: Date) -> Result<(Date, Date), jiff::Error> {
        let first = match self {
            Self::Day => today,
            Self::Week => {
                today.checked_sub(i64::from(today.weekday().to_monday_zero_offset()).days())?
            }
            Self::Month => today.first_of_month(),
        };
        let next = match self {
            Self::Day => first.checked_add(1.day())?,
            Self::Week => first.checked_add(7.days())?,
            Self::Month => first.checked_add(1.month())?,
        };
        Ok((first, next))
    }

    /// Returns when the period around this moment began and when it ends, in milliseconds since the Unix epoch.
    fn bounds_ms(self, now: &Zoned) -> Result<(u64, u64), jiff::Error> {
        let (first, next) = self.dates(now.date())?;
        let at_midnight = |date: Date| {
            let midnight = date.to_zoned(now.time_zone().clone())?;
            Ok::<_, jiff::Error>(u64::try_from(midnight.timestamp().as_millisecond()).unwrap_or(0))
        };
        Ok((at_midnight(first)?, at_midnight(next)?))
    }
}

/// A limit of `[budget]`, and how much of it is used.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BudgetUsage {
    /// The key, such as `budget.max_cost_usd.day`.
    pub key: String,
    /// The period.
    pub period: BudgetPeriod,
    /// The limit.
    pub max: LimitValue,
    /// What all runs have used in the period.
    pub used: LimitValue,
    /// What is reserved for iterations that go on.
    pub reserved: LimitValue,
    /// Sessions in the period of which nobody reported what is counted: it is not in `used`, or only by an estimate.
    pub unreported: u64,
    /// When the period ends, in milliseconds since the Unix epoch.
    pub ends_ms: u64,
}

impl BudgetUsage {
    /// Returns what is left, without what is reserved.
    #[must_use]
    pub fn left(&self) -> LimitValue {
        let taken = self.used.amount().saturating_add(self.reserved.amount());
        self.with_unit(self.max.amount().saturating_sub(taken))
    }

    /// Whether it is used up.
    #[must_use]
    pub const fn is_reached(&self) -> bool {
        self.used.amount() >= self.max.amount()
    }

    const fn with_unit(&self, amount: u64) -> LimitValue {
        match self.max {
            LimitValue::Count(_) | LimitValue::Duration(_) => LimitValue::Count(amount),
            LimitValue::Money(_) => LimitValue::Money(Usd::from_nanos(amount)),
        }
    }
}

/// What a limit of `[budget]` counts.
struct Counted {
    name: &'static str,
    used: fn(&UsedAmount) -> u64,
    reserved: fn(&ReservedAmount) -> u64,
    unreported: fn(&UsedAmount) -> u64,
}

const COST: Counted = Counted {
    name: "max_cost_usd",
    used: |used| used.cost_usd.nanos(),
    reserved: |reserved| reserved.cost_usd.nanos(),
    unreported: |used| used.unreported_costs,
};

const TOKENS: Counted = Counted {
    name: "max_tokens",
    used: |used| used.tokens,
    reserved: |reserved| reserved.tokens,
    unreported: |used| used.unreported_tokens,
};

/// Returns how much is used of each limit that is set, with what is reserved for other runs than this one.
///
/// What was charged after now, by a clock that was wrong then, counts in the period around now: a clock that is put right
/// takes back nothing.
///
/// # Errors
/// The calendar ends here.
pub fn budget_usage(
    budget: &UserBudget,
    spending: &Spending,
    now: &Zoned,
    but: Option<&str>,
) -> Result<Vec<BudgetUsage>, jiff::Error> {
    let (cost, tokens) = (&budget.max_cost_usd, &budget.max_tokens);
    let money = |max: Option<Usd>| max.map(LimitValue::Money);
    let limits = [
        (&COST, [money(cost.day), money(cost.week), money(cost.month)]),
        (&TOKENS, [tokens.day, tokens.week, tokens.month].map(|max| max.map(LimitValue::Count))),
    ];
    let others: Vec<OpenReservation<'_>> = spending
        .reservations()
        .filter(|(entry, _)| Some(entry.run.as_str()) != but)
        .map(OpenReservation::find)
        .collect();
    let mut usage = Vec::new();
    for (counted, by_period) in limits {
        for (period, max) in BudgetPeriod::ALL.into_iter().zip(by_period) {
            let Some(max) = max else { continue };
            let (began_ms, ends_ms) = period.bounds_ms(now)?;
            let charges = spending.charges().iter().filter(|charge| charge.at_ms >= began_ms);
            let sum = charges.fold(UsedAmount::default(), |sum, charge| sum.plus(charge.used));
            let mut row = BudgetUsage {
                key: format!("budget.{}.{}", counted.name, period.word()),
                period,
                max,
                used: max,
                reserved: max,
                unreported: (counted.unreported)(&sum),
                ends_ms,
            };
            row.used = row.with_unit((counted.used)(&sum));
            let left = max.amount().saturating_sub(row.used.amount());
            let reserved = others.iter().map(|open| open.amount(counted, began_ms, left));
            row.reserved = row.with_unit(reserved.fold(0, u64::saturating_add));
            usage.push(row);
        }
    }
    Ok(usage)
}

/// What is reserved for a run, and whether somebody works on it.
struct OpenReservation<'a> {
    entry: &'a SpendingEntry,
    reserved: ReservedAmount,
    is_alive: bool,
}

impl<'a> OpenReservation<'a> {
    fn find((entry, reserved): (&'a SpendingEntry, ReservedAmount)) -> Self {
        let is_alive = Lock::holder(&Layout::new(entry.state.clone())).is_some();
        Self { entry, reserved, is_alive }
    }

    /// Returns how much of a period that began then, of which so much is left, it takes. An iteration of an agent of which
    /// nothing is known may use all of it. What a killed run had reserved counts when it was, until the run goes on.
    fn amount(&self, counted: &Counted, began_ms: u64, left: u64) -> u64 {
        let reserved = (counted.reserved)(&self.reserved);
        match (self.is_alive, self.reserved.is_known) {
            (true, false) => reserved.max(left),
            (true, true) => reserved,
            (false, _) if self.entry.at_ms >= began_ms => reserved,
            (false, _) => 0,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bounds(period: BudgetPeriod, now: &str) -> [String; 2] {
        let now: Zoned = now.parse().unwrap();
        let (began_ms, ends_ms) = period.bounds_ms(&now).unwrap();
        [began_ms, ends_ms].map(|ms| {
            let at = jiff::Timestamp::from_millisecond(i64::try_from(ms).unwrap()).unwrap();
            at.to_zoned(now.time_zone().clone()).strftime("%F %H:%M").to_string()
        })
    }

    #[test]
    fn periods_are_of_local_time() {
        for (period, now, expected) in [
            (
                BudgetPeriod::Day,
                "2026-11-29T23:30[Europe/Berlin]",
                ["2026-11-29 00:00", "2026-11-30 00:00"],
            ),
            (
                BudgetPeriod::Week,
                "2026-11-29T12:00[Asia/Tokyo]",
                ["2026-11-23 00:00", "2026-11-30 00:00"],
            ),
            (BudgetPeriod::Week, "2026-11-30T00:00[UTC]", ["2026-11-30 00:00", "2026-12-07 00:00"]),
            (
                BudgetPeriod::Month,
                "2026-12-31T12:00[UTC]",
                ["2026-12-01 00:00", "2027-01-01 00:00"],
            ),
            // A day of 23 hours, and one that begins at one o'clock.
            (
                BudgetPeriod::Day,
                "2026-03-29T12:00[Europe/Berlin]",
                ["2026-03-29 00:00", "2026-03-30 00:00"],
            ),
            (
                BudgetPeriod::Day,
                "2018-11-04T12:00[America/Sao_Paulo]",
                ["2018-11-04 01:00", "2018-11-05 00:00"],
            ),
        ] {
            assert_eq!(bounds(period, now), expected, "{now}");
        }
    }

    fn entry(at: &str, sessions: u64) -> SpendingEntry {
        let at: Zoned = at.parse().unwrap();
        let used = UsedAmount {
            cost_usd: Usd::from_dollars(1.0)
                .map(|one| Usd::from_nanos(one.nanos() * sessions))
                .unwrap(),
            sessions,
            unreported_tokens: sessions,
            ..UsedAmount::default()
        };
        SpendingEntry {
            at_ms: u64::try_from(at.timestamp().as_millisecond()).unwrap(),
            run: "r".to_owned(),
            state: "/no/state".into(),
            workspace: "/w".into(),
            agent: "claude".to_owned(),
            model: None,
            used: std::iter::once(("claude".to_owned(), used)).collect(),
            reserved: None,
        }
    }

    /// The dollars that are used in each period on Sunday, 29 November, and those that are reserved.
    fn used(entries: Vec<SpendingEntry>) -> (Vec<String>, Vec<String>) {
        let temp = tempfile::tempdir().unwrap();
        let disk = ralph_orchestrator_store::Disk::default();
        let mut ledger =
            ralph_orchestrator_store::SpendingLedger::open(&disk, temp.path()).unwrap();
        for entry in entries {
            ledger.update(|_| (Some(entry), ())).unwrap();
        }
        let mut budget = UserBudget::default();
        let max = Usd::from_dollars(20.0);
        budget.max_cost_usd.day = max;
        (budget.max_cost_usd.week, budget.max_cost_usd.month) = (max, max);
        let now: Zoned = "2026-11-29T12:00[Europe/Berlin]".parse().unwrap();
        let rows = budget_usage(&budget, ledger.spending(), &now, None).unwrap();
        let amounts = |of: fn(&BudgetUsage) -> LimitValue| {
            rows.iter().map(|row| of(row).to_string()).collect()
        };
        (amounts(|row| row.used), amounts(|row| row.reserved))
    }

    #[test]
    fn each_period_counts_what_was_charged_in_it_or_by_a_clock_that_ran_ahead() {
        let (used, _) = used(vec![
            entry("2026-10-01T12:00[Europe/Berlin]", 0),
            entry("2026-10-31T23:59[Europe/Berlin]", 1),
            entry("2026-11-01T00:00[Europe/Berlin]", 2),
            entry("2026-11-22T23:59[Europe/Berlin]", 3),
            entry("2026-11-23T00:00[Europe/Berlin]", 4),
            entry("2026-11-29T00:00[Europe/Berlin]", 5),
            entry("2036-01-01T00:00[Europe/Berlin]", 6),
        ]);
        assert_eq!(used, ["$2.00", "$3.00", "$5.00"]);
    }

    #[test]
    fn what_a_killed_run_had_reserved_counts_when_it_was() {
        let cost_usd = Usd::from_dollars(3.0).unwrap();
        for is_known in [true, false] {
            let reserved = Some(ReservedAmount { cost_usd, tokens: 0, is_known });
            let entry = entry("2026-11-28T12:00[Europe/Berlin]", 0);
            let (_, reserved) = used(vec![SpendingEntry { reserved, ..entry }]);
            assert_eq!(reserved, ["$0.00", "$3.00", "$3.00"]);
        }
    }
}
