//! `run` with `[parallel]`: the lanes of items that are worked on at once, and what proves their merges.

use std::path::PathBuf;
use std::rc::Rc;

use async_trait::async_trait;
use ralph_orchestrator_assembly::backlogs::add_item_check;
use ralph_orchestrator_assembly::context::Context;
use ralph_orchestrator_assembly::error::CommandError;
use ralph_orchestrator_assembly::git::{GitLanes, MergeProver, RunPlace};
use ralph_orchestrator_assembly::plugins::Plugins;
use ralph_orchestrator_assembly::registry;
use ralph_orchestrator_assembly::sandbox::SandboxPolicy;
use ralph_orchestrator_assembly::transient_checkout::TransientCheckout;
use ralph_orchestrator_backlog::BacklogItem;
use ralph_orchestrator_config::{CommitMode, LoadedConfig};
use ralph_orchestrator_contract::Verdict;
use ralph_orchestrator_driver::{LaneSetup, MergeProof, read_ledger};
use ralph_orchestrator_engine::registry::LaunchContext;
use ralph_orchestrator_engine::{
    CheckSite, CompletionPolicy, ConfiguredAgent, StopRequests, build_context,
};
use ralph_orchestrator_machine::ValidatorVerdict;
use ralph_orchestrator_store::Layout;
use ralph_orchestrator_supervisor::KillSwitch;
use ralph_orchestrator_terminal::signals::Signals;
use ralph_orchestrator_text::one_line;

/// Returns how items are worked on at once, if the configuration asks for it or the work was begun so.
pub(super) fn find_lanes(
    place: &RunPlace,
    layout: &Layout,
    plugins: &Plugins,
    signals: &Signals,
) -> Result<Option<LaneSetup>, CommandError> {
    let config = &place.context.loaded.config;
    let has_trunk = || read_ledger(layout).ok().flatten().is_some_and(|it| it.trunk.is_some());
    let is_possible = config.git.worktree && config.git.commit == CommitMode::Iteration;
    if !is_possible || (config.parallel.max == 1 && !has_trunk()) {
        return Ok(None);
    }
    let switch = signals.switch.clone();
    let prover = CheckedMerges {
        plugins: plugins.clone(),
        switch: switch.clone(),
        requests: signals.watch_requests(),
        readable: place.repository().into_iter().collect(),
    };
    let places = GitLanes::new(place, layout.clone(), switch, Box::new(prover))?;
    let max = usize::try_from(config.parallel.max).unwrap_or(usize::MAX);
    Ok(Some(LaneSetup { max, places: Rc::new(places) }))
}

/// Proves merges by the checks of the configuration.
struct CheckedMerges {
    plugins: Plugins,
    switch: KillSwitch,
    requests: StopRequests,
    /// What agents and checks in a sandbox read beside the workspace: the repository.
    readable: Vec<PathBuf>,
}

#[async_trait(?Send)]
impl MergeProver for CheckedMerges {
    async fn prove(
        &self,
        context: &Context,
        items: (&BacklogItem, &[BacklogItem]),
    ) -> Result<MergeProof, String> {
        let mut requests = self.requests.clone();
        tokio::select! {
            proof = self.check(context, items) => proof.map_err(|error| error.detail()),
            Ok(_) = requests.wait_for(|request| request.times > 0) => Ok(MergeProof::Interrupted),
        }
    }
}

impl CheckedMerges {
    async fn check(
        &self,
        context: &Context,
        (item, before): (&BacklogItem, &[BacklogItem]),
    ) -> Result<MergeProof, CommandError> {
        let checkout = TransientCheckout::make(context).await?;
        let mut loaded = context.loaded.clone();
        add_item_check(&mut loaded, &item.id, item.verify.as_deref())?;
        let mut refusing = self.verify(context, &loaded, (item, &checkout)).await?;
        for other in before {
            if !refusing.is_empty() {
                break;
            }
            let mut loaded = context.loaded.clone();
            loaded.config.validators.clear();
            add_item_check(&mut loaded, &other.id, other.verify.as_deref())?;
            if loaded.config.validators.is_empty() {
                continue;
            }
            let refused = self.verify(context, &loaded, (other, &checkout)).await?;
            let id = one_line(&other.id, 80);
            let of_other =
                |why| format!("item `{id}` was complete, and with this work it is not: {why}");
            refusing.extend(refused.into_iter().map(of_other));
        }
        Ok(match refusing.is_empty() {
            true => MergeProof::Accepted,
            false => MergeProof::Rejected(refusing.join("\n")),
        })
    }

    /// Returns why the required checks of a configuration do not accept the work as that of an item.
    async fn verify(
        &self,
        context: &Context,
        loaded: &LoadedConfig,
        (item, checkout): (&BacklogItem, &TransientCheckout),
    ) -> Result<Vec<String>, CommandError> {
        let sandbox = SandboxPolicy::from_context(context)?;
        let sandbox = sandbox.map(|policy| policy.with_readable(self.readable.clone()));
        let registry = registry::for_run(&self.plugins, sandbox.as_ref(), self.switch.clone());
        let build = build_context(&context.loaded, &context.vars);
        let policy = CompletionPolicy::build(loaded, &registry, &build).await?;
        let protects = policy.protects();
        registry.set_launch_context(LaunchContext { protects, ..LaunchContext::default() });
        let agent = ConfiguredAgent::build(loaded, &registry, &build, None).await?;
        let mut env = agent.environment(loaded, &context.vars);
        env.insert("RALPH_ITEM".to_owned(), item.id.clone());
        let workspace = context.loaded.config.run.workspace.canonicalize()?;
        let site = CheckSite { workspace: &workspace, checkout: checkout.overlays(), env: &env };
        let verdicts = policy.verify(site).await;
        Ok(verdicts.iter().filter_map(describe_refusal).collect())
    }
}

/// Returns why a required validator does not accept; `None` if it does.
fn describe_refusal(named: &ValidatorVerdict) -> Option<String> {
    let name = &named.validator;
    match &named.verdict {
        _ if !named.required => None,
        Verdict::Accepted { .. } => None,
        Verdict::Rejected { reasons } => {
            let reasons: Vec<&str> = reasons.iter().map(String::as_str).collect();
            Some(format!("`{name}` rejects the merged work:\n{}", reasons.join("\n")))
        }
        Verdict::Error { message } => {
            Some(format!("`{name}` comes to no verdict on the merged work: {message}"))
        }
    }
}
