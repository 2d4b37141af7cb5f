//! `run`

mod backlog;
mod lanes;
pub(crate) mod look;

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use ralph_orchestrator_assembly::block_on::block_on;
use ralph_orchestrator_assembly::check_place::FoundPlace;
use ralph_orchestrator_assembly::config_values::{flag, validator};
use ralph_orchestrator_assembly::context::Context;
use ralph_orchestrator_assembly::discovery::{ConfigFile, ConfigPlace};
use ralph_orchestrator_assembly::error::{CommandError, exit};
use ralph_orchestrator_assembly::git::{Confinement, GitRepositories};
use ralph_orchestrator_assembly::git::{PlaceRequest, RunPlace, UncommittedView, WorktreeView};
use ralph_orchestrator_assembly::lane_view::list_unmerged;
use ralph_orchestrator_assembly::missing_agent_program::explain;
use ralph_orchestrator_assembly::orphans::end_orphans;
use ralph_orchestrator_assembly::overrides::Overrides;
use ralph_orchestrator_assembly::placeholder::refuse_placeholder;
use ralph_orchestrator_assembly::plugins::Plugins;
use ralph_orchestrator_assembly::processes::SupervisedProcesses;
use ralph_orchestrator_assembly::sandbox::SandboxPolicy;
use ralph_orchestrator_assembly::{agent_words, git, receipts};
use ralph_orchestrator_assembly::{context, registry, tasks};
use ralph_orchestrator_config::Flag;
use ralph_orchestrator_driver::read_ledger;
use ralph_orchestrator_engine::hooks::Hooks;
use ralph_orchestrator_engine::{
    Finished, OpenOutcome, Redactor, Request, RunObserver, Session, find_completed, open,
};
use ralph_orchestrator_init::{implied_setup, protected_by};
use ralph_orchestrator_machine::{FrozenPolicy, IterationOutcome, StopReason};
use ralph_orchestrator_store::{Disk, Layout, StoredRun, read_current_run};
use ralph_orchestrator_story::next_step;
use ralph_orchestrator_story::run_summary::RunSummary;
use ralph_orchestrator_story::words::EVIDENCE_ONLY;
use ralph_orchestrator_supervisor::Supervisor;
use ralph_orchestrator_terminal::set_args::SetArgs;
use ralph_orchestrator_terminal::signals::Signals;
use ralph_orchestrator_terminal::trust;
use ralph_orchestrator_terminal::{output, question, signals, values};
use ralph_orchestrator_text::{count, escape, one_line, shorten_home};
use ralph_orchestrator_workspace::own_outputs;
use tokio::runtime::Handle;
use toml::Value;

use crate::commands::rollback;
use crate::dry_run::DryRunTraces;
use crate::error::stop_exit_status;
use crate::hooks::UserHooks;
use crate::notices::{self, Notices};
use crate::render::{HumanReporter, JsonReporter, QuietReporter};
use crate::trace::RunLog;
use crate::{detach, dry_run};

/// The limits of a task without a file.
const LIMITS: [(&str, &str); 3] =
    [("limits.max_iterations", "25"), ("limits.max_cost_usd", "10"), ("limits.max_runtime", "2h")];

#[derive(Debug, Default, clap::Args)]
pub(crate) struct RunArgs {
    /// What to do, in a sentence; needs no ralph.toml. The checks decide after each iteration
    #[arg(long, value_name = "TEXT", conflicts_with = "prompt", help_heading = "Task")]
    pub(crate) goal: Option<String>,
    /// Command that proves the work done: exit status 0 accepts. Repeat it for several
    #[arg(long = "check", value_name = "COMMAND", help_heading = "Task")]
    pub(crate) checks: Vec<String>,
    /// Glob of files that the agent must not change, such as the tests; repeat it for several
    #[arg(long, value_name = "GLOB", requires = "checks", help_heading = "Task")]
    pub(crate) protect: Vec<String>,
    /// Let the agent change the tests of a `--check`, which are protected where they are recognised
    #[arg(long, requires = "checks", help_heading = "Task")]
    pub(crate) no_protect: bool,
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
    /// Give the agent the prompt of the role `yolo`: the work without verification in a browser
    #[arg(long, help_heading = "Task")]
    pub(crate) yolo: bool,
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
    /// Print plain lines on a terminal: no live line, no colours
    #[arg(long)]
    pub(crate) plain: bool,
    /// Show the agent's text and tool calls; twice: also what the program itself does
    #[arg(short, long, action = clap::ArgAction::Count)]
    pub(crate) verbose: u8,
    /// Most iterations of the run, or none [default: 100; without a ralph.toml 25; of a task 15]
    #[arg(
        long,
        value_name = "N",
        value_parser = values::count,
        allow_negative_numbers = true,
        help_heading = "Limits"
    )]
    pub(crate) max_iterations: Option<String>,
    /// Most dollars that the run may cost, or none [default: 50; without a ralph.toml 10]
    #[arg(
        long,
        value_name = "USD",
        value_parser = values::dollars,
        allow_negative_numbers = true,
        help_heading = "Limits"
    )]
    pub(crate) max_cost: Option<String>,
    /// Longest time that the run may take, such as 90m, or none [default: 4h; without a ralph.toml 2h]
    #[arg(
        long,
        value_name = "DURATION",
        value_parser = values::duration,
        allow_negative_numbers = true,
        help_heading = "Limits"
    )]
    pub(crate) max_runtime: Option<String>,
    #[command(flatten)]
    pub(crate) sets: SetArgs,
}

pub(crate) fn run(
    file: &ConfigFile,
    args: RunArgs,
    log: &RunLog,
    quiet: bool,
) -> Result<u8, CommandError> {
    if file.task().is_some() && (args.goal.is_some() || args.prompt.is_some()) {
        let message = "the plan of a task is its prompt; leave out --goal and --prompt";
        return Err(CommandError::user(message));
    }
    if args.plain {
        output::set_plain();
    }
    let overrides = build_overrides(&args, &[], Vec::new())?;
    if !args.dry_run {
        output::begin_run(args.json);
    }
    let loaded = match args.dry_run {
        true => trust::load_to_look(file, overrides.clone()),
        false => trust::load_for_run(file, &overrides),
    };
    let context = match loaded {
        Ok(context) => context,
        Err(error) => {
            let places = Context::load_run_paths(file, overrides);
            let program = context::invocation(file);
            return block_on(completed_or(error, places.as_ref(), &args, &program));
        }
    };
    let context = protect(context, file, &args)?;
    tasks::require(&context.loaded)?;
    if !args.dry_run {
        rollback::finish_interrupted(&context)?;
    }
    // Concurrently with the other preparations.
    if context.loaded.config.backlog.is_none() {
        Supervisor::this_binary().prepare();
    }
    block_on(start(context, file, args, log, quiet))
}

/// Starts the run in the background, once a person at a terminal has accepted what is not accepted yet.
///
/// # Errors
/// It is not accepted, or cannot be started.
pub(crate) fn launch(file: &ConfigFile, args: &RunArgs) -> Result<u8, CommandError> {
    let overrides = build_overrides(args, &[], Vec::new())?;
    let is_unaccepted = |context: Context| !context.judged.unaccepted.is_empty();
    if question::is_possible() && Context::load(file, overrides.clone()).is_ok_and(is_unaccepted) {
        trust::load_for_run(file, &overrides)?;
    }
    detach::launch(file, args.json)
}

/// Adds what the checks of the command line protect in the workspace, which is known only now.
fn protect(context: Context, file: &ConfigFile, args: &RunArgs) -> Result<Context, CommandError> {
    let workspace = &context.loaded.config.run.workspace;
    let protected = find_protected(args, workspace);
    let needs_setup = !args.checks.is_empty() && matches!(file.place, ConfigPlace::Missing { .. });
    let setup = if needs_setup { implied_setup(workspace)? } else { Vec::new() };
    if setup.is_empty() && protected.iter().all(Vec::is_empty) {
        return Ok(context);
    }
    let judged = context.judged;
    Ok(Context { judged, ..Context::load(file, build_overrides(args, &protected, setup)?)? })
}

/// Returns what these arguments say of the configuration; `protected` are the globs of each check, `setup` what installs
/// dependencies.
///
/// Each flag replaces its part of the configuration and nothing else: `--goal` and `--prompt` the prompt,
/// `--check` the validators, the words after `--` the agent. So a task on the command line needs no file,
/// and where there is one its limits, environment and sandbox still hold.
///
/// # Errors
/// An empty goal or check.
fn build_overrides(
    args: &RunArgs,
    protected: &[Vec<String>],
    setup: Vec<(&'static str, String)>,
) -> Result<Overrides, CommandError> {
    let mut flags = limit_flags(args);
    let given = |flag: &str, text: &str| match text.trim() {
        "" => Err(CommandError::user(format!("{flag} is empty"))),
        _ => Ok(()),
    };
    if let Some(goal) = &args.goal {
        given("--goal", goal)?;
        flags.push(flag("--goal", "run.prompt_text", write_goal_prompt(goal, &args.checks).into()));
    }
    if let Some(prompt) = &args.prompt {
        given("--prompt", prompt)?;
        flags.push(flag("--prompt", "run.prompt_text", prompt.as_str().into()));
    }
    if !args.checks.is_empty() {
        args.checks.iter().try_for_each(|check| given("--check", check))?;
        let globs = |index: usize| protected.get(index).map(Vec::as_slice).unwrap_or_default();
        let checks = args.checks.iter().enumerate();
        let validators =
            checks.map(|(index, check)| validator(check, globs(index))).map(Value::Table).collect();
        flags.push(flag("--check", "validator", Value::Array(validators)));
    }
    if !args.words.is_empty() {
        let name = format!("-- {}", args.words.join(" "));
        flags.push(flag(&name, "agent", Value::Table(agent_words::agent(&args.words))));
    }
    if args.yolo {
        flags.push(flag("--yolo", "run.role", "yolo".into()));
    }
    let is_task = args.goal.is_some() || args.prompt.is_some() || !args.checks.is_empty();
    // The prompt does not say how to claim.
    let is_proved = args.goal.is_some() || !args.checks.is_empty();
    // What passes already would complete the run after any change.
    let implied = [("completion.when", "proved"), ("completion.baseline", "must_fail")];
    let owned = |(key, value): (&'static str, &str)| (key, value.to_owned());
    Ok(Overrides {
        sets: args.sets.sets.clone(),
        flags,
        implied: if is_proved { implied.map(owned).to_vec() } else { Vec::new() },
        implied_without_file: LIMITS.map(owned).into_iter().chain(setup).collect(),
        replaced: (!args.words.is_empty()).then_some("agent"),
        is_task,
    })
}

fn limit_flags(args: &RunArgs) -> Vec<Flag> {
    let limits = [
        ("--max-iterations", "limits.max_iterations", &args.max_iterations),
        ("--max-cost", "limits.max_cost_usd", &args.max_cost),
        ("--max-runtime", "limits.max_runtime", &args.max_runtime),
    ];
    let given = limits.into_iter().filter_map(|(name, key, text)| {
        Some(Flag { name: name.to_owned(), key, text: text.clone()? })
    });
    given.collect()
}

/// An agent should know what decides, and run it before it stops.
fn write_goal_prompt(goal: &str, checks: &[String]) -> String {
    let goal = goal.trim_end();
    if checks.is_empty() {
        return format!("{goal}\n");
    }
    let list: String = checks.iter().map(|check| format!("- `{}`\n", check.trim())).collect();
    format!("{goal}\n\nThe task is complete when these commands succeed:\n\n{list}")
}

/// Returns what each check protects: what the user names, and for tests of a known kind what `init` would
/// protect. Says what the latter is.
fn find_protected(args: &RunArgs, workspace: &Path) -> Vec<Vec<String>> {
    let known = |check: &String| {
        let globs = if args.no_protect { Vec::new() } else { protected_by(workspace, check) };
        if !globs.is_empty() {
            output::info(&format!(
                "`{}`: the agent must not change {} (`--no-protect` switches this off)",
                one_line(check, 80),
                one_line(&globs.join(", "), 300)
            ));
        }
        if globs.is_empty() && args.protect.is_empty() && !args.no_protect {
            output::info(&format!(
                "`{}`: nothing that it runs is protected, so an agent can change what it proves; `--protect \
                 GLOB` names files that must stay as they are",
                one_line(check, 80)
            ));
        }
        let named = args.protect.iter().filter(|glob| !globs.contains(*glob));
        let named: Vec<String> = named.cloned().collect();
        [globs, named].concat()
    };
    args.checks.iter().map(known).collect()
}

/// The parts of a start that do not depend on the run.
struct Start<'a> {
    place: RunPlace,
    args: RunArgs,
    plugins: Plugins,
    policy: Option<SandboxPolicy>,
    signals: Signals,
    log: &'a RunLog,
    quiet: bool,
    file: &'a ConfigFile,
    program: &'a str,
    /// What of the user's is not committed, if a run begins among it.
    dirt: Option<git::DirtSearch>,
}

async fn start(
    context: Context,
    file: &ConfigFile,
    args: RunArgs,
    log: &RunLog,
    quiet: bool,
) -> Result<u8, CommandError> {
    let program = &context::invocation(file);
    let signals = signals::listen()?;
    let (policy, plugins) = match prepare(&context) {
        Ok(both) => both,
        Err(error) => return completed_or(error, Some(&context), &args, program).await,
    };
    let _traces = args.dry_run.then(|| context.layout().map(DryRunTraces::new)).transpose()?;
    git::check(&context).await?;
    if context.loaded.config.validation.place.is_some() {
        FoundPlace::find(&context).await?;
    }
    if let Some(warning) = notices::describe_hook(&context) {
        output::info(&format!("warning: {warning}"));
    }
    let supervisor = registry::supervisor_of_one(signals.switch.clone());
    let begins = args.restart || !git::has_unfinished_run(&context);
    let dirt = if begins { git::DirtSearch::begin(&context) } else { None };
    let place = Box::pin(RunPlace::find(context, supervisor, args.place())).await?;
    if let Some(warning) = place.warning() {
        output::info(&format!("warning: {warning}"));
    }
    if !args.dry_run {
        trust::accept_silently(&place.context)?;
        if !args.restart && !place.begins {
            trust::ask_about_workspace(&place.context)?;
        }
    }
    let policy = confine(&place, policy)?;
    let workspace = &place.context.loaded.config.run.workspace;
    for path in own_outputs(workspace) {
        let name = path.strip_prefix(workspace).unwrap_or(&path).display().to_string();
        output::info(&format!(
            "{} receives what this program prints, and is no part of the work",
            escape(&name)
        ));
    }
    let start = Start { place, args, plugins, policy, signals, log, quiet, file, program, dirt };
    if start.place.context.loaded.config.backlog.is_some() {
        Box::pin(backlog::run(start)).await
    } else {
        Box::pin(run_once(start)).await
    }
}

/// Returns how agents are confined where the run works.
fn confine(
    place: &RunPlace,
    policy: Option<SandboxPolicy>,
) -> Result<Option<SandboxPolicy>, CommandError> {
    let Some(repository) = place.repository() else { return Ok(policy) };
    let policy = SandboxPolicy::from_context(&place.context)?;
    Ok(policy.map(|policy| policy.with_readable([repository])))
}

/// Opens the run of a configuration without a backlog.
async fn open_run(
    place: &RunPlace,
    args: &RunArgs,
    plugins: &Plugins,
    policy: Option<&SandboxPolicy>,
    (supervisor, hooks): (Supervisor, Option<Arc<dyn Hooks>>),
) -> Result<OpenOutcome, CommandError> {
    let mut registry = registry::build(plugins, policy, supervisor.clone());
    if let Some(hooks) = hooks {
        registry.set_hooks(hooks);
    }
    let Context { file: config_file, loaded, vars, .. } = place.context.clone();
    // It is large, and awaited by others that are.
    let opened = Box::pin(open(Request {
        loaded: loaded.clone(),
        config_file,
        vars: vars.clone(),
        disk: Disk::default(),
        state_home: place.context.state_home(),
        is_listed: true,
        is_workspace_fresh: false,
        registry: &registry,
        end_orphans: &end_orphans,
        processes: Arc::new(SupervisedProcesses),
        version_control: Arc::new(repositories(supervisor, &place.context, policy)),
        agent: args.agent.clone(),
        once: args.once,
        attached: false,
        restart: args.restart || place.begins,
        renew: args.restart && !args.dry_run,
        new_run: place.new_run(),
        dry_run: args.dry_run,
        part: None,
        protect: args.protect.clone(),
        say: &output::info,
    }))
    .await;
    opened.map_err(|error| explain(error, &loaded, &vars, args.agent.as_deref()))
}

/// Opens the run of a configuration without a backlog, and performs it. Returns the exit status.
async fn run_once(start: Start<'_>) -> Result<u8, CommandError> {
    let Start { place, args, plugins, policy, signals, log, quiet, file, program, dirt } = start;
    let supervisor = Supervisor::this_binary().with_kill_switch(signals.switch.clone());
    let hooks = find_hooks(&place, &args, &signals);
    let opened = open_run(&place, &args, &plugins, policy.as_ref(), (supervisor, hooks));
    let mut session = match Box::pin(opened).await? {
        OpenOutcome::Complete { found, layout } => {
            let mut is_proposed = true;
            if !args.dry_run {
                Notices::start(&place.context, &layout, &signals.switch).finish().await;
                is_proposed = report_proposal(&place.context, &layout, policy.as_ref()).await;
            }
            let status = report_completed(&found, &layout, args.json, program);
            return Ok(proposed_status(status, is_proposed));
        }
        OpenOutcome::Ready(session) => session,
    };
    if args.dry_run {
        return Ok(dry_run::show(&session, &place, None, policy.as_ref(), args.json));
    }
    if let Some(status) = withheld(&mut session, &args, program)? {
        return Ok(status);
    }
    warn_of_sandbox(policy.as_ref(), &session);
    warn_of_dirt(dirt, &session.redactor()).await;
    let notices = Notices::start(&place.context, session.layout(), &signals.switch);
    let observer = notices.observe(observer(&args, quiet, &signals, Some(program)));
    let layout = session.layout().clone();
    log.begin(&layout.log(session.run_id()), session.redactor());
    let finished = session.drive(observer, signals.stop_requests());
    let finished = notices.serve(Box::pin(finished)).await?;
    write_receipt(&place.context, &layout, &finished, args.json);
    let is_proposed = report_proposal(&place.context, &layout, policy.as_ref()).await;
    if !quiet && !args.json {
        report_worktree(&place.context).await?;
    }
    Ok(proposed_status(finish(&finished, &args, (file, program), &signals), is_proposed))
}

/// Returns what runs the user's commands of `[hooks]`; nothing does in a dry run.
fn find_hooks(place: &RunPlace, args: &RunArgs, signals: &Signals) -> Option<Arc<dyn Hooks>> {
    if args.dry_run { None } else { UserHooks::for_run(&place.context, &signals.switch) }
}

/// Returns the exit status of a run that does not begin yet: its question is open, or it goes on in the background.
fn withheld(
    session: &mut Session,
    args: &RunArgs,
    program: &str,
) -> Result<Option<u8>, CommandError> {
    if !answer_open_question(session, args, program)? {
        return Ok(Some(exit::HUMAN));
    }
    let stays = !args.detach || detach::detach_from_terminal(session)?;
    Ok((!stays).then_some(exit::INTERRUPTED))
}

/// Says what the sandbox leaves open.
fn warn_of_sandbox(policy: Option<&SandboxPolicy>, session: &Session) {
    let warnings = policy.map(|policy| policy.warnings(&session.protects())).into_iter().flatten();
    warnings.for_each(|warning| output::info(&warning));
    if policy.is_some() && session.commits() {
        output::info("sandbox: hooks and filters that commits run are confined as the agent is");
    }
}

/// Says once, before the first agent starts, what of the user's is not committed.
async fn warn_of_dirt(search: Option<git::DirtSearch>, redactor: &Redactor) {
    let Some(search) = search else { return };
    if let Some(dirt) = search.describe(redactor).await {
        output::info(&format!("warning: {dirt}"));
    }
}

fn write_receipt(context: &Context, layout: &Layout, finished: &Finished, is_json: bool) {
    match receipts::write_after(context, layout, finished) {
        Ok(Some(path)) if !is_json => output::info(&format!("receipt: {}", shorten_home(&path))),
        Ok(_) => {}
        Err(warning) => output::info(&warning),
    }
}

/// Returns how agents are confined, and the plugins.
fn prepare(context: &Context) -> Result<(Option<SandboxPolicy>, Plugins), CommandError> {
    let policy = SandboxPolicy::from_context(context)?;
    refuse_placeholder(&context.loaded.config)?;
    Ok((policy, Plugins::from_context(context)?))
}

/// Returns the exit status of a run, after advice on what to do next.
fn finish(
    finished: &Finished,
    args: &RunArgs,
    (file, program): (&ConfigFile, &str),
    signals: &Signals,
) -> u8 {
    let advise = || {
        let plain = Context::load_plain(file);
        next_step::after_with(&finished.state, program, plain.as_ref())
    };
    if let Some(next) = (!args.json).then(advise).flatten() {
        output::info(&format!("next: {next}"));
    }
    let well = matches!(finished.state.last_outcome, Some(IterationOutcome::Succeeded));
    stop_exit_status(finished.reason, well, signals.status.load(Ordering::Relaxed))
}

/// Returns what opens the repository of the run.
fn repositories(
    supervisor: Supervisor,
    context: &Context,
    policy: Option<&SandboxPolicy>,
) -> GitRepositories {
    let (vars, runtime) = (context.vars.clone(), Handle::current());
    let (places, confinement) = (context.agent_places(), Confinement::new(policy, context));
    GitRepositories { supervisor, vars, places, runtime, confinement }
}

/// Returns the reporter of the run's events.
fn observer(
    args: &RunArgs,
    quiet: bool,
    signals: &Signals,
    program: Option<&str>,
) -> Arc<dyn RunObserver> {
    if args.json {
        Arc::new(JsonReporter::new(Arc::clone(&signals.status)))
    } else if quiet {
        Arc::new(QuietReporter)
    } else {
        HumanReporter::watching(args.verbose > 0, program)
    }
}

/// Asks an open question on the terminal. Returns whether the run may begin: a detached one with an open question
/// may not.
fn answer_open_question(
    session: &mut Session,
    args: &RunArgs,
    program: &str,
) -> Result<bool, CommandError> {
    let Some(question) = session.state().question().map(str::to_owned) else { return Ok(true) };
    if args.detach {
        output::info(&format!("the agent asks: {}", escape(&question)));
        output::info(&format!("next: `{program} answer \"…\"`, then `{program} run --detach`"));
        return Ok(false);
    }
    if !args.json
        && let Some(answer) = question::ask_on_terminal(&question)?
    {
        session.answer(&answer)?;
    }
    Ok(true)
}

/// Reports a completed run even if its configuration cannot be used any more; otherwise returns the error.
async fn completed_or(
    error: CommandError,
    context: Option<&Context>,
    args: &RunArgs,
    program: &str,
) -> Result<u8, CommandError> {
    let found = match context.filter(|_| !args.restart) {
        Some(context) => find_completed_at(context).await,
        None => None,
    };
    match found {
        Some((found, layout)) => {
            let status = report_completed(&found, &layout, args.json, program);
            output::info(&format!("warning: a new run would be refused: {}", error.summary()));
            Ok(status)
        }
        None => Err(error),
    }
}

/// Returns the run that is complete where a configuration that cannot be used says that its run is.
pub(crate) async fn find_completed_at(context: &Context) -> Option<(StoredRun, Layout)> {
    // That the run of one item is complete says nothing of the backlog.
    if context.layout().is_ok_and(|layout| read_ledger(&layout).is_ok_and(|found| found.is_some()))
    {
        return None;
    }
    let registry = registry::unsupervised(&Plugins::none(&context.compiled_in));
    let state_home = context.state_home();
    let context = git::enter_for_task(context.clone()).ok()??;
    find_completed(&context.loaded, &state_home, &context.vars, &registry).await
}

/// Reports that the run is complete. Starts nothing.
fn report_completed(found: &StoredRun, layout: &Layout, json: bool, program: &str) -> u8 {
    let validated = found.state.completion().is_some_and(|completion| completion.validated);
    let evidence_only = found.state.policy().is_some_and(FrozenPolicy::is_evidence_only);
    if json {
        output::json(&serde_json::json!({
            "event": "run_finished",
            "time": jiff::Timestamp::now(),
            "run": found.run,
            "iteration": found.state.iterations,
            "stop_reason": StopReason::Completed,
            "exit_code": exit::OK,
            "message": "already complete",
            "validated": validated,
            "evidence_only": evidence_only,
            "iterations": found.state.iterations,
            "cost_usd": found.state.cost(),
            "runtime_ms": found.state.budget.runtime_ms,
        }));
        return exit::OK;
    }
    let how = if validated { "" } else { " WITHOUT validation" };
    let only =
        if validated && evidence_only { format!(", {EVIDENCE_ONLY}") } else { String::new() };
    output::result(&format!(
        "already completed{how} in {}{only}; no agent was started (run {})",
        count(found.state.iterations, "iteration"),
        found.run
    ));
    output::info(&format!(
        "{}; the record of this one is in {}",
        next_step::restart(program),
        layout.root().display()
    ));
    exit::OK
}

/// Opens the pull request that `[git] on_complete` asks for, and prints its address. A failure undoes no completion: the
/// next `run` tries it again. Returns whether nothing is left to do.
async fn report_proposal(
    context: &Context,
    layout: &Layout,
    policy: Option<&SandboxPolicy>,
) -> bool {
    let proposed = git::propose(context, layout, policy).await;
    match &proposed {
        Some(Ok(url)) => output::info(&format!("draft pull request: {url}")),
        Some(Err(problem)) => output::info(&format!("warning: git.on_complete: {problem}")),
        None => {}
    }
    !matches!(proposed, Some(Err(_)))
}

/// Returns the exit status of work that is complete and not where it was to be brought.
const fn proposed_status(status: u8, is_proposed: bool) -> u8 {
    if status == exit::OK && !is_proposed { exit::UNAVAILABLE } else { status }
}

/// Prints where the work of the current run is, if it is in a worktree; otherwise, what of it is in no commit.
async fn report_worktree(context: &Context) -> Result<(), CommandError> {
    let layout = context.layout()?;
    let mut story = RunSummary::default();
    let Ok(Some(found)) = read_current_run(&layout, |entry| story.add(&entry.record)) else {
        if let Some(view) = WorktreeView::read_trunk(context, &layout).await? {
            report_rows(&view);
        }
        for place in list_unmerged(&layout)? {
            output::report(&format!("  {:<10}  {place}", "unmerged"));
        }
        return Ok(());
    };
    if let Some(view) = WorktreeView::read(context, &layout, &found).await? {
        report_rows(&view);
    } else if let Some(view) = UncommittedView::read(context, &layout, &found, &story).await {
        output::report(&format!("  {:<10}  {}", "not in git", view.describe()));
    }
    Ok(())
}

fn report_rows(view: &WorktreeView) {
    for (label, value) in view.rows() {
        output::report(&format!("  {label:<10}  {value}"));
    }
}

impl RunArgs {
    fn place(&self) -> PlaceRequest {
        PlaceRequest { restart: self.restart, dry_run: self.dry_run, protect: self.protect.clone() }
    }
}
