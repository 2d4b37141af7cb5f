//! The run that a start finds: is it resumed, is it complete, or has its task changed?

use std::collections::BTreeMap;
use std::path::Path;

use ralph_orchestrator_config::{self as config, LoadedConfig, Sources};
use ralph_orchestrator_contract::BuildContext;
use ralph_orchestrator_safe_fs::{escape, real_path, unescape};
use ralph_orchestrator_store::{
    Layout, Owner, StateError, Store, StoredRun, identity_of, list_runs, read_completed_run,
    read_run, read_run_config,
};
use ralph_orchestrator_workspace::{PromptPlace, find_untracked};

use super::construction::build_context;
use super::kept_prompts::KeptPrompts;
use super::location;
use super::prompt::PromptSource;
use super::request::RunPart;
use super::scratch::remove_scratch_dirs;
use super::validation_policy::CompletionPolicy;
use crate::registry::Registry;

const OTHER_TASK: &str = "the prompt changed since completion: this is a new run";
const OTHER_TEXT: &str = "the task is another one than that of the last run";
const OTHER_CHECKS: &str = "the checks are others than those of the last run";

/// What becomes of the run that was found.
pub(super) enum ExistingRun {
    /// It is complete, and its task is still the same.
    Complete(Box<StoredRun>),
    /// It is resumed.
    Resumes(Box<StoredRun>),
    /// An earlier one is resumed instead, which has this task.
    ResumesEarlier {
        run: String,
        /// For people.
        note: String,
    },
    /// A new one begins after it.
    OtherTask {
        found: Box<StoredRun>,
        /// Why, for people; nothing where the runs of a series follow one another.
        note: Option<String>,
    },
}

impl ExistingRun {
    /// Returns that an earlier run is taken up, which has this task, and not the one that was found.
    fn go_back_to(earlier: StoredRun, found: &StoredRun) -> Self {
        if earlier.state.completion().is_some() {
            return Self::Complete(Box::new(earlier));
        }
        let note = format!(
            "run {} has this task and is resumed; run {} is kept as it is",
            earlier.run, found.run
        );
        Self::ResumesEarlier { run: earlier.run, note }
    }
}

/// The configuration that a start is given, and what builds its parts.
#[derive(Clone, Copy)]
pub(super) struct RunSetup<'a> {
    pub(super) loaded: &'a LoadedConfig,
    pub(super) layout: &'a Layout,
    pub(super) registry: &'a Registry,
    pub(super) context: &'a BuildContext,
    /// The orchestrator's own environment.
    pub(super) vars: &'a BTreeMap<String, String>,
    /// What the user names as protected on the command line.
    pub(super) protect: &'a [String],
    /// It is for a session that a person runs.
    pub(super) attached: bool,
}

impl<'a> RunSetup<'a> {
    /// That of somebody who only looks, and names nothing on the command line.
    pub(super) const fn to_look(
        (loaded, layout): (&'a LoadedConfig, &'a Layout),
        registry: &'a Registry,
        (context, vars): (&'a BuildContext, &'a BTreeMap<String, String>),
    ) -> Self {
        Self { loaded, layout, registry, context, vars, protect: &[], attached: false }
    }
}

/// The configuration that was stored when a run began, and the policy built from it.
pub(super) struct StoredPolicy {
    pub(super) loaded: LoadedConfig,
    pub(super) policy: CompletionPolicy,
}

impl RunPart {
    /// Whether the run that was found is the one that has this part.
    fn has(&self, found: &StoredRun) -> bool {
        self.run.as_deref() == Some(&found.run)
    }
}

impl RunSetup<'_> {
    /// Returns the completed run of this workspace if its task is still the same. A damaged state
    /// counts as none here; it is reported by `open`.
    pub(super) async fn find_completed(self, part: Option<&RunPart>) -> Option<StoredRun> {
        let found = read_completed_run(self.layout).ok()??;
        let workspace = real_path(&self.loaded.config.run.workspace);
        verify_workspace(&found, &workspace, self.layout).ok()?;
        match part {
            Some(part) => part.has(&found).then_some(found),
            None => Box::pin(self.is_same_task(&found)).await.then_some(found),
        }
    }

    /// Decides what becomes of the run that the store has open.
    pub(super) async fn classify_open(
        self,
        store: &Store,
        found: StoredRun,
        part: Option<&RunPart>,
    ) -> Result<ExistingRun, StateError> {
        let kept = KeptPrompts::read(store)?;
        Ok(self.classify(found, part, Some(&kept)).await)
    }

    /// Decides what becomes of a run, given this configuration. `kept`: its prompts as the last iteration left them, if
    /// that is known.
    pub(super) async fn classify(
        self,
        found: StoredRun,
        part: Option<&RunPart>,
        kept: Option<&KeptPrompts>,
    ) -> ExistingRun {
        match part {
            Some(part) if !part.has(&found) => {
                return ExistingRun::OtherTask { found: Box::new(found), note: None };
            }
            Some(_) if found.state.completion().is_some() => {
                return ExistingRun::Complete(Box::new(found));
            }
            Some(_) => return ExistingRun::Resumes(Box::new(found)),
            None => {}
        }
        if found.state.completion().is_some() {
            if Box::pin(self.is_same_task(&found)).await {
                return ExistingRun::Complete(Box::new(found));
            }
            if self.is_session_of_a_person(&found) {
                return Box::pin(self.pass_over(found)).await;
            }
            let is_other = self
                .load_frozen_config(&found.run)
                .is_some_and(|frozen| self.gives_other_checks(&frozen));
            let note = if is_other {
                format!("{OTHER_CHECKS}: this is a new run")
            } else {
                OTHER_TASK.to_owned()
            };
            return match Box::pin(self.find_before(&found.run)).await {
                Some(earlier) => ExistingRun::go_back_to(earlier, &found),
                None => self.other_task(found, note),
            };
        }
        if self.is_session_of_a_person(&found) {
            return Box::pin(self.pass_over(found)).await;
        }
        if let Some(why) = self.find_other_task(&found) {
            let note = format!("{why}: this is a new run; run {} is kept as it is", found.run);
            return self.other_task(found, note);
        }
        match Box::pin(self.find_completed_instead(&found, kept)).await {
            Some(earlier) => ExistingRun::Complete(Box::new(earlier)),
            None => ExistingRun::Resumes(Box::new(found)),
        }
    }

    /// Returns the earlier run that has completed what a person has had the prompt ask for since this one stopped, as after
    /// a change of branches.
    async fn find_completed_instead(
        self,
        found: &StoredRun,
        kept: Option<&KeptPrompts>,
    ) -> Option<StoredRun> {
        let given = &found.state.started.as_ref()?.task;
        // What an iteration that was cut off left may be the agent's.
        let kept = kept.filter(|_| found.state.running.is_none())?;
        let prompt = recorded_prompt(&self.load_frozen_config(&found.run)?, found);
        if !kept.is_other(&prompt) {
            return None;
        }
        let frozen = self.load_frozen_policy(&found.run).await?;
        let now = kept.changed_task(&prompt, &frozen.policy, given).await?;
        // It was begun to do this task once more.
        if found.state.was_given(&now) {
            return None;
        }
        let earlier = self.find_before(&found.run).await;
        earlier.filter(|earlier| earlier.state.completion().is_some())
    }

    /// Whether a run belongs to a session that a person runs, and this start does not: its goal is that of the
    /// session, and no agent of the orchestrator is to work on it.
    const fn is_session_of_a_person(self, found: &StoredRun) -> bool {
        found.state.process.attached && !self.attached
    }

    /// Returns what becomes of the run before those of a person's sessions. A new one begins if there is none.
    async fn pass_over(self, session: StoredRun) -> ExistingRun {
        let kept = format!("run {}, of a session that was checked, is kept as it is", session.run);
        let earlier = match self.find_before_sessions(&session.run) {
            Some(earlier) => self.classify(earlier, None, None).await,
            None => {
                let note = Some(format!("this is a new run; {kept}"));
                return ExistingRun::OtherTask { found: Box::new(session), note };
            }
        };
        match earlier {
            ExistingRun::Resumes(earlier) => {
                let note = format!("run {} is resumed; {kept}", earlier.run);
                ExistingRun::ResumesEarlier { run: earlier.run, note }
            }
            ExistingRun::OtherTask { note, .. } => {
                ExistingRun::OtherTask { found: Box::new(session), note }
            }
            decided => decided,
        }
    }

    /// Returns the newest sound run before this one that is of no person's session.
    fn find_before_sessions(self, current: &str) -> Option<StoredRun> {
        let runs = list_runs(self.layout).ok()?;
        let earlier = runs.into_iter().skip_while(|run| run != current).skip(1);
        let mut sound = earlier.filter_map(|run| self.read_sound(&run));
        sound.find(|found| !found.state.process.attached)
    }

    /// Returns a run of this workspace that is not damaged.
    fn read_sound(self, run: &str) -> Option<StoredRun> {
        let stored = read_run(self.layout, run, |_| {}).ok()?;
        let workspace = real_path(&self.loaded.config.run.workspace);
        let is_sound = stored.damage.is_none()
            && verify_workspace(&stored.found, &workspace, self.layout).is_ok();
        is_sound.then_some(stored.found)
    }

    /// Returns what becomes of a run whose task is another one: the newest earlier run that has this task goes
    /// on, if there is one, or a new one begins.
    fn other_task(self, found: StoredRun, note: String) -> ExistingRun {
        match self.find_earlier(&found.run) {
            Some(earlier) => ExistingRun::go_back_to(earlier, &found),
            None => ExistingRun::OtherTask { found: Box::new(found), note: Some(note) },
        }
    }

    /// Returns the newest run but this one that began with the task that the command line gives. One that is
    /// damaged is none.
    fn find_earlier(self, current: &str) -> Option<StoredRun> {
        let text = task_text(self.loaded).filter(|_| self.gives("run.prompt_text"))?;
        let has_task = |run: &String| {
            self.load_frozen_config(run).is_some_and(|frozen| {
                task_text(&frozen) == Some(text) && !self.gives_other_checks(&frozen)
            })
        };
        let runs = list_runs(self.layout).ok()?;
        let run = runs.into_iter().filter(|run| run != current).find(has_task)?;
        self.read_sound(&run)
    }

    /// Returns the newest earlier run of what the prompt file asks for now: one that has completed it, as after a change of
    /// branches and back, or was given it, as before a task on the command line.
    async fn find_before(self, current: &str) -> Option<StoredRun> {
        for run in list_runs(self.layout).ok()?.into_iter().filter(|run| run != current) {
            let Some(found) = self.read_sound(&run).filter(|found| !found.state.process.attached)
            else {
                continue;
            };
            let is_it = match found.state.completion() {
                Some(completion) => !completion.task.is_empty() && self.is_same_task(&found).await,
                None => self.was_given_prompt(&found).await,
            };
            if is_it {
                return Some(found);
            }
        }
        None
    }

    /// Whether an unfinished run was given what the prompt asks for now.
    async fn was_given_prompt(self, found: &StoredRun) -> bool {
        let Some(frozen) = self.load_frozen_policy(&found.run).await else { return false };
        if self.gives_other_checks(&frozen.loaded) {
            return false;
        }
        match recorded_prompt(self.loaded, found).read_text() {
            Some(text) => found.state.was_given(&frozen.policy.task_digest(&text).await),
            None => false,
        }
    }

    /// Returns the configuration that was stored when the run began, in the workspace as it is called now.
    fn load_frozen_config(self, run: &str) -> Option<LoadedConfig> {
        let frozen = load_frozen_config(self.layout, run)?;
        let workspace = self.loaded.configured_workspace();
        let is_moved =
            frozen.configured_workspace() != workspace && !frozen.configured_workspace().exists();
        Some(if is_moved { frozen.in_folder(workspace) } else { frozen })
    }

    /// Builds the policy that was frozen when the run began. `None` if its configuration is gone or
    /// cannot be built any more.
    pub(super) async fn load_frozen_policy(self, run: &str) -> Option<StoredPolicy> {
        let loaded = self.load_frozen_config(run)?;
        // What validators find in their PATH is as frozen as they are.
        let path = build_context(&loaded, self.vars).path;
        let context = BuildContext { path, ..self.context.clone() };
        let policy = Box::pin(CompletionPolicy::build(&loaded, self.registry, &context));
        let policy = policy.await.ok()?;
        Some(StoredPolicy { loaded, policy })
    }

    /// Returns whether the prompt still asks for what was completed. In doubt it does.
    async fn is_same_task(self, found: &StoredRun) -> bool {
        if found.state.completion().is_none_or(|completion| completion.task.is_empty()) {
            return true;
        }
        // The task is compared as the detectors of that run saw it, whatever is configured now.
        let frozen = self.load_frozen_policy(&found.run).await;
        if frozen.as_ref().is_some_and(|frozen| self.gives_other_checks(&frozen.loaded)) {
            return false;
        }
        let prompt = recorded_prompt(self.loaded, found).read_text();
        match (frozen, prompt.filter(|text| !text.trim().is_empty())) {
            (Some(frozen), Some(prompt)) => {
                found.state.has_completed(&frozen.policy.task_digest(&prompt).await)
            }
            _ => true,
        }
    }

    /// Returns why the command line asks for another task than that of an unfinished run: its text or its
    /// checks are others. Whoever edits a file instead may correct the prompt of a run that is resumed.
    fn find_other_task(self, found: &StoredRun) -> Option<&'static str> {
        let frozen = self.load_frozen_config(&found.run)?;
        let text = task_text(self.loaded).filter(|_| self.gives("run.prompt_text"));
        if text.is_some() && text != task_text(&frozen) {
            return Some(OTHER_TEXT);
        }
        self.gives_other_checks(&frozen).then_some(OTHER_CHECKS)
    }

    /// Returns whether the command line names other checks than those that a run began with, or protects more.
    /// What is protected without being named depends on the files that were there.
    fn gives_other_checks(self, frozen: &LoadedConfig) -> bool {
        let checks = |loaded: &LoadedConfig| -> Vec<(String, Option<serde_json::Value>)> {
            let validators = loaded.config.validators.iter();
            validators
                .map(|check| (check.kind.clone(), check.config.get("program").cloned()))
                .collect()
        };
        let is_protected = |glob: &String| {
            frozen.config.validators.iter().any(|check| {
                let globs = check.config.get("protect").and_then(serde_json::Value::as_array);
                globs.is_some_and(|globs| globs.iter().any(|known| known == glob.as_str()))
            })
        };
        self.gives("validator")
            && (checks(self.loaded) != checks(frozen) || !self.protect.iter().all(is_protected))
    }

    /// Whether this part of the task is given on the command line. What a plan says is in a file, which the agent
    /// can edit.
    fn gives(self, key: &str) -> bool {
        let has_file = self.loaded.configuration().is_some() || self.loaded.task().is_some();
        !has_file || self.loaded.is_given_outside_files(key)
    }
}

/// Returns the prompt of a configuration, with what was recorded of it.
fn recorded_prompt(loaded: &LoadedConfig, found: &StoredRun) -> PromptSource {
    PromptSource::recorded(&loaded.config, &found.state.identities, PromptPlace::locate)
}

/// Refuses the journal of another workspace.
pub(super) fn verify_workspace(
    found: &StoredRun,
    workspace: &Path,
    layout: &Layout,
) -> Result<(), StateError> {
    let started = found.state.started.as_ref().map(|started| started.workspace.as_str());
    // It was moved here; a copy in the place of what was moved is another folder, which is refused as such, as is one in whose
    // place another was accepted.
    let is_moved = || {
        let is_known = |owner: Owner| {
            owner.workspace().is_some_and(|known| known == workspace)
                || identity_of(workspace).is_some_and(|folder| owner.has_succeeded(folder))
        };
        location::is_pinned_folder(&found.state.identities, workspace)
            || Owner::read(layout).ok().flatten().is_some_and(is_known)
    };
    if started.is_some_and(|started| Path::new(started) != workspace) && !is_moved() {
        let problem = format!(
            "belongs to the workspace {}, not to {}; begin a new run with `run --restart`",
            started.unwrap_or_default(),
            workspace.display()
        );
        return Err(StateError::Damaged { path: layout.root().to_owned(), problem });
    }
    Ok(())
}

/// Returns the text of a task, if the configuration itself has it.
fn task_text(loaded: &LoadedConfig) -> Option<&str> {
    loaded.config.run.prompt_text.as_deref().map(str::trim)
}

pub(super) fn load_frozen_config(layout: &Layout, run: &str) -> Option<LoadedConfig> {
    let text = Some(read_run_config(layout, run).ok()?);
    let sources = Sources { file: layout.config(run), text, ..Sources::default() };
    config::load(&sources).ok()
}

/// Removes what a killed start of a run that a new one replaces has left, unless nothing is to be changed. Returns
/// its artefacts.
pub(super) fn replace_run(found: &StoredRun, workspace: &Path, is_dry: bool) -> Vec<String> {
    if !is_dry {
        remove_scratch_dirs(std::slice::from_ref(&found.run));
    }
    inherit_artefacts(found, workspace)
}

/// Returns what validators left in the run before that is still there: it is no more a part of the work now.
/// What was added to git since then is.
fn inherit_artefacts(found: &StoredRun, workspace: &Path) -> Vec<String> {
    let artefacts = found.state.workspace.artefacts.iter();
    let paths = artefacts.filter_map(|path| unescape(path)).collect();
    find_untracked(workspace, paths).iter().map(|path| escape(path)).collect()
}
