//! `bench run` and `bench resume`

use std::cell::Cell;
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::sync::Mutex;
use std::time::{Duration, Instant};

use clap::ValueEnum as _;
use ralph_orchestrator_assembly::agent_names::is_reserved;
use ralph_orchestrator_assembly::block_on::block_on;
use ralph_orchestrator_assembly::discovery::ConfigFile;
use ralph_orchestrator_assembly::error::{CommandError, exit};
use ralph_orchestrator_bench::job::{
    Goal, JobContents, JobEnd, JobError, JobLock, JobPlan, JobStore, LockScope, Schedule,
    find_reusable, run_job,
};
use ralph_orchestrator_bench::statistics::sequential::StopRule;
use ralph_orchestrator_bench::task::Task;
use ralph_orchestrator_bench::trial::{Cause, Column, TrialKey, TrialRecord};
use ralph_orchestrator_bench_run::adversary::{can_be_deceived, set_goal};
use ralph_orchestrator_bench_run::container::JobContainers;
use ralph_orchestrator_bench_run::error::job_error;
use ralph_orchestrator_bench_run::isolation::IsolationRow;
use ralph_orchestrator_bench_run::planning::{
    budgets, load_planned, load_tasks, new_folder, plan_job,
};
use ralph_orchestrator_bench_run::trial_config::list_columns;
use ralph_orchestrator_bench_run::{JobSetup, Runner, Workers, absolute, lock};
use ralph_orchestrator_config::parse_duration;
use ralph_orchestrator_contract::Usd;
use ralph_orchestrator_shell_text::quote_word;
use ralph_orchestrator_story::words::short_usd;
use ralph_orchestrator_terminal::output_place::find_file;
use ralph_orchestrator_terminal::{output, signals};
use ralph_orchestrator_text::count;

use super::job_error::explain;
use super::report::PAGE;
use super::{MatrixArgs, check, load_setup, report};
use crate::job_line::{JobLine, REDRAW};
use crate::observer::{JobReporter, JobStop};

#[derive(Debug, clap::Args)]
pub struct RunArgs {
    #[command(flatten)]
    matrix: MatrixArgs,
    /// Folder of the job [default: a new one, named by the time, in `bench.out`]
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
    #[command(flatten)]
    going: GoingArgs,
    /// Refuse to begin where anything differs from this lock: the file, or the folder of a job; `results` and `machine` take
    /// those of the jobs of `--reuse`, without and with the machine's processors and memory
    #[arg(long, value_name = "PATH|results|machine")]
    locked: Option<LockedTo>,
    /// Take results of the same trials from the job in this folder, instead of performing them; repeat it for several
    #[arg(long, value_name = "DIR")]
    reuse: Vec<PathBuf>,
    /// Perform nothing: only take results from the jobs of `--reuse`
    #[arg(long, requires = "reuse")]
    only_reused: bool,
    /// Perform nothing: write the job, of which `bench work` performs trials, here or on other machines
    #[arg(long, conflicts_with = "only_reused")]
    plan_only: bool,
    /// Leave out tasks that cannot be performed here, instead of refusing to begin
    #[arg(long)]
    skip_unsupported: bool,
}

#[derive(Debug, clap::Args)]
pub struct ResumeArgs {
    /// Folder of the job
    #[arg(value_name = "DIR")]
    job: PathBuf,
    #[command(flatten)]
    going: GoingArgs,
    /// Perform trials again that failed by these causes, also those whose repetitions are used up
    #[arg(long, value_name = "CAUSE", value_delimiter = ',')]
    retry: Vec<RetriedCause>,
}

/// The lock that a job may not differ from.
#[derive(Clone, Debug, PartialEq, Eq)]
enum LockedTo {
    /// A file, or the folder of a job: everything in it.
    Path(PathBuf),
    /// Those of the jobs whose results are taken.
    Reused(LockScope),
}

impl FromStr for LockedTo {
    type Err = std::convert::Infallible;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        Ok(match text {
            "results" => Self::Reused(LockScope::Results),
            "machine" => Self::Reused(LockScope::Machine),
            path => Self::Path(path.into()),
        })
    }
}

/// A cause for which trials can be performed again: not the agent's doing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum RetriedCause {
    Provider,
    Infrastructure,
    Sandbox,
}

impl RetriedCause {
    /// Returns its word on the command line.
    const fn word(self) -> &'static str {
        match self {
            Self::Provider => "provider",
            Self::Infrastructure => "infrastructure",
            Self::Sandbox => "sandbox",
        }
    }
}

impl From<RetriedCause> for Cause {
    fn from(cause: RetriedCause) -> Self {
        match cause {
            RetriedCause::Provider => Self::Provider,
            RetriedCause::Infrastructure => Self::Infrastructure,
            RetriedCause::Sandbox => Self::Sandbox,
        }
    }
}

#[derive(Debug, clap::Args)]
pub struct WorkArgs {
    /// Folder of the job
    #[arg(value_name = "DIR")]
    job: PathBuf,
    /// Trials at the same time in this process [default: that of the job]
    #[arg(short = 'n', long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    concurrency: Option<u32>,
    #[command(flatten)]
    going: GoingArgs,
}

// What holds for this start of a job only. No documentation comment, see `SetArgs`.
#[derive(Debug, clap::Args)]
struct GoingArgs {
    /// End early once the interval of every score is as narrow as this, such as "ci<3pp"
    #[arg(long, value_name = "RULE")]
    until: Option<StopRule>,
    /// Begin no further trial after this time, such as "3h 50m"
    #[arg(long = "for", value_name = "TIME", value_parser = length)]
    most: Option<Duration>,
    /// Print one JSON object per event on stdout
    #[arg(long)]
    json: bool,
}

/// Reads a length of time.
fn length(text: &str) -> Result<Duration, String> {
    let expected = "expected a length of time such as 90m or \"3h 50m\"";
    parse_duration(text).filter(|time| !time.is_zero()).ok_or_else(|| expected.to_owned())
}

/// Trials that a line names.
const NAMED_TRIALS: usize = 10;

pub(crate) fn run(file: &ConfigFile, args: &RunArgs) -> Result<u8, CommandError> {
    begin(file, args, args.matrix.to_sets()?, Goal::Solve).map(|(status, _)| status)
}

/// Performs a new job of the agents that are no agents, whose `sets` say so. Returns the exit status, and the folder.
pub(super) fn run_controls(
    file: &ConfigFile,
    matrix: MatrixArgs,
    out: Option<PathBuf>,
    json: bool,
) -> Result<(u8, PathBuf), CommandError> {
    let sets = matrix.to_sets()?;
    let args = RunArgs {
        matrix,
        out,
        going: GoingArgs { until: None, most: None, json },
        locked: None,
        reuse: Vec::new(),
        only_reused: false,
        plan_only: false,
        skip_unsupported: false,
    };
    begin(file, &args, sets, Goal::Solve)
}

/// Begins a job whose agents are asked to pass the verifiers without doing the tasks.
pub(crate) fn cheat(file: &ConfigFile, args: &RunArgs) -> Result<u8, CommandError> {
    let sets = args.matrix.to_sets()?;
    let bench = load_setup(file, &sets)?.loaded.config.bench;
    if let Some(agent) = bench.agents.iter().find(|agent| is_reserved(agent)) {
        let message = format!("`{agent}` reads no prompt, so it cannot be asked to cheat");
        return Err(CommandError::config(message).hinted("`--agents` names others"));
    }
    begin(file, args, sets, Goal::Cheat).map(|(status, _)| status)
}

fn begin(
    file: &ConfigFile,
    args: &RunArgs,
    sets: Vec<(String, String)>,
    goal: Goal,
) -> Result<(u8, PathBuf), CommandError> {
    let setup = load_setup(file, &sets)?;
    let mut tasks = load_tasks(&setup.loaded.config.bench)?;
    if goal == Goal::Cheat {
        leave_out_own(&mut tasks)?;
    }
    let found = block_on(check::find_problems(&setup, &tasks))?;
    found.warnings.iter().for_each(|warning| output::info(&format!("warning: {warning}")));
    if args.skip_unsupported {
        for refusal in found.refusals {
            output::info(&format!("left out: {}: {}", refusal.task, refusal.reason));
            tasks.retain(|task| task.name != refusal.task);
        }
        if tasks.is_empty() {
            return Err(CommandError::config("no task is left that can be performed here"));
        }
    } else {
        found.refuse()?;
    }
    let lock = block_on(lock::compute(&setup, &tasks))?;
    let earlier = read_earlier(&args.reuse)?;
    require_locks(args, &earlier, &lock)?;
    let folder = match &args.out {
        Some(out) => absolute(out)?,
        None => new_folder(&setup.loaded.config.bench.out),
    };
    let folder = find_file(&folder)?;
    let name = folder.file_name().map(|name| name.to_string_lossy().into_owned());
    let mut plan = plan_job(&setup, &tasks, sets, &name.unwrap_or_default(), lock, goal)?;
    if goal == Goal::Cheat {
        // The question is about the tasks, not about ways of using an agent.
        plan.columns.retain(|column| column.variant.is_none());
    }
    let earlier: Vec<(&Path, JobContents)> =
        earlier.iter().map(|(folder, contents)| (folder.as_path(), contents.clone())).collect();
    let reused = find_reusable(&plan, &earlier);
    let mut store = JobStore::create(&folder, plan).map_err(|error| explain(error, &folder))?;
    for record in &reused.records {
        store.begin_attempt(&record.key, record.attempt).map_err(job_error)?;
        store.end_attempt(record, &[]).map_err(job_error)?;
    }
    if !args.reuse.is_empty() {
        let count = count(reused.records.len() as u64, "trial");
        output::info(&format!("{count} taken from earlier jobs; these are no new samples"));
        say_refused(&reused.refused);
    }
    let status = match (args.only_reused, args.plan_only) {
        (true, _) => report_reused(store, args.going.json)?,
        (_, true) => report_planned(store, args.going.json),
        _ => perform(store, &setup, tasks, &args.going, &[])?,
    };
    Ok((status, folder))
}

/// Says how trials of a job are performed that was only planned. Returns the exit status.
fn report_planned(mut store: JobStore, json: bool) -> u8 {
    store.leave(true);
    let (folder, planned) = (store.dir(), store.plan().trials().len());
    if json {
        output::json(&serde_json::json!({
            "event": "job_planned",
            "time": jiff::Timestamp::now(),
            "job": store.plan().name,
            "folder": folder,
            "planned": planned,
        }));
        return exit::OK;
    }
    output::result(&format!(
        "job {}: {} planned",
        folder.display(),
        count(planned as u64, "trial")
    ));
    let work = format!("ralph-orchestrator bench work {}", quote_word(folder));
    output::info(&format!(
        "next: `{work}`, as often as you like, on every machine that sees this folder, the tasks and the configuration"
    ));
    exit::OK
}

/// Reports a job of which nothing is performed. Returns the exit status.
fn report_reused(mut store: JobStore, json: bool) -> Result<u8, CommandError> {
    store.leave(true);
    let folder = store.dir();
    let contents = JobContents::read(folder).map_err(|error| explain(error, folder))?;
    report::write_page(folder, &contents)?;
    if !json {
        report::print_summary(&contents);
    }
    let is_judged = contents.records.iter().any(TrialRecord::is_judged);
    let status = if is_judged { exit::OK } else { exit::LIMIT };
    Ok(finish(JobEnd::Stopped, folder, (&contents, false), json, status))
}

/// Says of each trial why no earlier result is taken, those of one reason in one line.
fn say_refused(refused: &[(TrialKey, String)]) {
    let mut by_reason: BTreeMap<&str, Vec<String>> = BTreeMap::new();
    for (key, reason) in refused {
        by_reason.entry(reason).or_default().push(key.to_string());
    }
    for (reason, trials) in by_reason {
        let named = trials.iter().take(NAMED_TRIALS).cloned().collect::<Vec<_>>().join("; ");
        let more = match trials.len().saturating_sub(NAMED_TRIALS) {
            0 => String::new(),
            count => format!("; and {count} more"),
        };
        output::info(&format!("not taken, {reason}: {named}{more}"));
    }
}

/// Leaves out tasks that have no verifier to deceive.
fn leave_out_own(tasks: &mut Vec<Task>) -> Result<(), CommandError> {
    for task in tasks.iter().filter(|task| !can_be_deceived(task)) {
        let why = "its validators decide within the run, so there is no verifier to deceive";
        output::info(&format!("left out: {}: {why}", task.name));
    }
    tasks.retain(can_be_deceived);
    if tasks.is_empty() {
        return Err(CommandError::config("no task is left whose verifier could be deceived"));
    }
    Ok(())
}

/// Refuses to begin where anything differs from the locks that it may not differ from.
fn require_locks(
    args: &RunArgs,
    earlier: &[(PathBuf, JobContents)],
    now: &JobLock,
) -> Result<(), CommandError> {
    let scope = match &args.locked {
        None => return Ok(()),
        Some(LockedTo::Path(path)) => {
            let path = absolute(path)?;
            let locked = JobLock::read(&path).map_err(|error| explain(error, &path))?;
            return require_lock(&path, &locked, now, LockScope::Machine);
        }
        Some(LockedTo::Reused(scope)) => *scope,
    };
    if earlier.is_empty() {
        let message = "`--locked=results` and `--locked=machine` compare with the jobs of `--reuse`, and none is named";
        return Err(
            CommandError::user(message).hinted("name one, or give `--locked` the folder of a job")
        );
    }
    earlier.iter().try_for_each(|(folder, contents)| match &contents.plan.lock {
        Some(locked) => require_lock(folder, locked, now, scope),
        None => Err(explain(JobError::NoLock { path: folder.clone() }, folder)),
    })
}

/// Refuses to begin where anything differs from a lock.
fn require_lock(
    path: &Path,
    locked: &JobLock,
    now: &JobLock,
    scope: LockScope,
) -> Result<(), CommandError> {
    let differences = locked.find_differences(now, scope);
    if differences.is_empty() {
        return Ok(());
    }
    let message =
        format!("not everything is as {} has it:\n  {}", path.display(), differences.join("\n  "));
    Err(CommandError::config(message).hinted(
        "restore what differs, or begin without `--locked`; the new job has a lock of its own",
    ))
}

/// Reads jobs whose trials may be taken.
fn read_earlier(folders: &[PathBuf]) -> Result<Vec<(PathBuf, JobContents)>, CommandError> {
    let mut jobs: Vec<(PathBuf, JobContents)> = Vec::new();
    for folder in folders {
        let folder = absolute(folder)?;
        let contents = JobContents::read(&folder).map_err(|error| explain(error, &folder))?;
        // Named twice, its trials are there once all the same.
        if jobs.iter().all(|(_, known)| known.plan.id != contents.plan.id) {
            jobs.push((folder, contents));
        }
    }
    Ok(jobs)
}

pub(crate) fn resume(args: &ResumeArgs) -> Result<u8, CommandError> {
    let folder = absolute(&args.job)?;
    let store = JobStore::open(&folder).map_err(|error| explain(error, &folder))?;
    let (setup, tasks) = load_as_planned(store.plan(), &folder)?;
    let contents = JobContents::read(&folder).map_err(|error| explain(error, &folder))?;
    let planned = contents.plan.trials().len();
    let again: Vec<Cause> = args.retry.iter().map(|cause| Cause::from(*cause)).collect();
    if contents.count_ended() == planned && again.is_empty() {
        let count = count(planned as u64, "trial");
        output::info(&format!("nothing is left to do: {count} planned, and all have ended"));
        if let Some((command, trials)) = suggest_retry(&folder, &contents) {
            output::info(&describe_retry(&command, trials));
        }
    }
    warn_of_changed_folders(store.plan(), &setup)?;
    perform(store, &setup, tasks, &args.going, &again)
}

/// Performs trials of a job beside others who do.
pub(crate) fn work(args: &WorkArgs) -> Result<u8, CommandError> {
    let folder = absolute(&args.job)?;
    let contents = JobContents::read(&folder).map_err(|error| explain(error, &folder))?;
    let (setup, tasks) = load_as_planned(&contents.plan, &folder)?;
    // What this machine lacks would be a fault of every trial that it takes.
    block_on(check::find_problems(&setup, &tasks))?.refuse()?;
    warn_of_changed_folders(&contents.plan, &setup)?;
    let mut store = JobStore::join(&folder).map_err(|error| explain(error, &folder))?;
    if let Some(concurrency) = args.concurrency {
        store.set_concurrency(concurrency);
    }
    perform(store, &setup, tasks, &args.going, &[])
}

/// Says which folders that trials see are not as they were: what others do there need not concern the agent.
fn warn_of_changed_folders(plan: &JobPlan, setup: &JobSetup) -> Result<(), CommandError> {
    let Some(planned) = &plan.lock else { return Ok(()) };
    for folder in lock::find_changed_folders(setup, planned)? {
        output::info(&format!(
            "warning: the contents of {folder}, which [sandbox] read names, have changed since the job was planned: \
             if the agent is there, its trials cannot be compared"
        ));
    }
    Ok(())
}

/// Returns the configuration and the tasks of a job, as they were planned.
pub(super) fn load_as_planned(
    plan: &JobPlan,
    folder: &Path,
) -> Result<(JobSetup, Vec<Task>), CommandError> {
    let setup = setup_of(plan)?;
    let tasks = load_planned(plan, &setup)?;
    require_plan(plan, &setup, folder)?;
    Ok((setup, tasks))
}

/// Refuses to go on where the configuration asks for another job than was planned.
fn require_plan(plan: &JobPlan, setup: &JobSetup, folder: &Path) -> Result<(), CommandError> {
    let bench = &setup.loaded.config.bench;
    let (planned, now) = (&plan.budgets, &budgets(bench));
    let dollars = |most: Option<Usd>| most.map_or_else(|| "none".to_owned(), short_usd);
    // Those of a job that is to cheat are chosen for it.
    let columns_now =
        if plan.goal.is_solve() { list_columns(setup)? } else { plan.columns.clone() };
    let names =
        |columns: &[Column]| columns.iter().map(Column::to_string).collect::<Vec<_>>().join(", ");
    let values = [
        ("bench.trials", plan.trials.to_string(), bench.trials.to_string()),
        ("bench.seed", plan.seed.to_string(), bench.seed.to_string()),
        ("bench.max_cost_usd", dollars(planned.job), dollars(now.job)),
        ("bench.max_cost_per_agent_usd", dollars(planned.agent), dollars(now.agent)),
        ("bench.max_cost_per_trial_usd", dollars(planned.trial), dollars(now.trial)),
        ("the columns (bench.agents, bench.variant)", names(&plan.columns), names(&columns_now)),
    ];
    let Some((key, was, is)) = values.into_iter().find(|(_, was, is)| was != is) else {
        return Ok(());
    };
    let verb = if key.starts_with("the ") { "are" } else { "is" };
    let message = format!(
        "{key} {verb} {is} now, and the job was planned with {was}, which cannot be changed"
    );
    Err(CommandError::config(message).hinted(format!(
        "restore it, or begin a new job with `bench run --reuse {}`, which performs only the further trials",
        folder.display()
    )))
}

/// Returns the configuration that a job was planned with.
pub(super) fn setup_of(plan: &JobPlan) -> Result<JobSetup, CommandError> {
    let file = match &plan.configuration {
        Some(file) => ConfigFile::named(file.clone()),
        None => ConfigFile::without_file()?,
    };
    load_setup(&file, &plan.sets)
}

/// Performs what is left of a job. Returns the exit status.
fn perform(
    mut store: JobStore,
    setup: &JobSetup,
    mut tasks: Vec<Task>,
    going: &GoingArgs,
    again: &[Cause],
) -> Result<u8, CommandError> {
    let folder = store.dir().to_owned();
    set_goal(&mut tasks, store.plan().goal);
    if !going.json {
        output::info(&format!("job {}", folder.display()));
    }
    let signals = signals::listen()?;
    let deadline = going.most.and_then(|time| Instant::now().checked_add(time));
    let containers = block_on(connect_engine(setup, &store))?;
    store.share().map_err(job_error)?;
    let runner = Runner::new(setup, tasks, signals.switch.clone(), signals.watch_requests())
        .with_containers(containers);
    let (end, interrupted) = std::thread::scope(|scope| {
        block_on(async {
            let reporter = JobReporter {
                is_json: going.json,
                until: going.until,
                plan: store.plan().clone(),
                line: find_line(&store, going.json).map_err(job_error)?,
                has_said_waits: Cell::default(),
            };
            let workers = Workers::new(scope, &runner);
            let stop = JobStop { requests: signals.job_stop_requests(), deadline };
            let schedule =
                Schedule::resume(&mut store, &workers, again).await.map_err(job_error)?;
            let end = {
                let job = run_job(&mut store, schedule, &workers, &reporter, &stop);
                tokio::pin!(job);
                let mut redraw = tokio::time::interval(REDRAW);
                loop {
                    tokio::select! {
                        end = &mut job => break end,
                        _ = redraw.tick() => reporter.draw(),
                    }
                }
            };
            output::set_live_line(None);
            let status = signals.status.load(std::sync::atomic::Ordering::Relaxed);
            Ok((end.map_err(job_error)?, status))
        })
    })?;
    let is_shared = !store.began_alone();
    drop(store);
    let contents = JobContents::read(&folder).map_err(|error| explain(error, &folder))?;
    report::write_page(&folder, &contents)?;
    if !going.json {
        report::print_summary(&contents);
    }
    Ok(finish(end, &folder, (&contents, is_shared), going.json, interrupted))
}

/// Returns what makes the containers of a job, if its trials are performed in containers. What an earlier start of it
/// left of them is removed, where no other process performs the job.
async fn connect_engine(
    setup: &JobSetup,
    store: &JobStore,
) -> Result<Option<JobContainers>, CommandError> {
    let isolation = setup.loaded.config.bench.isolation;
    if !IsolationRow::of(isolation).is_container() {
        return Ok(None);
    }
    let containers = JobContainers::connect(isolation, &setup.vars, &store.plan().id).await?;
    let removed = match store.began_alone() {
        true => containers.remove_leftovers().await?,
        false => Vec::new(),
    };
    for name in removed {
        output::info(&format!(
            "removed the container {name}, which an earlier start of this job left"
        ));
    }
    Ok(Some(containers))
}

/// Returns the line that shows how far the job is; none where nobody sees it move.
fn find_line(store: &JobStore, json: bool) -> Result<Option<Mutex<JobLine>>, JobError> {
    if json || !output::has_live_line() {
        return Ok(None);
    }
    let records = JobContents::read(store.dir())?.records;
    let plan = store.plan();
    Ok(Some(Mutex::new(JobLine::new(plan.columns.clone(), plan.budgets.job, &records))))
}

/// Says how the job ended, and what to do next. Returns the exit status.
fn finish(
    end: JobEnd,
    folder: &Path,
    (contents, is_shared): (&JobContents, bool),
    json: bool,
    interrupted: u8,
) -> u8 {
    let left = contents.plan.trials().len().saturating_sub(contents.count_ended());
    // What others perform, or may, one more can join.
    let command = if contents.is_running || is_shared { "work" } else { "resume" };
    let resume = format!("`ralph-orchestrator bench {command} {}`", folder.display());
    let (word, status) = match end {
        // No score is no result.
        JobEnd::Finished if !contents.records.iter().any(TrialRecord::is_judged) => {
            ("finished", exit::LIMIT)
        }
        JobEnd::Finished => ("finished", exit::OK),
        JobEnd::Decided => ("decided", exit::OK),
        JobEnd::Stopped => ("stopped", interrupted),
        JobEnd::OutOfBudget => ("out_of_budget", exit::LIMIT),
    };
    let retry = suggest_retry(folder, contents);
    if json {
        output::json(&serde_json::json!({
            "event": "job_finished",
            "time": jiff::Timestamp::now(),
            "job": contents.plan.name,
            "end": word,
            "exit_code": status,
            "folder": folder,
            "retry": retry.as_ref().map(|(command, _)| command),
        }));
        return status;
    }
    let left = count(left as u64, "trial");
    output::info(&match end {
        JobEnd::Finished if status != exit::OK => {
            "no trial was judged; the lines above say what kept each from it".to_owned()
        }
        JobEnd::Finished => format!("report: {}", folder.join(PAGE).display()),
        JobEnd::Decided => {
            format!("ended early, since every score is known well enough; {left} not begun")
        }
        JobEnd::Stopped => format!("{left} left; {resume} performs them"),
        JobEnd::OutOfBudget => format!(
            "the money is used up, {left} left; a new job with a higher {} and `--reuse {}` performs them",
            if contents.plan.budgets.job.is_some() {
                "bench.max_cost_usd"
            } else {
                "bench.max_cost_per_agent_usd"
            },
            folder.display()
        ),
    });
    if let Some((command, trials)) = retry {
        output::info(&describe_retry(&command, trials));
    }
    status
}

/// Returns the command that performs trials again that are not judged, since this machine or the provider failed, and how many
/// these are. None if there are none.
fn suggest_retry(folder: &Path, contents: &JobContents) -> Option<(String, u64)> {
    let mut causes: BTreeSet<&str> = BTreeSet::new();
    let mut trials = 0;
    for record in contents.last_records().values().filter(|record| !record.is_judged()) {
        let cause = record.fault.as_ref().map(|fault| fault.cause);
        let mut retried = RetriedCause::value_variants().iter();
        let Some(retried) = retried.find(|value| Some(Cause::from(**value)) == cause) else {
            continue;
        };
        causes.insert(retried.word());
        trials += 1;
    }
    let causes: Vec<&str> = causes.into_iter().collect();
    let folder = quote_word(folder);
    (trials > 0).then(|| {
        (format!("ralph-orchestrator bench resume {folder} --retry {}", causes.join(",")), trials)
    })
}

/// Says what a person can do about trials that are not judged.
fn describe_retry(command: &str, trials: u64) -> String {
    let trials = count(trials, "trial");
    format!(
        "not judged for want of provider or machine: {trials}; once the cause is gone, `{command}` performs them again"
    )
}
