//! Masks the values of variables in what is said of a file, however broken that is.

use std::ops::Range;

use crate::env_names::SHORTEST_SECRET;

/// Tables and keys with variables.
const OF_VARIABLES: [&str; 2] = ["env", "set"];

/// Returns the values of variables in a file, in bytes of it: what stands in the lines of tables and keys that hold them.
fn find_values(source: &str) -> Vec<Range<usize>> {
    let mut values = Vec::new();
    let (mut is_table, mut is_bench, mut start) = (false, false, 0);
    for line in source.split_inclusive('\n') {
        if line.trim_start().starts_with('[') {
            is_table = names_variables(line);
            is_bench = names(line, &["bench"]);
        }
        let key = line.split_once('=').map(|(key, _)| key);
        // Names are no secrets.
        let is_names =
            key.is_some_and(|key| key.trim() == "pass") && line.matches('=').count() == 1;
        let has_variables = match is_bench {
            // `set` of a variant has keys of the configuration, which may be those of variables.
            true => names(line, &["env"]),
            false => is_table || key.is_some_and(names_variables),
        };
        if has_variables && !is_names {
            let text = line.trim_end_matches(['\r', '\n']);
            values.extend(values_of_line(text).map(|at| start + at.start..start + at.end));
        }
        start += line.len();
    }
    values
}

fn names_variables(key: &str) -> bool {
    names(key, &OF_VARIABLES)
}

/// Whether one of these is a part of the keys in a text.
fn names(text: &str, wanted: &[&str]) -> bool {
    let is_separator = |c: char| c.is_whitespace() || "[]{}.,\"'=".contains(c);
    text.split(is_separator).any(|part| wanted.contains(&part))
}

/// Returns what stands in quotes, or behind an equals sign. In a line without one, everything may go on with a value.
fn values_of_line(line: &str) -> impl Iterator<Item = Range<usize>> {
    let mut values: Vec<Range<usize>> = Vec::new();
    let (mut quote, mut lists) = (None, 0_usize);
    let mut is_value = !line.contains('=') && !line.trim_start().starts_with('[');
    let mut before = ' ';
    for (at, c) in line.char_indices() {
        let is_end = quote == Some(c) && !(c == '"' && before == '\\');
        match c {
            _ if is_end => quote = None,
            '"' | '\'' if quote.is_none() => quote = Some(c),
            _ if quote.is_some() => add(&mut values, at..at + c.len_utf8()),
            '=' => is_value = true,
            '[' => lists += 1,
            ']' => lists = lists.saturating_sub(1),
            '{' | '}' => is_value = false,
            ',' if lists == 0 => is_value = false,
            c if is_value && c != ',' && !c.is_whitespace() => {
                add(&mut values, at..at + c.len_utf8());
            }
            _ => {}
        }
        before = if before == '\\' { ' ' } else { c };
    }
    values.into_iter()
}

fn add(values: &mut Vec<Range<usize>>, next: Range<usize>) {
    match values.last_mut().filter(|last| last.end == next.start) {
        Some(last) => last.end = next.end,
        None => values.push(next),
    }
}

/// Returns the values of variables in a file that are long enough to be secrets.
pub(crate) fn find_secrets(source: &str) -> Vec<String> {
    let texts = find_values(source).into_iter().filter_map(|at| source.get(at));
    let texts = texts.filter(|text| text.chars().nth(SHORTEST_SECRET - 1).is_some());
    texts.map(str::to_owned).collect()
}

/// Returns a file with as many `*` as bytes in the place of the values of variables, wherever they stand.
pub(crate) fn mask_source(source: &str) -> String {
    let mut masked = String::with_capacity(source.len());
    let mut values = find_values(source);
    let secrets = find_secrets(source);
    let others = secrets.iter().flat_map(|secret| source.match_indices(secret.as_str()));
    values.extend(others.map(|(at, secret)| at..at + secret.len()));
    values.sort_by_key(|at| (at.start, at.end));
    for Range { start, end } in values {
        let start = start.max(masked.len());
        if let (Some(between), true) = (source.get(masked.len()..start), start < end) {
            masked.push_str(between);
            masked.extend(std::iter::repeat_n('*', end - start));
        }
    }
    masked.push_str(source.get(masked.len()..).unwrap_or_default());
    masked
}

/// Returns a text with `***` in the place of these secrets.
pub(crate) fn mask_text(text: &str, secrets: &[String]) -> String {
    secrets.iter().fold(text.to_owned(), |text, secret| text.replace(secret.as_str(), "***"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_of_variables_are_masked_and_nothing_is_moved() {
        for (text, masked) in [
            ("[env]\nset = { A = \"sesame\" }\n", "[env]\nset = { A = \"******\" }\n"),
            ("[env]\nset={ A = \"sesame\" },,\n", "[env]\nset={ A = \"******\" },,\n"),
            ("[env]\nset={ A = [\"sesame\"] }", "[env]\nset={ A = [\"******\"] }"),
            ("[env]\nset={ A = [sesame, x] }", "[env]\nset={ A = [******, *] }"),
            ("[env]\nset={ A = sesame, B='x' }", "[env]\nset={ A = ******, B='*' }"),
            ("[env]\nst = { A = \"ses\\\"ame\" }", "[env]\nst = { A = \"********\" }"),
            ("[env]\nset = { A = \"open", "[env]\nset = { A = \"****"),
            ("[env.set]\nA = \"\"\"\nse\nsame\n\"\"\"", "[env.set]\nA = \"\"\"\n**\n****\n\"\"\""),
            ("env.set.A = 'é'\n[run]\nx = 'y'", "env.set.A = '**'\n[run]\nx = 'y'"),
            ("set = { A = 'sesame' }\nx = 'sesame!'", "set = { A = '******' }\nx = '******!'"),
            ("[env]\npass = ['NAME']\n", "[env]\npass = ['NAME']\n"),
            ("[limits]\nmax = 5 # five\n", "[limits]\nmax = 5 # five\n"),
            ("[bench.variant.q]\nset = { a = 'b' }\n", "[bench.variant.q]\nset = { a = 'b' }\n"),
            (
                "[bench.variant.q]\nset = { env.set.A = 'b' }",
                "[bench.variant.q]\nset = { env.set.A = '*' }",
            ),
        ] {
            assert_eq!(mask_source(text), masked, "{text}");
        }
        assert_eq!(find_secrets("env.set.A = 'sesame'\nenv.set.B = 'short'"), ["sesame"]);
    }
}
