//! Help on 80 columns, word for word.

use crate::environment::TestEnvironment;

const COMMANDS: [&str; 78] = [
    "",
    "run",
    "new",
    "go",
    "status",
    "next",
    "log",
    "why",
    "diff",
    "runs",
    "budget",
    "trust",
    "watch",
    "serve",
    "runs prune",
    "report",
    "export",
    "receipt",
    "receipt key",
    "steer",
    "answer",
    "pause",
    "resume",
    "limits",
    "add",
    "skip",
    "retry",
    "stop",
    "rollback",
    "reset",
    "init",
    "doctor",
    "notify",
    "rehearse",
    "verify",
    "hook",
    "hook install",
    "hook remove",
    "hook status",
    "hook arm",
    "hook disarm",
    "config",
    "config show",
    "config check",
    "config schema",
    "prompts",
    "prompts which",
    "prompts eject",
    "agents",
    "agents record",
    "agents try",
    "completions",
    "plugin",
    "plugin list",
    "plugin check",
    "plugin doc",
    "plugin new",
    "plugin run",
    "plugin sdk",
    "plugin test",
    "bench",
    "bench run",
    "bench resume",
    "bench check",
    "bench validate",
    "bench plan",
    "bench status",
    "bench work",
    "bench submit",
    "bench cancel",
    "bench report",
    "bench export",
    "bench cheat",
    "bench regrade",
    "bench import",
    "bench mine",
    "bench compare",
    "man",
];

/// As many lines as a large screen has.
const SCREEN: usize = 55;

#[test]
fn help_on_80_columns() {
    let mut env = TestEnvironment::new();
    env.var("COLUMNS", "80");
    for command in COMMANDS {
        let args: Vec<&str> = command.split_whitespace().chain(["--help"]).collect();
        let help = env.ralph(&args).expect(0).stdout;
        for line in help.lines() {
            let is_example = line.starts_with("    ralph-orchestrator ");
            assert!(is_example || line.chars().count() <= 80, "{command}: {line}");
            assert!(line.chars().count() <= 100, "{command}: {line}");
        }
        let name = if command.is_empty() { "main" } else { command };
        insta::assert_snapshot!(format!("help {name}").replace(' ', "_"), help);
    }
}

#[test]
fn the_main_help_is_one_screen() {
    let mut env = TestEnvironment::new();
    env.var("COLUMNS", "80");
    for flag in ["-h", "--help"] {
        let help = env.ralph(&[flag]).expect(0).stdout;
        assert!(help.lines().count() <= SCREEN, "{} lines\n{help}", help.lines().count());
    }
}

#[test]
fn help_has_no_internal_command() {
    let env = TestEnvironment::new();
    let help = env.ralph(&["--help"]).expect(0).stdout;
    assert!(!help.contains("plugin-host") && !help.contains("  man "), "{help}");
}

#[test]
fn manual_pages_for_every_visible_command() {
    let env = TestEnvironment::new();
    env.ralph(&["man", "pages/man1"]).expect(0);
    let page = |name: &str| env.read(&format!("pages/man1/{name}.1"));
    let pages = std::fs::read_dir(env.path("pages/man1")).unwrap().count();
    assert_eq!(pages, COMMANDS.len() - 1, "the list of commands here has all but `man`");
    for command in COMMANDS.iter().filter(|command| **command != "man") {
        let name = format!("ralph-orchestrator {command}").trim().replace(' ', "-");
        let text = page(&name);
        assert!(text.contains(".TH ") && text.contains("Examples:"), "{name}:\n{text}");
    }
    assert!(!env.path("pages/man1/ralph-orchestrator-plugin-host.1").exists());
    assert!(page("ralph-orchestrator-run").contains("max\\-cost"));
    env.write("file", "");
    env.ralph(&["man", "file"]).expect(64).says("cannot write file");
}
