//! Running the written checks once: do they fail now, as they should?

use std::collections::BTreeSet;
use std::path::Path;
use std::time::Duration;

use ralph_orchestrator_assembly::block_on::block_on;
use ralph_orchestrator_assembly::context::Context;
use ralph_orchestrator_assembly::discovery::ConfigFile;
use ralph_orchestrator_assembly::error::CommandError;
use ralph_orchestrator_assembly::overrides::Overrides;
use ralph_orchestrator_assembly::plugins::Plugins;
use ralph_orchestrator_assembly::transient_checkout::TransientCheckout;
use ralph_orchestrator_contract::Verdict;
use ralph_orchestrator_engine::registry::LaunchContext;
use ralph_orchestrator_engine::{
    CheckSite, CompletionPolicy, SetupReport, build_context, plain_environment,
};
use ralph_orchestrator_machine::ValidatorVerdict;
use ralph_orchestrator_terminal::output;
use ralph_orchestrator_terminal::trust;
use ralph_orchestrator_terminal::validation_setup::CheckProcesses;
use ralph_orchestrator_text::one_line;

/// How long each may take. What takes longer is not verified here.
const AT_MOST: Duration = Duration::from_secs(120);
/// Characters of what a check said.
const SHOWN: usize = 160;

/// Runs the checks of the configuration in this file once. What is to be said of each.
pub(crate) fn run(file: &Path) -> Result<Vec<String>, CommandError> {
    let context = trust::load_to_start(&ConfigFile::named(file.to_owned()), Overrides::default())?;
    output::info("running the checks once …");
    let folder = context.loaded.dir().to_owned();
    let before = entries(&folder);
    let mut lines = block_on(verdicts(&context))?;
    let new: Vec<String> = entries(&folder).difference(&before).cloned().collect();
    if !new.is_empty() {
        lines.push(format!("  running them created {}", new.join(", ")));
    }
    Ok(lines)
}

fn entries(folder: &Path) -> BTreeSet<String> {
    let entries = folder.read_dir().into_iter().flatten().flatten();
    entries.filter_map(|entry| entry.file_name().into_string().ok()).collect()
}

async fn verdicts(context: &Context) -> Result<Vec<String>, CommandError> {
    let plugins = Plugins::from_context(context)?;
    let build = build_context(&context.loaded, &context.vars);
    let processes = CheckProcesses::begin_unlocked(context)?;
    let registry = processes.registry(&plugins, None);
    let judges = CompletionPolicy::build(&context.loaded, &registry, &build).await?;
    let guard = processes.workspace.clone();
    registry.set_launch_context(LaunchContext { guard, ..LaunchContext::default() });
    let env = plain_environment(&context.loaded, &context.vars);
    let setup = judges.check_setup(&context.loaded, &env).await;
    let workspace = context.loaded.config.run.workspace.canonicalize()?;
    let checkout = TransientCheckout::make(context).await?;
    let site = CheckSite { workspace: &workspace, checkout: checkout.overlays(), env: &env };
    let found = judges.check_baseline(site, Some(AT_MOST)).await;
    Ok(found.verdicts.iter().map(|named| line(context, &setup, named)).collect())
}

fn line(context: &Context, setup: &SetupReport, named: &ValidatorVerdict) -> String {
    let name = &named.validator;
    let mut fatal = setup
        .findings
        .iter()
        .filter(|found| found.validator == *name && found.problem.is_fatal)
        .map(|found| &found.problem);
    // Of a shell that exists the line may still be wrong, which is a later word.
    let is_missing =
        fatal.clone().any(|problem| problem.key.get(1).is_none_or(|index| index == "0"));
    let says = match (&named.verdict, fatal.next()) {
        _ if is_missing => {
            let program = program(context, name);
            format!("could not be run: {program} is not installed")
        }
        (Verdict::Rejected { .. }, Some(problem)) => {
            format!("could not be run: {}", one_line(&problem.message, SHOWN))
        }
        (Verdict::Accepted { .. }, _) => "already passes, so it proves nothing".to_owned(),
        (Verdict::Rejected { reasons }, None) => {
            let why = clause(reasons.first().map(String::as_str).unwrap_or_default());
            format!("fails now, as it should ({why})")
        }
        (Verdict::Error { message }, _) => match not_found(message) {
            Some(program) => format!("could not be run: {program} is not installed"),
            None => {
                let why = clause(message);
                let start =
                    if why.starts_with("could not") { "" } else { "could not be verified: " };
                format!("{start}{why}")
            }
        },
    };
    format!("  {name}: {says}")
}

/// The beginning of what a check said, without its command, which was named before.
fn clause(text: &str) -> String {
    let first = text.lines().next().unwrap_or_default();
    let why = match first.split_once("` failed: ") {
        Some((_, why)) => why,
        None => first.rsplit_once("` ").map_or(first, |(_, why)| why),
    };
    let why = why.split("; ").next().unwrap_or(why);
    // A pattern may have a dot and a space in it; a sentence begins with a capital letter.
    let ends = why.match_indices(". ").map(|(at, _)| at);
    let mut ends = ends.filter(|at| {
        why.get(at + 2..).is_some_and(|rest| rest.starts_with(|c: char| c.is_ascii_uppercase()))
    });
    let why = ends.next().and_then(|at| why.get(..at)).unwrap_or(why);
    one_line(why.trim_end_matches('.').trim_end_matches(", expected exit 0"), SHOWN)
}

/// The program that a shell did not find.
fn not_found(message: &str) -> Option<&str> {
    let said = message.lines().find_map(|line| {
        let line = line.trim_end();
        line.strip_suffix(": command not found").or_else(|| line.strip_suffix(": not found"))
    })?;
    said.rsplit(": ").next()
}

/// The program of a validator, by its name.
fn program(context: &Context, name: &str) -> String {
    let validator = context.loaded.config.validators.iter().find(|known| known.name == name);
    let program = validator.and_then(|known| known.config.pointer("/program/0")?.as_str());
    program.unwrap_or("its program").to_owned()
}
