//! The agents of a run: the first, and its fallbacks.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::{Arc, OnceLock};

use ralph_orchestrator_config::{
    AgentConfig, Config, ConfigErrors, Env, EscalateAfter, Handoff, Limits, LoadedConfig, Role,
};
use ralph_orchestrator_contract::BuildContext;
use ralph_orchestrator_machine as machine;
use ralph_orchestrator_machine::{EscalationPlan, EscalationStep, State};
use ralph_orchestrator_workspace::GuardedPaths;

use super::agent_setup::ConfiguredAgent;
use super::error::EngineError;
use super::redact::Redactor;
use super::resumed_run::ResumedRun;
use super::role_prompts::{used_roles, working_role};
use crate::registry::{LaunchContext, Registry};

/// Returns who escalates to whom, and when.
fn plan(config: &Config, agent: &AgentConfig) -> EscalationPlan {
    let step = |name: &String| EscalationStep {
        agent: name.clone(),
        fallback: config.fallback(Some(name)).into_iter().map(str::to_owned).collect(),
    };
    let EscalateAfter { rejections, stagnant, failures } = agent.escalate_after;
    let steps = agent.escalate.iter().map(step).collect();
    EscalationPlan { steps, rejections, stagnant, failures }
}

/// Returns the name of the agent that works instead of the one with which the run began, if one does.
fn taken_over(state: &State) -> Option<&str> {
    let changed = state.agent.last_change.as_ref().map(|changed| changed.to.as_str());
    let escalated = || {
        let escalation = state.agent.escalation.as_ref()?;
        let first = escalation.plan.steps.first()?;
        (first.agent != escalation.agent).then_some(escalation.agent.as_str())
    };
    changed.or_else(escalated)
}

/// An agent of the run, with its environment.
pub(super) struct AgentRuntime {
    /// Its name in `[agents]`; for the first, the adapter's name.
    pub(super) name: String,
    pub(super) configured: ConfiguredAgent,
    /// Its environment.
    pub(super) env: BTreeMap<String, String>,
    /// What it reported when its availability was checked.
    version: OnceLock<String>,
}

impl AgentRuntime {
    async fn build(
        loaded: &LoadedConfig,
        registry: &Registry,
        context: &BuildContext,
        name: Option<&str>,
        vars: &BTreeMap<String, String>,
    ) -> Result<Self, ConfigErrors> {
        let configured = ConfiguredAgent::build(loaded, registry, context, name).await?;
        let env = configured.environment(loaded, vars);
        let name = name.unwrap_or(&configured.description.name).to_owned();
        Ok(Self { name, configured, env, version: OnceLock::new() })
    }

    /// Returns the version that it reported, if it was checked.
    pub(super) fn version(&self) -> Option<&str> {
        self.version.get().map(String::as_str)
    }
}

/// All agents of a run.
pub(super) struct AgentPool {
    pub(super) first: AgentRuntime,
    /// The others that can take over from it.
    pub(super) rest: Vec<AgentRuntime>,
    /// The names of those that take over when the first cannot continue, in this order.
    fallback: Vec<String>,
    /// Which stronger agents take over when, if the configuration names some.
    pub(super) escalation: Option<EscalationPlan>,
    /// Those of roles that have an agent of their own.
    roles: BTreeMap<Role, AgentRuntime>,
    /// Those that review the work, by name.
    pub(super) reviewers: BTreeMap<String, AgentRuntime>,
    /// What they are built with.
    pub(super) build: BuildContext,
    /// The role that does the work.
    working: Role,
    /// What the agents' own tools must not write; `None` refuses everything, as where it is not known yet.
    pub(super) write_guard: Option<Arc<GuardedPaths>>,
}

impl AgentPool {
    /// Passes on what is needed by whatever starts processes, and guards what it protects in this workspace.
    pub(super) fn set_launch_context(
        &mut self,
        registry: &Registry,
        launch: LaunchContext,
        workspace: &Path,
    ) {
        self.write_guard = launch.write_guard(workspace);
        registry.set_launch_context(launch);
    }

    /// Builds the agent named in `[agents.NAME]`, or that of `[agent]`, and its fallbacks, and those that review the work.
    pub(super) async fn build(
        loaded: &LoadedConfig,
        registry: &Registry,
        context: &BuildContext,
        (name, reviewing): (Option<&str>, BTreeSet<&str>),
        vars: &BTreeMap<String, String>,
    ) -> Result<Self, ConfigErrors> {
        let escalation = loaded.config.escalation(name).map(|agent| plan(&loaded.config, agent));
        let mut first = AgentRuntime::build(loaded, registry, context, name, vars).await?;
        first.name = match escalation.as_ref().and_then(|plan| plan.steps.first()) {
            Some(step) => step.agent.clone(),
            None => first.configured.description.name.clone(),
        };
        let mut rest = Vec::new();
        for name in loaded.config.other_agents(name) {
            rest.push(AgentRuntime::build(loaded, registry, context, Some(name), vars).await?);
        }
        let fallback = loaded.config.fallback(name);
        let fallback = fallback.into_iter().map(str::to_owned).collect();
        let mut roles = BTreeMap::new();
        let prompts = loaded.config.prompts.as_ref();
        for role in used_roles(&loaded.config) {
            if let Some(name) = prompts.and_then(|prompts| prompts.agents.of(role)) {
                let agent =
                    AgentRuntime::build(loaded, registry, context, Some(name), vars).await?;
                roles.insert(role, agent);
            }
        }
        let mut reviewers = BTreeMap::new();
        for name in reviewing {
            let agent = AgentRuntime::build(loaded, registry, context, Some(name), vars).await?;
            reviewers.insert(name.to_owned(), agent);
        }
        let (working, build) = (working_role(&loaded.config), context.clone());
        let write_guard = None;
        Ok(Self {
            first,
            rest,
            fallback,
            escalation,
            roles,
            reviewers,
            build,
            working,
            write_guard,
        })
    }

    /// Returns all of them, the first first.
    pub(super) fn all(&self) -> impl Iterator<Item = &AgentRuntime> {
        let others = self.roles.values().chain(self.reviewers.values());
        std::iter::once(&self.first).chain(&self.rest).chain(others)
    }

    /// Returns the agent that works now: one that took over, else that of the role.
    pub(super) fn current(&self, state: &State) -> &AgentRuntime {
        if let Some(name) = taken_over(state) {
            return self.named(name);
        }
        self.roles.get(&self.role(state)).unwrap_or(&self.first)
    }

    /// Returns the names of those that take over from this one by escalation, in order.
    pub(super) fn stronger_than(&self, name: &str) -> Vec<String> {
        let steps = self.escalation.iter().flat_map(|plan| &plan.steps);
        let after = steps.skip_while(|step| step.agent != name).skip(1);
        after.map(|step| step.agent.clone()).collect()
    }

    /// Returns the one of this name; the first if none has it.
    pub(super) fn named(&self, name: &str) -> &AgentRuntime {
        self.rest.iter().find(|one| one.name == name).unwrap_or(&self.first)
    }

    fn role(&self, state: &State) -> Role {
        if state.is_initializing() { Role::Initializer } else { self.working }
    }

    /// Returns the same agent as [`current`](Self::current).
    pub(super) fn current_mut(&mut self, state: &State) -> &mut ConfiguredAgent {
        let role = self.role(state);
        let now = match taken_over(state) {
            Some(name) => self.rest.iter_mut().find(|one| one.name == name),
            None => self.roles.get_mut(&role),
        };
        &mut now.unwrap_or(&mut self.first).configured
    }

    /// Returns with which agent a start begins, and those that take over when it cannot continue: the one that worked in this
    /// state, or `last`, if that is one of those that escalate.
    pub(super) fn start(&self, state: &State, last: Option<&str>) -> EscalationStep {
        let of_last = self.escalation.iter().flat_map(|plan| &plan.steps);
        let of_last = || of_last.clone().find(|step| Some(step.agent.as_str()) == last).cloned();
        let resumed = state.agent.resumed_step(self.escalation.as_ref());
        resumed.or_else(of_last).unwrap_or_else(|| EscalationStep {
            agent: self.first.name.clone(),
            fallback: self.fallback.clone(),
        })
    }

    /// Returns the redactor for the secrets of all agents, and for those of the orchestrator's own environment
    /// `vars`: an agent may come by what it was not given, such as from a file with the same values. What a run that is
    /// `resumed` handed over when it began is a secret, too.
    pub(super) fn redactor(
        &self,
        env: &Env,
        vars: &BTreeMap<String, String>,
        resumed: Option<&ResumedRun>,
    ) -> Redactor {
        let vars = self.all().flat_map(|one| &one.env).chain(vars);
        let frozen = resumed.and_then(|resumed| resumed.frozen.as_ref());
        let Some(frozen) = frozen.map(|frozen| &frozen.loaded.config.env) else {
            return Redactor::new(env, vars);
        };
        let mut both = env.clone();
        both.pass.extend(frozen.pass.iter().cloned());
        // The values of both, where they are others.
        both.set.extend(frozen.set.clone());
        Redactor::new(&both, vars.chain(&env.set))
    }

    /// Refuses a limit that the user set and that cannot be enforced for one of them. Returns warnings.
    pub(super) fn check_limits(&self, loaded: &LoadedConfig) -> Result<Vec<String>, ConfigErrors> {
        let mut warnings = Vec::new();
        for one in self.all() {
            let warning = one.configured.check_limits(loaded)?;
            // Several may be of one adapter.
            warnings.extend(warning.filter(|warning| !warnings.contains(warning)));
        }
        Ok(warnings)
    }

    /// Returns the limits as the machine applies them.
    pub(super) fn limits(&self, limits: &Limits, handoff: Handoff) -> machine::RunLimits {
        let mut all = self.first.configured.limits(limits, handoff);
        let reservations =
            self.all().map(|one| one.configured.limits(limits, handoff).first_reservation);
        all.first_reservation = reservations.max().unwrap_or_default();
        all
    }

    /// Checks whether the agent of a start is available; if not, the next, and so on, those of roles, those that may take over by
    /// escalation, and those that review. Returns why those before the available one are not.
    pub(super) async fn check_availability(
        &self,
        start: &EscalationStep,
        redactor: &Redactor,
    ) -> Result<Vec<String>, EngineError> {
        for one in self.roles.values().chain(self.reviewers.values()) {
            let found = one.configured.check(&one.env).await;
            let found = found.map_err(|error| EngineError::Agent {
                agent: one.name.clone(),
                error: redactor.redact(error),
            })?;
            let _ = one.version.set(found);
        }
        let steps = self.escalation.iter().flat_map(|plan| &plan.steps);
        // In the middle of a night nobody could install one.
        for step in steps.skip_while(|step| step.agent != start.agent).skip(1) {
            self.find_available(step, redactor).await?;
        }
        self.find_available(start, redactor).await
    }

    /// Finds the first of an agent and its fallbacks that is available. Returns why those before it are not.
    async fn find_available(
        &self,
        start: &EscalationStep,
        redactor: &Redactor,
    ) -> Result<Vec<String>, EngineError> {
        let mut unavailable = Vec::new();
        let mut problem = None;
        let begins = std::iter::once(&self.first).chain(&self.rest);
        let begins = begins.filter(|one| one.name == start.agent).take(1);
        let others = start
            .fallback
            .iter()
            .filter_map(|name| self.rest.iter().chain([&self.first]).find(|one| one.name == *name));
        for one in begins.chain(others) {
            match one.configured.check(&one.env).await {
                Ok(found) => {
                    let _ = one.version.set(found);
                    return Ok(unavailable);
                }
                Err(error) => {
                    let error = redactor.redact(error);
                    unavailable.push(format!("{}: {error}", error.class.word()));
                    problem.get_or_insert(error);
                }
            }
        }
        match problem {
            Some(error) => Err(EngineError::Agent { agent: start.agent.clone(), error }),
            None => Ok(unavailable),
        }
    }
}
