//! The commands of `[hooks]` and `[context]`.

use ralph_orchestrator_assembly::context::Context;
use ralph_orchestrator_assembly::error::exit;
use ralph_orchestrator_supervisor::KillSwitch;

use super::Finding;
use crate::hooks::UserHooks;

/// Looks at the commands of `[hooks]` and `[context]`. One that cannot be found keeps what comes after it from happening.
pub(super) fn check(context: &Context) -> Vec<Finding> {
    let Some(hooks) = UserHooks::find(context, &KillSwitch::default()) else { return Vec::new() };
    let found = hooks.programs().into_iter().map(|(name, program)| match program {
        Ok(program) => {
            let detail = format!("{name}: {}", program.display());
            Finding::new("hooks", Ok(detail), exit::CONFIG)
        }
        Err(problem) => Finding::warning("hooks", format!("{name}: {problem}")),
    });
    let changed = context.layout().map(|layout| hooks.find_changed(&layout)).unwrap_or_default();
    let changed = changed.into_iter().map(|path| {
        let text = format!(
            "{path} was changed since the last run began, so it is not run; if the change is yours, \
             `ralph-orchestrator trust` accepts it"
        );
        Finding::warning("hooks", text)
    });
    let warned = hooks.warnings().into_iter().map(|text| Finding::warning("hooks", text));
    found.chain(changed).chain(warned).collect()
}
