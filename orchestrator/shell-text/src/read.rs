//! Reads shell text as commands, as far as that can be done without a shell.

use std::iter::Peekable;
use std::str::Chars;

/// Words of the language that are no part of the command beside which they stand.
const KEYWORDS: [&str; 12] =
    ["!", "{", "}", "if", "then", "else", "elif", "fi", "while", "until", "do", "done"];
/// Those that begin what only a shell understands.
const UNKNOWN: [&str; 4] = ["case", "function", "select", "coproc"];
/// How deep commands may stand in each other.
const MAX_DEPTH: usize = 16;

/// A word of a command.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Word {
    /// The text without its quotes; what the shell replaces is as written, and a command in it is `$()`.
    pub text: String,
    /// Whether the shell replaces nothing in it.
    pub is_plain: bool,
}

/// A simple command.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Command {
    /// Its words, without what it redirects.
    pub words: Vec<Word>,
    /// The files that its input comes from.
    pub reads: Vec<Word>,
    /// The files that its output goes to.
    pub writes: Vec<Word>,
}

/// What shell text is made of.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Part {
    /// A simple command.
    Command(Command),
    /// A subshell begins.
    Open,
    /// A subshell ends.
    Close,
}

/// Shell text that was read.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ShellText {
    parts: Vec<Part>,
    /// The parts before the first thing that only a shell understands, if there is one.
    known: Option<Vec<Part>>,
}

impl ShellText {
    /// Returns the parts up to the first thing that only a shell understands: a command whose output becomes text, a
    /// function, `case`, text that follows a command, an open quote.
    #[must_use]
    pub fn known(&self) -> &[Part] {
        self.known.as_deref().unwrap_or(&self.parts)
    }

    /// Returns whether that is all of the text.
    #[must_use]
    pub const fn is_whole(&self) -> bool {
        self.known.is_none()
    }

    /// Iterates over all commands that can be seen, in order of their ends: those within words, functions and text that
    /// follows a command, too.
    pub fn commands(&self) -> impl Iterator<Item = &Command> {
        self.parts.iter().filter_map(|part| match part {
            Part::Command(command) => Some(command),
            Part::Open | Part::Close => None,
        })
    }
}

/// Reads shell text.
#[must_use]
pub fn read_shell(text: &str) -> ShellText {
    let mut reader = Reader {
        chars: text.chars().peekable(),
        read: ShellText::default(),
        command: Command::default(),
        end: None,
        depth: 0,
    };
    reader.read();
    let mut read = reader.read;
    let is_unknown = |part: &Part| match part {
        Part::Command(command) => {
            command.words.first().is_some_and(|word| UNKNOWN.contains(&&*word.text))
        }
        Part::Open | Part::Close => false,
    };
    if let Some(end) = read.known().iter().position(is_unknown) {
        read.known = read.known().get(..end).map(<[Part]>::to_vec);
    }
    read
}

struct Reader<'a> {
    chars: Peekable<Chars<'a>>,
    read: ShellText,
    /// What is being read.
    command: Command,
    /// What ends the commands that are being read.
    end: Option<char>,
    depth: usize,
}

impl Reader<'_> {
    /// Reads commands up to the character that ends them, which is taken, or to the end of the text.
    fn read(&mut self) {
        let mut opened = 0_usize;
        while let Some(&c) = self.chars.peek() {
            if Some(c) == self.end && (opened == 0 || c != ')') {
                self.chars.next();
                return self.end_command();
            }
            match c {
                '\n' | ';' | '&' | '|' => {
                    self.chars.next();
                    if c == '&' && self.chars.peek() == Some(&'>') {
                        self.redirect();
                    } else {
                        self.end_command();
                    }
                }
                '(' => {
                    self.chars.next();
                    // A function, or arithmetic.
                    if !self.command.words.is_empty() || self.chars.peek() == Some(&'(') {
                        self.stop_knowing();
                        self.end_command();
                    }
                    opened += 1;
                    self.read.parts.push(Part::Open);
                }
                ')' => {
                    self.chars.next();
                    self.end_command();
                    opened = opened.saturating_sub(1);
                    self.read.parts.push(Part::Close);
                }
                '<' | '>' => self.redirect(),
                '#' => while self.chars.next_if(|c| *c != '\n').is_some() {},
                c if c.is_whitespace() => drop(self.chars.next()),
                _ => self.word_or_descriptor(),
            }
        }
        if self.end.is_some() {
            self.stop_knowing();
        }
        self.end_command();
    }

    fn word_or_descriptor(&mut self) {
        let Some(word) = self.word() else { return };
        let is_number = !word.text.is_empty() && word.text.chars().all(|c| c.is_ascii_digit());
        if is_number && matches!(self.chars.peek(), Some('<' | '>')) {
            return self.redirect();
        }
        let is_first = self.command.words.is_empty();
        if !(is_first && word.is_plain && KEYWORDS.contains(&word.text.as_str())) {
            self.command.words.push(word);
        }
    }

    /// Reads a redirection. Text that follows the command is read as commands: a shell may be what it is given to.
    fn redirect(&mut self) {
        let mut operator = String::new();
        while let Some(c) = self.chars.next_if(|c| matches!(c, '<' | '>' | '&' | '|')) {
            operator.push(c);
        }
        // A process may stand there instead of a file.
        if operator.starts_with("<<") || self.chars.peek() == Some(&'(') {
            self.stop_knowing();
        }
        while self.chars.next_if(|c| matches!(c, ' ' | '\t')).is_some() {}
        let Some(word) = self.word() else { return };
        // `>&2` leads to what is open already.
        let is_open =
            operator.ends_with('&') && word.text.chars().all(|c| c.is_ascii_digit() || c == '-');
        match operator.as_str() {
            _ if is_open => {}
            "<" => self.command.reads.push(word),
            operator if operator.contains('>') => self.command.writes.push(word),
            _ => {}
        }
    }

    /// Reads a word; `None` if there is none.
    fn word(&mut self) -> Option<Word> {
        let mut word = Word { text: String::new(), is_plain: true };
        let mut has_begun = false;
        while let Some(c) = self.chars.next_if(|c| !ends_word(*c) && Some(*c) != self.end) {
            if c == '\\' && self.chars.next_if_eq(&'\n').is_some() {
                continue;
            }
            has_begun = true;
            match c {
                '\'' => self.single_quoted(&mut word),
                '"' => self.double_quoted(&mut word),
                '\\' => word.text.extend(self.chars.next()),
                '`' => self.backquoted(&mut word),
                '$' => self.variable(&mut word),
                c => {
                    word.is_plain &=
                        !(matches!(c, '*' | '?' | '[') || c == '~' && word.text.is_empty());
                    word.text.push(c);
                }
            }
        }
        has_begun.then_some(word)
    }

    fn single_quoted(&mut self, word: &mut Word) {
        loop {
            match self.chars.next() {
                None => return self.stop_knowing(),
                Some('\'') => return,
                Some(c) => word.text.push(c),
            }
        }
    }

    fn double_quoted(&mut self, word: &mut Word) {
        loop {
            match self.chars.next() {
                None => return self.stop_knowing(),
                Some('"') => return,
                Some('`') => self.backquoted(word),
                Some('$') => self.variable(word),
                Some('\\') => match self.chars.next() {
                    None => return self.stop_knowing(),
                    Some('\n') => {}
                    Some(c @ ('"' | '\\' | '$' | '`')) => word.text.push(c),
                    Some(c) => word.text.extend(['\\', c]),
                },
                Some(c) => word.text.push(c),
            }
        }
    }

    /// Reads what follows a `$`.
    fn variable(&mut self, word: &mut Word) {
        word.is_plain = false;
        if self.chars.next_if_eq(&'(').is_some() {
            return self.substitution(')', word);
        }
        word.text.push('$');
        if self.chars.next_if_eq(&'{').is_none() {
            return;
        }
        word.text.push('{');
        while let Some(c) = self.chars.next() {
            match c {
                '`' => self.backquoted(word),
                '$' if self.chars.next_if_eq(&'(').is_some() => self.substitution(')', word),
                c => {
                    if c == '(' {
                        self.stop_knowing();
                    }
                    word.text.push(c);
                    if c == '}' {
                        return;
                    }
                }
            }
        }
        self.stop_knowing();
    }

    fn backquoted(&mut self, word: &mut Word) {
        word.is_plain = false;
        self.substitution('`', word);
    }

    /// Reads the commands whose output stands in a word.
    fn substitution(&mut self, end: char, word: &mut Word) {
        self.stop_knowing();
        word.text.push_str("$()");
        if self.depth >= MAX_DEPTH {
            // What is nested deeper is read as if it stood beside.
            return;
        }
        self.depth += 1;
        let outer = (std::mem::take(&mut self.command), self.end.replace(end));
        self.read();
        (self.command, self.end) = outer;
        self.depth -= 1;
    }

    /// Keeps what is known, since only a shell knows what comes now.
    fn stop_knowing(&mut self) {
        if self.read.known.is_none() {
            let mut known = self.read.parts.clone();
            if !self.command.words.is_empty() {
                known.push(Part::Command(self.command.clone()));
            }
            self.read.known = Some(known);
        }
    }

    fn end_command(&mut self) {
        if self.command != Command::default() {
            let command = std::mem::take(&mut self.command);
            self.read.parts.push(Part::Command(command));
        }
    }
}

fn ends_word(c: char) -> bool {
    c.is_whitespace() || matches!(c, ';' | '&' | '|' | '(' | ')' | '<' | '>')
}

#[cfg(test)]
mod tests;
