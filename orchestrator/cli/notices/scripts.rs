//! What the commands of receivers run that the agent can write: with a sandbox they run in it, without one only as long
//! as that is unchanged.

use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

use ralph_orchestrator_assembly::context::Context;
use ralph_orchestrator_config::{CommitMode, SandboxMode};
use ralph_orchestrator_notices::{Receiver, Target};
use ralph_orchestrator_safe_fs::{SymlinkPolicy, leads_into, read_file};
use ralph_orchestrator_supervisor::find_program;
use ralph_validator_command::find_script;

/// What ends a command or a word in the text of a shell.
const SEPARATORS: [char; 6] = [';', '|', '&', '\n', '(', ')'];

/// The largest script that is read, in bytes.
const LARGEST_SCRIPT: usize = 256 * 1024;

/// Decides how the command of a receiver is run.
pub(super) fn confine(receiver: &mut Receiver, context: &Context) {
    let Target::Command(words) = &receiver.target else { return };
    (receiver.is_confined, receiver.scripts) = confine_command(words, context);
}

/// Returns whether a command runs in the sandbox, and the files that it runs with the user's rights though agents can write
/// them.
pub(crate) fn confine_command(words: &[String], context: &Context) -> (bool, Vec<PathBuf>) {
    let reach = Reach::new(words, context);
    match context.loaded.config.sandbox.mode {
        SandboxMode::Off => (false, reach.scripts),
        SandboxMode::Landlock => (reach.is_agents(), Vec::new()),
    }
}

/// Returns what a person should know of how the command of a receiver is run.
pub(crate) fn describe(receiver: &Receiver) -> Option<String> {
    describe_command(&receiver.name, receiver.is_confined, &receiver.scripts)
}

/// Returns what a person should know of how a command of this name is run.
pub(crate) fn describe_command(
    name: &str,
    is_confined: bool,
    scripts: &[PathBuf],
) -> Option<String> {
    if is_confined {
        return Some(format!(
            "{name}: the agent can change what its command runs, which therefore runs in the sandbox and writes \
             nothing in the workspace; name a program outside of the workspace by its path to run it with your rights"
        ));
    }
    let script = scripts.first()?.display();
    Some(format!(
        "{name}: the agent can change {script}, which runs with your rights; once it was changed it is not run any \
         more: keep it outside of the workspace"
    ))
}

/// Returns what a person should know of a hook of git that names a file of the workspace and runs with the user's rights.
pub(crate) fn describe_hook(context: &Context) -> Option<String> {
    let config = &context.loaded.config;
    let has_hooks = matches!(config.git.commit, CommitMode::Iteration | CommitMode::Handoff);
    if config.sandbox.mode != SandboxMode::Off || !has_hooks {
        return None;
    }
    let workspace = &config.run.workspace;
    let found = std::fs::read_dir(workspace.join(".git/hooks")).ok()?;
    let hooks = found.flatten().map(|entry| entry.path());
    let mut hooks = hooks.filter(|hook| is_program(hook) && hook.extension().is_none());
    hooks.find_map(|hook| {
        let script = names_of(&hook).find(|word| workspace.join(word).is_file())?;
        Some(format!(
            "git: the hook {} names {script}, which the agent can change; hooks run with your rights: `[sandbox]` confines \
             them",
            hook.display()
        ))
    })
}

/// What of a command lies where the agent can write.
struct Reach {
    /// The programs and scripts that it runs.
    scripts: Vec<PathBuf>,
    /// Something else that it names, or the folder in which a program of the system looks for what to do.
    is_beside: bool,
}

impl Reach {
    fn new(words: &[String], context: &Context) -> Self {
        let folder = context.loaded.dir();
        let places = context.agent_places();
        let store = context.trust_store();
        let is_writable = |path: &Path| {
            leads_into(path, &places) || store.known_folders_around(path).next().is_some()
        };
        let is_there = |word: &String| {
            let path = folder.join(word);
            path.exists() && is_writable(&path)
        };
        let search = context.vars.get("PATH").map(String::as_str).unwrap_or_default();
        let names = workspace_names(context);
        let is_named = |text: &str| names.iter().any(|name| text.contains(name.as_str()));
        let mut scripts = Vec::new();
        // A path can be part of any word: of an option, of a variable, of code.
        let mut is_beside = words.iter().any(|word| is_named(word));
        for command in split_commands(words) {
            let Some(program) = command.first() else { continue };
            let found = match program.contains('/') {
                true => Some(folder.join(program)),
                false => find_program(program, search, folder).ok(),
            };
            let scripts_of = find_scripts(&command, folder);
            let run = found.into_iter().chain(scripts_of);
            for path in run {
                if is_writable(&path) {
                    scripts.push(path);
                } else {
                    is_beside |= names_of(&path).any(|word| is_there(&word) || is_named(&word));
                }
            }
            is_beside |= !program.contains('/') && is_writable(folder);
            is_beside |= command.iter().skip(1).any(is_there);
        }
        scripts.sort();
        scripts.dedup();
        Self { scripts, is_beside }
    }

    fn is_agents(&self) -> bool {
        self.is_beside || !self.scripts.is_empty()
    }
}

/// Returns how commands can name the workspace: by its path, as it is configured and as it is, and from the user's home.
fn workspace_names(context: &Context) -> Vec<String> {
    let loaded = &context.loaded;
    let (inside, configured) = (&loaded.config.run.workspace, loaded.configured_workspace());
    let mut paths = vec![inside.clone(), configured.to_owned()];
    paths.extend([inside.canonicalize(), configured.canonicalize()].into_iter().flatten());
    paths.retain(|path| path.is_absolute() && path.parent().is_some());
    let home = context.vars.get("HOME").map(PathBuf::from).unwrap_or_default();
    let below = paths.iter().filter_map(|path| path.strip_prefix(&home).ok());
    let below = below.filter(|path| !path.as_os_str().is_empty());
    let of_home: Vec<String> = below
        .flat_map(|path| ["~", "$HOME", "${HOME}"].map(|home| format!("{home}/{}", path.display())))
        .collect();
    paths.iter().map(|path| path.display().to_string()).chain(of_home).collect()
}

/// Returns the scripts that a command is given: to an interpreter, to the shell itself, or to a program that runs another.
fn find_scripts(command: &[String], folder: &Path) -> Vec<PathBuf> {
    let of_interpreter = find_script(command).and_then(|index| command.get(index));
    let is_shell = command.first().is_some_and(|word| word == "." || word == "source");
    let of_shell = command.get(1).filter(|_| is_shell);
    let named = of_interpreter.into_iter().chain(of_shell).map(|word| folder.join(word));
    let programs = command.iter().skip(1).map(|word| folder.join(word));
    named.chain(programs.filter(|path| is_program(path))).collect()
}

fn is_program(path: &Path) -> bool {
    path.metadata().is_ok_and(|found| found.is_file() && found.permissions().mode() & 0o111 != 0)
}

/// Returns a command, and those in the texts that it gives to a shell.
fn split_commands(words: &[String]) -> Vec<Vec<String>> {
    let texts = words.iter().skip(1).filter(|word| word.contains(char::is_whitespace));
    let inner = texts.flat_map(|text| text.split(SEPARATORS)).map(|command| {
        let words = command.split_whitespace();
        words.map(|word| word.trim_matches(['"', '\'', '`', '$', '{', '}']).to_owned()).collect()
    });
    std::iter::once(words.to_vec()).chain(inner).collect()
}

/// Returns the words of a script, among which are the files that it runs; none of a program that is no text.
fn names_of(script: &Path) -> impl Iterator<Item = String> + use<> {
    let text = read_file(script, LARGEST_SCRIPT, SymlinkPolicy::Follow).ok();
    let text = text.and_then(|bytes| String::from_utf8(bytes).ok()).unwrap_or_default();
    let script = [String::new(), text];
    split_commands(&script).into_iter().skip(1).flatten().filter(|word| !word.is_empty())
}
