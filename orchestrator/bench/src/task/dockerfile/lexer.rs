//! Splits the text of a Dockerfile into instructions.

/// An instruction, as it is written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Instruction {
    /// The line it begins on, from 1.
    pub(super) line: usize,
    /// The keyword, in upper case.
    pub(super) keyword: String,
    /// What follows it, continuation lines joined.
    pub(super) text: String,
    /// It has here-documents, whose text is left out.
    pub(super) has_heredoc: bool,
}

/// The instructions of a Dockerfile.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct LexOutput {
    /// The character that escapes and continues lines.
    pub(super) escape: char,
    /// The instructions.
    pub(super) instructions: Vec<Instruction>,
    /// Lines of here-documents that do not end.
    pub(super) open_heredocs: Vec<usize>,
}

/// Splits a Dockerfile into its instructions. Takes any text.
pub(super) fn lex(text: &str) -> LexOutput {
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    let escape = find_escape(text);
    let mut lexed = LexOutput { escape, instructions: Vec::new(), open_heredocs: Vec::new() };
    let mut lines = text.lines().enumerate().map(|(at, line)| (at + 1, line));
    let mut joined = String::new();
    let mut first = None;
    while let Some((number, line)) = lines.next() {
        let trimmed = line.trim();
        if trimmed.starts_with('#') || trimmed.is_empty() {
            continue;
        }
        let line_of_instruction = *first.get_or_insert(number);
        if let Some(part) = line.trim_end().strip_suffix(escape) {
            joined.push_str(part);
            continue;
        }
        joined.push_str(line);
        first = None;
        let Some(mut instruction) =
            split_keyword(line_of_instruction, &std::mem::take(&mut joined))
        else {
            continue;
        };
        for (delimiter, strips_tabs) in find_heredocs(&instruction) {
            instruction.has_heredoc = true;
            let is_end = |line: &str| {
                let line = if strips_tabs { line.trim_start_matches('\t') } else { line };
                line == delimiter
            };
            if !lines.by_ref().any(|(_, line)| is_end(line)) {
                lexed.open_heredocs.push(line_of_instruction);
            }
        }
        lexed.instructions.push(instruction);
    }
    // A file may end in the middle of a continuation.
    if let Some(line) = first {
        lexed.instructions.extend(split_keyword(line, &joined));
    }
    lexed
}

/// Returns the escape character that a directive before the first instruction names.
fn find_escape(text: &str) -> char {
    let directives = text.lines().map_while(|line| line.trim().strip_prefix('#'));
    for directive in directives {
        let Some((name, value)) = directive.split_once('=') else { break };
        if name.trim().eq_ignore_ascii_case("escape") && value.trim() == "`" {
            return '`';
        }
    }
    '\\'
}

fn split_keyword(line: usize, text: &str) -> Option<Instruction> {
    let text = text.trim();
    let (keyword, rest) = text.split_once(char::is_whitespace).unwrap_or((text, ""));
    (!keyword.is_empty()).then(|| Instruction {
        line,
        keyword: keyword.to_uppercase(),
        text: rest.trim().to_owned(),
        has_heredoc: false,
    })
}

/// Returns the delimiters of an instruction's here-documents, and whether tabs before them do not count.
fn find_heredocs(instruction: &Instruction) -> Vec<(String, bool)> {
    if !matches!(instruction.keyword.as_str(), "RUN" | "COPY" | "ADD") {
        return Vec::new();
    }
    let mut found = Vec::new();
    let mut quote = None;
    let mut rest = instruction.text.as_str();
    while let Some(c) = rest.chars().next() {
        if quote.is_none()
            && let Some(after) = rest.strip_prefix("<<")
        {
            let (strips_tabs, word) = match after.strip_prefix('-') {
                Some(word) => (true, word),
                None => (false, after),
            };
            let word = word.trim_start_matches(['"', '\'']);
            let is_name = |c: char| c.is_ascii_alphanumeric() || c == '_';
            let length = word.find(|c: char| !is_name(c)).unwrap_or(word.len());
            let (name, after_name) = word.split_at(length);
            if !name.is_empty() {
                found.push((name.to_owned(), strips_tabs));
            }
            rest = after_name.trim_start_matches(['"', '\'']);
            continue;
        }
        quote = match quote {
            Some(open) if open == c => None,
            None if matches!(c, '"' | '\'') => Some(c),
            same => same,
        };
        rest = rest.get(c.len_utf8()..).unwrap_or_default();
    }
    found
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn words(text: &str) -> Vec<(usize, String, String)> {
        let lexed = lex(text);
        assert_eq!(lexed.open_heredocs, Vec::<usize>::new());
        lexed.instructions.into_iter().map(|i| (i.line, i.keyword, i.text)).collect()
    }

    fn one(line: usize, keyword: &str, text: &str) -> (usize, String, String) {
        (line, keyword.to_owned(), text.to_owned())
    }

    #[test]
    fn joins_continued_lines_and_leaves_comments_out() {
        let text =
            "\u{feff}# comment\nfrom x\r\n\nRUN a && \\ \n  # between\n\n  b # kept\n  \nWORKDIR\n";
        assert_eq!(
            words(text),
            [one(2, "FROM", "x"), one(4, "RUN", "a &&   b # kept"), one(9, "WORKDIR", "")]
        );
        assert_eq!(words("RUN a \\"), [one(1, "RUN", "a")]);
        assert_eq!(words("\\\n\\\n"), []);
        assert_eq!(words(""), []);
    }

    #[test]
    fn takes_another_escape_character_only_before_the_first_instruction() {
        let text = "# syntax=docker/dockerfile:1\n# escape=`\nRUN a `\nb\nRUN c \\\n";
        assert_eq!(words(text), [one(3, "RUN", "a b"), one(5, "RUN", "c \\")]);
        assert_eq!(lex("# words\n# escape=`\n").escape, '\\');
        assert_eq!(lex("FROM x\n# escape=`\n").escape, '\\');
    }

    #[test]
    fn leaves_out_here_documents() {
        let text = "RUN <<EOF\nFROM y\nEOF\nCOPY <<-\"A\" <<B /x/\n\tA\nRUN z\nB\nWORKDIR /a\n";
        let lexed = lex(text);
        let found: Vec<_> = lexed
            .instructions
            .iter()
            .map(|i| (i.line, i.keyword.as_str(), i.has_heredoc))
            .collect();
        assert_eq!(found, [(1, "RUN", true), (4, "COPY", true), (8, "WORKDIR", false)]);
        assert_eq!(lex("RUN <<EOF\nx\n").open_heredocs, [1]);
        assert!(!lex("RUN echo '<<EOF'\nRUN x").instructions.iter().any(|i| i.has_heredoc));
        assert!(!lex("LABEL a=<<EOF\n").instructions.iter().any(|i| i.has_heredoc));
    }

    proptest! {
        #[test]
        fn takes_any_text(text in "(?s)[RUNCOPYescape#=<\\-'\"`\\\\ \t\r\né$\u{feff}]{0,80}") {
            let lexed = lex(&text);
            let lines = text.lines().count();
            prop_assert!(lexed.instructions.iter().all(|i| i.line >= 1 && i.line <= lines));
            prop_assert!(lexed.instructions.is_sorted_by_key(|i| i.line));
        }

        #[test]
        fn takes_any_bytes(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
            lex(&String::from_utf8_lossy(&bytes));
        }
    }
}
