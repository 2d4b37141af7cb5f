//! The receivers of notices.

use ralph_orchestrator_assembly::context::Context;
use ralph_orchestrator_assembly::error::exit;
use ralph_orchestrator_notices::{Receiver, find_changed_script};
use ralph_orchestrator_supervisor::KillSwitch;

use super::Finding;
use crate::notices;
use crate::notices::transport::make_transport;

/// Looks at the receivers of notices. None of them keeps a run from beginning.
pub(super) fn check(context: &Context) -> Vec<Finding> {
    let transport = make_transport(context, &KillSwitch::default());
    let mut findings = Vec::new();
    for (name, resolved) in notices::resolve(context) {
        let found = resolved.and_then(|receiver| {
            transport.find_program(&receiver).map(|program| (program, receiver))
        });
        match found {
            Ok((program, receiver)) => {
                let detail = format!("{name}: by {}", program.display());
                findings.push(Finding::new("notify", Ok(detail), exit::CONFIG));
                findings.extend(warn_of_scripts(context, &receiver));
            }
            Err(problem) => {
                findings.push(Finding::warning("notify", format!("{name}: {problem}")));
            }
        }
    }
    findings
}

/// Warns of what a command runs that the agent can change, or has changed.
fn warn_of_scripts(context: &Context, receiver: &Receiver) -> Option<Finding> {
    let changed = context.layout().ok().and_then(|layout| find_changed_script(&layout, receiver));
    let text = match changed {
        Some(path) => Some(format!(
            "{}: {path} was changed since the last run began, so it is not run; if the change is yours, \
             `ralph-orchestrator notify` accepts it",
            receiver.name
        )),
        None => notices::describe(receiver),
    };
    text.map(|text| Finding::warning("notify", text))
}
