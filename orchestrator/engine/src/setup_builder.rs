//! The setup: the command that prepares the workspace before each iteration's agent.

use std::sync::Arc;
use std::time::Duration;

use ralph_orchestrator_config::{ConfigErrors, LoadedConfig, SandboxMode};
use ralph_orchestrator_contract::{BuildContext, BuildError, CancelReason};
use ralph_orchestrator_machine::millis;
use ralph_orchestrator_machine::{Effect, Input, SetupEnd};
use serde_json::Value;
use tokio::sync::watch;

use super::cancel::CancelToken;
use super::clock::LONGEST_SLEEP_MS;
use super::error::EngineError;
use super::execution::GRACE;
use super::session::Session;
use super::stop::stop_requested;
use crate::registry::Registry;
use crate::workspace_setup::{SetupContext, WorkspaceSetup};

/// Builds the setup of a configuration; `None` if it has none.
///
/// # Errors
/// The command cannot be run, with its place.
pub fn build_workspace_setup(
    loaded: &LoadedConfig,
    registry: &Registry,
    context: &BuildContext,
) -> Result<Option<Arc<dyn WorkspaceSetup>>, ConfigErrors> {
    let words = &loaded.config.run.setup;
    if words.is_empty() {
        return Ok(None);
    }
    let at = ["run", "setup"].map(str::to_owned);
    let Some(build) = &registry.setup else {
        let message = "this program was built without a way to run it; remove the key";
        return Err(loaded.error_at(&at, None, message).into());
    };
    let built = build(Value::from(words.clone()), context);
    built.map(|setup| Some(Arc::from(setup))).map_err(|BuildError { key, message, .. }| {
        let key: Vec<String> = at.into_iter().chain(key).collect();
        loaded.error_at(&key, None, &message).into()
    })
}

impl Session {
    /// Returns the setup that has to run before this effect, if one has to.
    pub(super) fn setup_before(&self, effect: &Effect) -> Option<Arc<dyn WorkspaceSetup>> {
        let needs_it = match effect {
            Effect::Prepare(_) => true,
            // Between iterations the workspace is as the agent left it.
            Effect::CheckBaseline | Effect::Validate(_) => self.state.iterations == 0,
            _ => false,
        };
        let setup = self.setup.as_ref().filter(|_| needs_it && !self.state.setup.is_done)?;
        // What went wrong with a file that is gone is no news for the agent.
        let is_there = setup.missing_file().is_none() || self.state.setup.problem.is_some();
        is_there.then(|| Arc::clone(setup))
    }

    /// Runs the setup, and observes what it left: that is no part of what the iteration changes.
    pub(super) async fn set_up(
        &mut self,
        setup: Arc<dyn WorkspaceSetup>,
    ) -> Result<Vec<Input>, EngineError> {
        self.held.verify()?;
        self.advance(Input::SetupStarted)?;
        self.known_tree.set(None);
        let mut end = if setup.missing_file().is_some() {
            SetupEnd::default()
        } else {
            self.run_setup(&*setup).await?
        };
        if !end.interrupted && !end.out_of_time {
            end.tree = self.tree().await?;
        }
        let signal = (*self.stop.borrow() > 0).then_some(Input::Signal);
        Ok(signal.into_iter().chain([Input::SetupFinished(end)]).collect())
    }

    /// Runs the setup while the runtime is recorded.
    async fn run_setup(&mut self, setup: &dyn WorkspaceSetup) -> Result<SetupEnd, EngineError> {
        let (cancel, cancelled) = watch::channel(None);
        let token = CancelToken::new(cancelled);
        let (run, workspace) = (self.run.clone(), self.workspace.clone());
        let mut env = self.env.clone();
        if self.config.sandbox.mode != SandboxMode::Off {
            // The one folder outside the workspace that is its own.
            let scratch = self.scratch.fresh(&self.run)?;
            env.insert("TMPDIR".into(), scratch.display().to_string());
        }
        let iteration = self.state.iterations.saturating_add(1);
        let context = SetupContext { run: &run, iteration, workspace: &workspace, env: &env };
        let mut work = setup.run(context, &token);
        let (mut stop, mut allowance) = (self.stop.clone(), self.validation_allowance());
        let mut inbox = self.lend_inbox_watch();
        let until_ms =
            self.clock.runtime_ms().saturating_add(millis(self.config.run.setup_timeout));
        let result = loop {
            let goes_on = cancel.borrow().is_none();
            let left = until_ms.saturating_sub(self.clock.runtime_ms());
            let pause = if goes_on { left.clamp(1, LONGEST_SLEEP_MS) } else { LONGEST_SLEEP_MS };
            tokio::select! {
                biased;
                result = &mut work => break result,
                () = stop_requested(&mut stop, 1), if goes_on => {
                    cancel.send_replace(Some(CancelReason::Signal));
                }
                () = allowance.expired(), if goes_on => {
                    cancel.send_replace(Some(CancelReason::MaxRuntime));
                }
                () = inbox.changed() => {}
                () = tokio::time::sleep(Duration::from_millis(pause)) => {
                    if left == 0 && goes_on {
                        cancel.send_replace(Some(CancelReason::Timeout));
                    }
                }
            }
            let max_ms = self.state.limits.max_runtime_ms;
            let recorded = self.take_controls().and_then(|_| self.tick());
            if self.state.limits.max_runtime_ms != max_ms {
                allowance = self.validation_allowance();
            }
            if let Err(error) = recorded {
                cancel.send_replace(Some(CancelReason::Signal));
                drop(tokio::time::timeout(GRACE, work).await);
                return Err(error);
            }
        };
        self.return_inbox_watch(inbox);
        let reason = *cancel.borrow();
        Ok(SetupEnd {
            problem: result.err(),
            tree: None,
            interrupted: reason == Some(CancelReason::Signal),
            out_of_time: reason == Some(CancelReason::MaxRuntime),
        })
    }
}
