//! How much of the rate windows of an agent's provider is used, as far as the agent reported it.

use jiff::Timestamp;
use ralph_orchestrator_machine::State;
use ralph_orchestrator_text::{local_minute, timestamp};
use serde_json::{Value, json};

/// Returns the windows as `status --json` prints them. One that was reset since it was reported is unknown.
pub fn objects(state: &State) -> Vec<Value> {
    let windows = state.rate_windows(now_ms()).map(|window| {
        json!({
            "name": window.name,
            "used_percent": tenths(window.used_per_mille),
            "max_percent": state.limits.max_window.get(&window.name),
            "resets_at": window.resets_at_ms.and_then(timestamp),
        })
    });
    windows.collect()
}

/// Returns each window in words, such as `five_hour 71 % (waits at 90 %), reset 2026-11-22 13:40`.
pub fn describe(state: &State) -> Vec<String> {
    let windows = state.rate_windows(now_ms()).map(|window| {
        let limit = state.limits.max_window.get(&window.name);
        let limit = limit.map_or_else(String::new, |limit| format!(" (waits at {limit} %)"));
        let reset = window.resets_at_ms.and_then(timestamp).map(local_minute);
        let reset = reset.map_or_else(String::new, |reset| format!(", reset {reset}"));
        format!("{} {} %{limit}{reset}", window.name, window.used_per_mille / 10)
    });
    windows.collect()
}

/// Returns each window in a few words.
pub fn shares(state: &State) -> Vec<String> {
    let windows = state.rate_windows(now_ms());
    windows.map(|window| format!("{} {} %", window.name, window.used_per_mille / 10)).collect()
}

/// Thousandths as a percentage.
fn tenths(per_mille: u64) -> f64 {
    // What is recorded of an agent is at most 10 000.
    f64::from(u32::try_from(per_mille).unwrap_or(u32::MAX)) / 10.0
}

fn now_ms() -> u64 {
    u64::try_from(Timestamp::now().as_millisecond()).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;
    use ralph_orchestrator_machine::{RateWindow, Record};

    #[test]
    fn a_window_that_was_reset_is_not_shown() {
        let ahead = now_ms() + 3_600_000;
        let window = |name: &str, used_per_mille, resets_at_ms| {
            Record::RateWindow(RateWindow { name: name.to_owned(), used_per_mille, resets_at_ms })
        };
        let records = [
            window("five_hour", 915, Some(ahead)),
            window("monthly", 990, Some(5)),
            window("weekly", 120, None),
        ];
        let mut state = State::fold(&records);
        state.limits.max_window.insert("five_hour".to_owned(), 90);
        assert_eq!(shares(&state), ["five_hour 91 %", "weekly 12 %"]);
        let reset = local_minute(timestamp(ahead).unwrap());
        let expected =
            [format!("five_hour 91 % (waits at 90 %), reset {reset}"), "weekly 12 %".to_owned()];
        assert_eq!(describe(&state), expected);
        let objects = objects(&state);
        assert_eq!(objects[0]["used_percent"], 91.5);
        assert_eq!(
            (&objects[1]["resets_at"], &objects[1]["max_percent"]),
            (&Value::Null, &Value::Null)
        );
    }
}
