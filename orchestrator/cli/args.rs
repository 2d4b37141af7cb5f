//! The command line: global options and commands. The arguments of a command are in `commands`, groups and
//! examples in `help.rs`.

use std::path::PathBuf;

use clap::{Parser, Subcommand};
use ralph_orchestrator_attach::HookCommand;
#[cfg(feature = "bench")]
use ralph_orchestrator_bench_command::BenchCommand;
use ralph_orchestrator_init::InitArgs;
use ralph_orchestrator_plugin_command::{PluginCommand, PluginHostArgs};

use crate::commands::add::AddArgs;
use crate::commands::agents::AgentsArgs;
use crate::commands::answer::AnswerArgs;
use crate::commands::budget::BudgetArgs;
use crate::commands::completions::CompletionsArgs;
use crate::commands::config::ConfigCommand;
use crate::commands::diff::DiffArgs;
use crate::commands::doctor::DoctorArgs;
use crate::commands::export::ExportArgs;
use crate::commands::go::GoArgs;
use crate::commands::limits::LimitsArgs;
use crate::commands::log::LogArgs;
use crate::commands::man::ManArgs;
use crate::commands::mcp::McpArgs;
use crate::commands::new::NewArgs;
use crate::commands::next::NextArgs;
use crate::commands::notify::NotifyArgs;
use crate::commands::pause::{PauseArgs, ResumeArgs};
use crate::commands::prompts::PromptsCommand;
use crate::commands::receipt::ReceiptArgs;
use crate::commands::rehearse::RehearseArgs;
use crate::commands::report::ReportArgs;
use crate::commands::reset::ResetArgs;
use crate::commands::rollback::RollbackArgs;
use crate::commands::run::RunArgs;
use crate::commands::runs::RunsArgs;
#[cfg(feature = "web")]
use crate::commands::serve::ServeArgs;
use crate::commands::skip::ItemArgs;
use crate::commands::status::StatusArgs;
use crate::commands::steer::SteerArgs;
use crate::commands::stop::StopArgs;
use crate::commands::trust::TrustArgs;
use crate::commands::verify::VerifyArgs;
#[cfg(feature = "watch")]
use crate::commands::watch::WatchArgs;
use crate::commands::why::WhyArgs;

/// Keep a coding agent in a loop until the work is proved done
#[derive(Debug, Parser)]
#[command(name = "ralph-orchestrator", version, max_term_width = 100)]
pub(crate) struct CommandLine {
    /// Configuration file [default: ralph.toml, here or above]
    #[arg(short, long, global = true, value_name = "FILE")]
    pub(crate) config: Option<PathBuf>,
    /// Workspace, or a run's id, instead of a file
    #[arg(short, long, global = true, value_name = "DIR", conflicts_with_all = ["config", "task"])]
    pub(crate) workspace: Option<String>,
    /// Task below .ralph, such as ralph-1 or 1
    #[arg(long, global = true, value_name = "TASK")]
    pub(crate) task: Option<String>,
    /// Print only results and errors
    #[arg(short, long, global = true)]
    pub(crate) quiet: bool,
    /// Lead a session of its own; given by `run --detach` to the process that it starts
    #[arg(long, hide = true)]
    pub(crate) detached: bool,
    #[command(subcommand)]
    pub(crate) command: Command,
}

#[derive(Debug, Subcommand)]
#[command(defer = true)]
pub(crate) enum Command {
    /// Start a run, or resume the one that was stopped
    Run(RunArgs),
    /// Make the folder of a new task, with a plan
    New(NewArgs),
    /// Work on a task: `go 1` is `run --task ralph-1`
    Go(GoArgs),
    /// Show the current run's status
    Status(StatusArgs),
    /// Show what happened, or one iteration's transcript
    Log(LogArgs),
    /// List the runs of this workspace, whatever their configuration
    Runs(RunsArgs),
    /// Show what all your runs have used of the budget
    Budget(BudgetArgs),
    /// Show all runs on the whole terminal, and control them
    #[cfg(feature = "watch")]
    Watch(WatchArgs),
    /// Serve a web page and an interface that show all runs
    #[cfg(feature = "web")]
    Serve(ServeArgs),
    /// Explain a run: claims, verdicts, changes, cost, next step
    Why(WhyArgs),
    /// Show the item of the backlog that is worked on next
    Next(NextArgs),
    /// Add an item to the backlog, at any time
    Add(AddArgs),
    /// Go on without an item of the backlog
    Skip(ItemArgs),
    /// Work again on an item that is blocked or skipped
    Retry(ItemArgs),
    /// Compare the checkpoints of two iterations
    Diff(DiffArgs),
    /// List the run's checkpoints, or restore the files of one
    Rollback(RollbackArgs),
    #[command(flatten)]
    Control(ControlCommand),
    /// Delete all runs of this configuration
    Reset(ResetArgs),
    /// Write a ralph.toml and a PROMPT.md to start from
    Init(InitArgs),
    /// Accept a configuration that changed where an agent could write it
    Trust(TrustArgs),
    /// Check configuration, agent, workspace and state
    Doctor(DoctorArgs),
    /// Try what agents do to checks, without an agent
    Rehearse(RehearseArgs),
    /// Run the checks once, without an agent, or verify a receipt
    Verify(VerifyArgs),
    /// Have the checks decide when a session of your own may end
    #[command(subcommand)]
    Hook(HookCommand),
    /// Send each receiver of notices a test
    Notify(NotifyArgs),
    /// Sign a statement that a run's work was accepted
    Receipt(ReceiptArgs),
    /// Write a page about the run to a file
    Report(ReportArgs),
    /// Write the run's transcripts as ATIF files, or a trace
    Export(ExportArgs),
    /// Show or check the configuration
    #[command(subcommand)]
    Config(ConfigCommand),
    /// Show, or write to be edited, the prompts of roles
    #[command(subcommand)]
    Prompts(PromptsCommand),
    /// List the adapters and what they can do
    Agents(AgentsArgs),
    /// Inspect, create and test plugins
    #[command(subcommand)]
    Plugin(PluginCommand),
    /// Serve a plugin library over stdio; started by ralph-orchestrator itself
    #[command(hide = true)]
    PluginHost(PluginHostArgs),
    /// Serve an agent the tools of its iteration over stdio; started by the agent
    #[command(hide = true)]
    Mcp(McpArgs),
    /// Benchmark agents on tasks, and report with honest statistics
    #[cfg(feature = "bench")]
    #[command(subcommand)]
    Bench(BenchCommand),
    /// Print the completion script of a shell
    Completions(CompletionsArgs),
    /// Write the manual pages, for packages
    #[command(hide = true)]
    Man(ManArgs),
}

/// What people ask of a run.
#[derive(Debug, Subcommand)]
#[command(defer = true)]
pub(crate) enum ControlCommand {
    /// Give the agent guidance, at once or in its next prompt
    Steer(SteerArgs),
    /// Answer the agent's question, or give it guidance
    Answer(AnswerArgs),
    /// Start no further iteration until `resume`
    Pause(PauseArgs),
    /// End the pause of a run
    Resume(ResumeArgs),
    /// Show the run's limits, or change them while it is active
    Limits(LimitsArgs),
    /// Stop the active run of this configuration
    Stop(StopArgs),
}

impl Command {
    /// Returns whether the command works on a configuration, which may lie in a parent folder.
    pub(crate) const fn uses_config(&self) -> bool {
        if let Self::Hook(command) = self {
            return command.uses_config();
        }
        #[cfg(feature = "web")]
        if matches!(self, Self::Serve(_)) {
            return false;
        }
        !matches!(
            self,
            Self::Init(_)
                | Self::Budget(_)
                | Self::Completions(_)
                | Self::Man(_)
                | Self::PluginHost(_)
                | Self::Mcp(_)
                | Self::Config(ConfigCommand::Schema)
                | Self::Plugin(PluginCommand::New(_) | PluginCommand::Sdk(_))
        )
    }

    /// Has the command show this run, if it can show an earlier one and none is named.
    pub(crate) fn show_run(&mut self, run: Option<String>) {
        let shown = match self {
            Self::Status(status) => &mut status.run,
            Self::Why(why) => &mut why.run,
            Self::Log(log) if !log.follow => &mut log.run,
            Self::Diff(diff) => &mut diff.run,
            Self::Report(report) => &mut report.run,
            Self::Export(export) => &mut export.run,
            Self::Receipt(receipt) => &mut receipt.run,
            // These follow or change the current run, or are about none.
            Self::Log(_)
            | Self::Rollback(_)
            | Self::Run(_)
            | Self::New(_)
            | Self::Go(_)
            | Self::Runs(_)
            | Self::Budget(_)
            | Self::Next(_)
            | Self::Add(_)
            | Self::Skip(_)
            | Self::Retry(_)
            | Self::Control(_)
            | Self::Reset(_)
            | Self::Init(_)
            | Self::Trust(_)
            | Self::Doctor(_)
            | Self::Rehearse(_)
            | Self::Verify(_)
            | Self::Hook(_)
            | Self::Notify(_)
            | Self::Config(_)
            | Self::Prompts(_)
            | Self::Agents(_)
            | Self::Plugin(_)
            | Self::PluginHost(_)
            | Self::Mcp(_)
            | Self::Completions(_)
            | Self::Man(_) => return,
            #[cfg(feature = "watch")]
            Self::Watch(_) => return,
            #[cfg(feature = "web")]
            Self::Serve(_) => return,
            #[cfg(feature = "bench")]
            Self::Bench(_) => return,
        };
        *shown = shown.take().or(run);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commands_that_can_show_an_earlier_run_show_the_one_that_is_meant() {
        for (line, is_shown) in [
            ("status", true),
            ("why", true),
            ("log", true),
            ("log --follow", false),
            ("diff", true),
            ("report --html page.html", true),
            ("export folder", true),
            ("receipt", true),
            ("rollback", false),
            ("status --run named", false),
        ] {
            let words = std::iter::once("ralph-orchestrator").chain(line.split(' '));
            let mut command = CommandLine::try_parse_from(words).unwrap().command;
            command.show_run(Some("meant".to_owned()));
            assert_eq!(format!("{command:?}").contains("meant"), is_shown, "{line}");
        }
    }
}
