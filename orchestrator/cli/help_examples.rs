//! The examples in the help of each command.

use clap::builder::{StyledStr, Styles};

/// What each command is used for: a purpose, and the line without the program's name.
pub(crate) const EXAMPLES: &[(&str, &[(&str, &str)])] = &[
    ("", &[("", r#"run --goal "fix the tests" --check "make test" -- claude -p"#)]),
    (
        "runs",
        &[
            ("List the runs of this workspace, whatever their configuration", "runs"),
            ("The id of the newest one", "runs --json | jq -r .[0].run"),
            ("What every workspace does, and waits for", "runs --all"),
        ],
    ),
    (
        "budget",
        &[
            ("What is left, and what the rest was used for", "budget"),
            ("The history for a spreadsheet", "budget --csv > spending.csv"),
        ],
    ),
    (
        "watch",
        &[
            ("Show all runs, this folder's first", "watch"),
            ("Begin with the run of another workspace", "watch -w ~/projects/parser"),
        ],
    ),
    (
        "serve",
        &[
            ("Show all runs on a page; the address is printed", "serve"),
            (
                "Let the page steer, pause and stop them, on a free port",
                "serve --control --listen 127.0.0.1:0",
            ),
        ],
    ),
    (
        "runs prune",
        &[
            ("What would be deleted", "runs prune --older-than 30d --dry-run"),
            ("Keep the five newest of each workspace", "runs prune --all --keep 5"),
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
        &[
            ("Why the run stopped, and what to do", "why"),
            ("The same for a script", "why --json"),
            ("Whether to begin with another agent", "why --what-if"),
        ],
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
        "rehearse",
        &[
            ("Find out which cheats the checks would let pass", "rehearse"),
            ("The lines to add", "rehearse --json | jq -r '.rows[].add | select(.)'"),
        ],
    ),
    (
        "verify",
        &[
            ("Whether the checks accept the work as it is", "verify"),
            ("The verdicts for a program", "verify --json | jq .verdicts"),
        ],
    ),
    (
        "notify",
        &[
            ("Try every receiver of ralph.toml", "notify"),
            ("Only one of them, by its name", "notify phone"),
        ],
    ),
    (
        "report",
        &[
            ("A page to send to somebody", "report --html run.html"),
            ("On an earlier run", "report --html before.html --run 01k5"),
        ],
    ),
    (
        "export",
        &[
            ("One ATIF file for each iteration", "export trajectories"),
            ("Of the run of another configuration", "-c other.toml export trajectories"),
            ("A trace for a collector of OpenTelemetry", "export --otlp http://127.0.0.1:4318"),
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
        "skip",
        &[
            ("Go on without an item", "skip US-001"),
            ("As JSON, with what is left out too", "skip US-001 --json"),
        ],
    ),
    (
        "retry",
        &[
            ("Work on an item again, after mending what blocked it", "retry US-001"),
            ("Of another configuration", "-c other.toml retry US-001"),
        ],
    ),
    (
        "steer",
        &[
            ("Tell the agent where to look", r#"steer "look at the parser first""#),
            ("A run elsewhere, by its workspace", r#"steer -w ~/shop "leave the tests alone""#),
        ],
    ),
    ("pause", &[("Pause after the running iteration", "pause"), ("Pause at once", "pause --now")]),
    (
        "resume",
        &[("Let the run go on", "resume"), ("Of another configuration", "-c other.toml resume")],
    ),
    (
        "limits",
        &[
            ("The limits, and what is used of them", "limits"),
            ("Let the run cost more, and take any time", "limits --max-cost 80 --max-runtime none"),
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
        "trust",
        &[
            ("Accept your own change, after an agent has worked here", "trust"),
            ("Accept another file", "trust night.toml"),
        ],
    ),
    (
        "doctor",
        &[
            ("Find out what would keep a run from starting", "doctor"),
            ("The same for a script", "doctor --json"),
            ("Also try what agents do to the checks", "doctor --rehearse"),
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
        "agents record",
        &[
            (
                "Record a session, its prompt on standard input",
                "agents record -o session.jsonl -- my-agent < PROMPT.md",
            ),
            (
                "Record one whose prompt is an argument",
                "agents record -o a.jsonl -- my-agent -p hello",
            ),
        ],
    ),
    (
        "agents try",
        &[
            ("What the rules of ralph.toml make of each line", "agents try recording.jsonl"),
            (
                "Those of another configuration, for a script",
                "-c other.toml agents try recording.jsonl --json",
            ),
        ],
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
            (
                "Start a program that ralph.toml names, and check its `hello`",
                "plugin check my-agent",
            ),
            ("For a script", "plugin check --json target/debug/libmy_agent.so"),
        ],
    ),
    (
        "plugin doc",
        &[
            ("A reference of a plugin of ralph.toml", "plugin doc my-agent > my-agent.md"),
            ("The keys of an adapter that is built in", "plugin doc codex"),
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
        "plugin run",
        &[
            ("What the agent makes of a prompt", "plugin run my-agent -p hello"),
            ("Each frame of the protocol", "plugin run my-agent -p hello --frames"),
        ],
    ),
    (
        "plugin sdk",
        &[
            ("Bring a plugin in Python up to date", "plugin sdk python"),
            ("Beside a plugin in Node.js elsewhere", "plugin sdk node --path my-plugin"),
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
        "bench work",
        &[
            ("Perform trials of a job, beside others who do", "bench work jobs/first"),
            (
                "On a cluster with a limit of four hours",
                r#"bench work jobs/first -n 4 --for "3h 50m""#,
            ),
        ],
    ),
    (
        "bench submit",
        &[
            ("32 workers of a cluster", "bench submit jobs/first --workers 32"),
            (
                "See what its engine would be given",
                "bench submit jobs/first --workers 32 --dry-run",
            ),
        ],
    ),
    (
        "bench cancel",
        &[
            ("End the workers that were submitted", "bench cancel jobs/first"),
            ("The same for a script", "bench cancel jobs/first --json"),
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
        "bench validate",
        &[
            ("Which tasks are broken", "bench validate tasks"),
            ("The same for a script", "bench validate tasks --out jobs/validated --json"),
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
        "bench cheat",
        &[
            (
                "Which tasks an agent passes without doing them",
                "bench cheat --agents claude --tasks tasks --out jobs/cheat",
            ),
            ("For five dollars at most", "bench cheat --agents claude --tasks tasks --max-cost 5"),
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
        "bench mine",
        &[
            ("Make ten tasks of a project's history", "bench mine ../project -o tasks --max 10"),
            (
                "Of this year, with a command of your own for the tests",
                "bench mine ../project -o tasks --since 2026-01-01 --test \"sh tests/run {files}\"",
            ),
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
        "receipt",
        &[
            ("Of the last run, for a pull request", "receipt --out receipt.json"),
            ("Of an earlier one, on the standard output", "receipt --run 0199a"),
        ],
    ),
    (
        "receipt key",
        &[
            ("Make the key, and show its public part", "receipt key"),
            ("For those who verify", "receipt key > my-key.pub.pem"),
        ],
    ),
    (
        "hook",
        &[
            ("Prove what you do with Claude Code yourself", "hook install claude"),
            ("The session in this folder ends only then", "hook arm \"the tests pass again\""),
        ],
    ),
    (
        "hook install",
        &[
            ("In your own settings, after a look at the difference", "hook install claude"),
            ("Where no agent can switch it off, as root", "hook install claude --managed"),
        ],
    ),
    (
        "hook remove",
        &[
            ("Your settings are as before", "hook remove claude"),
            ("In a script", "hook remove codex --yes"),
        ],
    ),
    (
        "hook status",
        &[
            ("Whether a session is checked here", "hook status"),
            ("In another folder", "hook status -w ../parser"),
        ],
    ),
    (
        "hook arm",
        &[
            ("Before the session, in the folder of a ralph.toml", "hook arm \"make test passes\""),
            ("Let it go after five blocks", "hook arm \"make test passes\" --max-blocks 5"),
        ],
    ),
    (
        "hook disarm",
        &[
            ("Let the session end as it likes", "hook disarm"),
            ("That of another folder", "hook disarm -w ../parser"),
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

/// What the help of a command ends with whose arguments are not defined yet when those of others are.
pub(crate) fn examples_of(path: &str) -> StyledStr {
    StyledStr::from(render_examples(&Styles::default(), path))
}

/// Returns the examples of a command; empty if it has none.
pub(crate) fn render_examples(styles: &Styles, path: &str) -> String {
    let found = EXAMPLES.iter().find(|(of, _)| *of == path).map(|(_, examples)| *examples);
    found.map(|examples| render(styles, examples)).unwrap_or_default()
}

fn render(styles: &Styles, examples: &[(&str, &str)]) -> String {
    let header = styles.get_header();
    let lines: Vec<String> = examples
        .iter()
        .map(|(purpose, line)| match *purpose {
            "" => format!("  ralph-orchestrator {line}"),
            purpose => format!("  {purpose}:\n    ralph-orchestrator {line}"),
        })
        .collect();
    format!("{header}Examples:{header:#}\n{}", lines.join("\n"))
}
