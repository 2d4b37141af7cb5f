//! What happened in a run, told from its records: pure, so that it can be told at any time.

use std::collections::{BTreeMap, BTreeSet};

use serde::Serialize;

use super::changes::Changes;
use super::limits::StopReason;
use super::record::{NamedVerdict, Outcome, Record};
use super::tally::ClaimTally;
use ralph_orchestrator_contract::{CancelReason, ClaimKind, Tokens, Usd};

/// What became of the workspace tree.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum TreeChange {
    /// It was not looked at.
    Unknown,
    /// It is as it was before.
    Unchanged,
    /// It is as it never was before.
    New,
    /// It is as it was at an earlier time.
    Back,
}

/// What happened in an iteration, or before the first one, and at the boundary after it.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Episode {
    /// The iteration; 0 before the first.
    pub iteration: u64,
    /// How often it was begun.
    pub attempts: u32,
    /// How it ended; `None` before the first iteration and while it goes on.
    pub outcome: Option<Outcome>,
    /// What it is charged.
    pub cost_usd: Usd,
    /// How long the agent worked, in milliseconds.
    pub duration_ms: u64,
    /// Its agent has reported a cost; without that, the charge is what it may have cost.
    pub cost_reported: bool,
    /// Some of the cost was computed, not reported.
    pub cost_estimated: bool,
    /// The name of its agent.
    pub agent: String,
    /// What became of the tree.
    pub tree: TreeChange,
    /// What was changed, if that is known.
    pub changes: Option<Changes>,
    /// Files that were written into the evidence folders.
    pub evidence_written: usize,
    /// Claims of completion.
    pub claims: u64,
    /// It asked for a human.
    pub needs_human: bool,
    /// It said that it was done, but claimed nothing.
    pub says_done: bool,
    /// What was nearly a claim.
    pub near_misses: usize,
    /// Whether its claim was accepted; `None` if nothing was validated.
    pub accepted: Option<bool>,
    /// Why it was not accepted: places in [`ClaimTally::causes`].
    pub causes: Vec<usize>,
}

impl Episode {
    const fn new(iteration: u64) -> Self {
        Self {
            iteration,
            attempts: 0,
            outcome: None,
            cost_usd: Usd::ZERO,
            cost_reported: false,
            cost_estimated: false,
            agent: String::new(),
            duration_ms: 0,
            tree: TreeChange::Unknown,
            changes: None,
            evidence_written: 0,
            claims: 0,
            needs_human: false,
            says_done: false,
            near_misses: 0,
            accepted: None,
            causes: Vec::new(),
        }
    }

    /// Whether there is something to tell.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.attempts == 0 && self.claims == 0 && !self.needs_human && self.accepted.is_none()
    }

    /// Whether the same happened in both, numbers and money aside.
    #[must_use]
    pub fn is_like(&self, other: &Self) -> bool {
        let facts = |episode: &Self| {
            (
                episode.outcome.as_ref().map(std::mem::discriminant),
                class(episode.outcome.as_ref()),
                episode.tree,
                episode.evidence_written > 0,
                episode.claims > 0,
                (episode.needs_human, episode.says_done, episode.near_misses > 0),
                episode.accepted,
                episode.causes.clone(),
            )
        };
        facts(self) == facts(other)
    }
}

fn class(outcome: Option<&Outcome>) -> Option<(String, Option<CancelReason>)> {
    match outcome? {
        Outcome::Failed { class, .. } | Outcome::Deferred { class, .. } => {
            Some((class.clone(), None))
        }
        Outcome::Cut { reason } => Some((String::new(), Some(*reason))),
        Outcome::Succeeded | Outcome::Bounded { .. } | Outcome::Lost => None,
    }
}

/// What happened in a run.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Story {
    /// What became of the claims.
    #[serde(flatten)]
    pub tally: ClaimTally,
    /// By iteration, 0 being what was before the first.
    #[serde(skip)]
    pub episodes: BTreeMap<u64, Episode>,
    /// What was charged in all.
    pub cost_usd: Usd,
    /// Some of it is estimated.
    pub cost_estimated: bool,
    /// Tokens used in all.
    pub tokens: Tokens,
    /// What the iterations changed, put together.
    pub changes: Changes,
    /// The verdicts of the last validation.
    #[serde(skip)]
    pub verdicts: Vec<NamedVerdict>,
    /// The name of the agent.
    #[serde(skip)]
    agent: String,
    /// Why it was stopped, if it was.
    pub stop: Option<(StopReason, String)>,
    /// The present tree and all earlier ones.
    #[serde(skip)]
    tree: String,
    #[serde(skip)]
    trees: BTreeSet<String>,
    /// The tree as validators left it, if it is another.
    #[serde(skip)]
    tree_left: Option<String>,
    /// Runtime when the iteration began that goes on.
    #[serde(skip)]
    began_ms: u64,
}

impl<'a> FromIterator<&'a Record> for Story {
    fn from_iter<I: IntoIterator<Item = &'a Record>>(records: I) -> Self {
        let mut story = Self::default();
        records.into_iter().for_each(|record| story.add(record));
        story
    }
}

impl Story {
    /// Goes on with the next record.
    pub fn add(&mut self, record: &Record) {
        match record {
            Record::RunStarted(started) => {
                self.agent.clone_from(&started.agent);
                self.tree.clone_from(&started.tree);
                self.trees.insert(started.tree.clone());
            }
            Record::RunResumed { agent, .. } => {
                self.agent.clone_from(agent);
                self.stop = None;
            }
            Record::AgentChanged { to, .. } => self.agent.clone_from(to),
            Record::IterationStarted { iteration, attempt, runtime_ms, .. } => {
                self.began_ms = *runtime_ms;
                let agent = self.agent.clone();
                let episode = self.episode(*iteration);
                episode.agent = agent;
                episode.attempts = episode.attempts.max(*attempt);
            }
            Record::IterationEnded { .. } => self.iteration_ended(record),
            Record::Claimed { iteration, claim } => match claim.kind {
                ClaimKind::Complete => {
                    if !claim.is_automatic() {
                        self.tally.count_claim();
                        self.episode(*iteration).claims += 1;
                    }
                }
                ClaimKind::NeedsHuman => self.episode(*iteration).needs_human = true,
            },
            Record::Looked { iteration, tree, evidence_written, near_misses, changes, .. } => {
                self.looked(*iteration, tree, evidence_written.len(), near_misses.len());
                self.changed(*iteration, changes.as_ref());
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
        self.cost_usd += *cost_usd;
        self.cost_estimated |= usage.estimated;
        self.tokens += usage.tokens.unwrap_or_default();
        self.tally.count_words(*says_done);
        let duration_ms = runtime_ms.saturating_sub(self.began_ms);
        let episode = self.episode(*iteration);
        episode.outcome = Some(outcome.clone());
        episode.cost_usd += *cost_usd;
        episode.cost_reported |= usage.cost.is_some();
        episode.cost_estimated |= usage.estimated;
        episode.duration_ms = episode.duration_ms.saturating_add(duration_ms);
        episode.says_done |= says_done;
    }

    fn episode(&mut self, iteration: u64) -> &mut Episode {
        self.episodes.entry(iteration).or_insert_with(|| Episode::new(iteration))
    }

    fn looked(&mut self, iteration: u64, tree: &str, written: usize, near_misses: usize) {
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
        let episode = self.episode(iteration);
        // After a restart it is looked at once more.
        if !matches!(episode.tree, TreeChange::New | TreeChange::Back) {
            episode.tree = change;
        }
        episode.evidence_written += written;
        episode.near_misses = near_misses;
    }

    fn changed(&mut self, iteration: u64, changes: Option<&Changes>) {
        let Some(changes) = changes else { return };
        self.changes.add(changes);
        self.episode(iteration).changes.get_or_insert_default().add(changes);
    }

    fn validated(
        &mut self,
        iteration: u64,
        accepted: bool,
        verdicts: &[NamedVerdict],
        reasons: &[String],
    ) {
        let causes =
            if accepted { Vec::new() } else { self.tally.count_rejection(verdicts, reasons) };
        let episode = self.episode(iteration);
        episode.accepted = Some(accepted);
        episode.causes = causes;
    }
}

#[cfg(test)]
mod tests;
