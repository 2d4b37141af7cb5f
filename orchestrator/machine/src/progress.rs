//! What counts as progress, and how the state keeps it.
//!
//! Without a claim, work that was never seen before is progress: another tree, or new evidence. While a
//! claim is pending, only what decides about it is: new evidence content, or another verdict. Otherwise
//! an agent that changes a file and claims again each time would run for ever.

use std::collections::BTreeSet;

use ralph_orchestrator_contract::Verdict;

use super::normalize::normalize;
use super::outcome::IterationOutcome;
use super::policy::AfterRejection;
use super::record::Record;
use super::state::{Latch, ProgressState, Rejection, State};
use super::verdict::{ValidatorVerdict, has_only_errors, is_unchecked};

/// How many times an iteration counts whose agent called no tool and left the work as it was.
const IDLE_ITERATION_WEIGHT: u32 = 3;

impl State {
    pub(super) fn observed(&mut self, record: &Record) {
        let Record::Observed {
            iteration,
            tree,
            work,
            evidence_written,
            evidence_complete,
            evidence,
            near_misses,
            changes,
            ..
        } = record
        else {
            return;
        };
        if changes.is_some() {
            self.last_changes.clone_from(changes);
        }
        if self.setup.is_unobserved {
            self.tree_set_up(tree);
        }
        let workspace = &mut self.workspace;
        let unchanged = workspace.is_same_tree(tree);
        if !unchanged {
            workspace.tree.clone_from(tree);
            workspace.tree_left = None;
            workspace.tree_since = *iteration;
            // Later, or after a restart, people may have changed it.
            let is_first = !self.process.resumed && !workspace.observed_since_validation;
            self.agent.has_worked |= is_first;
        }
        workspace.observed_since_validation = true;
        workspace.changed_since_validation |=
            *iteration > 0 && !(unchanged && workspace.evidence == *evidence);
        let new_evidence =
            workspace.evidence_history.record(*iteration, evidence_written, *evidence_complete);
        workspace.evidence.clone_from(evidence);
        if *iteration == 0 {
            self.claims.initial_near_misses.clone_from(near_misses);
        } else {
            self.claims.near_misses.clone_from(near_misses);
        }
        let work = work.as_ref().unwrap_or(tree);
        let new_tree = !unchanged && self.progress.trees_seen.insert(work.clone());
        self.progress.since_iteration_start |= new_evidence || (new_tree && !self.is_claimed());
        self.progress.count_iteration(unchanged);
    }

    /// Counts statements of the agent's final text that the work is done.
    pub(super) fn count_done_statements(&mut self, record: &Record) {
        let Record::IterationEnded { says_done, says_all_done, .. } = record else { return };
        // Where no claim is needed, words without one are no sign of anything.
        let is_claimed = self.is_claimed() || self.needs_no_claim();
        let claims = &mut self.claims;
        claims.stats.count_done_statement(*says_done);
        claims.says_done = claims.says_done.saturating_add(u32::from(*says_done));
        claims.says_all_done =
            if *says_all_done && !is_claimed { claims.says_all_done.saturating_add(1) } else { 0 };
    }

    /// Applies the verdicts before any work. What the checks left counts as there before the run.
    pub(super) fn baseline_checked(&mut self, record: &Record) {
        let Record::Baseline { accepted, tree, evidence, verdicts, .. } = record else { return };
        self.validation.baseline_accepted = Some(*accepted);
        self.validation.baseline_verdicts.clone_from(verdicts);
        self.count_check_time(verdicts);
        self.workspace.observed_since_validation = false;
        self.workspace.tree.clone_from(tree);
        self.progress.trees_seen.insert(tree.clone());
        self.workspace.evidence_history.begin(evidence, false);
    }

    fn count_check_time(&mut self, verdicts: &[ValidatorVerdict]) {
        let took = verdicts.iter().map(|named| named.duration_ms).fold(0, u64::saturating_add);
        self.validation.checks_ms = self.validation.checks_ms.saturating_add(took);
    }

    pub(super) fn validated(&mut self, record: &Record) {
        let Record::Validated { accepted, tree_left, verdicts, reasons, .. } = record else {
            return;
        };
        let workspace = &mut self.workspace;
        workspace.changed_since_validation = false;
        workspace.observed_since_validation = false;
        if tree_left.is_some() {
            workspace.tree_left.clone_from(tree_left);
        }
        self.count_check_errors(verdicts);
        self.count_check_time(verdicts);
        let signature = signature(verdicts, reasons, &self.validation.reviews);
        if self.progress.verdicts_seen.insert(signature) {
            self.progress.since_iteration_start = true;
            self.progress.reset_stagnation();
        }
        let verdicts = verdicts.clone();
        if *accepted {
            self.validation.rejection = None;
            self.validation.accepted_verdicts = verdicts;
            self.claims.stats.count_acceptance();
        } else {
            self.rejected(verdicts, reasons);
        }
    }

    fn rejected(&mut self, verdicts: Vec<ValidatorVerdict>, reasons: &[String]) {
        let work = (self.workspace.tree.clone(), self.workspace.evidence.clone());
        let validation = &mut self.validation;
        // Validating again, after a restart, does not make the same work worse.
        let has_iterated = std::mem::take(&mut validation.iterated_since_rejection);
        let further = u32::from(has_iterated && !has_only_errors(&verdicts));
        let times = match &validation.rejection {
            Some(last) if last.work == work => last.times.saturating_add(further),
            _ => 1,
        };
        let is_new = !self.claims.stats.is_settled();
        let is_rejection = u32::from(is_new && !is_unchecked(&verdicts, reasons));
        validation.rejections = validation.rejections.saturating_add(is_rejection);
        // What an agent that failed or was killed has left is not its work.
        let has_worked =
            has_iterated && matches!(self.last_outcome, Some(IterationOutcome::Succeeded));
        if let Some(escalation) = self.agent.escalation.as_mut().filter(|_| has_worked) {
            escalation.rejections = escalation.rejections.saturating_add(is_rejection);
        }
        self.claims.stats.count_rejection(&verdicts, reasons);
        validation.task_changed_since_rejection = false;
        validation.rejection = Some(Rejection { reasons: reasons.to_vec(), verdicts, work, times });
        let after = self.policy().map(|policy| policy.after_rejection);
        if after == Some(AfterRejection::RequireNewClaim) {
            self.latch = Latch::Open;
        }
    }

    /// Counts, for each required validator, how often in a row it could not come to a verdict.
    fn count_check_errors(&mut self, verdicts: &[ValidatorVerdict]) {
        let errors = &mut self.validation.errors_in_a_row;
        for named in verdicts.iter().filter(|named| named.required) {
            if named.required_error().is_some() {
                let count = errors.entry(named.validator.clone()).or_default();
                *count = count.saturating_add(1);
            } else {
                errors.remove(&named.validator);
            }
        }
    }
}

impl ProgressState {
    /// Counts an iteration as stagnant once it is observed; anything new that is recorded afterwards,
    /// such as another verdict, resets the count.
    fn count_iteration(&mut self, unchanged: bool) {
        if self.since_iteration_start {
            self.reset_stagnation();
        } else if self.awaiting_observation {
            let idle = unchanged && self.called_no_tool;
            let weight = if idle { IDLE_ITERATION_WEIGHT } else { 1 };
            self.stagnant = self.stagnant.saturating_add(weight);
            self.stagnant_iterations = self.stagnant_iterations.saturating_add(1);
        }
        self.awaiting_observation = false;
    }

    pub(super) const fn reset_stagnation(&mut self) {
        (self.stagnant, self.stagnant_iterations) = (0, 0);
    }
}

/// Returns a digest of the verdicts, normalized. Validators that are not required decide nothing, so
/// their verdicts are no progress either. A review says the same in other words each time.
fn signature(
    verdicts: &[ValidatorVerdict],
    reasons: &[String],
    reviews: &BTreeSet<String>,
) -> String {
    let mut hasher = blake3::Hasher::new();
    for named in verdicts.iter().filter(|named| named.required) {
        let word: &[u8] = match named.verdict {
            Verdict::Accepted { .. } => b"accepted",
            Verdict::Rejected { .. } => b"rejected",
            Verdict::Error { .. } => b"error",
        };
        hasher.update(named.validator.as_bytes()).update(b"\0").update(word).update(b"\0");
    }
    // Tests that run side by side print in any order.
    let without_name = |reason: &'_ String| {
        let named = verdicts.iter().find_map(|named| {
            reason.strip_prefix(named.validator.as_str())?.strip_prefix(':').map(str::to_owned)
        });
        named.unwrap_or_else(|| reason.clone())
    };
    let is_of_review = |reason: &&String| {
        let mut of = reviews.iter().filter_map(|name| reason.strip_prefix(name.as_str()));
        of.any(|rest| rest.starts_with(": "))
    };
    let reasons = reasons.iter().filter(|reason| !is_of_review(reason));
    let reasons: Vec<String> = reasons.map(without_name).collect();
    let lines: BTreeSet<String> = reasons
        .iter()
        .flat_map(|reason| reason.lines())
        .map(|line| normalize(line.trim()))
        .collect();
    for line in &lines {
        hasher.update(line.as_bytes()).update(b"\0");
    }
    hasher.finalize().to_hex().to_string()
}
