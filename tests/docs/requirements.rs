//! Every row of the requirements names tests that exist, or says why it has none.

use std::fs;
use std::path::PathBuf;

use regex::Regex;

use crate::scratch::repository;

/// Returns the name of each row and what holds it.
fn rows(page: &str) -> Vec<(String, String)> {
    let lines = page.lines().filter(|line| line.starts_with("| R-"));
    let row = |line: &str| {
        let cells: Vec<&str> = line.trim_matches('|').split(" | ").map(str::trim).collect();
        assert_eq!(cells.len(), 3, "{line}");
        (cells[0].to_owned(), cells[2].to_owned())
    };
    lines.map(row).collect()
}

/// Returns the file and the name of a test: `seed::name` is in `tests/cli/seed.rs`.
fn test_of(reference: &str) -> (PathBuf, &str) {
    let (module, name) = reference.rsplit_once("::").unwrap();
    let file = match module.contains('/') {
        true => repository().join(module),
        false => repository().join("tests/cli").join(module.replace("::", "/") + ".rs"),
    };
    (file, name)
}

/// Whether a macro of the file makes a test of this name, as `proptest!` does.
fn generated(text: &str, name: &str) -> bool {
    text.contains("proptest!") && text.contains(&format!("fn {name}("))
}

#[test]
fn each_row_names_tests_that_exist_or_says_why_it_has_none() {
    let page = fs::read_to_string(repository().join("docs/dev/requirements.md")).unwrap();
    let rows = rows(&page);
    assert!(rows.len() > 130, "{}", rows.len());
    let reference = Regex::new("`([^`]*::[^`]*)`").unwrap();
    let mut wrong = Vec::new();
    for (row, held_by) in &rows {
        if held_by.is_empty() {
            wrong.push(format!("{row}: nothing holds it"));
        }
        for found in reference.captures_iter(held_by) {
            let (file, name) = test_of(found.get(1).unwrap().as_str());
            let text = fs::read_to_string(&file).unwrap_or_default();
            // A test has its attribute before it, and perhaps another one in between.
            let test = format!(r"#\[(tokio::)?test[^\n]*\n(\s*#[^\n]*\n)*[^\n]*fn {name}\(");
            let is_test = Regex::new(&test).unwrap().is_match(&text);
            if !is_test && !generated(&text, name) {
                wrong.push(format!("{row}: no test {name} in {}", file.display()));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}
