//! Running the validators on a claim.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::sync::watch;

use super::allowance::{LAST_LOOK, cancellable};
use super::clock::Clock;
use super::error::EngineError;
use super::look::digest;
use super::notice::Notice;
use super::plan::{self, Judges};
use super::rest::{LONGEST_REST_MS, asked};
use super::session::{Session, StopRequests};
use super::sink::Cancel;
use crate::contract::{
    CancelReason, CancelSignal as _, Change, Claim, EvidenceFile, ValidationContext, Verdict,
};
use crate::machine::{NamedVerdict, Validation};
use crate::state::keep_evidence;
use crate::workspace::{Baseline, ProtectedError, TreeHasher, evidence_digests_until};

/// How long a validator that was told to end may take to do so.
pub(super) const GRACE: Duration = Duration::from_secs(30);

/// All that the validators need, so that they can work beside something else.
pub(super) struct Examination {
    run: String,
    workspace: PathBuf,
    env: BTreeMap<String, String>,
    judges: Arc<Judges>,
    baseline: Arc<Baseline>,
    clock: Arc<Clock>,
    iteration: u64,
    tree: String,
    tree_since: u64,
    first_seen: BTreeMap<String, u64>,
    claim: Claim,
    hasher: Option<TreeHasher>,
    cancel: watch::Receiver<Option<CancelReason>>,
    stop: StopRequests,
    /// The iteration goes on: what it has made so far is not recorded yet.
    ahead: bool,
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
        let names = self.judges.checks.iter().map(|check| check.info.name.clone()).collect();
        let iteration = self.state.iterations;
        self.notice(&Notice::Validating { iteration, validators: names });
        Examination {
            run: self.run.clone(),
            workspace: self.workspace.clone(),
            env: self.env.clone(),
            judges: Arc::clone(&self.judges),
            baseline: Arc::clone(&self.baseline),
            clock: Arc::clone(&self.clock),
            iteration,
            tree: self.state.tree.clone(),
            tree_since: self.state.tree_since,
            first_seen: self.state.first_seen.clone(),
            claim,
            hasher: Some(self.take_hasher()),
            cancel,
            stop: self.stop.clone(),
            ahead,
        }
    }

    /// All validators in order, on one tree. What they accept is copied before anything is recorded.
    pub(super) async fn validate(&mut self, claim: &Claim) -> Result<Validation, EngineError> {
        let (tell, told) = watch::channel(None);
        let mut work = Box::pin(self.examination(claim.clone(), told, false).run());
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
        let Some(mut validation) = result? else {
            // Nothing of it counts.
            return Ok(cut(*tell.borrow()));
        };
        match self.keep(&mut validation.verdicts)? {
            Some(evidence) => validation.evidence = evidence,
            None => return Ok(cut(Some(CancelReason::Signal))),
        }
        if let Some(text) = self.prompt.read_text() {
            validation.task = self.judges.task(&text).await;
        }
        Ok(validation)
    }

    /// Copies accepted evidence, if everything that is required was accepted. What is no longer what
    /// was examined is not accepted. `None` if the run was asked to stop meanwhile.
    fn keep(
        &self,
        verdicts: &mut [NamedVerdict],
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
                if !keep_evidence(self.store.disk(), &folder, &file)? {
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

/// A validation that was broken off for this reason says nothing.
fn cut(reason: Option<CancelReason>) -> Validation {
    let out_of_time = reason == Some(CancelReason::MaxRuntime);
    Validation { interrupted: !out_of_time, out_of_time, ..Validation::default() }
}

impl Examination {
    /// All validators in order, on one tree. Keeps no evidence.
    pub(super) async fn run(mut self) -> Examined {
        let result = self.validation().await;
        (self.hasher, result)
    }

    async fn validation(&mut self) -> Result<Option<Validation>, EngineError> {
        let Some(before) = self.tree().await? else { return Ok(None) };
        if self.ahead && !self.look_ahead(&before).await? {
            return Ok(None);
        }
        let judges = Arc::clone(&self.judges);
        let mut expected = before.clone();
        let mut changed = false;
        let mut verdicts = Vec::new();
        for check in &judges.checks {
            let may_change = !check.validator.leaves_tree_unchanged();
            if may_change {
                let Some(now) = self.tree().await? else { return Ok(None) };
                changed |= now != expected;
            }
            match self.check(check).await? {
                Some(verdict) => verdicts.push(verdict),
                None => return Ok(None),
            }
            if may_change {
                let Some(now) = self.tree().await? else { return Ok(None) };
                expected = now;
            }
        }
        let Some(after) = self.tree().await? else { return Ok(None) };
        changed |= after != expected;
        Ok(Some(Validation {
            verdicts,
            tree_after: if changed { format!("changed:{after}") } else { before.clone() },
            tree_before: before,
            ..Validation::default()
        }))
    }

    /// Takes what is new for the work of the running iteration, as the look after its end will. False if
    /// it was broken off.
    async fn look_ahead(&mut self, tree: &str) -> Result<bool, EngineError> {
        if self.tree != tree {
            self.tree_since = self.iteration;
        }
        let dirs = self.judges.evidence_dirs();
        if dirs.is_empty() {
            return Ok(true);
        }
        let look = move |flag| evidence_digests_until(&dirs, flag);
        let Some(found) = cancellable(self.enough(), look).await? else { return Ok(false) };
        for digest in found.digests {
            self.first_seen.entry(digest).or_insert(self.iteration);
        }
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

    async fn tree(&mut self) -> Result<Option<String>, EngineError> {
        let Some(hasher) = self.hasher.take() else {
            return Err(EngineError::Internal("a look at the tree was broken off".into()));
        };
        let (hasher, tree) = digest(hasher, self.enough()).await?;
        self.hasher = Some(hasher);
        Ok(tree)
    }

    /// One validator; `None` if it was broken off.
    async fn check(&self, check: &plan::Check) -> Result<Option<NamedVerdict>, EngineError> {
        let globs = check.validator.protects();
        let Some(changes) = self.protected_changes(globs).await? else { return Ok(None) };
        let context = ValidationContext {
            run: &self.run,
            iteration: self.iteration,
            claim: &self.claim,
            workspace: &self.workspace,
            tree_since: self.tree_since,
            first_seen: &self.first_seen,
            protected_changes: &changes,
            env: &self.env,
        };
        let (tell, told) = watch::channel(None);
        let cancel = Cancel::new(told);
        let started = Instant::now();
        let mut work = check.validator.validate(context, &cancel);
        // By the clock of the run: a time of standstill is nobody's fault.
        let until_ms = self.clock.runtime_ms().saturating_add(plan::millis(check.timeout));
        let verdict = match self.verdict(&mut work, until_ms).await {
            Ok(verdict) => verdict,
            Err((reason, outside)) => {
                // The validator ends its processes; if it cannot, dropping it does.
                tell.send_replace(Some(reason));
                drop(tokio::time::timeout(GRACE, &mut work).await);
                if outside {
                    return Ok(None);
                }
                let seconds = check.timeout.as_secs_f64();
                Verdict::Error { message: format!("it did not end within {seconds} s") }
            }
        };
        Ok(Some(NamedVerdict {
            validator: check.info.name.clone(),
            required: check.info.required,
            duration_ms: plan::millis(started.elapsed()),
            verdict,
        }))
    }

    /// The verdict, or why it is waited for no longer, and whether that came from outside.
    async fn verdict(
        &self,
        work: &mut (impl Future<Output = Verdict> + Unpin),
        until_ms: u64,
    ) -> Result<Verdict, (CancelReason, bool)> {
        let cancel = Cancel::new(self.cancel.clone());
        loop {
            let left = until_ms.saturating_sub(self.clock.runtime_ms());
            if left == 0 {
                return Err((CancelReason::Timeout, false));
            }
            let pause = left.min(LONGEST_REST_MS);
            tokio::select! {
                biased;
                verdict = &mut *work => return Ok(verdict),
                reason = cancel.cancelled() => return Err((reason, true)),
                () = tokio::time::sleep(Duration::from_millis(pause)) => {}
            }
        }
    }

    /// What changed since the run began; `None` if the look was broken off.
    async fn protected_changes(
        &self,
        globs: Vec<String>,
    ) -> Result<Option<Vec<Change>>, EngineError> {
        if globs.is_empty() {
            return Ok(Some(Vec::new()));
        }
        let (baseline, workspace) = (Arc::clone(&self.baseline), self.workspace.clone());
        let changes = move |flag| {
            let now = Baseline::take_until(&workspace, &globs, flag)?;
            baseline.changes(&now, &globs)
        };
        match cancellable(self.enough(), changes).await? {
            Ok(changes) => Ok(Some(changes)),
            Err(ProtectedError::Cancelled) => Ok(None),
            Err(error) => Err(EngineError::Workspace(error.to_string())),
        }
    }
}
