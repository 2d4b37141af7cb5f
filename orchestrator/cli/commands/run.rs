//! `run`

use std::collections::BTreeSet;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use orchestrator::engine::{Observer, Opened, Request, Session, open};
use orchestrator::machine::{Outcome, StopReason};
use orchestrator::registry::Surroundings;
use orchestrator::state::{Disk, Found, Layout};
use ralph_orchestrator_supervise::Supervisor;

use ralph_orchestrator_supervise::Remains;

use crate::args::Run;
use crate::commands::block_on;
use crate::context::Context;
use crate::error::{CommandError, exit, of_stop};
use crate::plugins::Plugins;
use crate::registry;
use crate::render::text::one_line;
use crate::render::{Human, Json};
use crate::sandbox::Policy;
use crate::{output, signals};

/// What tells the processes of a run, in their environment.
const RUN_ID: &str = "RALPH_RUN_ID";

pub(crate) fn run(file: &Path, mut args: Run) -> Result<u8, CommandError> {
    let mut sets = std::mem::take(&mut args.sets.sets);
    let shorthands = [
        ("limits.max_iterations", args.max_iterations.map(|n| n.to_string())),
        ("limits.max_cost_usd", args.max_cost.clone()),
        ("limits.max_runtime", args.max_runtime.clone()),
    ];
    for (key, value) in shorthands {
        sets.extend(value.map(|value| (key.to_owned(), value)));
    }
    if !args.dry_run {
        output::begin_run(args.json);
    }
    let context = Context::load(file, sets)?;
    // While everything else is looked at.
    Supervisor::this_binary().prepare();
    block_on(start(context, args))
}

async fn start(context: Context, args: Run) -> Result<u8, CommandError> {
    let signals = signals::listen()?;
    let switch = signals.switch.clone();
    let state_home = context.state_home();
    let policy = Policy::of(&context)?;
    let plugins = Plugins::of(&context)?;
    let registry = |surroundings: Surroundings| {
        registry::whole(&plugins, policy.as_ref(), surroundings, switch.clone())
    };
    let opened = open(Request {
        loaded: context.loaded,
        config_file: context.file,
        vars: context.vars,
        disk: Disk::default(),
        state_home,
        registry: &registry,
        end_remains: &end_remains,
        agent: args.agent.clone(),
        once: args.once,
        restart: args.restart,
    })
    .await?;
    let session = match opened {
        Opened::Complete { found, layout } => return Ok(complete(&found, &layout, args.json)),
        Opened::Ready(session) => session,
    };
    if args.dry_run {
        dry_run(&session, args.json);
        return Ok(exit::OK);
    }
    if let Some(warning) = policy.as_ref().and_then(|policy| policy.warning(&session.protects())) {
        output::say(&warning);
    }
    let observer: Arc<dyn Observer> = if args.json {
        Arc::new(Json::new(Arc::clone(&signals.status)))
    } else {
        Human::watching(args.verbose)
    };
    let finished = session.drive(observer, signals.stop_requests()).await?;
    let well = matches!(finished.state.last_outcome, Some(Outcome::Succeeded));
    Ok(of_stop(finished.reason, well, signals.status.load(Ordering::Relaxed)))
}

/// Ends what the agents of a run have left, if nobody did, and returns what there is to say about it.
fn end_remains(run: &str) -> Vec<String> {
    let Remains { ended, survived } = ralph_orchestrator_supervise::end_remains(RUN_ID, run);
    let say = |names: Vec<String>, what: &str| {
        let count = names.len();
        let names = names.into_iter().collect::<BTreeSet<_>>().into_iter().collect::<Vec<_>>();
        (count > 0).then(|| {
            format!(
                "{count} processes of a killed start {what}: {}",
                one_line(&names.join(", "), 200)
            )
        })
    };
    [say(ended, "were left, and were ended"), say(survived, "could not be ended")]
        .into_iter()
        .flatten()
        .collect()
}

/// The run is complete: says so and starts nothing.
fn complete(found: &Found, layout: &Layout, json: bool) -> u8 {
    let validated = found.state.completion().is_some_and(|completion| completion.validated);
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
            "iterations": found.state.iterations,
            "cost_usd": found.state.cost(),
            "runtime_ms": found.state.runtime_ms,
        }));
        return exit::OK;
    }
    let how = if validated { "" } else { " WITHOUT validation" };
    output::result(&format!(
        "already completed{how} in {} iterations; no agent was started (run {})",
        found.state.iterations, found.run
    ));
    output::say(&format!(
        "`run --restart` begins a new run; the record of this one is in {}",
        layout.root().display()
    ));
    exit::OK
}

fn dry_run(session: &Session, json: bool) {
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
    if !plan.validated {
        output::result("  validator   NONE: the agent's claim is trusted");
    }
    output::result(&format!("  environment {}", plan.env.join(" ")));
    output::result(&format!("  state       {}", plan.state_dir.display()));
    output::result(&format!("  next        iteration {}", plan.next_iteration));
}
