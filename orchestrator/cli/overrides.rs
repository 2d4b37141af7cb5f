//! Values of the configuration that come from the command line.

use ralph_orchestrator_config::Flag;

/// Values of the configuration that come from the command line.
#[derive(Clone, Debug, Default)]
pub(crate) struct Overrides {
    pub(crate) sets: Vec<(String, String)>,
    pub(crate) flags: Vec<Flag>,
    /// What holds unless a file says something else.
    pub(crate) implied: Vec<(&'static str, String)>,
    /// What holds, beside that, where there is no file.
    pub(crate) implied_without_file: Vec<(&'static str, String)>,
    /// The table of files and variables that `flags` replace.
    pub(crate) replaced: Option<&'static str>,
    /// `flags` say what to do, so no file is needed.
    pub(crate) is_task: bool,
}

impl From<Vec<(String, String)>> for Overrides {
    fn from(sets: Vec<(String, String)>) -> Self {
        Self { sets, ..Self::default() }
    }
}
