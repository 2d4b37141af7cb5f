//! One validation: all validators in order, on one tree, concurrently with the event loop.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use ralph_orchestrator_checkout::{CheckoutError, PreparedCheckout, Visibility};
use ralph_orchestrator_contract::{
    CancelReason, CancelSignal as _, Claim, LayeredFolder, ValidationContext, Verdict,
};
use ralph_orchestrator_machine::millis;
use ralph_orchestrator_machine::{EvidenceHistory, Validation, ValidatorVerdict};
use ralph_orchestrator_store::Disk;
use ralph_orchestrator_test_results::TestCounts;
use ralph_orchestrator_text::escape_line;
use ralph_orchestrator_workspace::{PinnedPaths, TreeHasher, TreeSnapshot, WorkspaceHandle};
use tokio::sync::watch;

use super::allowance::OBSERVE_AFTER_STOP;
use super::blocking::blocking;
use super::bytecode::BytecodeDir;
use super::cancel::CancelToken;
use super::check_outputs::CheckOutputs;
use super::check_tests::{CheckTests, CheckTestsReader};
use super::clock::{Clock, LONGEST_SLEEP_MS};
use super::error::EngineError;
use super::evidence_check;
use super::execution::{Execution, WaitEnd};
use super::hidden_files::{HiddenFiles, name_decisive, name_gone, name_paths};
use super::observation::{KnownTree, observe_evidence, scan};

use super::protection::{ProtectedState, Protection, join_names};
use super::review_agents::Reviews;
use super::run_checkout::RunCheckout;
use super::secret_files::SecretFiles;
use super::steering_files::SteeringFiles;
use super::stop::{StopRequests, stop_requested};
use super::test_floor::TestFloor;
use super::uncommitted_work::UncommittedWork;
use super::validation_policy::{CompletionPolicy, ConfiguredValidator};
use super::validator_changes::{Outcome, WorkspaceChanges, artefact_paths};

/// The snapshot of a workspace with more entries is not stored for the next start: writing it would take
/// longer than most checks.
const MOST_STORED_ENTRIES: usize = 100_000;

/// The input of the validators, owned, so that they can run concurrently.
pub(super) struct ValidationTask {
    pub(super) run: String,
    pub(super) workspace: PathBuf,
    pub(super) held: WorkspaceHandle,
    pub(super) env: BTreeMap<String, String>,
    pub(super) policy: Arc<CompletionPolicy>,
    pub(super) baseline: Arc<ProtectedState>,
    pub(super) clock: Arc<Clock>,
    pub(super) iteration: u64,
    pub(super) tree: String,
    pub(super) tree_left: Option<String>,
    pub(super) tree_since: u64,
    pub(super) evidence: EvidenceHistory,
    pub(super) disk: Disk,
    pub(super) snapshot_file: PathBuf,
    pub(super) secret_files: SecretFiles,
    pub(super) pinned: Arc<PinnedPaths>,
    /// In which checks run, if they do not run in the workspace.
    pub(super) checkout: Option<RunCheckout>,
    /// What checks in the present checkout do not see.
    pub(super) hidden: Vec<PathBuf>,
    /// The required checks that rejected the workspace as it was when the run began.
    pub(super) base_rejected: BTreeSet<String>,
    /// What of the work in it is not as it was when the run began.
    pub(super) changed_work: Vec<PathBuf>,
    pub(super) test_floor: Arc<TestFloor>,
    /// What steered the checks when the run began, if an acceptance is to name what of it was changed.
    pub(super) steering: Option<SteeringFiles>,
    pub(super) artefacts: BTreeSet<String>,
    /// What validators have done to the workspace so far.
    pub(super) changes: Option<WorkspaceChanges>,
    pub(super) selection: Selection,
    pub(super) claim: Claim,
    pub(super) hasher: Option<TreeHasher>,
    pub(super) known_tree: KnownTree,
    pub(super) cancel: watch::Receiver<Option<CancelReason>>,
    pub(super) stop: StopRequests,
    /// The agent is still running: what it has done so far is not recorded yet.
    pub(super) is_preview: bool,
    /// What reviews need, where there are to be any.
    pub(super) reviews: Option<Reviews>,
    /// What the checks of this validation printed.
    pub(super) outputs: CheckOutputs,
}

/// Variables by name.
type Environment<'a> = Cow<'a, BTreeMap<String, String>>;

/// Which validators are run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Selection {
    All,
    /// Those that run something.
    Checks,
    /// Those that are required and run something.
    RequiredChecks,
}

impl Selection {
    pub(super) fn includes(self, check: &ConfiguredValidator) -> bool {
        match self {
            Self::All => true,
            Self::Checks => check.info.runs_check,
            Self::RequiredChecks => check.info.required && check.info.runs_check,
        }
    }

    /// Compares the tests that a check of a claim ran with those of the base, or records them as such. Returns the verdict
    /// that counts, and how many ran.
    pub(super) fn examine(
        self,
        floor: &TestFloor,
        check: &ConfiguredValidator,
        (verdict, tests): (Verdict, CheckTests),
    ) -> (Verdict, Option<TestCounts>) {
        let counts = tests.results.as_ref().map(|results| results.counts);
        let verdict = match self {
            Self::All => floor.apply(check, verdict, tests.results.as_ref()),
            // Outside of a run nobody knows what ran before, and whether failures were accepted.
            Self::Checks => verdict,
            Self::RequiredChecks => {
                floor.record(&check.info.name, &verdict, tests);
                verdict
            }
        };
        (verdict, counts)
    }
}

impl ValidationTask {
    /// Runs all validators in order, on one tree, and once more if they changed it; `None` if it was cancelled.
    /// Stores no evidence.
    pub(super) async fn run(&mut self) -> Result<Option<Validation>, EngineError> {
        match self.run_validators().await {
            Err(EngineError::Checkout(
                error @ (CheckoutError::TooLong { .. } | CheckoutError::Marked { .. }),
            )) => Ok(Some(self.reject_all(&error))),
            result => result,
        }
    }

    /// Rejects work of which no checkout can be made.
    fn reject_all(&self, error: &CheckoutError) -> Validation {
        let validators = self.policy.validators.iter();
        let checks = validators.filter(|check| self.selection.includes(check));
        let verdict = Verdict::rejected(error.to_string());
        let named = checks.map(|check| ValidatorVerdict::new(&check.info, verdict.clone(), 0));
        Validation {
            verdicts: named.collect(),
            tree_before: self.tree.clone(),
            tree_after: self.tree.clone(),
            tree_left: self.tree.clone(),
            ..Validation::default()
        }
    }

    async fn run_validators(&mut self) -> Result<Option<Validation>, EngineError> {
        let Some(before) = self.snapshot_before().await? else { return Ok(None) };
        let mut counted = Arc::clone(&before);
        self.store_snapshot(&before).await?;
        if self.is_preview && !self.observe_preview(before.digest().as_str()).await? {
            return Ok(None);
        }
        let policy = Arc::clone(&self.policy);
        let checks = policy.validators.iter().filter(|check| !check.is_review());
        let checks: Vec<&ConfiguredValidator> =
            checks.filter(|check| self.selection.includes(check)).collect();
        let baseline = Arc::clone(&self.baseline);
        let begun =
            Protection::begin(&checks, baseline, &self.workspace, self.observation_end()).await?;
        let Some(mut protection) = begun else { return Ok(None) };
        self.changes = Some(self.begin_changes(before));
        let first = self.run_once(&checks, &mut protection, &counted, Visibility::Warm).await?;
        let Some(mut verdicts) = first else { return Ok(None) };
        // While the agent runs, whatever changes may be its own doing.
        if !self.is_settled() && !self.is_preview {
            self.changes.iter_mut().for_each(WorkspaceChanges::begin_again);
            if self.checkout.is_some() {
                let Some(now) = self.snapshot().await? else { return Ok(None) };
                counted = Arc::new(now);
            }
            let again = self.run_once(&checks, &mut protection, &counted, Visibility::Warm).await?;
            let Some(again) = again else { return Ok(None) };
            verdicts = again;
            self.reject_unsettled(&mut verdicts);
        }
        let proved = self.prove(&checks, &mut protection, &counted, verdicts).await?;
        let Some(verdicts) = proved else { return Ok(None) };
        let Some(verdicts) = self.review(&counted, verdicts).await? else { return Ok(None) };
        if protection.compare("a process", self.observation_end()).await?.is_none() {
            return Ok(None);
        }
        let Some(changes) = self.changes.take() else { return Ok(None) };
        let outcome = if self.is_preview { changes.into_preview() } else { changes.into_outcome() };
        let Outcome { tree_before, tree_after, tree_left, artefacts, mut warnings, hopeless } =
            outcome;
        warnings.extend(protection.take_warning());
        warnings.extend(self.find_unseen(&counted));
        warnings.extend(self.find_steering_changes(&verdicts, counted).await?);
        warnings.extend(self.find_clone_differences(&verdicts).await?);
        Ok(Some(Validation {
            verdicts,
            tree_before,
            tree_after,
            tree_left,
            artefacts,
            warnings,
            hopeless,
            tampering: protection.into_tampering(),
            ..Validation::default()
        }))
    }

    /// Describes what steers the checks and is not as it was when the run began, where they accepted.
    async fn find_steering_changes(
        &mut self,
        verdicts: &[ValidatorVerdict],
        work: Arc<TreeSnapshot>,
    ) -> Result<Vec<String>, EngineError> {
        let Some(base) = self.steering.take().filter(|_| accept_together(verdicts)) else {
            return Ok(Vec::new());
        };
        let workspace = self.workspace.clone();
        let now = blocking(move || SteeringFiles::read(&workspace, &work)).await?;
        Ok(base.describe_changes(&now))
    }

    fn begin_changes(&self, before: Arc<TreeSnapshot>) -> WorkspaceChanges {
        let known = artefact_paths(&self.artefacts).collect();
        WorkspaceChanges::begin(before, Arc::clone(&self.pinned), known)
            .beside_checkout(self.checkout.is_some())
    }

    pub(super) fn is_settled(&self) -> bool {
        self.changes.as_ref().is_some_and(WorkspaceChanges::is_settled)
    }

    /// Runs these validators in order, each as often in a row as it has to accept; `None` if it was cancelled.
    pub(super) async fn run_once(
        &mut self,
        checks: &[&ConfiguredValidator],
        protection: &mut Protection,
        counted: &Arc<TreeSnapshot>,
        visibility: Visibility,
    ) -> Result<Option<Vec<ValidatorVerdict>>, EngineError> {
        let begun = self.begin_checks(counted, visibility).await?;
        let Some((checkout, ready)) = begun else { return Ok(None) };
        self.hidden = checkout.as_ref().map(|made| made.hidden.clone()).unwrap_or_default();
        self.changed_work = checkout.as_ref().map(|made| made.work.clone()).unwrap_or_default();
        let overlays = checkout.as_ref().map_or(&[][..], |checkout| &checkout.overlays);
        let (mut verdicts, began) = (Vec::new(), Instant::now());
        for check in checks {
            if let (Err(verdict), true) = (&ready, check.info.runs_check) {
                verdicts.push(ValidatorVerdict::new(&check.info, verdict.clone(), 0));
                continue;
            }
            if let (Some(known), Some(prepared)) = (&self.checkout, &checkout) {
                let (checkout, prepared) = (Arc::clone(&known.checkout), Arc::clone(prepared));
                let is_work = self.work_test(counted);
                blocking(move || checkout.put_back_work(&prepared, &is_work)).await??;
            }
            let started = Instant::now();
            let Some((mut verdict, tests)) = self.repeat(check, protection, overlays).await? else {
                return Ok(None);
            };
            if let Some(prepared) = checkout.as_ref().filter(|_| !verdict.is_accepted()) {
                let found = (prepared.as_ref(), verdict, started.elapsed());
                let named = self.explain_hidden(check, protection, counted, found);
                let Some(named) = named.await? else { return Ok(None) };
                verdict = named;
            }
            if let Some(prepared) = checkout.as_ref().filter(|_| check.info.runs_check)
                && verdict.is_accepted()
                && let Some(rejected) = self.uncommitted(counted).reject(prepared)
            {
                verdict = rejected;
            }
            if let Some(prepared) = checkout.as_ref().filter(|_| check.info.runs_check)
                && verdict.is_accepted()
                && let Some(rejected) = self.reject_rewritten(prepared).await?
            {
                verdict = rejected;
            }
            let duration_ms = millis(started.elapsed());
            if check.info.runs_check {
                let Some(now) = self.snapshot().await? else { return Ok(None) };
                let error = self.changes.as_mut().and_then(|changes| changes.observe(check, now));
                verdict = error.unwrap_or(verdict);
            }
            let named = ValidatorVerdict::new(&check.info, verdict, duration_ms);
            verdicts.push(ValidatorVerdict { tests, ..named });
        }
        if let Some(prepared) = checkout {
            self.keep_base(counted, (prepared, began.elapsed())).await?;
        }
        Ok(Some(verdicts))
    }

    /// Rejects what checks accepted that changed protected files before or while they ran: what they run is the agent's.
    async fn reject_rewritten(
        &self,
        prepared: &Arc<PreparedCheckout>,
    ) -> Result<Option<Verdict>, EngineError> {
        let Some(known) = self.checkout.as_ref().filter(|_| !self.is_before_work()) else {
            return Ok(None);
        };
        let (checkout, prepared) = (Arc::clone(&known.checkout), Arc::clone(prepared));
        let (policy, pinned) = (Arc::clone(&self.policy), Arc::clone(&self.pinned));
        let find = move || {
            let is_protected =
                |path: &Path| policy.protected.contains(path) && pinned.contains(path);
            checkout.find_rewritten(&prepared, &is_protected)
        };
        let rewritten = blocking(find).await??;
        Ok((!rewritten.is_empty()).then(|| {
            Verdict::rejected(format!(
                "what the check runs changed protected files while it ran: {}; see to it that nothing that it runs does that. \
                 Where the check itself does, only a person can leave them out of `protect`",
                name_paths(&rewritten)
            ))
        }))
    }

    /// Runs a validator as often in a row as it has to accept; `None` if it was cancelled.
    async fn repeat(
        &self,
        check: &ConfiguredValidator,
        protection: &mut Protection,
        overlays: &[LayeredFolder],
    ) -> Result<Option<(Verdict, Option<TestCounts>)>, EngineError> {
        // By the clock of the run: a time of standstill is nobody's fault.
        let until_ms = self.clock.runtime_ms().saturating_add(millis(check.timeout));
        let passes = check.validator.passes_required().max(1);
        let mut pass = 1;
        loop {
            let executed = self.execute(check, protection, overlays, until_ms).await?;
            let Some(mut executed) = executed else { return Ok(None) };
            self.outputs.keep(&check.info.name, std::mem::take(&mut executed.1.tail));
            let (verdict, tests) = self.selection.examine(&self.test_floor, check, executed);
            let whom = format!("`{}`", check.info.name);
            let Some(intact) = protection.compare(&whom, self.observation_end()).await? else {
                return Ok(None);
            };
            if !intact || pass == passes || !verdict.is_accepted() {
                return Ok(Some((with_pass_count(verdict, pass, passes), tests)));
            }
            pass += 1;
        }
    }

    /// Says of a check that does not accept whether it would with what it does not see, which takes another execution unless
    /// these files made no difference before; `None` if it was cancelled.
    async fn explain_hidden(
        &self,
        check: &ConfiguredValidator,
        protection: &mut Protection,
        counted: &Arc<TreeSnapshot>,
        (prepared, verdict, taken): (&PreparedCheckout, Verdict, Duration),
    ) -> Result<Option<Verdict>, EngineError> {
        let (name, Some(known)) = (check.info.name.as_str(), &self.checkout) else {
            return Ok(Some(verdict));
        };
        let is_rejected = matches!(verdict, Verdict::Rejected { .. });
        if !is_rejected || !check.info.runs_check {
            return Ok(Some(verdict));
        }
        let hidden = HiddenFiles::find(&verdict, taken, prepared);
        if known.trials.is_due(name, counted.digest(), &hidden) {
            let Some(all) = self.prepare_checkout(counted, hidden.visibility()).await? else {
                return Ok(Some(verdict));
            };
            let until_ms = self.clock.runtime_ms().saturating_add(millis(check.timeout));
            let tried = self.execute(check, protection, &all.overlays, until_ms).await?;
            let Some(tried) = tried else { return Ok(None) };
            let (tried, _) = self.selection.examine(&self.test_floor, check, tried);
            if protection.compare(&format!("`{name}`"), self.observation_end()).await?.is_none() {
                return Ok(None);
            }
            if tried.is_accepted() {
                let uncommitted = self.uncommitted(counted);
                let named = (&hidden, &uncommitted, &self.policy.protected);
                return Ok(Some(name_decisive(verdict, prepared, named)));
            }
            known.trials.record(name, counted.digest(), &hidden);
        }
        Ok(Some(name_gone(verdict, prepared)))
    }

    /// Makes the layers in which the checks run, of what counts now.
    pub(super) async fn prepare_checkout(
        &self,
        counted: &Arc<TreeSnapshot>,
        visibility: Visibility,
    ) -> Result<Option<Arc<PreparedCheckout>>, EngineError> {
        let Some(checkout) = self.checkout.as_ref().map(|known| Arc::clone(&known.checkout)) else {
            return Ok(None);
        };
        let is_work = self.work_test(counted);
        let prepared = blocking(move || checkout.prepare(&is_work, visibility)).await?;
        Ok(Some(Arc::new(prepared?)))
    }

    /// Returns what tells whether a path counts as work that a commit has: what counted when the run began does so to its
    /// end, also where it is gone. What is new where something is protected does not: whoever adds it, or builds it there,
    /// changes no check.
    pub(super) fn work_test(
        &self,
        counted: &Arc<TreeSnapshot>,
    ) -> impl Fn(&Path) -> bool + Send + use<> {
        let uncommitted = self.uncommitted(counted);
        let (counted, pinned) = (Arc::clone(counted), Arc::clone(&self.pinned));
        let (policy, known) = (Arc::clone(&self.policy), self.checkout.clone());
        // What git ignored when the run began stays out, however it is added now.
        let ignored = Arc::clone(&self.pinned);
        let was_ignored = move |path: &Path| {
            let was_there = known.as_ref().is_some_and(|known| known.checkout.start().had(path));
            was_there || ignored.is_in_ignored_folder(path)
        };
        move |path| {
            let is_new =
                || counted.has(path) && !policy.protected.contains(path) && !was_ignored(path);
            (pinned.contains(path) || is_new()) && !uncommitted.hides(path)
        }
    }

    /// Names what a checkout has not, although git does not ignore it.
    fn find_unseen(&self, counted: &TreeSnapshot) -> Option<String> {
        let is_unseen =
            |path: &&Path| self.policy.protected.contains(path) && !self.pinned.contains(path);
        let unseen: Vec<String> = counted
            .paths()
            .filter(is_unseen)
            .map(|path| format!("`{}`", escape_line(&path.to_string_lossy())))
            .collect();
        (self.checkout.is_some() && !unseen.is_empty()).then(|| {
            format!(
                "the checks did not see these: `protect` covers them, and they were not there when the run began: {}",
                join_names(unseen)
            )
        })
    }

    fn uncommitted(&self, counted: &TreeSnapshot) -> UncommittedWork {
        UncommittedWork::find(&self.pinned, counted)
    }

    /// Replaces the verdicts of validators that change work each time they run.
    fn reject_unsettled(&mut self, verdicts: &mut [ValidatorVerdict]) {
        let Some(changes) = &mut self.changes else { return };
        if self.selection == Selection::RequiredChecks {
            return changes.note_hopeless();
        }
        let mut errors = changes.errors();
        for named in verdicts {
            if let Some(message) = errors.remove(named.validator.as_str()) {
                named.verdict = Verdict::Error { message };
            }
        }
    }

    /// Returns what cancelled validators have left, so that the next start does not have to.
    pub(super) async fn find_artefacts(
        &mut self,
    ) -> Result<BTreeMap<String, Vec<String>>, EngineError> {
        let Some(changes) = self.changes.take() else { return Ok(BTreeMap::new()) };
        let Some(now) = self.snapshot().await? else { return Ok(BTreeMap::new()) };
        self.disk.remove_private(&self.snapshot_file)?;
        Ok(changes.into_artefacts(&now))
    }

    /// Attributes what is new to the running iteration, as the observation after its end will. Returns
    /// false if it was cancelled.
    async fn observe_preview(&mut self, tree: &str) -> Result<bool, EngineError> {
        if self.tree != tree && self.tree_left.as_deref() != Some(tree) {
            self.tree_since = self.iteration;
        }
        let observed =
            observe_evidence(self.policy.evidence_dirs(), self.observation_end()).await?;
        let Some(observed) = observed else { return Ok(false) };
        let written = self.evidence.written_since(&observed);
        self.evidence.record(self.iteration, &written, observed.is_complete());
        Ok(true)
    }

    /// Resolves when no observation may run any longer: soon after the cancellation.
    pub(super) fn observation_end(&self) -> impl Future<Output = ()> + Send + 'static {
        let (cancel, mut stop) = (CancelToken::new(self.cancel.clone()), self.stop.clone());
        async move {
            tokio::select! {
                () = async { cancel.cancelled().await; tokio::time::sleep(OBSERVE_AFTER_STOP).await } => {}
                () = stop_requested(&mut stop, 2) => {}
            }
        }
    }

    /// Returns what is there before validators run, observed now unless nothing was run since it was observed
    /// last, and nothing can be accepted.
    async fn snapshot_before(&mut self) -> Result<Option<Arc<TreeSnapshot>>, EngineError> {
        if self.selection == Selection::RequiredChecks
            && let Some(known) = self.known_tree.take_snapshot()
        {
            self.held.verify()?;
            return Ok(Some(known));
        }
        Ok(self.snapshot().await?.map(Arc::new))
    }

    pub(super) async fn snapshot(&mut self) -> Result<Option<TreeSnapshot>, EngineError> {
        self.held.verify()?;
        let Some(hasher) = self.hasher.take() else {
            return Err(EngineError::Internal("an observation of the tree was broken off".into()));
        };
        let (hasher, snapshot) = scan(hasher, self.observation_end(), TreeHasher::snapshot).await?;
        self.hasher = Some(hasher);
        if !self.is_preview {
            let digest = snapshot.as_ref().map(|snapshot| snapshot.digest().to_string());
            self.known_tree.set(digest);
        }
        Ok(snapshot)
    }

    /// Stores what is there before validators run. If the orchestrator does not live to their end, the next
    /// start compares with it to find what they left.
    async fn store_snapshot(&self, before: &Arc<TreeSnapshot>) -> Result<(), EngineError> {
        if self.is_preview || !is_stored(before, &self.policy, self.selection) {
            return Ok(());
        }
        let encoded = match self.known_tree.take_encoding() {
            Some(encoding) => encoding.finish(before).await,
            None => None,
        };
        let json = encoded.unwrap_or_else(|| before.to_json());
        let content = self.secret_files.seal(json.as_bytes())?;
        self.disk.write_unsynced(&self.snapshot_file, &content)?;
        Ok(())
    }

    /// Executes a validator once; `None` if it was cancelled.
    pub(super) async fn execute(
        &self,
        check: &ConfiguredValidator,
        protection: &Protection,
        checkout: &[LayeredFolder],
        until_ms: u64,
    ) -> Result<Option<(Verdict, CheckTests)>, EngineError> {
        self.held.verify()?;
        let mut changes = protection.changes_for(check)?;
        let is_hidden = |path: &Path| self.hidden.iter().any(|hidden| path.starts_with(hidden));
        // What counted when the run began is missing where something else hides it.
        changes.retain(|change| self.pinned.contains(&change.path) || !is_hidden(&change.path));
        let (_bytecode, env) = self.isolate_bytecode(protection)?;
        let reader = CheckTestsReader::default();
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
            checkout,
            output: Some(&reader),
        };
        self.known_tree.set(None);
        let end = self.wait_end(until_ms, check.timeout);
        let execution = Execution::default();
        let work = check.validator.validate(context, &execution.cancel);
        match execution.wait(work, end).await {
            Some(verdict) => {
                let tests = reader.finish(&verdict);
                evidence_check::checked(verdict).await.map(|verdict| Some((verdict, tests)))
            }
            None => Ok(None),
        }
    }

    /// Has Python cache its bytecode where neither an agent nor another validator has written, if there is
    /// anything to protect: it trusts bytecode that takes the place of a protected test.
    fn isolate_bytecode(
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

    /// Resolves when a validator is no longer waited for.
    pub(super) async fn wait_end(&self, until_ms: u64, timeout: Duration) -> WaitEnd {
        let cancel = CancelToken::new(self.cancel.clone());
        loop {
            let left = until_ms.saturating_sub(self.clock.runtime_ms());
            if left == 0 {
                return WaitEnd::TimedOut(timeout);
            }
            let pause = left.min(LONGEST_SLEEP_MS);
            tokio::select! {
                biased;
                reason = cancel.cancelled() => return WaitEnd::Cancelled(reason),
                () = tokio::time::sleep(Duration::from_millis(pause)) => {}
            }
        }
    }
}

/// Whether these verdicts accept the work.
pub(super) fn accept_together(verdicts: &[ValidatorVerdict]) -> bool {
    verdicts.iter().all(|named| !named.required || named.verdict.is_accepted())
}

/// Whether a snapshot is stored before the validators of this selection run.
pub(super) fn is_stored(
    snapshot: &TreeSnapshot,
    policy: &CompletionPolicy,
    selection: Selection,
) -> bool {
    let runs_check =
        |check: &ConfiguredValidator| selection.includes(check) && check.info.runs_check;
    snapshot.len() <= MOST_STORED_ENTRIES && policy.validators.iter().any(runs_check)
}

/// Adds to a verdict after how many executions it came, if several were required.
fn with_pass_count(verdict: Verdict, pass: u32, passes: u32) -> Verdict {
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
