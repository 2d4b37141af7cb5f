//! What the runs of a state directory used, by iteration, for what measures them.

use std::collections::BTreeMap;

use ralph_orchestrator_contract::{Tokens, Usage, Usd};
use ralph_orchestrator_machine::{IterationOutcome, Record, State};
use ralph_orchestrator_store::{
    JournalEntry, Layout, StateError, StoredRun, list_runs, read_current_run, read_run,
};

/// What a journal says of a run.
#[derive(Clone, Debug, Default)]
pub struct RunFacts {
    /// The run's id.
    pub run: String,
    /// The model that the agent reports, or else the one that it is asked to use.
    pub model: Option<String>,
    /// The version that the agent reports.
    pub version: Option<String>,
    /// Claims of completion.
    pub claims: u64,
    /// Iterations that began.
    pub iterations: u64,
    /// What each iteration used, by its number.
    pub usage: BTreeMap<u64, IterationUsage>,
    /// The state that the journal leads to.
    pub state: Option<State>,
}

/// What an iteration used, all its attempts together.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct IterationUsage {
    /// Its tokens, as far as they are known.
    pub tokens: Option<Tokens>,
    /// Its cost, as far as that is known.
    pub cost: Option<Usd>,
    /// Some of it is estimated.
    pub is_estimated: bool,
    /// It was ended before it could say what it cost.
    pub is_lost: bool,
    /// Runtime of the run at its end, in milliseconds.
    pub ended_ms: u64,
}

impl RunFacts {
    /// Reads the run of a state directory; none if none began there.
    ///
    /// # Errors
    /// The state is damaged or cannot be read.
    fn read(layout: &Layout) -> Result<Option<Self>, StateError> {
        let mut facts = Self::default();
        let found = read_current_run(layout, |entry| facts.add(entry))?;
        let Some(found) = found else { return Ok(None) };
        facts.finish(found);
        Ok(Some(facts))
    }

    /// Reads all runs of a state directory, the first one first: several if they are those of a backlog. What keeps the
    /// rest from being read is returned, too.
    pub fn read_all(layout: &Layout) -> (Vec<Self>, Option<StateError>) {
        let mut all = Vec::new();
        let runs = match list_runs(layout) {
            Ok(runs) => runs,
            Err(error) => return (all, Some(error)),
        };
        if runs.len() < 2 {
            return match Self::read(layout) {
                Ok(facts) => (facts.into_iter().collect(), None),
                Err(error) => (all, Some(error)),
            };
        }
        let mut problem = None;
        for run in runs.into_iter().rev() {
            // One that was opened and has not begun costs nothing.
            let has_begun =
                std::fs::read(layout.journal(&run)).is_ok_and(|text| text.contains(&b'\n'));
            if !has_begun {
                continue;
            }
            let mut facts = Self::default();
            match read_run(layout, &run, |entry| facts.add(entry)) {
                Ok(loaded) => {
                    facts.finish(loaded.found);
                    all.push(facts);
                    problem = problem.or(loaded.damage);
                }
                Err(error) => problem = problem.or(Some(error)),
            }
        }
        (all, problem)
    }

    /// Adds what the whole journal says.
    fn finish(&mut self, found: StoredRun) {
        self.run = found.run;
        if let Some(running) = &found.state.running {
            // It was lost: what it reported, and at least what was reserved for it.
            let cost = running.usage.cost.unwrap_or_default().max(running.reservation);
            let known = running.usage.cost.is_some() || running.reservation > Usd::ZERO;
            let usage = self.usage.entry(running.iteration).or_default();
            usage.add(&running.usage, known.then_some(cost), true);
            usage.is_lost = true;
        }
        self.model = found.state.agent.model().map(str::to_owned);
        self.state = Some(found.state);
    }

    fn add(&mut self, entry: &JournalEntry) {
        match &entry.record {
            Record::IterationStarted { iteration, version, .. } => {
                self.iterations = self.iterations.max(*iteration);
                self.version = version.clone().or_else(|| self.version.take());
            }
            Record::Claimed { .. } => self.claims += 1,
            Record::IterationEnded { iteration, outcome, usage, cost_usd, runtime_ms, .. } => {
                let is_lost = matches!(outcome, IterationOutcome::Interrupted);
                let is_cut = is_lost || matches!(outcome, IterationOutcome::StoppedEarly { .. });
                let is_reserved = usage.cost.is_none() && *cost_usd > Usd::ZERO;
                let known = usage.cost.is_some() || is_reserved;
                let sum = self.usage.entry(*iteration).or_default();
                sum.add(usage, known.then_some(*cost_usd), is_lost || is_reserved);
                sum.is_lost |= usage.cost.is_none() && (is_cut || is_reserved);
                sum.ended_ms = *runtime_ms;
            }
            Record::ReviewEnded { iteration, usage, cost_usd, .. } => {
                let known = usage.cost.is_some() || *cost_usd > Usd::ZERO;
                let sum = self.usage.entry(*iteration).or_default();
                sum.add(usage, known.then_some(*cost_usd), known && usage.cost.is_none());
            }
            _ => {}
        }
    }

    /// Charges each iteration that could not say what it cost with what others of the agent usually cost, if that is more
    /// than what is known of it.
    pub fn charge_lost(&mut self, usual: Usd) {
        for usage in self.usage.values_mut().filter(|usage| usage.is_lost) {
            usage.cost = Some(usage.cost.unwrap_or_default().max(usual));
            usage.is_estimated = true;
        }
    }

    /// Returns what the run used, all iterations together. The cost is that of the iterations whose cost is known.
    pub fn total(&self) -> Usage {
        let mut total = Usage::default();
        for usage in self.usage.values() {
            total.tokens = sum(total.tokens, usage.tokens);
            total.cost = sum(total.cost, usage.cost);
            total.estimated |= usage.is_estimated;
        }
        // An iteration of unknown cost makes the whole unknown.
        if self.usage.values().any(|usage| usage.cost.is_none()) {
            total.cost = None;
        }
        total
    }
}

impl IterationUsage {
    fn add(&mut self, usage: &Usage, cost: Option<Usd>, is_estimated: bool) {
        self.tokens = sum(self.tokens, usage.tokens);
        self.cost = sum(self.cost, cost);
        self.is_estimated |= usage.estimated || is_estimated;
    }
}

fn sum<T: std::ops::Add<Output = T>>(one: Option<T>, other: Option<T>) -> Option<T> {
    match (one, other) {
        (Some(one), Some(other)) => Some(one + other),
        (one, other) => one.or(other),
    }
}
