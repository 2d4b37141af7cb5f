//! Finds when requests are accepted again in a message for people.

use jiff::civil::{Date, Time, Weekday};
use jiff::tz::TimeZone;
use jiff::{SignedDuration, Timestamp, ToSpan as _, Zoned};

/// A time of the day that went by no longer ago than this is today's: said just before it, read just after it.
const BYGONE: SignedDuration = SignedDuration::from_hours(1);

/// What precedes the moment in the messages of agents.
const LEADS: [&str; 2] = ["try again ", "resets "];

/// Returns the moment that a message names, in milliseconds since the Unix epoch: `try again at 2:36 AM`, `try again at
/// Nov 25th, 2026 1:36 AM`, `resets Oct 3 at 9am (Europe/Berlin)`, without a zone in that of `now`; `try again in 1m30.5s`,
/// or `limit reached|1759503600`.
pub(crate) fn rate_limit_reset(message: &str, now: &Zoned) -> Option<u64> {
    epoch(message).or_else(|| named(message, now))
}

fn named(message: &str, now: &Zoned) -> Option<u64> {
    let lower = message.to_lowercase();
    let (at, lead) = LEADS.iter().filter_map(|lead| Some((lower.rfind(lead)?, *lead))).max()?;
    let rest = lower.get(at + lead.len()..)?.lines().next()?.trim_end().trim_end_matches('.');
    let at = match rest.strip_prefix("in ") {
        Some(span) => now.checked_add(duration(span)?).ok()?,
        // What is said is cut to whole minutes.
        None => moment(rest, now)?.checked_add(1.minute()).ok()?,
    };
    u64::try_from(at.timestamp().as_millisecond()).ok()
}

/// Returns the moment of `usage limit reached|1759503600`, as older versions of Claude Code print it.
fn epoch(message: &str) -> Option<u64> {
    let (_, seconds) = message.lines().next()?.rsplit_once("limit reached|")?;
    let at = Timestamp::from_second(seconds.trim().parse().ok()?).ok()?;
    u64::try_from(at.as_millisecond()).ok()
}

/// The parts of a moment that were said.
#[derive(Default)]
struct Parts {
    month: Option<i8>,
    day: Option<i8>,
    year: Option<i16>,
    weekday: Option<Weekday>,
    is_tomorrow: bool,
    time: Option<Time>,
}

/// `at nov 25th, 2026 1:36 am`, `3am (europe/berlin)`, `monday, 9:30am`, `tomorrow at 15:00 utc`.
fn moment(text: &str, now: &Zoned) -> Option<Zoned> {
    let (text, zone) = split_zone(text, now)?;
    let mut parts = Parts::default();
    let words: Vec<&str> = text.split([' ', ',']).filter(|word| !word.is_empty()).collect();
    let mut words = words.into_iter().peekable();
    while let Some(word) = words.next() {
        let half = words.next_if(|next| matches!(*next, "am" | "pm")).unwrap_or_default();
        parts.take(word, half)?;
    }
    parts.after(&now.with_time_zone(zone))
}

/// Splits a zone off, such as `(europe/berlin)` or `utc`. One that is not known makes the moment unknown.
fn split_zone<'a>(text: &'a str, now: &Zoned) -> Option<(&'a str, TimeZone)> {
    if let Some((text, zone)) = text.split_once('(') {
        let name = zone.split(')').next()?.trim();
        return Some((text, TimeZone::get(name).ok()?));
    }
    match text.strip_suffix(" utc").or_else(|| text.strip_suffix(" gmt")) {
        Some(text) => Some((text, TimeZone::UTC)),
        None => Some((text, now.time_zone().clone())),
    }
}

impl Parts {
    /// Reads a word, with the `am` or `pm` that follows it.
    fn take(&mut self, word: &str, half: &str) -> Option<()> {
        let plain = ["st", "nd", "rd", "th"]
            .iter()
            .find_map(|suffix| word.strip_suffix(suffix))
            .filter(|plain| plain.parse::<i8>().is_ok())
            .unwrap_or(word);
        let start = word.get(..3).unwrap_or(word);
        if matches!(word, "at" | "on") {
        } else if word == "tomorrow" {
            self.is_tomorrow = true;
        } else if let Some(time) = time(word, half) {
            self.time = Some(time);
        } else if let Ok(number) = plain.parse::<i16>() {
            match i8::try_from(number) {
                Ok(day) if day <= 31 => self.day = Some(day),
                _ => self.year = Some(number),
            }
        } else if let Some(at) = MONTHS.iter().position(|month| *month == start) {
            self.month = i8::try_from(at + 1).ok();
        } else {
            self.weekday = Some(weekday(start)?);
        }
        Some(())
    }

    /// Returns the next moment that this can be.
    fn after(&self, now: &Zoned) -> Option<Zoned> {
        let time = self.time?;
        let at = |date: Date| date.to_datetime(time).to_zoned(now.time_zone().clone()).ok();
        let bygone = |at: &Zoned| now.timestamp().duration_since(at.timestamp()) > BYGONE;
        let today = now.date();
        if let (Some(month), Some(day)) = (self.month, self.day) {
            let named = Date::new(self.year.unwrap_or(today.year()), month, day).ok()?;
            let named = at(named)?;
            let is_next_years = self.year.is_none() && bygone(&named);
            return if is_next_years { named.checked_add(1.year()).ok() } else { Some(named) };
        }
        let (date, step) = match self.weekday {
            Some(weekday) => (today.yesterday().ok()?.nth_weekday(1, weekday).ok()?, 7),
            None if self.is_tomorrow => (today.tomorrow().ok()?, 1),
            None => (today, 1),
        };
        let named = at(date)?;
        if bygone(&named) { named.checked_add(step.days()).ok() } else { Some(named) }
    }
}

const MONTHS: [&str; 12] =
    ["jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec"];

fn weekday(start: &str) -> Option<Weekday> {
    Some(match start {
        "mon" => Weekday::Monday,
        "tue" => Weekday::Tuesday,
        "wed" => Weekday::Wednesday,
        "thu" => Weekday::Thursday,
        "fri" => Weekday::Friday,
        "sat" => Weekday::Saturday,
        "sun" => Weekday::Sunday,
        _ => return None,
    })
}

/// `3am`, `3:30pm`, `3:30` with `half` after it, `15:00`.
fn time(word: &str, half: &str) -> Option<Time> {
    let (clock, half) = ["am", "pm"]
        .iter()
        .find_map(|half| Some((word.strip_suffix(half)?, *half)))
        .unwrap_or((word, half));
    let (hour, minute) = match clock.split_once(':') {
        Some((hour, minute)) => (hour, minute),
        // A number alone is a day.
        None if half.is_empty() => return None,
        None => (clock, "0"),
    };
    let hour: i8 = hour.parse().ok()?;
    let hour = match half {
        "" => hour,
        _ if !(1..=12).contains(&hour) => return None,
        "pm" => hour % 12 + 12,
        _ => hour % 12,
    };
    Time::new(hour, minute.parse().ok()?, 0, 0).ok()
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
            "h" | "hr" | "hour" | "hours" => 3.6e6,
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
        let at = Timestamp::from_millisecond(ms).unwrap().to_zoned(now.time_zone().clone());
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
            ("You've hit your limit · resets 3am (Europe/Berlin)", Some("2026-11-23 03:01:00")),
            ("You've hit your limit · resets 3am (America/New_York)", Some("2026-11-23 09:01:00")),
            ("You've hit your session limit · resets 11:30pm", Some("2026-11-22 23:31:00")),
            ("5-hour limit reached ∙ resets 12am\n/upgrade to go on", Some("2026-11-23 00:01:00")),
            ("You've hit your weekly limit · resets Nov 25 at 9am", Some("2026-11-25 09:01:00")),
            ("Weekly limit reached ∙ resets Nov 25, 9:15am (UTC)", Some("2026-11-25 10:16:00")),
            ("resets Jan 3 at 9am", Some("2027-01-03 09:01:00")),
            ("resets Monday at 9am", Some("2026-11-23 09:01:00")),
            ("resets Sun 9pm", Some("2026-11-29 21:01:00")),
            ("resets tomorrow at 15:00 UTC", Some("2026-11-23 16:01:00")),
            ("resets in 2h 30m", Some("2026-11-23 01:00:10")),
            ("You've hit your limit · resets 3am (Middle/Earth)", None),
            ("Claude AI usage limit reached|1795388400", Some("2026-11-23 00:00:00")),
            ("Claude AI usage limit reached|soon", None),
            ("resets later", None),
            ("resets at dawn", None),
            ("resets Feb 30 at 9am", None),
            ("resets 13pm", None),
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
