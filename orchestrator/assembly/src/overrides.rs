//! Values of the configuration that come from the command line.

use ralph_orchestrator_config::Flag;

/// Values of the configuration that come from the command line.
#[derive(Clone, Debug, Default)]
pub struct Overrides {
    /// Keys with their values, as `--set` gives them.
    pub sets: Vec<(String, String)>,
    /// Values of other flags.
    pub flags: Vec<Flag>,
    /// What holds unless a file says something else.
    pub implied: Vec<(&'static str, String)>,
    /// What holds, beside that, where there is no file.
    pub implied_without_file: Vec<(&'static str, String)>,
    /// The table of files and variables that `flags` replace.
    pub replaced: Option<&'static str>,
    /// `flags` say what to do, so no file is needed.
    pub is_task: bool,
}

impl From<Vec<(String, String)>> for Overrides {
    fn from(sets: Vec<(String, String)>) -> Self {
        Self { sets, ..Self::default() }
    }
}
