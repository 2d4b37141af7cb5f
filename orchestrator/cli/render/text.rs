//! Text for a terminal: short, and harmless whatever an agent printed.

use std::fmt::Write as _;
use std::path::Path;
use std::time::Duration;

use jiff::Timestamp;
use jiff::tz::TimeZone;
use ralph_orchestrator_contract::{CancelReason, Capabilities, Tokens, Usd};
use ralph_orchestrator_machine::{
    Changes, Control, ControlOrigin, FileChange, IterationOutcome, LimitChanges, LimitValue,
    Trigger,
};
use serde_json::{Value, json};

/// What a completion rests on if no required validator runs anything.
pub(crate) const EVIDENCE_ONLY: &str = "by evidence files only: written by the agent itself";

/// How many digits of an object's id are shown.
const SHORT_ID: usize = 12;

/// Control characters made visible; tabs and line ends stay. What an agent prints must not move the
/// cursor, change the title, or hide text.
pub(crate) fn escape(text: &str) -> String {
    let mut safe = String::with_capacity(text.len());
    for c in text.chars() {
        let harmless = matches!(c, '\n' | '\t') || !(c.is_control() || is_invisible(c));
        if harmless {
            safe.push(c);
        } else {
            // Writing to a String cannot fail.
            let _ = write!(safe, "\\u{{{:x}}}", u32::from(c));
        }
    }
    safe
}

/// Characters that change how others are shown, and such as are not seen at all.
const fn is_invisible(c: char) -> bool {
    matches!(
        c,
        '\u{ad}'
            | '\u{61c}'
            | '\u{180e}'
            | '\u{200b}'..='\u{200f}'
            | '\u{2028}'..='\u{202e}'
            | '\u{2060}'..='\u{206f}'
            | '\u{feff}'
            | '\u{fff9}'..='\u{fffb}'
            | '\u{e0000}'..='\u{e007f}'
    )
}

/// The text in one line of at most `most` characters.
pub(crate) fn one_line(text: &str, most: usize) -> String {
    let line = escape(text).split_whitespace().collect::<Vec<_>>().join(" ");
    if line.chars().count() <= most {
        return line;
    }
    line.chars().take(most.saturating_sub(1)).chain(['…']).collect()
}

/// The text in lines of at most `width` characters, each after `indent`. A word that is longer has a
/// line of its own.
pub(crate) fn wrap(text: &str, indent: &str, width: usize) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    let mut length = 0;
    for word in text.split_whitespace() {
        let more = word.chars().count();
        match lines.last_mut() {
            Some(line) if length + 1 + more <= width => {
                line.push(' ');
                line.push_str(word);
                length += 1 + more;
            }
            _ => {
                lines.push(format!("{indent}{word}"));
                length = indent.chars().count() + more;
            }
        }
    }
    lines
}

/// Milliseconds for people.
pub(crate) fn duration(ms: u64) -> String {
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
pub(crate) fn clock(time: Duration) -> String {
    let seconds = time.as_secs();
    match (seconds / 3600, seconds / 60 % 60, seconds % 60) {
        (0, m, s) => format!("{m}:{s:02}"),
        (h, m, s) => format!("{h}:{m:02}:{s:02}"),
    }
}

/// A limit in as few columns as possible, such as `4h` or `1h30m`.
pub(crate) fn short_duration(ms: u64) -> String {
    let seconds = ms / 1000;
    let parts = [(seconds / 3600, "h"), (seconds / 60 % 60, "m"), (seconds % 60, "s")];
    let parts = parts.iter().filter(|(count, _)| *count > 0);
    let text: String = parts.map(|(count, unit)| format!("{count}{unit}")).collect();
    if text.is_empty() { format!("{ms}ms") } else { text }
}

/// An amount without cents if there are none.
pub(crate) fn short_usd(amount: Usd) -> String {
    let text = amount.to_string();
    text.strip_suffix(".00").map_or(text.clone(), str::to_owned)
}

/// What something cost, as far as that is known.
pub(crate) fn cost(amount: Usd, is_reported: bool, is_estimated: bool) -> String {
    match (is_reported, is_estimated) {
        (true, true) => format!("about {amount}"),
        (true, false) => amount.to_string(),
        (false, _) if amount == Usd::ZERO => "cost not reported".into(),
        (false, _) => format!("charged {amount}, cost not reported"),
    }
}

/// A number of things, such as `1 iteration` or `3 iterations`.
pub(crate) fn count(number: impl Into<u64>, one: &str) -> String {
    let number = number.into();
    let plural = if number == 1 { "" } else { "s" };
    format!("{number} {one}{plural}")
}

/// A number in as few columns as possible, such as `950`, `12.3k` or `4.5M`; rounded down.
pub(crate) fn short_number(number: u64) -> String {
    match number {
        0..1_000 => number.to_string(),
        1_000..1_000_000 => format!("{}.{}k", number / 1_000, number % 1_000 / 100),
        _ => format!("{}.{}M", number / 1_000_000, number % 1_000_000 / 100_000),
    }
}

/// Tokens by class; those of the provider's cache only where there are any.
pub(crate) fn tokens(tokens: Tokens) -> String {
    let Tokens { input, output, cache_read, cache_write } = tokens;
    let mut text = format!("input {input}, output {output}");
    let cached = [("cache read", cache_read), ("cache write", cache_write)];
    for (class, count) in cached.into_iter().filter(|(_, count)| *count > 0) {
        text.push_str(&format!(", {class} {count}"));
    }
    text
}

/// The same in few columns, such as `in 17.0k, out 31.2k, cache read 5.9M`.
pub(crate) fn short_tokens(tokens: Tokens) -> String {
    let Tokens { input, output, cache_read, cache_write } = tokens;
    let mut text = format!("in {}, out {}", short_number(input), short_number(output));
    let cached = [("cache read", cache_read), ("cache write", cache_write)];
    for (class, count) in cached.into_iter().filter(|(_, count)| *count > 0) {
        text.push_str(&format!(", {class} {}", short_number(count)));
    }
    text
}

/// The length of a list as a number.
pub(crate) fn len<T>(list: &[T]) -> u64 {
    u64::try_from(list.len()).unwrap_or(u64::MAX)
}

/// A time where the reader is, with its zone.
pub(crate) fn local(time: Timestamp) -> String {
    time.to_zoned(TimeZone::system()).strftime("%Y-%m-%d %H:%M:%S %Z").to_string()
}

/// The same to the minute, where the zone is clear.
pub(crate) fn local_minute(time: Timestamp) -> String {
    time.to_zoned(TimeZone::system()).strftime("%Y-%m-%d %H:%M").to_string()
}

/// A path, with `~` for the home directory.
pub(crate) fn shorten_home(path: &Path) -> String {
    let home = etcetera::home_dir().ok();
    match home.as_ref().and_then(|home| path.strip_prefix(home).ok()) {
        Some(rest) => Path::new("~").join(rest).display().to_string(),
        None => path.display().to_string(),
    }
}

/// The time of the day where the reader is.
pub(crate) fn local_clock(time: Timestamp) -> String {
    time.to_zoned(TimeZone::system()).strftime("%H:%M:%S").to_string()
}

/// What was changed, such as `3 files, +41 -7`.
pub(crate) fn changes(changes: &Changes) -> String {
    if changes.is_empty() {
        return "no files".into();
    }
    let lines = if changes.counts_lines() {
        format!(", +{} -{}", changes.lines_added, changes.lines_removed)
    } else {
        String::new()
    };
    format!("{}{lines}", count(changes.files, "file"))
}

/// The files that were changed, at most so many, such as `src/lib.rs +3 -1`.
pub(crate) fn changed_files(changes: &Changes, most: usize) -> Vec<String> {
    let named = changes.paths.iter().take(most);
    let mut files: Vec<String> = named
        .map(|file| {
            let path = one_line(&file.path, 200);
            let lines = file.lines_added.zip(file.lines_removed);
            let lines = lines.filter(|lines| *lines != (0, 0));
            let lines = lines.map(|(added, removed)| format!(" +{added} -{removed}"));
            let what = match file.change {
                FileChange::Added => " (new)",
                FileChange::Removed => " (removed)",
                FileChange::Modified => "",
            };
            format!("{path}{what}{}", lines.unwrap_or_default())
        })
        .collect();
    let more = changes.files.saturating_sub(len(&files));
    files.extend((more > 0).then(|| format!("{more} more")));
    files
}

/// The first digits of an object's id, which tell objects apart.
pub(crate) fn short_object_id(id: &str) -> String {
    id.chars().take(SHORT_ID).collect()
}

/// A time that is recorded in milliseconds since 1970.
pub(crate) fn timestamp(ms: u64) -> Option<Timestamp> {
    i64::try_from(ms).ok().and_then(|ms| Timestamp::from_millisecond(ms).ok())
}

/// What was stored in git, such as `checkpoint 1a2b3c4d, commit 5e6f7a8b`; empty if nothing was.
pub(crate) fn saved(checkpoint: Option<&str>, commit: Option<&str>) -> String {
    let stored = [("checkpoint", checkpoint), ("commit", commit)];
    let stored =
        stored.iter().filter_map(|(what, id)| Some(format!("{what} {}", short_object_id((*id)?))));
    stored.collect::<Vec<_>>().join(", ")
}

/// Bytes in the largest binary unit that leaves a number of at least one.
pub(crate) fn bytes(count: u64) -> String {
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

/// What a person asked of a run, and why it was refused if it was.
pub(crate) fn control(origin: &ControlOrigin, control: &Control, refused: Option<&str>) -> String {
    let user = one_line(&origin.user, 40);
    let what = match control {
        Control::Steer { text } => format!("guidance by {user}: {}", one_line(text, 160)),
        Control::Answer { text } => format!("answer by {user}: {}", one_line(text, 160)),
        Control::Pause { now: false } => format!("pause requested by {user}"),
        Control::Pause { now: true } => format!("immediate pause requested by {user}"),
        Control::Resume => format!("pause ended by {user}"),
        Control::Limits(changes) => format!("limits changed by {user}: {}", limit_changes(changes)),
        Control::Stop => format!("stop requested by {user}"),
    };
    match refused {
        Some(reason) => format!("{what}: refused, {}", one_line(reason, 160)),
        None => what,
    }
}

/// That a running agent was given guidance.
pub(crate) fn describe_guidance(pieces: usize) -> String {
    match pieces {
        1 => "guidance delivered to the running agent".to_owned(),
        many => format!("{many} pieces of guidance delivered to the running agent"),
    }
}

/// The value of a limit, or that there is none.
pub(crate) fn limit_value(value: Option<LimitValue>) -> String {
    match value {
        Some(LimitValue::Count(count)) => count.to_string(),
        Some(LimitValue::Duration(ms)) => duration(ms),
        Some(LimitValue::Money(usd)) => usd.to_string(),
        None => "none".to_owned(),
    }
}

/// The value of a limit for programs: durations in seconds.
pub(crate) fn limit_json(value: LimitValue) -> Value {
    match value {
        LimitValue::Count(count) => json!(count),
        LimitValue::Duration(ms) => json!(Duration::from_millis(ms).as_secs_f64()),
        LimitValue::Money(usd) => json!(usd),
    }
}

fn limit_changes(changes: &LimitChanges) -> String {
    let cleared = changes.clear.then(|| "those of the configuration".to_owned());
    let set = changes.all().map(|(limit, max)| format!("{} {}", limit.name(), limit_value(max)));
    cleared.into_iter().chain(set).collect::<Vec<_>>().join(", ")
}

/// How an iteration ended.
pub(crate) fn outcome(outcome: &IterationOutcome) -> String {
    match outcome {
        IterationOutcome::Succeeded => "ended".into(),
        IterationOutcome::Failed { class, message } => {
            format!("FAILED ({}): {}", class.word(), one_line(message, 300))
        }
        IterationOutcome::Deferred { class, message } => {
            format!("deferred ({}): {}", class.word(), one_line(message, 200))
        }
        IterationOutcome::AgentLimit { message } => {
            format!("stopped by the agent's own limit: {}", one_line(message, 200))
        }
        IterationOutcome::Interrupted => "interrupted (the orchestrator died)".into(),
        IterationOutcome::StoppedEarly { reason: CancelReason::Handoff } => "handed off".into(),
        IterationOutcome::StoppedEarly { reason } => {
            format!("stopped by {}", reason.cause())
        }
    }
}

/// Why an iteration began.
pub(crate) const fn trigger(trigger: Trigger) -> &'static str {
    match trigger {
        Trigger::Initial => "initial",
        Trigger::Continued => "continued",
        Trigger::Rejected => "rejected",
        Trigger::Failed => "failed",
        Trigger::Resumed => "resumed",
    }
}

/// What an agent can do, in words.
pub(crate) fn capability_names(can: &Capabilities) -> Vec<&'static str> {
    let named = [
        (can.free, "free"),
        (can.cost && !can.free, "cost"),
        (can.tokens, "tokens"),
        (can.context, "context"),
        (can.tool_calls, "tool calls"),
        (can.interrupt, "interrupt"),
        (can.handoff, "hand-off"),
        (can.in_session_validation, "in-session validation"),
        (can.resume, "resume"),
    ];
    named.iter().filter(|(has, _)| *has).map(|(_, name)| *name).collect()
}

/// How full a context is, such as `71 %` or `123k tokens`.
pub(crate) fn context_usage(used: u64, window: Option<u64>) -> String {
    match window.filter(|window| *window > 0) {
        Some(window) => format!("{} %", used.saturating_mul(100) / window),
        None if used < 1000 => count(used, "token"),
        None => format!("{}k tokens", used / 1000),
    }
}

/// A tool call in one line: the argument that says most.
pub(crate) fn tool_line(name: &str, input: &Value) -> String {
    let telling =
        ["command", "file_path", "path", "pattern", "query", "url", "description", "prompt"];
    let argument =
        telling.iter().find_map(|key| input.get(key).and_then(Value::as_str)).map_or_else(
            || if input.is_null() { String::new() } else { input.to_string() },
            str::to_owned,
        );
    format!("[{}] {}", one_line(name, 40), one_line(&argument, 160))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_that_steers_a_terminal_gets_through() {
        let hostile = "a\x1b]0;title\x07b\r\x1b[2Jc\u{202e}d\u{9b}31m";
        let safe = escape(hostile);
        assert!(safe.chars().all(|c| !c.is_control()), "{safe}");
        assert_eq!(escape("plain\n\ttext"), "plain\n\ttext");
    }

    #[test]
    fn lines_are_bounded() {
        assert_eq!(one_line("a\nb   c", 10), "a b c");
        assert_eq!(one_line(&"é".repeat(1000), 5).chars().count(), 5);
    }

    #[test]
    fn wrapped_lines_keep_to_their_width() {
        let text = "one two  three four five supercalifragilistic six";
        assert_eq!(
            wrap(text, "  ", 12),
            ["  one two", "  three four", "  five", "  supercalifragilistic", "  six"]
        );
        assert!(wrap(" ", "  ", 12).is_empty());
    }

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

    #[test]
    fn numbers_have_the_right_plural_and_costs_say_what_is_known() {
        assert_eq!(count(1_u64, "file"), "1 file");
        assert_eq!(count(0_u64, "file"), "0 files");
        let dollar = Usd::from_dollars(1.0).unwrap();
        assert_eq!(cost(Usd::ZERO, false, false), "cost not reported");
        assert_eq!(cost(Usd::ZERO, true, false), "$0.00");
        assert_eq!(cost(dollar, true, true), "about $1.00");
        assert_eq!(cost(dollar, false, false), "charged $1.00, cost not reported");
        assert_eq!(short_usd(dollar), "$1");
    }
}
