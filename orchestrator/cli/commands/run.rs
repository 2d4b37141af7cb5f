//! `run`

use std::sync::Arc;
use std::sync::atomic::Ordering;

use ralph_orchestrator_config::{LoadedConfig, duration_text};
use ralph_orchestrator_core::engine::{Observer, Opened, Request, Session, find_completed, open};
use ralph_orchestrator_core::machine::{FrozenPolicy, IterationOutcome, StopReason};
use ralph_orchestrator_core::registry::Surroundings;
use ralph_orchestrator_core::store::{Disk, Layout, StoredRun};
use ralph_orchestrator_supervisor::Supervisor;

use crate::args::Run;
use crate::commands::{block_on, init};
use crate::context::{self, Context};
use crate::discovery::ConfigFile;
use crate::error::{CommandError, exit, of_stop};
use crate::orphans::end_orphans;
use crate::plugins::Plugins;
use crate::processes::Supervised;
use crate::registry;
use crate::render::text::{EVIDENCE_ONLY, count, escape};
use crate::render::{Human, Json, Quiet, Watched};
use crate::sandbox::Policy;
use crate::signals::Signals;
use crate::trace::RunLog;
use crate::{detach, missing, next_step, output, question, signals, task};

pub(crate) fn run(
    file: &ConfigFile,
    args: Run,
    log: &RunLog,
    quiet: bool,
) -> Result<u8, CommandError> {
    let overrides = task::overrides(&args)?;
    if !args.dry_run {
        output::begin_run(args.json);
    }
    let context = match Context::load(file, overrides.clone()) {
        Ok(context) => context,
        Err(error) => {
            let places = Context::load_places(file, overrides);
            return block_on(complete_or(error, places.as_ref(), &args));
        }
    };
    // While everything else is looked at.
    Supervisor::this_binary().prepare();
    block_on(start(context, args, log, quiet, &context::program(file)))
}

async fn start(
    context: Context,
    args: Run,
    log: &RunLog,
    quiet: bool,
    program: &str,
) -> Result<u8, CommandError> {
    let signals = signals::listen()?;
    let switch = signals.switch.clone();
    let state_home = context.state_home();
    let confined = Policy::of(&context).and_then(|policy| {
        init::refuse_placeholder(&context.loaded.config)?;
        Ok((policy, Plugins::of(&context)?))
    });
    let (policy, plugins) = match confined {
        Ok(both) => both,
        Err(error) => return complete_or(error, Some(&context), &args).await,
    };
    let registry = |surroundings: Surroundings| {
        registry::whole(&plugins, policy.as_ref(), surroundings, switch.clone())
    };
    let Context { file: config_file, loaded, vars } = context;
    let opened = open(Request {
        loaded: loaded.clone(),
        config_file,
        vars: vars.clone(),
        disk: Disk::default(),
        state_home,
        registry: &registry,
        end_orphans: &end_orphans,
        processes: Arc::new(Supervised),
        agent: args.agent.clone(),
        once: args.once,
        restart: args.restart,
        renew: args.restart && !args.dry_run,
        say: &output::say,
    })
    .await
    .map_err(|error| missing::explain(error, &loaded, &vars, args.agent.as_deref()))?;
    let mut session = match opened {
        Opened::Complete { found, layout } => return Ok(complete(&found, &layout, args.json)),
        Opened::Ready(session) => session,
    };
    if args.dry_run {
        dry_run(&session, &loaded, args.json);
        return Ok(exit::OK);
    }
    if !settle_question(&mut session, &args, program)? {
        return Ok(exit::HUMAN);
    }
    if args.detach && !detach::let_go(&session)? {
        return Ok(exit::INTERRUPTED);
    }
    if let Some(warning) = policy.as_ref().and_then(|policy| policy.warning(&session.protects())) {
        output::say(&warning);
    }
    let observer = observer(&args, quiet, &signals);
    log.begin(&session.layout().log(session.run_id()), session.redactor());
    let finished = Box::pin(session.drive(observer, signals.stop_requests())).await?;
    if let Some(next) = next_step::after(&finished.state, program).filter(|_| !args.json) {
        output::say(&format!("next: {next}"));
    }
    let well = matches!(finished.state.last_outcome, Some(IterationOutcome::Succeeded));
    Ok(of_stop(finished.reason, well, signals.status.load(Ordering::Relaxed)))
}

/// Who shows what happens.
fn observer(args: &Run, quiet: bool, signals: &Signals) -> Arc<dyn Observer> {
    let observer: Arc<dyn Observer> = if args.json {
        Arc::new(Json::new(Arc::clone(&signals.status)))
    } else if quiet {
        Arc::new(Quiet)
    } else {
        Human::watching(args.verbose > 0)
    };
    Watched::around(observer)
}

/// Asks an open question on the terminal. Whether the run may begin: one that would be out of reach of an
/// answer may not.
fn settle_question(session: &mut Session, args: &Run, program: &str) -> Result<bool, CommandError> {
    let Some(question) = session.state().question().map(str::to_owned) else { return Ok(true) };
    if args.detach {
        output::say(&format!("the agent asks: {}", escape(&question)));
        output::say(&format!("next: `{program} answer \"…\"`, then `{program} run --detach`"));
        return Ok(false);
    }
    if !args.json
        && let Some(answer) = question::ask(&question)?
    {
        session.answer(&answer)?;
    }
    Ok(true)
}

/// A run that is complete is so although its configuration can no longer be used; otherwise the error.
async fn complete_or(
    error: CommandError,
    context: Option<&Context>,
    args: &Run,
) -> Result<u8, CommandError> {
    let Some(context) = context.filter(|_| !args.restart) else { return Err(error) };
    let registry = registry::plain(&Plugins::default());
    let state_home = context.state_home();
    match find_completed(&context.loaded, &state_home, &context.vars, &registry).await {
        Some((found, layout)) => Ok(complete(&found, &layout, args.json)),
        None => Err(error),
    }
}

/// The run is complete: says so and starts nothing.
fn complete(found: &StoredRun, layout: &Layout, json: bool) -> u8 {
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
    output::say(&format!(
        "`run --restart` begins a new run; the record of this one is in {}",
        layout.root().display()
    ));
    exit::OK
}

fn dry_run(session: &Session, loaded: &LoadedConfig, json: bool) {
    let plan = session.plan();
    if json {
        return output::json(&plan);
    }
    output::result(&format!("would run {} in {}", plan.agent, plan.workspace.display()));
    if !plan.fallback.is_empty() {
        output::result(&format!("  fallback    {}", plan.fallback.join(", ")));
    }
    output::result(&format!("  program     {}", plan.program.as_deref().unwrap_or("none")));
    output::result(&format!("  detectors   {}", plan.detectors.join(", ")));
    for demand in &plan.validators {
        output::result(&format!("  validator   {demand}"));
    }
    if !plan.validation_required {
        output::result("  validator   NONE: the agent's claim is trusted");
    } else if plan.evidence_only {
        output::result(&format!("  completion  {EVIDENCE_ONLY}"));
    }
    output::result(&format!("  limits      {}", limits(loaded)));
    output::result(&format!("  environment {}", plan.env.join(" ")));
    output::result(&format!("  state       {}", plan.state_dir.display()));
    if let Some(instructions) = &plan.instructions {
        output::result(&format!("  after prompt {}", instructions.trim()));
    }
    output::result(&format!("  next        iteration {}", plan.next_iteration));
}

/// The limits that end most runs.
fn limits(loaded: &LoadedConfig) -> String {
    let limits = &loaded.config.limits;
    let none = || "no limit".to_owned();
    let iterations = limits.max_iterations.map_or_else(none, |most| most.to_string());
    let cost = limits.max_cost_usd.map_or_else(none, |most| most.to_string());
    let runtime = limits.max_runtime.map_or_else(none, duration_text);
    format!("iterations {iterations}, cost {cost}, runtime {runtime}")
}
