//! `limits`

use ralph_orchestrator_assembly::context::Context;
use ralph_orchestrator_assembly::control::{COMMAND_LINE, ControlTarget, own_origin};
use ralph_orchestrator_assembly::discovery::ConfigFile;
use ralph_orchestrator_assembly::error::{CommandError, exit};
use ralph_orchestrator_assembly::{control, run_selection};
use ralph_orchestrator_config::LoadedConfig;
use ralph_orchestrator_machine::{
    BudgetRow, Control, Limit, LimitChanges, LimitUnit, LimitValue, RunUsage,
};
use ralph_orchestrator_story::selected_run::SelectedRun;
use ralph_orchestrator_story::words::{limit_json, limit_value};
use ralph_orchestrator_terminal::set_args::SetArgs;
use ralph_orchestrator_terminal::{output, values};
use ralph_orchestrator_text::timestamp;
use serde_json::{Value, json};

use super::steer::ItemArgs;

#[derive(Debug, clap::Args)]
pub(crate) struct LimitsArgs {
    #[command(flatten)]
    pub(crate) options: LimitOptions,
    /// Return to the limits of the configuration, before those that are given here are set
    #[arg(long)]
    pub(crate) clear: bool,
    #[command(flatten)]
    pub(crate) of: ItemArgs,
    /// Print one JSON object
    #[arg(long)]
    pub(crate) json: bool,
    #[command(flatten)]
    pub(crate) sets: SetArgs,
}

/// An option for each limit on what a run may use; `None` is no limit.
#[derive(Clone, Debug, Default)]
pub(crate) struct LimitOptions(Vec<(Limit, Option<LimitValue>)>);

impl clap::Args for LimitOptions {
    fn augment_args(command: clap::Command) -> clap::Command {
        (0..).zip(Limit::budgets()).fold(command, |command, (at, (limit, row))| {
            let unit = limit.row().unit;
            // Money stands before time.
            let (name, order) = match unit {
                LimitUnit::Count => ("N", at),
                LimitUnit::Duration => ("DURATION", at + 1),
                LimitUnit::Money => ("USD", at - 1),
            };
            let option = clap::Arg::new(limit.name())
                .long(row.option)
                .value_name(name)
                .value_parser(move |text: &str| values::limit(unit, text))
                .allow_negative_numbers(true)
                .display_order(order)
                .help(format!("{}, or none", row.about));
            command.arg(option)
        })
    }

    fn augment_args_for_update(command: clap::Command) -> clap::Command {
        Self::augment_args(command)
    }
}

impl clap::FromArgMatches for LimitOptions {
    fn from_arg_matches(matches: &clap::ArgMatches) -> Result<Self, clap::Error> {
        let mut options = Self::default();
        options.update_from_arg_matches(matches)?;
        Ok(options)
    }

    fn update_from_arg_matches(&mut self, matches: &clap::ArgMatches) -> Result<(), clap::Error> {
        let given = |limit: Limit| Some((limit, *matches.get_one(limit.name())?));
        self.0 = Limit::budgets().filter_map(|(limit, _)| given(limit)).collect();
        Ok(())
    }
}

impl LimitsArgs {
    /// Returns what changes by the limits that are given.
    fn changes(&self) -> LimitChanges {
        let given = self.options.0.iter();
        given
            .fold(LimitChanges::new(self.clear), |changes, (limit, max)| changes.with(*limit, *max))
    }
}

pub(crate) fn limits(file: &ConfigFile, args: &LimitsArgs) -> Result<u8, CommandError> {
    let context = Context::locate_run(file, &args.sets)?;
    let changes = Control::Limits(args.changes());
    let targets = ControlTarget::find(&context, file, (args.of.item.as_deref(), &changes))?;
    let no_run = || CommandError::user(run_selection::no_run(&context)).hinted(NO_RUN_HINT);
    // They are of one run.
    let target = targets.first().ok_or_else(no_run)?;
    if !args.changes().is_empty() {
        let outcome = control::deliver(target, own_origin(COMMAND_LINE), &changes)?;
        if outcome.is_queued {
            output::result(&outcome.message);
            return Ok(exit::OK);
        }
    }
    let run = target.read()?.ok_or_else(no_run)?;
    // The runs of a backlog have what is left of its limits.
    let ledger = match context.loaded.config.backlog {
        Some(_) => target.read_ledger()?,
        None => None,
    };
    let others = ledger.map(|ledger| ledger.used_beside(Some(&run.found.run)));
    let scene =
        Scene { loaded: &context.loaded, run: &run, others, is_share: target.item.is_some() };
    let row = |limit, row| Row::new(&scene, limit, row);
    let rows: Vec<Row> = Limit::budgets().map(|(limit, budget)| row(limit, budget)).collect();
    if args.json {
        let limits: serde_json::Map<String, Value> = rows.iter().map(Row::object).collect();
        output::json(&json!({ "run": run.found.run, "limits": limits }));
        return Ok(exit::OK);
    }
    for row in &rows {
        output::result_folded(&row.line(), INDENT);
    }
    Ok(exit::OK)
}

/// Where the origins begin.
const INDENT: usize = 42;

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

/// The run whose limits are shown.
struct Scene<'a> {
    loaded: &'a LoadedConfig,
    run: &'a SelectedRun,
    /// What the other runs of its backlog have used.
    others: Option<RunUsage>,
    /// It has a share of what all have, which go on at once.
    is_share: bool,
}

impl Scene<'_> {
    /// Returns where a limit comes from that nobody has set by `limits`.
    fn origin(&self, limit: Limit, row: &BudgetRow) -> Option<String> {
        let state = &self.run.found.state;
        let origin = self.loaded.origin(limit.key());
        let now = limit.configured(&self.loaded.config.limits);
        let last = state.controls.configured_limits.value(limit);
        let next = |max| format!("the next has {}", limit_value(max));
        if self.is_share {
            let of = match now {
                Some(_) => format!("its share of {} for all items", limit_value(now)),
                None => "no limit for all items".to_owned(),
            };
            return Some(format!("{of} ({})", origin.unwrap_or_default()));
        }
        if let Some(others) = &self.others {
            let left = last.map(LimitValue::amount);
            let shared = left.map(|left| left.saturating_add(row.used(others)));
            let shared = shared.map(|amount| limit.row().unit.to_value(amount));
            let from = match shared {
                Some(_) => format!("of {} for all items", limit_value(shared)),
                None => "no limit for all items".to_owned(),
            };
            let origin = origin.unwrap_or_default();
            return Some(match now == shared {
                true => format!("{from} ({origin})"),
                false => format!("{from} at the last start; {} ({origin})", next(now)),
            });
        }
        // One that a stricter one of the last start replaced holds again.
        let set = state.controls.limits.origin(limit).map(control::sender);
        let now = state.next_limits(Some(&self.loaded.config.limits)).value(limit);
        if now == state.limits.value(limit) {
            return origin;
        }
        let origin = set.map_or(origin, |sender| Some(format!("set by {sender}")));
        Some(format!("of the last start; {} ({})", next(now), origin.unwrap_or_default()))
    }
}

impl Row {
    fn new(scene: &Scene<'_>, limit: Limit, budget: &BudgetRow) -> Self {
        let state = &scene.run.found.state;
        let is_known = !state.is_unreported(budget);
        let usage = RunUsage { runtime_ms: scene.run.runtime_ms(), ..RunUsage::from_state(state) };
        let used = Some(limit.row().unit.to_value(budget.used(&usage))).filter(|_| is_known);
        let set = state.controls.set_by(limit);
        let origin = scene.origin(limit, budget);
        let max = state.limits.value(limit);
        let object = json!({
            "max": max.map(limit_json),
            "used": used.map(limit_json),
            "set_by": set.map(|set| set.user.as_str()),
            "set_at": set.and_then(|set| timestamp(set.sent_ms)),
            "configured": state.controls.configured_limits.value(limit).map(limit_json),
        });
        Self { limit, max, used, set_by: set.map(control::sender), origin, object }
    }

    fn object(&self) -> (String, Value) {
        (self.limit.name().to_owned(), self.object.clone())
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
        format!("{:<16}{max:<10}  {used:<12}  {from}", self.limit.name())
    }
}
