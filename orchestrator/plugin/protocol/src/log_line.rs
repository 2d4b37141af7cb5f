//! Log messages of a plugin.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

/// The severity of a log message.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
#[serde(rename_all = "snake_case")]
pub enum LogLevel {
    /// Something failed.
    Error,
    /// The user should know.
    Warn,
    /// Worth knowing.
    #[default]
    Info,
    /// For debugging.
    Debug,
    /// Everything.
    Trace,
}

/// A log message of the plugin.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct LogLine {
    /// Its severity.
    #[serde(default)]
    pub level: LogLevel,
    /// The module that logged it.
    #[serde(default)]
    pub target: String,
    /// The message.
    #[serde(default)]
    pub message: String,
    /// Its structured fields.
    #[serde(default)]
    pub fields: Map<String, Value>,
    /// The spans that enclose it, outermost first.
    #[serde(default)]
    pub spans: Vec<Span>,
}

/// A span that encloses a log message.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Span {
    /// Its name.
    pub name: String,
    /// Its structured fields.
    #[serde(default)]
    pub fields: Map<String, Value>,
}
