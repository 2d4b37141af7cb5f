//! What runs between iterations while the runtime is recorded: validations, of a claim and of the baseline, the setup, and
//! commands of the user.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use ralph_orchestrator_config::SandboxMode;
use ralph_orchestrator_contract::{
    CancelReason, Claim, ClaimKind, ClaimSource, EvidenceFile, Verdict,
};
use ralph_orchestrator_machine::{
    BaselineCheck, BaselineMode, Effect, HookEnd, Input, SetupEnd, Validation, ValidatorVerdict,
    millis,
};
use ralph_orchestrator_store::store_evidence;
use ralph_orchestrator_workspace::TreeSnapshot;
use tokio::sync::{mpsc, watch};

use super::cancel::CancelToken;
use super::check_outputs::CheckOutputs;
use super::clock::LONGEST_SLEEP_MS;
use super::environment::keep_in_checkout;
use super::error::EngineError;
use super::execution::GRACE;
use super::hooks::{HookCall, describe_event, hook_id, run_commands};
use super::review_agents::PendingInput;
use super::secret_files::SecretFiles;
use super::session::Session;
use super::stop::{stop_input, stop_requested};
use super::validation_policy::baseline_mode;
use super::validation_task::{Selection, ValidationTask, is_stored};
use crate::workspace_setup::{SetupContext, WorkspaceSetup};

impl Session {
    /// Returns the task of validating the work as it is now, while the agent runs, which `cancel` ends early.
    pub(super) fn preview_task(
        &mut self,
        claim: Claim,
        cancel: watch::Receiver<Option<CancelReason>>,
    ) -> ValidationTask {
        self.validation_task(Selection::All, claim, cancel, true)
    }

    pub(super) fn validation_task(
        &mut self,
        selection: Selection,
        claim: Claim,
        cancel: watch::Receiver<Option<CancelReason>>,
        is_preview: bool,
    ) -> ValidationTask {
        let taken = self.context.policy.validators.iter().filter(|check| selection.includes(check));
        let names = taken.map(|check| check.info.name.clone()).collect();
        // What is accepted has to be observed right before it is validated.
        if selection == Selection::All {
            self.observer.known_tree.set(None);
        }
        // An explanation is announced as such.
        if self.journal.state.completion().is_none() {
            self.journal.announce_validators(names);
        }
        let mut env = self.context.env.clone();
        if self.checkout.is_some() {
            keep_in_checkout(&mut env);
        }
        ValidationTask {
            run: self.context.run.clone(),
            workspace: self.context.workspace.clone(),
            held: self.observer.held.clone(),
            env,
            policy: Arc::clone(&self.context.policy),
            baseline: Arc::clone(&self.context.baseline),
            clock: Arc::clone(&self.journal.clock),
            iteration: self.journal.state.iterations,
            tree: self.journal.state.workspace.tree.clone(),
            tree_left: self.journal.state.workspace.tree_left.clone(),
            disk: self.journal.store.disk().clone(),
            snapshot_file: self.journal.store.layout().snapshot(&self.context.run),
            secret_files: SecretFiles::new(
                self.journal.store.key().clone(),
                self.context.redactor.clone(),
            ),
            pinned: Arc::clone(&self.observer.pinned),
            checkout: self.checkout.clone(),
            hidden: Vec::new(),
            base_rejected: self.base_rejected(),
            changed_work: Vec::new(),
            test_floor: Arc::clone(&self.test_floor),
            steering: None,
            artefacts: self.journal.state.workspace.artefacts.clone(),
            changes: None,
            tree_since: self.journal.state.workspace.tree_since,
            evidence: self.journal.state.workspace.evidence_history.clone(),
            selection,
            claim,
            hasher: Some(self.observer.take_hasher(&self.journal.state, &self.prompts.source)),
            known_tree: self.observer.known_tree.clone(),
            cancel,
            stop: self.controls.stop.clone(),
            is_preview,
            reviews: None,
            outputs: CheckOutputs::default(),
        }
    }

    /// Returns the required checks that rejected the workspace as it was when the run began, and can be asked about that again. With a backlog it is not known
    /// what it would be like without the work: agents write in it.
    fn base_rejected(&self) -> BTreeSet<String> {
        if self.context.config.backlog.is_some() {
            return BTreeSet::new();
        }
        let validators = self.context.policy.validators.iter();
        let seeing: BTreeSet<&str> = validators
            .filter(|check| check.validator.sees_checkout())
            .map(|check| check.info.name.as_str())
            .collect();
        let verdicts = self.journal.state.validation.baseline_verdicts.iter();
        let verdicts = verdicts.filter(|named| seeing.contains(named.validator.as_str()));
        let rejected = verdicts
            .filter(|named| named.required && matches!(named.verdict, Verdict::Rejected { .. }));
        rejected.map(|named| named.validator.clone()).collect()
    }

    /// Copies the evidence of an accepted claim, before anything is recorded.
    async fn keep_accepted(
        &mut self,
        mut validation: Validation,
    ) -> Result<Validation, EngineError> {
        if validation.tampering.is_empty() {
            match self.store_evidence(&mut validation.verdicts)? {
                Some(evidence) => validation.evidence = evidence,
                None => return Ok(Validation { interrupted: true, ..validation }),
            }
        }
        // A validator may have removed the prompt since it was read.
        if let Some(text) = self.prompts.source.last_text() {
            validation.task = self.context.policy.task_digest(&text).await;
        }
        validation.is_explained = self.is_explained();
        Ok(validation)
    }

    /// Begins to encode what is stored before the baseline is checked, beside what is recorded until then.
    pub(super) fn encode_baseline_snapshot(&self, snapshot: &TreeSnapshot) {
        let is_checked =
            baseline_mode(self.context.config.completion.baseline) != BaselineMode::Off;
        if is_checked && is_stored(snapshot, &self.context.policy, Selection::RequiredChecks) {
            self.observer.known_tree.begin_encoding();
        }
    }

    /// Runs the required validators that run something, before any work is done.
    pub(super) async fn check_baseline(&mut self) -> Result<BaselineCheck, EngineError> {
        let done = self.validate(Selection::RequiredChecks, baseline_claim()).await?;
        let Validation { verdicts, artefacts, mut warnings, interrupted, out_of_time, .. } = done;
        let hopeless = done.hopeless.into_iter().chain(done.tampering).collect();
        if self.context.part.as_ref().is_some_and(|part| part.is_sent_back) {
            self.carry_test_floor()?;
        }
        warnings.extend(self.test_floor.warnings());
        let unable = self.test_floor.missing_tools();
        let check = BaselineCheck {
            verdicts,
            artefacts,
            warnings,
            unable,
            hopeless,
            ..BaselineCheck::default()
        };
        if interrupted || out_of_time {
            return Ok(BaselineCheck { interrupted, out_of_time, ..check });
        }
        self.store_test_floor()?;
        let (Some(tree), Some(evidence)) = (
            self.observer.tree(&self.journal, &self.controls, &self.prompts.source).await?,
            self.observer.evidence(&self.journal, &self.controls).await?,
        ) else {
            let interrupted = self.controls.stop.borrow().times > 0;
            return Ok(BaselineCheck { interrupted, out_of_time: !interrupted, ..check });
        };
        let evidence = evidence.contents.into_values().collect();
        Ok(BaselineCheck { tree, evidence, ..check })
    }

    /// Runs validators in order, on one tree, while the runtime is recorded.
    pub(super) async fn validate(
        &mut self,
        selection: Selection,
        claim: Claim,
    ) -> Result<Validation, EngineError> {
        let (cancel, cancelled) = watch::channel(None);
        let mut task = self.validation_task(selection, claim, cancelled, false);
        let (inputs, pending) = mpsc::channel(1);
        if selection == Selection::All {
            task.steering = self.steering_files()?;
            task.reviews = self.reviews(inputs).await?;
        }
        let mut work = Box::pin(async move {
            let result = match task.run().await {
                // A cancelled validation decides nothing; only what it left is recorded.
                Ok(None) => task.find_artefacts().await.map(|artefacts| Validation {
                    artefacts,
                    interrupted: true,
                    ..Validation::default()
                }),
                Ok(Some(validation)) => Ok(validation),
                Err(error) => Err(error),
            };
            (task.hasher, result)
        });
        let (hasher, result) =
            self.attend_recording(&mut work, &cancel, WorkBounds::OF_RUN, pending).await?;
        self.observer.hasher = hasher;
        let validation = result?;
        self.store_kept()?;
        if !validation.interrupted {
            return match selection {
                Selection::All => self.keep_accepted(validation).await,
                Selection::RequiredChecks | Selection::Checks => Ok(validation),
            };
        }
        let out_of_time = *cancel.borrow() == Some(CancelReason::MaxRuntime);
        Ok(Validation { interrupted: !out_of_time, out_of_time, ..validation })
    }

    /// Awaits work between two iterations while the runtime is recorded and controls are taken. `cancel` is sent the reason
    /// for which it has to end.
    pub(super) async fn attend<T>(
        &mut self,
        work: &mut (impl Future<Output = T> + Unpin),
        cancel: &watch::Sender<Option<CancelReason>>,
        bounds: WorkBounds,
    ) -> Result<T, EngineError> {
        self.attend_recording(work, cancel, bounds, mpsc::channel(1).1).await
    }

    /// The same, while what the work sends is recorded.
    async fn attend_recording<T>(
        &mut self,
        work: &mut (impl Future<Output = T> + Unpin),
        cancel: &watch::Sender<Option<CancelReason>>,
        bounds: WorkBounds,
        mut pending: mpsc::Receiver<PendingInput>,
    ) -> Result<T, EngineError> {
        let (mut stop, mut allowance) =
            (self.controls.stop.clone(), self.controls.validation_allowance(&self.journal));
        let mut inbox = self.controls.lend_inbox_watch(&self.journal);
        let until_ms = bounds.timeout.map_or(u64::MAX, |timeout| {
            self.journal.clock.runtime_ms().saturating_add(millis(timeout))
        });
        let requests = bounds.ignored_requests.saturating_add(1);
        let result = loop {
            let mut recorded = Ok(());
            let goes_on = cancel.borrow().is_none();
            let left = until_ms.saturating_sub(self.journal.clock.runtime_ms());
            let pause = if goes_on { left.clamp(1, LONGEST_SLEEP_MS) } else { LONGEST_SLEEP_MS };
            tokio::select! {
                biased;
                result = &mut *work => break result,
                Some(PendingInput { input, recorded: done }) = pending.recv() => {
                    recorded = self.journal.advance(input).map(drop);
                    // Nobody waits for it if the work was given up.
                    let _ = recorded.is_ok() && done.send(()).is_ok();
                }
                () = stop_requested(&mut stop, requests), if goes_on => {
                    cancel.send_replace(Some(CancelReason::Signal));
                }
                () = allowance.expired(), if goes_on && bounds.is_of_run => {
                    cancel.send_replace(Some(CancelReason::MaxRuntime));
                }
                () = inbox.changed() => {}
                () = tokio::time::sleep(Duration::from_millis(pause)) => {
                    if left == 0 && goes_on {
                        cancel.send_replace(Some(CancelReason::Timeout));
                    }
                }
            }
            let max_ms = self.journal.state.limits.max_runtime_ms;
            let recorded = recorded
                .and_then(|()| self.controls.take_controls(&mut self.journal))
                .and_then(|_| self.journal.tick());
            if self.journal.state.limits.max_runtime_ms != max_ms {
                allowance = self.controls.validation_allowance(&self.journal);
            }
            if let Err(error) = recorded {
                cancel.send_replace(Some(CancelReason::Signal));
                drop(tokio::time::timeout(GRACE, work).await);
                return Err(error);
            }
        };
        self.controls.return_inbox_watch(inbox);
        Ok(result)
    }

    /// Copies accepted evidence if every required validator accepted. A file that changed since it was
    /// examined is not accepted. `None` if the run was asked to stop meanwhile.
    fn store_evidence(
        &self,
        verdicts: &mut [ValidatorVerdict],
    ) -> Result<Option<Vec<EvidenceFile>>, EngineError> {
        if verdicts.iter().any(|verdict| verdict.required && !verdict.verdict.is_accepted()) {
            return Ok(Some(Vec::new()));
        }
        let folder = self.journal.store.layout().evidence(&self.context.run);
        let mut kept = Vec::new();
        for named in verdicts {
            let Verdict::Accepted { evidence, .. } = &named.verdict else { continue };
            for file in evidence.clone() {
                if self.controls.stop.borrow().times > 0 {
                    return Ok(None);
                }
                if !store_evidence(self.journal.store.disk(), &folder, &file)? {
                    let path = file.path.display();
                    named.verdict =
                        Verdict::rejected(format!("{path} changed while it was examined"));
                    break;
                }
                kept.push(file);
            }
        }
        Ok(Some(kept))
    }

    /// Runs the user's commands that are due before this effect, if any are. Returns what their end is for the machine.
    pub(super) async fn run_due_hook(
        &mut self,
        effect: &Effect,
    ) -> Result<Option<Vec<Input>>, EngineError> {
        let (Some(due), Some(hooks)) =
            (self.journal.state.due_hook(effect), self.context.hooks.clone())
        else {
            return Ok(None);
        };
        let (run, part) = (self.context.run.clone(), self.context.part.as_ref());
        let item = part.and_then(|part| part.item.clone());
        let workspace = self.context.workspace.clone();
        let folder = self.journal.store.layout().run(&run);
        let id = hook_id(&run, &self.journal.state, due.event);
        let input = describe_event((&run, &workspace, item.as_deref()), &self.journal.state, &due);
        let event = due.event;
        let call = HookCall { event, index: 0, run: &run, folder: &folder, id: &id, input: &input };
        let (cancel, cancelled) = watch::channel(None);
        let token = CancelToken::new(cancelled);
        let bounds = WorkBounds {
            timeout: None,
            // What has happened is followed up, however little time there is.
            is_of_run: event.is_before(),
            ignored_requests: self.controls.stop.borrow().times,
        };
        let mut work = Box::pin(run_commands(&*hooks, call, &token));
        let commands = self.attend(&mut work, &cancel, bounds).await?;
        drop(work);
        self.observer.known_tree.set(None);
        let reason = *cancel.borrow();
        let end = HookEnd {
            event,
            commands,
            interrupted: reason == Some(CancelReason::Signal),
            out_of_time: reason == Some(CancelReason::MaxRuntime),
        };
        let signal = stop_input(&self.controls.stop);
        let ended = Input::HookFinished(end, Box::new(effect.clone()));
        Ok(Some(signal.into_iter().chain([ended]).collect()))
    }

    /// Returns the setup that has to run before this effect, if one has to.
    pub(super) fn setup_before(&self, effect: &Effect) -> Option<Arc<dyn WorkspaceSetup>> {
        let needs_it = match effect {
            Effect::Prepare(_) => true,
            // Between iterations the workspace is as the agent left it.
            Effect::CheckBaseline | Effect::Validate(_) => self.journal.state.iterations == 0,
            _ => false,
        };
        let setup = self
            .context
            .setup
            .as_ref()
            .filter(|_| needs_it && !self.journal.state.setup.is_done)?;
        // What went wrong with a file that is gone is no news for the agent.
        let is_there = setup.missing_file().is_none() || self.journal.state.setup.problem.is_some();
        is_there.then(|| Arc::clone(setup))
    }

    /// Runs the setup, and observes what it left: that is no part of what the iteration changes.
    pub(super) async fn set_up(
        &mut self,
        setup: Arc<dyn WorkspaceSetup>,
    ) -> Result<Vec<Input>, EngineError> {
        self.observer.held.verify()?;
        self.journal.advance(Input::SetupStarted)?;
        self.observer.known_tree.set(None);
        let mut end = if setup.missing_file().is_some() {
            SetupEnd::default()
        } else {
            self.run_setup(&*setup).await?
        };
        if !end.interrupted && !end.out_of_time {
            end.tree =
                self.observer.tree(&self.journal, &self.controls, &self.prompts.source).await?;
        }
        let signal = stop_input(&self.controls.stop);
        Ok(signal.into_iter().chain([Input::SetupFinished(end)]).collect())
    }

    /// Runs the setup while the runtime is recorded.
    async fn run_setup(&mut self, setup: &dyn WorkspaceSetup) -> Result<SetupEnd, EngineError> {
        let (cancel, cancelled) = watch::channel(None);
        let token = CancelToken::new(cancelled);
        let (run, workspace) = (self.context.run.clone(), self.context.workspace.clone());
        let mut env = self.context.env.clone();
        if self.context.config.sandbox.mode != SandboxMode::Off {
            // The one folder outside the workspace that is its own.
            let scratch = self.agent.scratch.fresh(&self.context.run)?;
            env.insert("TMPDIR".into(), scratch.display().to_string());
        }
        let iteration = self.journal.state.iterations.saturating_add(1);
        let context =
            SetupContext { run: &run, iteration, workspace: &workspace, checkout: &[], env: &env };
        let mut work = setup.run(context, &token);
        let bounds = WorkBounds {
            timeout: Some(self.context.config.run.setup_timeout),
            ..WorkBounds::OF_RUN
        };
        let result = self.attend(&mut work, &cancel, bounds).await?;
        let reason = *cancel.borrow();
        Ok(SetupEnd {
            problem: result.err(),
            tree: None,
            interrupted: reason == Some(CancelReason::Signal),
            out_of_time: reason == Some(CancelReason::MaxRuntime),
        })
    }
}

/// What ends work between iterations early.
#[derive(Clone, Copy, Debug)]
pub(super) struct WorkBounds {
    /// The longest that it may take.
    pub(super) timeout: Option<Duration>,
    /// The time of the run, too.
    pub(super) is_of_run: bool,
    /// How many requests to stop leave it alone.
    pub(super) ignored_requests: u32,
}

impl WorkBounds {
    /// What belongs to a run that goes on: its time, and the first request to stop.
    pub(super) const OF_RUN: Self = Self { timeout: None, is_of_run: true, ignored_requests: 0 };
}

/// Returns what takes the place of a claim where nothing is claimed.
pub(super) fn baseline_claim() -> Claim {
    Claim {
        kind: ClaimKind::Complete,
        detector: "baseline".to_owned(),
        source: ClaimSource::State,
        text: "nothing is claimed: this is before any work".to_owned(),
    }
}
