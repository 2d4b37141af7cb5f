//! The configuration of a trial: that of the job, with what the column, the task and the trial say.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Duration;

use ralph_orchestrator_assembly::agent_names::{MAIN_AGENT, NOP, ORACLE, is_reserved};
use ralph_orchestrator_assembly::error::CommandError;
use ralph_orchestrator_assembly::missing_agent_program::check_program;
use ralph_orchestrator_assembly::plugins::Plugins;
use ralph_orchestrator_assembly::{discovery, registry};
use ralph_orchestrator_bench::task::Task;
use ralph_orchestrator_bench::trial::Column;
use ralph_orchestrator_config::{
    self as config, CheckPlace, Flag, LoadedConfig, Role, Sources, Validation, duration_text,
    toml_text,
};
use ralph_orchestrator_contract::{AgentError, BuildContext, ErrorClass, Usd};
use ralph_orchestrator_engine::{CompletionPolicy, ConfiguredAgent, build_context};
use serde_json::json;

use super::isolation::IsolationRow;
use super::job_setup::{JobSetup, brought_by_task};

/// Where the flags of a trial come from, in messages.
const ORIGIN: &str = "bench";

/// The detector of what an agent writes into its prompt file.
const MARKER: &str = "marker";

/// The prompt file of a trial whose agent claims in it, in the work directory.
const PROMPT_FILE: &str = "PROMPT.md";

/// Returns how long a trial of this time waits for its provider in a row. However short it is, that is more than the first
/// wait of a run, which is 30 s.
fn longest_wait(time: Duration) -> Duration {
    time.max(Duration::from_secs(60))
}

/// What a trial adds to the configuration of its job.
pub struct TrialSettings<'a> {
    /// What is compared.
    pub column: &'a Column,
    /// The prompt.
    pub prompt: &'a str,
    /// The folder in which the agent works.
    pub workspace: &'a Path,
    /// The state directory.
    pub state: &'a Path,
    /// The agent's time.
    pub max_runtime: Option<Duration>,
    /// What it may cost at most.
    pub max_cost: Option<Usd>,
    /// The words of an agent that asks no model.
    pub reserved: &'a [String],
    /// Environment variables that the task sets.
    pub env: &'a BTreeMap<String, String>,
    /// The search path.
    pub path: &'a str,
}

/// Returns the name of `[agents.NAME]` that this agent is; none is `[agent]`.
pub fn agent_key(agent: &str) -> Option<String> {
    (agent != MAIN_AGENT).then(|| agent.to_owned())
}

/// Returns the sources of a column: those of the job, the variant's values, and the agent where the configuration
/// does not have it.
pub fn column_sources(
    base: &Sources,
    loaded: &LoadedConfig,
    column: &Column,
    reserved: &[String],
) -> Sources {
    let mut sources = base.clone();
    let variant = column.variant.as_ref().and_then(|name| loaded.config.bench.variant.get(name));
    sources.sets.extend(variant.map(config::BenchVariant::sets).unwrap_or_default());
    let name = &column.agent;
    let command = |words: &[String]| json!({ name: { "adapter": "command", "unmetered": true, "config": { "program": words } } });
    let agents = match name.as_str() {
        ORACLE | NOP => Some(command(reserved)),
        MAIN_AGENT => None,
        _ if loaded.config.agents.contains_key(name) => None,
        _ => Some(json!({ name: { "adapter": name } })),
    };
    if let Some(agents) = agents {
        sources.flags.push(flag("agents", &agents));
    }
    sources
}

/// Returns the configuration of a trial.
///
/// # Errors
/// It is wrong, or has what a trial cannot have.
pub fn load(
    base: &Sources,
    job: &LoadedConfig,
    settings: &TrialSettings<'_>,
) -> Result<LoadedConfig, CommandError> {
    let mut sources = column_sources(base, job, settings.column, settings.reserved);
    let bench = &job.config.bench;
    let trusts = bench.trust_agent || is_reserved(&settings.column.agent);
    let validators =
        if is_reserved(&settings.column.agent) { "[]".to_owned() } else { bench.validators_toml() };
    let text = |path: &Path| json!(path.display().to_string());
    sources.flags.extend([
        Flag { name: "[[bench.validator]]".to_owned(), key: "validator", text: validators },
        flag("completion.trust_agent", &json!(trusts)),
        flag("run.workspace", &text(settings.workspace)),
        flag("state.dir", &text(settings.state)),
        flag("git.commit", &json!(if bench.curve { "checkpoint" } else { "off" })),
        flag("git.worktree", &json!(false)),
        // It would be part of the time that a trial took.
        flag("validation.explain", &json!("0s")),
    ]);
    let mut env = settings.env.clone();
    env.insert("PATH".to_owned(), settings.path.to_owned());
    sources.flags.push(flag("env.set", &json!(env)));
    if let Some(time) = settings.max_runtime {
        sources.flags.push(flag("limits.max_runtime", &json!(duration_text(time))));
        // Waits for the provider use up none of it. An outage ends the trial, which is performed again.
        let wait = json!(duration_text(longest_wait(time)));
        sources.flags.push(flag("limits.max_wait", &wait));
    }
    let text = flag("run.prompt_text", &json!(settings.prompt));
    let mut as_text = sources.clone();
    as_text.flags.push(text);
    let mut loaded = load_within(as_text, settings.max_cost)?;
    let detectors = &loaded.config.completion.detectors;
    let marks = detectors.iter().all(|detector| detector.name == MARKER);
    if marks && !is_reserved(&settings.column.agent) {
        // A text has no place for the marker, and nothing else would be a claim.
        let file = settings.workspace.join(PROMPT_FILE);
        sources.flags.push(flag("run.prompt", &json!(file.display().to_string())));
        loaded = load_within(sources, settings.max_cost)?;
    }
    fit_to_column(&mut loaded, settings.column)?;
    fit_to_isolation(&mut loaded, job);
    Ok(loaded)
}

/// Returns the configuration of a trial of a task of the own form, whose folder was copied to `root`: the task's, with
/// the agents of the job.
///
/// # Errors
/// One of the two is wrong, or has what a trial cannot have.
pub fn load_own(
    base: &Sources,
    job: &LoadedConfig,
    settings: &TrialSettings<'_>,
    root: &Path,
) -> Result<LoadedConfig, CommandError> {
    let mut column = column_sources(base, job, settings.column, settings.reserved);
    // The task has these, so the job need not.
    column.implied = brought_by_task();
    let agents = config::load(&column)?;
    let variant =
        settings.column.variant.as_ref().and_then(|name| job.config.bench.variant.get(name));
    let text = |path: &Path| json!(path.display().to_string());
    let mut sources = Sources {
        file: root.join(discovery::NAME),
        user_file: base.user_file.clone(),
        sets: variant.map(config::BenchVariant::sets).unwrap_or_default(),
        defaults: base.defaults.clone(),
        ..Sources::default()
    };
    sources.flags.extend([
        flag("state.dir", &text(settings.state)),
        flag("git.commit", &json!("off")),
        flag("git.worktree", &json!(false)),
    ]);
    if is_reserved(&settings.column.agent) {
        sources.flags.extend([
            flag("completion.when", &json!("claimed")),
            flag("completion.detectors", &json!(["promise"])),
            // Whether the work is done already is for `nop` to show.
            flag("completion.baseline", &json!("off")),
        ]);
    }
    let mut loaded = load_within(sources, settings.max_cost)?.with_agents_from(&agents);
    fit_to_column(&mut loaded, settings.column)?;
    fit_to_isolation(&mut loaded, job);
    let (env, of_agents) = (&mut loaded.config.env, agents.config.env);
    env.pass.extend(of_agents.pass);
    for (name, value) in of_agents.set {
        env.set.entry(name).or_insert(value);
    }
    env.set.entry("PATH".to_owned()).or_insert_with(|| settings.path.to_owned());
    Ok(loaded)
}

/// Reads a configuration whose run may cost no more than it says itself, nor more than `max_cost`.
fn load_within(mut sources: Sources, max_cost: Option<Usd>) -> Result<LoadedConfig, CommandError> {
    let loaded = config::load(&sources)?;
    let Some(most) = max_cost else { return Ok(loaded) };
    let most = loaded.config.limits.max_cost_usd.map_or(most, |own| own.min(most));
    sources.flags.push(flag("limits.max_cost_usd", &json!(most.dollars())));
    Ok(config::load(&sources)?)
}

/// Where a trial has a file system of its own, its checks run in the workspace there.
fn fit_to_isolation(loaded: &mut LoadedConfig, job: &LoadedConfig) {
    if IsolationRow::of(job.config.bench.isolation).has_root() {
        loaded.config.validation =
            Validation { place: Some(CheckPlace::Workspace), ..Validation::default() };
    }
}

/// Leaves out what has no meaning for agents that perform one iteration without a model, and refuses agents of roles
/// that would work in the place of the column's.
///
/// # Errors
/// Another agent than the column's would do the work.
fn fit_to_column(loaded: &mut LoadedConfig, column: &Column) -> Result<(), CommandError> {
    if is_reserved(&column.agent) {
        let config = &mut loaded.config;
        if config.initializer.take().is_some() {
            // The initializer would have made what it runs.
            config.run.setup.clear();
        }
        (config.backlog, config.prompts) = (None, None);
        return Ok(());
    }
    let role = loaded.config.run.role.map_or(Role::Coding, Role::from);
    let named = loaded.config.prompts.as_ref().and_then(|prompts| prompts.agents.of(role));
    let Some(other) = named.filter(|name| *name != column.agent) else { return Ok(()) };
    let message = format!(
        "{other} would do the work of the column {column}, which would then say nothing of {}; name {other} in \
         bench.agents, or leave this key out",
        column.agent
    );
    let key = ["prompts", "agents", role.word()].map(str::to_owned);
    Err(config::ConfigErrors::from(loaded.error_at(&key, None, &message)).into())
}

/// Returns the names of agents that a job can have, for messages.
pub fn known_agents(loaded: &LoadedConfig, plugins: &Plugins) -> Vec<String> {
    let mut names: Vec<String> = loaded.config.agents.keys().cloned().collect();
    names.extend([MAIN_AGENT, ORACLE, NOP].map(str::to_owned));
    let registry = registry::unsupervised(plugins);
    names.extend(registry.agents.names().iter().map(|name| (*name).to_owned()));
    names.extend(loaded.config.plugins.keys().cloned());
    names.sort();
    names.dedup();
    names
}

/// Returns the columns of a job: each agent with the configuration as it is, and with each variant.
///
/// # Errors
/// There is no agent of that name.
pub fn list_columns(setup: &JobSetup) -> Result<Vec<Column>, CommandError> {
    let bench = &setup.loaded.config.bench;
    let known = known_agents(&setup.loaded, &setup.plugins);
    let named =
        if bench.agents.is_empty() { vec![MAIN_AGENT.to_owned()] } else { bench.agents.clone() };
    let known: Vec<&str> = known.iter().map(String::as_str).collect();
    if let Some(agent) = bench.agent_concurrency.keys().find(|agent| !named.contains(agent)) {
        let key = ["bench".to_owned(), "agent_concurrency".to_owned(), agent.clone()];
        let named: Vec<&str> = named.iter().map(String::as_str).collect();
        let error = setup.loaded.unknown_name_error(&key, agent, "agent of this job", &named);
        return Err(config::ConfigErrors::from(error).into());
    }
    let mut columns = Vec::new();
    for (index, agent) in named.iter().enumerate() {
        if !known.contains(&agent.as_str()) {
            let key = ["bench".to_owned(), "agents".to_owned(), index.to_string()];
            let error = setup.loaded.unknown_name_error(&key, agent, "agent", &known);
            return Err(config::ConfigErrors::from(error).into());
        }
        let variants = bench.variant.keys().map(|name| Some(name.clone()));
        let of_agent = std::iter::once(None).chain(variants);
        columns.extend(of_agent.map(|variant| Column { agent: agent.clone(), variant }));
    }
    Ok(columns)
}

fn flag(key: &'static str, value: &serde_json::Value) -> Flag {
    Flag { name: ORIGIN.to_owned(), key, text: toml_text(value) }
}

/// A column whose configuration is right.
pub struct CheckedColumn {
    /// The configuration.
    pub loaded: LoadedConfig,
    /// The program of its agent on this machine, if it is one and was found.
    pub program: Option<PathBuf>,
}

/// Checks the configuration of a column, before there is a trial: that of its trials on `task` if that is of the own
/// form, else that of its trials on all others.
///
/// # Errors
/// It is wrong, or no claim of its agent could be accepted, or a limit cannot be enforced for its agent.
pub async fn check_column(
    setup: &JobSetup,
    column: &Column,
    task: Option<&Task>,
) -> Result<CheckedColumn, CommandError> {
    let bench = &setup.loaded.config.bench;
    if task.is_none()
        && !bench.trust_agent
        && bench.validator.is_empty()
        && !is_reserved(&column.agent)
    {
        let message = format!(
            "nothing decides whether a claim of {column} stands: there is no [[bench.validator]]"
        );
        return Err(CommandError::config(message).hinted(
            "`--trust-agent`, or `trust_agent = true` in [bench], takes the agent's word; \
             the task's own tests give the reward in any case",
        ));
    }
    let loaded = load_for_check(setup, column, task)?;
    let registry = registry::unsupervised(&setup.plugins);
    let build = build_context(&loaded, &setup.vars);
    CompletionPolicy::build(&loaded, &registry, &build).await?;
    let agent = build_agent(setup, &loaded, column).await?;
    agent.check_limits(&loaded)?;
    check_program(&loaded, &setup.vars, agent_key(&column.agent).as_deref())?;
    let program = agent.agent().describe().program;
    if program.is_none() {
        require_agent(
            &agent.agent().check(&agent.environment(&loaded, &setup.vars)).await,
            column,
        )?;
    }
    Ok(CheckedColumn { loaded, program })
}

/// Checks that an agent without a known program could be started, by what it `found` of itself.
///
/// # Errors
/// Nothing of it is on this machine.
fn require_agent(found: &Result<String, AgentError>, column: &Column) -> Result<(), CommandError> {
    match found {
        Err(error) if error.class == ErrorClass::Unavailable => {
            let message = format!("the agent of the column {column} cannot be started: {error}");
            Err(CommandError::unavailable(message).hinted(
                "install it, correct `program` in its `config`, or leave it out of `--agents`",
            ))
        }
        _ => Ok(()),
    }
}

/// Returns the agent of a column, which is not to be run.
///
/// # Errors
/// Its configuration is wrong.
pub async fn build_agent(
    setup: &JobSetup,
    loaded: &LoadedConfig,
    column: &Column,
) -> Result<ConfiguredAgent, CommandError> {
    let registry = registry::unsupervised(&setup.plugins);
    let build = build_context(loaded, &setup.vars);
    let build = BuildContext { config_dir: loaded.agent_dir().to_owned(), ..build };
    let name = agent_key(&column.agent);
    Ok(ConfiguredAgent::build(loaded, &registry, &build, name.as_deref()).await?)
}

/// Returns the configuration of a trial as far as it is known before there is one.
fn load_for_check(
    setup: &JobSetup,
    column: &Column,
    task: Option<&Task>,
) -> Result<LoadedConfig, CommandError> {
    let bench = &setup.loaded.config.bench;
    let folder = &setup.loaded.config.run.workspace;
    let budgets = [bench.max_cost_per_trial_usd, bench.max_cost_per_agent_usd, bench.max_cost_usd];
    let settings = TrialSettings {
        column,
        prompt: "the instruction of the task",
        workspace: folder,
        state: folder,
        max_runtime: None,
        max_cost: budgets.into_iter().flatten().min(),
        reserved: &["true".to_owned()],
        env: &BTreeMap::new(),
        path: setup.vars.get("PATH").map(String::as_str).unwrap_or_default(),
    };
    let checked = match task {
        Some(task) => load_own(&setup.sources, &setup.loaded, &settings, &task.folder),
        None => load(&setup.sources, &setup.loaded, &settings),
    };
    checked.map_err(|error| match &column.variant {
        Some(variant) => error.hinted(format!(
            "this is the configuration of {column}: its `--set` may be `set` in [bench.variant.{variant}]"
        )),
        None => error,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_short_trial_waits_longer_for_its_provider_than_it_may_take() {
        let seconds = |time| longest_wait(Duration::from_secs(time)).as_secs();
        assert_eq!((seconds(5), seconds(600)), (60, 600));
    }
}
