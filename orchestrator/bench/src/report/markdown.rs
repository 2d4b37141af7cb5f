//! A job as Markdown with the tables of GitHub.

use std::fmt::Write as _;

use ralph_orchestrator_text::escape_line;

use crate::report::cells::{CellKind, Grid, build_summary_grids, build_task_grid};
use crate::report::machines::describe_machines;
use crate::report::text::{describe_comparisons, describe_job};
use crate::summary::JobSummary;

/// Returns the tables, tasks, comparisons and warnings of a job.
#[must_use]
pub fn render_markdown(summary: &JobSummary) -> String {
    let mut out = format!("# {}\n", escape_markdown(&escape_line(&summary.job)));
    push_paragraph(&mut out, &describe_job(summary));
    for grid in build_summary_grids(summary) {
        push_grid(&mut out, &grid);
    }
    push_list(&mut out, "Comparisons", &describe_comparisons(summary));
    let tasks = build_task_grid(summary);
    if !tasks.rows.is_empty() {
        push_grid(&mut out, &tasks);
    }
    push_list(&mut out, "Machines", &describe_machines(summary));
    let warnings: Vec<_> = summary.warnings.iter().map(|text| escape_line(text)).collect();
    push_list(&mut out, "Warnings", &warnings);
    out
}

/// Returns text that Markdown shows as it is, without emphasis, links, mark-up or a new cell.
fn escape_markdown(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut before = None;
    for (at, c) in text.char_indices() {
        let rest = text.get(at + c.len_utf8()..).unwrap_or_default();
        match c {
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '&' => out.push_str("&amp;"),
            // GitHub makes links of addresses and mentions, and pictures of `:names:`, which a backslash does not
            // prevent.
            '@' if is_address(before, rest) => out.push_str("&#64;"),
            ':' if rest.starts_with(|next: char| !next.is_whitespace()) => out.push_str("&#58;"),
            '\\' | '`' | '*' | '_' | '{' | '}' | '[' | ']' | '(' | ')' | '#' | '|' | '~' | '!'
            | '$' => out.extend(['\\', c]),
            _ => out.push(c),
        }
        before = Some(c);
    }
    out.replace("www.", "www&#46;")
}

/// Whether an @ makes a mention, which begins a word, or an address, whose second part has a dot.
fn is_address(before: Option<char>, rest: &str) -> bool {
    let is_within = before.is_some_and(|c| c.is_ascii_alphanumeric());
    let word = rest.split(char::is_whitespace).next().unwrap_or_default();
    !is_within || word.contains('.')
}

fn push_paragraph(out: &mut String, text: &str) {
    // Writing to a String cannot fail, here and below.
    let _ = writeln!(out, "\n{}", escape_markdown(text));
}

fn push_grid(out: &mut String, grid: &Grid) {
    let _ = writeln!(out, "\n## {}\n", grid.title);
    push_row(out, grid.headings.iter().map(|(heading, _)| escape_markdown(heading)));
    push_row(
        out,
        grid.headings.iter().map(|(_, kind)| match kind {
            CellKind::Text => "---".to_owned(),
            CellKind::Figure => "---:".to_owned(),
        }),
    );
    for row in &grid.rows {
        push_row(out, row.iter().map(|cell| escape_markdown(cell)));
    }
    if let Some(note) = grid.note {
        push_paragraph(out, note);
    }
}

fn push_row(out: &mut String, cells: impl Iterator<Item = String>) {
    for cell in cells {
        let _ = write!(out, "| {cell} ");
    }
    out.push_str("|\n");
}

fn push_list(out: &mut String, title: &str, items: &[String]) {
    if items.is_empty() {
        return;
    }
    let _ = writeln!(out, "\n## {title}\n");
    for item in items {
        let _ = writeln!(out, "- {}", escape_line_start(&escape_markdown(item)));
    }
}

/// Returns a line that begins neither a list, nor a heading, nor a rule.
fn escape_line_start(line: &str) -> String {
    let line = line.trim_start();
    let digits = line.chars().take_while(char::is_ascii_digit).count();
    match line.chars().nth(digits) {
        Some(c) if c.is_ascii_punctuation() && !matches!(c, '\\' | '&') => {
            let (start, rest) = line.split_at(digits);
            format!("{start}\\{rest}")
        }
        _ => line.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use pulldown_cmark::{Event, Options, Parser, Tag, TagEnd};

    use super::*;
    use crate::report::samples::{hostile_name, sample_summary};
    use crate::summary::JobSummary;

    /// Returns the text of all cells, by the table and the row, and fails on anything that is more than text.
    fn read_cells(markdown: &str) -> Vec<Vec<String>> {
        let mut rows: Vec<Vec<String>> = Vec::new();
        let mut cell = None;
        for event in Parser::new_ext(markdown, Options::ENABLE_TABLES) {
            match event {
                Event::Start(Tag::TableRow | Tag::TableHead) => rows.push(Vec::new()),
                Event::Start(Tag::TableCell) => cell = Some(String::new()),
                Event::End(TagEnd::TableCell) => {
                    rows.last_mut().unwrap().push(cell.take().unwrap());
                }
                Event::Text(text) => {
                    if let Some(cell) = &mut cell {
                        cell.push_str(&text);
                    }
                }
                Event::Html(_) | Event::InlineHtml(_) | Event::Code(_) => panic!("{event:?}"),
                Event::Start(
                    Tag::Link { .. }
                    | Tag::Image { .. }
                    | Tag::Emphasis
                    | Tag::Strong
                    | Tag::CodeBlock(_)
                    | Tag::BlockQuote(_),
                ) => panic!("{event:?}"),
                _ => {}
            }
        }
        rows
    }

    #[test]
    fn has_all_tables_with_whole_rows() {
        let summary = sample_summary();
        let rows = read_cells(&render_markdown(&summary));
        let grids = build_summary_grids(&summary);
        let expected: Vec<Vec<String>> = grids
            .iter()
            .chain([&build_task_grid(&summary)])
            .flat_map(|grid| {
                let headings = grid.headings.iter().map(|(heading, _)| heading.clone()).collect();
                [headings].into_iter().chain(grid.rows.clone())
            })
            .collect();
        assert_eq!(rows, expected);
    }

    #[test]
    fn shows_hostile_names_as_text() {
        let mut summary = sample_summary();
        summary.job = hostile_name();
        summary.columns[0].column.agent = hostile_name();
        summary.columns[1].tasks[0].task = "| a | ![x](http://example.org) `b`".into();
        summary.warnings.push(format!("# {}", hostile_name()));
        let markdown = render_markdown(&summary);
        let rows = read_cells(&markdown);
        assert!(rows[1][0].contains("<script>"), "{:?}", rows[1]);
        assert!(rows.iter().any(|row| row[0].contains("| a | ![x](http://example.org) `b`")));
        assert!(!markdown.contains('\u{1b}'));
    }

    #[test]
    fn says_what_an_empty_job_consists_of() {
        let summary = JobSummary {
            job: "empty".into(),
            planned: 0,
            level: 0.95,
            columns: Vec::new(),
            comparisons: Vec::new(),
            machines: Vec::new(),
            warnings: Vec::new(),
        };
        let markdown = render_markdown(&summary);
        assert_eq!(
            markdown,
            "# empty\n\nJob empty: 0 columns, 0 trials planned, 0 ended, 0 judged; intervals at 95 %\n"
        );
    }

    proptest! {
        #[test]
        fn keeps_any_item_one_item(text in "[ -~]{1,30}") {
            let mut out = String::new();
            push_list(&mut out, "t", &[format!("{text}x")]);
            let mut events = Parser::new_ext(&out, Options::ENABLE_TABLES)
                .skip_while(|event| !matches!(event, Event::Start(Tag::Item)));
            events.next();
            let mut seen = String::new();
            for event in events {
                match event {
                    Event::Text(text) => seen.push_str(&text),
                    Event::End(TagEnd::Item) => break,
                    other => prop_assert!(false, "{:?} in {}", other, out),
                }
            }
            let expected = format!("{text}x");
            prop_assert_eq!(seen, expected.trim_start());
        }

        #[test]
        fn gives_back_the_text_of_any_cell(text in "[ -~é日]{1,40}") {
            let table = format!("| a |\n| --- |\n| x{}x |\n", escape_markdown(&text));
            prop_assert_eq!(&read_cells(&table)[1][0], &format!("x{text}x"));
        }
    }
}
