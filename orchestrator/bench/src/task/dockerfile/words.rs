//! Words, quotes and variables of a Dockerfile and of simple shell commands.

use std::collections::BTreeMap;
use std::iter::Peekable;
use std::str::Chars;

/// The variables that are set at an instruction.
pub(super) type Variables = BTreeMap<String, String>;

/// Variables in the braces of others.
const MAX_NESTED: usize = 16;

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
                '$' => word.push_str(&read_variable(chars, env, MAX_NESTED)?),
                c if c == escape => match chars.next() {
                    Some(next) if next == '"' || next == '$' || next == escape => word.push(next),
                    Some(next) => word.extend([c, next]),
                    None => word.push(c),
                },
                c => word.push(c),
            }
        },
        '$' => word.push_str(&read_variable(chars, env, MAX_NESTED)?),
        c if c == escape => word.extend(chars.next()),
        c => word.push(c),
    }
    Ok(())
}

/// Reads what follows a `$`, and returns what stands for it.
fn read_variable(
    chars: &mut Peekable<Chars<'_>>,
    env: &Variables,
    depth: usize,
) -> Result<String, String> {
    let is_name = |c: &char| c.is_ascii_alphanumeric() || *c == '_';
    if chars.next_if_eq(&'{').is_none() {
        let mut name = String::new();
        while let Some(c) = chars.next_if(is_name) {
            name.push(c);
        }
        let value = env.get(&name).cloned().unwrap_or_default();
        return Ok(if name.is_empty() { "$".to_owned() } else { value });
    }
    let mut name = String::new();
    while let Some(c) = chars.next_if(is_name) {
        name.push(c);
    }
    let value = env.get(&name);
    let checks_empty = chars.next_if_eq(&':').is_some();
    let is_set = value.is_some_and(|value| !checks_empty || !value.is_empty());
    let value = value.cloned().unwrap_or_default();
    match chars.next().ok_or("`${` is not closed")? {
        '}' if !checks_empty && !name.is_empty() => Ok(value),
        '-' => {
            read_alternative(chars, env, depth).map(|default| if is_set { value } else { default })
        }
        '+' => read_alternative(chars, env, depth)
            .map(|other| if is_set { other } else { String::new() }),
        '?' => {
            let message = read_alternative(chars, env, depth)?;
            if is_set {
                Ok(value)
            } else {
                Err(format!("the variable {name} is not set: {message}"))
            }
        }
        _ => Err(format!(
            "a form of `${{{name}}}` is not supported: only :-, :+, :?, -, + and ? are"
        )),
    }
}

/// Reads what stands for a variable up to the brace that closes it. It may name others.
fn read_alternative(
    chars: &mut Peekable<Chars<'_>>,
    env: &Variables,
    depth: usize,
) -> Result<String, String> {
    let depth = depth.checked_sub(1).ok_or("too many variables are in the braces of others")?;
    let mut word = String::new();
    loop {
        match chars.next().ok_or("`${` is not closed")? {
            '}' => return Ok(word),
            '$' => word.push_str(&read_variable(chars, env, depth)?),
            c => word.push(c),
        }
    }
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
            ("${U:-$A/${U-b}} ${U:+$A}c ${A:?x} ${E?x}", vec!["x y/b", "c", "x y", ""]),
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
        for text in [
            "'a",
            "\"a",
            "${A",
            "${A#x}",
            "${A:-$B",
            "${A/x/y}",
            "${}",
            "${A:}",
            "${U:?is needed}",
            "${E:?}",
        ] {
            assert!(split_words(text, '\\', &env()).is_err(), "{text}");
        }
        assert!(split_words(&"${U:-".repeat(100_000), '\\', &env()).is_err());
    }

    proptest! {
        #[test]
        fn takes_any_text(text in "(?s)[$A{}:+\\-'\"\\\\ é\n]{0,40}") {
            let _ = split_words(&text, '\\', &env());
            let _ = expand(&text, '`', &env());
        }
    }
}
