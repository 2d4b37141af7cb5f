//! What hands notices and traces over, confined as their scripts have to be.

use std::path::PathBuf;

use ralph_orchestrator_assembly::context::Context;
use ralph_orchestrator_assembly::registry;
use ralph_orchestrator_assembly::sandbox::SandboxPolicy;
use ralph_orchestrator_config::SandboxMode;
use ralph_orchestrator_engine::plain_environment;
use ralph_orchestrator_notices::SupervisedTransport;
use ralph_orchestrator_safe_fs::real_path;
use ralph_orchestrator_supervisor::KillSwitch;

/// Makes what hands notices and traces over.
pub(crate) fn make_transport(context: &Context, switch: &KillSwitch) -> SupervisedTransport {
    let supervisor = registry::supervisor_of_one(switch.clone());
    let confined = match SandboxPolicy::from_context(context) {
        Ok(Some(policy)) => {
            let policy = policy.without_workspace();
            Ok(supervisor.clone().with_sandbox(move || policy.resolve(&[])))
        }
        Ok(None) => Ok(supervisor.clone()),
        Err(error) => Err(error.render(false, None)),
    };
    let (folder, places) = (context.loaded.dir().to_owned(), context.agent_places());
    let is_agents = context.loaded.config.sandbox.mode != SandboxMode::Off
        && places.iter().any(|place| real_path(&folder).starts_with(place));
    SupervisedTransport {
        supervisor,
        confined,
        vars: context.vars.clone(),
        env: plain_environment(&context.loaded, &context.vars),
        places,
        own_folder: if is_agents { PathBuf::from("/") } else { folder.clone() },
        folder,
    }
}
