//! Controls of this user's runs and their changes, as the web page and the full-screen view request them.

use ralph_orchestrator_assembly::block_on::block_on;
use ralph_orchestrator_assembly::context::invocation;
use ralph_orchestrator_assembly::control;
use ralph_orchestrator_assembly::control::ControlTarget;
use ralph_orchestrator_assembly::error::CommandError;
use ralph_orchestrator_assembly::git::blocking;
use ralph_orchestrator_assembly::git::open_stored_run;
use ralph_orchestrator_assembly::user_folders::variables;
use ralph_orchestrator_git::Diff;
use ralph_orchestrator_machine::{Control, ControlOrigin};
use ralph_orchestrator_shell_text::quote_word;
use ralph_orchestrator_store::RunReader;
use ralph_orchestrator_story::diff::compare;
use ralph_orchestrator_story::located_run::LocatedRun;

use crate::stop_request::request_stop;
use crate::workspace_selection::to_config_file;

/// Bytes of a patch that are shown.
const LONGEST_PATCH: usize = 1024 * 1024;

/// Fails unless it is the run that its workspace has now: controls are for no other.
pub(crate) fn require_current(run: &LocatedRun) -> Result<(), CommandError> {
    if run.is_current {
        return Ok(());
    }
    Err(CommandError::user(format!("run {} is an earlier one of its workspace", run.run)))
}

/// Sends a control, and returns what to say of it.
///
/// # Errors
/// It cannot take effect.
pub(crate) fn send(
    run: &LocatedRun,
    origin: ControlOrigin,
    control: &Control,
) -> Result<String, CommandError> {
    require_current(run)?;
    let layout = &run.state_dir.layout;
    if *control == Control::Stop {
        // It needs more than the run's own attention.
        return request_stop(layout, origin);
    }
    let program = to_config_file(&run.state_dir).map_or_else(
        |_| {
            let workspace = run.state_dir.owner.workspace().unwrap_or_default();
            format!("ralph-orchestrator -w {}", quote_word(workspace))
        },
        |file| invocation(&file),
    );
    let target = ControlTarget::from_layout(layout.clone(), program);
    Ok(control::deliver(&target, origin, control)?.message)
}

/// Returns what an iteration changed, or without a number the last one that has a checkpoint: from which to which
/// iteration, and how they differ. Blocks.
///
/// # Errors
/// There are no such checkpoints, or git cannot compare them.
pub(crate) fn diff(
    run: &LocatedRun,
    number: Option<u64>,
) -> Result<(u64, u64, Diff), CommandError> {
    let layout = &run.state_dir.layout;
    let mut reader = RunReader::of_run(layout, &run.run);
    drop(reader.read(|_| {}));
    let found = reader.stored_run();
    let found = found.ok_or_else(|| CommandError::internal("the run cannot be read"))?;
    let workspace = run.state_dir.owner.workspace().unwrap_or_default();
    let numbers: Vec<u64> = number.into_iter().collect();
    block_on(async {
        let vars = variables();
        let stored = open_stored_run(layout, found, workspace, (Vec::new(), None), &vars);
        let stored = stored.await?;
        Ok(blocking(move || compare(&stored, &numbers, LONGEST_PATCH)).await??)
    })
}
