//! The program: its builder, its arguments, and which command they are for.

use std::fmt;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::FromArgMatches as _;
use ralph_orchestrator_assembly::compiled_in::{CompiledIn, NameError, set_of_program};
use ralph_orchestrator_assembly::discovery::ConfigFile;
use ralph_orchestrator_assembly::error::{CommandError, exit};
use ralph_orchestrator_assembly::{discovery, messages};
use ralph_orchestrator_contract::{
    Agent, BacklogFormat, BuildContext, BuildError, CompletionDetector, EvidenceValidator,
};
use ralph_orchestrator_supervisor::{Supervisor, shim};
use ralph_orchestrator_terminal::trust;
use ralph_orchestrator_terminal::{output, question};
use schemars::JsonSchema;
use serde::de::DeserializeOwned;

use crate::args::{Command, CommandLine, ControlCommand};
use crate::{commands, complete, detach, help, suggest, trace, workspace_selection};

/// The command line of ralph-orchestrator: every command of the program.
///
/// A program of your own has all of them, with your adapters compiled in:
///
/// ```no_run
/// use std::process::ExitCode;
///
/// use ralph_orchestrator::supervisor::Supervisor;
/// use ralph_orchestrator::{BuildContext, BuildError, Cli};
/// # use ralph_orchestrator::*;
/// # use std::collections::BTreeMap;
///
/// #[derive(serde::Deserialize, schemars::JsonSchema)]
/// #[serde(deny_unknown_fields)]
/// struct Keys {
///     /// What it answers.
///     answer: String,
/// }
///
/// struct Mine(Keys);
///
/// impl Mine {
///     fn build(keys: Keys, _: &BuildContext, _: &Supervisor) -> Result<Self, BuildError> {
///         Ok(Self(keys))
///     }
/// }
/// # #[async_trait]
/// # impl Agent for Mine {
/// #     fn describe(&self) -> Description { Description::default() }
/// #     async fn check(&self, _: &BTreeMap<String, String>) -> Result<String, AgentError> { Ok(String::new()) }
/// #     async fn run(&self, _: Iteration, _: &dyn EventSink) -> Result<Report, AgentError> {
/// #         Ok(Report { final_text: Some(self.0.answer.clone()), ..Report::default() })
/// #     }
/// # }
///
/// fn main() -> ExitCode {
///     Cli::builder().agent("mine", Mine::build).main()
/// }
/// ```
#[derive(Debug)]
#[non_exhaustive]
pub struct Cli {}

/// Builds the command line of a program.
///
/// The keys of what is added are the type that its function takes: what does not fit it is refused with its
/// place in the configuration, and `config schema` describes it.
#[derive(Default)]
#[must_use]
pub struct CliBuilder {
    compiled_in: CompiledIn,
}

impl fmt::Debug for CliBuilder {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.debug_struct("CliBuilder").finish_non_exhaustive()
    }
}

impl Cli {
    /// Returns a builder of the program as it is shipped.
    pub fn builder() -> CliBuilder {
        CliBuilder::default()
    }
}

impl CliBuilder {
    /// Adds an agent, for `adapter = "NAME"` in `[agent]`; its keys are those of `[agent.config]`.
    ///
    /// What it starts by the supervisor is confined as the configuration says, and ends with its iteration and
    /// with this program, however that ends. What it starts in any other way is not.
    pub fn agent<K, A, F>(mut self, name: &str, build: F) -> Self
    where
        K: DeserializeOwned + JsonSchema,
        A: Agent + 'static,
        F: Fn(K, &BuildContext, &Supervisor) -> Result<A, BuildError> + Send + Sync + 'static,
    {
        self.compiled_in.add_agent(name, build);
        self
    }

    /// Adds a validator, for `kind = "NAME"` in `[[validator]]`; its keys are all others of that table.
    pub fn validator<K, V, F>(mut self, name: &str, build: F) -> Self
    where
        K: DeserializeOwned + JsonSchema,
        V: EvidenceValidator + 'static,
        F: Fn(K, &BuildContext, &Supervisor) -> Result<V, BuildError> + Send + Sync + 'static,
    {
        self.compiled_in.add_validator(name, build);
        self
    }

    /// Adds a detector, for the `detectors` of `[completion]`.
    pub fn detector<K, D, F>(mut self, name: &str, build: F) -> Self
    where
        K: DeserializeOwned + JsonSchema,
        D: CompletionDetector + 'static,
        F: Fn(K, &BuildContext) -> Result<D, BuildError> + Send + Sync + 'static,
    {
        self.compiled_in.add_detector(name, build);
        self
    }

    /// Adds a format of backlogs, for `kind = "NAME"` in `[backlog]`.
    pub fn backlog<B, F>(mut self, name: &str, build: F) -> Self
    where
        B: BacklogFormat + 'static,
        F: Fn() -> B + Send + Sync + 'static,
    {
        self.compiled_in.add_backlog(name, build);
        self
    }

    /// Checks the names and returns the command line.
    ///
    /// # Errors
    /// The first name that is taken, or that a configuration could not contain.
    pub fn build(self) -> Result<Cli, NameError> {
        self.compiled_in.check()?;
        set_of_program(self.compiled_in);
        messages::set_receiver(output::info);
        Ok(Cli {})
    }

    /// Runs the program with the arguments of this process, and returns its exit status; a name that cannot be is
    /// exit status 70.
    ///
    /// To be called first in `main`, before any thread or runtime starts: each process of an agent is started
    /// by way of this very program, which then has to be a supervisor without threads.
    #[must_use]
    pub fn main(self) -> ExitCode {
        // Before anything else: as a supervisor of one process tree this program has no threads.
        shim::intercept();
        let code = match self.build() {
            Ok(cli) => cli.run(),
            Err(error) => report(&CommandError::internal(error)),
        };
        output::finish();
        ExitCode::from(code)
    }
}

impl Cli {
    fn run(self) -> u8 {
        complete::serve_candidates(help::command);
        match parse() {
            Ok(args) => dispatch(args).unwrap_or_else(|error| report(&error)),
            Err(error) => {
                let code = if error.use_stderr() { exit::USAGE } else { exit::OK };
                output::usage(&error);
                code
            }
        }
    }
}

fn report(error: &CommandError) -> u8 {
    output::error(|colour, width| error.render(colour, width));
    error.code()
}

fn parse() -> Result<CommandLine, clap::Error> {
    let words = std::env::args_os().map(|word| word.to_string_lossy().into_owned());
    let words: Vec<String> = words.collect();
    let mut command = help::command_for(&words);
    let matches = command.try_get_matches_from_mut(std::env::args_os());
    matches
        .and_then(|matches| CommandLine::from_arg_matches(&matches))
        .map_err(|error| suggest::explain(error, &command, &words))
}

/// Begins the program's own log, as far as the command has one.
fn install_log(command: &Command) -> trace::RunLog {
    match command {
        // It serves another that listens.
        Command::PluginHost(_) | Command::Mcp(_) => trace::RunLog::default(),
        Command::Run(run) => trace::install(run.verbose),
        _ => trace::install(0),
    }
}

/// Returns the command and the task that it is for: `go` is a `run`.
fn with_task(
    command: Command,
    task: Option<String>,
) -> Result<(Command, Option<String>), CommandError> {
    match command {
        Command::Go(go) => {
            let (run, task) = go.into_run(task)?;
            Ok((Command::Run(run), Some(task)))
        }
        command if task.is_some() && !command.uses_config() => {
            Err(CommandError::user("--task has no effect on this command; leave it out"))
        }
        command => Ok((command, task)),
    }
}

/// Finds the configuration of a command where no workspace is named. A command that only shows something is about the run in
/// whose worktree it is started.
fn find_config(
    command: &mut Command,
    config: Option<PathBuf>,
    task: Option<String>,
) -> Result<ConfigFile, CommandError> {
    let is_schema = matches!(command, Command::Config(commands::config::ConfigCommand::Schema));
    match config {
        None if command.uses_config() && task.is_none() => {
            match workspace_selection::find_by_worktree(&std::env::current_dir()?)? {
                Some((file, run)) => {
                    command.show_run(run);
                    Ok(file)
                }
                None => ConfigFile::find(None),
            }
        }
        config if command.uses_config() => Ok(ConfigFile::find(config)?.with_task(task)),
        // That of no configuration in particular.
        None if is_schema => ConfigFile::without_file(),
        config => Ok(ConfigFile::named(config.unwrap_or_else(|| discovery::NAME.into()))),
    }
}

fn find_workspace(command: &mut Command, selector: &str) -> Result<ConfigFile, CommandError> {
    if !command.uses_config() {
        return Err(CommandError::user("-w has no effect on this command; leave it out"));
    }
    let (file, run) = workspace_selection::find(selector)?;
    command.show_run(run);
    Ok(file)
}

/// Refuses a command that would change the run of another folder than that in which a person is.
fn refuse_other_run(command: &Command, config: &ConfigFile) -> Result<(), CommandError> {
    match command {
        // They only hold the run back; a file that an agent has made must not be in their way.
        Command::Control(ControlCommand::Stop(_) | ControlCommand::Pause(_))
            if config.passed_over().is_some() =>
        {
            Ok(())
        }
        Command::Control(_)
        | Command::Add(_)
        | Command::Skip(_)
        | Command::Retry(_)
        | Command::Rollback(_) => trust::refuse_other_run(config, false),
        Command::Reset(_) => trust::refuse_other_run(config, true),
        Command::Runs(runs) if runs.command.is_some() => trust::refuse_other_run(config, true),
        _ => Ok(()),
    }
}

/// Whether a command asks itself about a file that was passed over.
fn asks_about_files(command: &Command) -> bool {
    match command {
        Command::Trust(_) => true,
        Command::Run(_)
        | Command::Rehearse(_)
        | Command::Verify(_)
        | Command::Notify(_)
        | Command::Doctor(_) => question::is_possible(),
        _ => false,
    }
}

fn dispatch(command_line: CommandLine) -> Result<u8, CommandError> {
    let CommandLine { config, workspace, task, quiet, detached, command } = command_line;
    let (mut command, task) = with_task(command, task)?;
    if quiet {
        output::set_quiet();
    }
    let named = config.clone().unwrap_or_else(|| discovery::NAME.into());
    let config = match workspace {
        Some(workspace) => find_workspace(&mut command, &workspace)?,
        None => find_config(&mut command, config, task)?,
    };
    config.notices(asks_about_files(&command)).iter().for_each(|notice| output::info(notice));
    refuse_other_run(&command, &config)?;
    let log = install_log(&command);
    // However it ends.
    let _last = log.flush_on_drop();
    if detached {
        detach::lead_session()?;
    }
    match command {
        Command::Run(run) if run.detach && !detached => commands::run::launch(&config, &run),
        command => perform(command, (&config, &named), (&log, quiet)),
    }
}

/// Performs a command in this process. `named`: the configuration that was named, or where one would be.
fn perform(
    command: Command,
    (config, named): (&ConfigFile, &Path),
    (log, quiet): (&trace::RunLog, bool),
) -> Result<u8, CommandError> {
    match command {
        Command::Run(run) => commands::run::run(config, run, log, quiet),
        Command::New(new) => commands::new::new(config, &new),
        // It became a `run` above.
        Command::Go(_) => Ok(exit::OK),
        Command::Next(next) => commands::next::next(config, &next),
        Command::Add(add) => commands::add::add(config, add),
        Command::Skip(skip) => commands::skip::skip(config, &skip),
        Command::Retry(retry) => commands::skip::retry(config, &retry),
        Command::Status(status) => commands::status::status(config, &status),
        Command::Runs(runs) => commands::runs::runs(config, &runs),
        Command::Budget(budget) => commands::budget::budget(&budget),
        #[cfg(feature = "watch")]
        Command::Watch(watch) => commands::watch::watch(config, &watch),
        #[cfg(feature = "web")]
        Command::Serve(serve) => commands::serve::serve(&serve),
        Command::Why(why) => commands::why::why(config, &why),
        Command::Log(log) => commands::log::log(config, &log),
        Command::Control(control) => commands::control(config, control),
        Command::Reset(reset) => commands::reset::reset(config, &reset),
        Command::Init(init) => ralph_orchestrator_init::init(named, &init),
        Command::Trust(trust) => commands::trust::trust(config, &trust),
        Command::Doctor(doctor) => commands::doctor::doctor(config, &doctor),
        Command::Rehearse(args) => commands::rehearse::rehearse(config, &args),
        Command::Verify(verify) => commands::verify::verify(config, &verify),
        Command::Hook(command) => ralph_orchestrator_attach::hook(config, command),
        Command::Notify(notify) => commands::notify::notify(config, &notify),
        Command::Diff(diff) => commands::diff::diff(config, &diff),
        Command::Rollback(rollback) => commands::rollback::rollback(config, &rollback),
        Command::Receipt(receipt) => commands::receipt::receipt(config, &receipt),
        Command::Report(report) => commands::report::report(config, &report),
        Command::Export(export) => commands::export::export(config, &export),
        Command::Config(command) => commands::config::config(config, command),
        Command::Prompts(command) => commands::prompts::prompts(config, command),
        Command::Agents(agents) => commands::agents::agents(config, &agents),
        Command::Plugin(command) => ralph_orchestrator_plugin_command::plugin(config, command),
        Command::Mcp(mcp) => commands::mcp::mcp(&mcp),
        Command::PluginHost(host) => Err(ralph_orchestrator_plugin_command::host(&host)),
        #[cfg(feature = "bench")]
        Command::Bench(command) => {
            let project = &crate::project_tests::DetectedTests;
            ralph_orchestrator_bench_command::bench(config, command, project)
        }
        Command::Completions(shell) => commands::completions::completions(&shell),
        Command::Man(man) => commands::man::man(&man, help::command()),
    }
}
