//! The flags of `run` as values of the configuration.
//!
//! Each flag replaces its part of the configuration and nothing else: `--goal` and `--prompt` the prompt,
//! `--check` the validators, the words after `--` the agent. So a task on the command line needs no file,
//! and where there is one its limits, environment and sandbox still hold.

use ralph_orchestrator_config::{Flag, command_words};
use toml::{Table, Value};

use crate::agent_words;
use crate::commands::run::RunArgs;
use crate::context::Overrides;
use crate::error::CommandError;

/// The limits of a task without a file.
const LIMITS: [(&str, &str); 3] =
    [("limits.max_iterations", "25"), ("limits.max_cost_usd", "10"), ("limits.max_runtime", "2h")];

/// What these arguments say of the configuration.
///
/// # Errors
/// An empty goal or check.
pub(crate) fn overrides(args: &RunArgs) -> Result<Overrides, CommandError> {
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
        let validators = args.checks.iter().map(|check| Value::Table(validator(check))).collect();
        flags.push(flag("--check", "validator", Value::Array(validators)));
    }
    if !args.words.is_empty() {
        let name = format!("-- {}", args.words.join(" "));
        flags.push(flag(&name, "agent", Value::Table(agent_words::agent(&args.words))));
    }
    let is_task = args.goal.is_some() || args.prompt.is_some() || !args.checks.is_empty();
    // The prompt does not say how to claim.
    let is_proved = args.goal.is_some() || !args.checks.is_empty();
    let implied = is_proved.then(|| ("completion.when", "proved".to_owned()));
    let owned = |(key, value): (&'static str, &str)| (key, value.to_owned());
    Ok(Overrides {
        sets: args.sets.sets.clone(),
        flags,
        implied: implied.into_iter().collect(),
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

fn flag(name: &str, key: &'static str, value: Value) -> Flag {
    let text = match value {
        // As a basic string on one line, whatever is in it.
        Value::String(text) => {
            serde_json::Value::from(text).to_string().replace('\u{7f}', "\\u007f")
        }
        value => value.to_string(),
    };
    Flag { name: name.to_owned(), key, text }
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

fn validator(check: &str) -> Table {
    let name = check.split_whitespace().collect::<Vec<_>>().join(" ");
    let program = command_words(check).into_iter().map(Value::from).collect();
    Table::from_iter([
        ("kind".to_owned(), "command".into()),
        ("name".to_owned(), name.into()),
        ("program".to_owned(), Value::Array(program)),
    ])
}
