//! `verify`

mod receipt;

use std::path::PathBuf;

use ralph_orchestrator_assembly::backlog_view;
use ralph_orchestrator_assembly::block_on::block_on;
use ralph_orchestrator_assembly::context::Context;
use ralph_orchestrator_assembly::discovery::ConfigFile;
use ralph_orchestrator_assembly::error::{CommandError, exit};
use ralph_orchestrator_assembly::git;
use ralph_orchestrator_assembly::plugins::Plugins;
use ralph_orchestrator_assembly::sandbox::SandboxPolicy;
use ralph_orchestrator_assembly::transient_checkout::TransientCheckout;
use ralph_orchestrator_contract::Verdict;
use ralph_orchestrator_engine::{CheckSite, Redactor};
use ralph_orchestrator_machine::ValidatorVerdict;
use ralph_orchestrator_store::{Lock, StateError};
use ralph_orchestrator_story::words::describe_execution;
use ralph_orchestrator_terminal::output;
use ralph_orchestrator_terminal::set_args::SetArgs;
use ralph_orchestrator_terminal::trust;
use ralph_orchestrator_terminal::validation_setup::{CheckProcesses, ValidationSetup};
use ralph_orchestrator_text::one_line;

/// Characters of a summary.
const SHOWN: usize = 160;
/// What those do that are not run.
const OTHERS: &str = "judges what the agent of a run has written";
/// What a run compares, and this does not.
const PROTECTED_AS_THEY_ARE: &str =
    "protected paths were taken as they are: only a run knows how they were when it began";

#[derive(Debug, clap::Args)]
pub(crate) struct VerifyArgs {
    /// A receipt of a completed run: verify its signature instead, offline
    #[arg(value_name = "RECEIPT")]
    receipt: Option<PathBuf>,
    /// Public key that may have signed the receipt [default: your own]; repeat it for several
    #[arg(long = "key", value_name = "FILE", requires = "receipt")]
    keys: Vec<PathBuf>,
    /// Also run the checks on the workspace, which has to be what the receipt is about
    #[arg(long, requires = "receipt")]
    rerun: bool,
    /// Run the checks as for this item of the backlog, with its own check [default: the next item]
    #[arg(long, value_name = "ID", conflicts_with = "receipt")]
    item: Option<String>,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    sets: SetArgs,
}

/// Runs the checks once on the workspace as it is, or verifies a receipt. Succeeds if all that are required accept.
pub(crate) fn verify(file: &ConfigFile, args: &VerifyArgs) -> Result<u8, CommandError> {
    match &args.receipt {
        Some(receipt) => receipt::verify(file, args, receipt),
        None => {
            let context = trust::load_to_start(file, args.sets.sets.clone())?;
            run_checks(&git::enter_here(context)?, args.json, &[], args.item.as_deref())
        }
    }
}

/// Runs the checks, which do not see these folders of the workspace.
fn run_checks(
    context: &Context,
    is_json: bool,
    hidden: &[PathBuf],
    item: Option<&str>,
) -> Result<u8, CommandError> {
    if let Some(holder) = context.layout().ok().and_then(|layout| Lock::holder(&layout)) {
        return Err(StateError::Busy { holder }.into());
    }
    let Checked { verdicts, others, protects } = block_on(judge(context, hidden, item))?;
    let required = verdicts.iter().filter(|named| named.required);
    if required.clone().next().is_none() {
        let message = "no required validator of this configuration runs anything";
        return Err(CommandError::config(message)
            .hinted("add one of the kind \"command\", such as `program = [\"cargo\", \"test\"]`"));
    }
    let failing: Vec<&str> = required
        .clone()
        .filter(|named| !named.verdict.is_accepted())
        .map(|named| named.validator.as_str())
        .collect();
    if is_json {
        let value = serde_json::json!({
            "verified": failing.is_empty(),
            "verdicts": verdicts,
            "not_run": others,
        });
        output::json(&value);
    } else {
        verdicts.iter().for_each(show);
        others.iter().for_each(|name| output::result(&format!("skip  {name}: {OTHERS}")));
        output::result(&match failing.as_slice() {
            [] => match required.count() {
                1 => "verified: the required validator accepts".to_owned(),
                many => format!("verified: {many} required validators accept"),
            },
            names => format!("not verified: {}", names.join(", ")),
        });
    }
    if protects && failing.is_empty() && !is_json {
        output::info(PROTECTED_AS_THEY_ARE);
    }
    Ok(if failing.is_empty() { exit::OK } else { exit::FAILED_CHECKS })
}

/// What came of the validators.
struct Checked {
    /// Without secrets.
    verdicts: Vec<ValidatorVerdict>,
    /// The names of those that were not asked.
    others: Vec<String>,
    /// They protect paths.
    protects: bool,
}

async fn judge(
    context: &Context,
    hidden: &[PathBuf],
    item: Option<&str>,
) -> Result<Checked, CommandError> {
    let workspace = &context.loaded.config.run.workspace;
    let workspace = workspace.canonicalize().map_err(|error| {
        CommandError::config(format!("the workspace {}: {error}", workspace.display()))
    })?;
    let policy = SandboxPolicy::from_context(context)?;
    let plugins = Plugins::from_context(context)?;
    let processes = CheckProcesses::begin(context)?;
    let setup = match item {
        Some(id) => {
            let item = (id.to_owned(), backlog_view::find_item_check(context, id).await?);
            let with = (&processes, Some(item));
            ValidationSetup::build_for(context, &plugins, policy.as_ref(), with).await?
        }
        None => ValidationSetup::build(context, &plugins, policy.as_ref(), &processes).await?,
    };
    let redactor = Redactor::new(&context.loaded.config.env, setup.env.iter().chain(&context.vars));
    let checkout = TransientCheckout::make_without(context, hidden).await?;
    let site = CheckSite { workspace: &workspace, checkout: checkout.overlays(), env: &setup.env };
    let verdicts = redactor.redact(setup.policy.verify(site).await);
    let others = setup.policy.names_of_others().into_iter().map(str::to_owned).collect();
    let protects = !setup.policy.protects().is_empty();
    Ok(Checked { verdicts, others, protects })
}

fn show(named: &ValidatorVerdict) {
    let name = &named.validator;
    let optional = if named.required { "" } else { ", not required" };
    let time = describe_execution(named);
    match &named.verdict {
        Verdict::Accepted { summary, .. } => {
            let summary = one_line(summary, SHOWN);
            output::result(&format!("ok    {name} ({time}{optional}): {summary}"));
        }
        Verdict::Rejected { reasons } => {
            output::result(&format!("FAIL  {name} ({time}{optional})"));
            for reason in reasons {
                for line in ralph_orchestrator_text::escape(reason).lines() {
                    output::result(&format!("      {line}"));
                }
            }
        }
        Verdict::Error { message } => {
            let message = one_line(message, SHOWN);
            output::result(&format!("FAIL  {name} ({time}{optional}): no verdict: {message}"));
        }
    }
}
