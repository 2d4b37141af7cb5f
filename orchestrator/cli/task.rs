//! The flags of `run` as values of the configuration.
//!
//! Each flag replaces its part of the configuration and nothing else: `--goal` and `--prompt` the prompt,
//! `--check` the validators, the words after `--` the agent. So a task on the command line needs no file,
//! and where there is one its limits, environment and sandbox still hold.

use std::path::Path;

use ralph_orchestrator_assembly::config_values::{flag, validator};
use ralph_orchestrator_assembly::error::CommandError;
use ralph_orchestrator_assembly::overrides::Overrides;
use ralph_orchestrator_config::Flag;
use ralph_orchestrator_text::one_line;
use toml::Value;

use crate::commands::run::RunArgs;
use crate::init::protect::protected_by;
use crate::{agent_words, output};

/// The limits of a task without a file.
const LIMITS: [(&str, &str); 3] =
    [("limits.max_iterations", "25"), ("limits.max_cost_usd", "10"), ("limits.max_runtime", "2h")];

/// What these arguments say of the configuration; `protected` are the globs of each check.
///
/// # Errors
/// An empty goal or check.
pub(crate) fn overrides(
    args: &RunArgs,
    protected: &[Vec<String>],
) -> Result<Overrides, CommandError> {
    let mut flags = limits(args);
    let given = |flag: &str, text: &str| match text.trim() {
        "" => Err(CommandError::user(format!("{flag} is empty"))),
        _ => Ok(()),
    };
    if let Some(goal) = &args.goal {
        given("--goal", goal)?;
        flags.push(flag("--goal", "run.prompt_text", goal_prompt(goal, &args.checks).into()));
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
        implied_without_file: LIMITS.map(owned).to_vec(),
        replaced: (!args.words.is_empty()).then_some("agent"),
        is_task,
    })
}

fn limits(args: &RunArgs) -> Vec<Flag> {
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
fn goal_prompt(goal: &str, checks: &[String]) -> String {
    let goal = goal.trim_end();
    if checks.is_empty() {
        return format!("{goal}\n");
    }
    let list: String = checks.iter().map(|check| format!("- `{}`\n", check.trim())).collect();
    format!("{goal}\n\nThe task is complete when these commands succeed:\n\n{list}")
}

/// Returns what each check protects: what the user names, and for tests of a known kind what `init` would
/// protect. Says what the latter is.
pub(crate) fn protected(args: &RunArgs, workspace: &Path) -> Vec<Vec<String>> {
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
