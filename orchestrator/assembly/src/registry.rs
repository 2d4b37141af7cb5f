//! The adapters, detectors, validators and formats of backlogs that are built in, those that a program has compiled
//! in, and those of plugins.

use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};

use ralph_adapter_claude_sdk::WriteGuard;
use ralph_orchestrator_backlog::{Backlog, BacklogKind, open_backlog};
use ralph_orchestrator_contract::BuildContext;
use ralph_orchestrator_detectors::{marker, promise};
use ralph_orchestrator_driver::{BACKLOG_DETECTOR, ItemClaim, build_backlog_detector};
use ralph_orchestrator_engine::registry::{FactoryMap, LaunchContext, Registry};
use ralph_orchestrator_engine::states_dir;
use ralph_orchestrator_forge::CodeHost;
use ralph_orchestrator_supervisor::{KillSwitch, Supervisor, shim};
use ralph_orchestrator_workspace::GuardedPaths;

use crate::backlog_keys::backlog_file;
use crate::compiled_in::CompiledIn;
use crate::plugins::Plugins;
use crate::read_only::ReviewingAgents;
use crate::sandbox::SandboxPolicy;
use crate::user_folders::{state_home, user_file, variables};
use crate::workspace_setup;

/// Returns the formats of backlogs that are built in or compiled in, by name, as `[backlog] kind` has them.
pub fn backlogs(compiled_in: &CompiledIn) -> FactoryMap<dyn Backlog> {
    let mut formats = FactoryMap::default();
    for kind in BacklogKind::ALL.iter().copied() {
        formats.add(kind.name(), move |table, context| {
            let (file, order) = backlog_file(table, context)?;
            Ok(open_backlog(kind, file, order))
        });
    }
    compiled_in.register_backlogs(&mut formats);
    formats
}

/// Returns whether a kind of backlogs is built in or compiled in.
pub fn has_backlog(kind: &str, compiled_in: &CompiledIn) -> bool {
    CodeHost::from_name(kind).is_some() || backlogs(compiled_in).contains(kind)
}

/// Returns whether the file of a backlog of this format is all of it, so that it can be committed and restored by itself.
pub fn is_one_file(format: &str) -> bool {
    let is_tracker = CodeHost::from_name(format).is_some();
    !is_tracker && BacklogKind::ALL.iter().all(|kind| kind.name() != format || kind.is_one_file())
}

/// A registry of everything, for those who start nothing that lasts.
pub fn unsupervised(plugins: &Plugins) -> Registry {
    for_run(plugins, None, KillSwitch::default())
}

/// A registry of everything. Agents, but not validators, are confined by `sandbox`; all
/// processes end at `switch`.
pub fn for_run(plugins: &Plugins, sandbox: Option<&SandboxPolicy>, switch: KillSwitch) -> Registry {
    build(plugins, sandbox, Supervisor::this_binary().with_kill_switch(switch))
}

/// A supervisor for one run of several in this process, or for all trials of a job, with a fork server of its own: its
/// shims hold the locks of the run that they are of, and end with it.
pub fn supervisor_of_one(switch: KillSwitch) -> Supervisor {
    let arguments = vec![shim::FIRST_ARGUMENT.into()];
    Supervisor::new("/proc/self/exe".into(), arguments).with_kill_switch(switch)
}

/// Returns the folders that decide what this program does. What runs in a checkout has no business there, and cannot be told by
/// its processes: it has process numbers of its own.
fn own_folders() -> Vec<PathBuf> {
    let vars = variables();
    let of_user = user_file(&vars).parent().map(Path::to_owned);
    of_user.into_iter().chain([states_dir(&state_home(&vars))]).collect()
}

/// A registry of everything, whose processes are those of `supervisor`.
pub fn build(
    plugins: &Plugins,
    sandbox: Option<&SandboxPolicy>,
    supervisor: Supervisor,
) -> Registry {
    let launch: Arc<OnceLock<LaunchContext>> = Arc::default();
    let supervisor = supervisor.with_sealed(own_folders());
    let guarded = guarded(&launch);
    let confined = match sandbox.cloned() {
        Some(policy) => {
            let (policy, launch) = (policy.with_readable(plugins.copies()), Arc::clone(&launch));
            supervisor.clone().with_sandbox(move || {
                policy.resolve(launch.get().map_or(&[][..], |launch| &launch.protects))
            })
        }
        None => supervisor.clone(),
    };
    let mut registry = Registry::default();
    plugins.register(&mut registry, &confined, &supervisor);
    plugins.compiled_in().register(&mut registry, &confined, &supervisor);

    let (s, guards) = (confined.clone(), guarded.clone());
    registry.agents.add("acp", move |config, context| {
        ralph_adapter_acp::build(config, context, &s, guards(context))
    });
    let s = confined.clone();
    registry.agents.add("claude-cli", move |config, context| {
        ralph_adapter_claude_cli::build(config, context, &s)
    });
    let (s, guards) = (confined.clone(), guarded);
    registry.agents.add("claude-sdk", move |config, context| {
        ralph_adapter_claude_sdk::build(config, context, &s, guards(context))
    });
    let s = confined.clone();
    registry
        .agents
        .add("codex", move |config, context| ralph_adapter_codex::build(config, context, &s));
    let s = confined.clone();
    registry
        .agents
        .add("command", move |config, context| ralph_adapter_command::build(config, context, &s));
    let s = confined.clone();
    registry.set_setup(move |words, context| workspace_setup::build(&words, context, &s));
    registry.agents.add("replay", move |config, context| {
        ralph_adapter_replay::build(config, context, &confined)
    });

    registry.detectors.add("promise", promise::build);
    registry.detectors.add("marker", marker::build);
    add_backlog_detector(&mut registry, None);

    registry.validators.add("review", ralph_validator_review::build);
    registry.set_read_only_agents(Arc::new(reviewing(plugins, sandbox, &supervisor, &launch)));
    let s = supervisor.clone();
    registry
        .validators
        .add("command", move |config, context| ralph_validator_command::build(config, context, &s));
    registry.validators.add("evidence-files", ralph_validator_evidence_files::build);
    registry.validators.add("protected-paths", ralph_validator_protected_paths::build);
    registry.on_launch(move |context| {
        if let Some(guard) = &context.guard {
            supervisor.set_guard(Arc::clone(guard));
            // While everything else is looked at.
            supervisor.prepare();
        }
        drop(launch.set(context));
    });
    registry
}

/// Returns what makes the agents that review: the same that work, with a view of their own.
fn reviewing(
    plugins: &Plugins,
    sandbox: Option<&SandboxPolicy>,
    supervisor: &Supervisor,
    launch: &Arc<OnceLock<LaunchContext>>,
) -> ReviewingAgents {
    let (plugins, supervisor) = (plugins.clone(), supervisor.clone());
    let sandbox = sandbox.cloned().map(SandboxPolicy::without_workspace);
    ReviewingAgents::new(Arc::clone(launch), move |view| {
        let mut registry = build(&plugins, sandbox.as_ref(), supervisor.clone().with_view(view));
        // They write in this process, which has no view.
        let compiled_in = plugins.compiled_in().agents().map(|(name, _)| name.to_owned());
        for name in compiled_in.chain(["replay".to_owned()]) {
            registry.agents.remove(&name);
        }
        registry
    })
}

/// Adds the detector `backlog` for the item of a run; without one it finds nothing.
pub fn add_backlog_detector(registry: &mut Registry, item: Option<ItemClaim>) {
    let build = move |config, _: &_| build_backlog_detector(config, item.clone());
    registry.detectors.add(BACKLOG_DETECTOR, build);
}

/// What agents are refused to write: what is protected, and the orchestrator's own files; everything
/// until these are known.
fn guarded(
    launch: &Arc<OnceLock<LaunchContext>>,
) -> impl Fn(&BuildContext) -> WriteGuard + Clone + use<> {
    let launch = Arc::clone(launch);
    move |context| {
        let (launch, workspace) = (Arc::clone(&launch), context.workspace.clone());
        let guard: OnceLock<Option<GuardedPaths>> = OnceLock::new();
        WriteGuard::new(move |path| {
            let Some(LaunchContext { protects, orchestrator_paths, .. }) = launch.get() else {
                return true;
            };
            let guard = guard
                .get_or_init(|| GuardedPaths::new(&workspace, protects, orchestrator_paths).ok());
            guard.as_ref().is_none_or(|guard| guard.contains(path))
        })
    }
}
