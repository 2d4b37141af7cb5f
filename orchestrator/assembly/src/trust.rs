//! Which files decide what runs: where an agent could have written one since a person last accepted it, a change of it
//! is obeyed only once a person has accepted that.

mod differences;
pub mod links;
mod programs;

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use ralph_orchestrator_config::{FILE_NAME, values_of};
use ralph_orchestrator_engine::states_dir;
use ralph_orchestrator_safe_fs::{StoppingLink, SymlinkPolicy, read_file};
use ralph_orchestrator_shell_text::quote_word;
use ralph_orchestrator_store::{AcceptedFile, AgentWork, Disk, StateError, TrustStore, state_dirs};

use crate::error::CommandError;
use crate::messages;
use crate::run_above::find_any_run_above;
use crate::user_folders::state_home;

use differences::describe;

pub use differences::{FileVersion, UnacceptedFile};

/// A larger file is no configuration.
const LARGEST: usize = 1 << 20;
/// What switches the question off for everything that a command reads.
const VARIABLE: &str = "RALPH_TRUST";
const ALWAYS: &str = "always";
const KEY: &str = "trust";
/// What is recorded in the place of a digest where a person has accepted that a file is gone.
const GONE: &str = "gone";

/// What becomes of a file as it is.
#[derive(Clone, Debug)]
pub enum Judgement {
    /// It is obeyed: a person has accepted this.
    Accepted(FileVersion),
    /// Nobody but a person can have written it: whoever starts something with it accepts it.
    Acceptable(FileVersion),
    /// It is not obeyed.
    Unaccepted(UnacceptedFile),
}

/// The files of a configuration, by what becomes of them.
#[derive(Clone, Debug, Default)]
pub struct JudgedFiles {
    /// Those that are obeyed.
    pub accepted: Vec<FileVersion>,
    /// Those that whoever starts something accepts.
    pub acceptable: Vec<FileVersion>,
    /// Those that are not obeyed.
    pub unaccepted: Vec<UnacceptedFile>,
    /// Links to them that an agent could have made.
    pub links: Vec<StoppingLink>,
    /// Those that were changed, and were read as they were last accepted.
    pub changed: Vec<PathBuf>,
}

impl JudgedFiles {
    /// Adds a file.
    pub fn add(&mut self, judgement: Judgement) {
        match judgement {
            Judgement::Accepted(version) => self.accepted.push(version),
            Judgement::Acceptable(version) => self.acceptable.push(version),
            Judgement::Unaccepted(file) => self.unaccepted.push(file),
        }
    }

    /// Reports which files were read as they were last accepted.
    pub fn report_changed(&self) {
        for changed in &self.changed {
            let what = match fs::metadata(changed) {
                Ok(_) => "was changed where an agent could write it",
                Err(_) => "is gone",
            };
            messages::info(&format!(
                "note: {} {what}; this is its run, by what was last accepted",
                changed.display()
            ));
        }
    }

    /// Adds the files of another configuration.
    pub fn extend(&mut self, other: Self) {
        self.accepted.extend(other.accepted);
        self.acceptable.extend(other.acceptable);
        self.unaccepted.extend(other.unaccepted);
        self.changed.extend(other.changed);
    }
}

/// Judges files by what is recorded of people and agents.
pub struct Trust {
    store: TrustStore,
    states: PathBuf,
    /// The user wants no questions.
    is_always: bool,
}

impl Trust {
    /// Returns the judge for this environment, and for what the command line sets.
    pub fn new(vars: &BTreeMap<String, String>, sets: &[(String, String)]) -> Self {
        let by_variable = vars.get(VARIABLE).is_some_and(|value| value == ALWAYS);
        let by_set = sets.iter().any(|(key, value)| key == KEY && value == ALWAYS);
        Self::in_state(&state_home(vars), by_variable || by_set)
    }

    /// Returns the judge that has its records in this folder for state.
    pub fn in_state(state_home: &Path, is_always: bool) -> Self {
        let states = states_dir(state_home);
        Self { store: TrustStore::new(&states, Disk::default()), states, is_always }
    }

    /// Asks nothing from now on if the user's own file, which is obeyed, says so.
    pub fn follow_user_file(&mut self, text: &str) {
        let value = values_of(text).and_then(|values| values.get(KEY).cloned());
        self.is_always = self.is_always || value.is_some_and(|value| value == "\"always\"");
    }

    /// Judges this text of a file.
    ///
    /// # Errors
    /// What is recorded is damaged.
    pub fn judge(&self, path: &Path, text: String) -> Result<Judgement, CommandError> {
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
            None => is_older(&now.path, &work) || self.is_copy(&now.path, &digest)?,
        };
        if is_acceptable || self.is_always {
            return Ok(Judgement::Acceptable(now));
        }
        let versions = accepted.iter().flat_map(|accepted| &accepted.versions);
        let nearest = differences::find_nearest(versions, &now.text);
        let accepted = accepted.and_then(newest_text);
        Ok(Judgement::Unaccepted(UnacceptedFile { now, accepted, nearest }))
    }

    /// Whether the file says what a person has accepted of the usual one in the same folder.
    fn is_copy(&self, path: &Path, digest: &str) -> Result<bool, CommandError> {
        let accepted = self.store.accepted(&path.with_file_name(FILE_NAME))?;
        let mut versions = accepted.iter().flat_map(|accepted| &accepted.versions);
        Ok(versions.any(|version| version.digest == digest))
    }

    /// Returns what was accepted of a file last.
    ///
    /// # Errors
    /// What is recorded is damaged.
    pub fn accepted_text(&self, path: &Path) -> Result<Option<String>, CommandError> {
        let accepted = self.store.accepted(&identity(path))?;
        Ok(accepted.and_then(newest_text))
    }

    /// The same of a file by the name that it had.
    pub fn accepted_text_at(&self, path: &Path) -> Result<Option<String>, CommandError> {
        Ok(self.store.accepted(path)?.and_then(newest_text))
    }

    /// Whether a file that a person has accepted is gone from where an agent could have deleted it.
    ///
    /// # Errors
    /// What is recorded is damaged.
    pub fn is_gone(&self, path: &Path) -> Result<bool, CommandError> {
        let known = identity(path);
        // A link that leads nowhere is no file either.
        if fs::metadata(&known).is_ok() {
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
    pub fn accept_gone(&self, path: &Path) -> Result<(), CommandError> {
        Ok(self.store.accept(&identity(path), GONE, "")?)
    }

    /// Judges a file by its name; `None` if it cannot be read as text, which whoever reads it reports.
    pub fn judge_file(&self, path: &Path) -> Result<Option<Judgement>, CommandError> {
        read(path).map(|text| self.judge(path, text)).transpose()
    }

    /// Whether the file appeared where agents work, and no person has ever accepted it.
    pub fn is_planted(&self, path: &Path) -> bool {
        let judged = self.judge_file(path).ok().flatten();
        matches!(judged, Some(Judgement::Unaccepted(UnacceptedFile { accepted: None, .. })))
    }

    /// Records that a person accepts these versions.
    ///
    /// # Errors
    /// They cannot be recorded.
    pub fn accept<'a>(
        &self,
        versions: impl IntoIterator<Item = &'a FileVersion>,
    ) -> Result<(), StateError> {
        versions.into_iter().try_for_each(|version| {
            self.store.accept(&version.path, &digest(&version.text), &version.text)
        })
    }

    /// Records that whoever starts something with these files accepts what nobody but a person can have written.
    ///
    /// # Errors
    /// It cannot be recorded.
    pub fn accept_judged(&self, judged: &JudgedFiles) -> Result<(), StateError> {
        let accepted = judged.accepted.iter();
        // What was accepted before its folder was moved is accepted where it is now, for copies of that.
        let (known, moved) = accepted.partition::<Vec<_>, _>(|it| self.store.has_path(&it.path));
        known.into_iter().try_for_each(|version| self.prefer(version))?;
        self.accept(judged.acceptable.iter().chain(moved))
    }

    /// Records that a run was started by an accepted version: where the file is gone later, as on another branch, its run
    /// goes on by that.
    fn prefer(&self, version: &FileVersion) -> Result<(), StateError> {
        let digest = digest(&version.text);
        match self.store.newest_digest(&version.path)? {
            Some(newest) if newest != digest && newest != GONE => {
                self.store.prefer(&version.path, &digest)
            }
            _ => Ok(()),
        }
    }

    /// Returns the values by which files are stricter than what was accepted of them, if that is all. Each is compared by
    /// itself: what the command line replaces at this start is in force at the next. `own` is the user's own file.
    pub fn find_tightened(files: &[UnacceptedFile], own: &Path) -> Option<Vec<String>> {
        let mut tightened = Vec::new();
        for file in files {
            // What runs is not compared by what the configuration says.
            if programs::key_of(&file.now).is_some() {
                return None;
            }
            let beneath = if file.now.path == identity(own) { None } else { read(own) };
            tightened.extend(differences::tightened(file, beneath)?);
        }
        Some(tightened)
    }

    /// Refuses what a run has started: an agent is no person.
    ///
    /// # Errors
    /// This process is below one that holds a run.
    pub fn refuse_from_below(&self) -> Result<(), CommandError> {
        match find_any_run_above(&self.states) {
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
    pub fn accept_own(&self, path: &Path, text: String) -> Result<(), CommandError> {
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

/// Returns the text that was accepted last, also of a file of which a person has accepted since that it is gone.
fn newest_text(accepted: AcceptedFile) -> Option<String> {
    let versions = accepted.versions.into_iter();
    versions.rev().find(|version| version.digest != GONE).map(|version| version.text)
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

/// Returns the text of a file that can be a configuration.
pub fn read(path: &Path) -> Option<String> {
    String::from_utf8(read_file(path, LARGEST, SymlinkPolicy::Follow).ok()?).ok()
}

/// Returns what would be accepted: what became of the file, and what differs.
pub fn describe_file(file: &UnacceptedFile) -> Vec<String> {
    let differences = describe(file).into_iter().map(|line| format!("  {line}"));
    std::iter::once(headline(file)).chain(differences).collect()
}

/// Refuses to accept what no person can be shown.
///
/// # Errors
/// A value is too long.
pub fn verify_showable(file: &UnacceptedFile) -> Result<(), CommandError> {
    let Some(key) = differences::find_unshowable(file) else { return Ok(()) };
    let path = file.now.path.display();
    let message =
        format!("{path}: the new value of {key} is too long to be shown before it is accepted");
    Err(CommandError::config(message).hinted("put what it says into a file of its own"))
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
pub fn refusal(files: &[UnacceptedFile]) -> CommandError {
    let mut lines = Vec::new();
    for file in files {
        lines.extend(describe_file(file));
    }
    lines.push("nothing was started with it".to_owned());
    // A program is accepted with the configuration that names it.
    let first = files.iter().find(|file| programs::key_of(&file.now).is_none());
    let first = first.map(|file| format!(" {}", quote_word(&file.now.path)));
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
