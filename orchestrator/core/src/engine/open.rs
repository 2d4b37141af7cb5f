//! From a configuration to a run that can go on: the same way for a new run and for an old one.

use std::collections::BTreeMap;
use std::fs::File;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use ralph_orchestrator_safe_fs::real_path;

use super::drivers::Drivers;
use super::error::EngineError;
use super::existing::{Existing, belongs_here, classify, kept_config, kept_judges, same_task};
use super::place::{self, Ways};
use super::plan::{self, Judges};
use super::processes::Processes;
use super::prompt::PromptSource;
use super::redact::Redactor;
use super::relocated::Beginning;
use super::renew::{self, Renewal};
use super::session::Session;
use crate::machine::PathIdentities;
use crate::registry::{Registry, Surroundings};
use crate::store::{
    Disk, Layout, OrphanCleanup, StateError, Store, StoredRun, lock_workspace, read_completed_run,
};
use crate::workspace::{Baseline, PromptPlace, WorkspaceHandle, create_from_template};
use ralph_orchestrator_config::LoadedConfig;
use ralph_orchestrator_contract::BuildContext;

/// How a run is asked for.
pub struct Request<'a> {
    /// The configuration.
    pub loaded: LoadedConfig,
    /// The configuration file.
    pub config_file: PathBuf,
    /// The orchestrator's own environment.
    pub vars: BTreeMap<String, String>,
    /// Where the state's file operations go.
    pub disk: Disk,
    /// The folder for state, such as `$XDG_STATE_HOME`.
    pub state_home: PathBuf,
    /// Fills a registry.
    pub registry: &'a (dyn Fn(Surroundings) -> Registry + Sync),
    /// Ends what is left of the processes of the run with this id. Called when nobody can be watching
    /// over them any more.
    pub end_orphans: &'a (dyn Fn(&str) -> OrphanCleanup + Sync),
    /// Looks after the processes of the iterations.
    pub processes: Arc<dyn Processes>,
    /// `[agents.NAME]` instead of `[agent]`.
    pub agent: Option<String>,
    /// Stop after one iteration.
    pub once: bool,
    /// Begin a new run, whatever there was.
    pub restart: bool,
    /// With `restart`: move a workspace that came from its template aside, and make it anew.
    pub renew: bool,
    /// Tells the user of what is done before there is a run to record it.
    pub say: &'a (dyn Fn(&str) + Sync),
}

/// What a request leads to.
#[allow(clippy::large_enum_variant)]
pub enum Opened {
    /// The run is complete already: nothing is started.
    Complete {
        /// The run.
        found: Box<StoredRun>,
        /// Its state.
        layout: Layout,
    },
    /// A run that can begin or go on.
    Ready(Box<Session>),
}

/// Checks everything, takes the lock, and finds out what there is to do. Starts nothing.
///
/// # Errors
/// See [`EngineError`]; nothing was started.
pub async fn open(request: Request<'_>) -> Result<Opened, EngineError> {
    // It is large, and awaited by others that are.
    Box::pin(look(request)).await
}

async fn look(request: Request<'_>) -> Result<Opened, EngineError> {
    let context = plan::build_context(&request.loaded, &request.vars);
    let plain = (request.registry)(Surroundings::default());
    let layout = plan::state_layout(&request.loaded, &request.state_home)?;
    let workspace = real_path(&request.loaded.config.run.workspace);
    request.verify_owner(&layout)?;
    let ways = Ways::of(&request.loaded, &workspace, &request.state_home);
    if !request.restart {
        // First of all: what is complete stays so, whatever has become of its configuration.
        if let Some(found) = completed(&request.loaded, &layout, &plain, &context).await {
            return Ok(Opened::Complete { found: Box::new(found), layout });
        }
        ways.verify()?;
    }
    let name = request.agent.as_deref();
    let mut protects = Judges::build(&request.loaded, &plain, &context).await?.protects();
    let drivers = Drivers::build(&request.loaded, &plain, &context, name, &request.vars).await?;
    let mut notes = drivers.check_limits(&request.loaded)?;

    let mut store = Store::open_with_disk(request.disk.clone(), layout.clone())
        .map_err(|error| request.name_outer_run(error))?;
    let found = take_run(&mut store, &request, &workspace, &mut notes)?;
    let kept = match found {
        None => None,
        Some(found) => match classify(found, &request.loaded, &layout, &plain, &context).await {
            Existing::Complete(found) => return Ok(Opened::Complete { found, layout }),
            Existing::Resumes(found) => Some(found),
            Existing::OtherTask(note) => {
                notes.push(note);
                None
            }
        },
    };
    protects.extend(kept_protects(kept.as_deref(), &layout, &plain, &context).await);
    renew_workspace(&request, &workspace, &layout, &drivers).await?;
    let pins = kept.as_ref().map(|found| &found.state.identities);
    let place = take_place(&request, &workspace, &layout, pins)?;
    ways.keep(&request.disk)?;
    notes.extend(record_owner(&mut store, &request, &place, kept.is_none())?);
    notes.extend(pins.and_then(|pins| place::other_prompt(pins, &place.prompt)));

    let guard = Some(store.agents_guard(&place.occupied)?);
    let own = own(&request, &layout, &place.prompt);
    let registry = (request.registry)(Surroundings { guard, protects, own });
    let drivers = Drivers::build(&request.loaded, &registry, &context, name, &request.vars).await?;
    let judges = Judges::build(&request.loaded, &registry, &context).await?;
    let redactor = drivers.redactor(&request.loaded);
    let setup = judges.check_setup(&request.loaded, &drivers.first.env).await;
    notes.extend(setup.accept(&request.loaded, |text| redactor.text(text).into_owned())?);
    let baseline = match &kept {
        Some(_) => Baseline::default(),
        None => judges.take_baseline(&request.loaded, place.workspace.path())?,
    };
    let out = drivers.check(&redactor).await?;
    let parts = Parts { request, store, drivers, judges, redactor, notes, out, place, baseline };
    match kept {
        Some(found) => parts.go_on(*found, &registry, &context).await,
        None => parts.begin(),
    }
    .map(|session| Opened::Ready(Box::new(session)))
}

/// What a run that goes on protects, whatever is configured now.
async fn kept_protects(
    kept: Option<&StoredRun>,
    layout: &Layout,
    registry: &Registry,
    context: &BuildContext,
) -> Vec<String> {
    let Some(found) = kept else { return Vec::new() };
    let judges = kept_judges(layout, &found.run, registry, context).await;
    judges.map(|judges| judges.protects()).unwrap_or_default()
}

/// Makes a workspace anew that came from its template, if that was asked for.
async fn renew_workspace(
    request: &Request<'_>,
    workspace: &Path,
    layout: &Layout,
    drivers: &Drivers,
) -> Result<(), EngineError> {
    let renewal = request.renewal(workspace, layout);
    if !request.renew || !renewal.is_due() {
        return Ok(());
    }
    // Nothing is moved for a run that cannot begin.
    drivers.check(&drivers.redactor(&request.loaded)).await?;
    renewal.perform()?;
    request.record_origin(&WorkspaceHandle::open(workspace)?, layout)
}

/// Records whose the state is. Returns what there is to say of runs whose paths were others.
fn record_owner(
    store: &mut Store,
    request: &Request<'_>,
    place: &Place,
    is_new: bool,
) -> Result<Vec<String>, EngineError> {
    let folder = place::file_pin(place.workspace.id());
    let owner = plan::state_owner(&request.loaded).with_folder(folder);
    let layout = store.layout().clone();
    let beginning = Beginning { request, layout: &layout, owner: &owner, folder };
    let is_first = is_new && !layout.latch().exists();
    let notes = if is_first { beginning.notes()? } else { Vec::new() };
    store.set_owner(&owner)?;
    beginning.record();
    Ok(notes)
}

impl Request<'_> {
    /// Refuses a state directory of another configuration. Who begins anew wants nothing of one that was
    /// put in the place of its own.
    fn verify_owner(&self, layout: &Layout) -> Result<(), EngineError> {
        if self.restart && self.loaded.config.state.dir.is_none() {
            return Ok(());
        }
        plan::verify_owner(&self.loaded, layout)
    }

    /// The folder of all states that no configuration has named.
    pub(super) fn states(&self) -> PathBuf {
        self.state_home.join("ralph-orchestrator")
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

    /// Says so if this was started by an agent, in its own workspace.
    fn name_outer_run(&self, error: StateError) -> EngineError {
        match (error, self.vars.get("RALPH_RUN_ID")) {
            (StateError::Busy { holder }, Some(run)) => {
                StateError::Nested { run: run.clone(), holder }.into()
            }
            (error, _) => error.into(),
        }
    }
}

/// The run that can go on, or is complete; none if a new one is wanted. Nothing that a killed start has
/// left is there any more.
fn take_run(
    store: &mut Store,
    request: &Request<'_>,
    workspace: &Path,
    notes: &mut Vec<String>,
) -> Result<Option<StoredRun>, EngineError> {
    let found = store.resume();
    // Whoever watched over the agent may have been killed together with the orchestrator.
    let left = store.end_orphans(found.as_ref().ok().and_then(Option::as_ref), request.end_orphans);
    notes.extend(left.notes);
    if !left.survived.is_empty() {
        return Err(StateError::OrphansLeft { names: left.survived }.into());
    }
    if request.restart {
        return Ok(None);
    }
    let found = found?;
    if let Some(found) = &found {
        belongs_here(found, workspace, store.layout())?;
    }
    Ok(found)
}

/// The workspace, made from its template if need be, held, and nobody else's; and the prompt. They are
/// what was recorded, if anything was.
fn take_place(
    request: &Request<'_>,
    workspace: &Path,
    layout: &Layout,
    pins: Option<&PathIdentities>,
) -> Result<Place, EngineError> {
    let run = &request.loaded.config.run;
    let recorded = pins.map(|pins| PromptSource::recorded(run, pins));
    recorded.as_ref().and_then(PromptSource::place).map_or(Ok(()), PromptPlace::verify)?;
    let held = |pins: Option<&PathIdentities>| {
        let held = WorkspaceHandle::open(workspace)?;
        pins.map_or(Ok(()), |pins| place::compare(pins, &held))?;
        Ok::<_, EngineError>(held)
    };
    let there = if workspace.is_dir() { Some(held(pins)?) } else { None };
    let made = make_workspace(&request.loaded)?;
    request.loaded.check_files()?;
    let held = match there {
        Some(there) => there,
        // Made this moment from its template: it is no other one that somebody put there.
        None => held(None)?,
    };
    if made {
        request.record_origin(&held, layout)?;
    }
    let occupied = lock_workspace(&request.disk, held.folder(), &request.states())
        .map_err(|error| request.name_outer_run(error))?;
    let prompt = recorded.unwrap_or_else(|| PromptSource::find(run));
    Ok(Place { workspace: held, occupied, prompt })
}

/// What no agent has to write.
fn own(request: &Request<'_>, layout: &Layout, prompt: &PromptSource) -> Vec<PathBuf> {
    let run = &request.loaded.config.run;
    let state = [layout.root().to_owned(), request.states()];
    let fixed =
        [prompt.path(), prompt.file()].into_iter().flatten().filter(|_| !run.prompt_editable);
    state
        .into_iter()
        .chain([request.config_file.clone()])
        .chain(fixed.map(Path::to_owned))
        .collect()
}

/// The run of this configuration's workspace, if it is complete and its task is still the same.
pub async fn find_completed(
    loaded: &LoadedConfig,
    state_home: &Path,
    vars: &BTreeMap<String, String>,
    registry: &Registry,
) -> Option<(StoredRun, Layout)> {
    let layout = plan::state_layout(loaded, state_home).ok()?;
    plan::verify_owner(loaded, &layout).ok()?;
    let context = plan::build_context(loaded, vars);
    let found = completed(loaded, &layout, registry, &context).await?;
    Some((found, layout))
}

/// Damage is told by who goes on from here.
async fn completed(
    loaded: &LoadedConfig,
    layout: &Layout,
    registry: &Registry,
    context: &BuildContext,
) -> Option<StoredRun> {
    let found = read_completed_run(layout).ok()??;
    let workspace = real_path(&loaded.config.run.workspace);
    belongs_here(&found, &workspace, layout).ok()?;
    same_task(&found, loaded, layout, registry, context).await.then_some(found)
}

/// Makes the workspace from its template if it is not there. Whether it did.
fn make_workspace(loaded: &LoadedConfig) -> Result<bool, EngineError> {
    let run = &loaded.config.run;
    let Some(template) = run.template.as_ref().filter(|_| !run.workspace.exists()) else {
        return Ok(false);
    };
    create_from_template(template, &run.workspace)
        .map_err(|error| EngineError::Workspace(error.to_string()))
}

struct Parts<'a> {
    request: Request<'a>,
    store: Store,
    drivers: Drivers,
    judges: Judges,
    redactor: Redactor,
    notes: Vec<String>,
    /// Why agents before the one that can begin cannot.
    out: Vec<String>,
    place: Place,
    /// Of a new run.
    baseline: Baseline,
}

/// Where it takes place.
struct Place {
    workspace: WorkspaceHandle,
    /// What is locked for it.
    occupied: Arc<File>,
    prompt: PromptSource,
}

impl Parts<'_> {
    fn begin(mut self) -> Result<Session, EngineError> {
        let run = uuid::Uuid::now_v7().to_string();
        let baseline = std::mem::take(&mut self.baseline);
        let kept = match &baseline {
            // Nothing is protected: there is nothing to keep.
            nothing if *nothing == Baseline::default() => Vec::new(),
            baseline => serde_json::to_vec(baseline)
                .map_err(|error| EngineError::Internal(error.to_string()))?,
        };
        let config = self.request.loaded.resolved_toml();
        let mut files = vec![(Layout::CONFIG, config.as_bytes())];
        if !kept.is_empty() {
            files.push((Layout::BASELINE, &kept));
        }
        self.store.begin(&run, &files)?;
        let policy = self.judges.policy(&kept);
        Ok(self.session(run, policy, baseline, None))
    }

    async fn go_on(
        mut self,
        found: StoredRun,
        registry: &Registry,
        context: &BuildContext,
    ) -> Result<Session, EngineError> {
        let layout = self.store.layout().clone();
        let frozen = found.state.policy().cloned().unwrap_or_default();
        let path = layout.baseline(&found.run);
        let kept = match self.store.disk().read(&path) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
                return Err(StateError::io("read", &path)(error).into());
            }
            kept => kept.unwrap_or_default(),
        };
        let kept_config = kept_config(&layout, &found.run);
        // What validators find in their PATH is as frozen as they are.
        let judges = match &kept_config {
            Some(loaded) => {
                let path = plan::build_context(loaded, &self.request.vars).path;
                let context = BuildContext { path, ..context.clone() };
                Judges::build(loaded, registry, &context).await.ok()
            }
            None => None,
        };
        if let Some(name) = judges.as_ref().and_then(|judges| judges.other_code(&frozen)) {
            let problem = format!(
                "was begun with another content of the plugin behind `{name}`; put that back, or \
                 begin a new run with `run --restart`"
            );
            return Err(StateError::Damaged { path: layout.run(&found.run), problem }.into());
        }
        let judges = judges
            .filter(|judges| judges.policy(&kept).decides_like(&frozen))
            .ok_or_else(|| StateError::Damaged {
                path: layout.run(&found.run),
                problem: "config.toml or baseline.json is not what this run began with".into(),
            })?;
        let baseline = if kept.is_empty() {
            Baseline::default()
        } else {
            serde_json::from_slice(&kept)
                .map_err(|error| EngineError::Internal(error.to_string()))?
        };
        if !judges.same_as(&self.judges) {
            self.notes.push(
                "detectors, validators or their [env] were changed in the configuration; this run goes \
                 on with those it began with (`run --restart` begins a new one)"
                    .into(),
            );
        }
        if let Some(torn) = found.torn {
            self.notes.push(format!(
                "the last record of the journal was torn by a crash; its {} bytes were cut",
                torn.bytes
            ));
        }
        self.judges = judges;
        let run = found.run.clone();
        let first = self.drivers.first.driver.clone();
        let env = kept_config.map(|kept| first.environment(&kept, &self.request.vars));
        let mut session = self.session(run, frozen, baseline, Some(found));
        session.env = env.unwrap_or(session.env);
        Ok(session)
    }

    fn session(
        self,
        run: String,
        policy: crate::machine::FrozenPolicy,
        baseline: Baseline,
        found: Option<StoredRun>,
    ) -> Session {
        Session::new(super::session::New {
            run,
            policy,
            baseline,
            found,
            store: self.store,
            drivers: self.drivers,
            judges: self.judges,
            redactor: self.redactor,
            notes: self.notes,
            out: self.out,
            config_file: self.request.config_file,
            processes: self.request.processes,
            once: self.request.once,
            config: self.request.loaded.config,
            workspace: self.place.workspace,
            occupied: self.place.occupied,
            prompt: self.place.prompt,
        })
    }
}
