//! The lock of a job, as this machine and its files are now.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use ralph_orchestrator_assembly::error::CommandError;
use ralph_orchestrator_bench::host::Host;
use ralph_orchestrator_bench::job::JobLock;
use ralph_orchestrator_bench::task::Task;
use ralph_orchestrator_bench::trial::Column;
use ralph_orchestrator_config::{self as config, Role};

use super::folder_digest::{digest_file, digest_folder};
use super::job_setup::{JobSetup, brought_by_task};
use super::trial_config::{agent_key, build_agent, column_sources, list_columns};

/// Tables and keys that say nothing of a trial, or are replaced in it.
const NOT_OF_TRIALS: [&str; 12] = [
    "agent",
    "agents",
    "bench",
    "context",
    "git.commit",
    "git.worktree",
    "hooks",
    "run.prompt",
    "run.prompt_text",
    "run.workspace",
    "state",
    "validator",
];
/// The keys of `[bench]` that decide what a trial is.
const OF_TRIALS: [&str; 9] = [
    "bench.agent_time_factor",
    "bench.curve",
    "bench.isolation",
    "bench.max_cost_per_trial_usd",
    "bench.provided",
    "bench.setup",
    "bench.trust_agent",
    "bench.validator",
    "bench.verifier_timeout",
];

/// Returns the lock of a job.
///
/// # Errors
/// A configuration is wrong.
pub async fn compute(setup: &JobSetup, tasks: &[Task]) -> Result<JobLock, CommandError> {
    let bench = &setup.loaded.config.bench;
    let mut lock = JobLock {
        program: describe_program(),
        host: Host::this(),
        isolation: bench.isolation.word().to_owned(),
        seed: bench.seed,
        trials: bench.trials,
        tasks: tasks.iter().map(|task| (task.name.clone(), task.digest.clone())).collect(),
        versions: setup.plugins.versions(),
        ..JobLock::default()
    };
    for column in list_columns(setup)? {
        let loaded = load_column(setup, &column)?;
        lock.columns.insert(column.to_string(), digest_column(&loaded, &column));
        add_folders(&mut lock.folders, &loaded);
        let version = find_version(setup, &loaded, &column).await?;
        lock.versions.insert(format!("agent of {column}"), version);
    }
    Ok(lock)
}

/// Returns the digests of the configurations of all columns.
///
/// # Errors
/// A configuration is wrong.
pub(super) fn digest_columns(setup: &JobSetup) -> Result<BTreeMap<String, String>, CommandError> {
    let digest = |column: Column| {
        let loaded = load_column(setup, &column)?;
        Ok((column.to_string(), digest_column(&loaded, &column)))
    };
    list_columns(setup)?.into_iter().map(digest).collect()
}

/// Returns the folders whose contents are other than when a job was planned.
///
/// # Errors
/// A configuration is wrong.
pub fn find_changed_folders(
    setup: &JobSetup,
    planned: &JobLock,
) -> Result<Vec<String>, CommandError> {
    let mut now = BTreeMap::new();
    for column in list_columns(setup)? {
        add_folders(&mut now, &load_column(setup, &column)?);
    }
    let changed = planned.folders.iter().filter(|(path, was)| now.get(*path) != Some(*was));
    Ok(changed.map(|(path, _)| path.clone()).collect())
}

/// Adds the digests of the folders that trials see read-only, each once.
fn add_folders(folders: &mut BTreeMap<String, String>, loaded: &config::LoadedConfig) {
    for folder in loaded.config.sandbox.read.iter().filter(|path| path.is_dir()) {
        let name = folder.strip_prefix(loaded.dir()).unwrap_or(folder).display().to_string();
        folders.entry(name).or_insert_with(|| digest_folder(folder));
    }
}

/// Returns the version of this program, with the digest of its file: trials depend on it as on the agent's.
fn describe_program() -> String {
    let version = env!("CARGO_PKG_VERSION");
    // Its path may have another program by now.
    match digest_file(Path::new("/proc/self/exe")) {
        Some(digest) => format!("{version}, program {digest}"),
        None => version.to_owned(),
    }
}

fn load_column(setup: &JobSetup, column: &Column) -> Result<config::LoadedConfig, CommandError> {
    let solution = ["true".to_owned()];
    let mut sources = column_sources(&setup.sources, &setup.loaded, column, &solution);
    sources.implied = brought_by_task();
    Ok(config::load(&sources)?)
}

/// Returns the digest of what a configuration says of trials, and of the files that it names. Comments, order and
/// spaces do not count.
fn digest_column(loaded: &config::LoadedConfig, column: &Column) -> String {
    let mut hasher = blake3::Hasher::new();
    let mut add = |text: &[u8]| {
        hasher.update(&u64::try_from(text.len()).unwrap_or(u64::MAX).to_le_bytes());
        hasher.update(text);
    };
    let mut files = BTreeSet::new();
    let agents = agents_of(loaded, column);
    let here = loaded.dir().display().to_string();
    for (key, value, _) in loaded.show() {
        if !is_of_trials(&key, &agents) {
            continue;
        }
        add(key.as_bytes());
        // In another folder it is the same configuration.
        add(value.replace(&here, ".").as_bytes());
        files.extend(named_files(&value, loaded.dir()));
    }
    if let Some(prompts) = &loaded.config.prompts {
        files.extend(Role::ALL.into_iter().flat_map(|role| prompts.candidates(role)));
    }
    for file in files {
        if let Some(digest) = digest_file(&file) {
            add(file.strip_prefix(loaded.dir()).unwrap_or(&file).as_os_str().as_encoded_bytes());
            add(digest.as_bytes());
        }
    }
    hasher.finalize().to_hex().to_string()
}

/// Whether a key says something of trials in which these agents of `[agents]` can work.
fn is_of_trials(key: &str, agents: &[String]) -> bool {
    let is_of = |table: &str| {
        key.strip_prefix(table).is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
    };
    agents.iter().any(|name| is_of(name))
        || OF_TRIALS.iter().any(|name| is_of(name))
        || !NOT_OF_TRIALS.iter().any(|name| is_of(name))
}

/// Returns the tables of the agents that can work in a trial of this column.
fn agents_of(loaded: &config::LoadedConfig, column: &Column) -> Vec<String> {
    let name = agent_key(&column.agent);
    let prompts = loaded.config.prompts.as_ref();
    let of_roles = Role::ALL.into_iter().filter_map(|role| prompts?.agents.of(role));
    let config = &loaded.config;
    let first = config.first_agent(name.as_deref());
    let others = config.other_agents(name.as_deref());
    let named = first.into_iter().chain(others).chain(of_roles);
    let mut tables: Vec<String> = named.map(|name| format!("agents.{name}")).collect();
    tables.push(name.map_or_else(|| "agent".to_owned(), |name| format!("agents.{name}")));
    tables
}

/// Returns the files that the texts of a value lead to.
fn named_files(value: &str, dir: &Path) -> Vec<PathBuf> {
    let Ok(table) = toml::from_str::<toml::Table>(&format!("value = {value}")) else {
        return Vec::new();
    };
    let mut texts = Vec::new();
    let mut open: Vec<&toml::Value> = table.values().collect();
    while let Some(value) = open.pop() {
        match value {
            toml::Value::String(text) => texts.push(text.as_str()),
            toml::Value::Array(values) => open.extend(values),
            toml::Value::Table(values) => open.extend(values.values()),
            _ => {}
        }
    }
    let files = texts.into_iter().filter(|text| !text.is_empty()).map(|text| dir.join(text));
    files.filter(|file| file.is_file()).collect()
}

/// Returns what the agent of a column says that it is, with the digest of its program.
async fn find_version(
    setup: &JobSetup,
    loaded: &config::LoadedConfig,
    column: &Column,
) -> Result<String, CommandError> {
    let agent = build_agent(setup, loaded, column).await?;
    let env = agent.environment(loaded, &setup.vars);
    let version = match agent.agent().check(&env).await {
        Ok(version) => version,
        Err(error) => format!("not available: {error}"),
    };
    let program = agent.agent().describe().program;
    let digest = program.and_then(|program| digest_file(&program));
    Ok(match digest {
        Some(digest) => format!("{version}, program {digest}"),
        None => version,
    })
}
