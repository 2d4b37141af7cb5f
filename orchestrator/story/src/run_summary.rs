//! A summary of a run, computed from its records alone.

use std::collections::{BTreeMap, BTreeSet};

use ralph_orchestrator_contract::{ClaimKind, ErrorClass, NearMiss, Tokens, Usage, Usd};
use ralph_orchestrator_machine::{
    Changes, ClaimStats, IterationOutcome, Record, StopReason, ValidatorVerdict, is_unchecked,
};
use ralph_orchestrator_test_results::TestCounts;
use serde::Serialize;

/// How an iteration changed the workspace tree.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum TreeChange {
    /// It was not observed.
    Unknown,
    /// As before.
    Unchanged,
    /// As never before.
    New,
    /// As at an earlier time.
    Back,
}

/// A summary of an iteration and what followed it, or of what came before the first one.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct IterationSummary {
    /// The iteration; 0 before the first.
    pub iteration: u64,
    /// How often it was begun.
    pub attempts: u32,
    /// How it ended; `None` before the first iteration and while it is running.
    pub outcome: Option<IterationOutcome>,
    /// What it is charged.
    pub cost_usd: Usd,
    /// Tokens that its agent reported.
    pub tokens: Tokens,
    /// How long the agent worked, in milliseconds.
    pub duration_ms: u64,
    /// Its agent has reported a cost; otherwise the charge is an upper estimate.
    pub cost_reported: bool,
    /// Some of the cost was computed, not reported.
    pub cost_estimated: bool,
    /// The name of its agent.
    pub agent: String,
    /// The role whose prompt it was given, if roles have prompts.
    pub role: Option<String>,
    /// Why the setup before it failed, if it did.
    pub setup_problem: Option<String>,
    /// How it changed the tree.
    pub tree: TreeChange,
    /// What was changed, if that is known.
    pub changes: Option<Changes>,
    /// Files that were written into the evidence folders.
    pub evidence_written: usize,
    /// Claims of completion.
    pub claims: u64,
    /// It asked for a human.
    pub needs_human: bool,
    /// Its text spoke of being done.
    pub says_done: bool,
    /// Why its first near miss was no claim, if there was one.
    pub near_miss: Option<String>,
    /// Whether its claim was accepted; `None` if nothing was validated.
    pub accepted: Option<bool>,
    /// It was not accepted only because validators reached no verdict.
    pub unchecked: bool,
    /// Why it was not accepted: indices into [`ClaimStats::causes`].
    pub causes: Vec<usize>,
    /// The tests that each validator ran, where they were counted.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub tests: BTreeMap<String, TestCounts>,
}

/// Returns why it is no claim: the first sentence of its hint. The rest tells the agent what a claim looks like.
#[must_use]
pub fn near_miss_reason(near_miss: &NearMiss) -> String {
    let hint = near_miss.hint.as_str();
    let reason = hint.split_once(". ").map_or(hint, |(first, _)| first);
    reason.strip_suffix(", so it is not a claim").unwrap_or(reason).to_owned()
}

impl IterationSummary {
    fn new(iteration: u64) -> Self {
        Self {
            iteration,
            attempts: 0,
            outcome: None,
            cost_usd: Usd::ZERO,
            tokens: Tokens::default(),
            cost_reported: false,
            cost_estimated: false,
            agent: String::new(),
            role: None,
            duration_ms: 0,
            setup_problem: None,
            tree: TreeChange::Unknown,
            changes: None,
            evidence_written: 0,
            claims: 0,
            needs_human: false,
            says_done: false,
            near_miss: None,
            accepted: None,
            unchecked: false,
            causes: Vec::new(),
            tests: BTreeMap::new(),
        }
    }

    /// Whether nothing happened.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.attempts == 0
            && self.claims == 0
            && !self.needs_human
            && self.accepted.is_none()
            && self.setup_problem.is_none()
    }

    /// Whether the same happened in both, numbers and money aside.
    #[must_use]
    pub fn is_like(&self, other: &Self) -> bool {
        let facts = |summary: &Self| {
            let outcome = summary.outcome.as_ref();
            (
                outcome.map(std::mem::discriminant),
                outcome.and_then(IterationOutcome::error_class).map(ErrorClass::word),
                outcome.and_then(IterationOutcome::cancel_reason),
                summary.tree,
                summary.evidence_written > 0,
                summary.claims > 0,
                (summary.needs_human, summary.says_done, summary.near_miss.clone()),
                (summary.accepted, summary.unchecked),
                summary.causes.clone(),
                (summary.role.clone(), summary.setup_problem.is_some()),
            )
        };
        facts(self) == facts(other)
    }
}

/// A summary of a run.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct RunSummary {
    /// Counts of the claims.
    #[serde(flatten)]
    pub claim_stats: ClaimStats,
    /// By iteration; 0 is what came before the first.
    #[serde(skip)]
    pub iterations: BTreeMap<u64, IterationSummary>,
    /// The total charge.
    pub cost_usd: Usd,
    /// Some of it is estimated.
    pub cost_estimated: bool,
    /// The total of tokens.
    pub tokens: Tokens,
    /// All changes of the iterations.
    pub changes: Changes,
    /// The verdicts of the last validation.
    #[serde(skip)]
    pub verdicts: Vec<ValidatorVerdict>,
    /// The name of the agent.
    #[serde(skip)]
    agent: String,
    /// Why it was stopped, if it was.
    pub stop: Option<(StopReason, String)>,
    /// The current tree, and all trees so far.
    #[serde(skip)]
    tree: String,
    #[serde(skip)]
    trees: BTreeSet<String>,
    /// The tree as validators left it, if it is another.
    #[serde(skip)]
    tree_left: Option<String>,
    /// Runtime when the running iteration began.
    #[serde(skip)]
    began_ms: u64,
    /// The running iteration, with what earlier attempts at it had used.
    #[serde(skip)]
    running: (u64, Usd, Tokens),
}

impl<'a> FromIterator<&'a Record> for RunSummary {
    fn from_iter<I: IntoIterator<Item = &'a Record>>(records: I) -> Self {
        let mut summary = Self::default();
        records.into_iter().for_each(|record| summary.add(record));
        summary
    }
}

impl RunSummary {
    /// Adds the next record.
    pub fn add(&mut self, record: &Record) {
        match record {
            Record::RunStarted(started) => {
                self.agent.clone_from(&started.agent);
                self.claim_stats.set_trigger(started.policy.when);
                self.tree.clone_from(&started.tree);
                self.trees.insert(started.tree.clone());
            }
            Record::RunResumed { agent, .. } => {
                self.agent.clone_from(agent);
                self.stop = None;
            }
            Record::AgentChanged { to, .. } => self.agent.clone_from(to),
            Record::IterationStarted { iteration, attempt, runtime_ms, role, .. } => {
                self.began_ms = *runtime_ms;
                self.claim_stats.expect_validation();
                let agent = self.agent.clone();
                let summary = self.iteration(*iteration);
                summary.agent = agent;
                summary.role.clone_from(role);
                summary.attempts = summary.attempts.max(*attempt);
                self.running = (*iteration, summary.cost_usd, summary.tokens);
            }
            // What one that was interrupted has used is known before the next start charges it.
            Record::Usage { usage, .. } => self.iteration_used(usage),
            Record::IterationEnded { .. } => self.iteration_ended(record),
            Record::ReviewEnded { usage, cost_usd, .. } => self.charge(usage, *cost_usd),
            // One that succeeds says nothing, unless an attempt before it failed.
            Record::SetupFinished { iteration, problem, .. }
                if problem.is_some() || self.iterations.contains_key(iteration) =>
            {
                self.iteration(*iteration).setup_problem.clone_from(problem);
            }
            Record::Claimed { iteration, claim } => match claim.kind {
                ClaimKind::Complete => {
                    self.claim_stats.expect_validation();
                    if !claim.is_automatic() {
                        self.claim_stats.count_claim();
                        self.iteration(*iteration).claims += 1;
                    }
                }
                ClaimKind::NeedsHuman => self.iteration(*iteration).needs_human = true,
            },
            Record::Observed {
                iteration, tree, evidence_written, near_misses, changes, ..
            } => {
                self.observed(*iteration, tree, evidence_written.len());
                self.iteration(*iteration).near_miss = near_misses.first().map(near_miss_reason);
                self.add_changes(*iteration, changes.as_ref());
            }
            Record::Validated { iteration, accepted, verdicts, reasons, tree_left, .. } => {
                self.tree_left = tree_left.clone().or(self.tree_left.take());
                self.verdicts.clone_from(verdicts);
                self.validated(*iteration, *accepted, verdicts, reasons);
            }
            Record::Stopped { reason, message, .. } => {
                self.stop = Some((*reason, message.clone()));
            }
            _ => {}
        }
    }

    fn iteration_used(&mut self, usage: &Usage) {
        let (iteration, cost_before, tokens_before) = self.running;
        let summary = self.iteration(iteration);
        summary.cost_usd = cost_before + usage.cost.unwrap_or_default();
        summary.tokens = tokens_before + usage.tokens.unwrap_or_default();
        summary.cost_reported |= usage.cost.is_some();
        summary.cost_estimated |= usage.estimated;
    }

    fn charge(&mut self, usage: &Usage, cost_usd: Usd) {
        self.cost_usd += cost_usd;
        self.cost_estimated |= usage.estimated;
        self.tokens += usage.tokens.unwrap_or_default();
    }

    fn iteration_ended(&mut self, record: &Record) {
        let Record::IterationEnded {
            iteration,
            outcome,
            usage,
            cost_usd,
            says_done,
            runtime_ms,
            ..
        } = record
        else {
            return;
        };
        self.charge(usage, *cost_usd);
        self.claim_stats.count_done_statement(*says_done);
        let duration_ms = runtime_ms.saturating_sub(self.began_ms);
        self.iteration_used(usage);
        let charged = self.running.1 + *cost_usd;
        let summary = self.iteration(*iteration);
        summary.outcome = Some(outcome.clone());
        summary.cost_usd = charged;
        summary.duration_ms = summary.duration_ms.saturating_add(duration_ms);
        summary.says_done |= says_done;
    }

    fn iteration(&mut self, iteration: u64) -> &mut IterationSummary {
        self.iterations.entry(iteration).or_insert_with(|| IterationSummary::new(iteration))
    }

    fn observed(&mut self, iteration: u64, tree: &str, written: usize) {
        let change = if self.tree == tree || self.tree_left.as_deref() == Some(tree) {
            TreeChange::Unchanged
        } else if self.trees.insert(tree.to_owned()) {
            TreeChange::New
        } else {
            TreeChange::Back
        };
        if change != TreeChange::Unchanged {
            tree.clone_into(&mut self.tree);
        }
        let summary = self.iteration(iteration);
        // After a restart the workspace is observed once more.
        if !matches!(summary.tree, TreeChange::New | TreeChange::Back) {
            summary.tree = change;
        }
        summary.evidence_written += written;
    }

    fn add_changes(&mut self, iteration: u64, changes: Option<&Changes>) {
        let Some(changes) = changes else { return };
        self.changes.add(changes);
        self.iteration(iteration).changes.get_or_insert_default().add(changes);
    }

    /// The iterations that changed the tree and whose changes are not known file by file: the orchestrator
    /// died, or could not finish observing.
    #[must_use]
    pub fn unlisted_iterations(&self) -> Vec<u64> {
        let changed = |summary: &&IterationSummary| {
            summary.iteration > 0
                && summary.changes.is_none()
                && matches!(summary.tree, TreeChange::New | TreeChange::Back)
        };
        self.iterations.values().filter(changed).map(|summary| summary.iteration).collect()
    }

    fn validated(
        &mut self,
        iteration: u64,
        accepted: bool,
        verdicts: &[ValidatorVerdict],
        reasons: &[String],
    ) {
        let causes = if accepted {
            self.claim_stats.count_acceptance();
            Vec::new()
        } else {
            self.claim_stats.count_rejection(verdicts, reasons)
        };
        let summary = self.iteration(iteration);
        summary.accepted = Some(accepted);
        summary.unchecked = !accepted && is_unchecked(verdicts, reasons);
        summary.causes = causes;
        let counted = verdicts.iter().filter_map(|named| Some((&named.validator, named.tests?)));
        summary.tests = counted.map(|(name, tests)| (name.clone(), tests)).collect();
    }
}

#[cfg(test)]
mod tests;
