//! Which files decide what runs: where an agent could have written one since a person last accepted it, a change of it
//! is obeyed only once a person has accepted that.

mod differences;
mod links;
mod programs;
mod workspace;

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use ralph_orchestrator_config::{ConfigErrors, values_of};
use ralph_orchestrator_engine::states_dir;
use ralph_orchestrator_safe_fs::{StoppingLink, SymlinkPolicy, read_file, real_path};
use ralph_orchestrator_store::{AcceptedFile, AgentWork, Disk, StateError, TrustStore, state_dirs};
use ralph_orchestrator_text::shell_word;

use crate::context::Context;
use crate::discovery::ConfigFile;
use crate::error::CommandError;
use crate::overrides::Overrides;
use crate::plugins::Plugins;
use crate::run_above::find_run_above;
use crate::user_folders::{state_home, user_file};
use crate::{output, question, registry};

use differences::describe;

pub(crate) use links::refuse_link;
use links::settle_links;
pub(crate) use workspace::{accept_workspace, ask_about_workspace, find_replaced};

/// A larger file is no configuration.
const LARGEST: usize = 1 << 20;
/// Lines that are shown of a change.
const MOST_LINES: usize = 20;
/// What switches the question off for everything that a command reads.
const VARIABLE: &str = "RALPH_TRUST";
const ALWAYS: &str = "always";
const KEY: &str = "trust";
/// What is recorded in the place of a digest where a person has accepted that a file is gone.
const GONE: &str = "gone";

/// A version of a file that decides what runs.
#[derive(Clone, Debug)]
pub(crate) struct FileVersion {
    pub(crate) path: PathBuf,
    pub(crate) text: String,
}

/// A file that is not obeyed as it is.
#[derive(Clone, Debug)]
pub(crate) struct UnacceptedFile {
    pub(crate) now: FileVersion,
    /// What was accepted last; nothing if the file was never accepted.
    pub(crate) accepted: Option<String>,
    /// What was accepted that differs least from it.
    pub(crate) nearest: Option<String>,
}

/// What becomes of a file as it is.
#[derive(Clone, Debug)]
pub(crate) enum Judgement {
    /// It is obeyed: a person has accepted this.
    Accepted(FileVersion),
    /// Nobody but a person can have written it: whoever starts something with it accepts it.
    Acceptable(FileVersion),
    Unaccepted(UnacceptedFile),
}

/// The files of a configuration, by what becomes of them.
#[derive(Clone, Debug, Default)]
pub(crate) struct JudgedFiles {
    pub(crate) accepted: Vec<FileVersion>,
    pub(crate) acceptable: Vec<FileVersion>,
    pub(crate) unaccepted: Vec<UnacceptedFile>,
    /// Links to them that an agent could have made.
    pub(crate) links: Vec<StoppingLink>,
    /// Those that were changed, and were read as they were last accepted.
    pub(crate) changed: Vec<PathBuf>,
}

impl JudgedFiles {
    pub(crate) fn add(&mut self, judgement: Judgement) {
        match judgement {
            Judgement::Accepted(version) => self.accepted.push(version),
            Judgement::Acceptable(version) => self.acceptable.push(version),
            Judgement::Unaccepted(file) => self.unaccepted.push(file),
        }
    }

    pub(crate) fn extend(&mut self, other: Self) {
        self.accepted.extend(other.accepted);
        self.acceptable.extend(other.acceptable);
        self.unaccepted.extend(other.unaccepted);
        self.changed.extend(other.changed);
    }
}

/// Judges files by what is recorded of people and agents.
pub(crate) struct Trust {
    store: TrustStore,
    states: PathBuf,
    /// The user wants no questions.
    is_always: bool,
}

impl Trust {
    /// Returns the judge for this environment, and for what the command line sets.
    pub(crate) fn new(vars: &BTreeMap<String, String>, sets: &[(String, String)]) -> Self {
        let by_variable = vars.get(VARIABLE).is_some_and(|value| value == ALWAYS);
        let by_set = sets.iter().any(|(key, value)| key == KEY && value == ALWAYS);
        Self::in_state(&state_home(vars), by_variable || by_set)
    }

    /// Returns the judge that has its records in this folder for state.
    pub(crate) fn in_state(state_home: &Path, is_always: bool) -> Self {
        let states = states_dir(state_home);
        Self { store: TrustStore::new(&states, Disk::default()), states, is_always }
    }

    /// Asks nothing from now on if the user's own file, which is obeyed, says so.
    pub(crate) fn follow_user_file(&mut self, text: &str) {
        let value = values_of(text).and_then(|values| values.get(KEY).cloned());
        self.is_always = self.is_always || value.is_some_and(|value| value == "\"always\"");
    }

    /// Judges this text of a file.
    ///
    /// # Errors
    /// What is recorded is damaged.
    pub(crate) fn judge(&self, path: &Path, text: String) -> Result<Judgement, CommandError> {
        let now = FileVersion { path: identity(path), text };
        let accepted = self.store.accepted(&now.path)?;
        let digest = digest(&now.text);
        let mut versions = accepted.iter().flat_map(|accepted| &accepted.versions);
        if versions.any(|version| version.digest == digest) {
            return Ok(Judgement::Accepted(now));
        }
        let Some(work) = self.last_work(&now.path)? else { return Ok(Judgement::Acceptable(now)) };
        let is_acceptable = match &accepted {
            Some(accepted) => accepted.is_after(&work),
            None => is_older(&now.path, &work),
        };
        if is_acceptable || self.is_always {
            return Ok(Judgement::Acceptable(now));
        }
        let versions = accepted.iter().flat_map(|accepted| &accepted.versions);
        let nearest = differences::find_nearest(versions, &now.text);
        let accepted = accepted.and_then(AcceptedFile::newest_text);
        Ok(Judgement::Unaccepted(UnacceptedFile { now, accepted, nearest }))
    }

    /// Returns what was accepted of a file last.
    ///
    /// # Errors
    /// What is recorded is damaged.
    pub(crate) fn accepted_text(&self, path: &Path) -> Result<Option<String>, CommandError> {
        let accepted = self.store.accepted(&identity(path))?;
        Ok(accepted.and_then(AcceptedFile::newest_text))
    }

    /// The same of a file by the name that it had.
    pub(crate) fn accepted_text_at(&self, path: &Path) -> Result<Option<String>, CommandError> {
        Ok(self.store.accepted(path)?.and_then(AcceptedFile::newest_text))
    }

    /// Whether a file that a person has accepted is gone from where an agent could have deleted it.
    ///
    /// # Errors
    /// What is recorded is damaged.
    pub(crate) fn is_gone(&self, path: &Path) -> Result<bool, CommandError> {
        let known = identity(path);
        if fs::symlink_metadata(&known).is_ok() {
            return Ok(false);
        }
        let Some(accepted) = self.store.accepted(&known)? else { return Ok(false) };
        let is_given_up = accepted.versions.last().is_some_and(|version| version.digest == GONE);
        let work = self.last_work(&known)?;
        Ok(!is_given_up && work.is_some_and(|work| !accepted.is_after(&work)))
    }

    /// Records that a person accepts that a file is gone.
    ///
    /// # Errors
    /// It cannot be recorded.
    pub(crate) fn accept_gone(&self, path: &Path) -> Result<(), CommandError> {
        Ok(self.store.accept(&identity(path), GONE, "")?)
    }

    /// Judges a file by its name; `None` if it cannot be read as text, which whoever reads it reports.
    pub(crate) fn judge_file(&self, path: &Path) -> Result<Option<Judgement>, CommandError> {
        read(path).map(|text| self.judge(path, text)).transpose()
    }

    /// Whether the file appeared where agents work, and no person has ever accepted it.
    pub(crate) fn is_planted(&self, path: &Path) -> bool {
        let judged = self.judge_file(path).ok().flatten();
        matches!(judged, Some(Judgement::Unaccepted(UnacceptedFile { accepted: None, .. })))
    }

    /// Records that a person accepts these versions.
    ///
    /// # Errors
    /// They cannot be recorded.
    pub(crate) fn accept<'a>(
        &self,
        versions: impl IntoIterator<Item = &'a FileVersion>,
    ) -> Result<(), StateError> {
        versions.into_iter().try_for_each(|version| {
            self.store.accept(&version.path, &digest(&version.text), &version.text)
        })
    }

    /// Refuses what a run has started: an agent is no person.
    ///
    /// # Errors
    /// This process is below one that holds a run.
    pub(crate) fn refuse_from_below(&self) -> Result<(), CommandError> {
        let states = state_dirs(&self.states).into_iter();
        match find_run_above(&states.map(|state| state.layout).collect::<Vec<_>>()) {
            None => Ok(()),
            Some(pid) => {
                let message =
                    format!("a run's agent accepts no files (the run's process is {pid})");
                Err(CommandError::user(message).hinted("use another terminal"))
            }
        }
    }

    /// Accepts a file that a person has just had this program write; what an agent has written so is not accepted.
    ///
    /// # Errors
    /// It cannot be recorded.
    pub(crate) fn accept_own(&self, path: &Path, text: String) -> Result<(), CommandError> {
        if let Judgement::Unaccepted(file) = self.judge(path, text)?
            && self.refuse_from_below().is_ok()
        {
            self.accept([&file.now])?;
        }
        Ok(())
    }

    /// Where a link leads counts as well: either can have been written.
    fn last_work(&self, path: &Path) -> Result<Option<AgentWork>, CommandError> {
        let here = self.store.last_work(path)?;
        let target = path.canonicalize().ok().filter(|target| target != path);
        let there = target.map(|target| self.store.last_work(&target)).transpose()?.flatten();
        Ok(match (here, there) {
            (Some(one), Some(other)) => Some(one.latest(other)),
            (None, None) if self.store.has_record(path)? => None,
            (None, None) => self.has_run_around(path).then(AgentWork::unknown),
            (one, other) => one.or(other),
        })
    }

    /// Whether a run is known in whose workspace the file lies: that nothing is recorded of it does not mean that no agent
    /// has worked there.
    fn has_run_around(&self, path: &Path) -> bool {
        let states = state_dirs(&self.states).into_iter();
        let mut workspaces = states.filter(|state| state.layout.latch().exists());
        workspaces.any(|state| {
            state.owner.workspace().is_some_and(|workspace| path.starts_with(workspace))
        })
    }
}

/// Whether the file and where it leads were there, as they are, before any agent worked.
fn is_older(path: &Path, work: &AgentWork) -> bool {
    let is_older =
        |found: std::io::Result<fs::Metadata>| found.is_ok_and(|found| work.is_after(&found));
    is_older(fs::symlink_metadata(path)) && is_older(fs::metadata(path))
}

/// Returns the name under which a file is known: by the real path of its folder, and as it is called there.
fn identity(path: &Path) -> PathBuf {
    let absolute = std::path::absolute(path).unwrap_or_else(|_| path.to_owned());
    let folder = absolute.parent().and_then(|folder| folder.canonicalize().ok());
    match (folder, absolute.file_name()) {
        (Some(folder), Some(name)) => folder.join(name),
        _ => absolute,
    }
}

/// Returns what is the same for all texts that say the same.
fn digest(text: &str) -> String {
    let mut hasher = blake3::Hasher::new();
    match values_of(text) {
        Some(values) => values.iter().for_each(|(key, value)| {
            hasher.update(key.as_bytes()).update(b"\0").update(value.as_bytes()).update(b"\0");
        }),
        None => {
            hasher.update(b"text\0").update(text.as_bytes());
        }
    }
    hasher.finalize().to_hex().to_string()
}

pub(crate) fn read(path: &Path) -> Option<String> {
    String::from_utf8(read_file(path, LARGEST, SymlinkPolicy::Follow).ok()?).ok()
}

/// Reads the configuration for a command that starts what it names: as far as a person accepts it, now or before. A
/// change that only tightens is obeyed without a question.
///
/// # Errors
/// It is wrong, or not accepted; nothing is started.
pub(crate) fn load_to_start(
    file: &ConfigFile,
    overrides: impl Into<Overrides>,
) -> Result<Context, CommandError> {
    let context = load_for_run(file, overrides.into())?;
    accept_silently(&context)?;
    Ok(context)
}

/// The same for a run, which may still be refused for other reasons: [`accept_silently`] is its to call.
///
/// # Errors
/// As of [`load_to_start`].
pub(crate) fn load_for_run(
    file: &ConfigFile,
    overrides: Overrides,
) -> Result<Context, CommandError> {
    let sets = overrides.sets.clone();
    let Some(planted) = file.passed_over() else {
        return settle(Context::load(file, overrides)?, &sets);
    };
    if ask_about_planted(planted, &overrides)? {
        let found = ConfigFile::find(None)?.with_task(file.task().map(str::to_owned));
        return settle(Context::load(&found, overrides)?, &sets);
    }
    let context = Context::load(file, overrides)?;
    verify_place(file, planted, &context)?;
    settle(context, &sets)
}

/// Refuses to work elsewhere because the file of the folder in which a person is was passed over.
fn verify_place(file: &ConfigFile, planted: &Path, context: &Context) -> Result<(), CommandError> {
    let workspace = real_path(context.loaded.configured_workspace());
    if planted.parent().is_some_and(|folder| workspace.starts_with(real_path(folder))) {
        return Ok(());
    }
    let (shown, word) = (planted.display(), shell_word(planted));
    let other = match file.is_missing() {
        true => format!("-w {}", shell_word(&workspace)),
        false => format!("-c {}", shell_word(file.path())),
    };
    let message = format!(
        "{shown} appeared where an agent could write it, and is not accepted; without it this would be about {}: \
         nothing was started",
        workspace.display()
    );
    Err(CommandError::config(message).hinted(format!(
        "if it is yours, `ralph-orchestrator trust {word}` accepts it; `ralph-orchestrator {other} …` is about the other"
    )))
}

/// Records that whoever starts something with these files accepts what nobody but a person can have written.
///
/// # Errors
/// It cannot be recorded.
pub(crate) fn accept_silently(context: &Context) -> Result<(), StateError> {
    let trust = Trust::in_state(&state_home(&context.vars), false);
    let accepted = context.judged.accepted.iter();
    // What was accepted before its folder was moved is accepted where it is now, for copies of that.
    let moved = accepted.filter(|version| !trust.store.has_path(&version.path));
    trust.accept(context.judged.acceptable.iter().chain(moved))
}

/// Reads the configuration for a command that starts what it names only to look at it, such as a program to ask for its
/// version. Nothing is recorded but what a person answers.
///
/// # Errors
/// It is wrong, or not accepted; nothing is started.
pub(crate) fn load_to_look(
    file: &ConfigFile,
    overrides: impl Into<Overrides>,
) -> Result<Context, CommandError> {
    let overrides = overrides.into();
    let context = Context::load(file, overrides.clone())?;
    let trust = Trust::new(&context.vars, &overrides.sets);
    settle_links(&context, &trust)?;
    if context.judged.unaccepted.is_empty() {
        return Ok(context);
    }
    match find_tightened(&context) {
        Some(_) => Ok(context.settled()),
        None => ask(context, &trust),
    }
}

/// Asks on the terminal whether a file that has appeared shall be obeyed. Returns whether it is.
fn ask_about_planted(planted: &Path, overrides: &Overrides) -> Result<bool, CommandError> {
    let trust = Trust::new(&crate::user_folders::variables(), &overrides.sets);
    match trust.judge_file(planted)? {
        Some(Judgement::Unaccepted(unaccepted)) if question::is_possible() => {
            show(&unaccepted);
            confirm(&trust, std::slice::from_ref(&unaccepted))
        }
        _ => Ok(false),
    }
}

/// Has a person accept what is not accepted of a configuration that was read.
///
/// # Errors
/// It is not accepted; nothing is started.
pub(crate) fn settle(context: Context, sets: &[(String, String)]) -> Result<Context, CommandError> {
    let trust = Trust::new(&context.vars, sets);
    say_changed(&context);
    settle_links(&context, &trust)?;
    if context.judged.unaccepted.is_empty() {
        return Ok(context);
    }
    let Some(tightened) = find_tightened(&context) else {
        return ask(context, &trust);
    };
    if !tightened.is_empty() {
        let keys = tightened.join(", ");
        output::info(&format!("note: stricter than what was accepted: {keys}"));
    }
    trust.accept(context.judged.unaccepted.iter().map(|file| &file.now))?;
    Ok(context.settled())
}

/// Returns the keys by which the files are stricter than what was accepted of them, if that is all. Each is compared by
/// itself: what the command line replaces at this start is in force at the next.
fn find_tightened(context: &Context) -> Option<Vec<String>> {
    if context.loaded.task().is_some() {
        return None;
    }
    let own = user_file(&context.vars);
    let mut tightened = Vec::new();
    for file in &context.judged.unaccepted {
        // What runs is not compared by what the configuration says.
        if programs::key_of(&file.now).is_some() {
            return None;
        }
        let beneath = if file.now.path == identity(&own) { None } else { read(&own) };
        tightened.extend(differences::tightened(file, beneath)?);
    }
    Some(tightened)
}

/// Has a person accept on the terminal what is not accepted; without a terminal it is refused.
fn ask(context: Context, trust: &Trust) -> Result<Context, CommandError> {
    verify_kinds(&context)?;
    let unaccepted = &context.judged.unaccepted;
    if !question::is_possible() {
        return Err(refusal(unaccepted));
    }
    unaccepted.iter().for_each(show);
    match confirm(trust, unaccepted)? {
        true => Ok(context.settled()),
        false => Err(CommandError::config("not accepted: nothing was started")),
    }
}

/// Refuses what a configuration cannot name before anybody is asked to accept it. Nothing is started: what plugins have is
/// known only once they are.
fn verify_kinds(context: &Context) -> Result<(), CommandError> {
    let known = registry::unsupervised(&Plugins::none(&context.compiled_in));
    let (loaded, config) = (&context.loaded, &context.loaded.config);
    let is_of_plugin = |name: &str| {
        config.plugins.contains_key(name.split_once('/').map_or(name, |(plugin, _)| plugin))
    };
    let agents = config.agents.iter().map(|(name, agent)| (vec!["agents", name], agent));
    for (path, agent) in std::iter::once((vec!["agent"], &config.agent)).chain(agents) {
        let name = agent.adapter.as_str();
        if !known.agents.contains(name) && !is_of_plugin(name) {
            let path: Vec<_> = path.into_iter().chain(["adapter"]).map(str::to_owned).collect();
            let names = known.agents.names();
            let error = loaded.unknown_name_error(&path, name, "adapter", &names);
            return Err(ConfigErrors::from(error).into());
        }
    }
    for (index, validator) in config.validators.iter().enumerate() {
        let name = validator.kind.as_str();
        if !known.validators.contains(name) && !is_of_plugin(name) {
            let path = ["validator".to_owned(), index.to_string(), "kind".to_owned()];
            let names = known.validators.names();
            let error = loaded.unknown_name_error(&path, name, "validator", &names);
            return Err(ConfigErrors::from(error).into());
        }
    }
    Ok(())
}

/// Says which files were read as they were last accepted.
pub(crate) fn say_changed(context: &Context) {
    for changed in &context.judged.changed {
        let what = match fs::symlink_metadata(changed) {
            Ok(_) => "was changed where an agent could write it",
            Err(_) => "is gone",
        };
        output::info(&format!(
            "note: {} {what}; this is its run, by what was last accepted",
            changed.display()
        ));
    }
}

/// Asks on the terminal, and records the answer. Returns whether the files are accepted.
fn confirm(trust: &Trust, files: &[UnacceptedFile]) -> Result<bool, CommandError> {
    trust.refuse_from_below()?;
    let is_accepted = question::confirmed("accept this? [y/N] ")?;
    if is_accepted {
        trust.accept(files.iter().map(|file| &file.now))?;
    }
    Ok(is_accepted)
}

/// Shows what would be accepted.
pub(crate) fn show(file: &UnacceptedFile) {
    output::info(&headline(file));
    for line in describe(file, MOST_LINES) {
        output::info(&format!("  {line}"));
    }
}

fn headline(file: &UnacceptedFile) -> String {
    let path = file.now.path.display();
    if let Some(key) = programs::key_of(&file.now) {
        return format!("{key}: {path} was changed after an agent could write it:");
    }
    match file.accepted {
        Some(_) => format!("{path} was changed after an agent could write it:"),
        None => format!("{path} appeared where an agent could write it:"),
    }
}

/// Returns the error of a command that starts nothing with these files.
pub(crate) fn refusal(files: &[UnacceptedFile]) -> CommandError {
    let mut lines = Vec::new();
    for file in files {
        lines.push(headline(file));
        lines.extend(describe(file, MOST_LINES).into_iter().map(|line| format!("  {line}")));
    }
    lines.push("nothing was started with it".to_owned());
    // A program is accepted with the configuration that names it.
    let first = files.iter().find(|file| programs::key_of(&file.now).is_none());
    let first = first.map(|file| format!(" {}", shell_word(&file.now.path)));
    CommandError::config(lines.join("\n")).hinted(format!(
        "if this is your change, `ralph-orchestrator trust{}` accepts it",
        first.filter(|_| files.len() == 1).unwrap_or_default()
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_that_say_the_same_are_the_same() {
        let one = "[limits]\nmax_iterations = 3 # three\n[run]\nprompt = 'p'\n";
        let other = "run.prompt = \"p\"\nlimits = { max_iterations = 3 }\n";
        assert_eq!(digest(one), digest(other));
        assert_ne!(digest(one), digest(&one.replace('3', "4")));
        assert_ne!(digest("a ="), digest("b ="), "what is no TOML counts as it is");
    }
}
