//! The runs of this user, as the web page and the full-screen view show and control them: read again and again while
//! they go on, each time only what is new.

pub(crate) mod iteration;
pub(crate) mod listing;
pub(crate) mod tracked;

use ralph_orchestrator_machine::{Control, ControlOrigin};
use ralph_orchestrator_store::{StateDir, list_runs};

use crate::context::invocation;
use crate::control::{self, ControlTarget};
use crate::error::CommandError;
use crate::stop_request::request_stop;
use crate::workspace_selection::{all_states, to_config_file};
use ralph_orchestrator_shell_text::quote_word;

/// A run of some state directory.
#[derive(Clone, Debug)]
pub(crate) struct LocatedRun {
    pub(crate) state_dir: StateDir,
    pub(crate) run: String,
    pub(crate) is_current: bool,
}

impl LocatedRun {
    /// Finds a run by its whole id.
    pub(crate) fn find(run: &str) -> Option<Self> {
        let mut states = all_states();
        let current = states.iter().position(|state| state.run().is_some_and(|own| own == run));
        let is_current = current.is_some();
        let has = |state: &StateDir| {
            list_runs(&state.layout).is_ok_and(|runs| runs.iter().any(|own| own == run))
        };
        let at = current.or_else(|| states.iter().position(has))?;
        Some(Self { state_dir: states.swap_remove(at), run: run.to_owned(), is_current })
    }

    /// Returns a run of a state directory.
    pub(crate) fn from_state_dir(state_dir: &StateDir, run: &str) -> Self {
        let is_current = state_dir.run().is_some_and(|own| own == run);
        Self { state_dir: state_dir.clone(), run: run.to_owned(), is_current }
    }

    /// Fails unless it is the run that its workspace has now: controls are for no other.
    pub(crate) fn require_current(&self) -> Result<(), CommandError> {
        if self.is_current {
            return Ok(());
        }
        Err(CommandError::user(format!("run {} is an earlier one of its workspace", self.run)))
    }

    /// Sends a control, and returns what to say of it.
    ///
    /// # Errors
    /// It cannot take effect.
    pub(crate) fn send(
        &self,
        origin: ControlOrigin,
        control: &Control,
    ) -> Result<String, CommandError> {
        self.require_current()?;
        let layout = &self.state_dir.layout;
        if *control == Control::Stop {
            // It needs more than the run's own attention.
            return request_stop(layout, origin);
        }
        let program = to_config_file(&self.state_dir).map_or_else(
            |_| {
                let workspace = self.state_dir.owner.workspace().unwrap_or_default();
                format!("ralph-orchestrator -w {}", quote_word(workspace))
            },
            |file| invocation(&file),
        );
        let target = ControlTarget::of_layout(layout.clone(), program);
        Ok(control::deliver(&target, origin, control)?.message)
    }
}
