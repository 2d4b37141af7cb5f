//! The agents of a run: the first, and its fallbacks.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::{Arc, OnceLock};

use ralph_orchestrator_config::{ConfigErrors, Env, Handoff, Limits, LoadedConfig, Role};
use ralph_orchestrator_contract::BuildContext;
use ralph_orchestrator_machine as machine;
use ralph_orchestrator_machine::State;
use ralph_orchestrator_workspace::GuardedPaths;

use super::agent_setup::ConfiguredAgent;
use super::error::EngineError;
use super::redact::Redactor;
use super::resumed_run::ResumedRun;
use super::role_prompts::{used_roles, working_role};
use crate::registry::{LaunchContext, Registry};

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
    /// In the order in which they take over.
    pub(super) rest: Vec<AgentRuntime>,
    /// Those of roles that have an agent of their own.
    roles: BTreeMap<Role, AgentRuntime>,
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

    /// Builds the agent named in `[agents.NAME]`, or that of `[agent]`, and its fallbacks.
    pub(super) async fn build(
        loaded: &LoadedConfig,
        registry: &Registry,
        context: &BuildContext,
        name: Option<&str>,
        vars: &BTreeMap<String, String>,
    ) -> Result<Self, ConfigErrors> {
        let first = AgentRuntime::build(loaded, registry, context, name, vars).await?;
        let first = AgentRuntime { name: first.configured.description.name.clone(), ..first };
        let mut rest = Vec::new();
        for name in loaded.config.fallback(name) {
            rest.push(AgentRuntime::build(loaded, registry, context, Some(name), vars).await?);
        }
        let mut roles = BTreeMap::new();
        let prompts = loaded.config.prompts.as_ref();
        for role in used_roles(&loaded.config) {
            if let Some(name) = prompts.and_then(|prompts| prompts.agents.of(role)) {
                let agent =
                    AgentRuntime::build(loaded, registry, context, Some(name), vars).await?;
                roles.insert(role, agent);
            }
        }
        let working = working_role(&loaded.config);
        Ok(Self { first, rest, roles, working, write_guard: None })
    }

    /// Returns all of them, the first first.
    pub(super) fn all(&self) -> impl Iterator<Item = &AgentRuntime> {
        std::iter::once(&self.first).chain(&self.rest).chain(self.roles.values())
    }

    /// Returns the agent that works now: one that took over, else that of the role.
    pub(super) fn current(&self, state: &State) -> &AgentRuntime {
        let changed = state.agent.last_change.as_ref();
        let now = changed.and_then(|changed| self.rest.iter().find(|one| one.name == changed.to));
        let of_role = || self.roles.get(&self.role(state));
        now.or_else(of_role).unwrap_or(&self.first)
    }

    fn role(&self, state: &State) -> Role {
        if state.is_initializing() { Role::Initializer } else { self.working }
    }

    /// Returns the same agent as [`current`](Self::current).
    pub(super) fn current_mut(&mut self, state: &State) -> &mut ConfiguredAgent {
        let role = self.role(state);
        let changed = state.agent.last_change.as_ref();
        let now =
            changed.and_then(|changed| self.rest.iter_mut().find(|one| one.name == changed.to));
        let now = now.or_else(|| self.roles.get_mut(&role)).unwrap_or(&mut self.first);
        &mut now.configured
    }

    /// Returns the names of the fallbacks.
    pub(super) fn fallback_names(&self) -> Vec<String> {
        self.rest.iter().map(|one| one.name.clone()).collect()
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
            warnings.extend(one.configured.check_limits(loaded)?);
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

    /// Checks whether the first is available; if not, the next, and so on, and those of roles. Returns why those
    /// before the available one are not.
    pub(super) async fn check_availability(
        &self,
        redactor: &Redactor,
    ) -> Result<Vec<String>, EngineError> {
        for one in self.roles.values() {
            let found = one.configured.check(&one.env).await;
            let found = found.map_err(|error| EngineError::Agent {
                agent: one.name.clone(),
                error: redactor.redact(error),
            })?;
            let _ = one.version.set(found);
        }
        let mut unavailable = Vec::new();
        let mut problem = None;
        for one in std::iter::once(&self.first).chain(&self.rest) {
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
            Some(error) => Err(EngineError::Agent { agent: self.first.name.clone(), error }),
            None => Ok(unavailable),
        }
    }
}
