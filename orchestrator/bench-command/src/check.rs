//! `bench check`

use std::collections::{BTreeMap, BTreeSet};

use ralph_orchestrator_assembly::agent_names::ORACLE;
use ralph_orchestrator_assembly::block_on::block_on;
use ralph_orchestrator_assembly::discovery::ConfigFile;
use ralph_orchestrator_assembly::error::{CommandError, exit};
use ralph_orchestrator_bench::host::Host;
use ralph_orchestrator_bench::task::{
    Capabilities, Feature, IsolationKind, Package, ProgramOutput, Task, TaskForm, find_provided,
};
use ralph_orchestrator_bench::trial::Column;
use ralph_orchestrator_bench_run::container::Engine;
use ralph_orchestrator_bench_run::isolation::IsolationRow;
use ralph_orchestrator_bench_run::planning::load_tasks;
use ralph_orchestrator_bench_run::trial_config::list_columns;
use ralph_orchestrator_bench_run::visibility::verifier_path;
use ralph_orchestrator_bench_run::{JobSetup, trial_config};
use ralph_orchestrator_config::{ConfigErrors, LoadedConfig, TaskSetup};
use ralph_orchestrator_engine::plain_environment;
use ralph_orchestrator_supervisor::{
    CaptureLimit, Ending, Grace, SpawnError, Spec, Supervisor, find_program,
};
use ralph_orchestrator_terminal::output;
use ralph_orchestrator_text::{count, one_line};
use serde_json::json;

use super::deep_check::start_environments;
use super::missing_programs::{MissingPrograms, name_tasks};
use super::{MatrixArgs, load_setup};

#[derive(Debug, clap::Args)]
pub struct CheckArgs {
    #[command(flatten)]
    matrix: MatrixArgs,
    /// Also make and start one environment of each distinct Dockerfile, which runs RUN lines with `--setup`
    #[arg(long)]
    deep: bool,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

/// What was found before a job.
#[derive(Default)]
pub(super) struct Problems {
    pub(super) warnings: Vec<String>,
    pub(super) refusals: Vec<Refusal>,
    /// The container engine and its version, if trials are performed in containers.
    pub(super) engine: Option<String>,
    /// Programs that trials need and do not see; its warnings are among the others.
    missing: MissingPrograms,
}

/// Why a task cannot be performed here.
pub(super) struct Refusal {
    pub(super) task: String,
    pub(super) reason: String,
}

impl Problems {
    /// Whether tests need programs that trials do not see.
    pub(super) fn lacks_programs(&self) -> bool {
        !self.missing.tasks.is_empty()
    }

    /// Returns an error that names each task that cannot be performed.
    pub(super) fn refuse(&self) -> Result<(), CommandError> {
        if self.refusals.is_empty() {
            return Ok(());
        }
        let mut message = String::from("not every task can be performed here:");
        for refusal in &self.refusals {
            message.push_str(&format!("\n  {}: {}", refusal.task, refusal.reason));
        }
        Err(CommandError::config(message).hinted(
            "`--skip-unsupported` leaves these out; `--provided pip:NAME` says what is installed",
        ))
    }
}

/// Looks for everything that would keep trials from being performed, without starting an agent.
///
/// # Errors
/// The configuration of a column is wrong.
pub(super) async fn find_problems(
    setup: &JobSetup,
    tasks: &[Task],
) -> Result<Problems, CommandError> {
    let bench = &setup.loaded.config.bench;
    let isolation = IsolationRow::of(bench.isolation);
    let mut problems = Problems::default();
    let columns = list_columns(setup)?;
    check_configurations(setup, &columns, tasks, &mut problems).await?;
    problems.missing.add_tasks(setup, &columns, tasks);
    problems.warnings.append(&mut problems.missing.warnings);
    if isolation.has_root() {
        check_shared_paths(&setup.loaded)?;
    }
    check_curve(&setup.loaded)?;
    let supervisor = Supervisor::this_binary();
    problems.engine = check_isolation(setup, &supervisor).await?;
    let mut provided = Vec::new();
    for (index, text) in bench.provided.iter().enumerate() {
        let package: Package = text.parse().map_err(|error| {
            let key = ["bench".to_owned(), "provided".to_owned(), index.to_string()];
            let message = format!("{error}");
            let error = setup.loaded.error_at(&key, None, &message);
            CommandError::from(ConfigErrors::from(error))
        })?;
        // Containers have what their images install.
        if !isolation.is_container()
            && let Err(missing) = look_for(&package, &supervisor, setup).await?
        {
            problems.warnings.push(missing);
        }
        provided.push(package);
    }
    if !isolation.is_container() {
        add_missing_packages(&mut problems, tasks, &supervisor, setup).await?;
    }
    let kind = isolation.kind;
    let mut capabilities =
        Capabilities { provided, variables: setup.vars.clone(), ..Capabilities::new(kind) };
    if bench.setup != TaskSetup::Off && kind == IsolationKind::Namespace {
        capabilities.features.insert(Feature::Setup);
    }
    let host = Host::this();
    for task in tasks {
        problems.warnings.extend(task.warnings.iter().map(ToString::to_string));
        problems.warnings.extend(find_shortage(task, &host));
        let reasons = task.find_obstacles(&capabilities).into_iter();
        problems.refusals.extend(
            reasons
                .map(|obstacle| Refusal { task: task.name.clone(), reason: obstacle.to_string() }),
        );
    }
    Ok(problems)
}

/// Checks that trials can be kept apart from this machine as the configuration says. Returns the container engine with its
/// version, if it takes one.
///
/// # Errors
/// They cannot.
async fn check_isolation(
    setup: &JobSetup,
    supervisor: &Supervisor,
) -> Result<Option<String>, CommandError> {
    let hint =
        "nothing was started; tasks of the own form can be performed with `--isolation none`";
    let unavailable = |error: SpawnError| CommandError::unavailable(error).hinted(hint);
    let isolation = setup.loaded.config.bench.isolation;
    let row = IsolationRow::of(isolation);
    match row.kind {
        IsolationKind::None => Ok(None),
        IsolationKind::Container => {
            Engine::find(isolation, &setup.vars)?.describe().await.map(Some)
        }
        IsolationKind::Namespace => {
            let mut supervisor = supervisor.clone();
            if row.needs_bubblewrap {
                supervisor = supervisor.with_bubblewrap(setup.find_bubblewrap()?);
            }
            supervisor.check_root_support().await.map_err(unavailable)?;
            Ok(None)
        }
    }
}

/// Returns what a task wants more of than this machine has.
fn find_shortage(task: &Task, host: &Host) -> Vec<String> {
    let settings = &task.environment;
    let memory_mb = host.memory_bytes >> 20;
    let processors = u32::try_from(host.processors).unwrap_or(u32::MAX);
    let few = settings.cpus.filter(|cpus| *cpus > f64::from(processors) && processors > 0);
    let few = few.map(|cpus| format!("{cpus} processors, and this machine has {processors}"));
    let little = settings.memory_mb.filter(|memory| *memory > memory_mb && memory_mb > 0);
    let little =
        little.map(|memory| format!("{memory} MiB of memory, and this machine has {memory_mb}"));
    few.into_iter().chain(little).map(|what| format!("{} wants {what}", task.name)).collect()
}

/// Checks the configuration of each column with each task that it depends on.
///
/// # Errors
/// The configuration of a column is wrong.
async fn check_configurations(
    setup: &JobSetup,
    columns: &[Column],
    tasks: &[Task],
    problems: &mut Problems,
) -> Result<(), CommandError> {
    let (own, others): (Vec<&Task>, Vec<&Task>) =
        tasks.iter().partition(|task| task.form == TaskForm::Own);
    for column in columns.iter().filter(|_| !others.is_empty()) {
        let checked = trial_config::check_column(setup, column, None).await?;
        problems.missing.add_column(setup, column, &checked);
        let loaded = checked.loaded;
        let stepped = others.iter().filter(|task| task.steps.len() > 1);
        problems.refusals.extend(stepped.filter(|_| loaded.config.backlog.is_some()).map(|task| {
            let reason = format!(
                "{column}: a task of several steps cannot be performed with [backlog], which is complete after the \
                 first one"
            );
            Refusal { task: task.name.clone(), reason }
        }));
    }
    for task in own {
        for column in columns {
            let checked = trial_config::check_column(setup, column, Some(task)).await;
            match checked {
                Ok(checked) => problems.missing.add_column(setup, column, &checked),
                Err(error) => {
                    let reason = format!("{column}: {}", error.summary());
                    problems.refusals.push(Refusal { task: task.name.clone(), reason });
                }
            }
        }
    }
    if columns.iter().any(|column| column.agent == ORACLE) {
        let without =
            tasks.iter().filter(|task| task.steps.iter().any(|step| step.oracle.is_none()));
        let warning =
            |task: &Task| format!("{} brings no solution, so oracle does nothing", task.name);
        problems.warnings.extend(without.map(warning));
    }
    Ok(())
}

/// Checks that the work of each iteration can be verified, if that is asked for.
///
/// # Errors
/// It cannot: a copy of the work is not what its container was.
fn check_curve(loaded: &LoadedConfig) -> Result<(), CommandError> {
    let bench = &loaded.config.bench;
    if !bench.curve || !IsolationRow::of(bench.isolation).is_container() {
        return Ok(());
    }
    let message = "a container cannot be verified as an iteration left it, since only the work directory is copied; \
                   leave this out, or use the isolation `namespace`";
    Err(CommandError::at_key(loaded, &["bench", "curve"], message))
}

/// Checks that what trials are to see of this machine is there.
///
/// # Errors
/// A path is missing.
fn check_shared_paths(loaded: &LoadedConfig) -> Result<(), CommandError> {
    let sandbox = &loaded.config.sandbox;
    for (list, paths) in [("read", &sandbox.read), ("write", &sandbox.write)] {
        if let Some(index) = paths.iter().position(|path| !path.exists()) {
            let message = "there is no such file or folder that a trial could see; create it, or correct the path";
            return Err(CommandError::at_key(
                loaded,
                &["sandbox", list, &index.to_string()],
                message,
            ));
        }
    }
    Ok(())
}

/// Looks whether this machine has a package, as it was said to have. Returns what is missing.
async fn look_for(
    package: &Package,
    supervisor: &Supervisor,
    setup: &JobSetup,
) -> Result<Result<(), String>, CommandError> {
    let (supervisor, package) = (supervisor.clone(), package.clone());
    let env = plain_environment(&setup.loaded, &setup.vars);
    let config = &setup.loaded.config;
    let seen_path = IsolationRow::of(config.bench.isolation).has_root().then(|| {
        verifier_path(env.get("PATH").map(String::as_str).unwrap_or_default(), &config.sandbox)
    });
    let runtime = tokio::runtime::Handle::current();
    let find = move || {
        let find_in = |env: &BTreeMap<String, String>| {
            let mut run = |words: &[&str]| run_program(words, &supervisor, &runtime, env);
            find_provided(&package, &mut run).map(drop)
        };
        let mut seen = env.clone();
        seen.extend(seen_path.map(|path| ("PATH".to_owned(), path)));
        find_in(&seen).map_err(|error| match seen != env && find_in(&env).is_ok() {
            true => format!(
                "{package} is installed where the tests of a trial do not see it: install it for the whole system, or \
                 add the folder that it is installed in to `read` in [sandbox]"
            ),
            false => error.to_string(),
        })
    };
    ralph_orchestrator_assembly::git::blocking(find).await
}

/// Adds a warning for each package that the commands of tests need and this machine lacks.
async fn add_missing_packages(
    problems: &mut Problems,
    tasks: &[Task],
    supervisor: &Supervisor,
    setup: &JobSetup,
) -> Result<(), CommandError> {
    let mut by_package: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
    for task in tasks {
        if let Some(needed) = task.steps.iter().find_map(|step| step.verification.needed_package())
        {
            by_package.entry(needed).or_default().insert(&task.name);
        }
    }
    for (text, tasks) in by_package {
        let Ok(package) = text.parse::<Package>() else { continue };
        if let Err(missing) = look_for(&package, supervisor, setup).await? {
            let tests = name_tasks(&tasks);
            problems.warnings.push(format!("the tests of {tests} cannot be run: {missing}"));
            problems.missing.tasks.extend(tasks.into_iter().map(str::to_owned));
        }
    }
    Ok(())
}

/// Runs a program of this machine to its end. Blocks.
fn run_program(
    words: &[&str],
    supervisor: &Supervisor,
    runtime: &tokio::runtime::Handle,
    env: &BTreeMap<String, String>,
) -> std::io::Result<ProgramOutput> {
    let (name, args) = words.split_first().unwrap_or((&"", &[]));
    let path = env.get("PATH").map(String::as_str).unwrap_or_default();
    let program = find_program(name, path, std::path::Path::new("/"))
        .map_err(|error| std::io::Error::new(std::io::ErrorKind::NotFound, error.to_string()))?;
    let spec = Spec {
        program,
        args: args.iter().map(Into::into).collect(),
        cwd: "/".into(),
        env: env.clone(),
        stdin: Vec::new(),
        grace: Grace::default(),
    };
    let supervisor = supervisor.clone();
    let (sender, receiver) = std::sync::mpsc::sync_channel(1);
    runtime.spawn(async move {
        let timeout = tokio::time::sleep(std::time::Duration::from_secs(30));
        drop(sender.send(supervisor.output(spec, CaptureLimit::default(), timeout).await));
    });
    let output = receiver.recv().map_err(std::io::Error::other)?.map_err(std::io::Error::other)?;
    Ok(ProgramOutput {
        is_success: output.exit.ending == Ending::Exited(0),
        stdout: output.stdout.text(),
    })
}

pub(crate) fn check(file: &ConfigFile, args: &CheckArgs) -> Result<u8, CommandError> {
    let setup = load_setup(file, &args.matrix.to_sets()?)?;
    let tasks = load_tasks(&setup.loaded.config.bench)?;
    let columns = list_columns(&setup)?;
    let mut problems = block_on(find_problems(&setup, &tasks))?;
    if args.deep {
        let is_refused =
            |task: &Task| problems.refusals.iter().any(|refusal| refusal.task == task.name);
        let left: Vec<Task> = tasks.iter().filter(|task| !is_refused(task)).cloned().collect();
        let failed = start_environments(&setup, &left)?.into_iter();
        problems.refusals.extend(failed.map(|(task, reason)| Refusal { task, reason }));
    }
    let bench = &setup.loaded.config.bench;
    let trials = columns.len() as u64 * tasks.len() as u64 * u64::from(bench.trials);
    if args.json {
        output::json(&json!({
            "columns": columns.iter().map(ToString::to_string).collect::<Vec<_>>(),
            "tasks": tasks.iter().map(|task| &task.name).collect::<Vec<_>>(),
            "trials": trials,
            "isolation": bench.isolation.word(),
            "engine": problems.engine,
            "warnings": problems.warnings,
            "refused": problems
                .refusals
                .iter()
                .map(|refusal| json!({ "task": refusal.task, "reason": refusal.reason }))
                .collect::<Vec<_>>(),
        }));
    } else {
        let names: Vec<String> = columns.iter().map(ToString::to_string).collect();
        output::result(&format!("columns    {}", one_line(&names.join(", "), 200)));
        output::result(&format!("tasks      {}", tasks.len()));
        output::result(&format!("trials     {trials}"));
        output::result(&format!("isolation  {}", bench.isolation.word()));
        if let Some(engine) = &problems.engine {
            output::result(&format!("engine     {engine}"));
        }
        for warning in &problems.warnings {
            output::info(&format!("warning: {}", one_line(warning, 1000)));
        }
        for refusal in &problems.refusals {
            output::result(&format!("refused    {}: {}", refusal.task, refusal.reason));
        }
        let refused: BTreeSet<&str> =
            problems.refusals.iter().map(|refusal| refusal.task.as_str()).collect();
        output::info(&conclude(refused.len() as u64, &problems.missing));
    }
    let missing = &problems.missing;
    let is_complete = missing.columns.is_empty() && missing.tasks.is_empty();
    Ok(match (problems.refusals.is_empty(), is_complete) {
        (false, _) => exit::CONFIG,
        (true, false) => exit::UNAVAILABLE,
        (true, true) => exit::OK,
    })
}

/// Returns the last line of what was found: how many tasks are refused, and what lacks a program.
fn conclude(refused: u64, missing: &MissingPrograms) -> String {
    let join = |names: &BTreeSet<String>| {
        let names: Vec<&str> = names.iter().map(String::as_str).collect();
        one_line(&names.join(", "), 200)
    };
    let mut parts = Vec::new();
    if refused > 0 {
        parts.push(format!("{} cannot be performed here", count(refused, "task")));
    }
    if !missing.columns.is_empty() {
        parts.push(format!("no trial of {} could begin", join(&missing.columns)));
    }
    if !missing.tasks.is_empty() {
        let tasks = missing.tasks.len() as u64;
        parts.push(format!(
            "{} would lack a program: {}",
            count(tasks, "task"),
            join(&missing.tasks)
        ));
    }
    match parts.is_empty() {
        true => "nothing was started; `bench run` performs the trials".to_owned(),
        false => parts.join("; "),
    }
}
