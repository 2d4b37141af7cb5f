//! The files of a task that is made of a run: its configuration and its solution.

use std::path::{Path, PathBuf};
use std::{fs, io};

use ralph_orchestrator_assembly::error::CommandError;
use ralph_orchestrator_config::{Env, SHORTEST_SECRET};
use ralph_orchestrator_git::{FileChange, FileStatus, RepoPath};
use toml::{Table, Value};

/// The folder of the workspace in the folder of the task.
pub const WORKSPACE: &str = "work";
/// The folder of the files that the solution brings, in its own.
pub const SOLUTION_FILES: &str = "files";
/// The prompt, where it was not a file of the workspace.
pub const PROMPT: &str = "PROMPT.md";

/// The tables that decide how a run goes and when it is complete. `[agent]` and the like are those of the job.
const KEPT_TABLES: [&str; 3] = ["completion", "limits", "memory"];
/// The keys of `[run]` that are kept beside prompt and workspace.
const KEPT_OF_RUN: [&str; 5] =
    ["prompt_text", "prompt_editable", "setup", "setup_timeout", "bookkeeping"];
/// What a trial cannot have.
const SERIES: [&str; 3] = ["backlog", "prompts", "initializer"];

/// The prompt of a run, for its task.
#[derive(Debug, PartialEq, Eq)]
pub enum ImportedPrompt {
    /// It stands in the configuration.
    Text,
    /// A file of the workspace, relative to it.
    InWorkspace(PathBuf),
    /// A file elsewhere.
    Elsewhere(PathBuf),
}

/// The configuration of a run, as its task has it.
pub struct ImportedConfig {
    /// The text of `ralph.toml`.
    pub text: String,
    /// Its prompt.
    pub prompt: ImportedPrompt,
    /// Variables that were left out, since they hold secrets.
    pub left_out: Vec<SecretVariable>,
}

/// A variable of `[env] set` whose value is a secret.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SecretVariable {
    /// Its name.
    pub name: String,
    value: String,
}

impl ImportedConfig {
    /// Makes it from the resolved configuration of a run that worked in `workspace`.
    ///
    /// # Errors
    /// A trial cannot have what the run had.
    pub fn new(resolved: &str, workspace: &Path, head: &str) -> Result<Self, CommandError> {
        let mut run: Table = resolved.parse().map_err(|error| {
            CommandError::user(format!("the run's configuration cannot be read: {error}"))
        })?;
        if let Some(table) = SERIES.into_iter().find(|table| run.contains_key(*table)) {
            return Err(CommandError::user(format!(
                "the run had [{table}], and a trial is one run with one prompt"
            )));
        }
        let mut task = Table::new();
        let (of_run, prompt) = take_run(run.remove("run"), workspace);
        task.insert("run".to_owned(), Value::Table(of_run));
        for name in KEPT_TABLES {
            if let Some(table) = run.remove(name) {
                task.insert(name.to_owned(), table);
            }
        }
        let (env, left_out) = take_env(run.remove("env"));
        task.insert("env".to_owned(), Value::Table(env));
        if let Some(mut validators) = run.remove("validator") {
            make_relative(&mut validators, workspace);
            task.insert("validator".to_owned(), validators);
        }
        let text = toml::to_string(&task).map_err(CommandError::internal)?;
        Ok(Self { text: format!("{head}\n{text}"), prompt, left_out })
    }
}

/// Returns `[run]` of the task, and where its prompt comes from.
fn take_run(run: Option<Value>, workspace: &Path) -> (Table, ImportedPrompt) {
    let mut run = match run {
        Some(Value::Table(table)) => table,
        _ => Table::new(),
    };
    let mut kept = Table::new();
    let path = run.remove("prompt").and_then(|path| path.as_str().map(PathBuf::from));
    for name in KEPT_OF_RUN {
        if let Some(value) = run.remove(name) {
            kept.insert(name.to_owned(), value);
        }
    }
    let prompt = match path {
        _ if kept.contains_key("prompt_text") => ImportedPrompt::Text,
        None => ImportedPrompt::Text,
        Some(path) => match path.strip_prefix(workspace) {
            Ok(within) => ImportedPrompt::InWorkspace(within.to_owned()),
            Err(_) => ImportedPrompt::Elsewhere(path),
        },
    };
    let file = match &prompt {
        ImportedPrompt::Text => None,
        ImportedPrompt::InWorkspace(path) => Some(Path::new(WORKSPACE).join(path)),
        ImportedPrompt::Elsewhere(_) => Some(PathBuf::from(PROMPT)),
    };
    if let Some(file) = file {
        kept.insert("prompt".to_owned(), Value::String(file.display().to_string()));
    }
    kept.insert("workspace".to_owned(), Value::String(WORKSPACE.to_owned()));
    kept.insert("delay".to_owned(), Value::String("0s".to_owned()));
    (kept, prompt)
}

/// Returns `[env]` without secrets, and those.
fn take_env(env: Option<Value>) -> (Table, Vec<SecretVariable>) {
    let mut env = match env {
        Some(Value::Table(table)) => table,
        _ => Table::new(),
    };
    let mut left_out = Vec::new();
    if let Some(Value::Table(set)) = env.get_mut("set") {
        let values =
            set.iter().filter_map(|(name, value)| Some((name.clone(), value.as_str()?.to_owned())));
        let all = Env { set: values.collect(), ..Env::default() };
        for (name, value) in &all.set {
            if all.is_secret(name) && value.chars().count() >= SHORTEST_SECRET {
                set.remove(name);
                left_out.push(SecretVariable { name: name.clone(), value: value.clone() });
            }
        }
    }
    (env, left_out)
}

/// Returns a file of a task that has the value of a secret in it, and the variable's name.
///
/// # Errors
/// A file cannot be read.
pub fn find_secret(
    folder: &Path,
    secrets: &[SecretVariable],
) -> io::Result<Option<(PathBuf, String)>> {
    let mut folders = vec![folder.to_owned()];
    while let Some(next) = folders.pop() {
        for entry in next.read_dir()? {
            let entry = entry?;
            let (path, kind) = (entry.path(), entry.file_type()?);
            if kind.is_dir() {
                folders.push(path);
            } else if kind.is_file() {
                let content = fs::read(&path)?;
                if let Some(secret) = secrets.iter().find(|secret| secret.is_in(&content)) {
                    return Ok(Some((path, secret.name.clone())));
                }
            }
        }
    }
    Ok(None)
}

impl SecretVariable {
    fn is_in(&self, content: &[u8]) -> bool {
        let value = self.value.as_bytes();
        content.windows(value.len()).any(|part| part == value)
    }
}

/// Makes paths below the workspace relative to it, since each trial has a workspace of its own.
fn make_relative(value: &mut Value, workspace: &Path) {
    match value {
        Value::String(text) => {
            let within = Path::new(text.as_str()).strip_prefix(workspace);
            if let Some(within) = within.ok().and_then(Path::to_str) {
                *text = if within.is_empty() { ".".to_owned() } else { format!("./{within}") };
            }
        }
        Value::Array(values) => {
            values.iter_mut().for_each(|value| make_relative(value, workspace));
        }
        Value::Table(table) => {
            table.iter_mut().for_each(|(_, value)| make_relative(value, workspace));
        }
        _ => {}
    }
}

/// Returns the paths of the files that the solution brings.
pub fn brought(changes: &[FileChange]) -> Vec<RepoPath> {
    let brought = changes.iter().filter(|change| change.status != FileStatus::Deleted);
    brought.map(|change| change.path.clone()).collect()
}

/// Returns the script that makes the workspace what the run left.
///
/// # Errors
/// The name of a deleted file is no UTF-8, which a script of ours cannot say.
pub fn solution_script(changes: &[FileChange]) -> Result<String, CommandError> {
    let mut script = String::from(
        "#!/bin/bash\n# Makes the workspace what the run left.\nset -euo pipefail\n\
         files=$(cd \"$(dirname \"$0\")\" && pwd)/files\n",
    );
    // A folder may stand where a file was, and the other way round.
    for change in changes {
        if matches!(change.status, FileStatus::Deleted | FileStatus::TypeChanged) {
            let path = std::str::from_utf8(change.path.as_bytes()).map_err(|_| {
                CommandError::user(format!("{}: the name is no UTF-8", change.path))
            })?;
            let quoted = path.replace('\'', r"'\''");
            script.push_str(&format!("rm -f -- './{quoted}'\n"));
            // Nothing keeps folders that have become empty.
            if let Some((folder, _)) = quoted.rsplit_once('/') {
                script.push_str(&format!("rmdir -p --ignore-fail-on-non-empty -- '{folder}'\n"));
            }
        }
    }
    script.push_str("[ ! -d \"$files\" ] || cp -RP \"$files/.\" .\n");
    Ok(script)
}

#[cfg(test)]
mod tests {
    use super::*;

    const RESOLVED: &str = r#"
        [agent]
        adapter = "command"
        [run]
        prompt = "/w/docs/PROMPT.md"
        workspace = "/w"
        delay = "2s"
        setup = ["make"]
        [env]
        mode = "clean"
        [env.set]
        API_TOKEN = "secret"
        LANG = "C"
        [git]
        commit = "checkpoint"
        [[validator]]
        kind = "command"
        program = ["/w/check.sh", "/w", "/work/other"]
        protect = ["tests/**"]
    "#;

    #[test]
    fn what_decides_is_kept_and_nothing_of_the_machine() {
        let made = ImportedConfig::new(RESOLVED, Path::new("/w"), "# head").unwrap();
        assert_eq!(made.prompt, ImportedPrompt::InWorkspace("docs/PROMPT.md".into()));
        assert_eq!(made.left_out.len(), 1);
        assert_eq!(
            (made.left_out[0].name.as_str(), made.left_out[0].is_in(b"a secret.")),
            ("API_TOKEN", true)
        );
        assert!(made.text.starts_with("# head\n"), "{}", made.text);
        let task: Table = made.text.parse().unwrap();
        assert_eq!(task["run"]["prompt"].as_str(), Some("work/docs/PROMPT.md"));
        assert_eq!(task["run"]["workspace"].as_str(), Some("work"));
        assert_eq!(task["run"]["setup"].as_array().unwrap().len(), 1);
        assert_eq!(task["env"]["set"]["LANG"].as_str(), Some("C"));
        let program = task["validator"][0]["program"].as_array().unwrap();
        let program: Vec<&str> = program.iter().filter_map(Value::as_str).collect();
        assert_eq!(program, ["./check.sh", ".", "/work/other"]);
        assert!(!made.text.contains("secret") && !task.contains_key("agent"));
        assert!(!task.contains_key("git"));
    }

    #[test]
    fn a_prompt_may_be_elsewhere_or_in_the_configuration() {
        let elsewhere = RESOLVED.replace("/w/docs/PROMPT.md", "/other/PROMPT.md");
        let made = ImportedConfig::new(&elsewhere, Path::new("/w"), "").unwrap();
        assert_eq!(made.prompt, ImportedPrompt::Elsewhere("/other/PROMPT.md".into()));
        let text = RESOLVED.replace("prompt = \"/w/docs/PROMPT.md\"", "prompt_text = \"do it\"");
        let made = ImportedConfig::new(&text, Path::new("/w"), "").unwrap();
        assert_eq!(made.prompt, ImportedPrompt::Text);
        let series = format!("{RESOLVED}\n[backlog]\nkind = \"json\"\n");
        let error = ImportedConfig::new(&series, Path::new("/w"), "").err().unwrap();
        assert!(error.summary().contains("[backlog]"), "{}", error.summary());
    }
}
