//! The commands of `[hooks]` and `[context]`, run as those of notices are: with the user's rights, or in the sandbox where
//! agents can change what they run.

use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use ralph_orchestrator_assembly::context::Context;
use ralph_orchestrator_config::{HookSandbox, duration_text};
use ralph_orchestrator_contract::{CancelReason, CancelSignal};
use ralph_orchestrator_engine::hooks::{HookCall, HookOutcome, Hooks};
use ralph_orchestrator_machine::HookEvent;
use ralph_orchestrator_notices::{ScriptPins, SupervisedTransport, UserProgram};
use ralph_orchestrator_shell_text::quote_command;
use ralph_orchestrator_store::{Layout, list_runs};
use ralph_orchestrator_supervisor::{CaptureLimit, Ending, KillSwitch, Output};
use ralph_orchestrator_terminal::output;
use ralph_orchestrator_text::{escape_line, plain_line};

use crate::notices::transport::make_transport;
use crate::notices::{confine_command, describe_command};

/// How much of each stream of a command is kept for the journal, in bytes.
const KEPT: CaptureLimit = CaptureLimit { head: 2048, tail: 1024 };
/// The longest output that is recorded of a command, in bytes.
const LONGEST: usize = 8 * 1024;
/// The longest line of what a command printed that is part of why it failed, in characters.
const SHOWN: usize = 160;

/// A command of the configuration.
struct UserCommand {
    /// Its key, with its number where there are several.
    name: String,
    words: Vec<String>,
    is_confined: bool,
    /// The files that it runs with the user's rights though agents can write them.
    scripts: Vec<PathBuf>,
    timeout: Duration,
    /// How much of its standard output is kept.
    kept: CaptureLimit,
}

/// All commands of a configuration.
pub(crate) struct UserHooks {
    commands: BTreeMap<HookEvent, Vec<UserCommand>>,
    variables: BTreeMap<String, String>,
    transport: SupervisedTransport,
    /// What the commands ran when the first run of this start began.
    pins: Mutex<Option<ScriptPins>>,
    /// What the command of `[context]` printed last.
    context: Mutex<Option<String>>,
}

impl UserHooks {
    /// Returns the commands of a configuration, if it has any.
    pub(crate) fn find(context: &Context, switch: &KillSwitch) -> Option<Self> {
        let config = &context.loaded.config;
        let is_always = config.hooks.sandbox == HookSandbox::Always;
        let mut commands: BTreeMap<HookEvent, Vec<UserCommand>> = BTreeMap::new();
        let mut add = |event: HookEvent, words: &[String], timeout, kept| {
            let (is_agents, scripts) = confine_command(words, context);
            let of_event = commands.entry(event).or_default();
            let number = match of_event.len() {
                0 => String::new(),
                earlier => format!(".{earlier}"),
            };
            let name = format!("{}{number}", event.key());
            let (words, is_confined) = (words.to_vec(), is_always || is_agents);
            of_event.push(UserCommand { name, words, is_confined, scripts, timeout, kept });
        };
        for (key, list) in config.hooks.events() {
            let Some(event) = HookEvent::ALL.into_iter().find(|event| event.word() == key) else {
                continue;
            };
            list.iter().for_each(|words| add(event, words, config.hooks.timeout, KEPT));
        }
        if !config.context.command.is_empty() {
            let head = usize::try_from(config.context.max_bytes).unwrap_or(usize::MAX);
            let kept = CaptureLimit { head, tail: 0 };
            let command = &config.context.command;
            add(HookEvent::Context, command, config.context.timeout, kept);
        }
        let given = context.vars.iter().filter(|(name, _)| config.hooks.pass.contains(name));
        let variables = given.map(|(name, value)| (name.clone(), value.clone())).collect();
        (!commands.is_empty()).then(|| Self {
            commands,
            variables,
            transport: make_transport(context, switch),
            pins: Mutex::default(),
            context: Mutex::default(),
        })
    }

    /// The same for a run, which says how the commands are run.
    pub(crate) fn for_run(context: &Context, switch: &KillSwitch) -> Option<Arc<dyn Hooks>> {
        let hooks = Self::find(context, switch)?;
        hooks.warnings().iter().for_each(|text| output::info(&format!("warning: {text}")));
        Some(Arc::new(hooks))
    }

    /// Returns what a person should know of how the commands are run.
    pub(crate) fn warnings(&self) -> Vec<String> {
        let described = self.all().filter_map(|command| {
            describe_command(&command.name, command.is_confined, &command.scripts)
        });
        described.collect()
    }

    /// Returns the program of each command by its name, or why there is none.
    pub(crate) fn programs(&self) -> Vec<(String, Result<PathBuf, String>)> {
        let named = self.all().map(|command| {
            let program = command.words.first().map(String::as_str).unwrap_or_default();
            (command.name.clone(), self.transport.find_user_program(program))
        });
        named.collect()
    }

    /// Takes what the commands run as it is for what a person wants run, in the newest run. Returns what was changed since that
    /// began.
    ///
    /// # Errors
    /// It cannot be recorded.
    pub(crate) fn accept_scripts(&self, layout: &Layout) -> io::Result<Vec<String>> {
        let Some(run) = list_runs(layout).unwrap_or_default().into_iter().next() else {
            return Ok(Vec::new());
        };
        let pins = ScriptPins::read(&layout.run(&run));
        let mut changed = Vec::new();
        for command in self.all() {
            changed.extend(pins.accept(&command.name, &command.scripts, true)?);
        }
        changed.sort();
        changed.dedup();
        Ok(changed)
    }

    /// Returns the files that commands run and that were changed since the newest run began.
    pub(crate) fn find_changed(&self, layout: &Layout) -> Vec<String> {
        let run = list_runs(layout).unwrap_or_default().into_iter().next();
        let Some(pins) = run.map(|run| ScriptPins::read(&layout.run(&run))) else {
            return Vec::new();
        };
        let changed = self.all().filter_map(|command| {
            let path = pins.find_changed(&command.name, &command.scripts)?;
            Some(format!("{}: {path}", command.name))
        });
        changed.collect()
    }

    fn all(&self) -> impl Iterator<Item = &UserCommand> {
        self.commands.values().flatten()
    }

    fn pins(&self) -> MutexGuard<'_, Option<ScriptPins>> {
        self.pins.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns why a command is not run, if the agent may have changed what it runs.
    fn find_obstacle(&self, command: &UserCommand) -> Option<String> {
        let pins = self.pins();
        let path = pins.as_ref()?.find_changed(&command.name, &command.scripts)?;
        Some(format!(
            "is not run, since {path} was changed since the run began; if the change is yours, `ralph-orchestrator trust` \
             accepts it"
        ))
    }
}

#[async_trait]
impl Hooks for UserHooks {
    fn commands(&self, event: HookEvent) -> Vec<String> {
        let commands = self.commands.get(&event).map(Vec::as_slice).unwrap_or_default();
        commands.iter().map(|command| escape_line(&quote_command(&command.words))).collect()
    }

    fn begin(&self, folder: &Path) -> io::Result<()> {
        let pins = ScriptPins::read(folder);
        let mut known = self.pins();
        // A later run of this start: an agent has worked since the first one began.
        if let Some(known) = known.as_ref() {
            pins.adopt(known)?;
        }
        for command in self.all() {
            pins.accept(&command.name, &command.scripts, false)?;
        }
        *known = Some(pins);
        Ok(())
    }

    fn context(&self) -> Option<String> {
        self.context.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    async fn run(&self, call: HookCall<'_>, cancel: &dyn CancelSignal) -> HookOutcome {
        let commands = self.commands.get(&call.event).map(Vec::as_slice).unwrap_or_default();
        let Some(command) = commands.get(call.index) else { return HookOutcome::default() };
        if let Some(problem) = self.find_obstacle(command) {
            return HookOutcome {
                problem: Some(problem),
                is_final: true,
                ..HookOutcome::default()
            };
        }
        let mut variables = self.variables.clone();
        variables.insert("RALPH_HOOK".to_owned(), call.event.word().to_owned());
        variables.insert("RALPH_HOOK_ID".to_owned(), call.id.to_owned());
        let program = UserProgram {
            words: &command.words,
            is_confined: command.is_confined,
            variables,
            run: call.run,
            stdin: format!("{}\n", call.input).into_bytes(),
            kept: [command.kept, KEPT],
        };
        let cancelled = Mutex::new(None);
        let stop = end_early(command.timeout, cancel, &cancelled);
        let ended = self.transport.run_program(program, stop).await;
        let reason = *cancelled.lock().unwrap_or_else(PoisonError::into_inner);
        match ended {
            Err(error) => {
                let problem = format!("cannot be run: {}", error.message);
                HookOutcome { problem: Some(problem), ..HookOutcome::default() }
            }
            Ok(ended) => {
                if call.event == HookEvent::Context {
                    let printed = Some(ended.stdout.text());
                    *self.context.lock().unwrap_or_else(PoisonError::into_inner) = printed;
                }
                HookOutcome {
                    problem: find_problem(&ended, reason, command.timeout),
                    output: join_output(&ended),
                    is_final: false,
                }
            }
        }
    }
}

/// Resolves once a command has to end, and says why if that is not its own time.
async fn end_early(
    timeout: Duration,
    cancel: &dyn CancelSignal,
    cancelled: &Mutex<Option<CancelReason>>,
) {
    tokio::select! {
        reason = cancel.cancelled() => {
            *cancelled.lock().unwrap_or_else(PoisonError::into_inner) = Some(reason);
        }
        () = tokio::time::sleep(timeout) => {}
    }
}

/// Returns why a command failed, if it did.
fn find_problem(ended: &Output, reason: Option<CancelReason>, timeout: Duration) -> Option<String> {
    let how = match ended.exit.ending {
        _ if ended.stopped && reason == Some(CancelReason::MaxRuntime) => {
            "was ended by limits.max_runtime".to_owned()
        }
        _ if ended.stopped && reason.is_some() => "was ended by a request to stop".to_owned(),
        _ if ended.stopped => format!("did not end within {}", duration_text(timeout)),
        Ending::Exited(0) => return None,
        Ending::Exited(code) => format!("exited with status {code}"),
        Ending::Signaled { signal, .. } => format!("was ended by signal {signal}"),
        Ending::Lost => "ended, and how is not known".to_owned(),
    };
    let (stderr, stdout) = (ended.stderr.text(), ended.stdout.text());
    let last_line = |text: &str| {
        let mut lines = text.lines().map(str::trim).filter(|line| !line.is_empty());
        lines.next_back().map(|line| plain_line(line, SHOWN))
    };
    let said = last_line(&stderr).or_else(|| last_line(&stdout));
    Some(said.map_or_else(|| how.clone(), |said| format!("{how}: {said}")))
}

fn join_output(ended: &Output) -> String {
    let streams = [ended.stdout.text(), ended.stderr.text()];
    let streams = streams.iter().map(|text| text.trim_end()).filter(|text| !text.is_empty());
    let mut joined = streams.collect::<Vec<_>>().join("\n");
    // What is given to agents may be longer.
    joined.truncate(joined.floor_char_boundary(LONGEST));
    joined
}
