//! What happened in a run, told from its records: pure, so that it can be told at any time.

use std::collections::{BTreeMap, BTreeSet};

use serde::Serialize;

use super::limits::StopReason;
use super::record::{NamedVerdict, Outcome, Record};
use crate::contract::{CancelReason, ClaimKind, Tokens, Usd, Verdict};

/// Different causes of rejections that are told apart.
const MOST_CAUSES: usize = 100;
/// Characters of a cause.
const LONGEST_CAUSE: usize = 120;

/// Why claims were rejected, put together with all that were rejected for the same reason.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Cause {
    /// The validator that rejected.
    pub validator: String,
    /// The reason without its details.
    pub text: String,
    /// The validator could not check the work at all.
    pub is_error: bool,
    /// In how many validations.
    pub times: u64,
}

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
    /// What became of the tree.
    pub tree: TreeChange,
    /// Contents in the evidence folders that were seen for the first time.
    pub new_evidence: usize,
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
    /// Why it was not accepted: places in [`Story::causes`].
    pub causes: Vec<usize>,
}

impl Episode {
    const fn new(iteration: u64) -> Self {
        Self {
            iteration,
            attempts: 0,
            outcome: None,
            cost_usd: Usd::ZERO,
            duration_ms: 0,
            tree: TreeChange::Unknown,
            new_evidence: 0,
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
                episode.new_evidence > 0,
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
    /// Claims of completion.
    pub claims: u64,
    /// Validations that did not accept.
    pub rejections: u64,
    /// Why, in the order in which the causes first turned up.
    pub causes: Vec<Cause>,
    /// Iterations that said that they were done without a claim.
    pub says_done: u64,
    /// By iteration, 0 being what was before the first.
    #[serde(skip)]
    pub episodes: BTreeMap<u64, Episode>,
    /// What was charged in all.
    pub cost_usd: Usd,
    /// Some of it is estimated.
    pub cost_estimated: bool,
    /// Tokens used in all.
    pub tokens: Tokens,
    /// Why it was stopped, if it was.
    pub stop: Option<(StopReason, String)>,
    /// The present tree and all earlier ones.
    #[serde(skip)]
    tree: String,
    #[serde(skip)]
    trees: BTreeSet<String>,
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
                self.tree.clone_from(&started.tree);
                self.trees.insert(started.tree.clone());
            }
            Record::RunResumed { .. } => self.stop = None,
            Record::IterationStarted { iteration, attempt, runtime_ms, .. } => {
                self.began_ms = *runtime_ms;
                let episode = self.episode(*iteration);
                episode.attempts = episode.attempts.max(*attempt);
            }
            Record::IterationEnded {
                iteration,
                outcome,
                usage,
                cost_usd,
                says_done,
                runtime_ms,
                ..
            } => {
                self.cost_usd += *cost_usd;
                self.cost_estimated |= usage.estimated;
                self.tokens += usage.tokens.unwrap_or_default();
                self.says_done += u64::from(*says_done);
                let duration_ms = runtime_ms.saturating_sub(self.began_ms);
                let episode = self.episode(*iteration);
                episode.outcome = Some(outcome.clone());
                episode.cost_usd += *cost_usd;
                episode.duration_ms = episode.duration_ms.saturating_add(duration_ms);
                episode.says_done |= says_done;
            }
            Record::Claimed { iteration, claim } => match claim.kind {
                ClaimKind::Complete => {
                    self.claims += 1;
                    self.episode(*iteration).claims += 1;
                }
                ClaimKind::NeedsHuman => self.episode(*iteration).needs_human = true,
            },
            Record::Looked { iteration, tree, new_evidence, near_misses, .. } => {
                self.looked(*iteration, tree, new_evidence.len(), near_misses.len());
            }
            Record::Validated { iteration, accepted, verdicts, reasons, .. } => {
                self.validated(*iteration, *accepted, verdicts, reasons);
            }
            Record::Stopped { reason, message, .. } => {
                self.stop = Some((*reason, message.clone()));
            }
            _ => {}
        }
    }

    fn episode(&mut self, iteration: u64) -> &mut Episode {
        self.episodes.entry(iteration).or_insert_with(|| Episode::new(iteration))
    }

    fn looked(&mut self, iteration: u64, tree: &str, new_evidence: usize, near_misses: usize) {
        let change = if self.tree == tree {
            TreeChange::Unchanged
        } else if self.trees.insert(tree.to_owned()) {
            TreeChange::New
        } else {
            TreeChange::Back
        };
        tree.clone_into(&mut self.tree);
        let episode = self.episode(iteration);
        // After a restart it is looked at once more.
        if !matches!(episode.tree, TreeChange::New | TreeChange::Back) {
            episode.tree = change;
        }
        episode.new_evidence += new_evidence;
        episode.near_misses = near_misses;
    }

    fn validated(
        &mut self,
        iteration: u64,
        accepted: bool,
        verdicts: &[NamedVerdict],
        reasons: &[String],
    ) {
        let mut causes = Vec::new();
        if !accepted {
            self.rejections += 1;
            for named in verdicts.iter().filter(|named| named.required) {
                let (text, is_error) = match &named.verdict {
                    Verdict::Accepted { .. } => continue,
                    Verdict::Rejected { reasons } => (reasons.first(), false),
                    Verdict::Error { message } => (Some(message), true),
                };
                let text = text.map_or("rejected", String::as_str);
                causes.push(self.cause(&named.validator, text, is_error));
            }
            if causes.is_empty() {
                let text = reasons.first().map_or("rejected", String::as_str);
                causes.push(self.cause("", text, false));
            }
        }
        let episode = self.episode(iteration);
        episode.accepted = Some(accepted);
        episode.causes = causes;
    }

    /// The place of this cause, which happened once more.
    fn cause(&mut self, validator: &str, reason: &str, is_error: bool) -> usize {
        let text = gist(reason);
        let same = |cause: &Cause| {
            (cause.validator.as_str(), cause.text.as_str(), cause.is_error)
                == (validator, text.as_str(), is_error)
        };
        let full = self.causes.len() > MOST_CAUSES;
        let at = match self.causes.iter().position(same) {
            Some(at) => at,
            // The last one stands for all that are too many to be told apart.
            None if full => self.causes.len() - 1,
            None => {
                let text =
                    if self.causes.len() == MOST_CAUSES { "other reasons".into() } else { text };
                let validator = validator.to_owned();
                self.causes.push(Cause { validator, text, is_error, times: 0 });
                self.causes.len() - 1
            }
        };
        if let Some(cause) = self.causes.get_mut(at) {
            cause.times += 1;
        }
        at
    }

    /// What became of all claims, in one line, such as `claimed 50×, rejected 50×, always: evidence
    /// directory not found`. `None` if there was nothing of the kind.
    #[must_use]
    pub fn claims_line(&self) -> Option<String> {
        if self.claims == 0 && self.rejections == 0 {
            return (self.says_done > 0)
                .then(|| format!("said to be done {}×, never claimed", self.says_done));
        }
        let claimed = format!("claimed {}×", self.claims);
        if self.rejections == 0 {
            return Some(claimed);
        }
        let always: Vec<String> = self
            .causes
            .iter()
            .filter(|cause| cause.times == self.rejections)
            .map(|cause| self.cause_text(cause))
            .collect();
        let most = self.causes.iter().max_by_key(|cause| cause.times);
        let why = match (self.rejections, most) {
            (1, _) => format!(": {}", always.join("; ")),
            (_, _) if !always.is_empty() => format!(", always: {}", always.join("; ")),
            (_, Some(cause)) => format!(", mostly ({}×): {}", cause.times, self.cause_text(cause)),
            (_, None) => String::new(),
        };
        Some(format!("{claimed}, rejected {}×{why}", self.rejections))
    }

    /// A cause, with its validator if there are several.
    #[must_use]
    pub fn cause_text(&self, cause: &Cause) -> String {
        let several = self.causes.iter().any(|other| other.validator != cause.validator);
        let name = if several && !cause.validator.is_empty() {
            format!("{}: ", cause.validator)
        } else {
            String::new()
        };
        let how = if cause.is_error { "could not be checked: " } else { "" };
        format!("{name}{how}{}", cause.text)
    }
}

/// The first clause of a reason: what it says before it goes into details.
fn gist(reason: &str) -> String {
    let line = reason.trim().lines().next().unwrap_or_default();
    let (mut quoted, mut end) = (false, line.len());
    let mut rest = line.char_indices().peekable();
    while let Some((at, c)) = rest.next() {
        match c {
            '`' => quoted = !quoted,
            ':' | '.' | ';' if !quoted && rest.peek().is_none_or(|(_, next)| *next == ' ') => {
                end = at;
                break;
            }
            _ => {}
        }
    }
    let clause = line.get(..end).unwrap_or(line).trim();
    match clause.char_indices().nth(LONGEST_CAUSE) {
        Some((at, _)) => format!("{}…", clause.get(..at).unwrap_or_default()),
        None => clause.to_owned(),
    }
}

#[cfg(test)]
mod tests;
