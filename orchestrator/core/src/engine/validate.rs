//! Running the validators on a claim.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::sync::watch;

use super::allowance::LAST_LOOK;
use super::bytecode::BytecodeDir;
use super::changes::{Outcome, WorkspaceChanges, artefact_paths};
use super::clock::Clock;
use super::error::EngineError;
use super::execution::{self, GRACE, Over};
use super::look::{observe_evidence, scan};
use super::notice::Notice;
use super::observe::KnownTree;
use super::plan::{self, Judges};
use super::protection::{ProtectedState, Protection};
use super::rest::{LONGEST_REST_MS, asked};
use super::session::{Session, StopRequests};
use super::sink::Cancel;
use crate::machine::{BaselineCheck, EvidenceHistory, Validation, ValidatorVerdict};
use crate::store::{Disk, store_evidence};
use crate::workspace::{PinnedPaths, TreeHasher, TreeSnapshot, WorkspaceHandle};
use ralph_orchestrator_contract::{
    CancelReason, CancelSignal as _, Claim, ClaimKind, ClaimSource, EvidenceFile,
    ValidationContext, Verdict,
};

/// A workspace with more entries is not kept for the next start: to write them would take longer than
/// most checks.
const MOST_KEPT: usize = 100_000;

/// All that the validators need, so that they can work beside something else.
pub(super) struct Examination {
    run: String,
    workspace: PathBuf,
    held: WorkspaceHandle,
    env: BTreeMap<String, String>,
    judges: Arc<Judges>,
    baseline: Arc<ProtectedState>,
    clock: Arc<Clock>,
    iteration: u64,
    tree: String,
    tree_left: Option<String>,
    tree_since: u64,
    evidence: EvidenceHistory,
    disk: Disk,
    snapshot_file: PathBuf,
    pinned: Arc<PinnedPaths>,
    artefacts: BTreeSet<String>,
    /// What validators have done so far.
    changes: Option<WorkspaceChanges>,
    selection: Selection,
    claim: Claim,
    hasher: Option<TreeHasher>,
    known_tree: KnownTree,
    cancel: watch::Receiver<Option<CancelReason>>,
    stop: StopRequests,
    /// The iteration goes on: what it has made so far is not recorded yet.
    ahead: bool,
}

/// Variables by name.
type Environment<'a> = Cow<'a, BTreeMap<String, String>>;

/// Which validators are run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Selection {
    All,
    /// Those that are required and run something.
    RequiredChecks,
}

impl Selection {
    pub(super) fn takes(self, check: &plan::Check) -> bool {
        match self {
            Self::All => true,
            Self::RequiredChecks => check.info.required && check.info.runs_check,
        }
    }
}

/// What came of it, and the hasher that was lent to it. `None` if it was broken off.
pub(super) type Examined = (Option<TreeHasher>, Result<Option<Validation>, EngineError>);

impl Session {
    /// Ready to examine the work as it is now. `cancel` breaks it off.
    pub(super) fn examination(
        &mut self,
        claim: Claim,
        cancel: watch::Receiver<Option<CancelReason>>,
        ahead: bool,
    ) -> Examination {
        self.examination_of(Selection::All, claim, cancel, ahead)
    }

    fn examination_of(
        &mut self,
        selection: Selection,
        claim: Claim,
        cancel: watch::Receiver<Option<CancelReason>>,
        ahead: bool,
    ) -> Examination {
        let taken = self.judges.checks.iter().filter(|check| selection.takes(check));
        let names = taken.map(|check| check.info.name.clone()).collect();
        let iteration = self.state.iterations;
        // What is accepted was looked at right before it was examined.
        if selection == Selection::All {
            self.known_tree.set(None);
        }
        self.notice(&Notice::Validating { iteration, validators: names });
        Examination {
            run: self.run.clone(),
            workspace: self.workspace.clone(),
            held: self.held.clone(),
            env: self.env.clone(),
            judges: Arc::clone(&self.judges),
            baseline: Arc::clone(&self.baseline),
            clock: Arc::clone(&self.clock),
            iteration,
            tree: self.state.workspace.tree.clone(),
            tree_left: self.state.workspace.tree_left.clone(),
            disk: self.store.disk().clone(),
            snapshot_file: self.layout().snapshot(&self.run),
            pinned: Arc::clone(&self.pinned),
            artefacts: self.state.workspace.artefacts.clone(),
            changes: None,
            tree_since: self.state.workspace.tree_since,
            evidence: self.state.workspace.evidence_history.clone(),
            selection,
            claim,
            hasher: Some(self.take_hasher()),
            known_tree: self.known_tree.clone(),
            cancel,
            stop: self.stop.clone(),
            ahead,
        }
    }

    /// All validators in order, on one tree. What they accept is copied before anything is recorded.
    pub(super) async fn validate(&mut self, claim: &Claim) -> Result<Validation, EngineError> {
        let mut validation = self.run_validators(Selection::All, claim.clone()).await?;
        if validation.interrupted || validation.out_of_time {
            return Ok(validation);
        }
        if validation.tampering.is_empty() {
            match self.keep(&mut validation.verdicts)? {
                Some(evidence) => validation.evidence = evidence,
                None => return Ok(Validation { interrupted: true, ..validation }),
            }
        }
        // A validator may have removed the prompt since it was read.
        if let Some(text) = self.prompt.last_text() {
            validation.task = self.judges.task(&text).await;
        }
        Ok(validation)
    }

    /// The required validators that run something, before any work is done.
    pub(super) async fn check_baseline(&mut self) -> Result<BaselineCheck, EngineError> {
        let done = self.run_validators(Selection::RequiredChecks, baseline_claim()).await?;
        let Validation { verdicts, artefacts, mut warnings, interrupted, out_of_time, .. } = done;
        warnings
            .extend(done.tampering.iter().map(|what| format!("nothing can be accepted: {what}")));
        let check = BaselineCheck { verdicts, artefacts, warnings, ..BaselineCheck::default() };
        if interrupted || out_of_time {
            return Ok(BaselineCheck { interrupted, out_of_time, ..check });
        }
        let (Some(tree), Some(evidence)) = (self.tree().await?, self.evidence().await?) else {
            let interrupted = *self.stop.borrow() > 0;
            return Ok(BaselineCheck { interrupted, out_of_time: !interrupted, ..check });
        };
        let evidence = evidence.contents.into_values().collect();
        Ok(BaselineCheck { tree, evidence, ..check })
    }

    /// Runs validators while the time that passes is noted.
    async fn run_validators(
        &mut self,
        selection: Selection,
        claim: Claim,
    ) -> Result<Validation, EngineError> {
        let (tell, told) = watch::channel(None);
        let mut work = Box::pin(self.examination_of(selection, claim, told, false).run());
        let (mut stop, allowance) = (self.stop.clone(), self.time_to_validate());
        let (hasher, result) = loop {
            let goes_on = tell.borrow().is_none();
            tokio::select! {
                biased;
                done = &mut work => break done,
                () = asked(&mut stop, 1), if goes_on => {
                    tell.send_replace(Some(CancelReason::Signal));
                }
                () = allowance.used_up(), if goes_on => {
                    tell.send_replace(Some(CancelReason::MaxRuntime));
                }
                () = tokio::time::sleep(Duration::from_millis(LONGEST_REST_MS)) => {}
            }
            if let Err(trouble) = self.tick() {
                tell.send_replace(Some(CancelReason::Signal));
                drop(tokio::time::timeout(GRACE, work).await);
                return Err(trouble);
            }
        };
        self.hasher = hasher;
        let validation = result?.unwrap_or_default();
        if !validation.interrupted {
            return Ok(validation);
        }
        // What was broken off says nothing, but for what it left.
        let out_of_time = *tell.borrow() == Some(CancelReason::MaxRuntime);
        Ok(Validation { interrupted: !out_of_time, out_of_time, ..validation })
    }

    /// Copies accepted evidence, if everything that is required was accepted. What is no longer what
    /// was examined is not accepted. `None` if the run was asked to stop meanwhile.
    fn keep(
        &self,
        verdicts: &mut [ValidatorVerdict],
    ) -> Result<Option<Vec<EvidenceFile>>, EngineError> {
        if verdicts.iter().any(|verdict| verdict.required && !verdict.verdict.is_accepted()) {
            return Ok(Some(Vec::new()));
        }
        let folder = self.layout().evidence(&self.run);
        let mut kept = Vec::new();
        for named in verdicts {
            let Verdict::Accepted { evidence, .. } = &named.verdict else { continue };
            for file in evidence.clone() {
                if *self.stop.borrow() > 0 {
                    return Ok(None);
                }
                if !store_evidence(self.store.disk(), &folder, &file)? {
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
}

impl Examination {
    /// All validators in order, on one tree. Keeps no evidence.
    pub(super) async fn run(mut self) -> Examined {
        let mut result = self.validation().await;
        if matches!(result, Ok(None)) && !self.ahead {
            result = self.artefacts_left().await.map(|artefacts| {
                Some(Validation { artefacts, interrupted: true, ..Validation::default() })
            });
        }
        (self.hasher, result)
    }

    async fn validation(&mut self) -> Result<Option<Validation>, EngineError> {
        let Some(before) = self.snapshot().await? else { return Ok(None) };
        self.keep_snapshot(&before)?;
        if self.ahead && !self.look_ahead(before.digest().as_str()).await? {
            return Ok(None);
        }
        let judges = Arc::clone(&self.judges);
        let checks: Vec<&plan::Check> =
            judges.checks.iter().filter(|check| self.selection.takes(check)).collect();
        let baseline = Arc::clone(&self.baseline);
        let begun = Protection::begin(&checks, baseline, &self.workspace, self.enough()).await?;
        let Some(mut protection) = begun else { return Ok(None) };
        self.changes = Some(self.begin_changes(before));
        let Some(mut verdicts) = self.attempt(&checks, &mut protection).await? else {
            return Ok(None);
        };
        // While the agent runs, whatever changes may be its own doing.
        if !self.is_settled() && !self.ahead {
            self.changes.iter_mut().for_each(WorkspaceChanges::begin_again);
            let again = self.attempt(&checks, &mut protection).await?;
            let Some(again) = again else { return Ok(None) };
            verdicts = again;
            self.settle(&mut verdicts);
        }
        if protection.compare("a process", self.enough()).await?.is_none() {
            return Ok(None);
        }
        let Some(changes) = self.changes.take() else { return Ok(None) };
        let outcome = if self.ahead { changes.into_preview() } else { changes.into_outcome() };
        let Outcome { tree_before, tree_after, tree_left, artefacts, warnings } = outcome;
        Ok(Some(Validation {
            verdicts,
            tree_before,
            tree_after,
            tree_left,
            artefacts,
            warnings,
            tampering: protection.into_tampering(),
            ..Validation::default()
        }))
    }

    fn begin_changes(&self, before: TreeSnapshot) -> WorkspaceChanges {
        let known = artefact_paths(&self.artefacts).collect();
        WorkspaceChanges::begin(before, Arc::clone(&self.pinned), known)
    }

    fn is_settled(&self) -> bool {
        self.changes.as_ref().is_some_and(WorkspaceChanges::is_settled)
    }

    /// All these validators in order, once; `None` if it was broken off.
    async fn attempt(
        &mut self,
        checks: &[&plan::Check],
        protection: &mut Protection,
    ) -> Result<Option<Vec<ValidatorVerdict>>, EngineError> {
        let mut verdicts = Vec::new();
        for check in checks {
            let Some(mut verdict) = self.check(check, protection).await? else { return Ok(None) };
            if check.info.runs_check {
                let Some(now) = self.snapshot().await? else { return Ok(None) };
                let error = self.changes.as_mut().and_then(|changes| changes.observe(check, now));
                verdict.verdict = error.unwrap_or(verdict.verdict);
            }
            verdicts.push(verdict);
        }
        Ok(Some(verdicts))
    }

    /// Decides about validators that change work each time they run.
    fn settle(&mut self, verdicts: &mut [ValidatorVerdict]) {
        let Some(changes) = &mut self.changes else { return };
        if self.selection == Selection::RequiredChecks {
            return changes.warn_of_changes();
        }
        let mut errors = changes.errors();
        for named in verdicts {
            if let Some(message) = errors.remove(named.validator.as_str()) {
                named.verdict = Verdict::Error { message };
            }
        }
    }

    /// What validators that were broken off have left. The next start need not find it out.
    async fn artefacts_left(&mut self) -> Result<BTreeMap<String, Vec<String>>, EngineError> {
        let Some(changes) = self.changes.take() else { return Ok(BTreeMap::new()) };
        let Some(now) = self.snapshot().await? else { return Ok(BTreeMap::new()) };
        self.disk.remove_private(&self.snapshot_file)?;
        Ok(changes.into_artefacts(&now))
    }

    /// Takes what is new for the work of the running iteration, as the look after its end will. False if
    /// it was broken off.
    async fn look_ahead(&mut self, tree: &str) -> Result<bool, EngineError> {
        if self.tree != tree && self.tree_left.as_deref() != Some(tree) {
            self.tree_since = self.iteration;
        }
        let observed = observe_evidence(self.judges.evidence_dirs(), self.enough()).await?;
        let Some(observed) = observed else { return Ok(false) };
        let written = self.evidence.written_since(&observed);
        self.evidence.record(self.iteration, &written, observed.is_complete());
        Ok(true)
    }

    /// Resolves when there is no time for another look: soon after the end was asked for.
    fn enough(&self) -> impl Future<Output = ()> + Send + 'static {
        let (cancel, mut stop) = (Cancel::new(self.cancel.clone()), self.stop.clone());
        async move {
            tokio::select! {
                () = async { cancel.cancelled().await; tokio::time::sleep(LAST_LOOK).await } => {}
                () = asked(&mut stop, 2) => {}
            }
        }
    }

    async fn snapshot(&mut self) -> Result<Option<TreeSnapshot>, EngineError> {
        self.held.verify()?;
        let Some(hasher) = self.hasher.take() else {
            return Err(EngineError::Internal("an observation of the tree was broken off".into()));
        };
        let (hasher, snapshot) = scan(hasher, self.enough(), TreeHasher::snapshot).await?;
        self.hasher = Some(hasher);
        if !self.ahead {
            let digest = snapshot.as_ref().map(|snapshot| snapshot.digest().to_string());
            self.known_tree.set(digest);
        }
        Ok(snapshot)
    }

    /// Keeps what is there before validators run. Should nobody see their end, the next start tells from
    /// it what they left.
    fn keep_snapshot(&self, before: &TreeSnapshot) -> Result<(), EngineError> {
        let runs_check = |check: &plan::Check| self.selection.takes(check) && check.info.runs_check;
        let is_needed = self.judges.checks.iter().any(runs_check);
        if self.ahead || !is_needed || before.len() > MOST_KEPT {
            return Ok(());
        }
        self.disk.write_unsynced(&self.snapshot_file, before.to_json().as_bytes())?;
        Ok(())
    }

    /// One validator, as often as it has to accept; `None` if it was broken off.
    async fn check(
        &self,
        check: &plan::Check,
        protection: &mut Protection,
    ) -> Result<Option<ValidatorVerdict>, EngineError> {
        let started = Instant::now();
        // By the clock of the run: a time of standstill is nobody's fault.
        let until_ms = self.clock.runtime_ms().saturating_add(plan::millis(check.timeout));
        let passes = check.validator.passes_required().max(1);
        let mut pass = 1;
        let verdict = loop {
            let Some(verdict) = self.execute(check, protection, until_ms).await? else {
                return Ok(None);
            };
            let whom = format!("`{}`", check.info.name);
            let Some(intact) = protection.compare(&whom, self.enough()).await? else {
                return Ok(None);
            };
            match verdict {
                Verdict::Accepted { .. } if intact && pass < passes => pass += 1,
                verdict => break times(verdict, pass, passes),
            }
        };
        Ok(Some(ValidatorVerdict {
            validator: check.info.name.clone(),
            required: check.info.required,
            duration_ms: plan::millis(started.elapsed()),
            verdict,
        }))
    }

    /// One execution of a validator; `None` if it was broken off.
    async fn execute(
        &self,
        check: &plan::Check,
        protection: &Protection,
        until_ms: u64,
    ) -> Result<Option<Verdict>, EngineError> {
        self.held.verify()?;
        let changes = protection.changes_for(check)?;
        let (_bytecode, env) = self.keep_bytecode_apart(protection)?;
        let context = ValidationContext {
            run: &self.run,
            iteration: self.iteration,
            claim: &self.claim,
            workspace: &self.workspace,
            tree_since: self.tree_since,
            written_in: &self.evidence.written_in,
            evidence_listed: self.evidence.is_complete(),
            protected_changes: &changes,
            env: &env,
        };
        self.known_tree.set(None);
        Ok(execution::execute(check, context, self.over(until_ms, check.timeout)).await)
    }

    /// Lets Python keep its bytecode where neither an agent nor another validator has been, if there is
    /// anything to protect: it would believe bytecode that stands for a protected test.
    fn keep_bytecode_apart(
        &self,
        protection: &Protection,
    ) -> Result<(Option<BytecodeDir>, Environment<'_>), EngineError> {
        if protection.is_empty() || self.env.contains_key(BytecodeDir::VARIABLE) {
            return Ok((None, Cow::Borrowed(&self.env)));
        }
        let folder = BytecodeDir::create(&self.run)?;
        let mut env = self.env.clone();
        env.insert(BytecodeDir::VARIABLE.to_owned(), folder.path().display().to_string());
        Ok((Some(folder), Cow::Owned(env)))
    }

    /// Resolves when a validator is waited for no longer.
    async fn over(&self, until_ms: u64, timeout: Duration) -> Over {
        let cancel = Cancel::new(self.cancel.clone());
        loop {
            let left = until_ms.saturating_sub(self.clock.runtime_ms());
            if left == 0 {
                return Over::TimedOut(timeout);
            }
            let pause = left.min(LONGEST_REST_MS);
            tokio::select! {
                biased;
                reason = cancel.cancelled() => return Over::Cancelled(reason),
                () = tokio::time::sleep(Duration::from_millis(pause)) => {}
            }
        }
    }
}

/// What stands for a claim where nothing is claimed.
pub(super) fn baseline_claim() -> Claim {
    Claim {
        kind: ClaimKind::Complete,
        detector: "baseline".to_owned(),
        source: ClaimSource::State,
        text: "nothing is claimed: this is before any work".to_owned(),
    }
}

/// Says of a verdict after how many executions it came, if there was to be more than one.
fn times(verdict: Verdict, pass: u32, passes: u32) -> Verdict {
    match verdict {
        verdict if passes == 1 => verdict,
        Verdict::Accepted { summary, evidence } => {
            Verdict::Accepted { summary: format!("{summary}, {pass} times in a row"), evidence }
        }
        Verdict::Rejected { mut reasons } => {
            if let Some(first) = reasons.first_mut() {
                *first = format!("execution {pass} of {passes}: {first}");
            }
            Verdict::Rejected { reasons }
        }
        Verdict::Error { message } => {
            Verdict::Error { message: format!("execution {pass} of {passes}: {message}") }
        }
    }
}
