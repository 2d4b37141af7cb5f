//! The command `bench`: its arguments, and what it prints. Must not know how trials are performed.

mod check;
mod cluster;
mod compare;
mod deep_check;
mod export;
mod hidden_folder;
mod import;
mod job_error;
mod job_line;
mod mine;
mod missing_programs;
mod observer;
mod plan;
mod regrade;
mod report;
mod run;
mod status;
mod validate;

use std::path::PathBuf;

use clap::builder::PossibleValuesParser;
use ralph_orchestrator_assembly::context::Context;
use ralph_orchestrator_assembly::discovery::ConfigFile;
use ralph_orchestrator_assembly::error::CommandError;
use ralph_orchestrator_assembly::plugins::Plugins;
pub use ralph_orchestrator_bench_run::mining::{ChangedFileKind, ProjectTests, TestCommand};
use ralph_orchestrator_bench_run::trial_config::known_agents;
use ralph_orchestrator_bench_run::{JobSetup, absolute};
use ralph_orchestrator_config::{Isolation, toml_text};
use ralph_orchestrator_terminal::set_args::SetArgs;
use ralph_orchestrator_terminal::trust;
use ralph_orchestrator_terminal::values;
use serde_json::json;

/// Benchmark agents on tasks, with honest statistics
#[derive(Debug, clap::Subcommand)]
#[command(defer = true)]
pub enum BenchCommand {
    /// Perform a new job: agents and variants, on tasks, several times
    Run(run::RunArgs),
    /// Perform what is left of a job
    Resume(run::ResumeArgs),
    /// Perform trials of a job beside other processes that do, on one machine or on several
    Work(run::WorkArgs),
    /// Have the engine of a cluster start workers of a job
    Submit(cluster::SubmitArgs),
    /// End the workers of a job that were submitted
    Cancel(cluster::CancelArgs),
    /// Check configuration, tasks, agents and isolation, without starting an agent
    Check(check::CheckArgs),
    /// Perform tasks by oracle and nop; exit status 1 if nop is rewarded, or oracle is not
    Validate(validate::ValidateArgs),
    /// Say how many trials, and dollars, it takes to detect a difference
    Plan(plan::PlanArgs),
    /// Show how far a job is
    Status(status::StatusArgs),
    /// Report a job: table, Markdown, JSON Lines or a page
    Report(report::ReportArgs),
    /// Write a job as a job directory of Harbor, with its trajectories
    Export(export::ExportArgs),
    /// Ask agents to pass the tests without doing the tasks: which tasks can be cheated
    Cheat(run::RunArgs),
    /// Verify the work of finished trials again, without any agent
    Regrade(regrade::RegradeArgs),
    /// Make a task of a completed run: the workspace before it, its validators, and its work as the solution
    Import(import::ImportArgs),
    /// Make tasks of the commits of a repository that change code and tests: their tests verify the work
    Mine(mine::MineArgs),
    /// Compare two columns of a job; exit status 1 if the second is significantly worse
    Compare(compare::CompareArgs),
}

/// Performs `bench`. `project` knows how projects are tested.
///
/// # Errors
/// The configuration or a task is wrong, or what is asked for cannot be done.
pub fn bench(
    file: &ConfigFile,
    command: BenchCommand,
    project: &'static dyn ProjectTests,
) -> Result<u8, CommandError> {
    match command {
        BenchCommand::Run(args) => run::run(file, &args),
        BenchCommand::Resume(args) => run::resume(&args),
        BenchCommand::Work(args) => run::work(&args),
        BenchCommand::Submit(args) => cluster::submit(&args),
        BenchCommand::Cancel(args) => cluster::cancel(&args),
        BenchCommand::Check(args) => check::check(file, &args),
        BenchCommand::Validate(args) => validate::validate(file, args),
        BenchCommand::Plan(args) => plan::plan(&args),
        BenchCommand::Status(args) => status::status(&args),
        BenchCommand::Report(args) => report::report(&args),
        BenchCommand::Export(args) => export::export(&args),
        BenchCommand::Cheat(args) => run::cheat(file, &args),
        BenchCommand::Regrade(args) => regrade::regrade(&args),
        BenchCommand::Import(args) => import::import(file, &args),
        BenchCommand::Mine(args) => mine::mine(file, args, project),
        BenchCommand::Compare(args) => compare::compare(&args),
    }
}

// What a job compares, instead of what `[bench]` says. No documentation comment, see `SetArgs`.
#[expect(missing_docs, reason = "it would be a part of the help")]
#[derive(Debug, Default, clap::Args)]
pub struct MatrixArgs {
    /// Agents to compare: names of `[agents]`, adapters, `agent` for that of `[agent]`, oracle or nop
    #[arg(long, value_name = "NAME", value_delimiter = ',')]
    agents: Vec<String>,
    /// Folder of a task, or with tasks in it; repeat it for several
    #[arg(long, value_name = "DIR")]
    tasks: Vec<PathBuf>,
    /// Trials of each agent and variant on each task
    #[arg(long, value_name = "N", value_parser = values::number)]
    trials: Option<String>,
    /// Trials at the same time
    #[arg(short = 'n', long, value_name = "N", value_parser = values::number)]
    concurrency: Option<String>,
    /// What decides the order of the trials
    #[arg(long, value_name = "NUMBER")]
    seed: Option<u64>,
    /// What a trial sees of this machine
    #[arg(long, value_name = "KIND", value_parser = PossibleValuesParser::new(Isolation::WORDS))]
    isolation: Option<String>,
    /// What this machine has of what tasks install, such as pip:pytest; repeat it for several
    #[arg(long, value_name = "PACKAGE")]
    provided: Vec<String>,
    /// Run RUN lines of tasks that this machine does not provide, once for each task, without network or with it
    #[arg(
        long,
        value_name = "NETWORK",
        num_args = 0..=1,
        require_equals = true,
        default_missing_value = "no-network",
        value_parser = ["off", "no-network", "public"]
    )]
    setup: Option<String>,
    /// Take the agent's word that a trial is over, where no `[[bench.validator]]` decides
    #[arg(long)]
    trust_agent: bool,
    /// Verify the work after each iteration, too, once a trial is over
    #[arg(long)]
    curve: bool,
    /// Most dollars that the job may cost, or none
    #[arg(long, value_name = "USD", value_parser = values::dollars)]
    max_cost: Option<String>,
    #[command(flatten)]
    sets: SetArgs,
}

impl MatrixArgs {
    /// Returns these arguments as keys of the configuration and their values.
    fn to_sets(&self) -> Result<Vec<(String, String)>, CommandError> {
        let mut sets = self.sets.sets.clone();
        let mut add = |key: &str, text: String| sets.push((format!("bench.{key}"), text));
        if !self.agents.is_empty() {
            add("agents", toml_text(&json!(self.agents)));
        }
        if !self.tasks.is_empty() {
            let paths =
                self.tasks.iter().map(|path| absolute(path)).collect::<Result<Vec<_>, _>>()?;
            add("tasks", toml_text(&json!(paths)));
        }
        if !self.provided.is_empty() {
            add("provided", toml_text(&json!(self.provided)));
        }
        let numbers = [
            ("trials", self.trials.clone()),
            ("concurrency", self.concurrency.clone()),
            ("seed", self.seed.map(|seed| seed.to_string())),
            ("max_cost_usd", self.max_cost.as_ref().map(|text| toml_value(text))),
            ("isolation", self.isolation.as_ref().map(|kind| toml_text(&json!(kind)))),
            ("setup", self.setup.as_ref().map(|kind| toml_text(&json!(kind)))),
            ("trust_agent", self.trust_agent.then(|| "true".to_owned())),
            ("curve", self.curve.then(|| "true".to_owned())),
        ];
        for (key, text) in numbers {
            if let Some(text) = text {
                add(key, text);
            }
        }
        Ok(sets)
    }
}

/// Returns a number as it is, and a word as text.
fn toml_value(text: &str) -> String {
    if text.parse::<f64>().is_ok() { text.to_owned() } else { toml_text(&json!(text)) }
}

/// Reads the configuration of a job, as far as a person accepts it.
///
/// # Errors
/// It is wrong or not accepted, or a plugin cannot be used.
fn load_setup(file: &ConfigFile, sets: &[(String, String)]) -> Result<JobSetup, CommandError> {
    let (context, sources) = Context::load_with_sources(file, JobSetup::overrides(sets))?;
    let context = trust::settle(context, sets)?;
    trust::accept_silently(&context)?;
    JobSetup::new(context, sources)
}

/// Returns what can be compared: the agents of the configuration of this folder, and all adapters. None where that cannot be
/// read.
#[must_use]
pub fn compared_agents() -> Vec<String> {
    let context = ConfigFile::find(None).and_then(|file| Context::load(&file, Vec::new())).ok();
    let known =
        |context: Context| known_agents(&context.loaded, &Plugins::none(&context.compiled_in));
    context.map(known).unwrap_or_default()
}
