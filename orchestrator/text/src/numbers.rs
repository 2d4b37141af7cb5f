//! Formats numbers, times that pass and sizes.

use std::time::Duration;

/// Milliseconds for people.
pub fn duration(ms: u64) -> String {
    let (seconds, tenths) = (ms / 1000, ms % 1000 / 100);
    match (seconds / 3600, seconds / 60 % 60, seconds % 60) {
        (0, 0, s) => format!("{s}.{tenths} s"),
        (0, m, 0) => format!("{m} min"),
        (0, m, s) => format!("{m} min {s} s"),
        (h, 0, _) => format!("{h} h"),
        (h, m, _) => format!("{h} h {m} min"),
    }
}

/// A time that passes, such as `12:03` or `1:02:03`.
pub fn clock(time: Duration) -> String {
    let seconds = time.as_secs();
    match (seconds / 3600, seconds / 60 % 60, seconds % 60) {
        (0, m, s) => format!("{m}:{s:02}"),
        (h, m, s) => format!("{h}:{m:02}:{s:02}"),
    }
}

/// A limit in as few columns as possible, such as `4h` or `1h30m`.
pub fn short_duration(ms: u64) -> String {
    let seconds = ms / 1000;
    let parts = [(seconds / 3600, "h"), (seconds / 60 % 60, "m"), (seconds % 60, "s")];
    let parts = parts.iter().filter(|(count, _)| *count > 0);
    let text: String = parts.map(|(count, unit)| format!("{count}{unit}")).collect();
    if text.is_empty() { format!("{ms}ms") } else { text }
}

/// A number of things, such as `1 iteration` or `3 iterations`.
pub fn count(number: impl Into<u64>, one: &str) -> String {
    let number = number.into();
    let plural = if number == 1 { "" } else { "s" };
    format!("{number} {one}{plural}")
}

/// A number in as few columns as possible, such as `950`, `12.3k` or `4.5M`; rounded down.
pub fn short_number(number: u64) -> String {
    match number {
        0..1_000 => number.to_string(),
        1_000..1_000_000 => format!("{}.{}k", number / 1_000, number % 1_000 / 100),
        _ => format!("{}.{}M", number / 1_000_000, number % 1_000_000 / 100_000),
    }
}

/// The length of a list as a number.
pub fn len<T>(list: &[T]) -> u64 {
    u64::try_from(list.len()).unwrap_or(u64::MAX)
}

/// Bytes in the largest binary unit that leaves a number of at least one.
pub fn bytes(count: u64) -> String {
    const UNITS: [&str; 5] = ["bytes", "KiB", "MiB", "GiB", "TiB"];
    let mut tenths = u128::from(count) * 10;
    let mut units = UNITS.iter();
    let mut unit = units.next();
    while tenths >= 10_240
        && let Some(next) = units.next()
    {
        (tenths, unit) = (tenths / 1024, Some(next));
    }
    let unit = unit.copied().unwrap_or_default();
    match (tenths / 10, tenths % 10) {
        (whole, 0) => format!("{whole} {unit}"),
        (whole, tenth) => format!("{whole}.{tenth} {unit}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_read_well() {
        assert_eq!(duration(1_234), "1.2 s");
        assert_eq!(duration(62_000), "1 min 2 s");
        assert_eq!(duration(7_260_000), "2 h 1 min");
        assert_eq!(duration(14_400_000), "4 h");
        assert_eq!(duration(1_800_000), "30 min");
        assert_eq!(clock(Duration::from_millis(7_999)), "0:07");
        assert_eq!(clock(Duration::from_secs(3723)), "1:02:03");
        assert_eq!(short_duration(5_400_000), "1h30m");
        assert_eq!(short_duration(500), "500ms");
    }

    #[test]
    fn bytes_have_the_unit_that_suits_them() {
        let shown = [0, 1023, 1024, 1536, 5 << 20, u64::MAX].map(bytes);
        assert_eq!(shown[..5], ["0 bytes", "1023 bytes", "1 KiB", "1.5 KiB", "5 MiB"]);
        assert!(shown[5].ends_with(" TiB"), "{}", shown[5]);
    }
}
