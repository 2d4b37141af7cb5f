//! The receivers of notices.

use ralph_orchestrator_supervisor::KillSwitch;

use super::Finding;
use crate::context::Context;
use crate::error::exit;
use crate::notices;

/// Looks at the receivers of notices. None of them keeps a run from beginning.
pub(super) fn check(context: &Context) -> Vec<Finding> {
    let transport = notices::transport(context, &KillSwitch::default());
    let rows = notices::resolve(context).into_iter().map(|(name, resolved)| {
        let found = resolved.and_then(|receiver| transport.find_program(&receiver));
        match found {
            Ok(program) => {
                let detail = format!("{name}: by {}", program.display());
                Finding::new("notify", Ok(detail), exit::CONFIG)
            }
            Err(problem) => Finding::warning("notify", format!("{name}: {problem}")),
        }
    });
    rows.collect()
}
