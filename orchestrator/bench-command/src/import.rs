//! `bench import`

use std::cell::Cell;
use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use ralph_orchestrator_assembly::agent_names::{NOP, ORACLE};
use ralph_orchestrator_assembly::block_on::block_on;
use ralph_orchestrator_assembly::context::Context;
use ralph_orchestrator_assembly::discovery::ConfigFile;
use ralph_orchestrator_assembly::error::{CommandError, exit};
use ralph_orchestrator_assembly::git;
use ralph_orchestrator_assembly::git::blocking;
use ralph_orchestrator_assembly::git::open_stored;
use ralph_orchestrator_assembly::plugins::Plugins;
use ralph_orchestrator_assembly::{registry, run_selection};
use ralph_orchestrator_bench::job::{Goal, JobContents, JobStore, Schedule, run_job};
use ralph_orchestrator_bench::task::{SOLUTION_FOLDER, SOLUTION_SCRIPT};
use ralph_orchestrator_bench::trial::TrialRecord;
use ralph_orchestrator_bench_run::error::job_error;
use ralph_orchestrator_bench_run::imported_task::{
    ImportedConfig, ImportedPrompt, PROMPT, SOLUTION_FILES, WORKSPACE, brought, find_secret,
    solution_script,
};
use ralph_orchestrator_bench_run::planning::{load_tasks, plan_job};
use ralph_orchestrator_bench_run::{Runner, lock};
use ralph_orchestrator_engine::is_as_recorded;
use ralph_orchestrator_git::{Checkpoint, CheckpointName, DiffEnd};
use ralph_orchestrator_machine::Record;
use ralph_orchestrator_store::{Layout, StoredRun, read_run_config};
use ralph_orchestrator_story::diff::StoredRepository;
use ralph_orchestrator_terminal::output_place::create_folder;
use ralph_orchestrator_terminal::set_args::SetArgs;
use ralph_orchestrator_terminal::{output, signals};
use serde_json::json;

use super::job_error::explain;
use super::{check, load_setup};
use crate::hidden_folder::HiddenFolder;
use crate::observer::{JobReporter, JobStop};

/// Characters of the run's id in the name of its task.
const SHORT_ID: usize = 13;

#[derive(Debug, clap::Args)]
pub struct ImportArgs {
    /// The completed run, by the beginning of its id: see `runs` [default: that of the workspace]
    #[arg(value_name = "RUN")]
    run: Option<String>,
    /// Folder in which the task gets a folder of its own
    #[arg(long, value_name = "DIR", default_value = "tasks")]
    to: PathBuf,
    /// Name of the task [default: that of the workspace, and the beginning of the run's id]
    #[arg(long, value_name = "NAME")]
    name: Option<String>,
    /// Keep a task that its own solution does not solve, or that is solved without any work
    #[arg(long)]
    keep: bool,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    sets: SetArgs,
}

/// What a task is made of.
struct Source {
    run: StoredRun,
    repository: StoredRepository,
    first: Checkpoint,
    accepted: Checkpoint,
    config: ImportedConfig,
}

/// A task in the making, in a hidden folder beside its place.
struct Draft {
    folder: HiddenFolder,
    name: String,
}

/// A task that is not in its place yet.
struct Drafted {
    draft: Draft,
    place: PathBuf,
    run: String,
    left_out: Vec<String>,
}

pub(crate) fn import(file: &ConfigFile, args: &ImportArgs) -> Result<u8, CommandError> {
    let context = git::enter_existing(Context::with(file, &args.sets)?)?;
    let Drafted { draft, place, run, left_out } = block_on(draft(&context, args))?;
    let records = check_task(file, args, &draft)?;
    let problems = find_problems(&records);
    if !problems.is_empty() && !args.keep {
        let message = format!("run {run} makes no task: {}", problems.join("; "));
        return Err(CommandError::user(message).hinted("`--keep` keeps the task as it is"));
    }
    fs::rename(draft.task(), &place)?;
    drop(draft);
    report(args, &place, &run, &problems, &left_out);
    Ok(if problems.is_empty() { exit::OK } else { exit::LIMIT })
}

/// Makes the task in a folder beside its place.
async fn draft(context: &Context, args: &ImportArgs) -> Result<Drafted, CommandError> {
    let source = Box::pin(find_source(context, args.run.as_deref())).await?;
    let name = args.name.clone().unwrap_or_else(|| default_name(&source));
    if Path::new(&name).components().count() != 1 || name.starts_with('.') {
        return Err(CommandError::user(format!("--name: {name:?} is no name of a folder")));
    }
    let to = create_folder(&args.to)?;
    let place = to.join(&name);
    if place.symlink_metadata().is_ok() {
        return Err(CommandError::user(format!("{} is there already", place.display()))
            .hinted("`--name` gives the task another name"));
    }
    let draft = Draft::begin(&to, &name)?;
    let (run, secrets) = (source.run.run.clone(), source.config.left_out.clone());
    write_task(source, draft.task()).await?;
    if let Some((path, name)) = find_secret(&draft.task(), &secrets)?
        && !args.keep
    {
        let path = path.strip_prefix(draft.task()).unwrap_or(&path).display().to_string();
        return Err(CommandError::user(format!("{path} has the secret env.set.{name} in it")).hinted(
            "`[env] pass` names a variable without holding it; `--keep` makes the task all the same",
        ));
    }
    let left_out = secrets.into_iter().map(|secret| secret.name).collect();
    Ok(Drafted { draft, place, run, left_out })
}

/// Finds what is known of the run.
async fn find_source(context: &Context, prefix: Option<&str>) -> Result<Source, CommandError> {
    let mut saved = BTreeMap::new();
    let selected = run_selection::read(context, prefix, |entry| {
        if let Record::Saved { iteration, checkpoint: Some(_), skipped, .. } = &entry.record {
            saved.insert(*iteration, skipped.clone());
        }
    })?
    .ok_or_else(run_selection::no_run_error)?;
    let run = selected.found;
    let completion = run.state.completion().filter(|completion| completion.validated);
    let Some(completion) = completion else {
        return Err(CommandError::user(format!(
            "run {} is not complete by validators: only what they accepted shows how a task is solved",
            run.run
        )));
    };
    let repository = open_stored(context, prefix).await?;
    let last = completion.iteration;
    let (repository, found) = blocking(move || {
        let find = |number| {
            let name = CheckpointName::Iteration(number);
            let StoredRepository { repository, run, .. } = &repository;
            let found = repository.find_checkpoint(run, name)?;
            // What an agent has put in its place was not validated.
            repository.verify_checkpoint(&found, None)?;
            Ok::<_, ralph_orchestrator_git::GitError>(found)
        };
        let found = find(0).and_then(|first| Ok((first, find(last)?)));
        (repository, found)
    })
    .await?;
    let (first, accepted) = found.map_err(|error| {
        CommandError::from(error).hinted(
            "`[git] commit = \"checkpoint\"` keeps the workspace from before the run and after",
        )
    })?;
    for skipped in [0, last].iter().filter_map(|iteration| saved.remove(iteration)) {
        skipped.iter().for_each(|file| output::info(&format!("warning: not in the task: {file}")));
    }
    let resolved = read_run_config(&selected.layout, &run.run).map_err(|error| {
        CommandError::user(format!(
            "the prompt or the validators of run {} are not those that were recorded when it completed: {error}",
            run.run
        ))
    })?;
    let workspace = run.state.started.as_ref().map(|started| started.workspace.as_str());
    let head = format!(
        "# Run {} as a task: the workspace before it, its validators, and in {SOLUTION_FOLDER}/ what they accepted.",
        run.run
    );
    let workspace = Path::new(workspace.unwrap_or_default());
    let config = ImportedConfig::new(&resolved, workspace, &head)?;
    require_same_task(context, &run, &selected.layout, &config).await?;
    Ok(Source { run, repository, first, accepted, config })
}

/// Refuses a stored configuration or a prompt file that are not those of the completion.
async fn require_same_task(
    context: &Context,
    run: &StoredRun,
    layout: &Layout,
    config: &ImportedConfig,
) -> Result<(), CommandError> {
    let prompt = match &config.prompt {
        ImportedPrompt::Elsewhere(path) => Some(fs::read_to_string(path).map_err(|error| {
            CommandError::user(format!("the prompt {}: {error}", path.display()))
        })?),
        ImportedPrompt::Text | ImportedPrompt::InWorkspace(_) => None,
    };
    let registry = registry::unsupervised(&Plugins::from_context(context)?);
    let (loaded, vars) = (&context.loaded, &context.vars);
    if is_as_recorded(run, layout, prompt.as_deref(), loaded, vars, &registry).await {
        return Ok(());
    }
    Err(CommandError::user(format!(
        "the prompt or the validators of run {} are not those that were recorded when it completed",
        run.run
    )))
}

fn default_name(source: &Source) -> String {
    let started = source.run.state.started.as_ref();
    let workspace = started.map(|started| Path::new(&started.workspace));
    let workspace = workspace.and_then(Path::file_name).unwrap_or_default().to_string_lossy();
    let id = source.run.run.get(..SHORT_ID).unwrap_or(&source.run.run);
    format!("{}-{id}", workspace.trim_start_matches(['.', '-']))
}

/// Writes the files of the task.
async fn write_task(source: Source, folder: PathBuf) -> Result<(), CommandError> {
    let Source { repository, first, accepted, config, .. } = source;
    fs::create_dir(&folder)?;
    fs::write(folder.join("ralph.toml"), &config.text)?;
    if let ImportedPrompt::Elsewhere(prompt) = &config.prompt {
        fs::copy(prompt, folder.join(PROMPT)).map_err(|error| {
            CommandError::user(format!("the prompt {}: {error}", prompt.display()))
        })?;
    }
    let solution = folder.join(SOLUTION_FOLDER);
    let (work, files) = (folder.join(WORKSPACE), solution.join(SOLUTION_FILES));
    fs::create_dir_all(&work)?;
    fs::create_dir_all(&files)?;
    let changes = blocking(move || {
        let git = &repository.repository;
        git.export(&first.tree, None, &work)?;
        let (from, to) = (DiffEnd::Tree(first.tree), DiffEnd::Tree(accepted.tree.clone()));
        let changes = git.diff(&from, &to, 0)?.files;
        git.export(&accepted.tree, Some(&brought(&changes)), &files)?;
        Ok::<_, ralph_orchestrator_git::GitError>(changes)
    })
    .await??;
    fs::write(solution.join(SOLUTION_SCRIPT), solution_script(&changes)?)?;
    Ok(())
}

/// Performs one trial of `oracle` and one of `nop`. Returns their records.
fn check_task(
    file: &ConfigFile,
    args: &ImportArgs,
    draft: &Draft,
) -> Result<Vec<TrialRecord>, CommandError> {
    let set = |key: &str, value: serde_json::Value| {
        (format!("bench.{key}"), ralph_orchestrator_config::toml_text(&value))
    };
    let mut sets = args.sets.sets.clone();
    sets.extend([
        set("agents", json!([ORACLE, NOP])),
        set("tasks", json!([draft.task()])),
        set("trials", json!(1)),
    ]);
    let setup = load_setup(file, &sets)?;
    let tasks = load_tasks(&setup.loaded.config.bench)?;
    block_on(check::find_problems(&setup, &tasks))?.refuse()?;
    let folder = draft.folder.path().join("job");
    let lock = block_on(lock::compute(&setup, &tasks))?;
    let mut plan = plan_job(&setup, &tasks, sets, "import", lock, Goal::Solve)?;
    plan.columns.retain(|column| column.variant.is_none());
    let mut store = JobStore::create(&folder, plan).map_err(|error| explain(error, &folder))?;
    block_on(async {
        let signals = signals::listen()?;
        let plan = store.plan().clone();
        let reporter = JobReporter {
            is_json: false,
            until: None,
            plan,
            line: None,
            has_said_waits: Cell::default(),
        };
        let runner = Runner::new(&setup, tasks, signals.switch.clone(), signals.watch_requests());
        let stop = JobStop { requests: signals.job_stop_requests(), deadline: None };
        let schedule = Schedule::resume(&mut store, &runner, &[]).await.map_err(job_error)?;
        run_job(&mut store, schedule, &runner, &reporter, &stop).await.map_err(job_error)?;
        Ok(())
    })?;
    let contents = JobContents::read(&folder).map_err(|error| explain(error, &folder))?;
    Ok(contents.last_records().into_values().cloned().collect())
}

/// Says what is wrong with a task, by the trials of its own solution and of no work at all.
fn find_problems(records: &[TrialRecord]) -> Vec<String> {
    let mut problems = Vec::new();
    for (agent, wanted) in [(ORACLE, true), (NOP, false)] {
        let record = records.iter().find(|record| record.key.column.agent == agent);
        let fault = record.and_then(|record| record.fault.as_ref());
        let fault = fault.map(|fault| format!(" ({})", fault.message)).unwrap_or_default();
        match record.filter(|record| record.is_judged()).map(TrialRecord::is_solved) {
            Some(solved) if solved == wanted => {}
            Some(true) => problems.push(
                "its validators accept the workspace from before the run, so they prove nothing"
                    .to_owned(),
            ),
            Some(false) => {
                problems.push(format!("its validators reject what the run had left{fault}"));
            }
            None => problems.push(format!("{agent} was not judged{fault}")),
        }
    }
    problems
}

fn report(args: &ImportArgs, place: &Path, run: &str, problems: &[String], left_out: &[String]) {
    if args.json {
        return output::json(&json!({
            "task": place,
            "run": run,
            "problems": problems,
            "variables_left_out": left_out,
        }));
    }
    output::result(&place.display().to_string());
    for name in left_out {
        output::info(&format!(
            "warning: env.set.{name} was left out, as its name says that it is a secret"
        ));
    }
    for problem in problems {
        output::info(&format!("warning: {problem}"));
    }
    if problems.is_empty() {
        output::info(
            "its solution is accepted and no work is rejected; `bench run --tasks` with this folder tries agents on it",
        );
    }
}

impl Draft {
    /// Takes the hidden folder of a task.
    fn begin(to: &Path, name: &str) -> Result<Self, CommandError> {
        let folder = HiddenFolder::take(&to.join(format!(".{name}.import")))?.ok_or_else(|| {
            let message = format!("another import makes the task {name}");
            CommandError::user(message).hinted("`--name` gives it another name")
        })?;
        Ok(Self { folder, name: name.to_owned() })
    }

    /// Returns the folder of the task, which gives it its name.
    fn task(&self) -> PathBuf {
        self.folder.path().join(&self.name)
    }
}
