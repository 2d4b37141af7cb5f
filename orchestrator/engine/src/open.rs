//! From a configuration to a run that can begin or be resumed: the same way for both.

use std::collections::BTreeMap;
use std::fs::File;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use ralph_orchestrator_config::LoadedConfig;
use ralph_orchestrator_machine::{EscalationStep, State};
use ralph_orchestrator_safe_fs::real_path;
use ralph_orchestrator_store::{
    Layout, Owner, SpendingLedger, StateError, Store, StoredRun, TrustStore, lock_workspace,
};
use ralph_orchestrator_workspace::{Baseline, PromptPlace, WorkspaceHandle, create_from_template};

use super::agents::AgentPool;
use super::blocking::blocking;
use super::construction::{build_agent_context, build_context};
use super::earlier_changes::EarlierChanges;
use super::error::EngineError;
use super::existing_run::{ExistingRun, RunSetup, replace_run, verify_workspace};
use super::followed_up::FollowUp;
use super::kept_prompts::KeptPrompts;
use super::location::{self, WorkspacePaths};
use super::memory::RunMemory;
use super::paths::{layout_of_new_run, state_layout, state_owner, states_dir, verify_owner};
use super::prompt::PromptSource;
use super::prompt_place;
use super::redact::Redactor;
use super::relocated::Beginning;
use super::renew::{self, Renewal};
use super::replaced_workspace::ReplacedWorkspace;
use super::request::Request;
use super::resumed_run::{ResumedRun, stated_limits};
use super::role_prompts::check_role_prompts;
use super::saving::Saving;
use super::session::{Session, StartNotes};
use super::session_builder::{SessionBuilder, UserRecords};
use super::setup_builder::build_workspace_setup;
use super::stored_runs::read_newest;
use super::validation_policy::CompletionPolicy;
use super::work_places::WorkPlaces;
use crate::registry::LaunchContext;
use crate::workspace_setup::WorkspaceSetup;

/// The result of [`open`].
#[allow(clippy::large_enum_variant)]
pub enum OpenOutcome {
    /// The run is complete already: nothing is started.
    Complete {
        /// The run.
        found: Box<StoredRun>,
        /// Its state.
        layout: Layout,
    },
    /// A run that can begin or be resumed.
    Ready(Box<Session>),
}

/// Checks everything, takes the lock, and decides whether a run begins, resumes or is complete. Starts
/// no iteration.
///
/// # Errors
/// See [`EngineError`]; nothing was started.
pub async fn open(request: Request<'_>) -> Result<OpenOutcome, EngineError> {
    let follow_up = FollowUp::from_request(&request);
    // It is large, and awaited by others that are.
    match (Box::pin(open_run(request)).await?, follow_up) {
        (OpenOutcome::Complete { found, layout }, Some(follow_up)) => {
            let found = follow_up.perform(found, &layout).await?;
            Ok(OpenOutcome::Complete { found, layout })
        }
        (outcome, _) => Ok(outcome),
    }
}

/// The same, but that a complete run is taken as it is.
async fn open_run(request: Request<'_>) -> Result<OpenOutcome, EngineError> {
    let (loaded, registry) = (&request.loaded, request.registry);
    let context = &build_context(loaded, &request.vars);
    let layout = request.find_layout()?;
    let workspace = real_path(&loaded.config.run.workspace);
    let paths = WorkspacePaths::new(loaded, &request.state_home);
    let Request { vars, protect, attached, .. } = &request;
    let attached = *attached;
    let setup = RunSetup { loaded, layout: &layout, registry, context, vars, protect, attached };
    if !request.restart {
        // First of all: what is complete stays so, whatever has become of its configuration.
        if let Some(found) = setup.find_completed(request.part.as_ref()).await {
            return request.take_complete(layout, &workspace, Box::new(found), None);
        }
        paths.verify()?;
    }
    let policy = CompletionPolicy::build(loaded, registry, context).await?;
    let name = request.agent.as_deref();
    let of_agents = build_agent_context(loaded, vars);
    let names = (name, policy.reviewing_agents());
    let agents = AgentPool::build(loaded, registry, &of_agents, names, vars).await?;
    let workspace_setup = build_workspace_setup(loaded, registry, context)?;
    let mut notes = agents.check_limits(loaded)?;

    let mut store = request.open_store(&layout).await?;
    let found = take_run(&mut store, &request, &workspace, &mut notes)?;
    let mut artefacts = Vec::new();
    let resumed = match found {
        None => None,
        Some(found) if request.restart => {
            artefacts = replace_run(&found, &workspace, request.dry_run);
            None
        }
        Some(found) => {
            match Box::pin(setup.classify_open(&store, found, request.part.as_ref())).await? {
                ExistingRun::Complete(found) => {
                    return request.take_complete(layout, &workspace, found, Some(&store));
                }
                ExistingRun::Resumes(found) => {
                    let frozen = setup.load_frozen_policy(&found.run).await;
                    Some(ResumedRun { found: *found, frozen })
                }
                ExistingRun::ResumesEarlier { run, note } => {
                    notes.push(note);
                    let found = store.resume_earlier(&run)?;
                    let frozen = setup.load_frozen_policy(&run).await;
                    Some(ResumedRun { found, frozen })
                }
                ExistingRun::OtherTask { found, note } => {
                    request.refuse_replaced(&layout, &workspace, &found)?;
                    notes.extend(note);
                    artefacts = replace_run(&found, &workspace, request.dry_run);
                    None
                }
            }
        }
    };
    let built =
        BuiltRun { store, policy, agents, setup: workspace_setup, notes, resumed, artefacts };
    // It is large, and awaited by others that are.
    let session = Box::pin(built.into_session(request, &workspace, &paths)).await?;
    Ok(OpenOutcome::Ready(Box::new(session)))
}

/// A run whose state is locked and whose parts are built, each of them once.
struct BuiltRun {
    store: Store,
    policy: CompletionPolicy,
    agents: AgentPool,
    setup: Option<Arc<dyn WorkspaceSetup>>,
    notes: Vec<String>,
    resumed: Option<ResumedRun>,
    /// Those of the run before, for a new one.
    artefacts: Vec<String>,
}

impl BuiltRun {
    /// Takes the workspace, then checks what processes and files tell.
    async fn into_session(
        self,
        mut request: Request<'_>,
        workspace: &Path,
        paths: &WorkspacePaths,
    ) -> Result<Session, EngineError> {
        let Self { mut store, policy, mut agents, setup, mut notes, resumed, artefacts } = self;
        let (run, part) = (resumed.as_ref(), request.part.as_ref());
        notes.extend(run.iter().flat_map(|run| run.keep_beginning(&mut request.loaded, part)));
        let (loaded, layout) = (&request.loaded, store.layout().clone());
        renew_workspace(&request, workspace, &layout, &agents, resumed.is_none()).await?;
        let kept = KeptPrompts::read(&store)?;
        let location = take_location(&request, workspace, &layout, run, (&kept, &mut notes))?;
        notes.extend(record_owner(&mut store, &request, (&location, paths), run.is_none())?);
        if let Some(run) = run {
            notes.extend(run.other_prompt(&location.prompt, workspace));
        }
        let guard = store.agents_guard(&location.occupied)?;
        let protects = protected_globs(&policy, run);
        let launch = request.launch_context(&guard, protects, &layout, &location.prompt);
        agents.set_launch_context(request.registry, launch, location.workspace.path());
        let redactor = agents.redactor(&loaded.config.env, &request.vars, resumed.as_ref());
        let report = policy.check_setup(loaded, &agents.first.env).await;
        notes.extend(report.accept(loaded, |text| redactor.text(text).into_owned())?);
        let baseline = match &resumed {
            Some(_) => Baseline::default(),
            None => begin_baseline(&request, &layout, (&policy, &location), &mut notes).await?,
        };
        let agent = choose_first(&request, &agents, resumed.as_ref(), &layout);
        let unavailable = agents.check_availability(&agent, &redactor).await?;
        if resumed.is_none() && request.part.is_some() {
            notes.extend(location.prompt.remove_claims(&policy, location.workspace.path()).await?);
        }
        let Location { workspace, occupied, prompt } = location;
        let memory = request.recover_memory(&layout, workspace.path(), &redactor)?;
        let records = request.open_records(workspace.path())?;
        let Request { loaded, config_file, vars, processes, part, new_run, .. } = request;
        let stated = stated_limits(&loaded);
        let builder = SessionBuilder {
            config_file,
            processes,
            once: request.once,
            attached: request.attached,
            store,
            policy,
            agents,
            redactor,
            start: StartNotes { notes, unavailable, artefacts, stated, agent },
            workspace,
            occupied,
            prompt,
            kept_prompts: kept,
            saving: Saving::new(loaded.config.git.commit, request.version_control, guard),
            memory,
            setup,
            hooks: request.registry.hooks().cloned(),
            read_only_agents: request.registry.read_only_agents().cloned(),
            part,
            records,
        };
        match resumed {
            Some(resumed) => Box::pin(resumed.into_session(builder, loaded, &vars)).await,
            None => builder.begin(loaded, baseline, new_run, request.dry_run),
        }
    }
}

impl ResumedRun {
    /// Returns the session of the run, and refuses what a person has changed since its agent worked last.
    async fn into_session(
        self,
        builder: SessionBuilder,
        loaded: LoadedConfig,
        vars: &BTreeMap<String, String>,
    ) -> Result<Session, EngineError> {
        let Self { found, frozen } = self;
        // In an iteration that was cut off, the agent may have changed anything.
        let worked = found.worked.filter(|_| found.state.running.is_none());
        let mut session = builder.resume(loaded, found, frozen, vars)?;
        session.check_changes(worked).await?;
        Ok(session)
    }
}

/// Takes the baseline of a new run. What the agent of the item before has changed is not how it was; before another run, people
/// are told.
async fn begin_baseline(
    request: &Request<'_>,
    layout: &Layout,
    (policy, location): (&CompletionPolicy, &Location),
    notes: &mut Vec<String>,
) -> Result<Baseline, EngineError> {
    let (loaded, workspace) = (&request.loaded, location.workspace.path());
    let mut baseline = policy.take_baseline(loaded, workspace)?;
    let context = build_context(loaded, &request.vars);
    let setup = RunSetup::to_look((loaded, layout), request.registry, (&context, &request.vars));
    // It is large, and awaited by others that are.
    let is_same_start = request.part.as_ref().is_some_and(|part| !part.is_first);
    let now = (&baseline, is_same_start);
    let found = Box::pin(EarlierChanges::find(setup, (policy, workspace), now)).await?;
    let Some(earlier) = found else { return Ok(baseline) };
    let changes = earlier.describe();
    if request.part.is_some() && !request.restart {
        earlier.carry_into(&mut baseline);
        notes.push(format!(
            "the agent of the run before changed protected paths: {changes}; work is accepted only with what was there \
             before: restore them, or begin with them as they are by `run --restart`"
        ));
    } else {
        notes.push(format!(
            "the agent of the run before changed protected paths, and this run takes them as they are: {changes}"
        ));
    }
    Ok(baseline)
}

/// Returns the agent with which a run begins or goes on.
fn choose_first(
    request: &Request<'_>,
    agents: &AgentPool,
    resumed: Option<&ResumedRun>,
    layout: &Layout,
) -> EscalationStep {
    let Some(resumed) = resumed else {
        let is_after_last = request.loaded.config.starts_with_last(request.agent.as_deref());
        let last = if is_after_last { find_last_agent(layout) } else { None };
        return agents.start(&State::default(), last.as_deref());
    };
    agents.start(&resumed.found.state, None)
}

/// Returns the agent with which the newest run had got to where it ended, if it escalated.
fn find_last_agent(layout: &Layout) -> Option<String> {
    Some(read_newest(layout)?.state.agent.escalation?.agent)
}

/// Returns what is protected: a resumed run protects on what it began with, whatever is configured now.
fn protected_globs(policy: &CompletionPolicy, resumed: Option<&ResumedRun>) -> Vec<String> {
    let frozen = resumed.and_then(|resumed| resumed.frozen.as_ref());
    let frozen = frozen.into_iter().flat_map(|frozen| frozen.policy.protects());
    policy.protects().into_iter().chain(frozen).collect()
}

/// Makes a workspace anew that came from its template, if that was asked for.
async fn renew_workspace(
    request: &Request<'_>,
    workspace: &Path,
    layout: &Layout,
    agents: &AgentPool,
    is_new: bool,
) -> Result<(), EngineError> {
    let renewal = request.renewal(workspace, layout);
    if is_new && !request.renew {
        renewal.warn_of_other_origin();
    }
    if !request.renew || !renewal.is_due() {
        return Ok(());
    }
    // Nothing is moved for a run that cannot begin.
    let redactor = agents.redactor(&request.loaded.config.env, &request.vars, None);
    agents.check_availability(&agents.start(&State::default(), None), &redactor).await?;
    renewal.perform()?;
    request.record_origin(&WorkspaceHandle::open(workspace)?, layout)
}

/// Records whose the state is. Returns notes on runs that had other paths.
fn record_owner(
    store: &mut Store,
    request: &Request<'_>,
    (location, paths): (&Location, &WorkspacePaths),
    is_new: bool,
) -> Result<Vec<String>, EngineError> {
    let layout = store.layout().clone();
    let mut owner = state_owner(&request.loaded, &layout);
    // That of the configured workspace, wherever the run works.
    let folder = owner.folder().unwrap_or(location::folder_pin(&location.workspace));
    owner = owner.with_folder(folder);
    if let Some(before) = Owner::read(&layout)? {
        owner = if is_new { owner } else { owner.keep_configuration(&before) };
        owner = owner.keep_former(&before);
    }
    let beginning = Beginning { request, layout: &layout, owner: &owner, folder };
    let is_first = is_new && !layout.latch().exists();
    let is_lane = request.part.as_ref().is_some_and(|part| part.is_lane);
    let notes =
        if is_first && request.is_listed && !is_lane { beginning.notes()? } else { Vec::new() };
    if !request.dry_run {
        paths.store(&request.disk)?;
        store.set_owner(&owner)?;
        if request.is_listed {
            beginning.record();
        }
    }
    Ok(notes)
}

impl Request<'_> {
    /// Returns where the state is, and refuses that of another configuration, and a workspace to which a link of an agent
    /// leads. A restart needs nothing of a state that was put in the place of its own.
    fn find_layout(&self) -> Result<Layout, EngineError> {
        self.verify_links()?;
        if self.restart && self.loaded.config.state.dir.is_none() {
            return Ok(layout_of_new_run(&self.loaded, &self.state_home)?);
        }
        let layout = state_layout(&self.loaded, &self.state_home)?;
        verify_owner(&self.loaded, &layout)?;
        Ok(layout)
    }

    /// Returns that a run is complete, and refuses another folder than the one in which it began: nothing was done there.
    /// Where there is none at all, the run stays complete.
    fn take_complete(
        &self,
        layout: Layout,
        workspace: &Path,
        found: Box<StoredRun>,
        held: Option<&Store>,
    ) -> Result<OpenOutcome, EngineError> {
        self.refuse_replaced(&layout, workspace, &found)?;
        self.settle_memory(&layout, workspace, &found, held);
        Ok(OpenOutcome::Complete { found, layout })
    }

    /// Refuses another folder than that of the run that was found, if it is there.
    fn refuse_replaced(
        &self,
        layout: &Layout,
        workspace: &Path,
        found: &StoredRun,
    ) -> Result<(), EngineError> {
        let held = workspace.is_dir().then(|| WorkspaceHandle::open(workspace)).transpose()?;
        ReplacedWorkspace::refuse(&self.loaded, layout, held.as_ref(), found, &self.states())
    }

    /// Returns the folder of all states whose place no configuration names.
    pub(super) fn states(&self) -> PathBuf {
        states_dir(&self.state_home)
    }

    /// Returns where its agents can write; none for a run that is nobody's to find.
    fn work_places(&self, workspace: &Path) -> Result<Option<WorkPlaces>, EngineError> {
        if !self.is_listed || self.dry_run {
            return Ok(None);
        }
        let mut places = WorkPlaces::new(self, workspace);
        if self.attached {
            // The agent is a person's, and works already.
            places.record()?;
        }
        Ok(Some(places))
    }

    /// Opens what is recorded of all runs of the user.
    fn open_records(&self, workspace: &Path) -> Result<UserRecords, EngineError> {
        let work_places = self.work_places(workspace)?;
        Ok(UserRecords { work_places, spending: self.open_spending()? })
    }

    /// Opens the ledger of all runs of the user, if there is a budget and this run counts.
    fn open_spending(&self) -> Result<Option<SpendingLedger>, EngineError> {
        let budget = &self.loaded.config.budget;
        if self.dry_run || budget.is_unlimited() || !(self.is_listed || budget.benchmarks) {
            return Ok(None);
        }
        Ok(Some(SpendingLedger::open(&self.disk, &self.states())?))
    }

    /// Returns what is recorded of where agents have worked, and of what people have accepted.
    fn trust(&self) -> TrustStore {
        TrustStore::new(&self.states(), self.disk.clone())
    }

    /// Refuses a workspace to which a link leads that an agent could have made.
    fn verify_links(&self) -> Result<(), EngineError> {
        let (loaded, trust) = (&self.loaded, self.trust());
        let folders = [loaded.configured_workspace(), &loaded.config.run.workspace];
        folders
            .into_iter()
            .try_for_each(|folder| location::follow_to_folder(&trust, folder).map(drop))
    }

    /// Makes the workspace from its template if it is not there. Returns whether it did.
    fn make_workspace(&self) -> Result<bool, EngineError> {
        let run = &self.loaded.config.run;
        let Some(template) = run.template.as_ref().filter(|_| !run.workspace.exists()) else {
            return Ok(false);
        };
        let template = location::follow_to_folder(&self.trust(), template)?;
        create_from_template(&template, &run.workspace)
            .map_err(|error| EngineError::Workspace(error.to_string()))?;
        Ok(true)
    }

    fn renewal<'a>(&'a self, workspace: &'a Path, layout: &'a Layout) -> Renewal<'a> {
        let (loaded, disk, say) = (&self.loaded, &self.disk, self.say);
        Renewal { loaded, workspace, layout, disk, states: self.states(), say }
    }

    fn record_origin(&self, held: &WorkspaceHandle, layout: &Layout) -> Result<(), EngineError> {
        match &self.loaded.config.run.template {
            Some(template) => renew::record_origin(template, held, &self.disk, layout),
            None => Ok(()),
        }
    }

    /// Opens the state. That may wait for processes of an earlier run, also for those of a detector whose run has just ended in
    /// this very program: they end only while its event loop goes on.
    async fn open_store(&self, layout: &Layout) -> Result<Store, EngineError> {
        let (disk, layout) = (self.disk.clone(), layout.clone());
        let opened = blocking(move || Store::open_with_disk(disk, layout)).await?;
        opened.map_err(|error| self.name_outer_run(error))
    }

    /// Opens what iterations leave in words, and completes what a crash interrupted.
    fn recover_memory(
        &self,
        layout: &Layout,
        workspace: &Path,
        redactor: &Redactor,
    ) -> Result<Option<RunMemory>, EngineError> {
        self.open_memory(layout, workspace, redactor)?.map(RunMemory::recover).transpose()
    }

    /// Opens what iterations leave in words, and changes nothing.
    fn open_memory(
        &self,
        layout: &Layout,
        workspace: &Path,
        redactor: &Redactor,
    ) -> Result<Option<RunMemory>, EngineError> {
        if self.dry_run {
            return Ok(None);
        }
        let config = &self.loaded.config.memory;
        let item = self.part.as_ref().and_then(|part| part.item.clone());
        let disk = self.disk.clone();
        Ok(RunMemory::open(config, disk, layout, workspace, redactor.clone(), item)?)
    }

    /// Writes down the end of a complete run if a crash prevented that. `held` is its state, if it is locked
    /// already. The run is complete whether this succeeds or not.
    fn settle_memory(
        &self,
        layout: &Layout,
        workspace: &Path,
        found: &StoredRun,
        held: Option<&Store>,
    ) {
        let open = || self.open_memory(layout, workspace, &Redactor::default()).ok().flatten();
        if !open().is_some_and(|memory| memory.is_unsettled(&found.run)) {
            return;
        }
        let lock = held.is_none().then(|| Store::open_with_disk(self.disk.clone(), layout.clone()));
        if lock.as_ref().is_some_and(Result::is_err) {
            return;
        }
        // Another process may have written it before this one had the lock.
        if let Some(mut memory) = open().filter(|memory| memory.is_unsettled(&found.run)) {
            drop(memory.settle(&found.run, &found.state));
        }
    }

    /// Names the outer run if this was started by an agent in its own workspace.
    fn name_outer_run(&self, error: StateError) -> EngineError {
        match (error, self.vars.get("RALPH_RUN_ID")) {
            (StateError::Busy { holder }, Some(run)) => {
                StateError::Nested { run: run.clone(), holder }.into()
            }
            (error, _) => error.into(),
        }
    }

    /// Returns what agents are started with. `guard`: what their supervisors hold.
    fn launch_context(
        &self,
        guard: &Arc<File>,
        protects: Vec<String>,
        layout: &Layout,
        prompt: &PromptSource,
    ) -> LaunchContext {
        LaunchContext {
            guard: Some(Arc::clone(guard)),
            protects,
            orchestrator_paths: self.orchestrator_paths(layout, prompt),
        }
    }

    /// Returns the orchestrator's own files and folders, which no agent has to write.
    fn orchestrator_paths(&self, layout: &Layout, prompt: &PromptSource) -> Vec<PathBuf> {
        let run = &self.loaded.config.run;
        let fixed = prompt.files().filter(|_| !run.prompt_editable);
        [layout.root().to_owned(), self.states(), self.config_file.clone()]
            .into_iter()
            .chain(fixed.map(Path::to_owned))
            .collect()
    }
}

/// Returns the stored run, complete or not; where a new one is wanted, only if it can be read. Leftover
/// processes of a killed start have ended by then.
fn take_run(
    store: &mut Store,
    request: &Request<'_>,
    workspace: &Path,
    notes: &mut Vec<String>,
) -> Result<Option<StoredRun>, EngineError> {
    let found = store.resume();
    // The agent's supervisor may have been killed together with the orchestrator.
    let left = store.end_orphans(found.as_ref().ok().and_then(Option::as_ref), request.end_orphans);
    notes.extend(left.notes);
    if !left.survived.is_empty() {
        return Err(StateError::OrphansLeft { names: left.survived }.into());
    }
    if request.restart {
        let is_here =
            |found: &StoredRun| verify_workspace(found, workspace, store.layout()).is_ok();
        return Ok(found.ok().flatten().filter(is_here));
    }
    let found = found?;
    if let Some(found) = &found {
        verify_workspace(found, workspace, store.layout())?;
    }
    Ok(found)
}

/// Where a run takes place.
struct Location {
    workspace: WorkspaceHandle,
    /// The lock of the workspace.
    occupied: Arc<File>,
    prompt: PromptSource,
}

/// Holds and locks the workspace, made from its template if need be, and finds the prompt. Both have to be
/// what was recorded, if anything was.
fn take_location(
    request: &Request<'_>,
    workspace: &Path,
    layout: &Layout,
    resumed: Option<&ResumedRun>,
    (kept, notes): (&KeptPrompts, &mut Vec<String>),
) -> Result<Location, EngineError> {
    let (config, trust) = (&request.loaded.config, request.trust());
    let locate = |configured: &Path| prompt_place::locate(&trust, configured);
    let pins = resumed.map(|run| &run.found.state.identities);
    let recorded = pins.map(|pins| PromptSource::recorded(config, pins, locate));
    let hold = |resumed: Option<&ResumedRun>| {
        let held = WorkspaceHandle::open(workspace)?;
        let states = request.states();
        resumed.map_or(Ok(()), |run| {
            let loaded = &request.loaded;
            ReplacedWorkspace::refuse(loaded, layout, Some(&held), &run.found, &states)
        })?;
        Ok::<_, EngineError>(held)
    };
    let existing = if workspace.is_dir() { Some(hold(resumed)?) } else { None };
    let is_made = request.make_workspace()?;
    let held = match existing {
        Some(existing) => existing,
        // Made this moment from its template: it is no other one that somebody put there.
        None => hold(None)?,
    };
    if is_made {
        request.record_origin(&held, layout)?;
    }
    let occupied = lock_workspace(&request.disk, held.folder(), &request.states())
        .map_err(|error| request.name_outer_run(error))?;
    let prompt = recorded.unwrap_or_else(|| PromptSource::find_for_agent(config, &trust));
    if !request.dry_run {
        notes.extend(kept.put_back(&prompt, held.path())?);
    }
    prompt.place().map_or(Ok(()), PromptPlace::verify)?;
    request.loaded.check_files()?;
    check_role_prompts(&request.loaded, &trust)?;
    if request.is_workspace_fresh {
        prompt.accept_as_whole();
    }
    Ok(Location { workspace: held, occupied, prompt })
}
