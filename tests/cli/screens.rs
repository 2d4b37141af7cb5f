//! What somebody sees who runs the program in a terminal, as snapshots: the run, its end, and everything
//! that can be read of it afterwards.

use std::fs;
use std::path::PathBuf;

use serde_json::json;

use crate::completion::claude_result;
use crate::environment::TestEnvironment;
use crate::screen::{Screen, snapshot};

const WIDTHS: [u16; 4] = [40, 80, 120, 200];
const TERM: &str = "xterm-256color";
const PROMISE: &str = "<promise>COMPLETE: the parser reads every sample</promise>";

/// A run whose agent says when it is at work, and waits in its first iteration.
pub(crate) struct Scripted {
    pub(crate) env: TestEnvironment,
    at_work: PathBuf,
    go: PathBuf,
}

impl Scripted {
    pub(crate) fn new() -> Self {
        let env = TestEnvironment::new();
        let (at_work, go) = (env.fifo("at-work"), env.fifo("go"));
        env.write("PROMPT.md", "# Task\n\nWrite a parser that reads every sample in `samples/`.\n");
        env.write("parser.rs", "fn parse() {}\n");
        env.raw_config(
            "[run]\ndelay = \"0s\"\n[agent]\nadapter = \"command\"\n[agent.config]\n\
             program = [\"@AGENT@\"]\noutput = \"claude-json\"\n\
             [[validator]]\nkind = \"command\"\nname = \"tests\"\nprogram = [\"test\", \"-e\", \"done\"]\n\
             [limits]\nmax_iterations = 12\nmax_cost_usd = 5\n",
        );
        let call = json!({"type": "assistant", "session_id": "s", "message": {
            "id": "m1", "role": "assistant", "model": "model-1", "content": [
                {"type": "text", "text": "I read the samples first."},
                {"type": "tool_use", "id": "t1", "name": "Bash",
                    "input": {"command": "cargo test --workspace --all-features -- --nocapture samples"}}],
            "usage": {"input_tokens": 5, "output_tokens": 5}}});
        env.agent
            .call(1)
            .script(&format!(
                "printf 'fn parse() {{\\n    read()\\n}}\\n' > parser.rs; seq 30 > samples.txt
                 printf '%s\\n' '{call}'\necho x > '{}'; cat '{}' > /dev/null\n",
                at_work.display(),
                go.display()
            ))
            .out(claude_result("still working", 0.25));
        env.agent.call(2).out(claude_result("nothing to do", 0.05));
        env.agent
            .call(3)
            .script("echo '// more' >> parser.rs\n")
            .out(claude_result("<promise>COMPLETE: it compiles</promise>", 0.1));
        env.agent
            .call(4)
            .script("echo '// done' >> parser.rs; echo yes > done\n")
            .out(claude_result(PROMISE, 0.5));
        Self { env, at_work, go }
    }

    /// Starts the run on a terminal, and waits until the line shows what its agent does.
    pub(crate) fn start(&self, columns: u16) -> Screen {
        let screen = Screen::start(&self.env, &["run"], columns, TERM);
        self.agent_works();
        screen
    }

    pub(crate) fn agent_works(&self) {
        fs::read(&self.at_work).unwrap();
    }

    /// Lets the agent go on.
    pub(crate) fn release(&self) {
        fs::write(&self.go, "go").unwrap();
    }
}

/// The live lines that are to be seen.
pub(crate) fn live_lines(text: &str) -> Vec<&str> {
    let is_live = |line: &&str| line.contains(" of 4h") || line.contains("/4h");
    text.lines().filter(is_live).collect()
}

/// What follows the sign that moves.
pub(crate) fn without_spinner(line: &str) -> &str {
    line.trim_start_matches(|c| ('\u{2800}'..='\u{28ff}').contains(&c) || c == ' ')
}

/// The same for every width, one below the other.
fn at_every_width(show: impl Fn(u16) -> String) -> String {
    WIDTHS.map(|columns| format!("== {columns} columns\n{}", show(columns))).join("\n")
}

#[test]
fn a_run_and_its_summary_fit_every_terminal() {
    let shown = at_every_width(|columns| {
        let scripted = Scripted::new();
        let mut screen = scripted.start(columns);
        // Where there is room for both, the figures may come a moment after the tool.
        let is_whole =
            |text: &str| text.contains("[Bas") && (columns < 120 || text.contains("context"));
        let during = screen.until("the whole line", is_whole);
        assert_eq!(live_lines(&during).len(), 1, "{during}");
        scripted.release();
        assert_eq!(screen.wait(), Some(0), "{}", screen.text());
        let after = screen.text();
        assert!(live_lines(&after).is_empty(), "the line is gone at the end:\n{after}");
        format!("{during}\n-- and at the end\n{after}")
    });
    snapshot("run", &shown);
}

#[test]
fn what_can_be_read_of_a_run_fits_every_terminal() {
    let scripted = Scripted::new();
    let env = &scripted.env;
    let mut running = env.start(&["run"]);
    scripted.agent_works();
    scripted.release();
    running.wait().expect(0);
    let show = |name: &str| {
        let shown = at_every_width(|columns| {
            let mut screen = Screen::start(env, &[name], columns, TERM);
            assert_eq!(screen.wait(), Some(0), "{}", screen.text());
            screen.text()
        });
        snapshot(name, &shown);
    };
    ["status", "log", "why"].into_iter().for_each(show);
    // A second run, which a limit stops, so that there is more than one to list.
    env.agent.call(5).out(claude_result("nothing to do", 0.125));
    fs::remove_file(env.path("done")).unwrap();
    env.ralph(&["run", "--restart", "--max-iterations", "1"]).expect(1);
    show("runs");
}

/// Mistakes in the configuration, and on the command line.
#[test]
fn mistakes_fit_every_terminal() {
    let env = TestEnvironment::new();
    env.raw_config(
        "[agent]\nadapter = \"command\"\nmodel = \"opus\"\n[agent.config]\nprogram = [\"@AGENT@\"]\n\
         [limits]\nmax_runtime = \"4x\"\n[[validator]]\nkind = \"command\"\nprogram = [\"true\"]\n",
    );
    let shown = at_every_width(|columns| {
        let words: [&[&str]; 6] = [
            &["config", "check"],
            &["rnu"],
            &["run", "--max-cots", "3"],
            &["run", "--max-runtime", "5x"],
            &["completions"],
            &["run", "--check", "true"],
        ];
        let shown = words.map(|words| {
            let mut screen = Screen::start(&env, words, columns, TERM);
            assert_ne!(screen.wait(), Some(0), "{}", screen.text());
            is_folded(&screen.text(), columns);
            format!("$ ralph-orchestrator {}\n{}", words.join(" "), screen.text())
        });
        shown.join("\n")
    });
    snapshot("mistakes", &shown);
}

/// Fails if a line is longer than the terminal although each word of it has room.
#[track_caller]
fn is_folded(text: &str, columns: u16) {
    let columns = usize::from(columns);
    for line in text.lines().filter(|line| line.chars().count() > columns) {
        // clap keeps this in one line.
        let is_usage = line.starts_with("Usage: ");
        let is_place = line.trim_start().starts_with("--> ");
        let has_long_word = line.split(' ').any(|word| word.chars().count() > columns);
        assert!(is_usage || is_place || has_long_word, "{line:?} on {columns} columns of\n{text}");
    }
}

#[test]
fn what_is_listed_fits_every_terminal() {
    let env = TestEnvironment::new();
    env.write("tests/test_a.py", "import unittest\n");
    for columns in WIDTHS {
        for words in [
            &["--help"][..],
            &["init", "--force"],
            &["doctor"],
            &["agents"],
            &["status"],
            &["log"],
            &["why"],
            &["run", "--dry-run"],
        ] {
            let mut screen = Screen::start(&env, words, columns, TERM);
            screen.wait();
            is_folded(&screen.text(), columns);
        }
    }
}

#[test]
fn the_live_line_follows_the_size_of_the_terminal() {
    let scripted = Scripted::new();
    let mut screen = scripted.start(120);
    screen.shows("[Bash]");
    let mut shown = Vec::new();
    for (columns, sign) in [(40, "12  "), (80, "iteration 1/12  "), (200, "iteration 1/12, ")] {
        screen.resize(columns);
        let text = screen.until("the line is drawn anew", |text| {
            live_lines(text)
                .iter()
                .any(|line| line.contains(sign) && line.len() < usize::from(columns) + 8)
        });
        assert_eq!(live_lines(&text).len(), 1, "{text}");
        shown.push(format!("== {columns} columns\n{text}"));
    }
    snapshot("resized", &shown.join("\n"));
    scripted.release();
    assert_eq!(screen.wait(), Some(0));
}

#[test]
fn ctrl_c_has_a_line_of_its_own_and_says_what_happens_to_the_agent() {
    let scripted = Scripted::new();
    let mut screen = scripted.start(80);
    screen.shows("[Bash]");
    screen.press(b"\x03");
    screen.shows("stopping: interrupting the agent (press Ctrl-C again to kill what runs)");
    assert_eq!(screen.wait(), Some(130));
    let text = screen.text();
    let stopping = text.lines().find(|line| line.contains("stopping: ")).unwrap();
    assert!(stopping.starts_with("stopping: "), "{text}");
    assert!(live_lines(&text).is_empty(), "{text}");
    snapshot("interrupted", &text);
    // Whoever comes back the next morning.
    let status = scripted.env.ralph(&["status"]).expect(0).stdout;
    assert!(status.starts_with("interrupted: stop requested\n"), "{status}");
    let log = scripted.env.ralph(&["log"]).expect(0).stdout;
    assert!(log.contains("stop requested") && !log.contains("Signal"), "{log}");
}

#[test]
fn ctrl_c_during_a_validation_speaks_of_the_validators() {
    let env = TestEnvironment::new();
    let fifo = env.fifo("fifo");
    env.config(&format!(
        "\n[[validator]]\nkind = \"command\"\nname = \"waits\"\n\
         program = [\"sh\", \"-c\", \"echo x > '{}'; exec sleep 1000\"]\n[completion]\nbaseline = \"off\"\n",
        fifo.display()
    ));
    env.agent.call(1).script("touch done\n").out("<promise>COMPLETE: x</promise>\n");
    let mut screen = Screen::start(&env, &["run"], 80, TERM);
    fs::read(&fifo).unwrap();
    screen.shows("validating (");
    screen.press(b"\x03");
    let text = screen.shows("stopping: ending the validators, whose verdict is discarded");
    assert!(!text.contains("interrupting the agent"), "{text}");
    assert_eq!(screen.wait(), Some(130));
}

#[test]
fn waits_count_down_to_the_time_that_the_provider_names() {
    let env = TestEnvironment::new();
    env.raw_config(
        "[run]\ndelay = \"0s\"\n[agent]\nadapter = \"command\"\n[agent.config]\n\
         program = [\"@AGENT@\"]\noutput = \"claude-json\"\n\
         [[validator]]\nkind = \"command\"\nname = \"tests\"\nprogram = [\"test\", \"-e\", \"done\"]\n",
    );
    env.agent.call(1).script(
        "printf '{\"type\":\"rate_limit_event\",\"rate_limit_info\":{\"status\":\"rejected\",\
         \"resetsAt\":%s,\"rateLimitType\":\"five_hour\"},\"session_id\":\"s\"}\\n' $(($(date +%s) + 3000))
         printf '{\"type\":\"result\",\"subtype\":\"success\",\"is_error\":true,\"api_error_status\":429,\
         \"result\":\"limit reached\",\"total_cost_usd\":0.25,\"session_id\":\"s\",\"num_turns\":1,\
         \"usage\":{\"input_tokens\":1,\"output_tokens\":1}}\\n'\nexit 1\n",
    );
    let mut screen = Screen::start(&env, &["run"], 80, TERM);
    let left = |text: &str| {
        let line = text.lines().next_back().unwrap_or_default();
        let time = line.split_once("waiting ").map(|(_, rest)| rest.split(": ").next().unwrap());
        // Before that the line above it says the same in words.
        time.filter(|time| time.contains(':')).map(str::to_owned)
    };
    let first = left(&screen.until("a countdown", |text| left(text).is_some())).unwrap();
    assert!(first.starts_with("49:") || first.starts_with("50:"), "{first}");
    screen.until("less is left", |text| left(text).is_some_and(|now| now != first));
    screen.press(b"\x03");
    screen.shows("stopping: the wait is cancelled");
    assert_eq!(screen.wait(), Some(130));
}

#[test]
fn a_dumb_terminal_gets_plain_lines() {
    for term in ["dumb", ""] {
        let scripted = Scripted::new();
        let mut screen = Screen::start(&scripted.env, &["run"], 80, term);
        scripted.agent_works();
        scripted.release();
        assert_eq!(screen.wait(), Some(0));
        let raw = screen.raw();
        let plain = if term.is_empty() { raw.replace("\x1b[", "") } else { raw.clone() };
        assert!(!plain.contains('\x1b') && !raw.contains("\x1b[J"), "{raw:?}");
        assert!(raw.contains("Iteration 1/12 started") && !raw.contains("[Bash]"), "{raw}");
    }
}

#[test]
fn plain_lines_have_no_colours_and_none_of_them_moves() {
    let scripted = Scripted::new();
    let mut screen = Screen::start(&scripted.env, &["run", "--plain"], 80, TERM);
    scripted.agent_works();
    scripted.release();
    assert_eq!(screen.wait(), Some(0));
    let raw = screen.raw();
    assert!(!raw.contains('\x1b') && !raw.replace("\r\n", "\n").contains('\r'), "{raw:?}");
    assert!(raw.contains("Iteration 1/12 started") && !raw.contains("[Bash]"), "{raw}");
}

#[test]
fn a_log_and_a_pipe_get_no_live_line() {
    let scripted = Scripted::new();
    let mut running = scripted.env.start(&["run"]);
    scripted.agent_works();
    scripted.release();
    let ended = running.wait().expect(0);
    assert!(!ended.stderr.contains('\x1b') && !ended.stderr.contains('\r'), "{:?}", ended.stderr);
    ended.says("  changed 2 files, +33 -1: samples.txt (new) +30 -0, parser.rs +3 -1");
    ended
        .says("  changed no files, 1 of 10 without progress")
        .says("  next        review the changes");
}
