//! The whole view on a terminal that is none: keys and updates in, cells out.

mod properties;
mod views;

use ratatui::Terminal;
use ratatui::backend::TestBackend;
use ratatui::buffer::Buffer;

use crate::facts::*;
use crate::{Key, Theme, WatchState, draw};

const COLOURS: Theme = Theme { has_colour: true };

/// A view on a terminal.
struct Viewer {
    state: WatchState,
    terminal: Terminal<TestBackend>,
    requests: Vec<Request>,
}

impl Viewer {
    fn new(width: u16, height: u16) -> Self {
        let state = WatchState::new(width, height, None, check);
        let terminal = Terminal::new(TestBackend::new(width, height)).unwrap();
        Self { state, terminal, requests: Vec::new() }
    }

    /// A view of several runs, the first of which is at work.
    fn at_work(width: u16, height: u16) -> Self {
        let mut viewer = Self::new(width, height);
        viewer.update(Update::Runs(runs()));
        viewer.requests.clear();
        viewer.update(story(0..40, true));
        viewer.update(Update::Facts { key: key(0), facts: Some(Box::new(facts())) });
        viewer
    }

    fn update(&mut self, update: Update) {
        self.requests.extend(self.state.update(update));
    }

    fn press(&mut self, keys: &[Key]) -> &mut Self {
        for key in keys {
            self.requests.extend(self.state.handle(key));
        }
        self
    }

    fn type_in(&mut self, text: &str) -> &mut Self {
        let keys: Vec<Key> = text.chars().map(Key::Char).collect();
        self.press(&keys)
    }

    fn resize(&mut self, width: u16, height: u16) {
        self.state.resize(width, height);
        self.terminal.backend_mut().resize(width, height);
    }

    fn buffer(&mut self, theme: Theme) -> Buffer {
        let state = &self.state;
        self.terminal
            .draw(|frame| {
                if let Some(position) = draw(state, theme, frame.buffer_mut()) {
                    frame.set_cursor_position(position);
                }
            })
            .unwrap();
        self.terminal.backend().buffer().clone()
    }

    fn lines(&mut self) -> Vec<String> {
        to_lines(&self.buffer(COLOURS))
    }

    fn text(&mut self) -> String {
        self.lines().join("\n")
    }

    /// What of the story is shown.
    fn story(&mut self) -> Vec<String> {
        let lines = self.lines();
        let from = lines.iter().position(|line| line.contains(" story ")).unwrap();
        lines[from + 1..lines.len() - 1].to_vec()
    }
}

fn to_lines(buffer: &Buffer) -> Vec<String> {
    let area = *buffer.area();
    let row = |y: u16| {
        let (mut line, mut skip) = (String::new(), 0);
        for x in 0..area.width {
            if skip > 0 {
                skip -= 1;
                continue;
            }
            let symbol = buffer[(x, y)].symbol();
            skip = ralph_orchestrator_text::columns(symbol).saturating_sub(1);
            line.push_str(symbol);
        }
        line.trim_end().to_owned()
    };
    (0..area.height).map(row).collect()
}

fn check(_: usize, text: &str) -> Result<(), String> {
    if text == "none" || text.chars().all(|c| c.is_ascii_digit() || "hm.".contains(c)) {
        Ok(())
    } else {
        Err(format!("expected a number or none, not {text}"))
    }
}

fn key(at: usize) -> String {
    format!("/state/{at}")
}

fn runs() -> Vec<RunListItem> {
    let all = [
        ("shop-api", Phase::Running, 7),
        ("parser (ralph-2)", Phase::Waiting, 3),
        ("docs", Phase::NeedsHuman, 12),
        ("ein-recht-langer-name-eines-ordners", Phase::Paused, 1),
        ("cli", Phase::Completed, 4),
        ("日本語", Phase::Interrupted, 2),
        ("old", Phase::Stopped, 100),
        ("broken", Phase::Damaged, 0),
    ];
    let item = |(at, (name, phase, iterations)): (usize, (&str, Phase, u64))| RunListItem {
        key: key(at),
        run: format!("run-{at}"),
        name: name.to_owned(),
        phase,
        iterations: Some(iterations),
    };
    all.into_iter().enumerate().map(item).collect()
}

fn limit(
    name: &'static str,
    used: &str,
    max: Option<&str>,
    share: Option<u16>,
    value: &str,
) -> LimitFacts {
    let max = max.map(str::to_owned);
    LimitFacts { name, used: used.to_owned(), max, share, value: value.to_owned() }
}

fn facts() -> RunFacts {
    let verdict = |validator: &str, word, lines: &[&str]| VerdictFacts {
        validator: validator.to_owned(),
        word,
        lines: lines.iter().map(|line| (*line).to_owned()).collect(),
    };
    RunFacts {
        run: "run-0".to_owned(),
        phase: Phase::Running,
        agent: "claude-sdk/opus".to_owned(),
        limits: vec![
            limit("iterations", "7", Some("100"), Some(70), "100"),
            limit("runtime", "3:11:04", Some("4h"), Some(796), "4h"),
            limit("cost", "$46.10", Some("$50"), Some(922), "50"),
            limit("tokens", "5.9M", None, None, "none"),
        ],
        usage: "context 41 %  tokens in 17.0k, out 31.2k, cache read 5.9M".to_owned(),
        activity:
            "iteration 7: [Bash] cargo test --workspace --all-features -- --nocapture samples"
                .to_owned(),
        activity_tone: Tone::Plain,
        question: None,
        is_pause_requested: false,
        verdicts: vec![
            verdict("evidence", VerdictWord::Accepted, &["evidence accepted (0.1 s): 3 files"]),
            verdict(
                "tests",
                VerdictWord::Rejected,
                &[
                    "tests rejected (12.0 s): 2 failed",
                    "  - 2 failed: tax_rounding\n    at tax.rs:7",
                ],
            ),
            verdict("lint", VerdictWord::Error, &["lint no verdict: timed out"]),
        ],
        iterations: (1..=7).map(iteration).collect(),
    }
}

fn iteration(number: u64) -> IterationFacts {
    let cells = ["", "ended", "12 min 3 s", "$6.20", "3 files, +12 -3", "rejected"];
    let mut cells = cells.map(str::to_owned).to_vec();
    cells[0] = number.to_string();
    IterationFacts { number, cells, tone: Tone::Bad }
}

fn story(numbers: std::ops::Range<usize>, is_first: bool) -> Update {
    let line = |number: usize| {
        let (text, tone) = match number % 4 {
            0 => ("iteration 7 started (rejected)".to_owned(), Tone::Heading),
            1 => ("claim (promise, iteration 7): all samples are read".to_owned(), Tone::Plain),
            2 => (
                "rejected: tests: 2 failed: tax_rounding, and a long explanation of what that \
                   means for the samples"
                    .to_owned(),
                Tone::Bad,
            ),
            _ => (format!("note (iteration 7): number {number}"), Tone::Plain),
        };
        let (minutes, seconds) = (number / 60 % 60, number % 60);
        StoryLine { text: format!("02:{minutes:02}:{seconds:02}  {text}"), tone }
    };
    Update::Story { key: key(0), is_first, skipped: 0, lines: numbers.map(line).collect() }
}
