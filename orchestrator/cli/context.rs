//! The configuration of a command, and the location of its state.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::fs::File;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use ralph_orchestrator_config::{
    self as config, Flag, LoadedConfig, Sources, TaskSource, foreign_variables,
};
use ralph_orchestrator_core::engine::{state_layout, states_dir, verify_owner};
use ralph_orchestrator_core::store::{
    Disk, Layout, StateDir, lock_workspace, read_current_run, read_run_config, state_dirs,
};

use crate::args::SetArgs;
use crate::compiled_in::{self, CompiledIn};
use crate::discovery::{ConfigFile, ConfigPlace};
use crate::error::CommandError;
use crate::output;
use crate::trust::{self, JudgedFiles, Judgement, Trust, UnacceptedFile};
use crate::{presets, registry, tasks};

/// The loaded configuration of a command.
#[derive(Clone)]
pub(crate) struct Context {
    pub(crate) file: PathBuf,
    pub(crate) loaded: LoadedConfig,
    pub(crate) vars: BTreeMap<String, String>,
    pub(crate) compiled_in: Arc<CompiledIn>,
    /// What a person has not yet accepted of its files.
    pub(crate) judged: JudgedFiles,
}

/// Which version of a file that was changed where an agent could write it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Version {
    /// As it is: nothing is started with it before it is accepted.
    Current,
    /// As it was last accepted.
    Accepted,
}

/// Values of the configuration that come from the command line.
#[derive(Clone, Debug, Default)]
pub(crate) struct Overrides {
    pub(crate) sets: Vec<(String, String)>,
    pub(crate) flags: Vec<Flag>,
    /// What holds unless a file says something else.
    pub(crate) implied: Vec<(&'static str, String)>,
    /// What holds, beside that, where there is no file.
    pub(crate) implied_without_file: Vec<(&'static str, String)>,
    /// The table of files and variables that `flags` replace.
    pub(crate) replaced: Option<&'static str>,
    /// `flags` say what to do, so no file is needed.
    pub(crate) is_task: bool,
}

impl From<Vec<(String, String)>> for Overrides {
    fn from(sets: Vec<(String, String)>) -> Self {
        Self { sets, ..Self::default() }
    }
}

impl Context {
    /// Reads the configuration, which has to be there: a file, a task on the command line, or what the run
    /// of this folder was begun with if it was begun without a file.
    pub(crate) fn load(
        file: &ConfigFile,
        overrides: impl Into<Overrides>,
    ) -> Result<Self, CommandError> {
        Self::load_with_sources(file, overrides).map(|(context, _)| context)
    }

    /// The same, with the sources that it was read from.
    pub(crate) fn load_with_sources(
        file: &ConfigFile,
        overrides: impl Into<Overrides>,
    ) -> Result<(Self, Sources), CommandError> {
        Self::load_version(file, overrides, Version::Current)
    }

    /// Reads the configuration as a person has last accepted it, for commands that are about a stored run.
    pub(crate) fn load_accepted(
        file: &ConfigFile,
        overrides: impl Into<Overrides>,
    ) -> Result<Self, CommandError> {
        Self::load_version(file, overrides, Version::Accepted).map(|(context, _)| context)
    }

    fn load_version(
        file: &ConfigFile,
        overrides: impl Into<Overrides>,
        version: Version,
    ) -> Result<(Self, Sources), CommandError> {
        let vars = variables();
        warn_about_foreign_variables(&vars);
        let Found { sources, file, judged } =
            find_sources(file, &vars, overrides.into(), tasks::open, version)?;
        let loaded = config::load(&sources)?;
        let compiled_in = compiled_in::of_program();
        Ok((Self { file, loaded, vars, compiled_in, judged }, sources))
    }

    /// What a configuration that is wrong says of where its run is; nothing may be started with it.
    pub(crate) fn load_run_paths(
        file: &ConfigFile,
        overrides: impl Into<Overrides>,
    ) -> Option<Self> {
        let vars = variables();
        let found =
            find_sources(file, &vars, overrides.into(), tasks::find, Version::Accepted).ok()?;
        let Found { sources, file, judged } = found;
        let loaded = config::load_run_paths(&sources)?;
        Some(Self { file, loaded, vars, compiled_in: compiled_in::of_program(), judged })
    }

    /// Reads the configuration as it was accepted, with what was set on the command line.
    pub(crate) fn with(file: &ConfigFile, sets: &SetArgs) -> Result<Self, CommandError> {
        Self::load_accepted(file, sets.sets.clone())
    }

    /// Returns the configuration as a command has it that is given nothing else; `None` if it is wrong.
    pub(crate) fn load_plain(file: &ConfigFile) -> Option<LoadedConfig> {
        let overrides = Overrides::default();
        let found = find_sources(file, &variables(), overrides, tasks::find, Version::Accepted);
        config::load(&found.ok()?.sources).ok()
    }

    /// Reads it for a command that only reads or controls a stored run: that needs no more than the run's
    /// paths, so mistakes elsewhere are warnings.
    pub(crate) fn locate_run(file: &ConfigFile, sets: &SetArgs) -> Result<Self, CommandError> {
        let (context, error) = Self::find_run(file, sets)?;
        if let Some(error) = error {
            warn_about_mistakes(&error);
        }
        for changed in &context.judged.changed {
            output::info(&format!(
                "note: {} was changed where an agent could write it; this is the run by what was accepted",
                changed.display()
            ));
        }
        Ok(context)
    }

    /// The same without a warning: the mistakes are returned beside the paths.
    pub(crate) fn find_run(
        file: &ConfigFile,
        sets: &SetArgs,
    ) -> Result<(Self, Option<CommandError>), CommandError> {
        let error = match Self::with(file, sets) {
            Ok(context) => return Ok((context, None)),
            // What was typed just now is corrected just now.
            Err(error) if error.is_on_command_line() => return Err(error),
            Err(error) => error,
        };
        let given = Self::load_run_paths(file, sets.sets.clone());
        let has_state = |context: &Self| {
            state_layout(&context.loaded, &context.state_home())
                .is_ok_and(|layout| layout.root().exists())
        };
        let recorded = || Self::load_recorded_paths(file, sets.sets.clone());
        let found = match given {
            Some(context) if has_state(&context) => Some(context),
            // What never was a task has no paths.
            _ if error.is_no_task() => None,
            // The mistake may be in the paths themselves, or keep the file from being read at all.
            given => recorded().or(given),
        };
        match found {
            Some(context) => Ok((context, Some(error))),
            None => Err(error),
        }
    }

    /// The paths that were recorded when the run of this configuration file began. `None` if there is no
    /// such run, or more than one.
    fn load_recorded_paths(file: &ConfigFile, overrides: impl Into<Overrides>) -> Option<Self> {
        let vars = variables();
        let found =
            find_sources(file, &vars, overrides.into(), tasks::find, Version::Accepted).ok()?;
        let Found { sources, file, judged } = found;
        let configuration = file.canonicalize().ok()?;
        let mut states = state_dirs(&states_dir(&state_home(&vars)));
        let task = sources.task.as_ref().map(|task| task.id.as_str());
        states.retain(|state| {
            state.owner.configuration().as_ref() == Some(&configuration)
                && state.owner.task() == task
        });
        let [state] = states.as_slice() else { return None };
        let workspace = state.owner.workspace()?;
        let loaded = config::run_paths_at(&sources, &workspace, state.layout.root())?;
        Some(Self { file, loaded, vars, compiled_in: compiled_in::of_program(), judged })
    }

    /// Where the state of its run lies.
    pub(crate) fn layout(&self) -> Result<Layout, CommandError> {
        let layout = state_layout(&self.loaded, &self.state_home())?;
        verify_owner(&self.loaded, &layout)?;
        Ok(layout)
    }

    /// The same for a run that is to begin or to be resumed. A new one needs nothing of a directory that was
    /// put in the place of its own.
    pub(crate) fn layout_of_run(&self, restart: bool) -> Result<Layout, CommandError> {
        if restart { self.layout_to_delete() } else { self.layout() }
    }

    /// The same, to be deleted: what was put in the place of its own can only be that.
    pub(crate) fn layout_to_delete(&self) -> Result<Layout, CommandError> {
        match self.loaded.config.state.dir {
            Some(_) => self.layout(),
            None => Ok(state_layout(&self.loaded, &self.state_home())?),
        }
    }

    /// Locks the workspace, outside of any run: none begins in it while what is returned is open.
    ///
    /// # Errors
    /// A run works in it, or somebody else has locked it.
    pub(crate) fn lock_workspace(&self) -> Result<Arc<File>, CommandError> {
        let folder = Arc::new(File::open(&self.loaded.config.run.workspace)?);
        Ok(lock_workspace(&Disk::default(), folder, &states_dir(&self.state_home()))?)
    }

    /// Where private copies of plugin libraries are kept.
    pub(crate) fn plugin_cache(&self) -> PathBuf {
        plugin_cache(&self.vars)
    }

    /// `$XDG_STATE_HOME`, or `~/.local/state`.
    pub(crate) fn state_home(&self) -> PathBuf {
        state_home(&self.vars)
    }
}

/// Returns the shell command that invokes this program for a configuration.
pub(crate) fn invocation(file: &ConfigFile) -> String {
    let mut words = "ralph-orchestrator".to_owned();
    if let ConfigPlace::Named(file) = &file.place
        && file != Path::new(crate::discovery::NAME)
    {
        words.push_str(&format!(" -c {}", shell_word(file)));
    }
    if let ConfigPlace::Missing { folders } = &file.place
        && let Some(folder) = folders.first()
        && std::env::current_dir().is_ok_and(|here| here != *folder)
    {
        words.push_str(&format!(" -w {}", shell_word(folder)));
        return words;
    }
    if let Some(task) = file.task() {
        words.push_str(&format!(" --task {}", shell_word(task)));
    }
    words
}

/// Returns a word as a shell needs it.
pub(crate) fn shell_word(word: impl AsRef<OsStr>) -> String {
    let text = word.as_ref().to_string_lossy();
    let is_plain = |letter: char| letter.is_ascii_alphanumeric() || "/._-+,@%".contains(letter);
    if text.chars().all(is_plain) {
        return text.into_owned();
    }
    format!("'{}'", text.replace('\'', r"'\''"))
}

/// Where a configuration is read from.
struct Found {
    sources: Sources,
    /// The file that it is, or would be.
    file: PathBuf,
    judged: JudgedFiles,
}

/// Where to read the configuration from.
fn find_sources(
    file: &ConfigFile,
    vars: &BTreeMap<String, String>,
    overrides: Overrides,
    open_task: fn(&Path, &str) -> Result<TaskSource, CommandError>,
    version: Version,
) -> Result<Found, CommandError> {
    let Overrides { sets, flags, mut implied, implied_without_file, replaced, is_task } = overrides;
    let mut trust = Trust::new(vars, &sets);
    let mut judged = JudgedFiles::default();
    let mut sources = Sources {
        file: std::path::absolute(file.path())?,
        text: None,
        user_file: user_file(vars),
        user_text: None,
        vars: vars.clone(),
        sets,
        flags,
        implied: Vec::new(),
        replaced,
        without_file: None,
        task: None,
        defaults: registry::config_defaults(),
    };
    if let Some(user_file) = &sources.user_file {
        sources.user_text = choose_text(&trust, user_file, version, &mut judged)?;
        if judged.unaccepted.is_empty()
            && let Some(text) = &sources.user_text
        {
            trust.follow_user_file(text);
        }
    }
    let mut path = sources.file.clone();
    let is_gone = file.is_named() && std::fs::symlink_metadata(&sources.file).is_err();
    let recorded = is_gone.then(|| recorded_config(&sources.file, file.task(), vars)).flatten();
    if let Some((config, text)) = recorded {
        sources.without_file = sources.file.parent().map(Path::to_owned);
        (sources.file, sources.text) = (config, Some(text));
    } else if let ConfigPlace::Missing { folders } = &file.place {
        let here = folders.first().cloned().unwrap_or_default();
        if let Some(name) = file.task() {
            let folder = tasks::project(folders);
            path = folder.join(crate::discovery::NAME);
            (sources.file, sources.without_file) = (PathBuf::new(), Some(folder.clone()));
            sources.task = Some(open_task(&workspace(&sources), name)?);
            match stored_config(&folder, vars, sources.task.clone()) {
                // So it is resumed with the agent and the limits that it began with.
                Some((config, text)) => (sources.file, sources.text) = (config, Some(text)),
                None => implied.extend(implied_without_file),
            }
        } else if is_task {
            implied.extend(implied_without_file);
            (sources.file, sources.without_file) = (PathBuf::new(), Some(here));
        } else {
            let stored = |folder: &PathBuf| {
                stored_config(folder, vars, None)
                    .or_else(|| recorded_config(&folder.join(crate::discovery::NAME), None, vars))
            };
            let kept = folders.iter().find_map(|folder| Some((stored(folder)?, folder)));
            let ((config, text), folder) = kept.ok_or_else(|| file.missing())?;
            path = folder.join(crate::discovery::NAME);
            (sources.file, sources.without_file) = (config, Some(folder.clone()));
            sources.text = Some(text);
        }
    } else {
        sources.text = choose_text(&trust, &sources.file, version, &mut judged)?;
    }
    if let Some(name) = file.task() {
        if sources.task.is_none() {
            sources.task = Some(open_task(&workspace(&sources), name)?);
        }
        implied.insert(0, ("preset", presets::PURE_LOOP.to_owned()));
    }
    if let Some(task) = sources.task.as_ref().filter(|_| version == Version::Current) {
        judged.add(trust.judge(task.plan.path(), task.plan.toml())?);
    }
    sources.implied = implied;
    Ok(Found { sources, file: path, judged })
}

/// Returns the text that is read in the place of a file; nothing where the file itself is to say why it cannot be.
fn choose_text(
    trust: &Trust,
    path: &Path,
    version: Version,
    judged: &mut JudgedFiles,
) -> Result<Option<String>, CommandError> {
    let Some(text) = trust::read(path) else { return Ok(None) };
    let judgement = trust.judge(path, text.clone())?;
    if version == Version::Accepted
        && let Judgement::Unaccepted(UnacceptedFile { accepted: Some(accepted), .. }) = judgement
    {
        judged.changed.push(path.to_owned());
        return Ok(Some(accepted));
    }
    judged.add(judgement);
    Ok(Some(text))
}

/// Returns the configuration that is stored with the run that this file, which is gone, began: the run goes on with that.
fn recorded_config(
    file: &Path,
    task: Option<&str>,
    vars: &BTreeMap<String, String>,
) -> Option<(PathBuf, String)> {
    let folder = file.parent()?.canonicalize().ok()?;
    let known = folder.join(file.file_name()?);
    let is_its = |state: &StateDir| {
        let owner = &state.owner;
        owner.configuration().as_ref() == Some(&known)
            && owner.distinct_configuration().is_none()
            && owner.task() == task
    };
    let state = state_dirs(&states_dir(&state_home(vars))).into_iter().find(is_its)?;
    let run = state.run()?;
    Some((state.layout.config(&run), read_run_config(&state.layout, &run).ok()?))
}

/// Returns the folder that has the tasks of a configuration, which need not be right otherwise.
pub(crate) fn folder_of_tasks(file: &ConfigFile, sets: &SetArgs) -> Result<PathBuf, CommandError> {
    let vars = variables();
    let mut sources = Sources {
        file: std::path::absolute(file.path())?,
        user_file: user_file(&vars),
        sets: sets.sets.clone(),
        defaults: registry::config_defaults(),
        ..Sources::default()
    };
    sources.vars = vars;
    if let ConfigPlace::Missing { folders } = &file.place {
        let folder = tasks::project(folders);
        (sources.file, sources.without_file) = (PathBuf::new(), Some(folder));
    }
    Ok(workspace(&sources))
}

/// Returns the workspace; where the sources do not even say that, the folder of the configuration.
fn workspace(sources: &Sources) -> PathBuf {
    if let Some(loaded) = config::load_run_paths(sources) {
        return loaded.config.run.workspace;
    }
    let folder = sources.without_file.as_deref().or_else(|| sources.file.parent());
    folder.unwrap_or(Path::new(".")).to_owned()
}

/// Returns the configuration that was kept with the run of this folder, which was begun without a file: where it lies,
/// and its text with all secrets.
fn stored_config(
    folder: &Path,
    vars: &BTreeMap<String, String>,
    task: Option<TaskSource>,
) -> Option<(PathBuf, String)> {
    let sources = Sources {
        user_file: user_file(vars),
        vars: vars.clone(),
        without_file: Some(folder.to_owned()),
        task,
        defaults: registry::config_defaults(),
        ..Sources::default()
    };
    let layout = state_layout(&config::load_run_paths(&sources)?, &state_home(vars)).ok()?;
    let found = read_current_run(&layout, |_| {}).ok()??;
    Some((layout.config(&found.run), read_run_config(&layout, &found.run).ok()?))
}

/// Says what is wrong with a configuration that is used only to find a run.
fn warn_about_mistakes(error: &CommandError) {
    let text = error.summary();
    let mut lines = text.lines();
    if let Some(first) = lines.next() {
        output::info(&format!("warning: `run` would refuse the configuration: {first}"));
    }
    lines.for_each(|line| output::info(&format!("warning: {line}")));
}

/// Names, once, the variables that are not ours although they begin like ours.
fn warn_about_foreign_variables(vars: &BTreeMap<String, String>) {
    static WARNED: AtomicBool = AtomicBool::new(false);
    let foreign = foreign_variables(vars);
    if foreign.is_empty() || WARNED.swap(true, Ordering::Relaxed) {
        return;
    }
    let name = |variable: &config::ForeignVariable| match &variable.meant {
        Some(meant) => format!("{} (did you mean {meant}?)", variable.name),
        None => variable.name.clone(),
    };
    let names: Vec<String> = foreign.iter().map(name).collect();
    output::info(&format!(
        "warning: ignored variables of other programs: {}; the ones read here are \
         RALPH_TABLE__KEY",
        crate::render::text::one_line(&names.join(", "), 400)
    ));
}

/// The environment, without what is no text.
pub(crate) fn variables() -> BTreeMap<String, String> {
    std::env::vars_os()
        .filter_map(|(name, value)| Some((name.into_string().ok()?, value.into_string().ok()?)))
        .collect()
}

/// Below `$XDG_CACHE_HOME`, or `~/.cache`.
pub(crate) fn plugin_cache(vars: &BTreeMap<String, String>) -> PathBuf {
    cache_home(vars).join("ralph-orchestrator/plugins")
}

/// `$XDG_CACHE_HOME`, or `~/.cache`.
pub(crate) fn cache_home(vars: &BTreeMap<String, String>) -> PathBuf {
    home_of(vars, "XDG_CACHE_HOME", ".cache")
}

/// `$XDG_CONFIG_HOME`, or `~/.config`.
pub(crate) fn config_home(vars: &BTreeMap<String, String>) -> PathBuf {
    home_of(vars, "XDG_CONFIG_HOME", ".config")
}

pub(crate) fn user_file(vars: &BTreeMap<String, String>) -> Option<PathBuf> {
    let file = config_home(vars).join("ralph-orchestrator/config.toml");
    file.exists().then_some(file)
}

/// The variable of the folder for state.
pub(crate) const STATE_HOME: &str = "XDG_STATE_HOME";

pub(crate) fn state_home(vars: &BTreeMap<String, String>) -> PathBuf {
    home_of(vars, STATE_HOME, ".local/state")
}

/// An XDG folder: the variable if it is an absolute path, else the folder below the home directory.
pub(crate) fn home_of(vars: &BTreeMap<String, String>, name: &str, below: &str) -> PathBuf {
    vars.get(name)
        .map(PathBuf::from)
        .filter(|path| path.is_absolute())
        .or_else(|| etcetera::home_dir().ok().map(|home| home.join(below)))
        .unwrap_or_else(|| std::env::temp_dir().join("ralph-orchestrator-state"))
}

/// The message of commands without a run to show.
pub(crate) const NO_RUN: &str = "no run in this workspace yet";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_can_be_copied_into_a_shell() {
        let program = |file: &str| invocation(&ConfigFile::named(file.into()));
        assert_eq!(program("ralph.toml"), "ralph-orchestrator");
        assert_eq!(program("a/b.toml"), "ralph-orchestrator -c a/b.toml");
        assert_eq!(program("it's $x.toml"), r"ralph-orchestrator -c 'it'\''s $x.toml'");
        let of_task = ConfigFile::named("b.toml".into()).with_task(Some("ralph-1".to_owned()));
        assert_eq!(invocation(&of_task), "ralph-orchestrator -c b.toml --task ralph-1");
    }
}
