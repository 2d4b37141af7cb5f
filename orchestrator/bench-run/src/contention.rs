//! How much of the time somebody on this machine had to wait for a processor while an agent worked.

use std::fs;
use std::time::{Duration, Instant};

/// Since when the kernel counts the time in which a process waited for a processor, in microseconds.
const PRESSURE: &str = "/proc/pressure/cpu";
/// The ticks that a hypervisor gave to others, among all.
const STAT: &str = "/proc/stat";
/// The share of the time from which a trial is reported.
pub(super) const THRESHOLD: f64 = 0.2;
/// Of less time no share can be told.
const SHORTEST: Duration = Duration::from_millis(500);

/// What the kernel has counted at a time.
pub(super) struct CpuPressure {
    at: Instant,
    waited_us: Option<u64>,
    ticks: Option<Ticks>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Ticks {
    stolen: u64,
    all: u64,
}

impl CpuPressure {
    pub(super) fn now() -> Self {
        let read = |path| fs::read_to_string(path).ok();
        Self {
            at: Instant::now(),
            waited_us: read(PRESSURE).as_deref().and_then(parse_pressure),
            ticks: read(STAT).as_deref().and_then(parse_ticks),
        }
    }

    /// Returns the share of the time since then in which somebody waited, or in which another machine had the
    /// processors: the larger of both. None if the kernel counts neither, or it was too short.
    pub(super) fn measure_since(&self) -> Option<f64> {
        self.share(&Self::now())
    }

    fn share(&self, now: &Self) -> Option<f64> {
        let elapsed = now.at.saturating_duration_since(self.at);
        if elapsed < SHORTEST {
            return None;
        }
        let waited = self.waited_us.zip(now.waited_us).map(|(was, is)| {
            Duration::from_micros(is.saturating_sub(was)).as_secs_f64() / elapsed.as_secs_f64()
        });
        let stolen = self.ticks.zip(now.ticks).and_then(|(was, is)| {
            let ratio = |ticks: u64| Duration::from_secs(ticks).as_secs_f64();
            let all = ratio(is.all.saturating_sub(was.all));
            (all > 0.0).then(|| ratio(is.stolen.saturating_sub(was.stolen)) / all)
        });
        let share = waited.into_iter().chain(stolen).reduce(f64::max)?;
        Some(share.clamp(0.0, 1.0))
    }
}

/// Returns the sum of the line `some`.
fn parse_pressure(text: &str) -> Option<u64> {
    let line = text.lines().find(|line| line.starts_with("some "))?;
    line.split_whitespace().find_map(|word| word.strip_prefix("total="))?.parse().ok()
}

/// Returns the stolen and all ticks of all processors.
fn parse_ticks(text: &str) -> Option<Ticks> {
    let line = text.lines().find_map(|line| line.strip_prefix("cpu "))?;
    let ticks: Option<Vec<u64>> = line.split_whitespace().map(|word| word.parse().ok()).collect();
    let ticks = ticks?;
    // What guests have is part of what users have.
    let all = ticks.iter().take(8).sum();
    Some(Ticks { stolen: *ticks.get(7)?, all })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(
        start: Instant,
        ms: u64,
        waited_us: Option<u64>,
        ticks: Option<(u64, u64)>,
    ) -> CpuPressure {
        let ticks = ticks.map(|(stolen, all)| Ticks { stolen, all });
        CpuPressure { at: start + Duration::from_millis(ms), waited_us, ticks }
    }

    #[test]
    fn the_larger_of_waiting_and_stolen_time_counts() {
        let start = Instant::now();
        let begin = |waited, ticks| at(start, 0, waited, ticks);
        let end = |waited, ticks| at(start, 10_000, waited, ticks);
        let share = |from: CpuPressure, to: CpuPressure| from.share(&to);
        assert_eq!(share(begin(Some(5), None), end(Some(2_500_005), None)), Some(0.25));
        let stolen = share(begin(Some(0), Some((10, 100))), end(Some(1), Some((60, 200))));
        assert_eq!(stolen, Some(0.5));
        assert_eq!(share(begin(None, None), end(None, None)), None);
        // Counters that began anew say nothing, and no share is above 1.
        assert_eq!(share(begin(Some(9), None), end(Some(1), None)), Some(0.0));
        assert_eq!(share(begin(Some(0), None), end(Some(u64::MAX), None)), Some(1.0));
        assert_eq!(begin(Some(0), None).share(&at(start, 499, Some(9), None)), None);
    }

    #[test]
    fn what_the_kernel_writes_is_read() {
        let text =
            "some avg10=24.49 avg60=19.85 avg300=18.31 total=1075942336\nfull avg10=0.00 total=7\n";
        assert_eq!(parse_pressure(text), Some(1_075_942_336));
        assert_eq!(parse_pressure("full total=7\n"), None);
        let stat = "cpu  1 2 3 4 5 6 7 8 100 200\ncpu0 1 1 1 1 1 1 1 1 1 1\n";
        assert_eq!(parse_ticks(stat), Some(Ticks { stolen: 8, all: 36 }));
        assert_eq!(parse_ticks("cpu 1 2\n"), None);
    }
}
