//! Escalation: a stronger agent takes over once the checks, or the lack of progress, show that the present one does not get
//! there. What it is, and how far it has come.

use serde::{Deserialize, Serialize};

/// An agent of the order, and those that take over from it when it cannot continue.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct EscalationStep {
    /// Its name in `[agents]`.
    pub agent: String,
    /// Its fallbacks.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub fallback: Vec<String>,
}

/// What makes a stronger agent take over.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct EscalationPlan {
    /// The agents, the weakest first.
    pub steps: Vec<EscalationStep>,
    /// So many rejections of an agent's work.
    pub rejections: u32,
    /// So many iterations in a row without progress, counted as for `limits.max_stagnant`.
    pub stagnant: u32,
    /// So many failed iterations in a row.
    pub failures: u32,
}

/// How far a run has escalated.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EscalationState {
    /// The plan in force.
    pub plan: EscalationPlan,
    /// The agent of the order that works, or whose fallback does.
    pub agent: String,
    /// How often its work was rejected.
    pub rejections: u32,
}

impl EscalationState {
    /// Begins with an agent of the plan.
    pub(super) fn begin(plan: &EscalationPlan, agent: &str) -> Self {
        Self { plan: plan.clone(), agent: agent.to_owned(), rejections: 0 }
    }

    /// Returns the step of the agent that works.
    #[must_use]
    pub fn step(&self) -> Option<&EscalationStep> {
        self.plan.steps.iter().find(|step| step.agent == self.agent)
    }

    /// Returns the next stronger agent.
    #[must_use]
    pub fn next(&self) -> Option<&EscalationStep> {
        let at = self.plan.steps.iter().position(|step| step.agent == self.agent)?;
        self.plan.steps.get(at.saturating_add(1))
    }

    /// Takes over the plan of another start. The agent stays, if it is still one of them.
    pub(super) fn adopt(&mut self, plan: &EscalationPlan) {
        self.plan = plan.clone();
        if self.step().is_none()
            && let Some(first) = plan.steps.first()
        {
            *self = Self::begin(plan, &first.agent);
        }
    }
}
