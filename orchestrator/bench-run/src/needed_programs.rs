//! Programs that trials need and do not see: those that agents start, and those of tests.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use ralph_orchestrator_bench::task::{EnvironmentSource, Oracle, Step, Task, Verification};
use ralph_orchestrator_config::Sandbox;
use ralph_orchestrator_safe_fs::{SymlinkPolicy, read_file};
use ralph_orchestrator_shell_text::quote_command;
use ralph_orchestrator_supervisor::find_program;

use crate::called_programs::{CalledPrograms, is_shell};
use crate::job_setup::JobSetup;
use crate::visibility::{agent_path, find_hidden_program, verifier_path};

/// A larger script is not read, in bytes.
const LARGEST_SCRIPT: usize = 256 * 1024;
/// The program that searches the one that a script's first line names.
const ENV: &str = "env";

/// Who starts a program: that decides where it is searched.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Caller {
    Agent,
    Tests,
}

/// A program that trials need and do not see.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct MissingProgram {
    /// Its name or path, as it is called.
    pub name: String,
    /// Where this machine has it; none if it has none.
    pub hidden: Option<PathBuf>,
    /// Whether nothing that is read before it is called could bring it along.
    pub is_certain: bool,
}

/// What trials of a job see of this machine's programs.
pub struct ProgramSight<'a> {
    sandbox: &'a Sandbox,
    /// Where programs are searched on this machine.
    path: &'a str,
    vars: &'a BTreeMap<String, String>,
}

impl<'a> ProgramSight<'a> {
    /// Returns what trials of this job see.
    #[must_use]
    pub fn of(setup: &'a JobSetup) -> Self {
        let config = &setup.loaded.config;
        let path = config.env.set.get("PATH").or_else(|| setup.vars.get("PATH"));
        let path = path.map(String::as_str).unwrap_or_default();
        Self { sandbox: &config.sandbox, path, vars: &setup.vars }
    }

    /// Returns the programs that an agent's program needs and trials do not see. `words` is its whole command where the
    /// configuration names one.
    #[must_use]
    pub fn find_missing_for_agent(&self, program: &Path, words: &[String]) -> Vec<MissingProgram> {
        let named = program.display().to_string();
        if let Some(hidden) = find_hidden_program(program, self.sandbox) {
            return vec![MissingProgram { name: named, hidden: Some(hidden), is_certain: true }];
        }
        let mut missing = Vec::new();
        let text = read_text(program).unwrap_or_default();
        let interpreter = text.lines().next().and_then(|line| line.strip_prefix("#!"));
        let interpreter: Vec<&str> = interpreter.unwrap_or_default().split_whitespace().collect();
        missing.extend(self.find_missing_interpreter(&interpreter));
        let mut called = CalledPrograms::from_text(&quote_command(words));
        // Its own name was found already.
        called.names.retain(|name| words.first() != Some(name));
        missing.extend(self.find_missing_of(&called, Caller::Agent));
        if interpreter.iter().any(|word| is_shell(word)) {
            missing.extend(self.find_missing_of(&CalledPrograms::from_text(&text), Caller::Agent));
        }
        missing
    }

    /// Returns the program that the first line of a script names, if trials do not see it.
    fn find_missing_interpreter(&self, words: &[&str]) -> Option<MissingProgram> {
        let (first, rest) = words.split_first()?;
        let is_env = Path::new(first).file_name().is_some_and(|name| name == ENV);
        if !is_env {
            let path = PathBuf::from(first);
            let hidden = find_hidden_program(&path, self.sandbox)?;
            let hidden = path.exists().then_some(hidden);
            return Some(MissingProgram { name: (*first).to_owned(), hidden, is_certain: true });
        }
        let name = rest.iter().find(|word| !word.starts_with('-') && !word.contains('='))?;
        self.find_missing(name, Caller::Agent)
    }

    /// Returns the programs that the tests of a step need and trials do not see.
    #[must_use]
    pub fn find_missing_for_tests(&self, task: &Task, step: &Step) -> Vec<MissingProgram> {
        // Those of an environment of its own are known when that is made.
        if step.verifier.environment.is_some() {
            return Vec::new();
        }
        let mut missing = Vec::new();
        if let Verification::Command { program, .. } = &step.verification
            && let Some(name) = program.first()
        {
            missing.extend(self.find_missing(name, Caller::Tests));
        }
        missing.extend(self.find_missing_in(task, &list_test_files(&step.verification)));
        missing
    }

    /// Whether the tests of a step call a program that they do not find on this machine.
    #[must_use]
    pub fn is_called_in_vain(&self, name: &str, step: &Step) -> bool {
        let files = list_test_files(&step.verification);
        let texts =
            files.iter().filter(|file| is_shell_file(file)).filter_map(|file| read_text(file));
        let is_called = |text: String| CalledPrograms::from_text(&text).names.contains(name);
        self.find_missing(name, Caller::Tests).is_some() && texts.into_iter().any(is_called)
    }

    /// Returns the programs that the solution of a step needs and trials do not see.
    #[must_use]
    pub fn find_missing_for_solution(&self, task: &Task, step: &Step) -> Vec<MissingProgram> {
        match &step.oracle {
            Some(Oracle::Script { folder, script }) => {
                self.find_missing_in(task, &[folder.join(script)])
            }
            Some(Oracle::Files(_)) | None => Vec::new(),
        }
    }

    /// Returns the programs that shell scripts of a task call, which this machine has where trials do not see them.
    fn find_missing_in(&self, task: &Task, files: &[PathBuf]) -> Vec<MissingProgram> {
        let is_brought =
            |name: &str| files.iter().any(|file| file.file_name().is_some_and(|own| own == name));
        let has_own_programs = brings_programs(task);
        let mut missing = Vec::new();
        for file in files.iter().filter(|file| is_shell_file(file)) {
            let Some(text) = read_text(file) else { continue };
            let mut found = self.find_missing_of(&CalledPrograms::from_text(&text), Caller::Tests);
            found.retain(|program| !is_brought(&program.name));
            found.iter_mut().for_each(|program| program.is_certain &= !has_own_programs);
            missing.extend(found);
        }
        missing
    }

    /// Returns which of these programs this machine has where trials do not see them. What it does not have at all may be a
    /// builtin, a function or no program.
    fn find_missing_of(&self, called: &CalledPrograms, caller: Caller) -> Vec<MissingProgram> {
        let missing = called.names.iter().filter_map(|name| self.find_missing(name, caller));
        let missing = missing.filter(|program| program.hidden.is_some());
        missing
            .map(|program| MissingProgram { is_certain: !called.has_installer, ..program })
            .collect()
    }

    fn find_missing(&self, name: &str, caller: Caller) -> Option<MissingProgram> {
        if name.contains('/') {
            return None;
        }
        let seen = match caller {
            Caller::Agent => agent_path(self.path, self.sandbox),
            Caller::Tests => verifier_path(self.path, self.sandbox),
        };
        let root = Path::new("/");
        let hidden = match find_program(name, &seen, root) {
            Ok(found) => Some(find_hidden_program(&found, self.sandbox)?),
            Err(_) => find_program(name, self.path, root).ok(),
        };
        Some(MissingProgram { name: name.to_owned(), hidden, is_certain: true })
    }

    /// Returns what a person can do about a program that trials do not see.
    #[must_use]
    pub fn explain(&self, program: &MissingProgram) -> String {
        let name = &program.name;
        let Some(hidden) = &program.hidden else {
            return format!("this machine has no `{name}`: install it for the whole system");
        };
        let mut read = self.sandbox.read.clone();
        for folder in self.list_folders(hidden) {
            if !read.iter().any(|path| folder.starts_with(path)) {
                read.push(folder);
            }
        }
        let read: Vec<String> =
            read.iter().map(|path| format!("{:?}", path.display().to_string())).collect();
        format!(
            "trials do not see `{name}`, which is {}: write `read = [{}]` in [sandbox], or install it for the whole system",
            hidden.display(),
            read.join(", ")
        )
    }

    /// Returns the folders that a program is installed in: its own, that of what its link leads to, and the toolchains that
    /// rustup's programs start.
    fn list_folders(&self, program: &Path) -> Vec<PathBuf> {
        let home = self.vars.get("HOME").map(PathBuf::from);
        let mut folders = vec![find_prefix(program, home.as_deref())];
        // What a link leads to in the system is seen already.
        let real = program.canonicalize().ok();
        if let Some(real) = real.filter(|real| find_hidden_program(real, self.sandbox).is_some())
            && !folders.iter().any(|folder| real.starts_with(folder))
        {
            folders.push(find_prefix(&real, home.as_deref()));
        }
        let has_rustup = program.with_file_name("rustup").exists();
        let toolchains = self
            .vars
            .get("RUSTUP_HOME")
            .map(PathBuf::from)
            .or(home.map(|home| home.join(".rustup")));
        folders.extend(toolchains.filter(|folder| has_rustup && folder.exists()));
        folders
    }
}

/// Returns the folder that a program is installed in with what belongs to it: that above `bin`, unless much else is there.
fn find_prefix(program: &Path, home: Option<&Path>) -> PathBuf {
    let folder = program.parent().unwrap_or(program);
    let is_bin = folder.file_name().is_some_and(|name| name == "bin" || name == "sbin");
    let prefix =
        folder.parent().filter(|above| is_bin && above.parent().is_some() && Some(*above) != home);
    prefix.unwrap_or(folder).to_owned()
}

/// Whether the environment of a task may have programs of its own, which nobody has seen before it is made.
fn brings_programs(task: &Task) -> bool {
    let sets_path = task.environment.env.contains_key("PATH");
    match &task.source {
        EnvironmentSource::Dockerfile(dockerfile) => {
            sets_path || dockerfile.env.contains_key("PATH")
        }
        EnvironmentSource::Files(_) => sets_path,
        _ => true,
    }
}

/// Returns the files of tests: of folders those beside the script.
fn list_test_files(verification: &Verification) -> Vec<PathBuf> {
    match verification {
        Verification::Script { folders, files: beside, .. } => {
            let entries = folders.iter().filter_map(|folder| fs::read_dir(folder).ok()).flatten();
            let mut files: Vec<PathBuf> = entries.flatten().map(|entry| entry.path()).collect();
            files.extend(beside.iter().map(|file| file.source.clone()));
            files.sort();
            files
        }
        Verification::Command { files, .. } => {
            files.iter().map(|file| file.source.clone()).collect()
        }
        Verification::Validators { .. } => Vec::new(),
    }
}

fn is_shell_file(file: &Path) -> bool {
    file.extension().is_some_and(|ending| ending == "sh" || ending == "bash" || ending == "bats")
}

fn read_text(file: &Path) -> Option<String> {
    let bytes = read_file(file, LARGEST_SCRIPT, SymlinkPolicy::Follow).ok()?;
    String::from_utf8(bytes).ok()
}
