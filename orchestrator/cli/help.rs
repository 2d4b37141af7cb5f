//! The help: commands in groups, and examples for each of them.

use std::fmt::Write as _;

use clap::builder::StyledStr;
use clap::{Command, CommandFactory as _};

use crate::args::CommandLine;
use crate::complete;
use crate::render::terminal::{fold, stdout_width};

/// The commands as people look for them.
const GROUPS: [(&str, &[&str]); 5] = [
    ("Run", &["run", "new", "go"]),
    ("Look", &["status", "next", "log", "why", "diff", "runs", "export"]),
    ("Steer", &["answer", "add", "stop", "rollback", "reset"]),
    ("Measure", &["bench"]),
    ("Set up", &["init", "doctor", "config", "prompts", "agents", "plugin", "completions"]),
];

/// Where a command's summary begins.
const ABOUT: usize = 15;

/// What each command is used for: a purpose, and the line without the program's name.
const EXAMPLES: &[(&str, &[(&str, &str)])] = &[
    ("", &[("", "init"), ("", r#"run --goal "fix the tests" --check "make test" -- claude -p"#)]),
    (
        "runs",
        &[
            ("List the runs of this workspace, whatever their configuration", "runs"),
            ("The id of the newest one", "runs --json | jq -r .run"),
        ],
    ),
    (
        "run",
        &[
            ("Start the run of ralph.toml, or resume it", "run"),
            (
                "Without any file: the words after -- are the agent",
                r#"run --goal "fix the bug" --check "make test" -- claude -p"#,
            ),
            (
                "Another task with the checks and limits of ralph.toml",
                r#"run --restart -p "Port it to Rust" --max-cost 5"#,
            ),
            ("See what would run, and with which limits", "run --dry-run"),
        ],
    ),
    (
        "new",
        &[
            (
                "A task, and the command that proves it",
                r#"new "Add search" --test-command "npm test""#,
            ),
            ("With fewer iterations than usual", r#"new "Fix the typo" --max-iterations 3"#),
        ],
    ),
    (
        "go",
        &[
            ("Work on task 1, or resume it", "go 1"),
            ("With another agent and limit", "go ralph-2 --max-cost 5 -- codex exec"),
        ],
    ),
    ("status", &[("How far it is, and what it cost", "status"), ("For a script", "status --json")]),
    (
        "log",
        &[
            ("Watch the run from another terminal", "log --follow"),
            ("What the agent did in iteration 3", "log 3"),
            ("What iterations 3 and 4 were given differently", "log --diff 3 4"),
        ],
    ),
    (
        "why",
        &[("Why the run stopped, and what to do", "why"), ("The same for a script", "why --json")],
    ),
    (
        "diff",
        &[
            ("What the last iteration changed", "diff"),
            ("From the start of the run to iteration 3", "diff 0 3 --stat"),
        ],
    ),
    (
        "rollback",
        &[
            ("Which states there are", "rollback --list"),
            ("Restore the files as iteration 2 left them", "rollback --to 2"),
        ],
    ),
    (
        "export",
        &[
            ("One ATIF file for each iteration", "export trajectories"),
            ("Of the run of another configuration", "-c other.toml export trajectories"),
        ],
    ),
    (
        "next",
        &[
            ("Which item is worked on next", "next"),
            ("Every item's place in the order, and why", "next --explain"),
        ],
    ),
    (
        "add",
        &[
            ("Add an item", r#"add "Log in with a passkey""#),
            (
                "One that waits for another, with criteria",
                r#"add "Log out" --after login --criterion "the session ends""#,
            ),
        ],
    ),
    (
        "answer",
        &[
            ("Answer the agent, then resume the run", r#"answer "use PostgreSQL 16""#),
            ("Of the run of another configuration", r#"-c other.toml answer "yes""#),
        ],
    ),
    (
        "stop",
        &[
            ("Stop the run and wait until its processes have ended", "stop"),
            ("Only ask it to stop", "stop --no-wait"),
        ],
    ),
    (
        "reset",
        &[
            ("Delete all runs of this configuration, once you confirm it", "reset"),
            ("The same in a script", "reset --yes"),
        ],
    ),
    (
        "init",
        &[
            ("Write a configuration for this repository", "init"),
            ("Name the command that proves the work done", r#"init --test "make check""#),
            ("Any program as the agent", "init -- ./my-agent --flag"),
            ("A known way of working", "init --preset ada"),
            ("See one work without an account, in an empty folder", "init --preset ada --demo"),
        ],
    ),
    (
        "doctor",
        &[
            ("Find out what would keep a run from starting", "doctor"),
            ("The same for a script", "doctor --json"),
        ],
    ),
    ("config", &[("Every value and its source", "config show"), ("Only check", "config check")]),
    (
        "config show",
        &[
            ("Every value and its source", "config show"),
            ("What a flag would change", "config show --set limits.max_cost_usd=5"),
        ],
    ),
    (
        "config check",
        &[
            ("Check ralph.toml", "config check"),
            ("Check another file", "-c other.toml config check"),
        ],
    ),
    (
        "config schema",
        &[
            ("For an editor", "config schema > ralph.schema.json"),
            ("One key's description", "config schema | jq .definitions.Limits"),
        ],
    ),
    (
        "prompts",
        &[
            ("Which file is the prompt", "prompts which coding"),
            ("Write the built-in prompt, to be edited", "prompts eject coding"),
        ],
    ),
    (
        "prompts which",
        &[
            ("Which file is the prompt", "prompts which coding"),
            ("The same for a script", "prompts which initializer --json"),
        ],
    ),
    (
        "prompts eject",
        &[
            ("Write the built-in prompt, to be edited", "prompts eject coding"),
            ("Of another configuration", "-c other.toml prompts eject initializer"),
        ],
    ),
    (
        "agents",
        &[("Which agents are installed", "agents"), ("The same for a script", "agents --json")],
    ),
    (
        "completions",
        &[
            ("bash, in ~/.bashrc", "completions bash"),
            ("zsh, with `alias ralph=ralph-orchestrator`", "completions zsh --alias ralph"),
        ],
    ),
    (
        "plugin",
        &[
            ("Create a plugin for an agent", "plugin new my-agent --kind agent"),
            ("Run the conformance tests", "plugin test target/debug/libmy_agent.so"),
        ],
    ),
    (
        "plugin list",
        &[("The plugins of ralph.toml", "plugin list"), ("For a script", "plugin list --json")],
    ),
    (
        "plugin check",
        &[
            ("Check a library", "plugin check target/debug/libmy_agent.so"),
            ("For a script", "plugin check --json target/debug/libmy_agent.so"),
        ],
    ),
    (
        "plugin new",
        &[
            ("A crate that drives an agent", "plugin new my-agent --kind agent"),
            (
                "A validator, in a folder of another name",
                "plugin new licences --kind validator --path x",
            ),
        ],
    ),
    (
        "plugin test",
        &[
            ("Test a library", "plugin test target/debug/libmy_agent.so"),
            ("One scenario, by its name in ralph.toml", "plugin test my-agent --only start"),
            ("For CI", "plugin test target/debug/libmy_agent.so --junit results.xml"),
        ],
    ),
    (
        "bench",
        &[
            (
                "Try tasks with two agents that ask no model",
                "bench run --agents oracle,nop --tasks tasks",
            ),
            ("The figures of a job", "bench report jobs/first"),
        ],
    ),
    (
        "bench run",
        &[
            (
                "Two agents, five trials on each task",
                "bench run --agents claude,codex --tasks tasks --trials 5",
            ),
            (
                "Whether notes from earlier sessions help",
                "bench run -c examples/bench/notes/ralph.toml",
            ),
        ],
    ),
    (
        "bench resume",
        &[
            ("Perform what is left of a job", "bench resume jobs/first"),
            (
                "Until every score is known to 3 points",
                r#"bench resume jobs/first --until "ci<3pp""#,
            ),
        ],
    ),
    (
        "bench check",
        &[
            ("Which tasks cannot be performed here, and why", "bench check --tasks tasks"),
            (
                "With a package that tasks install and this machine has",
                "bench check --tasks tasks --provided pip:pytest --json",
            ),
        ],
    ),
    (
        "bench plan",
        &[
            (
                "How many trials find a difference of 5 points",
                "bench plan --detect 5pp --tasks 89 --cost 0.40",
            ),
            ("From what a small job showed", "bench plan --detect 5pp --pilot jobs/first"),
        ],
    ),
    (
        "bench status",
        &[
            ("How far a job is, from another terminal", "bench status jobs/first"),
            ("For a script", "bench status jobs/first --json"),
        ],
    ),
    (
        "bench report",
        &[
            ("Tables of a job, also while it goes on", "bench report jobs/first"),
            ("The same in a file", "bench report jobs/first > first.txt"),
        ],
    ),
    (
        "bench export",
        &[
            ("For tools that read Harbor's job directories", "bench export jobs/first harbor-jobs"),
            ("Look at one trajectory", "bench export jobs/first /tmp/jobs"),
        ],
    ),
    (
        "bench regrade",
        &[
            ("After a test of a task was corrected", "bench regrade jobs/first --only org/parser"),
            ("See whether a verifier says the same twice", "bench regrade jobs/first"),
        ],
    ),
    (
        "bench import",
        &[
            ("Make a task of the last run", "bench import --to tasks"),
            ("Of an earlier one, under a name of its own", "bench import 0199a --name parser"),
        ],
    ),
    (
        "bench compare",
        &[
            ("What a variant changes", "bench compare jobs/notes claude claude+notes"),
            (
                "One column in two jobs; exit status 1 if it got worse",
                "bench compare jobs/a claude claude --with jobs/b",
            ),
        ],
    ),
    (
        "man",
        &[
            ("Write all manual pages", "man target/man"),
            ("For a package", "man debian/usr/share/man/man1"),
        ],
    ),
];

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

/// The command line as it is parsed, completed and documented.
pub(crate) fn command() -> Command {
    let command = with_examples(CommandLine::command(), "");
    let template = format!(
        "{{about}}\n\n{{usage-heading}} {{usage}}\n\n{}\n{{options}}{{after-help}}",
        overview(&command)
    );
    complete::attach(command.help_template(StyledStr::from(template)))
}

/// All visible commands, in their groups, as they fit the terminal.
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
        text.push('\n');
    }
    let _ = write!(text, "{header}Options:{header:#}");
    text
}

fn with_examples(command: Command, path: &str) -> Command {
    let examples = EXAMPLES.iter().find(|(of, _)| *of == path).map(|(_, examples)| *examples);
    let mut text = examples.map(|examples| render(&command, examples)).unwrap_or_default();
    match path {
        "" => text.push_str("\n\n`ralph-orchestrator COMMAND --help` has more for each command."),
        "run" | "go" => text = format!("{text}\n\n{RUN}"),
        "reset" => text = format!("{text}\n\n{RESET}"),
        _ => {}
    }
    let command = if text.is_empty() { command } else { command.after_help(StyledStr::from(text)) };
    command.mut_subcommands(|inner| {
        let path = format!("{path} {}", inner.get_name());
        with_examples(inner, path.trim())
    })
}

fn render(command: &Command, examples: &[(&str, &str)]) -> String {
    let header = command.get_styles().get_header();
    let lines: Vec<String> = examples
        .iter()
        .map(|(purpose, line)| match *purpose {
            "" => format!("  ralph-orchestrator {line}"),
            purpose => format!("  {purpose}:\n    ralph-orchestrator {line}"),
        })
        .collect();
    format!("{header}Examples:{header:#}\n{}", lines.join("\n"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn all(command: &Command, path: &str, each: &mut impl FnMut(&str)) {
        each(path);
        for inner in command.get_subcommands() {
            all(inner, format!("{path} {}", inner.get_name()).trim(), each);
        }
    }

    #[test]
    fn every_command_has_two_examples_that_parse() {
        all(&CommandLine::command(), "", &mut |path| {
            if path == "plugin-host" {
                return;
            }
            let examples = EXAMPLES.iter().find(|(of, _)| *of == path).map(|(_, all)| *all);
            let examples = examples.unwrap_or_else(|| panic!("`{path}` has no examples"));
            assert!(examples.len() >= 2, "{path}");
            for (_, line) in examples {
                let line = line.split(['|', '>']).next().unwrap();
                let words = shlex(line);
                let given = std::iter::once("ralph-orchestrator".to_owned()).chain(words);
                command().try_get_matches_from(given).unwrap_or_else(|e| panic!("{line}: {e}"));
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
