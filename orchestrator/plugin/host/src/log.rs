//! Forwards and formats log messages of plugins.

use ralph_orchestrator_plugin_protocol::{LogLevel, LogLine};
use tracing::level_filters::LevelFilter;
use tracing::{debug, error, info, trace, warn};

/// Returns the least severe level that the host's own log wants.
pub(crate) fn wanted_level() -> LogLevel {
    match LevelFilter::current() {
        LevelFilter::TRACE => LogLevel::Trace,
        LevelFilter::DEBUG => LogLevel::Debug,
        _ => LogLevel::Info,
    }
}

/// Logs the message in the host's own log.
pub(crate) fn trace(line: &LogLine) {
    let message = text(line);
    let origin = line.target.as_str();
    match line.level {
        LogLevel::Error => error!(target: "plugin", origin, "{message}"),
        LogLevel::Warn => warn!(target: "plugin", origin, "{message}"),
        LogLevel::Info => info!(target: "plugin", origin, "{message}"),
        LogLevel::Debug => debug!(target: "plugin", origin, "{message}"),
        LogLevel::Trace => trace!(target: "plugin", origin, "{message}"),
    }
}

/// Formats the message as one line.
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
    let pairs: Vec<String> = fields.iter().map(|(key, value)| format!("{key}={value}")).collect();
    format!("{open}{}{close}", pairs.join(" "))
}
