//! Where the configuration of a command is read from: files, as they are or as they were accepted, or what is stored with a
//! run.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use ralph_orchestrator_config::{self as config, Sources, TaskSource};
use ralph_orchestrator_engine::{state_layout, states_dir};
use ralph_orchestrator_safe_fs::real_path;
use ralph_orchestrator_store::{StateDir, read_current_run, read_run_config, state_dirs};
use toml::{Table, Value};

use crate::defaults::config_defaults;
use crate::discovery::{ConfigFile, ConfigPlace};
use crate::error::CommandError;
use crate::overrides::Overrides;
use crate::trust::{JudgedFiles, Judgement, Trust, UnacceptedFile};
use crate::user_folders::{state_home, user_file, variables};
use crate::{presets, tasks, trust};

/// Which version of a file that was changed where an agent could write it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Version {
    /// As it is: nothing is started with it before it is accepted.
    Current,
    /// As it was last accepted.
    Accepted,
}

/// Where a configuration is read from.
pub struct CommandSources {
    /// The sources.
    pub sources: Sources,
    /// The file that it is, or would be.
    pub file: PathBuf,
    /// What became of each file.
    pub judged: JudgedFiles,
}

/// Where to read the configuration from.
pub fn find_sources(
    file: &ConfigFile,
    vars: &BTreeMap<String, String>,
    overrides: Overrides,
    open_task: fn(&Path, &str) -> Result<TaskSource, CommandError>,
    version: Version,
) -> Result<CommandSources, CommandError> {
    let Overrides { sets, flags, mut implied, implied_without_file, replaced, is_task } = overrides;
    let mut trust = Trust::new(vars, &sets);
    let mut judged = JudgedFiles::default();
    let mut sources = Sources {
        file: std::path::absolute(file.path())?,
        text: None,
        user_file: Some(user_file(vars)),
        user_text: None,
        vars: vars.clone(),
        sets,
        flags,
        implied: Vec::new(),
        replaced,
        without_file: None,
        is_gone: false,
        task: None,
        defaults: config_defaults(),
    };
    if let Some(user_file) = &sources.user_file {
        sources.user_text = choose_text(&trust, user_file, version, &mut judged)?;
        if judged.unaccepted.is_empty()
            && judged.links.is_empty()
            && let Some(text) = &sources.user_text
        {
            trust.follow_user_file(text);
        }
    }
    let mut path = sources.file.clone();
    let is_gone = file.is_named() && std::fs::metadata(&sources.file).is_err();
    let recorded = is_gone.then(|| recorded_config(&sources.file, file.task(), vars)).flatten();
    if let Some((config, text)) = recorded {
        sources.without_file = sources.file.parent().map(Path::to_owned);
        (sources.file, sources.text) = (config, Some(text));
    } else if let ConfigPlace::Missing { folders } = &file.place {
        let (folder, is_new) = begin_without_file(&mut sources, file, folders, is_task, open_task)?;
        path = folder.join(crate::discovery::NAME);
        if is_new {
            implied.extend(implied_without_file);
        } else if !is_task && recorded_config(&path, file.task(), vars).is_some() {
            follow_accepted(&trust, &path, &mut sources, &mut judged)?;
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
        let (path, given) = (task.plan.path(), task.plan.given_toml());
        // The text of a plan is no configuration.
        if !given.is_empty() || trust.accepted_text(path)?.is_some() {
            judged.add(trust.judge(path, given)?);
        }
    }
    sources.implied = implied;
    Ok(CommandSources { sources, file: path, judged })
}

/// Has the sources be those of a folder without a file: what is stored with its run, or nothing. Returns the folder, and
/// whether nothing is stored.
fn begin_without_file(
    sources: &mut Sources,
    file: &ConfigFile,
    folders: &[PathBuf],
    is_task: bool,
    open_task: fn(&Path, &str) -> Result<TaskSource, CommandError>,
) -> Result<(PathBuf, bool), CommandError> {
    let vars = sources.vars.clone();
    let begin = |sources: &mut Sources, folder: &PathBuf| {
        (sources.file, sources.without_file) = (PathBuf::new(), Some(folder.clone()));
    };
    let (folder, stored) = if let Some(name) = file.task() {
        let folder = tasks::project(folders);
        begin(sources, &folder);
        sources.task = Some(open_task(&workspace(sources), name)?);
        // So it is resumed with the agent and the limits that it began with.
        let stored = stored_config(&folder, &vars, sources.task.clone());
        (folder, stored)
    } else if is_task {
        (folders.first().cloned().unwrap_or_default(), None)
    } else {
        let stored = |folder: &PathBuf| {
            stored_config(folder, &vars, None)
                .or_else(|| recorded_config(&folder.join(crate::discovery::NAME), None, &vars))
        };
        let found = folders.iter().find_map(|folder| Some((folder.clone(), stored(folder)?)));
        let (folder, stored) = found.ok_or_else(|| file.missing())?;
        (folder, Some(stored))
    };
    begin(sources, &folder);
    let is_new = stored.is_none();
    if let Some((config, text)) = stored {
        (sources.file, sources.text) = (config, Some(text));
    }
    Ok((folder, is_new))
}

/// Returns a stored configuration with the paths of its workspace where that is now, whatever has its old place: all of
/// them are absolute.
fn relocated(text: String, folder: &Path) -> String {
    let Ok(mut table) = text.parse::<Table>() else { return text };
    let workspace = table.get("run").and_then(|run| run.get("workspace")).and_then(Value::as_str);
    let Some(before) = workspace.map(PathBuf::from) else { return text };
    let Some(now) = folder.to_str().filter(|_| before != folder) else { return text };
    table.iter_mut().for_each(|(_, value)| relocate(value, &before, now));
    toml::to_string(&table).unwrap_or(text)
}

fn relocate(value: &mut Value, before: &Path, now: &str) {
    match value {
        Value::String(text) => {
            if let Ok(inside) = Path::new(text.as_str()).strip_prefix(before) {
                let moved = Path::new(now).join(inside);
                *text = moved.to_string_lossy().trim_end_matches('/').to_owned();
            }
        }
        Value::Array(items) => items.iter_mut().for_each(|item| relocate(item, before, now)),
        Value::Table(table) => {
            table.iter_mut().for_each(|(_, value)| relocate(value, before, now));
        }
        _ => {}
    }
}

/// Has the sources be what was accepted last of a file that is gone, where its run goes on: a person may have changed more
/// of it than what is stored with the run.
fn follow_accepted(
    trust: &Trust,
    path: &Path,
    sources: &mut Sources,
    judged: &mut JudgedFiles,
) -> Result<(), CommandError> {
    if let Some(text) = trust.accepted_text(path)? {
        (sources.file, sources.text, sources.without_file) = (path.to_owned(), Some(text), None);
        sources.is_gone = true;
    }
    judged.changed.push(path.to_owned());
    Ok(())
}

/// Returns the text that is read in the place of a file; nothing where the file itself is to say why it cannot be.
fn choose_text(
    trust: &Trust,
    path: &Path,
    version: Version,
    judged: &mut JudgedFiles,
) -> Result<Option<String>, CommandError> {
    if let Some(link) = trust.find_link(path)? {
        if version == Version::Accepted
            && let Some(accepted) = trust.accepted_text_at(&link.path)?
        {
            judged.changed.push(path.to_owned());
            return Ok(Some(accepted));
        }
        judged.links.push(link);
    }
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
    // Its folder may be gone as well.
    let folder = real_path(file.parent()?);
    let known = folder.join(file.file_name()?);
    let is_its = |state: &StateDir| {
        let owner = &state.owner;
        owner.configuration().as_ref() == Some(&known)
            && owner.distinct_configuration().is_none()
            && owner.task() == task
    };
    let state = state_dirs(&states_dir(&state_home(vars))).into_iter().find(is_its)?;
    let run = state.run()?;
    let text = relocated(read_run_config(&state.layout, &run).ok()?, &state.owner.workspace()?);
    Some((state.layout.config(&run), text))
}

/// Returns the folder that has the tasks of a configuration, which need not be right otherwise.
pub fn folder_of_tasks(
    file: &ConfigFile,
    sets: &[(String, String)],
) -> Result<PathBuf, CommandError> {
    let vars = variables();
    let mut sources = Sources {
        file: std::path::absolute(file.path())?,
        user_file: Some(user_file(&vars)),
        sets: sets.to_owned(),
        defaults: config_defaults(),
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
        user_file: Some(user_file(vars)),
        vars: vars.clone(),
        without_file: Some(folder.to_owned()),
        task,
        defaults: config_defaults(),
        ..Sources::default()
    };
    let layout = state_layout(&config::load_run_paths(&sources)?, &state_home(vars)).ok()?;
    let found = read_current_run(&layout, |_| {}).ok()??;
    let text = relocated(read_run_config(&layout, &found.run).ok()?, folder);
    Some((layout.config(&found.run), text))
}
