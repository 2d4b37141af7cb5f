//! Checks of configured words.

/// Words of ordinary prose, Markdown or HTML, which cannot identify a claim.
const COMMON: &[&str] = &[
    "agent",
    "answer",
    "article",
    "aside",
    "body",
    "button",
    "caption",
    "claim",
    "code",
    "complete",
    "completed",
    "completion",
    "correct",
    "details",
    "div",
    "done",
    "end",
    "error",
    "exit",
    "fail",
    "failed",
    "false",
    "final",
    "finish",
    "finished",
    "footer",
    "form",
    "goal",
    "head",
    "header",
    "html",
    "image",
    "input",
    "label",
    "link",
    "list",
    "main",
    "message",
    "meta",
    "next",
    "none",
    "note",
    "null",
    "okay",
    "option",
    "output",
    "pass",
    "passed",
    "progress",
    "project",
    "prompt",
    "question",
    "ready",
    "reason",
    "result",
    "script",
    "section",
    "select",
    "span",
    "status",
    "stop",
    "strong",
    "style",
    "success",
    "summary",
    "table",
    "task",
    "tasks",
    "template",
    "test",
    "text",
    "thead",
    "tbody",
    "think",
    "thinking",
    "title",
    "todo",
    "tool",
    "true",
    "user",
    "video",
    "work",
    "yes",
];

const MIN_LENGTH: usize = 4;
const MAX_LENGTH: usize = 64;

/// Checks the characters of a word: letters, digits, `_` and `-`, beginning and ending with a letter
/// or digit.
///
/// # Errors
/// The word is invalid.
pub(crate) fn check_form(word: &str) -> Result<(), String> {
    if word.is_empty() {
        return Err("must not be empty".into());
    }
    if word.len() > MAX_LENGTH {
        return Err(format!("has {} bytes; at most {MAX_LENGTH} are allowed", word.len()));
    }
    let inner = |c: char| c.is_alphanumeric() || c == '_' || c == '-';
    if let Some(odd) = word.chars().find(|c| !inner(*c)) {
        return Err(format!(
            "`{}` has the character {odd:?}; only letters, digits, `_` and `-` are allowed",
            word.escape_debug()
        ));
    }
    if !(word.starts_with(char::is_alphanumeric) && word.ends_with(char::is_alphanumeric)) {
        return Err(format!("`{word}` must begin and end with a letter or digit"));
    }
    Ok(())
}

/// Checks a word that alone decides whether something is a claim: as [`check_form`], and neither
/// short nor common.
///
/// # Errors
/// The word is invalid; says what to do.
pub(crate) fn check_distinct(word: &str, example: &str) -> Result<(), String> {
    check_form(word)?;
    if word.chars().count() < MIN_LENGTH {
        return Err(format!("`{word}` is shorter than {MIN_LENGTH} characters: {example}"));
    }
    if COMMON.contains(&word.to_lowercase().as_str()) {
        return Err(format!("`{word}` is too common a word to tell a claim from prose: {example}"));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn distinct_words_pass() {
        for word in ["promise", "TASK_COMPLETE", "ralph-claim", "ÜBERGABE", "abcd", &"x".repeat(64)]
        {
            assert_eq!(check_distinct(word, "take another"), Ok(()), "{word}");
        }
    }

    #[test]
    fn every_refusal_says_why() {
        let table = [
            ("", "must not be empty"),
            ("abc", "shorter than 4"),
            ("DONE", "too common"),
            ("Body", "too common"),
            ("two words", "' '"),
            ("a\nbcd", "a\\nbcd"),
            ("**mark**", "'*'"),
            ("<tag>", "'<'"),
            ("_mark", "begin and end"),
            ("mark-", "begin and end"),
            (&"x".repeat(65), "at most 64"),
        ];
        for (word, part) in table {
            let error = check_distinct(word, "take another").unwrap_err();
            assert!(error.contains(part), "{word:?}: {error}");
        }
    }
}
