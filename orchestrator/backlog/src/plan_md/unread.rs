//! Finds the lines of a Markdown plan that look like open items and are none, so that nobody waits for work on them.

use std::ops::Range;

use pulldown_cmark::{CodeBlockKind, Event, Options, Parser, Tag};

use super::read::PlanEntry;
use crate::item::UnreadLine;

/// Marks in a checkbox that say that nothing is left to do.
const DONE: [char; 6] = ['x', 'X', '✓', '✔', '✅', '☑'];

pub(super) fn find_unread(text: &str, entries: &[PlanEntry]) -> Vec<UnreadLine> {
    let mut offset = 0;
    let mut found: Vec<(usize, UnreadLine)> = Vec::new();
    for (index, line) in text.split_inclusive('\n').enumerate() {
        let start = offset;
        offset += line.len();
        let is_item = |entry: &PlanEntry| (start..offset).contains(&entry.checkbox.start);
        // What is nested in an item is its own, unless it looks like a paragraph of it by mistake.
        let is_nested = |entry: &PlanEntry| {
            entry.span.start < start && start < entry.span.end && is_indented(line)
        };
        if looks_open(line) && !entries.iter().any(|entry| is_item(entry) || is_nested(entry)) {
            let line = UnreadLine { line: index + 1, text: line.trim().to_owned() };
            found.push((start, line));
        }
    }
    if found.is_empty() {
        return Vec::new();
    }
    let literal = find_literal(text);
    let is_literal = |start: usize| literal.iter().any(|range| range.contains(&start));
    found.retain(|(start, _)| !is_literal(*start));
    found.into_iter().map(|(_, line)| line).collect()
}

/// Whether a line within an item is meant as a part of it. One that is not, such as `-[ ] b`, is so by mistake.
fn is_indented(line: &str) -> bool {
    line.starts_with([' ', '\t'])
}

/// Returns whether a line has a checkbox that is not checked, or what is meant as one: `- []`, `- [~]`, `- [ ]x`.
fn looks_open(line: &str) -> bool {
    let line = line.trim_start_matches(['\u{feff}', ' ', '\t', '>']).trim_end();
    let Some((_, rest)) = strip_bullet(line).strip_prefix('[').and_then(|rest| split_mark(rest))
    else {
        return false;
    };
    // A link, or where one leads.
    !rest.starts_with(['(', '[', ':']) && !rest.is_empty()
}

fn strip_bullet(line: &str) -> &str {
    let digits = line.trim_start_matches(|c: char| c.is_ascii_digit());
    let after = match line.len() == digits.len() {
        true => line.strip_prefix(['-', '*', '+']),
        false => digits.strip_prefix(['.', ')']),
    };
    after.map_or(line, str::trim_start)
}

/// Splits what follows `[` after a mark that does not say done, and `]`.
fn split_mark(rest: &str) -> Option<(&str, &str)> {
    let (mark, rest) = rest.split_once(']')?;
    let inner = mark.trim();
    let mut chars = inner.chars();
    match (chars.next(), chars.next()) {
        (None, _) => Some((inner, rest)),
        // A number is a reference to a source.
        (Some(mark), None) if !DONE.contains(&mark) && !mark.is_ascii_digit() => {
            Some((inner, rest))
        }
        _ => None,
    }
}

/// Returns where the text is code between fences, HTML or metadata.
fn find_literal(text: &str) -> Vec<Range<usize>> {
    let options = Options::ENABLE_TASKLISTS | Options::ENABLE_YAML_STYLE_METADATA_BLOCKS;
    let body = text.strip_prefix('\u{feff}').unwrap_or(text);
    let base = text.len() - body.len();
    let ranges = Parser::new_ext(body, options).into_offset_iter().filter_map(|(event, range)| {
        let is_literal = matches!(
            event,
            Event::Start(
                Tag::CodeBlock(CodeBlockKind::Fenced(_)) | Tag::HtmlBlock | Tag::MetadataBlock(_)
            )
        );
        is_literal.then(|| range.start + base..range.end + base)
    });
    ranges.collect()
}

#[cfg(test)]
mod tests {
    use super::super::read::read_plan;
    use super::*;

    fn lines(text: &str) -> Vec<usize> {
        let plan = read_plan(text);
        find_unread(text, &plan.layout.entries).into_iter().map(|line| line.line).collect()
    }

    #[test]
    fn what_looks_like_an_open_item_and_is_none_is_found() {
        for line in [
            "- [] b",
            "- [  ] b",
            "- [ ]b",
            "- [~] b",
            "* [-] b",
            "+ [/] b",
            "1. [>] b",
            "[ ] b",
            "> - [ ] b",
            "-[ ] b",
            "    - [ ] b, as code",
            "- group\n  - [ ] b",
        ] {
            let text = format!("# Plan\n\n{line}\n");
            assert_eq!(lines(&text).len(), 1, "{line}");
        }
        assert_eq!(lines("- [ ] a\n- [] b\n- [ ]c\n- [x] d\n- [~] e\n"), [2, 3, 5]);
        for line in ["[ ] b", "-[ ] b", "*[] b", "+[~] b", "1.[ ] b", "-[ ]b"] {
            let text = format!("- [ ] a\n{line}\n- [ ] c\n");
            assert_eq!(lines(&text), [2], "{line} is read as a part of the title before it");
        }
    }

    #[test]
    fn items_what_is_nested_in_them_and_other_text_are_not_named() {
        for text in [
            "- [ ] a\n* [ ] b\n+ [X] c\n1. [ ] d\n2) [x] e\n",
            "- [ ] a\n  - [ ] form\n  - [~] half\n  - [] none\n\t-[ ] more\n",
            "- [ ] a\n-[x] done\n-[link](x)\n-[1] a source\n",
            "- [x]done\n- [✓] done\n",
            "- [a](link)\n- [1] a source\n[a]: https://example.org\n- [link][a]\n",
            "```\n- [] b\n```\n<!--\n- [] b\n-->\n- [ ] a\n",
            "---\nlist: [ ] b\n---\n- [ ] a\n",
            "An array [] of items, or [ ].\n",
        ] {
            assert_eq!(lines(text), [0; 0], "{text}");
        }
    }
}
