//! A session from its parts: of a new run, or of one that is resumed.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::path::PathBuf;
use std::sync::Arc;

use ralph_orchestrator_config::{Config, LoadedConfig};
use ralph_orchestrator_machine::{FrozenPolicy, HookEvent, State};
use ralph_orchestrator_store::{Layout, SpendingLedger, StateError, Store, StoredRun};
use ralph_orchestrator_workspace::{Baseline, WorkspaceHandle};
use tokio::sync::watch;

use super::agent_slot::AgentSlot;
use super::agents::AgentPool;
use super::clock::Clock;
use super::controls::RunControls;
use super::error::EngineError;
use super::existing_run::StoredPolicy;
use super::hooks::Hooks;
use super::kept_prompts::{KeptPrompts, RunPrompts};
use super::memory::RunMemory;
use super::memory::hooks::MemorySlot;
use super::observation::{ConfigFile, WorkspaceObserver, read_config};
use super::processes::Processes;
use super::prompt::PromptSource;
use super::protection::ProtectedState;
use super::provider_limits::RunProviders;
use super::read_only_agents::ReadOnlyAgents;
use super::redact::Redactor;
use super::request::RunPart;
use super::run_context::RunContext;
use super::run_event::{RunEvent, RunObserver};
use super::run_journal::RunJournal;
use super::saving::Saving;
use super::secret_files::SecretFiles;
use super::session::{Session, StartNotes};
use super::stop::StopRequest;
use super::stored_runs::new_run_id;
use super::user_budget::RunBudget;
use super::validation_policy::CompletionPolicy;
use super::work_places::WorkPlaces;
use crate::workspace_setup::WorkspaceSetup;

/// What `open` has built, locked and checked.
pub(super) struct SessionBuilder {
    pub(super) config_file: PathBuf,
    pub(super) processes: Arc<dyn Processes>,
    pub(super) once: bool,
    pub(super) attached: bool,
    pub(super) store: Store,
    /// As configured now.
    pub(super) policy: CompletionPolicy,
    pub(super) agents: AgentPool,
    pub(super) redactor: Redactor,
    pub(super) start: StartNotes,
    pub(super) workspace: WorkspaceHandle,
    pub(super) occupied: Arc<File>,
    pub(super) prompt: PromptSource,
    pub(super) kept_prompts: KeptPrompts,
    pub(super) saving: Saving,
    pub(super) memory: Option<RunMemory>,
    pub(super) setup: Option<Arc<dyn WorkspaceSetup>>,
    pub(super) hooks: Option<Arc<dyn Hooks>>,
    pub(super) read_only_agents: Option<Arc<dyn ReadOnlyAgents>>,
    pub(super) part: Option<RunPart>,
    pub(super) records: UserRecords,
}

/// What is recorded of all runs of the user.
pub(super) struct UserRecords {
    pub(super) work_places: Option<WorkPlaces>,
    /// What they have used, if this one counts.
    pub(super) spending: Option<SpendingLedger>,
}

/// What a new run decides and a resumed one has recorded.
struct RunRecord {
    run: String,
    policy: FrozenPolicy,
    baseline: Baseline,
    /// The environment of validators: that of the first agent, whichever works.
    env: BTreeMap<String, String>,
    state: Option<State>,
}

impl SessionBuilder {
    /// Stores what the new run is frozen to, except for a dry run, and returns its session.
    pub(super) fn begin(
        mut self,
        loaded: LoadedConfig,
        baseline: Baseline,
        run: Option<String>,
        dry_run: bool,
    ) -> Result<Session, EngineError> {
        let run = run.unwrap_or_else(new_run_id);
        let stored = match &baseline {
            // Nothing is protected: there is nothing to keep.
            nothing if *nothing == Baseline::default() => Vec::new(),
            baseline => serde_json::to_vec(baseline)
                .map_err(|error| EngineError::Internal(error.to_string()))?,
        };
        let masked = loaded.masked_toml(&|text| self.redactor.text(text).into_owned());
        let (shown, sealed) = self.store.key().hide_config(loaded.resolved_toml(), &masked)?;
        let secret_files = SecretFiles::new(self.store.key().clone(), self.redactor.clone());
        let kept = secret_files.seal(&stored)?;
        let files = [
            (Layout::CONFIG, shown.as_bytes()),
            (Layout::SEALED_CONFIG, sealed.as_deref().unwrap_or_default()),
            (Layout::BASELINE, &kept),
        ];
        let files: Vec<_> = files.into_iter().filter(|(_, content)| !content.is_empty()).collect();
        if !dry_run {
            self.store.begin(&run, &files)?;
        }
        let policy = self.policy.freeze(&stored);
        let env = self.agents.first.env.clone();
        Ok(self.build(loaded.config, RunRecord { run, policy, baseline, env, state: None }))
    }

    /// Returns the session of a run that is resumed with the policy that it began with.
    pub(super) fn resume(
        mut self,
        loaded: LoadedConfig,
        found: StoredRun,
        frozen: Option<StoredPolicy>,
        vars: &BTreeMap<String, String>,
    ) -> Result<Session, EngineError> {
        let layout = self.store.layout().clone();
        let path = layout.baseline(&found.run);
        let stored = self.store.disk().read_if_exists(&path, usize::MAX)?.unwrap_or_default();
        let stored = self.store.key().unseal(&stored).unwrap_or_default();
        let recorded = found.state.policy().cloned().unwrap_or_default();
        let frozen = verify_frozen(frozen, &recorded, &stored)
            .map_err(|problem| StateError::Damaged { path: layout.run(&found.run), problem })?;
        let baseline = if stored.is_empty() {
            Baseline::default()
        } else {
            serde_json::from_slice(&stored)
                .map_err(|error| EngineError::Internal(error.to_string()))?
        };
        if !frozen.policy.is_same(&self.policy) {
            self.start.notes.push(
                "detectors, validators or their [env] were changed in the configuration; this run goes \
                 on with those it began with (`run --restart` begins a new one)"
                    .into(),
            );
        }
        if let Some(torn) = found.torn {
            self.start.notes.push(format!(
                "the last record of the journal was torn by a crash; its {} bytes were cut",
                torn.bytes
            ));
        }
        let mut policy = frozen.policy;
        policy.adopt_locations(&self.policy, &self.config_file);
        self.policy = policy;
        let env = self.agents.first.configured.environment(&frozen.loaded, vars);
        let (run, state) = (found.run, Some(found.state));
        Ok(self.build(loaded.config, RunRecord { run, policy: recorded, baseline, env, state }))
    }

    fn build(self, config: Config, record: RunRecord) -> Session {
        let Self { store, agents, policy, workspace: held, occupied, saving, memory, .. } = self;
        let resumed = record.state.is_some();
        let state = record.state.unwrap_or_default();
        // An agent may have edited the prompt in an iteration whose end was not recorded.
        let is_settled = state.running.is_none();
        let content = read_config(&self.config_file);
        let config_file = ConfigFile { path: self.config_file, content };
        let of_part = self.part.iter().flat_map(|part| part.env.clone());
        let env = record.env.into_iter().chain(of_part).collect();
        let context = Arc::new(RunContext {
            run: record.run,
            workspace: held.path().to_owned(),
            config,
            policy: Arc::new(policy),
            recorded_policy: record.policy,
            env,
            redactor: self.redactor,
            baseline: Arc::new(ProtectedState::new(record.baseline)),
            hook_events: events_of_run(self.hooks.as_deref(), self.part.as_ref()),
            hooks: self.hooks,
            read_only_agents: self.read_only_agents,
            part: self.part,
            processes: self.processes,
            setup: self.setup,
            once: self.once,
            attached: self.attached,
            resumed,
        });
        let part = context.part.as_ref();
        let providers = part.map(|part| part.providers.clone()).unwrap_or_default();
        let spending = self.records.spending;
        let budget = spending.map(|ledger| RunBudget::new(ledger, &context, store.layout()));
        Session {
            journal: RunJournal {
                context: Arc::clone(&context),
                // Of the iteration in which the orchestrator went away, if there is one.
                began_ms: state.running.as_ref().map_or(0, |current| current.began_ms),
                clock: Arc::new(Clock::starting_at(state.budget.runtime_ms)),
                state,
                store,
                observer: Arc::new(NoObserver),
                providers: RunProviders::new(providers),
            },
            controls: RunControls::new(watch::channel(StopRequest::default()).1),
            observer: WorkspaceObserver::new(&context, (held, occupied), config_file),
            prompts: RunPrompts {
                source: self.prompt,
                kept: self.kept_prompts,
                is_settled,
                watch: None,
            },
            agent: AgentSlot::new(Arc::clone(&context), agents, self.records.work_places),
            saving,
            memory: MemorySlot(memory),
            start: self.start,
            budget,
            checkout: None,
            test_floor: Arc::default(),
            start_copies: None,
            context,
        }
    }
}

/// Returns the events for which there are commands and that a run has. What ends the work on a backlog is not the end of one
/// of its runs.
fn events_of_run(hooks: Option<&dyn Hooks>, part: Option<&RunPart>) -> BTreeSet<HookEvent> {
    let has = |event: &HookEvent| match (event, part) {
        (HookEvent::BeforeItem | HookEvent::AfterItem, part) => {
            part.is_some_and(|part| part.item.is_some())
        }
        (HookEvent::BeforeRun, Some(part)) => part.is_first,
        (HookEvent::AfterCompletion | HookEvent::AfterStop | HookEvent::AfterRun, Some(_)) => false,
        _ => true,
    };
    let has_commands =
        |event: &HookEvent| hooks.is_some_and(|hooks| !hooks.commands(*event).is_empty());
    HookEvent::ALL.into_iter().filter(has).filter(has_commands).collect()
}

/// Refuses a policy that does not decide as the recorded one does.
fn verify_frozen(
    frozen: Option<StoredPolicy>,
    recorded: &FrozenPolicy,
    baseline: &[u8],
) -> Result<StoredPolicy, String> {
    if let Some(name) = frozen.as_ref().and_then(|frozen| frozen.policy.changed_code(recorded)) {
        return Err(format!(
            "was begun with another content of the plugin behind `{name}`; put that back, or \
             begin a new run with `run --restart`"
        ));
    }
    frozen
        .filter(|frozen| frozen.policy.freeze(baseline).decides_like(recorded))
        .ok_or_else(|| "config.toml or baseline.json is not what this run began with".into())
}

struct NoObserver;

impl RunObserver for NoObserver {
    fn on_event(&self, _run: &str, _event: &RunEvent) {}
}
