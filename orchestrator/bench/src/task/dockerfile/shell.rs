//! Splits simple shell scripts into commands. What is not simple is refused, not guessed.

use super::words::{Variables, split_words};

/// Splits a script of simple commands, joined by `&&`, `;` and line breaks, into the words of each.
///
/// # Errors
/// Returns what is not understood: pipes, redirections, groups, substitutions, conditions, unknown variables.
pub(super) fn split_commands(script: &str, env: &Variables) -> Result<Vec<Vec<String>>, String> {
    let mut commands = Vec::new();
    for part in split_parts(script)? {
        let names = find_variables(&part);
        if let Some(unknown) = names.into_iter().find(|name| !env.contains_key(name)) {
            return Err(format!("the variable {unknown} is not set by ENV or ARG"));
        }
        let words = split_words(&part, '\\', env)?;
        if !words.is_empty() {
            commands.push(words);
        }
    }
    Ok(commands)
}

/// Splits a script at `&&`, `;` and line breaks.
fn split_parts(script: &str) -> Result<Vec<String>, String> {
    let mut parts = Vec::new();
    let mut part = String::new();
    let mut chars = script.chars().peekable();
    while let Some(c) = chars.next() {
        match c {
            ';' | '\n' => parts.push(std::mem::take(&mut part)),
            '&' if chars.next_if_eq(&'&').is_some() => {
                if part.trim().is_empty() {
                    return Err("there is no command before `&&`".to_owned());
                }
                parts.push(std::mem::take(&mut part));
            }
            '&' | '|' | '<' | '>' | '(' | ')' | '{' | '}' if !part.ends_with('$') => {
                return Err(format!("`{c}` is more than a simple command"));
            }
            '{' => {
                part.push(c);
                copy_until('}', &mut chars, &mut part)?;
            }
            '`' | '(' => {
                return Err("a command substitution is more than a simple command".to_owned());
            }
            '#' if part.is_empty() || part.ends_with(char::is_whitespace) => {
                while chars.next_if(|next| *next != '\n').is_some() {}
            }
            '\\' => {
                part.push(c);
                part.extend(chars.next());
            }
            '\'' | '"' => {
                part.push(c);
                copy_until(c, &mut chars, &mut part)?;
            }
            _ => part.push(c),
        }
    }
    parts.push(part);
    Ok(parts)
}

/// Copies everything up to a closing character, and that.
fn copy_until(
    end: char,
    chars: &mut std::iter::Peekable<std::str::Chars<'_>>,
    part: &mut String,
) -> Result<(), String> {
    let mut previous = None;
    loop {
        let c = chars.next().ok_or_else(|| format!("`{end}` is missing"))?;
        if end == '"' && (c == '`' || (c == '(' && previous == Some('$'))) {
            return Err("a command substitution is more than a simple command".to_owned());
        }
        part.push(c);
        if c == end {
            return Ok(());
        }
        if c == '\\' && end == '"' {
            part.extend(chars.next());
        }
        previous = Some(c);
    }
}

/// Returns the names of variables outside of single quotes.
fn find_variables(text: &str) -> Vec<String> {
    let mut names = Vec::new();
    let mut quote = None;
    let mut chars = text.chars().peekable();
    while let Some(c) = chars.next() {
        match c {
            '\'' | '"' if quote.is_none() => quote = Some(c),
            _ if quote == Some(c) => quote = None,
            '\\' => {
                chars.next();
            }
            '$' if quote != Some('\'') => {
                let has_brace = chars.next_if_eq(&'{').is_some();
                let mut name = String::new();
                while let Some(c) = chars.next_if(|c| c.is_ascii_alphanumeric() || *c == '_') {
                    name.push(c);
                }
                // A form such as `${A:-b}` says itself what stands for a variable that is not set.
                if !name.is_empty() && (!has_brace || chars.peek() == Some(&'}')) {
                    names.push(name);
                }
            }
            _ => {}
        }
    }
    names
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn splits_simple_commands() {
        let env = Variables::from([("V".to_owned(), "1".to_owned())]);
        for (script, expected) in [
            ("a b && c", vec![vec!["a", "b"], vec!["c"]]),
            ("a; b;\n c # d && e\n", vec![vec!["a"], vec!["b"], vec!["c"]]),
            ("a '&&' \"; |\" x\\;y", vec![vec!["a", "&&", "; |", "x;y"]]),
            ("a $V ${V} ${W:-w} '$X' b#c", vec![vec!["a", "1", "1", "w", "$X", "b#c"]]),
            ("", vec![]),
        ] {
            assert_eq!(split_commands(script, &env).unwrap(), expected, "{script}");
        }
    }

    #[test]
    fn refuses_everything_else() {
        for script in [
            "a | b",
            "a || b",
            "a > b",
            "a < b",
            "a & b",
            "(a)",
            "{ a; }",
            "a $(b)",
            "a `b`",
            "a \"$(b)\"",
            "a \"`b`\"",
            "a $UNSET",
            "a 'b",
            "a \"b",
            "&& a",
            "a ${V",
            "a \"$UNSET\"",
            "a \"it's $UNSET\"",
        ] {
            assert!(split_commands(script, &Variables::new()).is_err(), "{script}");
        }
    }

    proptest! {
        #[test]
        fn takes_any_text(script in "(?s)[ab$V{}()&|;<>`'\"\\\\ \n#:-]{0,60}") {
            let _ = split_commands(&script, &Variables::new());
        }
    }
}
