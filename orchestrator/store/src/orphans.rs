//! What a killed start left running.

/// What became of the processes that the agents of a killed start left.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct OrphanReport {
    /// Messages for the user.
    pub notes: Vec<String>,
    /// Names of those that could not be ended.
    pub survived: Vec<String>,
}
