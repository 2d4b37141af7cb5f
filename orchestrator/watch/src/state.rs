//! The state of the view: keys and updates change it and yield requests. Pure, without terminal or clock.

use ralph_orchestrator_text::wrap;

use crate::dialog::{Dialog, LimitCheck, LimitsForm, Page, Step, Target};
use crate::facts::{
    Phase, Request, RequestedControl, RunFacts, StoryLine, Tone, Update, VerdictWord,
};
use crate::iteration_list::IterationList;
use crate::key::Key;
use crate::panes::{Focus, Panes};
use crate::run_list::RunList;
use crate::scroll_text::{Direction, ScrollText, Window};
use crate::text_input::TextInput;

/// Where lines of the story go on below their time.
const STORY_INDENT: usize = 10;
/// Where the help says what keys do.
const KEY_COLUMNS: usize = 9;

/// All that the screen shows.
#[derive(Clone, Debug)]
pub struct WatchState {
    pub(crate) width: u16,
    pub(crate) height: u16,
    pub(crate) focus: Focus,
    pub(crate) runs: RunList,
    pub(crate) facts: Option<Box<RunFacts>>,
    pub(crate) story: ScrollText,
    /// Records before those of the story.
    pub(crate) skipped: u64,
    pub(crate) iterations: IterationList,
    pub(crate) dialog: Option<Dialog>,
    /// The pattern that is typed.
    pub(crate) search: Option<TextInput>,
    pub(crate) message: Option<Result<String, String>>,
    limit_check: LimitCheck,
}

impl WatchState {
    /// Returns the state of a screen of this size, which shows the run of this key first if there is one.
    #[must_use]
    pub fn new(width: u16, height: u16, key: Option<String>, limit_check: LimitCheck) -> Self {
        Self {
            width,
            height,
            focus: Focus::Story,
            runs: RunList::starting_at(key),
            facts: None,
            story: ScrollText::following(STORY_INDENT),
            skipped: 0,
            iterations: IterationList::default(),
            dialog: None,
            search: None,
            message: None,
            limit_check,
        }
    }

    /// The screen has another size.
    pub fn resize(&mut self, width: u16, height: u16) {
        (self.width, self.height) = (width, height);
        self.runs.fit(self.runs_height());
    }

    /// Returns the areas of the screen.
    pub(crate) fn panes(&self) -> Panes {
        Panes::of(self.width, self.height, self.focus, self.message_rows())
    }

    /// The message as it fits the screen.
    pub(crate) fn message_lines(&self) -> Vec<String> {
        let Some(message) = &self.message else { return Vec::new() };
        let text = match message {
            Ok(text) => text.clone(),
            Err(text) => format!("error: {text}"),
        };
        let width = usize::from(self.width.saturating_sub(2));
        wrap(&text, width, 2)
    }

    fn message_rows(&self) -> u16 {
        u16::try_from(self.message_lines().len()).unwrap_or(u16::MAX)
    }

    fn runs_height(&self) -> usize {
        usize::from(Panes::below_heading(self.panes().runs).height)
    }

    fn iterations_height(&self) -> usize {
        usize::from(Panes::below_heading(self.panes().iterations).height)
    }

    fn story_window(&self) -> Window {
        Panes::window(self.panes().story)
    }

    /// The area of a page, with a heading; the footer and the message stay.
    pub(crate) fn page_area(&self) -> ratatui::layout::Rect {
        let panes = self.panes();
        let height = self.height.saturating_sub(panes.footer.height + panes.message.height);
        ratatui::layout::Rect::new(0, 0, self.width, height)
    }

    fn page_window(&self) -> Window {
        Panes::window(self.page_area())
    }

    /// Takes in what is new, and returns what is asked for because of it.
    pub fn update(&mut self, update: Update) -> Vec<Request> {
        match update {
            Update::Runs(items) => {
                let height = self.runs_height();
                if self.runs.set(items, height) {
                    return self.begin_run();
                }
            }
            Update::Facts { key, facts } if self.is_chosen(&key) => self.facts = facts,
            Update::Story { key, is_first, skipped, lines } if self.is_chosen(&key) => {
                if is_first {
                    self.story.clear();
                    self.skipped = skipped;
                }
                lines.iter().for_each(|line| self.story.push(line));
            }
            Update::Text { title, lines } => {
                if let Some(Dialog::Page(page)) = &mut self.dialog
                    && page.is_awaited
                {
                    *page = Page::new(title, &lines);
                }
            }
            // What a later key was refused for is still to be read.
            Update::Outcome(Ok(_)) if matches!(self.message, Some(Err(_))) => {}
            Update::Outcome(outcome) => self.message = Some(outcome),
            Update::Facts { .. } | Update::Story { .. } => {}
        }
        Vec::new()
    }

    fn is_chosen(&self, key: &str) -> bool {
        self.runs.chosen().is_some_and(|item| item.key == key)
    }

    /// Another run is chosen.
    fn begin_run(&mut self) -> Vec<Request> {
        self.facts = None;
        self.story.clear();
        self.skipped = 0;
        self.iterations.follow();
        let chosen = self.runs.chosen();
        chosen.map(|item| Request::Choose { key: item.key.clone() }).into_iter().collect()
    }

    /// Handles a key, and returns what is asked for by it.
    pub fn handle(&mut self, key: &Key) -> Vec<Request> {
        if *key == Key::Interrupt {
            return vec![Request::Quit];
        }
        if self.search.is_some() {
            self.type_pattern(key);
            return Vec::new();
        }
        match &mut self.dialog {
            Some(Dialog::Page(_)) => {
                self.read_page(key);
                Vec::new()
            }
            Some(dialog) => match dialog.handle(key, self.limit_check) {
                Step::Stay => Vec::new(),
                Step::Close => {
                    self.dialog = None;
                    Vec::new()
                }
                Step::Send(target, control) => {
                    self.dialog = None;
                    self.send(target, control)
                }
            },
            None => self.command(key),
        }
    }

    fn send(&mut self, target: Target, control: RequestedControl) -> Vec<Request> {
        let word = match &control {
            RequestedControl::Steer(_) => "guidance",
            RequestedControl::Answer(_) => "answer",
            RequestedControl::Pause => "pause",
            RequestedControl::Resume => "resume",
            RequestedControl::Limits(_) => "limits",
            RequestedControl::Stop => "stop",
        };
        self.message = Some(Ok(format!("{word}: sent, not recorded yet")));
        vec![Request::Control { key: target.key, run: target.run, control }]
    }

    /// The text in which one searches.
    fn searched(&mut self) -> (&mut ScrollText, Window) {
        let (page, story) = (self.page_window(), self.story_window());
        match &mut self.dialog {
            Some(Dialog::Page(own)) => (&mut own.text, page),
            _ => (&mut self.story, story),
        }
    }

    fn type_pattern(&mut self, key: &Key) {
        let Some(input) = &mut self.search else { return };
        match key {
            Key::Escape => self.search = None,
            Key::Enter => {
                let pattern = input.text();
                self.search = None;
                let (text, window) = self.searched();
                let is_found = text.search(&pattern, window);
                self.say_not_found(is_found, &pattern);
            }
            _ => input.edit(key),
        }
    }

    fn search_next(&mut self, direction: Direction) {
        let (text, window) = self.searched();
        let pattern = text.pattern().to_owned();
        let is_found = text.search_next(direction, window);
        self.say_not_found(is_found, &pattern);
    }

    fn say_not_found(&mut self, is_found: bool, pattern: &str) {
        if !is_found && !pattern.is_empty() {
            self.message = Some(Err(format!("not found: {pattern}")));
        }
    }

    fn read_page(&mut self, key: &Key) {
        match key {
            Key::Escape | Key::Enter | Key::Char('q' | 'd' | 'v' | '?') => self.dialog = None,
            Key::Char('/') => self.search = Some(TextInput::default()),
            Key::Char('n') => self.search_next(Direction::Down),
            Key::Char('N') => self.search_next(Direction::Up),
            _ => {
                let (text, window) = self.searched();
                scroll(text, key, window);
            }
        }
    }

    fn command(&mut self, key: &Key) -> Vec<Request> {
        match key {
            Key::Char('q') => return vec![Request::Quit],
            Key::Escape => self.message = None,
            Key::Tab => self.set_focus(self.focus.next()),
            Key::BackTab => self.set_focus(self.focus.previous()),
            Key::Left | Key::Char('h') => self.set_focus(Focus::Runs),
            Key::Right => self.set_focus(Focus::Story),
            Key::Char('f') => return self.toggle_follow(),
            Key::Char('/') => self.search = Some(TextInput::default()),
            Key::Char('n') => self.search_next(Direction::Down),
            Key::Char('N') => self.search_next(Direction::Up),
            Key::Char('?') => self.open(Page::indented("keys", &help(), KEY_COLUMNS)),
            Key::Char('v') => self.show_verdicts(),
            Key::Char('d') => return self.show_diff(),
            Key::Char('s' | 'a' | 'p' | 'l' | 'x') => return self.control(key),
            _ => return self.move_in_pane(key),
        }
        Vec::new()
    }

    fn set_focus(&mut self, focus: Focus) {
        self.focus = focus;
        self.runs.fit(self.runs_height());
    }

    fn open(&mut self, page: Page) {
        self.dialog = Some(Dialog::Page(page));
    }

    fn toggle_follow(&mut self) -> Vec<Request> {
        self.iterations.follow();
        if self.story.is_following() {
            let window = self.story_window();
            self.story.stay(window);
            return Vec::new();
        }
        self.follow()
    }

    fn follow(&mut self) -> Vec<Request> {
        if self.story.follow() { vec![Request::Reload] } else { Vec::new() }
    }

    fn move_in_pane(&mut self, key: &Key) -> Vec<Request> {
        match self.focus {
            Focus::Runs => {
                let height = self.runs_height();
                if *key == Key::Enter {
                    self.set_focus(Focus::Story);
                } else if self.runs.step(rows(key, height), height) {
                    return self.begin_run();
                }
            }
            Focus::Iterations => {
                let height = self.iterations_height();
                match key {
                    Key::Enter => return self.show_transcript(),
                    Key::End | Key::Char('G') => self.iterations.follow(),
                    _ => {
                        let all = self.facts.as_ref().map(|facts| facts.iterations.as_slice());
                        self.iterations.step(rows(key, height), all.unwrap_or_default(), height);
                    }
                }
            }
            Focus::Story => {
                if matches!(key, Key::End | Key::Char('G')) {
                    return self.follow();
                }
                let window = self.story_window();
                scroll(&mut self.story, key, window);
            }
        }
        Vec::new()
    }

    /// Returns what a control would be sent to, or says that there is nothing.
    fn target(&mut self) -> Option<Target> {
        let target = self.runs.chosen().map(Target::of);
        if target.is_none() {
            self.message = Some(Err("there is no run".to_owned()));
        }
        target
    }

    fn control(&mut self, key: &Key) -> Vec<Request> {
        let Some(target) = self.target() else { return Vec::new() };
        let Some(facts) = &self.facts else {
            self.message = Some(Err("the run is not read yet".to_owned()));
            return Vec::new();
        };
        self.dialog = match key {
            Key::Char('s') => Some(Dialog::Steer(target, TextInput::default())),
            Key::Char('a') => {
                Some(Dialog::Answer(target, facts.question.clone(), TextInput::default()))
            }
            Key::Char('l') => Some(Dialog::Limits(target, Box::new(LimitsForm::new(facts)))),
            Key::Char('x') if facts.phase.is_active() => Some(Dialog::Stop(target)),
            Key::Char('x') => {
                self.message = Some(Err(format!("no run is active: {}", facts.phase.word())));
                None
            }
            _ => {
                let control = match facts.is_pause_requested {
                    true => RequestedControl::Resume,
                    false => RequestedControl::Pause,
                };
                return self.send(target, control);
            }
        };
        Vec::new()
    }

    fn show_diff(&mut self) -> Vec<Request> {
        let Some(Target { key, run, .. }) = self.target() else { return Vec::new() };
        let all = self.facts.as_ref().map(|facts| facts.iterations.as_slice());
        let iteration = match self.iterations.is_following() {
            true => None,
            false => self.iterations.number(all.unwrap_or_default()),
        };
        self.open(Page::awaited("changes"));
        vec![Request::Diff { key, run, iteration }]
    }

    fn show_transcript(&mut self) -> Vec<Request> {
        let Some(Target { key, run, .. }) = self.target() else { return Vec::new() };
        let all = self.facts.as_ref().map(|facts| facts.iterations.as_slice());
        let Some(iteration) = self.iterations.number(all.unwrap_or_default()) else {
            self.message = Some(Err("there is no iteration yet".to_owned()));
            return Vec::new();
        };
        self.open(Page::awaited(format!("iteration {iteration}")));
        vec![Request::Transcript { key, run, iteration }]
    }

    fn show_verdicts(&mut self) {
        let verdicts = self.facts.as_ref().map(|facts| facts.verdicts.as_slice());
        let lines: Vec<StoryLine> = verdicts
            .unwrap_or_default()
            .iter()
            .flat_map(|verdict| {
                let tone = match verdict.word {
                    VerdictWord::Accepted => Tone::Good,
                    VerdictWord::Rejected | VerdictWord::Error => Tone::Bad,
                };
                let lines = verdict.lines.iter().enumerate();
                lines.map(move |(at, text)| StoryLine {
                    text: text.clone(),
                    tone: if at == 0 { tone } else { Tone::Plain },
                })
            })
            .collect();
        let none = "nothing was validated yet".to_owned();
        let none = [StoryLine { text: none, tone: Tone::Dim }];
        let lines = if lines.is_empty() { none.as_slice() } else { lines.as_slice() };
        self.open(Page::new("verdicts of the last validation", lines));
    }

    /// Whether the pause key ends a pause.
    pub(crate) fn pause_resumes(&self) -> bool {
        self.facts.as_ref().is_some_and(|facts| facts.is_pause_requested)
    }

    /// The phase of the chosen run.
    pub(crate) fn phase(&self) -> Option<Phase> {
        let of_list = self.runs.chosen().map(|item| item.phase);
        self.facts.as_ref().map(|facts| facts.phase).or(of_list)
    }
}

/// How many rows a key goes down, or up.
fn rows(key: &Key, height: usize) -> isize {
    let page = isize::try_from(height.max(2) - 1).unwrap_or(isize::MAX);
    match key {
        Key::Up | Key::Char('k') => -1,
        Key::Down | Key::Char('j') => 1,
        Key::PageUp => -page,
        Key::PageDown | Key::Char(' ') => page,
        Key::Home | Key::Char('g') => isize::MIN,
        Key::End | Key::Char('G') => isize::MAX,
        _ => 0,
    }
}

fn scroll(text: &mut ScrollText, key: &Key, window: Window) {
    let page = window.height.max(2) - 1;
    match key {
        Key::Up | Key::Char('k') => text.scroll(Direction::Up, 1, window),
        Key::Down | Key::Char('j') => text.scroll(Direction::Down, 1, window),
        Key::PageUp => text.scroll(Direction::Up, page, window),
        Key::PageDown | Key::Char(' ') => text.scroll(Direction::Down, page, window),
        Key::Home | Key::Char('g') => text.scroll(Direction::Up, usize::MAX, window),
        Key::End | Key::Char('G') => text.go_to_last_page(window),
        _ => {}
    }
}

/// What the keys do.
fn help() -> Vec<StoryLine> {
    let rows = [
        ("", "the chosen run"),
        ("s", "give the agent guidance, at the top of its next prompt"),
        ("a", "answer its question"),
        ("p", "pause after this iteration, or end the pause"),
        ("l", "change its limits; asks first"),
        ("x", "stop it; asks first"),
        ("d", "what the chosen iteration changed, or the last one"),
        ("v", "verdicts of the last validation, with their reasons"),
        ("", ""),
        ("", "reading"),
        ("Tab", "next pane: runs, iterations, story; Left and Right go to runs and story"),
        ("j k ↓ ↑", "one line; PgDn and PgUp, or Space, one page"),
        ("g G", "the beginning and the end, as Home and End"),
        ("f", "follow the end of the story, or stay; scrolling up stays as well"),
        ("Enter", "on an iteration: what its agent said and did"),
        ("/ n N", "search in the story or page; next and previous match"),
        ("Esc", "close a dialog or page, remove a message"),
        ("", ""),
        ("q", "end the view; runs go on"),
        ("", ""),
        ("", "signs of runs"),
        ("● ◐ ‖", "running, waiting for the provider, paused"),
        ("? ✔", "needs human, completed"),
        ("○ ■ !", "interrupted, stopped, damaged"),
    ];
    let line = |(key, text): (&str, &str)| match key {
        "" => StoryLine { text: text.to_owned(), tone: Tone::Heading },
        key => StoryLine { text: format!("{key:<KEY_COLUMNS$}{text}"), tone: Tone::Plain },
    };
    rows.into_iter().map(line).collect()
}
