//! Commands of the user at points of a run: what runs them, how often, and what they are told.

use std::io;
use std::path::Path;
use std::time::Duration;

use async_trait::async_trait;
use ralph_orchestrator_contract::CancelSignal;
use ralph_orchestrator_machine::{DueHook, HookCommand, HookEvent, State};
use serde_json::{Map, Value, json};

/// How often a command after something is started until it succeeds.
const MOST_ATTEMPTS: u32 = 3;
/// The pause after the first failure; it is tripled after the second.
const FIRST_PAUSE: Duration = Duration::from_secs(1);
/// The version of what commands are told.
const VERSION: u32 = 1;

/// Runs the user's commands. The engine itself starts no process.
#[async_trait]
pub trait Hooks: Send + Sync {
    /// Returns the commands of an event as one would type them.
    fn commands(&self, event: HookEvent) -> Vec<String>;

    /// Takes what the commands run as it is for what a person wants run, as far as this run knows nothing of it. `folder` is
    /// the run's in the state directory.
    ///
    /// # Errors
    /// It cannot be recorded.
    fn begin(&self, folder: &Path) -> io::Result<()>;

    /// Returns what the command of [`HookEvent::Context`] printed last, as far as agents are given it.
    fn context(&self) -> Option<String>;

    /// Runs a command of an event once, until `cancel`. None of its processes is left then.
    async fn run(&self, call: HookCall<'_>, cancel: &dyn CancelSignal) -> HookOutcome;
}

/// A command that is to be run.
#[derive(Clone, Copy, Debug)]
pub struct HookCall<'a> {
    /// The event.
    pub event: HookEvent,
    /// Which of its commands.
    pub index: usize,
    /// The run.
    pub run: &'a str,
    /// Its folder in the state directory.
    pub folder: &'a Path,
    /// Identifies the event: the same each time that its commands are run again.
    pub id: &'a str,
    /// What the command is given on standard input.
    pub input: &'a Value,
}

/// How a command ended.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct HookOutcome {
    /// Why it failed, if it did, such as "exited with status 1: no network".
    pub problem: Option<String>,
    /// What it printed, possibly cut.
    pub output: String,
    /// It would fail again.
    pub is_final: bool,
}

/// Runs the commands of an event in order. Those before something are run once, and only until one fails; each one after
/// something is tried a few times.
pub async fn run_commands(
    hooks: &dyn Hooks,
    call: HookCall<'_>,
    cancel: &dyn CancelSignal,
) -> Vec<HookCommand> {
    let mut ended = Vec::new();
    for (index, command) in hooks.commands(call.event).into_iter().enumerate() {
        let (outcome, attempts) = try_command(hooks, HookCall { index, ..call }, cancel).await;
        let HookOutcome { problem, output, .. } = outcome;
        let is_over = problem.is_some() && call.event.is_before();
        ended.push(HookCommand { command, attempts, problem, output });
        if is_over {
            break;
        }
    }
    ended
}

/// Runs a command until it succeeds, or has been run often enough. Returns how often that was.
async fn try_command(
    hooks: &dyn Hooks,
    call: HookCall<'_>,
    cancel: &dyn CancelSignal,
) -> (HookOutcome, u32) {
    let most = if call.event.is_before() { 1 } else { MOST_ATTEMPTS };
    let (mut attempts, mut pause) = (1, FIRST_PAUSE);
    loop {
        let outcome = hooks.run(call, cancel).await;
        if outcome.problem.is_none() || outcome.is_final || attempts >= most {
            return (outcome, attempts);
        }
        tokio::select! {
            biased;
            _ = cancel.cancelled() => return (outcome, attempts),
            () = tokio::time::sleep(pause) => {}
        }
        (attempts, pause) = (attempts.saturating_add(1), pause.saturating_mul(3));
    }
}

/// Returns what agents are given of the output of a command; nothing if it printed nothing. The same output is the same text.
pub(super) fn context_block(command: &str, output: &str) -> String {
    let output = output.trim_end();
    if output.is_empty() {
        return String::new();
    }
    let longest = output.split(|c| c != '`').map(str::len).max().unwrap_or_default();
    let fence = "`".repeat(longest.max(2).saturating_add(1));
    format!("Output of `{command}`:\n{fence}\n{output}\n{fence}\n\n")
}

/// Returns what identifies the event of a run whose commands are run next.
pub(super) fn hook_id(run: &str, state: &State, event: HookEvent) -> String {
    // What a crash has cut short is not recorded, so that its number is that of another event then.
    format!("{run}:{}:{}", event.word(), state.hooks.count.saturating_add(1))
}

/// Returns what the commands of an event are told.
pub(super) fn describe_event(
    (run, workspace, item): (&str, &Path, Option<&str>),
    state: &State,
    due: &DueHook,
) -> Value {
    let mut told = json!({
        "version": VERSION,
        "hook": due.event.word(),
        "id": hook_id(run, state, due.event),
        "run": run,
        "workspace": workspace.display().to_string(),
        "agent": state.agent.name,
        "iteration": state.iterations,
        "cost_usd": state.cost(),
        "tokens": state.tokens().total(),
        "runtime_ms": state.budget.runtime_ms,
    });
    let details = due.details.as_object().cloned().unwrap_or_default();
    let item = item.map(|item| ("item".to_owned(), Value::from(item)));
    if let Some(told) = told.as_object_mut() {
        told.extend(item.into_iter().chain(details).collect::<Map<_, _>>());
    }
    told
}

#[cfg(test)]
mod tests {
    use std::collections::VecDeque;
    use std::sync::Mutex;

    use ralph_orchestrator_contract::NeverCancelled;

    use super::*;

    /// Two commands, which end as they are told.
    struct Scripted(Mutex<VecDeque<HookOutcome>>);

    #[async_trait]
    impl Hooks for Scripted {
        fn commands(&self, _: HookEvent) -> Vec<String> {
            vec!["first".to_owned(), "second".to_owned()]
        }

        fn begin(&self, _: &Path) -> io::Result<()> {
            Ok(())
        }

        fn context(&self) -> Option<String> {
            None
        }

        async fn run(&self, _: HookCall<'_>, _: &dyn CancelSignal) -> HookOutcome {
            self.0.lock().unwrap().pop_front().unwrap()
        }
    }

    fn failed(is_final: bool) -> HookOutcome {
        HookOutcome { problem: Some("failed".to_owned()), output: "said".to_owned(), is_final }
    }

    async fn run(event: HookEvent, outcomes: &[HookOutcome]) -> Vec<(String, u32, bool)> {
        let hooks = Scripted(Mutex::new(outcomes.iter().cloned().collect()));
        let (folder, input) = (Path::new("/s"), Value::Null);
        let call = HookCall { event, index: 0, run: "r", folder, id: "r:hook:1", input: &input };
        let ended = run_commands(&hooks, call, &NeverCancelled).await;
        assert!(hooks.0.lock().unwrap().is_empty(), "not all were run");
        let rows = ended.into_iter();
        rows.map(|ended| (ended.command, ended.attempts, ended.problem.is_some())).collect()
    }

    #[test]
    fn output_for_agents_cannot_end_its_block() {
        assert_eq!(context_block("x", " \n"), "");
        assert_eq!(context_block("x", "a\n"), "Output of `x`:\n```\na\n```\n\n");
        let text = context_block("x", "```\n````\nb");
        assert_eq!(text, "Output of `x`:\n`````\n```\n````\nb\n`````\n\n");
    }

    #[tokio::test(start_paused = true)]
    async fn before_something_each_is_run_once_until_one_fails_and_after_it_each_is_tried_again() {
        let (well, bad) = (HookOutcome::default(), failed(false));
        let row = |name: &str, attempts, fails| (name.to_owned(), attempts, fails);
        let before = HookEvent::BeforeRun;
        assert_eq!(run(before, std::slice::from_ref(&bad)).await, [row("first", 1, true)]);
        let both = [well.clone(), bad.clone()];
        assert_eq!(run(before, &both).await, [row("first", 1, false), row("second", 1, true)]);
        let after = HookEvent::AfterStop;
        let outcomes = [bad.clone(), bad.clone(), bad.clone(), bad, well];
        assert_eq!(run(after, &outcomes).await, [row("first", 3, true), row("second", 2, false)]);
        let final_one = [failed(true), HookOutcome::default()];
        assert_eq!(run(after, &final_one).await, [row("first", 1, true), row("second", 1, false)]);
    }
}
