//! The configuration of a command, and the location of its state.

use std::collections::BTreeMap;
use std::fs::File;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use ralph_orchestrator_config::{self as config, LoadedConfig, Sources, foreign_variables};
use ralph_orchestrator_engine::{
    ReplacedWorkspace, layout_of_new_run, record_move, state_layout, states_dir, verify_owner,
};
use ralph_orchestrator_shell_text::quote_word;
use ralph_orchestrator_store::{Disk, Layout, TrustStore, lock_workspace, state_dirs};

use crate::agent_places::agent_places;
use crate::compiled_in::CompiledIn;
use crate::config_sources::{CommandSources, Version, find_sources};
use crate::discovery::{ConfigFile, ConfigPlace};
use crate::error::CommandError;
use crate::overrides::Overrides;
use crate::trust::{JudgedFiles, Trust};
use crate::user_folders::{plugin_cache, state_home, variables};
use crate::{compiled_in, messages, tasks};

/// The loaded configuration of a command.
#[derive(Clone)]
pub struct Context {
    /// The file that it is, or would be.
    pub file: PathBuf,
    /// The configuration.
    pub loaded: LoadedConfig,
    /// The environment.
    pub vars: BTreeMap<String, String>,
    /// What the program has compiled in.
    pub compiled_in: Arc<CompiledIn>,
    /// What a person has not yet accepted of its files.
    pub judged: JudgedFiles,
}

impl Context {
    /// Returns the same once what was not accepted is.
    pub fn settled(mut self) -> Self {
        self.judged.unaccepted.clear();
        self.judged.links.clear();
        self
    }

    /// Reads the configuration, which has to be there: a file, a task on the command line, or what the run
    /// of this folder was begun with if it was begun without a file.
    pub fn load(file: &ConfigFile, overrides: impl Into<Overrides>) -> Result<Self, CommandError> {
        Self::load_with_sources(file, overrides).map(|(context, _)| context)
    }

    /// The same, with the sources that it was read from.
    pub fn load_with_sources(
        file: &ConfigFile,
        overrides: impl Into<Overrides>,
    ) -> Result<(Self, Sources), CommandError> {
        Self::load_version(file, overrides, Version::Current)
    }

    /// Reads the configuration as a person has last accepted it, for commands that are about a stored run.
    pub fn load_accepted(
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
        let overrides = overrides.into();
        let mut trust = Trust::new(&vars, &overrides.sets);
        let CommandSources { sources, file, judged } =
            find_sources(file, &vars, overrides, tasks::open, version)?;
        let loaded = config::load(&sources)?;
        warn_about_old_names(&loaded);
        let compiled_in = compiled_in::of_program();
        if let Some(text) = sources.user_text.as_ref().filter(|_| judged.unaccepted.is_empty()) {
            trust.follow_user_file(text);
        }
        let mut context = Self { file, loaded, vars, compiled_in, judged };
        let of_plugins = trust.judge_plugins(&context.loaded, &context.vars)?;
        context.judged.extend(of_plugins);
        Ok((context, sources))
    }

    /// What a configuration that is wrong says of where its run is; nothing may be started with it.
    pub fn load_run_paths(file: &ConfigFile, overrides: impl Into<Overrides>) -> Option<Self> {
        let vars = variables();
        let found =
            find_sources(file, &vars, overrides.into(), tasks::find, Version::Accepted).ok()?;
        let CommandSources { sources, file, judged } = found;
        let loaded = config::load_run_paths(&sources)?;
        Some(Self { file, loaded, vars, compiled_in: compiled_in::of_program(), judged })
    }

    /// Reads the configuration as it was accepted, with what was set on the command line.
    pub fn with(file: &ConfigFile, overrides: impl Into<Overrides>) -> Result<Self, CommandError> {
        Self::load_accepted(file, overrides)
    }

    /// Returns the configuration as a command has it that is given nothing else; `None` if it is wrong.
    pub fn load_plain(file: &ConfigFile) -> Option<LoadedConfig> {
        let overrides = Overrides::default();
        let found = find_sources(file, &variables(), overrides, tasks::find, Version::Accepted);
        config::load(&found.ok()?.sources).ok()
    }

    /// Reads it for a command that only reads or controls a stored run: that needs no more than the run's
    /// paths, so mistakes elsewhere are warnings.
    pub fn locate_run(
        file: &ConfigFile,
        overrides: impl Into<Overrides>,
    ) -> Result<Self, CommandError> {
        let (context, error) = Self::find_run(file, overrides)?;
        if let Some(error) = error {
            warn_about_mistakes(&error);
        }
        context.judged.report_changed();
        context.report_replaced();
        Ok(context)
    }

    /// Says that the run which is there began in another folder.
    fn report_replaced(&self) {
        if let Ok(Some(replaced)) = ReplacedWorkspace::find(&self.loaded, &self.state_home()) {
            messages::info(&format!("note: {}", replaced.error()));
        }
    }

    /// The same without a warning: the mistakes are returned beside the paths.
    pub fn find_run(
        file: &ConfigFile,
        overrides: impl Into<Overrides>,
    ) -> Result<(Self, Option<CommandError>), CommandError> {
        let overrides = overrides.into();
        let error = match Self::with(file, overrides.clone()) {
            Ok(context) => return Ok((context, None)),
            // What was typed just now is corrected just now.
            Err(error) if error.is_on_command_line() => return Err(error),
            Err(error) => error,
        };
        let given = Self::load_run_paths(file, overrides.clone());
        let has_state = |context: &Self| {
            state_layout(&context.loaded, &context.state_home())
                .is_ok_and(|layout| layout.root().exists())
        };
        let recorded = || Self::load_recorded_paths(file, overrides.clone());
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
        let CommandSources { sources, file, judged } = found;
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
    pub fn layout(&self) -> Result<Layout, CommandError> {
        let layout = state_layout(&self.loaded, &self.state_home())?;
        verify_owner(&self.loaded, &layout)?;
        record_move(&self.loaded, &layout, &self.state_home());
        Ok(layout)
    }

    /// The same for a run that is to begin or to be resumed. A new one needs nothing of a directory that was
    /// put in the place of its own.
    pub fn layout_of_run(&self, restart: bool) -> Result<Layout, CommandError> {
        match (restart, &self.loaded.config.state.dir) {
            (true, None) => Ok(layout_of_new_run(&self.loaded, &self.state_home())?),
            _ => self.layout(),
        }
    }

    /// The same, to be deleted: what was put in the place of its own can only be that.
    pub fn layout_to_delete(&self) -> Result<Layout, CommandError> {
        match self.loaded.config.state.dir {
            Some(_) => self.layout(),
            None => Ok(state_layout(&self.loaded, &self.state_home())?),
        }
    }

    /// Locks the workspace, outside of any run: none begins in it while what is returned is open.
    ///
    /// # Errors
    /// A run works in it, or somebody else has locked it.
    pub fn lock_workspace(&self) -> Result<Arc<File>, CommandError> {
        let folder = Arc::new(File::open(&self.loaded.config.run.workspace)?);
        Ok(lock_workspace(&Disk::default(), folder, &states_dir(&self.state_home()))?)
    }

    /// Returns where agents can put programs and what these read.
    pub fn agent_places(&self) -> Vec<PathBuf> {
        agent_places(&self.loaded, &self.vars, &self.trust_store())
    }

    /// Where private copies of plugin libraries are kept.
    pub fn plugin_cache(&self) -> PathBuf {
        plugin_cache(&self.vars)
    }

    /// What is recorded of where agents have worked, and of what people have accepted.
    pub fn trust_store(&self) -> TrustStore {
        TrustStore::new(&states_dir(&self.state_home()), Disk::default())
    }

    /// `$XDG_STATE_HOME`, or `~/.local/state`.
    pub fn state_home(&self) -> PathBuf {
        state_home(&self.vars)
    }
}

/// Returns the shell command that invokes this program for a configuration.
pub fn invocation(file: &ConfigFile) -> String {
    let mut words = "ralph-orchestrator".to_owned();
    if let ConfigPlace::Named(file) = &file.place
        && file != Path::new(crate::discovery::NAME)
    {
        words.push_str(&format!(" -c {}", quote_word(file)));
    }
    if let ConfigPlace::Missing { folders } = &file.place
        && let Some(folder) = folders.first()
        && std::env::current_dir().is_ok_and(|here| here != *folder)
    {
        words.push_str(&format!(" -w {}", quote_word(folder)));
        return words;
    }
    if let Some(task) = file.task() {
        words.push_str(&format!(" --task {}", quote_word(task)));
    }
    words
}

/// Says what is wrong with a configuration that is used only to find a run.
fn warn_about_mistakes(error: &CommandError) {
    let text = error.summary();
    let mut lines = text.lines();
    if let Some(first) = lines.next() {
        messages::info(&format!("warning: `run` would refuse the configuration: {first}"));
    }
    lines.for_each(|line| messages::info(&format!("warning: {line}")));
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
    messages::info(&format!(
        "warning: ignored variables of other programs: {}; the ones read here are \
         RALPH_TABLE__KEY",
        ralph_orchestrator_text::one_line(&names.join(", "), 400)
    ));
}

/// Says, once, which keys are called otherwise now.
fn warn_about_old_names(loaded: &LoadedConfig) {
    static WARNED: AtomicBool = AtomicBool::new(false);
    if loaded.warnings().is_empty() || WARNED.swap(true, Ordering::Relaxed) {
        return;
    }
    loaded.warnings().iter().for_each(|warning| messages::info(&format!("warning: {warning}")));
}

/// The message of commands without a run to show.
pub const NO_RUN: &str = "no run in this workspace yet";

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
