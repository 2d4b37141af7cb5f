//! Files that are hard to read, and whether the places in them are right.

use std::time::Duration;

use ralph_orchestrator_config::SourceLocation;

use crate::Project;

#[test]
fn syntax_errors_of_both_files() {
    let project = Project::new("[limits\nmax = = 5\n").user("a = \n");
    assert_eq!(
        project.errors(),
        [
            "ralph.toml:1:8: invalid TOML: unclosed table, expected `]`",
            "ralph.toml:2:7: invalid TOML: extra `=`, expected nothing",
            "user.toml:1:5: invalid TOML: string values must be quoted, expected literal string",
        ]
    );
}

#[test]
fn duplicate_keys_and_tables() {
    let one = |text: &str| Project::new(text).errors();
    assert_eq!(one("a = 1\na = 2"), ["ralph.toml:2:1: invalid TOML: duplicate key"]);
    assert_eq!(one("[run]\n[run]"), ["ralph.toml:2:2: invalid TOML: duplicate key"]);
    assert_eq!(one("run.delay='1s'\n[run]"), ["ralph.toml:2:2: invalid TOML: duplicate key"]);
}

#[test]
fn columns_count_characters() {
    let one = |text: &str| Project::trusting(text).errors();
    assert_eq!(
        one("agents.\"größe ключ\".adaptre = 1"),
        ["ralph.toml:1:21: agents.\"größe ключ\".adaptre: unknown key; did you mean `adapter`?"]
    );
    assert_eq!(one("run = { prompt = 'ü', é = 1 }").len(), 1, "bare keys are ASCII");
    assert_eq!(
        one("run = { prompt = '日本', \"é\" = 1 }"),
        ["ralph.toml:1:24: run.\"é\": unknown key"]
    );
}

#[test]
fn byte_order_mark_and_windows_line_ends() {
    let project = Project::trusting("\u{feff}x = 1\r\n[limits]\r\nmax_failures = 'é'\r\n");
    assert_eq!(
        project.errors(),
        [
            "ralph.toml:1:1: x: unknown key",
            "ralph.toml:3:16: limits.max_failures: expected a whole number, 1 or more, found \"é\"",
        ]
    );
    let fine = Project::trusting("\u{feff}[run]\r\ndelay = '3s'\r\n").config();
    assert_eq!(fine.run.delay, Duration::from_secs(3));
}

#[test]
fn reports_are_safe_for_a_terminal() {
    let project = Project::trusting("\"a\\u001b[31m\" = 1\nx = \"\u{202e}\"");
    let text = project.load().unwrap_err().to_string();
    assert!(!text.contains(['\u{1b}', '\u{202e}']), "{text:?}");
}

#[test]
fn bytes_that_are_no_text() {
    let mut bytes = "[run]\nprompt = 'é".as_bytes().to_vec();
    bytes.extend(b"\xff'\n");
    let project = Project::new(&bytes);
    assert_eq!(
        project.errors(),
        ["ralph.toml:2:12: not a configuration file: it is not UTF-8: byte 18 is 0xff"]
    );
    let errors = project.load().unwrap_err();
    let SourceLocation::File { position: Some(at), .. } = &errors.errors()[0].location else {
        panic!("{errors}")
    };
    assert_eq!(at.text, "prompt = 'é\u{fffd}'");
    assert_eq!(Project::new(b"run.prompt = 'a\0'").errors().len(), 1, "NUL is not allowed in TOML");
}

#[test]
fn a_file_that_is_gone_is_named_without_a_place_in_it() {
    let mut project = Project::trusting("");
    project.sources.text = Some("x = 1\n".to_owned());
    for (is_gone, place) in [(false, "ralph.toml:1:1: x: "), (true, "ralph.toml: x: ")] {
        project.sources.is_gone = is_gone;
        let text = project.load().unwrap_err().to_string();
        assert!(text.contains(place), "{text}");
    }
}

#[test]
fn what_is_no_file() {
    let mut project = Project::new("");
    project.sources.file = project.dir.path().to_owned();
    let message = project.load().unwrap_err().to_string();
    assert!(message.ends_with("not a configuration file: it is not a regular file"), "{message}");

    // Without a writer, opening it would wait for ever.
    let pipe = project.path("pipe");
    rustix::fs::mknodat(
        rustix::fs::CWD,
        &pipe,
        rustix::fs::FileType::Fifo,
        rustix::fs::Mode::from_raw_mode(0o600),
        0,
    )
    .unwrap();
    project.sources.file = pipe;
    let message = project.load().unwrap_err().to_string();
    assert!(message.ends_with("not a configuration file: it is not a regular file"), "{message}");
}

#[test]
fn size_is_bounded() {
    let just = format!("#{}\n", "x".repeat((1 << 20) - 2));
    assert!(Project::trusting(&just).load().is_ok());
    assert_eq!(
        Project::trusting(just + "\n").errors(),
        [
            "ralph.toml: not a configuration file: it is larger than 1048576 bytes, the most that is read"
        ]
    );
}

#[test]
fn depth_is_bounded() {
    let errors = Project::new(format!("a = {}", "[".repeat(100_000))).errors();
    assert!(!errors.is_empty());
    let dotted = format!("agent.config{} = 1", ".a".repeat(50_000));
    let _ = Project::trusting(dotted).load();
}
