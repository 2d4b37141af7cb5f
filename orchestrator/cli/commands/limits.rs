//! `limits`

use std::time::Duration;

use ralph_orchestrator_assembly::context::Context;
use ralph_orchestrator_assembly::control::{COMMAND_LINE, ControlTarget, own_origin};
use ralph_orchestrator_assembly::discovery::ConfigFile;
use ralph_orchestrator_assembly::error::{CommandError, exit};
use ralph_orchestrator_assembly::{control, run_selection};
use ralph_orchestrator_config::parse_duration;
use ralph_orchestrator_contract::Usd;
use ralph_orchestrator_machine::{Control, Limit, LimitChanges, LimitValue, State};
use ralph_orchestrator_story::limits::{LIMITS, is_unreported, used};
use ralph_orchestrator_story::next_step;
use ralph_orchestrator_story::words::limit_value;
use ralph_orchestrator_text::timestamp;
use serde_json::{Value, json};

use crate::set_args::SetArgs;
use crate::{output, values};

#[derive(Debug, clap::Args)]
pub(crate) struct LimitsArgs {
    /// Most iterations of the run, or none
    #[arg(long, value_name = "N", value_parser = values::count, allow_negative_numbers = true)]
    pub(crate) max_iterations: Option<String>,
    /// Most dollars that the run may cost, or none
    #[arg(long, value_name = "USD", value_parser = values::dollars, allow_negative_numbers = true)]
    pub(crate) max_cost: Option<String>,
    /// Longest time that the run may take, such as 90m, or none
    #[arg(
        long,
        value_name = "DURATION",
        value_parser = values::duration,
        allow_negative_numbers = true
    )]
    pub(crate) max_runtime: Option<String>,
    /// Most tokens of all kinds that the run may use, or none
    #[arg(long, value_name = "N", value_parser = values::count, allow_negative_numbers = true)]
    pub(crate) max_tokens: Option<String>,
    /// Return to the limits of the configuration, before those that are given here are set
    #[arg(long)]
    pub(crate) clear: bool,
    /// Print one JSON object
    #[arg(long)]
    pub(crate) json: bool,
    #[command(flatten)]
    pub(crate) sets: SetArgs,
}

impl LimitsArgs {
    /// Returns what changes by the limits that are given.
    pub(crate) fn changes(&self) -> LimitChanges {
        let count = |text: &Option<String>| text.as_ref().map(|text| text.parse().ok());
        LimitChanges {
            clear: self.clear,
            max_iterations: count(&self.max_iterations),
            max_runtime_ms: self.max_runtime.as_ref().map(|text| {
                let time = parse_duration(text);
                time.map(|time| u64::try_from(time.as_millis()).unwrap_or(u64::MAX))
            }),
            max_cost_usd: self
                .max_cost
                .as_ref()
                .map(|text| text.parse().ok().and_then(Usd::from_dollars)),
            max_tokens: count(&self.max_tokens),
        }
    }
}

pub(crate) fn limits(file: &ConfigFile, args: &LimitsArgs) -> Result<u8, CommandError> {
    let context = Context::locate_run(file, &args.sets)?;
    let changes = args.changes();
    if !changes.is_empty() {
        let target = ControlTarget::of_context(&context, file)?;
        let outcome =
            control::deliver(&target, own_origin(COMMAND_LINE), &Control::Limits(changes))?;
        if outcome.is_queued {
            output::result(&outcome.message);
            return Ok(exit::OK);
        }
    }
    let Some(run) = run_selection::read(&context, None, |_| {})? else {
        return Err(CommandError::user(run_selection::no_run(&context)).hinted(NO_RUN_HINT));
    };
    let rows = LIMITS.map(|limit| Row::new(&context, &run.found.state, run.runtime_ms(), limit));
    if args.json {
        let limits: serde_json::Map<String, Value> = rows.iter().map(Row::object).collect();
        output::json(&json!({ "run": run.found.run, "limits": limits }));
        return Ok(exit::OK);
    }
    for row in &rows {
        output::result(&row.line());
    }
    Ok(exit::OK)
}

const NO_RUN_HINT: &str = "`ralph-orchestrator config show` prints the limits of the configuration";

/// A limit, what is used of it, and where it comes from.
struct Row {
    limit: Limit,
    max: Option<LimitValue>,
    /// `None` if the agent does not say.
    used: Option<LimitValue>,
    /// Who set it; `None` if it is that of the configuration.
    set_by: Option<String>,
    origin: Option<String>,
    object: Value,
}

/// Returns where a limit comes from that nobody has set by `limits`.
fn origin(context: &Context, state: &State, limit: Limit) -> Option<String> {
    let loaded = &context.loaded;
    let origin = loaded.origin(limit.key());
    // The runs of a backlog have what is left of its limits.
    let is_part = loaded.config.backlog.is_some();
    let now = next_step::configured(&loaded.config.limits, limit);
    if is_part || now == state.controls.configured_limits.value(limit) {
        return origin;
    }
    let now = limit_value(now);
    Some(format!("of the last start; the next has {now} ({})", origin.unwrap_or_default()))
}

impl Row {
    fn new(context: &Context, state: &State, runtime_ms: u64, limit: Limit) -> Self {
        let is_known = !is_unreported(state, limit);
        let used = Some(used(state, runtime_ms, limit)).filter(|_| is_known);
        let set = state.controls.limits.origin(limit);
        let origin = origin(context, state, limit);
        let max = state.limits.value(limit);
        let object = json!({
            "max": max.map(plain),
            "used": used.map(plain),
            "set_by": set.map(|set| set.user.as_str()),
            "set_at": set.and_then(|set| timestamp(set.sent_ms)),
            "configured": state.controls.configured_limits.value(limit).map(plain),
        });
        Self { limit, max, used, set_by: set.map(control::sender), origin, object }
    }

    fn name(&self) -> &'static str {
        self.limit.key().trim_start_matches("limits.")
    }

    fn object(&self) -> (String, Value) {
        (self.name().to_owned(), self.object.clone())
    }

    fn line(&self) -> String {
        let max = limit_value(self.max);
        let from = match (&self.set_by, &self.origin) {
            (Some(sender), _) => format!("set by {sender}"),
            (None, Some(origin)) => origin.clone(),
            (None, None) => "default".to_owned(),
        };
        let used = match self.used {
            Some(used) => format!("{} used", limit_value(Some(used))),
            None => "not reported".to_owned(),
        };
        format!("{:<16}{max:<12}{used:<14}{from}", self.name())
    }
}

/// A value for programs: durations in seconds.
fn plain(value: LimitValue) -> Value {
    match value {
        LimitValue::Count(count) => json!(count),
        LimitValue::Duration(ms) => json!(Duration::from_millis(ms).as_secs_f64()),
        LimitValue::Money(usd) => json!(usd),
    }
}
