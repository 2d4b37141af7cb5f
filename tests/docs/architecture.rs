//! ARCHITECTURE.md and docs/dev/walkthrough.md are about the code as it is, and the code keeps the rules
//! that they state about files.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;
use std::process::Command;

use regex::Regex;

use crate::scratch::repository;

fn page(name: &str) -> String {
    fs::read_to_string(repository().join(name)).unwrap()
}

/// Files of the repository whose names end so.
fn files(pattern: &str) -> Vec<String> {
    let listed = Command::new("git")
        .args(["ls-files", "-co", "--exclude-standard", "--", pattern])
        .current_dir(repository())
        .output()
        .unwrap();
    let listed = String::from_utf8(listed.stdout).unwrap();
    let files = listed.lines().filter(|file| repository().join(file).exists());
    files.map(str::to_owned).collect()
}

/// The cells of each row of a page's tables.
fn rows(text: &str) -> impl Iterator<Item = Vec<&str>> {
    let rows = text.lines().filter(|line| line.starts_with("| "));
    rows.map(|line| line.trim_matches('|').split('|').map(str::trim).collect())
}

/// The node of the diagram that a crate is part of.
fn node(folder: &str) -> String {
    match folder.split_once('/') {
        None => "orchestrator/cli".to_owned(),
        Some(("adapters", name)) if name != "common" => "adapters/*".to_owned(),
        Some(("validators", _)) => "validators/*".to_owned(),
        Some(_) => folder.to_owned(),
    }
}

/// What each node depends on by the manifests.
fn dependencies() -> BTreeMap<String, BTreeSet<String>> {
    let manifests = files("*Cargo.toml").into_iter().filter(|path| {
        let part = path.split('/').next().unwrap();
        ["Cargo.toml", "orchestrator", "adapters", "validators"].contains(&part)
            && !path.contains("/tests/")
            && !path.contains("/templates/")
    });
    let folder = |path: &str| path.trim_end_matches("Cargo.toml").trim_end_matches('/').to_owned();
    let mut names = BTreeMap::new();
    let mut tables = Vec::new();
    for path in manifests {
        let table: toml::Table = page(&path).parse().unwrap();
        let name = table["package"]["name"].as_str().unwrap().to_owned();
        names.insert(name, node(&folder(&path)));
        tables.push((node(&folder(&path)), table));
    }
    let mut all: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    for (from, table) in tables {
        let to = table.get("dependencies").and_then(|list| list.as_table().cloned());
        let to = to.into_iter().flatten().filter_map(|(name, _)| names.get(&name).cloned());
        let to = to.filter(|to| *to != from);
        all.entry(from.clone()).or_default().extend(to);
    }
    all
}

fn reachable(edges: &BTreeMap<String, BTreeSet<String>>, from: &str) -> BTreeSet<String> {
    let mut all = BTreeSet::new();
    let mut next: Vec<&String> = edges.get(from).into_iter().flatten().collect();
    while let Some(node) = next.pop() {
        if all.insert(node.clone()) {
            next.extend(edges.get(node).into_iter().flatten());
        }
    }
    all
}

#[test]
fn the_diagram_is_what_the_manifests_say() {
    let text = page("ARCHITECTURE.md");
    let diagram = text.split("```mermaid").nth(1).unwrap().split("```").next().unwrap();
    let label = Regex::new(r"(\w+)\[([^\]]+)\]").unwrap();
    let labels: BTreeMap<&str, &str> = label
        .captures_iter(diagram)
        .map(|found| found.extract())
        .map(|(_, [id, name])| (id, name))
        .collect();
    let plain = label.replace_all(diagram, "$1").into_owned();
    let mut drawn: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    for line in plain.lines().map(str::trim).filter(|line| !line.is_empty()).skip(1) {
        let name = |id: &str| labels[id.trim()].to_owned();
        match line.split_once("-->") {
            Some((from, to)) => drawn.entry(name(from)).or_default().insert(name(to)),
            None => drawn.entry(name(line)).or_default().is_empty(),
        };
    }
    let real = dependencies();
    for (from, to) in &real {
        assert_eq!(reachable(&drawn, from), reachable(&real, from), "what {from} depends on");
        let drawn_to = drawn.get(from).cloned().unwrap_or_default();
        assert!(drawn_to.is_subset(to), "{from}: {drawn_to:?}, but its manifests say {to:?}");
        assert!(!reachable(&real, from).contains(from), "{from} depends on itself");
    }
    let nodes: BTreeSet<&str> = labels.values().copied().collect();
    assert_eq!(nodes, real.keys().map(String::as_str).collect());
}

#[test]
fn every_step_of_the_walks_is_where_the_page_says() {
    let text = page("docs/dev/walkthrough.md");
    let steps: Vec<Vec<&str>> = rows(&text).filter(|row| row[0].contains(".rs`")).collect();
    assert!(steps.len() > 70, "{}", steps.len());
    for step in steps {
        let (file, function) = (step[0].trim_matches('`'), step[1].trim_matches('`'));
        let source = page(file);
        let (owner, name) =
            function.rsplit_once("::").map_or((None, function), |(o, n)| (Some(o), n));
        let definition = Regex::new(&format!(r"\bfn {name}\b")).unwrap();
        assert!(definition.is_match(&source), "{file}: no function {name}");
        if let Some(owner) = owner {
            let owner_of =
                Regex::new(&format!(r"impl\b[^{{]*\b{owner}\b|trait {owner}\b")).unwrap();
            assert!(owner_of.is_match(&source), "{file}: nothing of {owner}");
        }
    }
}

#[test]
fn the_hops_are_those_of_the_walks() {
    let text = page("docs/dev/walkthrough.md");
    let counted: Vec<usize> = text
        .split("\n## ")
        .skip(1)
        .flat_map(|walk| walk.split("\n### "))
        .map(|part| rows(part).filter(|row| row[0].contains(".rs`")).count())
        .collect();
    // A part of a walk begins where the one before it ends.
    let hops = [counted[0] - 1, counted[1] - 1 + counted[2], counted[3] - 1].map(|n| n.to_string());
    let listed: Vec<String> =
        rows(&text).filter(|row| row[0].contains("](#")).map(|row| row[1].to_owned()).collect();
    assert_eq!(listed, hops);
}

/// A crate begins with what it is for.
#[test]
fn every_crate_begins_with_a_paragraph() {
    let mut without = Vec::new();
    for manifest in files("*Cargo.toml") {
        let folder = Path::new(&manifest).parent().unwrap();
        let Some(root) = ["src/lib.rs", "src/main.rs", "orchestrator/cli/lib.rs"]
            .map(|root| folder.join(root))
            .into_iter()
            .find(|root| repository().join(root).exists())
        else {
            continue;
        };
        let source = page(root.to_str().unwrap());
        if !source.starts_with("//! ") {
            without.push(root.display().to_string());
        }
    }
    assert!(without.is_empty(), "{without:?}");
}

/// Whether rustdoc would take a block in the documentation of this source for code.
fn has_documented_code(source: &str) -> bool {
    let comments = source.lines().map(str::trim).filter(|line| line.starts_with("//"));
    let lines = comments.map(|line| line.trim_start_matches(['/', '!']).trim());
    let fences = lines.filter_map(|line| line.strip_prefix("```"));
    // Each second one ends a block.
    fences.step_by(2).any(|language| !["text", "json", "sh", "toml"].contains(&language))
}

#[test]
fn no_manifest_leaves_out_code_of_the_documentation_or_tests_of_a_program() {
    let mut left_out = Vec::new();
    for manifest in files("*Cargo.toml") {
        let table: toml::Table = page(&manifest).parse().unwrap();
        let folder = manifest.trim_end_matches("Cargo.toml");
        let leaves_out = |target: &toml::Value, key: &str| target.get(key) == Some(&false.into());
        if table.get("lib").is_some_and(|lib| leaves_out(lib, "doctest")) {
            let sources = files(&format!("{folder}src/*.rs")).into_iter();
            left_out.extend(sources.filter(|file| has_documented_code(&page(file))));
        }
        let programs = table.get("bin").and_then(toml::Value::as_array).into_iter().flatten();
        for program in programs.filter(|program| leaves_out(program, "test")) {
            let file = format!("{folder}{}", program["path"].as_str().unwrap());
            left_out.extend(page(&file).contains("#[test]").then_some(file));
        }
    }
    assert!(left_out.is_empty(), "{left_out:?}");
}
