//! What a run is asked for, before anything is checked.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;

use ralph_orchestrator_config::LoadedConfig;
use ralph_orchestrator_store::{Disk, OrphanReport};

use super::phase_guard::PhaseGuard;
use super::processes::Processes;
use super::provider_limits::ProviderLimits;
use super::version_control::VersionControl;
use crate::registry::Registry;

/// What `open` is asked for.
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
    /// Whether the run is one of the user's, which other starts find by its workspace and compare with; a trial of
    /// a benchmark is found by its state directory only.
    pub is_listed: bool,
    /// Whether the caller made the workspace a moment ago, for this run alone, and nothing else has run in it: then nobody
    /// else can be writing its files.
    pub is_workspace_fresh: bool,
    /// What the configuration can name.
    pub registry: &'a Registry,
    /// Ends leftover processes of the run with this id. Called when nothing can be supervising them any
    /// more.
    pub end_orphans: &'a (dyn Fn(&str) -> OrphanReport + Sync),
    /// Inspects and ends the processes of the iterations.
    pub processes: Arc<dyn Processes>,
    /// Stores the work of iterations, if `[git]` asks for it.
    pub version_control: Arc<dyn VersionControl>,
    /// `[agents.NAME]` instead of `[agent]`.
    pub agent: Option<String>,
    /// Stop after one iteration.
    pub once: bool,
    /// The agent works in a session of its own: see [`RunStarted::attached`](ralph_orchestrator_machine::RunStarted).
    pub attached: bool,
    /// Begin a new run, whatever there was.
    pub restart: bool,
    /// With `restart`: move a workspace that came from its template aside, and make it anew.
    pub renew: bool,
    /// The id of the run, if a new one begins; by default one is made.
    pub new_run: Option<String>,
    /// Begin nothing and record nothing: the session that is returned only has a plan.
    pub dry_run: bool,
    /// What the run works on, if it is one of a series.
    pub part: Option<RunPart>,
    /// Globs that the user names on the command line, which the checks there protect: a run that does not
    /// protect them is another one.
    pub protect: Vec<String>,
    /// Prints what is done before there is a run to record it.
    pub say: &'a (dyn Fn(&str) + Sync),
}

/// The part of a larger task that one run of a series works on.
#[derive(Clone)]
pub struct RunPart {
    /// The run that has this part. Without one, or if the state directory holds another, a new run begins.
    pub run: Option<String>,
    /// The id of the item that it is, if it is one of a backlog.
    pub item: Option<String>,
    /// It is one of several that go on at once, each in a workspace of its own.
    pub is_lane: bool,
    /// The work on it was complete and is sent back, in a tree that may have the marks of conflicts: checks that accept it as
    /// it is are no reason not to begin.
    pub is_sent_back: bool,
    /// No run was performed before it in this start.
    pub is_first: bool,
    /// The folder with what git was when agents began to work in this start; none if they have not.
    pub trusted_git: Option<PathBuf>,
    /// Returns what the agent is given after the prompt; called before each iteration.
    pub text: PartText,
    /// Returns what is to be done in the part alone, for whoever judges its work.
    pub description: PartText,
    /// What its agents, checks and setup find in their environment beside what the configuration sets.
    pub env: BTreeMap<String, String>,
    /// The run is the initializer's alone, and ends once all products are there. Returns what is missing beside
    /// what `[initializer]` names; called after each iteration.
    pub products: Option<MissingProducts>,
    /// What the runs of the series know together of the agents' providers.
    pub providers: ProviderLimits,
    /// Guards what the run must not change beside its own files.
    pub guard: Option<Arc<dyn PhaseGuard>>,
}

/// Returns what the agent is given after this prompt; nothing if it is empty.
pub type PartText = Arc<dyn Fn(&str) -> String + Send + Sync>;

/// Returns what is missing, for the agent. Blocks.
pub type MissingProducts = Arc<dyn Fn() -> Vec<String> + Send + Sync>;
