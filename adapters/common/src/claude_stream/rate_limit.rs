//! How much of its rate windows an account has used.

use std::collections::BTreeMap;

use ralph_orchestrator_contract::Event;
use serde::Deserialize;
use serde_json::Value;

use crate::claude_stream::lenient;
use crate::rate_window::rate_window;

/// So many windows of one event are read.
const MAX_WINDOWS: usize = 16;

/// `rate_limit_event`: only accounts with a subscription get it.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct RateLimit {
    /// `allowed`, `allowed_warning` or `rejected`.
    #[serde(deserialize_with = "lenient::or_default")]
    pub status: Option<String>,
    /// When the limit is lifted, in seconds since the Unix epoch.
    #[serde(deserialize_with = "lenient::count")]
    pub resets_at: Option<u64>,
    /// Which limit, such as `five_hour`.
    #[serde(deserialize_with = "lenient::or_default")]
    pub rate_limit_type: Option<String>,
    /// Requests are still served, at extra cost.
    #[serde(deserialize_with = "lenient::or_default")]
    pub is_using_overage: bool,
    /// How much of it is used, from 0 to 1; older versions say so only where it is nearly reached.
    #[serde(deserialize_with = "lenient::or_default")]
    pub utilization: Option<f64>,
    /// The same of each window, by its name.
    #[serde(deserialize_with = "lenient::map")]
    pub unified_windows: BTreeMap<String, UnifiedWindow>,
}

/// A window of a [`RateLimit`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct UnifiedWindow {
    /// How much of it is used, from 0 to 1.
    #[serde(deserialize_with = "lenient::or_default")]
    pub utilization: Option<f64>,
    /// When it is reset, in seconds since the Unix epoch.
    #[serde(deserialize_with = "lenient::count")]
    pub resets_at: Option<u64>,
}

impl RateLimit {
    /// Further requests are refused.
    #[must_use]
    pub fn rejects(&self) -> bool {
        self.is_used_up() && !self.is_using_overage
    }

    fn is_used_up(&self) -> bool {
        self.status.as_deref() == Some("rejected")
    }

    /// Reads a `rate_limit_info`; never fails.
    #[must_use]
    pub fn from_value(info: Value) -> Self {
        serde_json::from_value(info).unwrap_or_default()
    }

    /// Returns an event for each window of which it says how much is used.
    #[must_use]
    pub fn windows(&self) -> Vec<Event> {
        let mut windows = self.unified_windows.clone();
        if let Some(name) = &self.rate_limit_type {
            let window = windows.entry(name.clone()).or_default();
            let own = self.utilization.or(self.is_used_up().then_some(1.0));
            *window = UnifiedWindow {
                utilization: window.utilization.or(own),
                resets_at: window.resets_at.or(self.resets_at),
            };
        }
        let events = windows.into_iter().filter_map(|(name, window)| {
            Some(rate_window(window_name(&name), window.utilization?, window.resets_at))
        });
        events.take(MAX_WINDOWS).collect()
    }
}

/// Returns the name of a window: one of seven days is a week.
fn window_name(name: &str) -> String {
    match name.strip_prefix("seven_day") {
        Some(model) => format!("weekly{model}"),
        None => name.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rate_window::describe;
    use serde_json::json;

    #[test]
    fn claude_reports_one_window_or_all_of_them() {
        for (info, expected) in [
            (
                json!({"status": "allowed", "resetsAt": 1_788_465_600, "rateLimitType": "five_hour",
                    "unifiedWindows": {"five_hour": {"utilization": 0.24, "resetsAt": 1_788_465_600},
                    "seven_day": {"utilization": 1, "resetsAt": 1_789_005_600}}}),
                vec!["five_hour 0.24 Some(1788465600000)", "weekly 1.00 Some(1789005600000)"],
            ),
            (
                json!({"status": "allowed_warning", "resetsAt": 9, "rateLimitType": "seven_day_opus", "utilization": 0.8}),
                vec!["weekly_opus 0.80 Some(9000)"],
            ),
            // Of the window that is named last the event itself may say more.
            (
                json!({"status": "rejected", "resetsAt": 9, "rateLimitType": "five_hour", "unifiedWindows": {"seven_day": {"utilization": 0.5}}}),
                vec!["five_hour 1.00 Some(9000)", "weekly 0.50 None"],
            ),
            (json!({"status": "allowed", "resetsAt": 9, "rateLimitType": "five_hour"}), vec![]),
            (json!({"status": "allowed_warning", "utilization": 0.9}), vec![]),
            (
                json!({"rateLimitType": "five_hour", "utilization": "NaN", "resetsAt": -4,
                    "unifiedWindows": {"five_hour": 7, "seven_day": {"utilization": 1e9, "resetsAt": "later"}}}),
                vec!["weekly 1000000000.00 None"],
            ),
            (json!([]), vec![]),
        ] {
            assert_eq!(
                describe(&RateLimit::from_value(info.clone()).windows()),
                expected,
                "{info}"
            );
        }
    }
}
