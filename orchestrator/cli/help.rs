//! The help: commands in groups, and examples for each of them.

use std::fmt::Write as _;

use clap::builder::StyledStr;
use clap::{Command, CommandFactory as _};
use ralph_orchestrator_terminal::size::stdout_width;
use ralph_orchestrator_text::fold;

use crate::args::CommandLine;
use crate::complete;
use crate::help_examples::render_examples;

/// The commands as people look for them.
const GROUPS: [(&str, &[&str]); 4] = [
    ("Run", &["run", "new", "go", "verify", "hook", "bench"]),
    (
        "Look",
        &[
            "status", "next", "log", "why", "diff", "runs", "budget", "watch", "serve", "report",
            "export", "receipt",
        ],
    ),
    (
        "Steer",
        &[
            "steer", "answer", "pause", "resume", "limits", "add", "skip", "retry", "stop",
            "rollback", "reset",
        ],
    ),
    (
        "Set up",
        &[
            "init",
            "trust",
            "doctor",
            "rehearse",
            "notify",
            "config",
            "prompts",
            "agents",
            "plugin",
            "completions",
        ],
    ),
];

/// Where a command's summary begins.
const ABOUT: usize = 15;

/// What `run --help` ends with.
const RUN: &str = "With a ralph.toml, --goal, --prompt, --check and AGENT each replace their part of it; the rest of \
it still applies. After --goal or --check the checks decide after each iteration, without a \
claim by the agent, unless ralph.toml sets completion.when; one that passes before any work is \
refused, unless ralph.toml or --set sets completion.baseline. Another goal or check is another run.

A --check is split into words; a line that needs a shell, such as `cd sub && make`, is given to `sh -c`. \
Where it runs a known test command, the tests and their settings are protected, otherwise the script \
that it runs.

With --task the plan of a task is the prompt, and its front matter is part of the configuration: it takes \
precedence over ralph.toml, and the command line over it. Without a preset in ralph.toml the values of \
the preset pure-loop apply.

Exit status: 0 completed, 1 stopped by a limit or no such task, 2 a human is needed, 64 usage, 65 state damaged, 69 agent \
not available, 70 internal error, 75 workspace busy, 78 configuration wrong, 130 and 143 interrupted.";

/// What `reset --help` ends with.
const RESET: &str = "Deleted: all runs of this configuration in this workspace, with their records, transcripts, prompts and \
verdicts. This cannot be undone.
Kept: the workspace, the configuration, the prompt, git, and the runs of other configurations of this \
workspace, which `runs` lists too. To delete those, name their configuration with `-c`.

`run --restart` begins a new run and deletes nothing.";

/// What `rehearse --help` ends with.
const REHEARSE: &str = "Each change is shown to the checks in a checkout: no file of yours is written. ACCEPTED is a cheat that a run \
would accept, with what to add to ralph.toml; REJECTED is honest work that it would not.

Exit status: 0 nothing to add, 1 a cheat is accepted or honest work rejected, 69 there can be no checkout here, 75 workspace \
busy, 78 configuration wrong or nothing to try, 130 and 143 interrupted.";

/// The whole command line, as it is completed and documented.
pub(crate) fn command() -> Command {
    let mut command = CommandLine::command().disable_help_subcommand(true);
    // Arguments of a command are defined when it is needed.
    command.build();
    complete::attach(with_overview(with_examples(command, "", &|_| true)))
}

/// The command line with what parsing these words, or the help for them, needs. The whole took half of the time of
/// `--version`.
pub(crate) fn command_for(words: &[String]) -> Command {
    let is_named = |name: &str| words.iter().any(|word| word == name);
    let command = with_examples(CommandLine::command(), "", &is_named);
    match words.get(1) {
        Some(name) if command.find_subcommand(name).is_some() => command,
        _ => with_overview(command),
    }
}

fn with_overview(command: Command) -> Command {
    let template = format!(
        "{{about}}\n{{usage-heading}} {{usage}}, COMMAND --help for more\n{}\n{{options}}{{after-help}}",
        overview(&command)
    );
    command.help_template(StyledStr::from(template))
}

/// All visible commands, in their groups, as they fit the terminal. Without empty lines between the groups, and before
/// them, all of it is one screen.
fn overview(command: &Command) -> String {
    // As clap does, which has no part in this.
    let columns = || std::env::var("COLUMNS").ok()?.parse().ok();
    let width = stdout_width().or_else(columns).unwrap_or(usize::MAX);
    let styles = command.get_styles();
    let (header, literal) = (styles.get_header(), styles.get_literal());
    let mut text = String::new();
    let visible =
        |name: &&&str| command.find_subcommand(name).is_some_and(|found| !found.is_hide_set());
    for (group, names) in GROUPS {
        // Writing to a String cannot fail.
        let _ = writeln!(text, "{header}{group}:{header:#}");
        for name in names.iter().filter(visible) {
            let about = command.find_subcommand(name).and_then(Command::get_about);
            let about = about.map(ToString::to_string).unwrap_or_default();
            let line = format!("  {literal}{name:<12}{literal:#} {about}");
            for line in fold(&line, ABOUT, width) {
                let _ = writeln!(text, "{line}");
            }
        }
    }
    let _ = write!(text, "{header}Options:{header:#}");
    text
}

/// Adds examples to the help of the command and of those beneath it that are needed.
fn with_examples(command: Command, path: &str, is_needed: &impl Fn(&str) -> bool) -> Command {
    let mut text = render_examples(command.get_styles(), path);
    match path {
        "run" | "go" => text = format!("{text}\n\n{RUN}"),
        "reset" => text = format!("{text}\n\n{RESET}"),
        "rehearse" => text = format!("{text}\n\n{REHEARSE}"),
        _ => {}
    }
    let command = if text.is_empty() { command } else { command.after_help(StyledStr::from(text)) };
    command.mut_subcommands(|inner| {
        if !is_needed(inner.get_name()) {
            return inner;
        }
        let path = format!("{path} {}", inner.get_name());
        with_examples(inner, path.trim(), is_needed)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::help_examples::EXAMPLES;

    fn all(command: &Command, path: &str, each: &mut impl FnMut(&str)) {
        each(path);
        for inner in command.get_subcommands() {
            all(inner, format!("{path} {}", inner.get_name()).trim(), each);
        }
    }

    #[test]
    fn every_command_has_two_examples_that_parse() {
        all(&command(), "", &mut |path| {
            // Programs start them.
            if ["plugin-host", "mcp", "hook claude", "hook codex", "hook check"].contains(&path) {
                return;
            }
            let examples = EXAMPLES.iter().find(|(of, _)| *of == path).map(|(_, all)| *all);
            let examples = examples.unwrap_or_else(|| panic!("`{path}` has no examples"));
            // The main help has no more room: it is one screen.
            assert!(examples.len() >= 2 || path.is_empty(), "{path}");
            for (_, line) in examples {
                let line = line.split(['|', '>']).next().unwrap();
                let words = shlex(line);
                let given = std::iter::once("ralph-orchestrator".to_owned()).chain(words);
                let given: Vec<String> = given.collect();
                let command = command_for(&given);
                command.try_get_matches_from(given).unwrap_or_else(|e| panic!("{line}: {e}"));
                assert!(line.contains(path), "{path}: {line}");
            }
        });
    }

    fn shlex(line: &str) -> Vec<String> {
        let parts = line.split('"').enumerate();
        parts
            .flat_map(|(index, part)| match index % 2 {
                0 => part.split_whitespace().map(str::to_owned).collect::<Vec<_>>(),
                _ => vec![part.to_owned()],
            })
            .collect()
    }

    #[test]
    fn every_visible_command_is_in_one_group() {
        let grouped: Vec<&str> =
            GROUPS.iter().flat_map(|(_, names)| names.iter().copied()).collect();
        for command in
            CommandLine::command().get_subcommands().filter(|command| !command.is_hide_set())
        {
            let times = grouped.iter().filter(|name| **name == command.get_name()).count();
            assert_eq!(times, 1, "{}", command.get_name());
        }
        for name in grouped {
            assert!(CommandLine::command().find_subcommand(name).is_some(), "{name}");
        }
    }

    #[test]
    fn the_definition_of_the_command_line_is_sound() {
        command().debug_assert();
    }
}
