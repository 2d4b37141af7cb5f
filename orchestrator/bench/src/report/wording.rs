//! Comparisons in words.

use ralph_orchestrator_text::escape_line;

use crate::report::figures::{
    format_interval, format_level, format_number, format_p_value, format_things,
};
use crate::statistics::paired::{PairedTest, compute_sign_p};
use crate::summary::Comparison;

/// Returns a comparison as a sentence without a full stop, such as "b is 4.2 points worse than a (95 % interval −8.1
/// to −0.3 by Student's t, p = 0.035, paired over 40 tasks; better on 3, worse on 11; paired t)". Where interval and
/// test disagree it says so. A point is a hundredth of the full reward. `level` is the confidence level of the interval, such as 0.95.
#[must_use]
pub fn describe_comparison(comparison: &Comparison, level: f64) -> String {
    let candidate = escape_line(&comparison.candidate.to_string());
    let baseline = escape_line(&comparison.baseline.to_string());
    let Some(difference) = &comparison.difference else {
        return format!("{candidate} and {baseline} have no task in common with results of both");
    };
    let points = format_number(difference.value.abs() * 100.0, 1);
    let finding = match difference.value {
        value if value < 0.0 => format!("{points} points worse than {baseline}"),
        value if value > 0.0 => format!("{points} points better than {baseline}"),
        _ => format!("level with {baseline}"),
    };
    let mut facts = Vec::new();
    let method = if difference.standard_error.is_some_and(|error| error > 0.0) {
        "Student's t"
    } else {
        "Wilson"
    };
    facts.extend(
        format_interval(difference)
            .map(|interval| format!("{} interval {interval} by {method}", format_level(level))),
    );
    facts.extend(comparison.p_value.map(format_p_value));
    facts.push(format!("paired over {}", format_things(comparison.tasks, "task")));
    let counts = format!("better on {}, worse on {}", comparison.better, comparison.worse);
    let test = match comparison.p_value {
        Some(_) => format!("; {}", escape_line(&comparison.test)),
        None => String::new(),
    };
    let holm = comparison
        .holm_p_value
        .map(|p| format!("; after Holm for all comparisons here {}", format_p_value(p)));
    let few = describe_few(comparison, level);
    let disagreement = if disagree(comparison, level) {
        "; interval and p have different methods and disagree about chance: p decides"
    } else {
        ""
    };
    let holm = holm.unwrap_or_default();
    let facts = facts.join(", ");
    format!("{candidate} is {finding} ({facts}; {counts}{test}{holm}{few}{disagreement})")
}

/// Says that a test of signs cannot find anything, however they are divided: at 5 % with fewer than six tasks that differ.
fn describe_few(comparison: &Comparison, level: f64) -> String {
    let differing = comparison.better.saturating_add(comparison.worse);
    let best = compute_sign_p(0, differing);
    let is_of_signs = comparison.test != PairedTest::PairedT.name();
    if comparison.p_value.is_none() || !is_of_signs || best < 1.0 - level {
        return String::new();
    }
    let tasks = format_things(differing, "discordant task");
    let best = format_p_value(best);
    format!("; too few for a result: with {tasks} even all on one side have {best}")
}

/// Whether the interval leaves zero out and the test finds chance enough, or the other way round.
fn disagree(comparison: &Comparison, level: f64) -> bool {
    let ends = comparison.difference.and_then(|found| found.low.zip(found.high));
    ends.zip(comparison.p_value).is_some_and(|((low, high), p)| {
        let is_without_zero = low > 0.0 || high < 0.0;
        is_without_zero != (p < 1.0 - level)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::samples::{self, estimate};

    fn comparison(value: f64) -> Comparison {
        Comparison { difference: Some(estimate(value, -0.081, -0.003)), ..samples::comparison() }
    }

    #[test]
    fn says_direction_interval_probability_and_pairs() {
        assert_eq!(
            describe_comparison(&comparison(-0.042), 0.95),
            "candidate is 4.2 points worse than baseline (95 % interval −8.1 to −0.3 by Student's t, p = 0.035, \
             paired over 40 tasks; better on 3, worse on 11; paired t)"
        );
        assert!(describe_comparison(&comparison(0.042), 0.95).contains("4.2 points better than"));
        assert!(describe_comparison(&comparison(0.0), 0.95).contains("is level with baseline"));
    }

    #[test]
    fn leaves_out_what_does_not_exist() {
        let mut one = comparison(-1.0);
        one.p_value = None;
        one.tasks = 1;
        one.difference = Some(crate::statistics::Estimate {
            value: -1.0,
            standard_error: None,
            low: None,
            high: None,
            observations: 1,
        });
        assert_eq!(
            describe_comparison(&one, 0.95),
            "candidate is 100.0 points worse than baseline (paired over 1 task; better on 3, worse on 11)"
        );
        one.difference = None;
        assert_eq!(
            describe_comparison(&one, 0.95),
            "candidate and baseline have no task in common with results of both"
        );
    }

    #[test]
    fn says_where_interval_and_test_disagree() {
        let disagree = |comparison: &Comparison| {
            describe_comparison(comparison, 0.95).contains("disagree about chance: p decides")
        };
        let mut found = comparison(-0.042);
        assert!(!disagree(&found));
        found.p_value = Some(0.062);
        assert!(disagree(&found));
        found.difference = Some(estimate(-0.042, -0.081, 0.003));
        assert!(!disagree(&found));
        found.p_value = Some(0.049);
        assert!(disagree(&found));
        found.p_value = None;
        assert!(!disagree(&found));
        found.difference = Some(crate::statistics::Estimate {
            standard_error: Some(0.0),
            ..estimate(0.0, -0.492, 0.492)
        });
        assert!(describe_comparison(&found, 0.95).contains("−49.2 to 49.2 by Wilson"));
    }

    #[test]
    fn says_where_too_few_tasks_differ_for_any_result() {
        let describe = |test: &str, better, worse| {
            let found = Comparison { test: test.into(), better, worse, ..comparison(-0.1) };
            describe_comparison(&found, 0.95)
        };
        let said = describe("McNemar, exact", 1, 4);
        assert!(
            said.contains("with 5 discordant tasks even all on one side have p = 0.062"),
            "{said}"
        );
        for (test, better) in [("McNemar, exact", 2), ("paired t", 1)] {
            let said = describe(test, better, 4);
            assert!(!said.contains("too few"), "{said}");
        }
    }

    #[test]
    fn says_what_several_comparisons_make_of_it() {
        let found = Comparison { holm_p_value: Some(0.07), ..comparison(-0.1) };
        let said = describe_comparison(&found, 0.95);
        assert!(said.contains("after Holm for all comparisons here p = 0.070"), "{said}");
    }

    #[test]
    fn keeps_names_in_one_line() {
        let mut hostile = comparison(0.5);
        hostile.candidate.agent = "a\n\u{1b}[2J\u{202e}b".into();
        let text = describe_comparison(&hostile, 0.95);
        assert!(text.starts_with("a\\n\\u{1b}[2J\\u{202e}b is "), "{text}");
    }
}
