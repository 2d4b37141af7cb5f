//! Formats points in time where the reader is.

use jiff::Timestamp;
use jiff::tz::TimeZone;

/// A time where the reader is, with its zone.
pub fn local(time: Timestamp) -> String {
    time.to_zoned(TimeZone::system()).strftime("%Y-%m-%d %H:%M:%S %Z").to_string()
}

/// The same to the minute, where the zone is clear.
pub fn local_minute(time: Timestamp) -> String {
    time.to_zoned(TimeZone::system()).strftime("%Y-%m-%d %H:%M").to_string()
}

/// The time of the day where the reader is.
pub fn local_clock(time: Timestamp) -> String {
    time.to_zoned(TimeZone::system()).strftime("%H:%M:%S").to_string()
}

/// A time that is recorded in milliseconds since 1970.
pub fn timestamp(ms: u64) -> Option<Timestamp> {
    i64::try_from(ms).ok().and_then(|ms| Timestamp::from_millisecond(ms).ok())
}
