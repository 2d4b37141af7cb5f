//! The agents of a run: the first, and those that take over.

use std::collections::BTreeMap;
use std::sync::OnceLock;

use super::error::EngineError;
use super::plan::Driver;
use super::redact::Redactor;
use crate::machine::{self, State};
use crate::registry::Registry;
use ralph_orchestrator_config::{ConfigErrors, Limits, LoadedConfig};
use ralph_orchestrator_contract::BuildContext;

/// An agent that could work.
pub(super) struct Ready {
    /// Its name in `[agents]`; for the first, the adapter's name.
    pub(super) name: String,
    pub(super) driver: Driver,
    /// The environment that it gets.
    pub(super) env: BTreeMap<String, String>,
    /// What it said when it was asked whether it would start.
    found: OnceLock<String>,
}

impl Ready {
    async fn build(
        loaded: &LoadedConfig,
        registry: &Registry,
        context: &BuildContext,
        name: Option<&str>,
        vars: &BTreeMap<String, String>,
    ) -> Result<Self, ConfigErrors> {
        let driver = Driver::build(loaded, registry, context, name).await?;
        let env = driver.environment(loaded, vars);
        let name = name.unwrap_or(&driver.description.name).to_owned();
        Ok(Self { name, driver, env, found: OnceLock::new() })
    }

    /// What it said of its version, if it was asked.
    pub(super) fn version(&self) -> Option<&str> {
        self.found.get().map(String::as_str)
    }
}

/// All agents of a run.
pub(super) struct Drivers {
    pub(super) first: Ready,
    /// In the order in which they take over.
    pub(super) rest: Vec<Ready>,
}

impl Drivers {
    /// Builds the agent named in `[agents.NAME]`, or that of `[agent]`, and its fallbacks.
    pub(super) async fn build(
        loaded: &LoadedConfig,
        registry: &Registry,
        context: &BuildContext,
        name: Option<&str>,
        vars: &BTreeMap<String, String>,
    ) -> Result<Self, ConfigErrors> {
        let first = Ready::build(loaded, registry, context, name, vars).await?;
        let first = Ready { name: first.driver.description.name.clone(), ..first };
        let mut rest = Vec::new();
        for name in loaded.config.fallback(name) {
            rest.push(Ready::build(loaded, registry, context, Some(name), vars).await?);
        }
        Ok(Self { first, rest })
    }

    /// Each of them, the first first.
    pub(super) fn all(&self) -> impl Iterator<Item = &Ready> {
        std::iter::once(&self.first).chain(&self.rest)
    }

    /// The one whose turn it is.
    pub(super) fn of(&self, state: &State) -> &Ready {
        let changed = state.agent.last_change.as_ref();
        let now = changed.and_then(|changed| self.rest.iter().find(|one| one.name == changed.to));
        now.unwrap_or(&self.first)
    }

    /// The same driver as [`of`](Self::of) gives.
    pub(super) fn of_mut(&mut self, state: &State) -> &mut Driver {
        let changed = state.agent.last_change.as_ref();
        let now =
            changed.and_then(|changed| self.rest.iter_mut().find(|one| one.name == changed.to));
        &mut now.unwrap_or(&mut self.first).driver
    }

    /// The names of those that take over.
    pub(super) fn fallback(&self) -> Vec<String> {
        self.rest.iter().map(|one| one.name.clone()).collect()
    }

    /// What must not be written down, whoever works.
    pub(super) fn redactor(&self, loaded: &LoadedConfig) -> Redactor {
        let vars = self.all().flat_map(|one| one.env.clone()).collect();
        Redactor::new(&loaded.config.env, &vars)
    }

    /// Refuses a limit that the user set and that one of them cannot be held to. Says what else there
    /// is to warn of.
    pub(super) fn check_limits(&self, loaded: &LoadedConfig) -> Result<Vec<String>, ConfigErrors> {
        let mut warnings = Vec::new();
        for one in self.all() {
            warnings.extend(one.driver.check_limits(loaded)?);
        }
        Ok(warnings)
    }

    /// The limits as the machine applies them.
    pub(super) fn limits(&self, limits: &Limits) -> machine::RunLimits {
        let mut all = self.first.driver.limits(limits);
        let reservations = self.all().map(|one| one.driver.limits(limits).first_reservation);
        all.first_reservation = reservations.max().unwrap_or_default();
        all
    }

    /// Asks the first whether it would start; if it would not, the next, and so on. Says why those
    /// before the one that would cannot begin.
    pub(super) async fn check(&self, redactor: &Redactor) -> Result<Vec<String>, EngineError> {
        let mut out = Vec::new();
        let mut problem = None;
        for one in self.all() {
            match one.driver.agent.check(&one.env).await {
                Ok(found) => {
                    let _ = one.found.set(found);
                    return Ok(out);
                }
                Err(error) => {
                    let error = redactor.all_of(error);
                    out.push(format!("{}: {error}", error.class.word()));
                    problem.get_or_insert(error);
                }
            }
        }
        match problem {
            Some(error) => Err(EngineError::Agent { agent: self.first.name.clone(), error }),
            None => Ok(out),
        }
    }
}
