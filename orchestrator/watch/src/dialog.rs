//! What is in front of the panes: texts that are typed, questions, pages to read.

use crate::facts::{LimitFacts, RequestedControl, RunFacts, RunListItem, StoryLine};
use crate::key::Key;
use crate::scroll_text::ScrollText;
use crate::text_input::TextInput;

/// Checks a limit as it was typed: its place among the limits of a run's facts, and the text.
pub type LimitCheck = fn(usize, &str) -> Result<(), String>;

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
    pub(crate) fields: Vec<LimitField>,
    pub(crate) at: usize,
    pub(crate) problem: Option<String>,
    /// It asks whether they are to be set.
    pub(crate) is_asking: bool,
}

enum FormStep {
    Stay,
    Close,
    Send(Vec<Option<String>>),
}

/// A limit, to be changed.
#[derive(Clone, Debug)]
pub(crate) struct LimitField {
    pub(crate) name: &'static str,
    pub(crate) input: TextInput,
    before: String,
    pub(crate) used: String,
}

impl LimitField {
    fn new(limit: &LimitFacts) -> Self {
        Self {
            name: limit.name,
            input: TextInput::of(&limit.value),
            before: limit.value.clone(),
            used: limit.used.clone(),
        }
    }

    /// Returns what was typed, if it is another limit.
    fn changed(&self) -> Option<String> {
        let text = self.input.text().trim().to_owned();
        (text != self.before).then_some(text)
    }
}

impl LimitsForm {
    pub(crate) fn new(facts: &RunFacts) -> Self {
        Self {
            fields: facts.limits.iter().map(LimitField::new).collect(),
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
            Key::Up | Key::BackTab => {
                self.at = self.at.checked_sub(1).unwrap_or(self.fields.len().saturating_sub(1));
            }
            Key::Down | Key::Tab => {
                self.at = if self.at + 1 < self.fields.len() { self.at + 1 } else { 0 };
            }
            Key::Enter => return self.check(check),
            _ => {
                self.problem = None;
                if let Some(field) = self.fields.get_mut(self.at) {
                    field.input.edit(key);
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

    fn changed(&self) -> Vec<Option<String>> {
        self.fields.iter().map(LimitField::changed).collect()
    }

    /// What changes, in words.
    pub(crate) fn changes(&self) -> Vec<String> {
        let change = |field: &LimitField| {
            Some(format!("{} from {} to {}", field.name, field.before, field.changed()?))
        };
        self.fields.iter().filter_map(change).collect()
    }
}
