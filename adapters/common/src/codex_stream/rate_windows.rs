//! How much of its provider's rate windows is used, as Codex records it.

use ralph_orchestrator_contract::Event;
use serde_json::Value;

use crate::rate_window::rate_window;

const MINUTES_OF_DAY: u64 = 24 * 60;
/// The windows of Codex, of which there are two.
const WINDOWS: [&str; 2] = ["primary", "secondary"];
/// The windows that Codex counts without a model's name.
const GENERAL: &str = "codex";

/// Returns an event for each window in `rate_limits` of a recording. What Codex calls primary is the shorter one or, on
/// some plans, the only one: its length says which it is.
#[must_use]
pub fn rate_windows(limits: &Value) -> Vec<Event> {
    let model = limits.get("limit_id").and_then(Value::as_str).filter(|id| *id != GENERAL);
    let windows = WINDOWS.into_iter().filter_map(|key| {
        let window = limits.get(key)?;
        let minutes = window.get("window_minutes").and_then(Value::as_u64)?;
        let used = window.get("used_percent").and_then(Value::as_f64)? / 100.0;
        let resets_at = window.get("resets_at").and_then(Value::as_u64);
        Some(rate_window(with_model(&name_of(minutes), model), used, resets_at))
    });
    windows.collect()
}

/// Returns the name of a window by its length. Providers give or take a minute.
fn name_of(minutes: u64) -> String {
    let is_about = |expected: u64| minutes.abs_diff(expected) <= 1;
    if is_about(5 * 60) {
        "five_hour".to_owned()
    } else if is_about(MINUTES_OF_DAY) {
        "daily".to_owned()
    } else if is_about(7 * MINUTES_OF_DAY) {
        "weekly".to_owned()
    } else if (28 * MINUTES_OF_DAY..=31 * MINUTES_OF_DAY).contains(&minutes) {
        "monthly".to_owned()
    } else {
        format!("{minutes}_minutes")
    }
}

fn with_model(name: &str, model: Option<&str>) -> String {
    let Some(model) = model else { return name.to_owned() };
    let plain = |c: char| if c.is_ascii_alphanumeric() { c.to_ascii_lowercase() } else { '_' };
    format!("{name}_{}", model.chars().map(plain).collect::<String>())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rate_window::describe;
    use serde_json::json;

    #[test]
    fn the_windows_of_codex_have_the_names_of_their_lengths() {
        let window = |percent: Value, minutes: u64, resets: Value| json!({"used_percent": percent, "window_minutes": minutes, "resets_at": resets});
        for (limits, expected) in [
            (
                json!({"limit_id": "codex", "primary": window(json!(91.5), 299, json!(1_800_000_000)),
                    "secondary": window(json!(12), 10_080, json!(null))}),
                vec!["five_hour 0.92 Some(1800000000000)", "weekly 0.12 None"],
            ),
            (
                json!({"primary": window(json!(3), 10_079, json!(5)), "secondary": null}),
                vec!["weekly 0.03 Some(5000)"],
            ),
            (
                json!({"limit_id": "GPT-5 Spark", "primary": window(json!(1), 1440, json!(1))}),
                vec!["daily_gpt_5_spark 0.01 Some(1000)"],
            ),
            (
                json!({"primary": window(json!(1), 43_200, json!(1)), "secondary": window(json!(2), 90, json!(1))}),
                vec!["monthly 0.01 Some(1000)", "90_minutes 0.02 Some(1000)"],
            ),
            // What is no figure is no window; that one is absurd is for the run to see.
            (
                json!({"primary": window(json!("NaN"), 300, json!(1)), "secondary": window(json!(-1), 300, json!(-5))}),
                vec!["five_hour -0.01 None"],
            ),
            (
                json!({"primary": window(json!(1e11), 300, json!(u64::MAX))}),
                vec!["five_hour 1000000000.00 None"],
            ),
            (json!({"primary": [], "secondary": 5}), vec![]),
            (json!(null), vec![]),
        ] {
            assert_eq!(describe(&rate_windows(&limits)), expected, "{limits}");
        }
    }
}
