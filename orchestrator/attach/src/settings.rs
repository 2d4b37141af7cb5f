//! The hooks in the settings of agents: entered, removed, and shown beforehand.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use ralph_orchestrator_assembly::error::CommandError;
use ralph_orchestrator_assembly::user_folders::{home_of, state_home, variables};
use ralph_orchestrator_engine::states_dir;
use ralph_orchestrator_safe_fs::{read_if_exists, real_path, replace_file};
use ralph_orchestrator_shell_text::quote_word;
use ralph_orchestrator_store::Disk;
use ralph_orchestrator_terminal::output_place::{find_file, find_place};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

use super::message::HookEvent;

/// Longer than any settings.
const LONGEST: usize = 4 << 20;
/// The variable of Claude Code that limits how often in a row a hook may block; 0 is no limit, since there is one here.
const BLOCK_CAP: &str = "CLAUDE_CODE_STOP_HOOK_BLOCK_CAP";
/// How much longer than a check its hook may take.
const MARGIN: Duration = Duration::from_secs(60);
/// Time for the hooks that run no checks, in seconds.
const SHORT: u64 = 60;

/// An agent whose sessions can be checked.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum HookedAgent {
    /// Claude Code.
    Claude,
    /// Codex.
    Codex,
}

impl HookedAgent {
    pub(crate) const ALL: [Self; 2] = [Self::Claude, Self::Codex];

    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Claude => "claude",
            Self::Codex => "codex",
        }
    }

    /// The events that it has hooks for.
    fn events(self) -> impl Iterator<Item = HookEvent> {
        let has = move |event: &HookEvent| match self {
            Self::Claude => true,
            Self::Codex => *event != HookEvent::SessionEnd,
        };
        HookEvent::ALL.into_iter().filter(has)
    }

    /// What its command begins with, after the program.
    fn marker(self) -> String {
        format!(" hook {} ", self.name())
    }
}

/// Whose settings they are.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum SettingsScope {
    /// The user's.
    #[default]
    User,
    /// Those of the project in the current folder.
    Project,
    /// The machine's, which neither a project nor an agent can switch off.
    Managed,
}

/// Where the settings are.
///
/// # Errors
/// The agent has none of this kind.
pub(crate) fn settings_file(
    agent: HookedAgent,
    scope: SettingsScope,
) -> Result<PathBuf, CommandError> {
    let vars = variables();
    Ok(match (agent, scope) {
        (HookedAgent::Claude, SettingsScope::User) => {
            home_of(&vars, "CLAUDE_CONFIG_DIR", ".claude").join("settings.json")
        }
        (HookedAgent::Claude, SettingsScope::Project) => {
            std::env::current_dir()?.join(".claude/settings.json")
        }
        (HookedAgent::Claude, SettingsScope::Managed) => {
            PathBuf::from("/etc/claude-code/managed-settings.json")
        }
        (HookedAgent::Codex, SettingsScope::User) => {
            home_of(&vars, "CODEX_HOME", ".codex").join("hooks.json")
        }
        (HookedAgent::Codex, _) => {
            return Err(CommandError::user("codex has hooks of the user only")
                .hinted("leave out --project and --managed"));
        }
    })
}

/// Returns where an agent reads settings, those of all scopes that it has.
pub(crate) fn all_files(agent: HookedAgent) -> impl Iterator<Item = PathBuf> {
    let scopes = [SettingsScope::User, SettingsScope::Project, SettingsScope::Managed];
    scopes.into_iter().filter_map(move |scope| settings_file(agent, scope).ok())
}

/// A settings file, and what it would be.
pub(crate) struct SettingsChange {
    pub(crate) file: PathBuf,
    pub(crate) before: Option<String>,
    /// `None` if it is removed.
    pub(crate) after: Option<String>,
}

/// What was there before the hooks were entered.
#[derive(Serialize, Deserialize)]
struct Backup {
    before: Option<String>,
    after: String,
}

/// Returns the text of settings, if there are any.
pub(crate) fn read(file: &Path) -> Result<Option<String>, CommandError> {
    let bytes = read_if_exists(&real_path(file), LONGEST)
        .map_err(|error| CommandError::user(format!("{}: {error}", file.display())))?;
    let text = bytes.map(String::from_utf8).transpose();
    text.map_err(|error| CommandError::user(format!("{}: {error}", file.display())))
}

fn parse(file: &Path, text: Option<&str>) -> Result<Map<String, Value>, CommandError> {
    let text = text.unwrap_or_default();
    if text.trim().is_empty() {
        return Ok(Map::new());
    }
    let problem = |what: String| {
        CommandError::user(format!("{}: {what}", file.display()))
            .hinted("correct the file; nothing was changed")
    };
    match serde_json::from_str(text).map_err(|error| problem(error.to_string()))? {
        Value::Object(settings) => Ok(settings),
        _ => Err(problem("expected a JSON object".to_owned())),
    }
}

/// Returns the settings with the hooks, each once.
///
/// # Errors
/// They are no JSON object, or their hooks are not as the agent documents them.
pub(crate) fn with_hooks(
    agent: HookedAgent,
    file: PathBuf,
    timeout: Duration,
) -> Result<SettingsChange, CommandError> {
    let before = read(&file)?;
    let mut settings = parse(&file, before.as_deref())?;
    remove_hooks(agent, &mut settings);
    let hooks = settings.entry("hooks").or_insert_with(|| json!({}));
    for event in agent.events() {
        let groups = hooks
            .as_object_mut()
            .map(|hooks| hooks.entry(event.name()).or_insert_with(|| json!([])))
            .and_then(Value::as_array_mut);
        let Some(groups) = groups else {
            return Err(CommandError::user(format!(
                "{}: expected a list in `hooks.{}`",
                file.display(),
                event.name()
            )));
        };
        groups.push(entry(agent, event, timeout));
    }
    if agent == HookedAgent::Claude {
        let env = settings.entry("env").or_insert_with(|| json!({}));
        if let Some(env) = env.as_object_mut() {
            env.entry(BLOCK_CAP).or_insert_with(|| "0".into());
        }
    }
    let mut text = serde_json::to_string_pretty(&settings).map_err(CommandError::internal)?;
    text.push('\n');
    Ok(SettingsChange { file, before, after: Some(text) })
}

fn entry(agent: HookedAgent, event: HookEvent, timeout: Duration) -> Value {
    let program = std::env::current_exe().unwrap_or_else(|_| "ralph-orchestrator".into());
    let seconds = timeout.as_secs();
    let (otherwise, time) = match event {
        // A hook without an answer would let the session end.
        HookEvent::Stop => (2, timeout.saturating_add(MARGIN).as_secs()),
        _ => (0, SHORT),
    };
    let limit = if event == HookEvent::Stop { seconds } else { SHORT.saturating_sub(10) };
    let command =
        format!("{}{}--timeout {limit}s || exit {otherwise}", quote_word(&program), agent.marker());
    json!({ "hooks": [{ "type": "command", "command": command, "timeout": time }] })
}

/// Removes what is entered here, and what is empty without it. Returns whether there was anything.
fn remove_hooks(agent: HookedAgent, settings: &mut Map<String, Value>) -> bool {
    let mut found = false;
    let marker = agent.marker();
    let is_own = |hook: &Value| {
        hook.get("command").and_then(Value::as_str).is_some_and(|text| text.contains(&marker))
    };
    if let Some(hooks) = settings.get_mut("hooks").and_then(Value::as_object_mut) {
        for groups in hooks.values_mut().filter_map(Value::as_array_mut) {
            for group in groups.iter_mut() {
                let Some(entries) = group.get_mut("hooks").and_then(Value::as_array_mut) else {
                    continue;
                };
                let before = entries.len();
                entries.retain(|hook| !is_own(hook));
                found |= entries.len() != before;
            }
            if found {
                groups.retain(|group| {
                    group.get("hooks").and_then(Value::as_array).is_none_or(|all| !all.is_empty())
                });
            }
        }
        if found {
            hooks.retain(|_, groups| groups.as_array().is_none_or(|groups| !groups.is_empty()));
        }
    }
    if !found {
        return false;
    }
    remove_if_empty(settings, "hooks");
    if let Some(env) = settings.get_mut("env").and_then(Value::as_object_mut)
        && env.get(BLOCK_CAP).and_then(Value::as_str) == Some("0")
    {
        env.shift_remove(BLOCK_CAP);
        remove_if_empty(settings, "env");
    }
    true
}

fn remove_if_empty(settings: &mut Map<String, Value>, key: &str) {
    if settings.get(key).and_then(Value::as_object).is_some_and(Map::is_empty) {
        settings.shift_remove(key);
    }
}

/// Returns the settings without the hooks: as they were, if nothing else was changed since. `None` if they have none.
///
/// # Errors
/// They are no JSON object.
pub(crate) fn without_hooks(
    agent: HookedAgent,
    file: PathBuf,
) -> Result<Option<SettingsChange>, CommandError> {
    let before = read(&file)?;
    let mut settings = parse(&file, before.as_deref())?;
    if !remove_hooks(agent, &mut settings) {
        return Ok(None);
    }
    let backup = fs::read(backup_path(&file)).ok();
    let backup: Option<Backup> = backup.and_then(|bytes| serde_json::from_slice(&bytes).ok());
    let after = match backup.filter(|backup| Some(&backup.after) == before.as_ref()) {
        Some(backup) => backup.before,
        None => {
            let text = serde_json::to_string_pretty(&settings).map_err(CommandError::internal)?;
            Some(format!("{text}\n"))
        }
    };
    Ok(Some(SettingsChange { file, before, after }))
}

/// Returns whether the settings have the hooks, and whether they switch all hooks off.
pub(crate) fn state(agent: HookedAgent, file: &Path) -> Result<(bool, bool), CommandError> {
    let mut settings = parse(file, read(file)?.as_deref())?;
    let is_off = settings.get("disableAllHooks").and_then(Value::as_bool) == Some(true);
    Ok((remove_hooks(agent, &mut settings), is_off))
}

impl SettingsChange {
    /// Writes the settings, and keeps what was there before.
    ///
    /// # Errors
    /// They cannot be written, or were changed in the meantime.
    pub(crate) fn write(&self) -> Result<(), CommandError> {
        if read(&self.file)? != self.before {
            let message = format!("{} was changed in the meantime", self.file.display());
            return Err(CommandError::user(message).hinted("try again"));
        }
        let failed = |error: std::io::Error| {
            CommandError::user(format!("{} cannot be written: {error}", self.file.display()))
        };
        let Some(after) = &self.after else {
            return fs::remove_file(find_file(&self.file)?).map_err(failed);
        };
        // What a link of the user's names is written, as of people who keep their settings elsewhere.
        let real = find_place(&self.file)?;
        if let Some(folder) = real.parent() {
            fs::create_dir_all(folder).map_err(failed)?;
        }
        let backup = Backup { before: self.before.clone(), after: after.clone() };
        let path = backup_path(&self.file);
        if let Some(folder) = path.parent() {
            fs::create_dir_all(folder).map_err(failed)?;
        }
        let bytes = serde_json::to_vec(&backup).map_err(CommandError::internal)?;
        Disk::default().write_private(&path, &bytes)?;
        let folder = real.parent().unwrap_or(&real).to_owned();
        replace_file(&real, after.as_bytes(), &folder).map_err(|error| failed(error.into()))
    }
}

fn backup_path(file: &Path) -> PathBuf {
    let name = blake3::hash(file.as_os_str().as_encoded_bytes()).to_hex();
    let name = format!("settings-{}", name.get(..16).unwrap_or_default());
    states_dir(&state_home(&variables())).join("sessions").join(name)
}
