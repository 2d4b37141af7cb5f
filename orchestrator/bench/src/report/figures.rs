//! Figures as people read them.

use std::collections::BTreeMap;

use crate::statistics::Estimate;
use crate::trial::{Cause, CheatKind};

/// What stands for a figure that does not exist.
pub(super) const NONE: &str = "–";
/// Beyond this, a figure is shown with an exponent.
const LARGE: f64 = 1e7;

/// Returns a figure with so many digits after the point, and a true minus sign.
pub(super) fn format_number(value: f64, digits: usize) -> String {
    if value.abs() >= LARGE {
        return format!("{value:.digits$e}").replace('-', "−");
    }
    let text = format!("{value:.digits$}");
    // What rounds to zero has no sign.
    match text.strip_prefix('-') {
        Some(rest) if rest.chars().all(|c| matches!(c, '0' | '.')) => rest.to_owned(),
        Some(rest) => format!("−{rest}"),
        None => text,
    }
}

/// Returns a share, such as `42.5 %`.
pub(super) fn format_percent(share: f64) -> String {
    format!("{} %", format_number(share * 100.0, 1))
}

/// Returns a level of confidence, such as `95 %` or `99.9 %`.
pub(super) fn format_level(level: f64) -> String {
    let text = format_number(level * 100.0, 2);
    format!("{} %", text.trim_end_matches('0').trim_end_matches('.'))
}

/// Returns the ends of an interval in percent, such as `31.0 to 54.1`.
pub(super) fn format_interval(estimate: &Estimate) -> Option<String> {
    let (low, high) = (estimate.low?, estimate.high?);
    Some(format!("{} to {}", format_number(low * 100.0, 1), format_number(high * 100.0, 1)))
}

/// Returns an estimate with its interval, such as `42.5 % (31.0 to 54.1)`.
pub(super) fn format_estimate(estimate: &Estimate) -> String {
    let value = format_percent(estimate.value);
    match format_interval(estimate) {
        Some(interval) => format!("{value} ({interval})"),
        None => value,
    }
}

/// Returns an amount of US dollars, with more digits where two would show nothing.
pub(super) fn format_usd(amount: f64) -> String {
    let digits = if amount == 0.0 || amount.abs() >= 0.1 { 2 } else { 4 };
    if amount > 0.0 && amount < 0.0001 {
        return "<$0.0001".into();
    }
    format!("${}", format_number(amount, digits))
}

/// Returns a cost in US dollars, such as `$2.50`, `at least $2.50` where that of `unknown` attempts is not known, `about
/// $2.50` where a part is estimated, and `not known` without an amount.
#[must_use]
pub fn format_cost(amount: Option<f64>, unknown: u64, is_estimated: bool) -> String {
    let Some(amount) = amount else { return "not known".to_owned() };
    let text = format_usd(amount);
    match (unknown, is_estimated) {
        (0, false) => text,
        (0, true) => format!("about {text}"),
        (_, _) => format!("at least {text}"),
    }
}

/// Returns a number with thousands apart, such as `12 345`.
pub(super) fn format_count(count: u64) -> String {
    let digits = count.to_string();
    let mut text = String::with_capacity(digits.len() + digits.len() / 3);
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            text.push(' ');
        }
        text.push(digit);
    }
    text
}

/// Returns how many of something there are, such as `1 trial` or `3 trials`.
pub(super) fn format_things(count: u64, one: &str) -> String {
    let plural = if count == 1 { "" } else { "s" };
    format!("{} {one}{plural}", format_count(count))
}

/// Returns a time in milliseconds, such as `1.5 s` or `2 min 3 s`.
pub(super) fn format_duration(ms: u64) -> String {
    let (seconds, tenths) = (ms / 1000, ms % 1000 / 100);
    match (seconds / 3600, seconds / 60 % 60, seconds % 60) {
        (0, 0, s) => format!("{s}.{tenths} s"),
        (0, m, 0) => format!("{m} min"),
        (0, m, s) => format!("{m} min {s} s"),
        (h, 0, _) => format!("{h} h"),
        (h, m, _) => format!("{h} h {m} min"),
    }
}

/// Returns a probability, such as `p = 0.035` or `p < 0.001`.
pub(super) fn format_p_value(p: f64) -> String {
    if p < 0.001 { "p < 0.001".into() } else { format!("p = {}", format_number(p, 3)) }
}

/// Returns the share of the planned trials that were judged. None without planned trials.
pub(super) fn compute_coverage(judged: u64, planned: u64) -> Option<f64> {
    (planned > 0).then(|| to_float(judged) / to_float(planned))
}

/// Returns a count as a floating point number: exact up to 2^53.
pub(super) const fn to_float(count: u64) -> f64 {
    #[allow(clippy::cast_precision_loss)] // Counts of trials are far below 2^53.
    let value = count as f64;
    value
}

/// Returns the name of a cause, as in the JSON.
pub(super) const fn name_cause(cause: Cause) -> &'static str {
    match cause {
        Cause::Agent => "agent",
        Cause::Budget => "budget",
        Cause::Provider => "provider",
        Cause::Sandbox => "sandbox",
        Cause::Verifier => "verifier",
        Cause::Infrastructure => "infrastructure",
        Cause::Cancelled => "cancelled",
    }
}

/// Returns what an agent did to the verification, in words.
pub(super) const fn name_cheat(kind: CheatKind) -> &'static str {
    match kind {
        CheatKind::WroteReward => "wrote a reward file",
        CheatKind::EditedTests => "edited tests",
        CheatKind::DeletedTests => "deleted tests",
        CheatKind::ReachedForSolution => "reached for the solution",
    }
}

/// Returns faults by cause, such as `provider 3, sandbox 1`, or `none`.
pub(super) fn format_faults(faults: &BTreeMap<Cause, u64>) -> String {
    list(faults.iter().map(|(cause, count)| (name_cause(*cause), *count)))
}

/// Returns findings by kind, such as `edited tests 2`, or `none`.
pub(super) fn format_cheating(cheating: &BTreeMap<CheatKind, u64>) -> String {
    list(cheating.iter().map(|(kind, count)| (name_cheat(*kind), *count)))
}

fn list(counts: impl Iterator<Item = (&'static str, u64)>) -> String {
    let parts: Vec<_> = counts
        .filter(|(_, count)| *count > 0)
        .map(|(name, count)| format!("{name} {}", format_count(count)))
        .collect();
    if parts.is_empty() { "none".into() } else { parts.join(", ") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rounds_without_a_negative_zero() {
        assert_eq!(format_number(-0.04, 1), "0.0");
        assert_eq!(format_number(-8.14, 1), "−8.1");
        assert_eq!(format_number(1e300, 1), "1.0e300");
    }

    #[test]
    fn shows_small_amounts_with_more_digits() {
        assert_eq!(format_usd(0.0), "$0.00");
        assert_eq!(format_usd(0.0123), "$0.0123");
        assert_eq!(format_usd(0.000_001), "<$0.0001");
        assert_eq!(format_usd(1234.5), "$1234.50");
        assert_eq!(format_cost(Some(1.0), 2, true), "at least $1.00");
        assert_eq!(format_cost(Some(1.0), 0, true), "about $1.00");
        assert_eq!(format_cost(Some(0.0), 0, false), "$0.00");
        assert_eq!(format_cost(None, 2, false), "not known");
    }

    #[test]
    fn groups_thousands() {
        assert_eq!(format_count(0), "0");
        assert_eq!(format_count(999), "999");
        assert_eq!(format_count(1_234_567), "1 234 567");
        assert_eq!(format_things(1, "trial"), "1 trial");
    }

    #[test]
    fn shows_levels_without_useless_digits() {
        assert_eq!(format_level(0.95), "95 %");
        assert_eq!(format_level(0.9), "90 %");
        assert_eq!(format_level(0.999), "99.9 %");
        assert_eq!(format_p_value(0.0001), "p < 0.001");
        assert_eq!(format_p_value(0.0352), "p = 0.035");
    }
}
