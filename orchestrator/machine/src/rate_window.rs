//! How much of the provider's rate windows is used, as the agent reports it.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// The longest name.
const LONGEST_NAME: usize = 64;
/// A larger share is no measurement; extra usage that is paid for may exceed a window.
const LARGEST_SHARE: f64 = 10.0;

/// A rate window of the agent's provider.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RateWindow {
    /// Its name, such as `five_hour`.
    pub name: String,
    /// The share that is used, in thousandths.
    pub used_per_mille: u64,
    /// When it is reset, in milliseconds since the Unix epoch, if that is known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub resets_at_ms: Option<u64>,
}

impl RateWindow {
    /// Returns the window that an agent reports; `None` if what it says can be no such window.
    #[must_use]
    pub fn from_report(name: &str, used: f64, resets_at_ms: Option<u64>) -> Option<Self> {
        let is_plain = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_';
        let is_name = !name.is_empty() && name.len() <= LONGEST_NAME && name.chars().all(is_plain);
        if !is_name || !(0.0..=LARGEST_SHARE).contains(&used) {
            return None;
        }
        // It is at most 10 000.
        #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)]
        let used_per_mille = (used * 1000.0).round() as u64;
        Some(Self { name: name.to_owned(), used_per_mille, resets_at_ms })
    }

    /// Whether it was reset since it was reported.
    #[must_use]
    pub fn is_over(&self, now_ms: u64) -> bool {
        self.resets_at_ms.is_some_and(|at| at <= now_ms)
    }
}

/// The windows of an agent, by their names.
pub type RateWindows = BTreeMap<String, RateWindow>;
