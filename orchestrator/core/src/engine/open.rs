//! From a configuration to a run that can go on: the same way for a new run and for an old one.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::drivers::Drivers;
use super::error::EngineError;
use super::plan::{self, Judges};
use super::processes::Processes;
use super::prompt::PromptSource;
use super::redact::Redactor;
use super::session::Session;
use crate::config::{self, Loaded, Sources};
use crate::contract::BuildContext;
use crate::registry::{Registry, Surroundings};
use crate::state::{Disk, Found, Layout, StateError, Store};
use crate::workspace::{Baseline, create_from_template};

/// How a run is asked for.
pub struct Request<'a> {
    /// The configuration.
    pub loaded: Loaded,
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
    /// Ends what is left of the processes of the run with this id, and returns what there is to say about
    /// that. Called when nobody can be watching over them any more.
    pub end_remains: &'a (dyn Fn(&str) -> Vec<String> + Sync),
    /// Looks after the processes of the iterations.
    pub processes: Arc<dyn Processes>,
    /// `[agents.NAME]` instead of `[agent]`.
    pub agent: Option<String>,
    /// Stop after one iteration.
    pub once: bool,
    /// Begin a new run, whatever there was.
    pub restart: bool,
}

/// What a request leads to.
#[allow(clippy::large_enum_variant)]
pub enum Opened {
    /// The run is complete already: nothing is started.
    Complete {
        /// The run.
        found: Box<Found>,
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
    let name = request.agent.as_deref();
    let mut protects = Judges::build(&request.loaded, &plain, &context).await?.protects();
    let drivers = Drivers::build(&request.loaded, &plain, &context, name, &request.vars).await?;
    let mut notes = drivers.check_limits(&request.loaded)?;
    let layout = plan::state_layout(&request.loaded, &request.state_home)?;

    let mut store = Store::open_on(request.disk.clone(), layout.clone())?;
    // Whoever watched over the agent may have been killed together with the orchestrator.
    notes.extend(store.killed().map(|run| (request.end_remains)(&run)).unwrap_or_default());
    let found = if request.restart { None } else { store.resume()? };
    let found = match found {
        Some(found) => still_the_run(found, &request, &plain, &context, &layout).await?,
        None => Kept::Nothing,
    };
    let kept = match found {
        Kept::Complete(found) => return Ok(Opened::Complete { found, layout }),
        Kept::Other => {
            notes.push(
                "the prompt is another than the one that was completed: this is a new run".into(),
            );
            None
        }
        Kept::Nothing => None,
        Kept::GoesOn(found) => Some(found),
    };

    if let Some(found) = &kept {
        // A run that goes on keeps what it protects, whatever is configured now.
        let judges = kept_judges(&layout, &found.run, &plain, &context).await;
        protects.extend(judges.map(|judges| judges.protects()).unwrap_or_default());
    }
    let guard = Some(store.agents_guard());
    let registry =
        (request.registry)(Surroundings { guard, protects, own: own(&request, &layout) });
    make_workspace(&request.loaded)?;
    request.loaded.check_files()?;
    let drivers = Drivers::build(&request.loaded, &registry, &context, name, &request.vars).await?;
    let judges = Judges::build(&request.loaded, &registry, &context).await?;
    let redactor = drivers.redactor(&request.loaded);
    let setup = judges.check_setup(&request.loaded, &drivers.first.env).await;
    notes.extend(setup.accept(&request.loaded, |text| redactor.text(text).into_owned())?);
    let out = drivers.check(&redactor).await?;
    let parts = Parts { request, store, drivers, judges, redactor, notes, out };
    match kept {
        Some(found) => parts.go_on(*found, &registry, &context).await,
        None => parts.begin(),
    }
    .map(|session| Opened::Ready(Box::new(session)))
}

/// What no agent has to write.
fn own(request: &Request<'_>, layout: &Layout) -> Vec<PathBuf> {
    let run = &request.loaded.config.run;
    let state = [layout.root().to_owned(), request.state_home.join("ralph-orchestrator")];
    let fixed = run.prompt.clone().filter(|_| !run.prompt_mutable);
    state.into_iter().chain([request.config_file.clone()]).chain(fixed).collect()
}

enum Kept {
    Nothing,
    Other,
    Complete(Box<Found>),
    GoesOn(Box<Found>),
}

/// Whether what was found on disk is the run in question.
async fn still_the_run(
    found: Found,
    request: &Request<'_>,
    registry: &Registry,
    context: &BuildContext,
    layout: &Layout,
) -> Result<Kept, EngineError> {
    let workspace = plan::real_path(&request.loaded.config.run.workspace);
    let started = found.state.started.as_ref().map(|started| started.workspace.as_str());
    if started.is_some_and(|started| Path::new(started) != workspace) {
        let problem = format!(
            "belongs to the workspace {}, not to {}",
            started.unwrap_or_default(),
            workspace.display()
        );
        return Err(StateError::Damaged { path: layout.root().to_owned(), problem }.into());
    }
    let Some(completion) = found.state.completion() else {
        return Ok(Kept::GoesOn(Box::new(found)));
    };
    // The task is compared as the detectors of that run saw it, whatever is configured now.
    let judges = kept_judges(layout, &found.run, registry, context).await;
    let prompt = PromptSource::of(&request.loaded).read_text();
    let other = match (judges, prompt) {
        (Some(judges), Some(prompt)) => judges.task(&prompt).await != completion.task,
        _ => false,
    };
    Ok(if other { Kept::Other } else { Kept::Complete(Box::new(found)) })
}

fn kept_config(layout: &Layout, run: &str) -> Option<Loaded> {
    let sources = Sources { file: layout.config(run), ..Sources::default() };
    config::load(&sources).ok()
}

/// Who decides in a run that goes on, from the configuration that was kept with it.
async fn kept_judges(
    layout: &Layout,
    run: &str,
    registry: &Registry,
    context: &BuildContext,
) -> Option<Judges> {
    let loaded = kept_config(layout, run)?;
    Judges::build(&loaded, registry, context).await.ok()
}

fn make_workspace(loaded: &Loaded) -> Result<(), EngineError> {
    let run = &loaded.config.run;
    let Some(template) = run.template.as_ref().filter(|_| !run.workspace.exists()) else {
        return Ok(());
    };
    create_from_template(template, &run.workspace)
        .map(drop)
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
}

impl Parts<'_> {
    fn begin(mut self) -> Result<Session, EngineError> {
        let run = uuid::Uuid::now_v7().to_string();
        let baseline = self.take_baseline()?;
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
        found: Found,
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
        let judges = kept_judges(&layout, &found.run, registry, context).await;
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
                "detectors or validators were changed in the configuration; this run goes on with \
                 those it began with (`run --restart` begins a new one)"
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
        Ok(self.session(run, frozen, baseline, Some(found)))
    }

    fn take_baseline(&self) -> Result<Baseline, EngineError> {
        Baseline::take(&self.request.loaded.config.run.workspace, &self.judges.protects())
            .map_err(|error| EngineError::Workspace(error.to_string()))
    }

    fn session(
        self,
        run: String,
        policy: crate::machine::Policy,
        baseline: Baseline,
        found: Option<Found>,
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
        })
    }
}
