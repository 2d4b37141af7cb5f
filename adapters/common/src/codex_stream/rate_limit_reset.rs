//! When requests are accepted again, out of a message in words.

use jiff::civil::{DateTime, Time};
use jiff::{SignedDuration, ToSpan as _, Zoned};

/// The moment that a message speaks of, in milliseconds since the Unix epoch: `try again at 2:36 AM`,
/// `try again at Nov 25th, 2026 1:36 AM`, in the zone of `now`, or `try again in 1m30.5s`.
pub(crate) fn rate_limit_reset(message: &str, now: &Zoned) -> Option<u64> {
    let (_, rest) =
        message.rsplit_once("try again ").or_else(|| message.rsplit_once("Try again "))?;
    let rest = rest.trim_end().trim_end_matches('.');
    let at = if let Some(moment) = rest.strip_prefix("at ") {
        // What is said is cut to whole minutes.
        moment_after(moment, now)?.checked_add(1.minute()).ok()?
    } else {
        now.checked_add(duration(rest.strip_prefix("in ")?)?).ok()?
    };
    u64::try_from(at.timestamp().as_millisecond()).ok()
}

fn moment_after(moment: &str, now: &Zoned) -> Option<Zoned> {
    let zone = now.time_zone().clone();
    if let Ok(time) = Time::strptime("%I:%M %p", moment) {
        let today = now.date().to_datetime(time).to_zoned(zone).ok()?;
        // Said just before midnight, perhaps, and read just after it.
        let bygone = now.timestamp().duration_since(today.timestamp());
        return if bygone > SignedDuration::from_hours(12) {
            today.checked_add(1.day()).ok()
        } else {
            Some(today)
        };
    }
    let plain = ["st,", "nd,", "rd,", "th,"]
        .iter()
        .fold(moment.to_owned(), |moment, suffix| moment.replace(suffix, ""));
    DateTime::strptime("%b %d %Y %I:%M %p", plain).ok()?.to_zoned(zone).ok()
}

/// `3 days 4 hours`, `1m30.5s`, `200ms`.
fn duration(text: &str) -> Option<SignedDuration> {
    let mut millis = 0.0_f64;
    let mut rest = text.trim();
    while !rest.is_empty() {
        let end = rest.find(|c: char| !c.is_ascii_digit() && c != '.')?;
        let (number, tail) = rest.split_at_checked(end)?;
        let tail = tail.trim_start();
        let end = tail.find(|c: char| !c.is_ascii_alphabetic()).unwrap_or(tail.len());
        let (unit, tail) = tail.split_at_checked(end)?;
        let factor = match unit {
            "ms" => 1.0,
            "s" | "sec" | "second" | "seconds" => 1e3,
            "m" | "min" | "minute" | "minutes" => 6e4,
            "h" | "hour" | "hours" => 3.6e6,
            "d" | "day" | "days" => 8.64e7,
            _ => return None,
        };
        millis += number.parse::<f64>().ok()? * factor;
        rest = tail.trim_start_matches([' ', ',']);
    }
    SignedDuration::try_from_secs_f64(millis / 1e3).ok().filter(SignedDuration::is_positive)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(message: &str) -> Option<String> {
        let now: Zoned = "2026-11-22T22:30:10+01:00[Europe/Berlin]".parse().unwrap();
        let ms = i64::try_from(rate_limit_reset(message, &now)?).unwrap();
        let at = jiff::Timestamp::from_millisecond(ms).unwrap().to_zoned(now.time_zone().clone());
        Some(at.strftime("%F %T%.f").to_string())
    }

    #[test]
    fn what_real_messages_say() {
        let cases = [
            (
                "You’ve hit your usage limit. Upgrade to Pro (https://x), visit https://y to purchase \
                 more credits or try again at 11:36 PM.",
                Some("2026-11-22 23:37:00"),
            ),
            (
                "Visit https://y or try again at Nov 25th, 2026 1:36 AM.",
                Some("2026-11-25 01:37:00"),
            ),
            ("try again at Dec 1st, 2026 12:05 PM.", Some("2026-12-01 12:06:00")),
            ("Rate limit reached for x. Please try again in 1s.", Some("2026-11-22 22:30:11")),
            ("Please try again in 1m30.5s.", Some("2026-11-22 22:31:40.5")),
            ("Try again in 3 days 4 hours 5 minutes.", Some("2026-11-26 02:35:10")),
            // Tomorrow's, and one that has just gone by.
            ("try again at 12:10 AM", Some("2026-11-23 00:11:00")),
            ("try again at 10:29 PM", Some("2026-11-22 22:30:00")),
            ("purchase more credits or try again later.", None),
            ("try again at noon", None),
            ("try again in a while", None),
            ("try again in 99999999999999999999 days", None),
            ("", None),
        ];
        for (message, expected) in cases {
            assert_eq!(at(message).as_deref(), expected, "{message}");
        }
    }
}
