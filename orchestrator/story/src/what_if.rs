//! What a start with another agent would have cost, by what the runs of a workspace have used.
//!
//! Nothing is estimated. Where a stronger agent took over, what it used from there on is what a start with it would have used, if
//! what the weaker ones left was of no use to it. Of a run that ended before it came to an agent, nothing is known of that one.

use std::collections::BTreeMap;

use ralph_orchestrator_contract::Usd;
use ralph_orchestrator_machine::{EscalationStep, State};
use ralph_orchestrator_text::{count, escape_line};
use serde::Serialize;

/// Some runs of a workspace.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct RunTally {
    /// How many.
    pub runs: u64,
    /// Those whose work validators accepted.
    pub proved: u64,
    /// What they cost together.
    pub cost_usd: Usd,
}

impl RunTally {
    fn add(&mut self, state: &State, cost_usd: Usd) {
        self.runs += 1;
        self.proved += u64::from(state.completion().is_some_and(|it| it.validated));
        self.cost_usd += cost_usd;
    }
}

/// What is known of starts with one agent.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct AgentStarts {
    /// Its name.
    pub agent: String,
    /// The runs that began with it.
    pub began: RunTally,
    /// Those of them in which no stronger agent took over.
    pub alone: RunTally,
    /// The runs in which it took over from a weaker one, or that went on to a still stronger one; their costs from there on.
    pub took_over: RunTally,
    /// What the same cost from their beginning.
    pub from_beginning_usd: Usd,
    /// The runs in which it could have worked, and did not: of them nothing is known.
    pub unknown: RunTally,
}

/// The starts with each agent, the weakest first.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct WhatIf {
    /// The starts.
    pub starts: Vec<AgentStarts>,
    /// Sessions whose costs no agent reported: they count as nothing.
    pub unreported_sessions: u64,
    /// Runs that say nothing: no agent has worked in them, or it is not known which began.
    pub left_out: u64,
}

impl WhatIf {
    /// Compares these runs.
    #[must_use]
    pub fn from_runs<'a>(runs: impl IntoIterator<Item = &'a State>) -> Self {
        let mut found = Self::default();
        let mut order: Vec<String> = Vec::new();
        let mut starts: BTreeMap<String, AgentStarts> = BTreeMap::new();
        for state in runs {
            let used = state.agent.used.values();
            found.unreported_sessions += used.map(|used| used.unreported_costs).sum::<u64>();
            let Some(steps) = steps(state) else {
                found.left_out += 1;
                continue;
            };
            for step in &steps {
                if !order.contains(&step.agent) {
                    order.push(step.agent.clone());
                }
                let entry = starts.entry(step.agent.clone()).or_default();
                entry.agent.clone_from(&step.agent);
                entry.add(state, step, &steps);
            }
        }
        found.starts = order.iter().filter_map(|agent| starts.remove(agent)).collect();
        found
    }

    /// Returns what is known, for people.
    #[must_use]
    pub fn lines(&self) -> Vec<String> {
        if self.starts.is_empty() {
            return vec!["nothing is known: no agent has used anything here by itself".to_owned()];
        }
        let mut lines = vec!["What a start with another agent would have cost:".to_owned()];
        lines.extend(self.starts.iter().flat_map(AgentStarts::lines));
        if self.starts.iter().any(|start| start.took_over.runs > 0) {
            lines.push(
                "What weaker agents left is taken to have been of no use to the stronger."
                    .to_owned(),
            );
        }
        if self.unreported_sessions > 0 {
            let sessions = count(self.unreported_sessions, "session");
            lines.push(format!("Costs of {sessions} were not reported and count as nothing."));
        }
        if self.left_out > 0 {
            let runs = count(self.left_out, "run");
            lines.push(format!("{runs} left out: it is not known with which agent they began."));
        }
        lines
    }
}

impl AgentStarts {
    fn add(&mut self, state: &State, step: &Step, steps: &[Step]) {
        let total = state.cost();
        let is_before = |other: &&Step| other.rank < step.rank;
        let before = steps.iter().filter(is_before).map(|step| step.cost_usd).sum::<Usd>();
        let first = steps.iter().find(|step| step.attempts > 0).map(|step| step.rank);
        let has_worked = step.attempts > 0;
        if !has_worked {
            self.unknown.add(state, total);
        } else if first == Some(step.rank) {
            self.began.add(state, total);
            let is_after = |other: &Step| other.rank > step.rank && other.attempts > 0;
            if !steps.iter().any(is_after) {
                self.alone.add(state, total);
            }
        } else {
            self.took_over.add(state, total.saturating_sub(before));
            self.from_beginning_usd += total;
        }
    }

    fn lines(&self) -> Vec<String> {
        let mut lines = Vec::new();
        let mut say = |text: String| lines.push(format!("  {}: {text}", escape_line(&self.agent)));
        let Self { began, alone, took_over, unknown, .. } = self;
        if began.runs > 0 {
            let stronger = began.proved.saturating_sub(alone.proved);
            let by_others = if stronger > 0 {
                format!(" and {stronger} with a stronger agent")
            } else {
                String::new()
            };
            say(format!(
                "began {}, proved {} by itself{by_others}, {}",
                count(began.runs, "run"),
                alone.proved,
                began.cost_usd
            ));
        }
        if took_over.runs > 0 {
            say(format!(
                "took over in {}, proved {}, which would have cost {} instead of {}",
                count(took_over.runs, "run"),
                took_over.proved,
                took_over.cost_usd,
                self.from_beginning_usd
            ));
        }
        if unknown.runs > 0 {
            say(format!(
                "not known of {} without it, which cost {}",
                count(unknown.runs, "run"),
                unknown.cost_usd
            ));
        }
        lines
    }
}

/// An agent of the order in one run, with what it and its fallbacks have used.
struct Step {
    agent: String,
    rank: usize,
    attempts: u64,
    cost_usd: Usd,
}

/// Returns the agents that could work in a run, the weakest first; `None` if it is not known which of them used what.
fn steps(state: &State) -> Option<Vec<Step>> {
    let used = &state.agent.used;
    let Some(escalation) = &state.agent.escalation else {
        // Which of several began, only the journal knows.
        let (name, used) = used.iter().next().filter(|_| used.len() == 1)?;
        let (agent, attempts, cost_usd) = (name.clone(), used.attempts, used.cost_usd);
        return Some(vec![Step { agent, rank: 0, attempts, cost_usd }]);
    };
    let plan = &escalation.plan.steps;
    let names = |rank: usize| {
        let step = plan.get(rank).into_iter();
        step.flat_map(|step| std::iter::once(&step.agent).chain(&step.fallback))
    };
    let is_shared = |name: &String| {
        (0..plan.len()).filter(|rank| names(*rank).any(|other| other == name)).count() > 1
    };
    if used.keys().any(is_shared) || used.values().all(|used| used.attempts == 0) {
        return None;
    }
    let step = |(rank, step): (usize, &EscalationStep)| {
        let of_step: Vec<_> = names(rank).filter_map(|name| used.get(name)).collect();
        Step {
            agent: step.agent.clone(),
            rank,
            attempts: of_step.iter().map(|used| used.attempts).sum(),
            cost_usd: of_step.iter().map(|used| used.cost_usd).sum(),
        }
    };
    Some(plan.iter().enumerate().map(step).collect())
}

#[cfg(test)]
mod tests {
    use ralph_orchestrator_machine::{AgentUse, EscalationPlan, EscalationState};

    use super::*;

    fn cents(cents: u64) -> Usd {
        Usd::from_nanos(cents * 10_000_000)
    }

    /// A run in which these agents have cost so many cents.
    fn run(steps: &[(&str, &[&str])], used: &[(&str, u64)]) -> State {
        let mut state = State::default();
        let step = |(agent, fallback): &(&str, &[&str])| EscalationStep {
            agent: (*agent).to_owned(),
            fallback: fallback.iter().map(|name| (*name).to_owned()).collect(),
        };
        if !steps.is_empty() {
            let steps = steps.iter().map(step).collect();
            let plan = EscalationPlan { steps, rejections: 2, stagnant: 3, failures: 2 };
            let agent = used.last().unwrap().0.to_owned();
            state.agent.escalation = Some(EscalationState { plan, agent, rejections: 0 });
        }
        for (name, cost) in used {
            let cost_usd = cents(*cost);
            let used = AgentUse { attempts: 1, cost_usd, ..AgentUse::default() };
            state.agent.used.insert((*name).to_owned(), used);
            state.budget.cost_charged += cost_usd;
        }
        state
    }

    fn tally(runs: u64, cost: u64) -> RunTally {
        RunTally { runs, proved: 0, cost_usd: cents(cost) }
    }

    #[test]
    fn only_what_was_seen_is_said() {
        let steps: &[(&str, &[&str])] = &[("small", &["spare"]), ("large", &[])];
        let runs = [
            run(steps, &[("small", 10)]),
            run(steps, &[("small", 10), ("spare", 5), ("large", 100)]),
            // Begun with the larger at once.
            run(steps, &[("large", 70)]),
            // What reviews cost is no agent's of the order, and stays.
            run(steps, &[("judge", 1), ("small", 10), ("large", 50)]),
        ];
        let found = WhatIf::from_runs(&runs);
        let [small, large] = found.starts.as_slice() else { panic!("{found:?}") };
        assert_eq!(
            (small.began, small.alone, small.took_over),
            (tally(3, 186), tally(1, 10), tally(0, 0))
        );
        assert_eq!(small.unknown, tally(1, 70));
        assert_eq!((large.began, large.alone), (tally(1, 70), tally(1, 70)));
        assert_eq!((large.took_over, large.from_beginning_usd), (tally(2, 151), cents(176)));
        assert_eq!(large.unknown, tally(1, 10));
        let said = [
            "What a start with another agent would have cost:",
            "  small: began 3 runs, proved 0 by itself, $1.86",
            "  small: not known of 1 run without it, which cost $0.70",
            "  large: began 1 run, proved 0 by itself, $0.70",
            "  large: took over in 2 runs, proved 0, which would have cost $1.51 instead of $1.76",
            "  large: not known of 1 run without it, which cost $0.10",
            "What weaker agents left is taken to have been of no use to the stronger.",
        ];
        assert_eq!(found.lines(), said);
    }

    #[test]
    fn what_cannot_be_told_apart_is_left_out() {
        let shared: &[(&str, &[&str])] = &[("small", &["spare"]), ("large", &["spare"])];
        let runs = [
            run(shared, &[("small", 10), ("spare", 5)]),
            run(&[], &[("one", 1), ("other", 2)]),
            State::default(),
        ];
        let found = WhatIf::from_runs(&runs);
        assert_eq!((found.starts.len(), found.left_out), (0, 3));
        let alone = WhatIf::from_runs([&run(&[], &[("one", 1)])]);
        assert_eq!(alone.starts.first().map(|start| start.began), Some(tally(1, 1)));
        assert!(WhatIf::default().lines().join("").contains("nothing is known"));
    }
}
