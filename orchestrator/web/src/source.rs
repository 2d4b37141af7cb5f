//! What the server shows: implemented by the program.

use std::net::SocketAddr;

use serde_json::Value;

/// The two ends of the connection that a request came by.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Connection {
    /// Who sent it.
    pub client: SocketAddr,
    /// Where the server received it.
    pub server: SocketAddr,
}

/// Shows and controls runs. Every function may block.
pub trait RunSource: Send + Sync + 'static {
    /// Returns an array with an object for each run.
    ///
    /// # Errors
    /// The runs cannot be listed.
    fn list(&self) -> Result<Value, SourceError>;

    /// Returns the object of a run.
    ///
    /// # Errors
    /// There is no such run, or it cannot be read.
    fn show(&self, run: &str) -> Result<Value, SourceError>;

    /// Returns an object with the newest iterations of a run before this one, a bounded number of them, or with the
    /// newest of all.
    ///
    /// # Errors
    /// There is no such run, or it cannot be read.
    fn iterations(&self, run: &str, before: Option<u64>) -> Result<Value, SourceError>;

    /// Begins to read the records of a run.
    ///
    /// # Errors
    /// There is no such run.
    fn follow(&self, run: &str, start: StartAt) -> Result<Box<dyn RecordStream>, SourceError>;

    /// Returns what is known of an iteration.
    ///
    /// # Errors
    /// There is no such run or iteration, or this of it was not stored.
    fn iteration(&self, run: &str, number: u64, part: IterationPart) -> Result<Value, SourceError>;

    /// Has a control take effect, and returns a message that says what became of it. The same key again changes
    /// nothing.
    ///
    /// # Errors
    /// There is no such run or control, or it cannot take effect.
    fn control(
        &self,
        run: &str,
        control: &str,
        arguments: &Value,
        key: &str,
        connection: Connection,
    ) -> Result<String, SourceError>;

    /// Returns the runs' metrics in the text format of Prometheus.
    ///
    /// # Errors
    /// The runs cannot be listed.
    fn metrics(&self) -> Result<String, SourceError>;
}

/// The records of a run, one after the other.
pub trait RecordStream: Send {
    /// Gives `each` the records that were added since the last call, the oldest first; none if there are none yet.
    /// May block as long as `each` does.
    ///
    /// # Errors
    /// The run cannot be read; it is not read any further.
    fn read(&mut self, each: &mut dyn FnMut(RecordEvent)) -> Result<(), SourceError>;
}

/// A record of a run.
#[derive(Clone, Debug)]
pub struct RecordEvent {
    /// Its number, from 1.
    pub seq: u64,
    /// The record, as JSON on one line.
    pub record: Value,
    /// What it says, for people; nothing if they do not care about it.
    pub lines: Vec<String>,
}

/// Which records of a run are wanted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StartAt {
    /// Those after this number.
    After(u64),
    /// This many of those that are there, the newest, and all that follow.
    Last(usize),
}

/// What is known of an iteration.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum IterationPart {
    /// What its agent said and did.
    Transcript,
    /// What it changed.
    Diff,
    /// The verdicts on its work, and what they rest on.
    Evidence,
}

/// Something cannot be shown or done.
#[derive(Debug, thiserror::Error)]
pub enum SourceError {
    /// There is nothing by this name.
    #[error("{0}")]
    NotFound(String),
    /// The request is not understood.
    #[error("{0}")]
    Invalid(String),
    /// It cannot take effect.
    #[error("{0}")]
    Refused(String),
    /// Something failed.
    #[error("{0}")]
    Failed(String),
}
