//! `hook`

use std::io::Read as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use ralph_orchestrator_assembly::block_on::block_on;
use ralph_orchestrator_assembly::context::Context;
use ralph_orchestrator_assembly::discovery::ConfigFile;
use ralph_orchestrator_assembly::error::{CommandError, exit};
use ralph_orchestrator_assembly::overrides::Overrides;
use ralph_orchestrator_assembly::user_folders;
use ralph_orchestrator_config::parse_duration;
use ralph_orchestrator_safe_fs::real_path;
use ralph_orchestrator_supervisor::ancestors;
use ralph_orchestrator_terminal::set_args::SetArgs;
use ralph_orchestrator_terminal::trust;
use ralph_orchestrator_terminal::{output, question, signals};
use ralph_orchestrator_text::{count, duration, escape, local, shorten_home};
use serde::Deserialize as _;
use serde_json::{Map, Value};
use similar::TextDiff;

use crate::check;
use crate::check::{CheckOutcome, CheckRequest};
use crate::events;
use crate::events::HookCall;
use crate::message::HookMessage;
use crate::record;
use crate::record::{SessionRecord, SessionRecords, StoredSession};
use crate::settings;
use crate::settings::{HookedAgent, SettingsChange, SettingsScope};

/// The longest message of an agent's program, in bytes.
const LONGEST: u64 = 64 << 20;

#[expect(missing_docs, reason = "it would be a part of the help")]
#[derive(Debug, clap::Subcommand)]
#[command(defer = true)]
pub enum HookCommand {
    /// Enter the hooks in the settings of an agent, after showing the difference
    Install {
        agent: HookedAgent,
        #[command(flatten)]
        settings: SettingsArgs,
        /// Longest time that the checks may take at a stop
        #[arg(long, value_name = "DURATION", default_value = "1h", value_parser = time)]
        timeout: Duration,
    },
    /// Remove the hooks from the settings of an agent
    Remove {
        agent: HookedAgent,
        #[command(flatten)]
        settings: SettingsArgs,
    },
    /// Show where hooks are installed, and which session is checked
    Status,
    /// Set the goal of the session in this workspace: it ends only once the validators accept
    Arm {
        /// What shall be reached, in a sentence
        goal: String,
        /// How often the session may be blocked before it is let go without a proof
        #[arg(long, value_name = "N", default_value_t = record::MAX_BLOCKS)]
        max_blocks: u64,
        #[command(flatten)]
        sets: SetArgs,
    },
    /// Check the session of this workspace no longer
    Disarm,
    /// Answer a hook of Claude Code; called by it
    #[command(hide = true)]
    Claude(EventArgs),
    /// Answer a hook of Codex; called by it
    #[command(hide = true)]
    Codex(EventArgs),
    /// Perform one check for a hook
    #[command(hide = true)]
    Check,
}

#[derive(Debug, clap::Args)]
pub struct SettingsArgs {
    /// Those of the project in this folder, which its agents can change
    #[arg(long, conflicts_with = "managed")]
    project: bool,
    /// Those of the machine, which no agent without root can change or switch off
    #[arg(long)]
    managed: bool,
    /// Skip confirmation
    #[arg(short, long)]
    yes: bool,
}

#[derive(Debug, clap::Args)]
pub struct EventArgs {
    /// Longest time that the checks may take; less than the agent gives the hook
    #[arg(long, value_name = "DURATION", default_value = "1h", value_parser = time)]
    timeout: Duration,
}

fn time(text: &str) -> Result<Duration, String> {
    parse_duration(text)
        .filter(|time| !time.is_zero())
        .ok_or_else(|| "expected a duration such as 90s, 30m or 1h".to_owned())
}

impl HookCommand {
    /// Returns whether it works on a configuration.
    pub const fn uses_config(&self) -> bool {
        matches!(self, Self::Arm { .. } | Self::Disarm | Self::Status)
    }
}

/// Performs `hook`.
///
/// # Errors
/// The configuration is wrong, or the settings of the agent cannot be changed.
pub fn hook(file: &ConfigFile, command: HookCommand) -> Result<u8, CommandError> {
    match command {
        HookCommand::Install { agent, settings, timeout } => install(agent, &settings, timeout),
        HookCommand::Remove { agent, settings } => remove(agent, &settings),
        HookCommand::Status => status(file),
        HookCommand::Arm { goal, max_blocks, sets } => arm(file, &goal, max_blocks, &sets),
        HookCommand::Disarm => disarm(file),
        HookCommand::Claude(args) | HookCommand::Codex(args) => answer(&args),
        HookCommand::Check => check(),
    }
}

impl SettingsArgs {
    const fn scope(&self) -> SettingsScope {
        match (self.project, self.managed) {
            (true, _) => SettingsScope::Project,
            (_, true) => SettingsScope::Managed,
            _ => SettingsScope::User,
        }
    }
}

fn install(agent: HookedAgent, args: &SettingsArgs, timeout: Duration) -> Result<u8, CommandError> {
    let file = settings::settings_file(agent, args.scope())?;
    apply(&settings::with_hooks(agent, file, timeout)?, args.yes)?;
    if args.scope() == SettingsScope::Project {
        output::info(
            "note: an agent that works in this project can change these settings, or switch hooks off",
        );
    }
    if agent == HookedAgent::Codex {
        output::info(
            "note: codex skips hooks that nobody has trusted, without a word: open /hooks in codex and trust \
             these",
        );
    }
    output::info("next: `ralph-orchestrator hook arm \"…\"` in the folder of a ralph.toml");
    Ok(exit::OK)
}

fn remove(agent: HookedAgent, args: &SettingsArgs) -> Result<u8, CommandError> {
    let file = settings::settings_file(agent, args.scope())?;
    match settings::without_hooks(agent, file.clone())? {
        Some(change) => apply(&change, args.yes)?,
        None => output::result(&format!("{} has no hooks of this program", shorten_home(&file))),
    }
    Ok(exit::OK)
}

/// Shows a change, and makes it if that is confirmed.
fn apply(change: &SettingsChange, is_confirmed: bool) -> Result<(), CommandError> {
    let file = shorten_home(&change.file);
    if change.before == change.after {
        output::result(&format!("{file} has these hooks already"));
        return Ok(());
    }
    let before = change.before.as_deref().unwrap_or_default();
    let after = change.after.as_deref().unwrap_or_default();
    let diff = TextDiff::from_lines(before, after);
    let diff = diff.unified_diff().context_radius(2).header(&file, &file).to_string();
    escape(&diff).lines().for_each(output::info);
    if !is_confirmed && !question::confirmed(&format!("Write {file}? [y/N] "))? {
        return Err(
            CommandError::user("nothing was written").hinted("`--yes` skips the confirmation")
        );
    }
    change.write()?;
    output::result(&match change.after {
        Some(_) => format!("wrote {file}"),
        None => format!("removed {file}, which was not there before"),
    });
    Ok(())
}

/// Refuses what a session asks about itself.
fn refuse_own_session(record: &SessionRecord) -> Result<(), CommandError> {
    let process = record.session.as_ref().and_then(|session| session.process.as_ref());
    let above = ancestors();
    if process.is_some_and(|process| above.iter().any(|one| one.id == *process)) {
        let message = "the session that is checked cannot change what it is checked for";
        return Err(CommandError::user(message).hinted("use another terminal"));
    }
    Ok(())
}

fn arm(file: &ConfigFile, goal: &str, max_blocks: u64, sets: &SetArgs) -> Result<u8, CommandError> {
    if goal.trim().is_empty() {
        return Err(CommandError::user("the goal is empty"));
    }
    if !sets.sets.is_empty() {
        let message = "--set has no effect on a session; write the key to ralph.toml";
        return Err(CommandError::user(message));
    }
    let context = trust::load_to_start(file, Overrides::default())?;
    let workspace = real_path(&context.loaded.config.run.workspace);
    let records = SessionRecords::new(&context.state_home());
    let path = records.armed_path(&workspace);
    let signals = signals::listen()?;
    let _lock = records.lock()?;
    if let Some(record) = record::read(&path)? {
        refuse_own_session(&record)?;
    }
    let limits = &context.loaded.config.limits;
    let mut record = SessionRecord::new(context.file.clone(), workspace);
    record.goal = Some(goal.trim().to_owned());
    record.is_armed = true;
    record.max_blocks = max_blocks;
    record.until = limits
        .max_runtime
        .and_then(|time| SignedDuration::try_from(time).ok())
        .and_then(|time| Timestamp::now().checked_add(time).ok());
    let outcome = block_on(check::check(&CheckRequest::to_begin(&record), &signals))?;
    let (validators, accepts_already, warnings) = match outcome {
        CheckOutcome::Begun { validators, accepts_already, warnings, .. } => {
            (validators, accepts_already, warnings)
        }
        CheckOutcome::Stopped { message } => return Err(CommandError::user(message)),
        other => return Err(CommandError::internal(format!("the run did not begin: {other:?}"))),
    };
    if validators.is_empty() {
        return Err(CommandError::config("no validator of this configuration is required").hinted(
            "add one, such as `kind = \"command\"` with `program = [\"cargo\", \"test\"]`",
        ));
    }
    let stored = StoredSession { path, record };
    stored.write()?;
    show_armed(&stored.record, &validators, accepts_already);
    for warning in warnings {
        output::info(&format!("warning: {}", escape(&warning)));
    }
    Ok(exit::OK)
}

fn show_armed(record: &SessionRecord, validators: &[String], accepts_already: bool) {
    let workspace = shorten_home(&record.workspace);
    output::result(&format!(
        "armed: the next session of an agent in {workspace} ends only once these accept"
    ));
    validators.iter().for_each(|demand| output::result(&format!("  {demand}")));
    if accepts_already {
        output::info(
            "warning: all of them accept now, before any work: they prove nothing about this goal",
        );
    }
    let is_installed = |agent: HookedAgent| {
        settings::all_files(agent)
            .any(|file| settings::state(agent, &file).is_ok_and(|(is_there, _)| is_there))
    };
    if !HookedAgent::ALL.into_iter().any(is_installed) {
        output::info(
            "warning: no hooks are installed: `ralph-orchestrator hook install claude`, or codex",
        );
    }
}

fn disarm(file: &ConfigFile) -> Result<u8, CommandError> {
    let path = armed_path(file);
    match record::read(&path) {
        Ok(Some(record)) => {
            refuse_own_session(&record)?;
            StoredSession { path, record }.remove();
            output::result("disarmed: sessions in this workspace are no longer checked");
        }
        Ok(None) => output::result("no session of this workspace is armed"),
        // What cannot be read blocks as well, and has to go.
        Err(error) => {
            std::fs::remove_file(&path)?;
            output::info(&error.summary());
            output::result("disarmed: the record was damaged, and is removed");
        }
    }
    Ok(exit::OK)
}

/// Returns where the armed session of the workspace is stored, also if the configuration is wrong.
fn armed_path(file: &ConfigFile) -> PathBuf {
    let records = SessionRecords::new(&user_folders::state_home(&user_folders::variables()));
    let workspace = match Context::find_run(file, &SetArgs::default()) {
        Ok((context, _)) => real_path(&context.loaded.config.run.workspace),
        Err(_) => real_path(file.path().parent().unwrap_or(Path::new("."))),
    };
    records.armed_path(&workspace)
}

fn status(file: &ConfigFile) -> Result<u8, CommandError> {
    for agent in HookedAgent::ALL {
        for file in settings::all_files(agent) {
            let (is_there, is_off) = settings::state(agent, &file)?;
            let state = if is_there { "installed" } else { "not installed" };
            let off = if is_off { "; disableAllHooks switches hooks off" } else { "" };
            output::result(&format!(
                "{:<7} {state:<14} {}{off}",
                agent.name(),
                shorten_home(&file)
            ));
        }
    }
    match record::read(&armed_path(file))? {
        None => output::result("no session of this workspace is armed"),
        Some(record) => show_record(&record),
    }
    Ok(exit::OK)
}

fn show_record(record: &SessionRecord) {
    let goal = escape(record.goal.as_deref().unwrap_or_default());
    output::result(&format!("armed   {goal}"));
    let blocks = format!("blocked {} of {}", count(record.blocks, "time"), record.max_blocks);
    let until = record.until.map(|until| {
        let left = until.duration_since(Timestamp::now()).as_millis();
        format!(", {} left", duration(u64::try_from(left).unwrap_or_default()))
    });
    output::result(&format!(
        "        since {}, {blocks}{}",
        local(record.since),
        until.unwrap_or_default()
    ));
    output::result(&match &record.session {
        Some(session) => format!("        session {}", escape(&session.id)),
        None => "        no session yet: the next one in this workspace".to_owned(),
    });
}

fn read_stdin() -> std::io::Result<Vec<u8>> {
    let mut text = Vec::new();
    std::io::stdin().lock().take(LONGEST).read_to_end(&mut text)?;
    Ok(text)
}

/// Answers an event of an agent's session.
fn answer(args: &EventArgs) -> Result<u8, CommandError> {
    let text = read_stdin()?;
    // A list would be taken for a message without fields.
    let message: serde_json::Result<Map<String, Value>> = serde_json::from_slice(&text);
    let message = message.and_then(|fields| HookMessage::deserialize(Value::Object(fields)));
    let message = message.map_err(|error| {
        CommandError::user(format!("the message of the agent cannot be read: {error}"))
    })?;
    let call = HookCall { message, timeout: args.timeout };
    if let Some(answer) = events::answer(&call).object() {
        output::json(&answer);
    }
    Ok(exit::OK)
}

/// Performs the check that is asked for on the standard input.
fn check() -> Result<u8, CommandError> {
    let text = read_stdin()?;
    let request: CheckRequest =
        serde_json::from_slice(&text).map_err(|error| CommandError::user(error.to_string()))?;
    let signals = signals::listen()?;
    let outcome =
        block_on(check::check(&request, &signals)).map_err(|error| error.render(false, None));
    output::json(&outcome);
    Ok(exit::OK)
}
