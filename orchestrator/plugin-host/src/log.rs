//! A plugin's log as text.

use plugin_protocol::{LogLevel, LogLine};

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
