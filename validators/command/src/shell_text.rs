//! Reads shell text as the simple commands that it is made of, as far as that can be done without a shell.

/// A word of a command.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Word {
    /// The text without its quotes; what the shell replaces is as written.
    pub(crate) text: String,
    /// Whether the shell replaces nothing in it.
    pub(crate) is_plain: bool,
}

/// What shell text is made of.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Part {
    /// A simple command, without what it redirects.
    Command(Vec<Word>),
    /// A subshell begins.
    Open,
    /// A subshell ends.
    Close,
}

/// Words of the language that are no part of the command beside which they stand.
const KEYWORDS: [&str; 12] =
    ["!", "{", "}", "if", "then", "else", "elif", "fi", "while", "until", "do", "done"];
/// Those that begin what is not read any further.
const UNREAD: [&str; 4] = ["case", "function", "select", "coproc"];

/// Returns the parts of the text up to what cannot be read, and whether that is all of it.
pub(crate) fn parse(text: &str) -> (Vec<Part>, bool) {
    let text = text.replace("\\\n", "");
    let mut reader =
        Reader { chars: text.chars().peekable(), parts: Vec::new(), words: Vec::new() };
    let is_whole = reader.read().is_some();
    reader.end_command();
    let is_unread = |part: &Part| match part {
        Part::Command(words) => words.first().is_some_and(|word| UNREAD.contains(&&*word.text)),
        Part::Open | Part::Close => false,
    };
    let mut parts = reader.parts;
    let end = parts.iter().position(is_unread);
    parts.truncate(end.unwrap_or(parts.len()));
    (parts, is_whole && end.is_none())
}

struct Reader<'a> {
    chars: std::iter::Peekable<std::str::Chars<'a>>,
    parts: Vec<Part>,
    /// Of the command that is being read.
    words: Vec<Word>,
}

impl Reader<'_> {
    /// Reads all; `None` if something cannot be read.
    fn read(&mut self) -> Option<()> {
        while let Some(&c) = self.chars.peek() {
            match c {
                '\n' | ';' | '&' | '|' => {
                    self.chars.next();
                    if c == '&' && self.chars.peek() == Some(&'>') {
                        self.redirect()?;
                    } else {
                        self.end_command();
                    }
                }
                '(' => {
                    self.chars.next();
                    // A function, or arithmetic.
                    if !self.words.is_empty() || self.chars.peek() == Some(&'(') {
                        return None;
                    }
                    self.parts.push(Part::Open);
                }
                ')' => {
                    self.chars.next();
                    self.end_command();
                    self.parts.push(Part::Close);
                }
                '<' | '>' => self.redirect()?,
                '#' => while self.chars.next_if(|c| *c != '\n').is_some() {},
                c if c.is_whitespace() => drop(self.chars.next()),
                _ => self.word_or_descriptor()?,
            }
        }
        Some(())
    }

    fn word_or_descriptor(&mut self) -> Option<()> {
        let word = self.word()?;
        let is_number = !word.text.is_empty() && word.text.chars().all(|c| c.is_ascii_digit());
        if is_number && matches!(self.chars.peek(), Some('<' | '>')) {
            return self.redirect();
        }
        let is_first = self.words.is_empty();
        if is_first && KEYWORDS.contains(&word.text.as_str()) && word.is_plain {
            return Some(());
        }
        self.words.push(word);
        Some(())
    }

    /// Leaves out a redirection; text that follows the command cannot be read.
    fn redirect(&mut self) -> Option<()> {
        let mut operator = String::new();
        while let Some(c) = self.chars.next_if(|c| matches!(c, '<' | '>' | '&' | '|')) {
            operator.push(c);
        }
        // A process may stand there instead of a file.
        if operator.starts_with("<<") || self.chars.peek() == Some(&'(') {
            return None;
        }
        while self.chars.next_if(|c| matches!(c, ' ' | '\t')).is_some() {}
        self.word().map(drop)
    }

    /// Reads a word; `None` if a command is in it.
    fn word(&mut self) -> Option<Word> {
        let mut word = Word { text: String::new(), is_plain: true };
        while let Some(c) = self.chars.next_if(|c| !ends_word(*c)) {
            match c {
                '\'' => loop {
                    match self.chars.next()? {
                        '\'' => break,
                        c => word.text.push(c),
                    }
                },
                '"' => self.quoted(&mut word)?,
                '\\' => match self.chars.next() {
                    None => {}
                    Some(c) => word.text.push(c),
                },
                '`' => return None,
                '$' => self.variable(&mut word)?,
                c => {
                    word.is_plain &=
                        !(matches!(c, '*' | '?' | '[') || c == '~' && word.text.is_empty());
                    word.text.push(c);
                }
            }
        }
        Some(word)
    }

    fn quoted(&mut self, word: &mut Word) -> Option<()> {
        loop {
            match self.chars.next()? {
                '"' => return Some(()),
                '`' => return None,
                '$' => self.variable(word)?,
                '\\' => match self.chars.next()? {
                    c @ ('"' | '\\' | '$' | '`') => word.text.push(c),
                    c => word.text.extend(['\\', c]),
                },
                c => word.text.push(c),
            }
        }
    }

    /// Reads what follows a `$`.
    fn variable(&mut self, word: &mut Word) -> Option<()> {
        if self.chars.peek() == Some(&'(') {
            return None;
        }
        word.is_plain = false;
        word.text.push('$');
        if self.chars.next_if_eq(&'{').is_some() {
            word.text.push('{');
            loop {
                let c = self.chars.next().filter(|c| !matches!(c, '`' | '('))?;
                word.text.push(c);
                if c == '}' {
                    break;
                }
            }
        }
        Some(())
    }

    fn end_command(&mut self) {
        if !self.words.is_empty() {
            self.parts.push(Part::Command(std::mem::take(&mut self.words)));
        }
    }
}

fn ends_word(c: char) -> bool {
    c.is_whitespace() || matches!(c, ';' | '&' | '|' | '(' | ')' | '<' | '>')
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// The commands as text, with `(` and `)`; open words end in `?`.
    fn read(text: &str) -> (Vec<String>, bool) {
        let (parts, is_whole) = parse(text);
        let texts = parts.iter().map(|part| match part {
            Part::Open => "(".to_owned(),
            Part::Close => ")".to_owned(),
            Part::Command(words) => {
                let mark =
                    |word: &Word| format!("{}{}", word.text, if word.is_plain { "" } else { "?" });
                words.iter().map(mark).collect::<Vec<_>>().join(" ")
            }
        });
        (texts.collect(), is_whole)
    }

    #[test]
    fn finds_the_commands_of_a_line() {
        for (text, commands) in [
            ("a -v && b", &["a -v", "b"][..]),
            ("a;b||c & d|e |& f", &["a", "b", "c", "d", "e", "f"]),
            ("( cd a && b ) ; c", &["(", "cd a", "b", ")", "c"]),
            ("! { a; }", &["a"]),
            ("if a; then b; else c; fi", &["a", "b", "c"]),
            ("for x in 1 2; do a $x; done; b", &["for x in 1 2", "a $x?", "b"]),
            ("a 2>&1 >out <in &>all b", &["a b"]),
            ("a 'b c' \"d $e\" f\\ g ${h:-i}", &["a b c d $e? f g ${h:-i}?"]),
            ("a # && b\nc # d", &["a", "c"]),
            ("a \\\n b", &["a b"]),
            ("A=1 a x#y *.c ~/z", &["A=1 a x#y *.c? ~/z?"]),
            ("time -p a", &["time -p a"]),
            ("a 2 '' 'if'", &["a 2  if"]),
            ("", &[]),
        ] {
            let (found, is_whole) = read(text);
            assert_eq!(found, commands, "{text}");
            assert!(is_whole, "{text}");
        }
    }

    #[test]
    fn stops_at_what_it_cannot_read() {
        for (text, commands) in [
            ("a; $(b)", &["a"][..]),
            ("a; `b`", &["a"]),
            ("a && b \"$(c)\"", &["a", "b"]),
            ("a; case x in y) b;; esac", &["a"]),
            ("a; f() { b; }", &["a", "f"]),
            ("cat <<E\nb\nE", &["cat"]),
            ("a <(b)", &["a"]),
            ("a 'b", &["a"]),
        ] {
            assert_eq!(
                read(text),
                (commands.iter().map(|c| (*c).to_owned()).collect(), false),
                "{text}"
            );
        }
    }

    proptest! {
        #[test]
        fn any_text_is_read_to_an_end(text in "[ a$'\"\\\\`(){};&|<>#\n=]{0,40}|\\PC{0,40}") {
            let (parts, _) = parse(&text);
            prop_assert!(parts.len() <= text.len() + 1);
        }
    }
}
