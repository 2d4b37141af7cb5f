//! The recorded pauses.

use std::time::Duration;

use jiff::Timestamp;
use serde_json::Value;
use tokio::time::{Instant, sleep_until};

/// Longest pause between two lines, in recorded time: more is a clock that was set or a night's rest.
const PAUSE_MAX: f64 = 3600.0;

/// Makes the lines come as they came when they were recorded, faster or slower.
#[derive(Debug)]
pub(crate) struct Pace {
    speed: f64,
    last: Option<(Timestamp, Instant)>,
}

impl Pace {
    /// A `speed` of 0 is without pauses.
    pub(crate) fn new(speed: f64) -> Self {
        Self { speed, last: None }
    }

    /// Waits until it is time for this message. Only some messages carry a time.
    pub(crate) async fn wait(&mut self, message: &Value) {
        let Some(due) = self.due(message, Instant::now()) else { return };
        sleep_until(due).await;
    }

    fn due(&mut self, message: &Value, now: Instant) -> Option<Instant> {
        if self.speed <= 0.0 {
            return None;
        }
        let time: Timestamp = message.get("timestamp")?.as_str()?.parse().ok()?;
        let due = match self.last {
            None => now,
            Some((before, since)) => {
                let recorded = time.duration_since(before).as_secs_f64().clamp(0.0, PAUSE_MAX);
                let pause = Duration::try_from_secs_f64(recorded / self.speed);
                // What was really done in the meantime took its own time.
                since.checked_add(pause.unwrap_or(Duration::MAX)).unwrap_or(now).max(now)
            }
        };
        self.last = Some((time, due));
        Some(due)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn dues(speed: f64, times: &[&str]) -> Vec<Option<f64>> {
        let mut pace = Pace::new(speed);
        let now = Instant::now();
        let due = |time: &&str| pace.due(&json!({"timestamp": time}), now);
        times.iter().map(due).map(|due| Some((due? - now).as_secs_f64())).collect()
    }

    #[test]
    fn pauses_are_as_recorded_divided_by_the_speed() {
        let times =
            ["2026-11-21T20:46:14.755Z", "2026-11-21T20:46:16.755Z", "2026-11-21T20:46:16.855Z"];
        let near = |got: Vec<Option<f64>>, wanted: [f64; 3]| {
            let differs =
                |(got, wanted): (&Option<f64>, &f64)| (got.unwrap() - wanted).abs() > 1e-6;
            assert!(!got.iter().zip(&wanted).any(differs), "{got:?}");
        };
        near(dues(1.0, &times), [0.0, 2.0, 2.1]);
        near(dues(4.0, &times), [0.0, 0.5, 0.525]);
        assert_eq!(dues(0.0, &times), [None, None, None]);
    }

    #[test]
    fn odd_times_do_not_stop_the_show() {
        let back = dues(1.0, &["2026-11-21T20:46:14Z", "2020-01-01T00:00:00Z", "not a time"]);
        assert_eq!(back, [Some(0.0), Some(0.0), None]);
        let far = dues(1.0, &["1970-01-01T00:00:00Z", "2026-11-21T20:46:14Z"]);
        assert_eq!(far, [Some(0.0), Some(PAUSE_MAX)]);
        assert!(
            dues(f64::MIN_POSITIVE, &["1970-01-01T00:00:00Z", "2026-11-21T20:46:14Z"])[1].is_some()
        );
        assert_eq!(Pace::new(1.0).due(&json!({"type": "x"}), Instant::now()), None);
    }
}
