//! An agent of the configuration, with its limits and its prices.

use std::collections::BTreeMap;
use std::sync::Arc;

use ralph_orchestrator_config::{
    AgentConfig, ConfigErrors, Handoff, Limits, LoadedConfig, SandboxMode,
};
use ralph_orchestrator_contract::{
    Agent, AgentError, BuildContext, Description, ErrorClass, Usage, Usd,
};
use ralph_orchestrator_machine::{self as machine, Limit};

use super::construction::{PartKind, error_at, make};
use super::environment;
use super::prices::{self, Pricing};
use super::scratch::ScratchDir;
use crate::registry::Registry;

/// Share of the cost limit that a first iteration is charged at least if its end is never known, and what
/// it is charged where there is no such limit.
const FIRST_RESERVATION_SHARE: u64 = 100;
const UNLIMITED_RESERVATION: Usd = Usd::from_nanos(100_000_000);

/// An agent, with its table in the configuration.
#[derive(Clone)]
pub struct ConfiguredAgent {
    pub(super) agent: Arc<dyn Agent>,
    pub(super) description: Description,
    pub(super) config: AgentConfig,
    pricing: Pricing,
    is_confined: bool,
}

impl ConfiguredAgent {
    /// Builds an agent: the one named in `[agents.NAME]`, or the one of `[agent]`; of a table that escalates, its first.
    ///
    /// # Errors
    /// An unknown name or a mistake in its table.
    pub async fn build(
        loaded: &LoadedConfig,
        registry: &Registry,
        context: &BuildContext,
        name: Option<&str>,
    ) -> Result<Self, ConfigErrors> {
        let (config, at) = match loaded.config.first_agent(name) {
            None => (&loaded.config.agent, vec!["agent".to_owned()]),
            Some(name) => match loaded.config.agents.get(name) {
                Some(config) => (config, vec!["agents".to_owned(), name.to_owned()]),
                None => {
                    let known: Vec<&str> =
                        loaded.config.agents.keys().map(String::as_str).collect();
                    return Err(loaded
                        .unknown_name_error(&["agents".to_owned()], name, "agent", &known)
                        .into());
                }
            },
        };
        let what = (PartKind::Adapter, config.adapter.as_str());
        let agent = make(loaded, &registry.agents, what, &at, &config.config, context).await?;
        let agent: Arc<dyn Agent> = Arc::from(agent);
        let description = agent.describe();
        let pricing = Pricing::new(description.model.clone());
        let is_confined = loaded.config.sandbox.mode != SandboxMode::Off;
        Ok(Self { description, agent, config: config.clone(), pricing, is_confined })
    }

    /// Returns the agent itself.
    #[must_use]
    pub fn agent(&self) -> &dyn Agent {
        &*self.agent
    }

    /// Returns what was found of the agent, which is started for it as for an iteration.
    ///
    /// # Errors
    /// It is not available.
    pub async fn check(&self, env: &BTreeMap<String, String>) -> Result<String, AgentError> {
        let (mut scratch, mut env) = (ScratchDir::default(), env.clone());
        if self.is_confined {
            let folder = scratch.fresh("check").map_err(|error| {
                AgentError::new(ErrorClass::Unavailable, format!("no temporary folder: {error}"))
            })?;
            env.insert("TMPDIR".into(), folder.display().to_string());
        }
        self.agent.check(&env).await
    }

    /// Returns the environment of the agent, out of the orchestrator's own.
    #[must_use]
    pub fn environment(
        &self,
        loaded: &LoadedConfig,
        vars: &BTreeMap<String, String>,
    ) -> BTreeMap<String, String> {
        environment::build(&loaded.config.env, vars, &self.description)
    }

    /// Returns what computes the cost of its usage.
    pub(super) fn pricing(&mut self) -> &mut Pricing {
        &mut self.pricing
    }

    /// Returns the usage with its cost, estimated if the agent reports none and it can be.
    pub(super) fn with_cost(&mut self, usage: Usage) -> Usage {
        self.pricing.with_cost(usage, self.config.prices.as_ref())
    }

    /// Returns whether its cost is known: reported by itself, or computed from its tokens and the prices
    /// that are given or known for its model.
    #[must_use]
    pub fn is_metered(&self) -> bool {
        let can = &self.description.capabilities;
        let known = || self.description.model.as_deref().is_some_and(prices::is_known);
        can.cost || can.free || (can.tokens && (self.config.prices.is_some() || known()))
    }

    /// Returns whether its cost is known as it grows, so that a cost limit ends the run some time.
    fn has_metered_cost(&self) -> bool {
        self.is_metered() && !self.description.capabilities.free
    }

    /// Refuses a limit that the user set and that cannot be enforced for this agent. Returns a warning if
    /// one that is a default cannot be.
    ///
    /// # Errors
    /// The key of such a limit.
    pub fn check_limits(&self, loaded: &LoadedConfig) -> Result<Option<String>, ConfigErrors> {
        let limits = &loaded.config.limits;
        let name = &self.description.name;
        for (limit, row) in Limit::budgets() {
            let is_reported =
                row.is_reported.is_none_or(|reports| reports(&self.description.capabilities));
            // What it costs may be computed.
            if limit != Limit::Cost && limit.configured(limits).is_some() && !is_reported {
                let message = format!(
                    "the agent `{name}` reports no {}, so this limit cannot be enforced",
                    row.label
                );
                return Err(error_at(loaded, &["limits", limit.name()], &message));
            }
        }
        let ends = limits.max_runtime.is_some()
            || (limits.max_cost_usd.is_some() && self.has_metered_cost());
        if limits.max_iterations.is_none() && !ends {
            let message = format!(
                "no limit would ever end this run: `max_iterations` is off, there is no \
                 `max_runtime`, and what the agent `{name}` costs is not known; set one of the first two"
            );
            return Err(error_at(loaded, &["limits", "max_iterations"], &message));
        }
        if limits.max_cost_usd.is_none() || self.is_metered() || self.config.unmetered {
            return Ok(None);
        }
        if loaded.set_by_user("limits.max_cost_usd") {
            let message = format!(
                "the agent `{name}` reports no cost, so this limit cannot be enforced; set \
                 `unmetered = true` in [agent], or, if it reports tokens, name a `model` whose \
                 prices are known or give [agent.prices]"
            );
            return Err(error_at(loaded, &["limits", "max_cost_usd"], &message));
        }
        Ok(Some(format!(
            "the agent `{name}` reports no cost: limits.max_cost_usd cannot be enforced"
        )))
    }

    /// Returns the limits as the machine applies them.
    pub(super) fn limits(&self, limits: &Limits, handoff: Handoff) -> machine::RunLimits {
        let first_reservation = match limits.max_cost_usd {
            _ if !self.has_metered_cost() => Usd::ZERO,
            // The share of a very small limit is not nothing either.
            Some(max) => Usd::from_nanos(max.nanos().div_ceil(FIRST_RESERVATION_SHARE)),
            None => UNLIMITED_RESERVATION,
        };
        machine::RunLimits {
            first_reservation,
            handoff_per_mille: handoff.per_mille(),
            ..machine::RunLimits::from_config(limits)
        }
    }
}
