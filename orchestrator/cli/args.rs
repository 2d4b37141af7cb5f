//! What can be said on the command line.

use std::path::PathBuf;

use clap::{Parser, Subcommand};

/// Keeps a coding agent in a loop until the work is proved done.
#[derive(Debug, Parser)]
#[command(name = "ralph-orchestrator", version, max_term_width = 100)]
#[command(after_help = "Exit status: 0 completed, 1 stopped by a limit, 2 a human is needed, \
64 usage, 65 state damaged, 69 agent not available, 70 internal error, 75 workspace busy, \
78 configuration wrong, 130 and 143 interrupted.")]
pub(crate) struct Args {
    /// The configuration file [default: ralph.toml]
    #[arg(short, long, global = true, value_name = "FILE")]
    pub(crate) config: Option<PathBuf>,
    #[command(subcommand)]
    pub(crate) command: Command,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Run the loop, or go on with a run that was stopped
    Run(Run),
    /// Say how the run of this workspace stands
    Status(Status),
    /// Show what happened, or the transcript of an iteration
    Log(Log),
    /// List the runs of this workspace, the newest first
    Runs(Runs),
    /// Explain the run: claims and verdicts, what changed, what it cost, and what to do next
    Why(Why),
    /// Answer an agent that asked for a human
    Answer(Answer),
    /// Stop the run that goes on in this workspace
    Stop(Stop),
    /// Forget all runs of this workspace
    Reset(Reset),
    /// Write a ralph.toml and a PROMPT.md to start from; an existing prompt is kept
    Init(Init),
    /// Check configuration, agent, workspace and state
    Doctor(Doctor),
    /// Write the transcripts of the run for other tools, one file for each iteration
    Export(Export),
    /// Look at the configuration
    #[command(subcommand)]
    Config(Config),
    /// List the adapters and what they can do
    Agents(Agents),
    /// Look at plugins, begin one, and test one
    #[command(subcommand)]
    Plugin(Plugin),
    /// Serve a plugin library over stdio; started by ralph-orchestrator itself
    #[command(hide = true)]
    PluginHost(PluginHost),
    /// Write completions for a shell
    Completions(Completions),
}

/// Values set on the command line.
#[derive(Debug, Default, clap::Args)]
pub(crate) struct Sets {
    /// Set a key of the configuration, such as limits.max_cost_usd=5
    #[arg(long = "set", value_name = "KEY=VALUE", value_parser = key_value)]
    pub(crate) sets: Vec<(String, String)>,
}

fn key_value(text: &str) -> Result<(String, String), String> {
    match text.split_once('=') {
        Some((key, value)) if !key.trim().is_empty() => {
            Ok((key.trim().to_owned(), value.trim().to_owned()))
        }
        _ => Err("expected KEY=VALUE, such as limits.max_cost_usd=5".into()),
    }
}

#[derive(Debug, clap::Args)]
pub(crate) struct Run {
    /// Use the agent of `[agents.NAME]` instead of that of `[agent]`
    #[arg(long, value_name = "NAME")]
    pub(crate) agent: Option<String>,
    /// Stop after one iteration
    #[arg(long)]
    pub(crate) once: bool,
    /// Begin a new run, whatever became of the last one
    #[arg(long)]
    pub(crate) restart: bool,
    /// Check everything and say what would be run, but start nothing
    #[arg(long)]
    pub(crate) dry_run: bool,
    /// Print one JSON object per line and event on stdout
    #[arg(long)]
    pub(crate) json: bool,
    /// Show the agent's text and tool calls as they come; twice: what the program itself does, too
    #[arg(short, long, action = clap::ArgAction::Count)]
    pub(crate) verbose: u8,
    /// Shorthand for --set limits.max_iterations=N
    #[arg(long, value_name = "N")]
    pub(crate) max_iterations: Option<u64>,
    /// Shorthand for --set limits.max_cost_usd=USD
    #[arg(long, value_name = "USD")]
    pub(crate) max_cost: Option<String>,
    /// Shorthand for --set limits.max_runtime=DURATION
    #[arg(long, value_name = "DURATION")]
    pub(crate) max_runtime: Option<String>,
    #[command(flatten)]
    pub(crate) sets: Sets,
}

#[derive(Debug, clap::Args)]
pub(crate) struct Runs {
    /// Print one JSON array
    #[arg(long)]
    pub(crate) json: bool,
    #[command(flatten)]
    pub(crate) sets: Sets,
}

#[derive(Debug, clap::Args)]
pub(crate) struct Status {
    /// Show an earlier run, by the beginning of its id: see `runs`
    #[arg(long, value_name = "ID")]
    pub(crate) run: Option<String>,
    /// Print one JSON object
    #[arg(long)]
    pub(crate) json: bool,
    #[command(flatten)]
    pub(crate) sets: Sets,
}

#[derive(Debug, clap::Args)]
pub(crate) struct Why {
    /// Explain an earlier run, by the beginning of its id: see `runs`
    #[arg(long, value_name = "ID")]
    pub(crate) run: Option<String>,
    /// Print one JSON object
    #[arg(long)]
    pub(crate) json: bool,
    #[command(flatten)]
    pub(crate) sets: Sets,
}

#[derive(Debug, clap::Args)]
pub(crate) struct Log {
    /// Show this iteration: its prompt's feedback, text and tool calls
    pub(crate) iteration: Option<u64>,
    /// With an iteration: print the prompt that the agent read, byte for byte but for secrets
    #[arg(long, requires = "iteration")]
    pub(crate) prompt: bool,
    /// With an iteration: print the agent's raw output lines
    #[arg(long, requires = "iteration", conflicts_with = "prompt")]
    pub(crate) raw: bool,
    /// With an iteration: print its transcript as an ATIF v1.8 trajectory
    #[arg(long, requires = "iteration", conflicts_with_all = ["prompt", "raw"])]
    pub(crate) atif: bool,
    /// Name what two iterations were given differently
    #[arg(long, num_args = 2, value_names = ["A", "B"], conflicts_with_all = ["iteration", "follow"])]
    pub(crate) diff: Vec<u64>,
    /// Print what was the same in all iterations of the run, and what varied
    #[arg(long, conflicts_with_all = ["iteration", "follow", "diff"])]
    pub(crate) determinism: bool,
    /// Follow new records until the run ends; with an iteration, its transcript until it ends
    #[arg(short, long, conflicts_with_all = ["prompt", "atif", "run"])]
    pub(crate) follow: bool,
    /// Show the agent's text and tool calls between the records
    #[arg(short, long, conflicts_with_all = ["iteration", "diff", "determinism", "json"])]
    pub(crate) verbose: bool,
    /// Show an earlier run, by the beginning of its id: see `runs`
    #[arg(long, value_name = "ID")]
    pub(crate) run: Option<String>,
    /// Print the records, or the transcript, as JSON lines
    #[arg(long)]
    pub(crate) json: bool,
    #[command(flatten)]
    pub(crate) sets: Sets,
}

#[derive(Debug, clap::Args)]
pub(crate) struct Export {
    /// The folder for the ATIF v1.8 trajectories 0001.json, 0002.json, …; made if need be
    pub(crate) folder: PathBuf,
    #[command(flatten)]
    pub(crate) sets: Sets,
}

#[derive(Debug, clap::Args)]
pub(crate) struct Answer {
    /// What the agent is told at the head of its next prompt
    pub(crate) text: String,
    #[command(flatten)]
    pub(crate) sets: Sets,
}

#[derive(Debug, clap::Args)]
pub(crate) struct Stop {
    /// Return at once instead of waiting until the run has ended
    #[arg(long)]
    pub(crate) no_wait: bool,
    #[command(flatten)]
    pub(crate) sets: Sets,
}

#[derive(Debug, clap::Args)]
pub(crate) struct Reset {
    /// Do not ask
    #[arg(short, long)]
    pub(crate) yes: bool,
    #[command(flatten)]
    pub(crate) sets: Sets,
}

#[derive(Debug, clap::Args)]
pub(crate) struct Init {
    /// The command that proves the work done, such as --test "cargo test"
    #[arg(long, value_name = "COMMAND")]
    pub(crate) test: Option<String>,
    /// Overwrite an existing ralph.toml, but never a prompt
    #[arg(long)]
    pub(crate) force: bool,
}

#[derive(Debug, clap::Args)]
pub(crate) struct Doctor {
    /// Print one JSON object
    #[arg(long)]
    pub(crate) json: bool,
    #[command(flatten)]
    pub(crate) sets: Sets,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Config {
    /// Print every value and where it comes from
    Show {
        /// Print one JSON object
        #[arg(long)]
        json: bool,
        #[command(flatten)]
        sets: Sets,
    },
    /// Check the configuration without running anything
    Check {
        #[command(flatten)]
        sets: Sets,
    },
    /// Print the JSON Schema of ralph.toml
    Schema,
}

#[derive(Debug, clap::Args)]
pub(crate) struct Agents {
    /// Print one JSON array
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Plugin {
    /// List the plugins of ralph.toml, what they provide, and their digests
    List {
        /// Print one JSON array
        #[arg(long)]
        json: bool,
        #[command(flatten)]
        sets: Sets,
    },
    /// Say everything that is wrong with a library, before any of its code runs
    Check {
        /// The library
        file: PathBuf,
        /// Print one JSON object
        #[arg(long)]
        json: bool,
    },
    /// Write a crate for a plugin that builds, passes its tests, and runs in a loop
    New(NewPlugin),
    /// Examine a plugin in everything that has to hold for it
    Test(TestPlugin),
}

/// What a plugin provides.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Kind {
    /// Does the work of an iteration
    Agent,
    /// Finds claims that the task is complete
    Detector,
    /// Decides whether a claim stands
    Validator,
}

#[derive(Debug, clap::Args)]
pub(crate) struct NewPlugin {
    /// The name of the crate, and of the plugin in ralph.toml
    pub(crate) name: String,
    /// What it provides
    #[arg(long, value_enum)]
    pub(crate) kind: Kind,
    /// The folder that is made [default: the name]
    #[arg(long, value_name = "DIR")]
    pub(crate) path: Option<PathBuf>,
    /// The folder of the SDK's source, instead of its version on a registry
    #[arg(long, value_name = "PATH")]
    pub(crate) sdk: Option<PathBuf>,
}

/// Where the code of a library runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Where {
    /// In a process of its own
    Process,
    /// In this process, which it can take down
    None,
}

#[derive(Debug, clap::Args)]
pub(crate) struct TestPlugin {
    /// A library, or the name of a plugin in ralph.toml
    pub(crate) plugin: PathBuf,
    /// What its items are built with, and what they do without: a TOML file with `[config]`, `[env]`
    /// and `[[without]]`
    #[arg(long, value_name = "FILE")]
    pub(crate) kit: Option<PathBuf>,
    /// Only so [default: process, and then none]
    #[arg(long, value_enum)]
    pub(crate) isolation: Option<Where>,
}

#[derive(Debug, clap::Args)]
pub(crate) struct PluginHost {
    /// The private copy of the library
    pub(crate) library: PathBuf,
}

#[derive(Debug, clap::Args)]
pub(crate) struct Completions {
    /// The shell
    pub(crate) shell: clap_complete::Shell,
}
