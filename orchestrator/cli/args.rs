//! What can be said on the command line. Groups and examples are in `help.rs`.

use std::path::PathBuf;

use clap::{Parser, Subcommand};

use crate::values::{self, Shell};

/// Keep a coding agent in a loop until the work is proved done
#[derive(Debug, Parser)]
#[command(name = "ralph-orchestrator", version, max_term_width = 100)]
pub(crate) struct Args {
    /// Configuration file [default: ralph.toml, here or above]
    #[arg(short, long, global = true, value_name = "FILE")]
    pub(crate) config: Option<PathBuf>,
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
pub(crate) enum Command {
    /// Start a run, or resume the one that was stopped
    Run(Run),
    /// Show the current run's status
    Status(Status),
    /// Show what happened, or one iteration's transcript
    Log(Log),
    /// List the runs of this workspace, the newest first
    Runs(Runs),
    /// Explain a run: claims, verdicts, changes, cost, next step
    Why(Why),
    /// Answer the agent's question, or give it guidance
    Answer(Answer),
    /// Stop the active run of this configuration
    Stop(Stop),
    /// Delete the run state of this configuration
    Reset(Reset),
    /// Write a ralph.toml and a PROMPT.md to start from
    Init(Init),
    /// Check configuration, agent, workspace and state
    Doctor(Doctor),
    /// Write the run's transcripts as ATIF files
    Export(Export),
    /// Show or check the configuration
    #[command(subcommand)]
    Config(Config),
    /// List the adapters and what they can do
    Agents(Agents),
    /// Inspect, create and test plugins
    #[command(subcommand)]
    Plugin(Plugin),
    /// Serve a plugin library over stdio; started by ralph-orchestrator itself
    #[command(hide = true)]
    PluginHost(PluginHost),
    /// Print the completion script of a shell
    Completions(Completions),
    /// Write the manual pages, for packages
    #[command(hide = true)]
    Man(Man),
}

impl Command {
    /// Whether it is about a configuration, which may lie in a folder above.
    pub(crate) const fn uses_config(&self) -> bool {
        !matches!(
            self,
            Self::Init(_)
                | Self::Completions(_)
                | Self::Man(_)
                | Self::PluginHost(_)
                | Self::Config(Config::Schema)
                | Self::Plugin(Plugin::New(_) | Plugin::Check { .. })
        )
    }
}

/// Values set on the command line.
#[derive(Debug, Default, clap::Args)]
pub(crate) struct Sets {
    /// Set a key of the configuration, such as limits.max_cost_usd=5
    #[arg(long = "set", value_name = "KEY=VALUE", value_parser = values::key_value)]
    pub(crate) sets: Vec<(String, String)>,
}

#[derive(Debug, clap::Args)]
pub(crate) struct Run {
    /// What to do, in a sentence; needs no ralph.toml. The checks decide after each iteration
    #[arg(long, value_name = "TEXT", conflicts_with = "prompt", help_heading = "Task")]
    pub(crate) goal: Option<String>,
    /// Command that proves the work done: exit status 0 accepts. Repeat it for several
    #[arg(long = "check", value_name = "COMMAND", help_heading = "Task")]
    pub(crate) checks: Vec<String>,
    /// The prompt itself, instead of the file of `run.prompt`
    #[arg(short, long, value_name = "TEXT", help_heading = "Task")]
    pub(crate) prompt: Option<String>,
    /// Use the agent of `[agents.NAME]` instead of that of `[agent]`
    #[arg(long, value_name = "NAME", help_heading = "Task")]
    pub(crate) agent: Option<String>,
    /// The agent's program and arguments, instead of `[agent]`: claude and codex report their cost,
    /// any other program gets the prompt on standard input
    #[arg(last = true, value_name = "AGENT", conflicts_with = "agent", help_heading = "Task")]
    pub(crate) words: Vec<String>,
    /// Stop after one iteration
    #[arg(long)]
    pub(crate) once: bool,
    /// Start a new run even if there is one to resume or a completed one
    #[arg(long)]
    pub(crate) restart: bool,
    /// Run in the background, in a session of its own; `stop` ends it, `log --follow` shows it
    #[arg(long, conflicts_with = "dry_run")]
    pub(crate) detach: bool,
    /// Check everything and show what would run, without starting anything
    #[arg(long)]
    pub(crate) dry_run: bool,
    /// Print one JSON object per event on stdout
    #[arg(long)]
    pub(crate) json: bool,
    /// Show the agent's text and tool calls; twice: also what the program itself does
    #[arg(short, long, action = clap::ArgAction::Count)]
    pub(crate) verbose: u8,
    /// Most iterations of the run, or none [default: 100; without a ralph.toml 25]
    #[arg(long, value_name = "N", value_parser = values::count, help_heading = "Limits")]
    pub(crate) max_iterations: Option<String>,
    /// Most dollars that the run may cost, or none [default: 50; without a ralph.toml 10]
    #[arg(long, value_name = "USD", value_parser = values::dollars, help_heading = "Limits")]
    pub(crate) max_cost: Option<String>,
    /// Longest time that the run may take, such as 90m, or none [default: 4h; without a ralph.toml 2h]
    #[arg(long, value_name = "DURATION", value_parser = values::duration, help_heading = "Limits")]
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
    /// With an iteration: print the prompt that the agent read, byte for byte except for secrets
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
    /// Folder for the ATIF v1.8 trajectories 0001.json, 0002.json, …; created if missing
    pub(crate) folder: PathBuf,
    #[command(flatten)]
    pub(crate) sets: Sets,
}

#[derive(Debug, clap::Args)]
pub(crate) struct Answer {
    /// The text; it goes to the top of the next prompt, after the question if one is open
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
    /// Skip confirmation
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
    /// Write a systemd user unit that runs an existing configuration
    #[arg(long, conflicts_with_all = ["test", "agent", "goal", "gitignore", "no_run"])]
    pub(crate) systemd: bool,
    /// The agent: claude, codex, gemini, opencode, goose, qwen, copilot or claude-sdk [default: the first
    /// that is installed]
    #[arg(long, value_name = "NAME")]
    pub(crate) agent: Option<String>,
    /// What is to be done; goes into the new PROMPT.md
    #[arg(long, value_name = "TEXT")]
    pub(crate) goal: Option<String>,
    /// Add what the checks leave behind to .gitignore
    #[arg(long)]
    pub(crate) gitignore: bool,
    /// Write the checks without running them once
    #[arg(long)]
    pub(crate) no_run: bool,
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
        /// Print one JSON array
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
    /// Check a library without running its code
    Check {
        /// The library
        file: PathBuf,
        /// Print one JSON object
        #[arg(long)]
        json: bool,
    },
    /// Write a plugin crate that builds, passes its tests, and runs in a loop
    New(NewPlugin),
    /// Run the conformance tests on a plugin
    Test(TestPlugin),
}

/// What a plugin provides.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Kind {
    /// Does the work of an iteration
    Agent,
    /// Finds claims that the task is complete
    Detector,
    /// Decides whether a claim is accepted
    Validator,
}

#[derive(Debug, clap::Args)]
pub(crate) struct NewPlugin {
    /// Name of the crate, and of the plugin in ralph.toml
    pub(crate) name: String,
    /// What it provides
    #[arg(long, value_enum)]
    pub(crate) kind: Kind,
    /// Folder to create [default: the name]
    #[arg(long, value_name = "DIR")]
    pub(crate) path: Option<PathBuf>,
    /// Folder of the SDK's source, instead of its version on a registry
    #[arg(long, value_name = "PATH")]
    pub(crate) sdk: Option<PathBuf>,
}

#[derive(Debug, clap::Args)]
pub(crate) struct TestPlugin {
    /// A library, or the name of a plugin in ralph.toml
    pub(crate) plugin: PathBuf,
    /// Configuration of its items and scenarios to skip: a TOML file with `[config]`, `[env]` and
    /// `[[skip]]`
    #[arg(long, value_name = "FILE")]
    pub(crate) conformance: Option<PathBuf>,
}

#[derive(Debug, clap::Args)]
pub(crate) struct PluginHost {
    /// The private copy of the library
    pub(crate) library: PathBuf,
}

#[derive(Debug, clap::Args)]
pub(crate) struct Completions {
    /// The shell
    pub(crate) shell: Shell,
    /// Complete this alias of the program, too; may be repeated
    #[arg(long = "alias", value_name = "NAME", value_parser = values::alias)]
    pub(crate) aliases: Vec<String>,
}

#[derive(Debug, clap::Args)]
pub(crate) struct Man {
    /// Folder for the pages ralph-orchestrator.1, ralph-orchestrator-run.1, …; created if missing
    pub(crate) folder: PathBuf,
}
