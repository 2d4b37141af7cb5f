//! What is in front of the panes: texts that are typed, questions, pages to read.

use crate::facts::{RequestedControl, RunFacts, RunListItem, StoryLine};
use crate::key::Key;
use crate::scroll_text::ScrollText;
use crate::text_input::TextInput;

/// Checks a limit as it was typed: its place among iterations, runtime, cost and tokens, and the text.
pub type LimitCheck = fn(usize, &str) -> Result<(), String>;

/// The names of the limits, in their order.
pub const LIMIT_NAMES: [&str; 4] = ["iterations", "runtime", "cost", "tokens"];

/// The run that a dialog is about.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Target {
    pub(crate) key: String,
    pub(crate) run: String,
    pub(crate) name: String,
}

impl Target {
    pub(crate) fn of(item: &RunListItem) -> Self {
        Self { key: item.key.clone(), run: item.run.clone(), name: item.name.clone() }
    }
}

#[derive(Clone, Debug)]
pub(crate) enum Dialog {
    Steer(Target, TextInput),
    Answer(Target, Option<String>, TextInput),
    Stop(Target),
    Limits(Target, Box<LimitsForm>),
    Page(Page),
}

/// A text to read.
#[derive(Clone, Debug)]
pub(crate) struct Page {
    pub(crate) title: String,
    pub(crate) text: ScrollText,
    /// It is still to come.
    pub(crate) is_awaited: bool,
}

impl Page {
    pub(crate) fn new(title: impl Into<String>, lines: &[StoryLine]) -> Self {
        Self::indented(title, lines, 2)
    }

    /// Returns a page whose folded lines begin after so many spaces.
    pub(crate) fn indented(title: impl Into<String>, lines: &[StoryLine], indent: usize) -> Self {
        let text = ScrollText::from_start(lines, indent);
        Self { title: title.into(), text, is_awaited: false }
    }

    pub(crate) fn awaited(title: impl Into<String>) -> Self {
        Self { is_awaited: true, ..Self::new(title, &[]) }
    }
}

/// What a key made of a dialog.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Step {
    Stay,
    Close,
    Send(Target, RequestedControl),
}

impl Dialog {
    /// Handles a key of one that is no page.
    pub(crate) fn handle(&mut self, key: &Key, check: LimitCheck) -> Step {
        if *key == Key::Escape {
            return Step::Close;
        }
        match self {
            Self::Steer(target, input) => typed(target, input, key, RequestedControl::Steer),
            Self::Answer(target, _, input) => typed(target, input, key, RequestedControl::Answer),
            Self::Stop(target) => match key {
                Key::Char('y' | 'Y') => Step::Send(target.clone(), RequestedControl::Stop),
                Key::Char('n' | 'N' | 'q') | Key::Enter => Step::Close,
                _ => Step::Stay,
            },
            Self::Limits(target, form) => match form.handle(key, check) {
                FormStep::Stay => Step::Stay,
                FormStep::Close => Step::Close,
                FormStep::Send(limits) => {
                    Step::Send(target.clone(), RequestedControl::Limits(limits))
                }
            },
            Self::Page(_) => Step::Stay,
        }
    }
}

fn typed(
    target: &Target,
    input: &mut TextInput,
    key: &Key,
    control: fn(String) -> RequestedControl,
) -> Step {
    if *key != Key::Enter {
        input.edit(key);
        return Step::Stay;
    }
    let text = input.text();
    // Nothing is sent by a key that was pressed too often.
    if text.trim().is_empty() { Step::Close } else { Step::Send(target.clone(), control(text)) }
}

/// The limits, to be changed.
#[derive(Clone, Debug)]
pub(crate) struct LimitsForm {
    pub(crate) fields: [TextInput; 4],
    before: [String; 4],
    pub(crate) used: [String; 4],
    pub(crate) at: usize,
    pub(crate) problem: Option<String>,
    /// It asks whether they are to be set.
    pub(crate) is_asking: bool,
}

enum FormStep {
    Stay,
    Close,
    Send([Option<String>; 4]),
}

impl LimitsForm {
    pub(crate) fn new(facts: &RunFacts) -> Self {
        let before = facts.limits.each_ref().map(|limit| limit.value.clone());
        Self {
            fields: before.each_ref().map(|value| TextInput::of(value)),
            before,
            used: facts.limits.each_ref().map(|limit| limit.used.clone()),
            at: 0,
            problem: None,
            is_asking: false,
        }
    }

    fn handle(&mut self, key: &Key, check: LimitCheck) -> FormStep {
        if self.is_asking {
            match key {
                Key::Char('y' | 'Y') => return FormStep::Send(self.changed()),
                Key::Char('n' | 'N') | Key::Enter => self.is_asking = false,
                _ => {}
            }
            return FormStep::Stay;
        }
        match key {
            Key::Up | Key::BackTab => self.at = (self.at + 3) % 4,
            Key::Down | Key::Tab => self.at = (self.at + 1) % 4,
            Key::Enter => return self.check(check),
            _ => {
                self.problem = None;
                if let Some(field) = self.fields.get_mut(self.at) {
                    field.edit(key);
                }
            }
        }
        FormStep::Stay
    }

    fn check(&mut self, check: LimitCheck) -> FormStep {
        let changed = self.changed();
        if changed.iter().all(Option::is_none) {
            return FormStep::Close;
        }
        for (at, text) in changed.iter().enumerate() {
            if let Some(Err(problem)) = text.as_ref().map(|text| check(at, text)) {
                self.at = at;
                self.problem = Some(problem);
                return FormStep::Stay;
            }
        }
        self.is_asking = true;
        FormStep::Stay
    }

    fn changed(&self) -> [Option<String>; 4] {
        let mut before = self.before.iter();
        self.fields.each_ref().map(|field| {
            let text = field.text().trim().to_owned();
            before.next().is_none_or(|before| *before != text).then_some(text)
        })
    }

    /// What changes, in words.
    pub(crate) fn changes(&self) -> Vec<String> {
        let all = self.changed().into_iter().zip(&self.before).zip(LIMIT_NAMES);
        all.filter_map(|((now, before), name)| Some(format!("{name} from {before} to {}", now?)))
            .collect()
    }
}
