//! A plugin's log as text.

use plugin_protocol::{LogLevel, LogLine};
use tracing::level_filters::LevelFilter;
use tracing::{debug, error, info, trace, warn};

/// What the host's own log wants to hear of a plugin.
pub(crate) fn wanted() -> LogLevel {
    match LevelFilter::current() {
        LevelFilter::TRACE => LogLevel::Trace,
        LevelFilter::DEBUG => LogLevel::Debug,
        _ => LogLevel::Info,
    }
}

/// Puts the message into the host's own log.
pub(crate) fn trace(line: &LogLine) {
    let said = text(line);
    let origin = line.target.as_str();
    match line.level {
        LogLevel::Error => error!(target: "plugin", origin, "{said}"),
        LogLevel::Warn => warn!(target: "plugin", origin, "{said}"),
        LogLevel::Info => info!(target: "plugin", origin, "{said}"),
        LogLevel::Debug => debug!(target: "plugin", origin, "{said}"),
        LogLevel::Trace => trace!(target: "plugin", origin, "{said}"),
    }
}

/// The message as one line.
pub(crate) fn text(line: &LogLine) -> String {
    let level = match line.level {
        LogLevel::Error => "ERROR",
        LogLevel::Warn => "WARN",
        LogLevel::Info => "INFO",
        LogLevel::Debug => "DEBUG",
        LogLevel::Trace => "TRACE",
    };
    let mut text = level.to_owned();
    for span in &line.spans {
        text.push_str(&format!(" {}{}:", span.name, fields(&span.fields, ("{", "}"))));
    }
    if !line.target.is_empty() {
        text.push_str(&format!(" {}:", line.target));
    }
    format!("{text} {}{}", line.message, fields(&line.fields, (" ", "")))
}

fn fields(
    fields: &serde_json::Map<String, serde_json::Value>,
    (open, close): (&str, &str),
) -> String {
    if fields.is_empty() {
        return String::new();
    }
    let said: Vec<String> = fields.iter().map(|(key, value)| format!("{key}={value}")).collect();
    format!("{open}{}{close}", said.join(" "))
}
