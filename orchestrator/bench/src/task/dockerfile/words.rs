//! Words, quotes and variables of a Dockerfile and of simple shell commands.

use std::collections::BTreeMap;
use std::iter::Peekable;
use std::str::Chars;

/// The variables that are set at an instruction.
pub(super) type Variables = BTreeMap<String, String>;

/// Splits text at white space outside of quotes, removes quotes, and replaces variables; those that are not set
/// become nothing.
pub(super) fn split_words(
    text: &str,
    escape: char,
    env: &Variables,
) -> Result<Vec<String>, String> {
    let mut words = Vec::new();
    let mut word: Option<String> = None;
    let mut chars = text.chars().peekable();
    while let Some(c) = chars.next() {
        if c.is_whitespace() {
            words.extend(word.take());
            continue;
        }
        let word = word.get_or_insert_default();
        read_part(c, &mut chars, escape, env, word)?;
    }
    words.extend(word);
    Ok(words)
}

/// Removes quotes and replaces variables in one word, which may have white space in it.
pub(super) fn expand(text: &str, escape: char, env: &Variables) -> Result<String, String> {
    let mut word = String::new();
    let mut chars = text.chars().peekable();
    while let Some(c) = chars.next() {
        read_part(c, &mut chars, escape, env, &mut word)?;
    }
    Ok(word)
}

fn read_part(
    first: char,
    chars: &mut Peekable<Chars<'_>>,
    escape: char,
    env: &Variables,
    word: &mut String,
) -> Result<(), String> {
    match first {
        '\'' => loop {
            match chars.next().ok_or("a quote is not closed")? {
                '\'' => return Ok(()),
                c => word.push(c),
            }
        },
        '"' => loop {
            match chars.next().ok_or("a quote is not closed")? {
                '"' => return Ok(()),
                '$' => word.push_str(&read_variable(chars, env)?),
                c if c == escape => match chars.next() {
                    Some(next) if next == '"' || next == '$' || next == escape => word.push(next),
                    Some(next) => word.extend([c, next]),
                    None => word.push(c),
                },
                c => word.push(c),
            }
        },
        '$' => word.push_str(&read_variable(chars, env)?),
        c if c == escape => word.extend(chars.next()),
        c => word.push(c),
    }
    Ok(())
}

/// Reads what follows a `$`, and returns what stands for it.
fn read_variable(chars: &mut Peekable<Chars<'_>>, env: &Variables) -> Result<String, String> {
    let is_name = |c: &char| c.is_ascii_alphanumeric() || *c == '_';
    if chars.next_if_eq(&'{').is_none() {
        let mut name = String::new();
        while let Some(c) = chars.next_if(is_name) {
            name.push(c);
        }
        let value = env.get(&name).cloned().unwrap_or_default();
        return Ok(if name.is_empty() { "$".to_owned() } else { value });
    }
    let mut inner = String::new();
    loop {
        match chars.next().ok_or("`${` is not closed")? {
            '}' => break,
            '$' => return Err("a variable in the braces of a variable is not supported".to_owned()),
            c => inner.push(c),
        }
    }
    let length = inner.find(|c| !is_name(&c)).unwrap_or(inner.len());
    let (name, operation) = inner.split_at(length);
    let value = env.get(name).map(String::as_str);
    let unless_empty = value.filter(|value| !value.is_empty());
    let result = if operation.is_empty() {
        value.unwrap_or_default()
    } else if let Some(default) = operation.strip_prefix(":-") {
        unless_empty.unwrap_or(default)
    } else if let Some(other) = operation.strip_prefix(":+") {
        if unless_empty.is_some() { other } else { "" }
    } else if let Some(default) = operation.strip_prefix('-') {
        value.unwrap_or(default)
    } else if let Some(other) = operation.strip_prefix('+') {
        if value.is_some() { other } else { "" }
    } else {
        return Err(format!(
            "`${{{inner}}}` is not supported: of the forms only :-, :+, - and + are"
        ));
    };
    Ok(result.to_owned())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn env() -> Variables {
        [("A", "x y"), ("E", "")].map(|(k, v)| (k.to_owned(), v.to_owned())).into()
    }

    #[test]
    fn splits_unquotes_and_replaces() {
        for (text, expected) in [
            ("a  b\tc", vec!["a", "b", "c"]),
            ("'a b' \"c d\"e", vec!["a b", "c de"]),
            ("$A ${A}z '$A' \"$A\"", vec!["x y", "x yz", "$A", "x y"]),
            ("${U:-d} ${E:-d} ${E-d} ${U-d}", vec!["d", "d", "", "d"]),
            ("${A:+s} ${E:+s} ${E+s} ${U+s}", vec!["s", "", "s", ""]),
            (r#"a\ b \$A "\$A\n" '' "#, vec!["a b", "$A", "$A\\n", ""]),
            ("$ $$ a$", vec!["$", "$$", "a$"]),
            ("", vec![]),
        ] {
            assert_eq!(split_words(text, '\\', &env()).unwrap(), expected, "{text}");
        }
        assert_eq!(expand("a $A 'b'", '\\', &env()).unwrap(), "a x y b");
        assert_eq!(split_words("a` b", '`', &env()).unwrap(), ["a b"]);
    }

    #[test]
    fn refuses_what_it_does_not_know() {
        for text in ["'a", "\"a", "${A", "${A#x}", "${A:-$B}", "${A/x/y}"] {
            assert!(split_words(text, '\\', &env()).is_err(), "{text}");
        }
    }

    proptest! {
        #[test]
        fn takes_any_text(text in "(?s)[$A{}:+\\-'\"\\\\ é\n]{0,40}") {
            let _ = split_words(&text, '\\', &env());
            let _ = expand(&text, '`', &env());
        }
    }
}
