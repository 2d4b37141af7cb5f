//! What counts as progress, and how the state keeps it.
//!
//! Without a claim, work that was never seen before is progress: another tree, or new evidence. While a
//! claim is pending, only what it has to pass counts: evidence with a new content, or another verdict.
//! An agent that changes a file each time and claims what was rejected goes round in circles.

use std::collections::BTreeSet;

use super::normalize::normalize;
use super::record::{AfterRejection, NamedVerdict, Record};
use super::state::{Latch, Rejection, State};
use ralph_orchestrator_contract::Verdict;

/// As how many an iteration counts whose agent called no tool and left the work as it was.
const IDLE_COUNTS_AS: u32 = 3;

impl State {
    pub(super) fn looked(&mut self, record: &Record) {
        let Record::Looked {
            iteration,
            tree,
            work,
            evidence_written,
            evidence_complete,
            evidence,
            near_misses,
            changes: _,
            runtime_ms,
        } = record
        else {
            return;
        };
        self.runtime(*runtime_ms);
        let unchanged = self.is_same_tree(tree);
        if !unchanged {
            self.tree.clone_from(tree);
            self.tree_left = None;
            self.tree_since = *iteration;
        }
        let work = work.as_ref().unwrap_or(tree);
        let new_tree = !unchanged && self.trees_seen.insert(work.clone());
        self.unvalidated = true;
        self.work_changed |= *iteration > 0 && !(unchanged && self.evidence == *evidence);
        let new_evidence =
            self.evidence_history.record(*iteration, evidence_written, *evidence_complete);
        self.evidence.clone_from(evidence);
        if *iteration == 0 {
            self.own_misses.clone_from(near_misses);
        } else {
            self.near_misses.clone_from(near_misses);
        }
        self.progress |= new_evidence || (new_tree && !self.is_claimed());
        self.count_stagnation(unchanged);
    }

    /// An iteration counts as stagnant as soon as it was looked at, and no more as soon as anything
    /// new turns up after it, such as another verdict.
    fn count_stagnation(&mut self, unchanged: bool) {
        if self.progress {
            self.reset_stagnation();
        } else if self.unlooked {
            let count = if unchanged && self.called_no_tool { IDLE_COUNTS_AS } else { 1 };
            self.stagnant = self.stagnant.saturating_add(count);
            self.stagnant_iterations = self.stagnant_iterations.saturating_add(1);
        }
        self.unlooked = false;
    }

    pub(super) const fn reset_stagnation(&mut self) {
        (self.stagnant, self.stagnant_iterations) = (0, 0);
    }

    /// Counts what the agent's text says of being done.
    pub(super) fn count_words(&mut self, record: &Record) {
        let Record::IterationEnded { says_done, says_all_done, .. } = record else { return };
        self.tally.count_words(*says_done);
        if *says_done {
            self.says_done = self.says_done.saturating_add(1);
        }
        self.says_all_done = if *says_all_done && !self.is_claimed() {
            self.says_all_done.saturating_add(1)
        } else {
            0
        };
    }

    /// Takes in what the checks said before there was any work. What they left is part of what was there
    /// before the run.
    pub(super) fn baseline_checked(&mut self, record: &Record) {
        let Record::Baseline { accepted, tree, evidence, .. } = record else { return };
        self.baseline_accepted = Some(*accepted);
        self.unvalidated = false;
        self.tree.clone_from(tree);
        self.trees_seen.insert(tree.clone());
        self.evidence_history.begin(evidence, false);
    }

    pub(super) fn validated(&mut self, record: &Record) {
        let Record::Validated { accepted, tree_left, verdicts, reasons, .. } = record else {
            return;
        };
        (self.work_changed, self.unvalidated) = (false, false);
        if tree_left.is_some() {
            self.tree_left.clone_from(tree_left);
        }
        self.count_check_errors(verdicts);
        if self.verdicts_seen.insert(signature(verdicts, reasons)) {
            self.progress = true;
            self.reset_stagnation();
        }
        let verdicts = verdicts.clone();
        if *accepted {
            self.rejection = None;
            self.accepted_verdicts = verdicts;
            return;
        }
        let work = (self.tree.clone(), self.evidence.clone());
        let times = match &self.rejection {
            // Looking again, after a restart, does not make the same work worse.
            Some(last) if last.work == work => last.times.saturating_add(u32::from(self.worked)),
            _ => 1,
        };
        self.worked = false;
        self.rejections = self.rejections.saturating_add(1);
        self.tally.count_rejection(&verdicts, reasons);
        self.rejection = Some(Rejection { reasons: reasons.clone(), verdicts, work, times });
        let reclaim = self.policy().map(|policy| policy.after_rejection);
        if reclaim == Some(AfterRejection::RequireNewClaim) {
            self.latch = Latch::Open;
        }
    }

    /// Counts, for each required validator, how often in a row it could not come to a verdict.
    fn count_check_errors(&mut self, verdicts: &[NamedVerdict]) {
        for named in verdicts.iter().filter(|named| named.required) {
            if matches!(named.verdict, Verdict::Error { .. }) {
                let count = self.check_errors.entry(named.validator.clone()).or_default();
                *count = count.saturating_add(1);
            } else {
                self.check_errors.remove(&named.validator);
            }
        }
    }
}

/// Digest of what a validation says, but for what differs by chance. Validators that are not required
/// decide nothing, so what they say is no progress either.
fn signature(verdicts: &[NamedVerdict], reasons: &[String]) -> String {
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
    let bare = |reason: &'_ String| {
        let named = verdicts.iter().find_map(|named| {
            reason.strip_prefix(named.validator.as_str())?.strip_prefix(':').map(str::to_owned)
        });
        named.unwrap_or_else(|| reason.clone())
    };
    let reasons: Vec<String> = reasons.iter().map(bare).collect();
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
