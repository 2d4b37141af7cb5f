//! `rehearse`

use std::time::Duration;

use ralph_orchestrator_assembly::block_on::block_on;
use ralph_orchestrator_assembly::context::Context;
use ralph_orchestrator_assembly::discovery::ConfigFile;
use ralph_orchestrator_assembly::error::{CommandError, exit};
use ralph_orchestrator_assembly::git;
use ralph_orchestrator_assembly::plugins::Plugins;
use ralph_orchestrator_assembly::sandbox::SandboxPolicy;
use ralph_orchestrator_config::parse_duration;
use ralph_orchestrator_init::{RehearsalReport, RehearsedRow, RowVerdict, rehearse as try_moves};
use ralph_orchestrator_store::{Lock, StateError};
use ralph_orchestrator_terminal::output;
use ralph_orchestrator_terminal::set_args::SetArgs;
use ralph_orchestrator_terminal::trust;
use ralph_orchestrator_terminal::validation_setup::{CheckProcesses, ValidationSetup};
use ralph_orchestrator_text::one_line;

/// Characters of a reason.
const SHOWN: usize = 110;
/// Where details begin.
const INDENT: usize = 31;
/// How long all of it may take.
pub(crate) const MAX_TIME: Duration = Duration::from_secs(600);

#[derive(Debug, clap::Args)]
pub(crate) struct RehearseArgs {
    /// Try nothing more after this time
    #[arg(long, value_name = "DURATION", value_parser = time, default_value = "10m")]
    max_time: Duration,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    sets: SetArgs,
}

fn time(text: &str) -> Result<Duration, String> {
    parse_duration(text).ok_or_else(|| "expected a duration, such as 10m".to_owned())
}

/// Tries what agents do to checks, without an agent. Succeeds if no cheat would be accepted and no honest work rejected.
pub(crate) fn rehearse(file: &ConfigFile, args: &RehearseArgs) -> Result<u8, CommandError> {
    let context = trust::load_to_start(file, args.sets.sets.clone())?;
    let context = &git::enter_here(context)?;
    if let Some(holder) = context.layout().ok().and_then(|layout| Lock::holder(&layout)) {
        return Err(StateError::Busy { holder }.into());
    }
    let processes = CheckProcesses::begin(context)?;
    let report = block_on(perform(context, &processes, args.max_time))?;
    let Some(report) = report else { return Ok(processes.stop_status()) };
    let problems = report.rows.iter().filter(|row| row.verdict.is_problem()).count();
    let is_fine = problems == 0 && is_informative(&report);
    if args.json {
        let rows: Vec<_> = report.rows.iter().map(to_json).collect();
        output::json(&serde_json::json!({
            "ok": is_fine,
            "already_accepting": report.accepting,
            "rows": rows,
        }));
    } else {
        show(context, &report, problems);
    }
    Ok(if is_fine { exit::OK } else { exit::FAILED_CHECKS })
}

/// Whether the checks come to a verdict on honest work, as far as any was tried: otherwise what they reject says nothing.
fn is_informative(report: &RehearsalReport) -> bool {
    let mut honest = report.rows.iter().filter(|row| row.kind.is_honest()).peekable();
    honest.peek().is_none() || !honest.all(|row| row.verdict == RowVerdict::Unknown)
}

async fn perform(
    context: &Context,
    processes: &CheckProcesses,
    max_time: Duration,
) -> Result<Option<RehearsalReport>, CommandError> {
    let policy = SandboxPolicy::from_context(context)?;
    let plugins = Plugins::from_context(context)?;
    let setup = ValidationSetup::build(context, &plugins, policy.as_ref(), processes).await?;
    try_moves(context, &setup, (max_time, processes.take_stop_requests())).await
}

fn to_json(row: &RehearsedRow) -> serde_json::Value {
    serde_json::json!({
        "check": row.check,
        "tried": row.kind.name(),
        "honest": row.kind.is_honest(),
        "files": row.what,
        "outcome": row.verdict.word(),
        "problem": row.verdict.is_problem(),
        "why": row.why,
        "add": row.advice,
    })
}

fn show(context: &Context, report: &RehearsalReport, problems: usize) {
    let mut check = "";
    for row in &report.rows {
        if row.check != check {
            check = &row.check;
            output::result(&format!("{check} ({})", find_place(context, check)));
        }
        let why = one_line(&row.why, SHOWN);
        let why = if why.is_empty() { why } else { format!(": {why}") };
        let line =
            format!("  {:<10} {:<18} {}{why}", row.verdict.word(), row.kind.name(), row.what);
        output::result_folded(&line, INDENT);
        if let Some(advice) = &row.advice {
            output::result_folded(&format!("  {:<10} {:<18} {advice}", "", "add:"), INDENT);
        }
    }
    output::result(&match problems {
        0 if !is_informative(report) => {
            "the checks come to no verdict on an honest edit, so little is known of them; `doctor` says why".to_owned()
        }
        0 => "no cheat that was tried would be accepted".to_owned(),
        1 => "1 line to add or change".to_owned(),
        many => format!("{many} lines to add or change"),
    });
    let accepting = report.accepting.join(", ");
    if !accepting.is_empty() {
        output::info(&format!("accepted already, before anything was changed: {accepting}"));
    }
}

/// Returns where the table of a validator is.
pub(crate) fn find_place(context: &Context, check: &str) -> String {
    let known = context.loaded.config.validators.iter().find(|known| known.name == check);
    let key = known.map(|known| format!("validator.{}.program", known.index));
    key.and_then(|key| context.loaded.origin(&key)).unwrap_or_default()
}
