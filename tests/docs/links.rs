//! Links within the repository lead to files and headings that are there.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use regex::Regex;

use crate::scratch::repository;

fn pages() -> Vec<PathBuf> {
    let listed = Command::new("git")
        .args(["ls-files", "-co", "--exclude-standard", "*.md"])
        .current_dir(repository())
        .output()
        .unwrap();
    let listed = String::from_utf8(listed.stdout).unwrap();
    let pages: Vec<PathBuf> = listed.lines().map(|line| repository().join(line)).collect();
    let pages: Vec<PathBuf> = pages.into_iter().filter(|page| page.exists()).collect();
    assert!(pages.len() > 15, "{pages:?}");
    pages
}

/// The page without what is code.
fn prose(page: &str) -> String {
    let mut is_inside = false;
    let lines = page.lines().filter(|line| {
        let is_fence = line.trim_start().starts_with("```");
        is_inside ^= is_fence;
        !is_inside && !is_fence
    });
    let text = lines.collect::<Vec<_>>().join("\n");
    Regex::new("`[^`\n]*`").unwrap().replace_all(&text, "code").into_owned()
}

/// The name by which a heading is linked to.
fn anchor(heading: &str) -> String {
    let kept = |c: &char| c.is_alphanumeric() || [' ', '-', '_'].contains(c);
    heading.to_lowercase().chars().filter(kept).map(|c| if c == ' ' { '-' } else { c }).collect()
}

fn anchors(page: &str) -> Vec<String> {
    let headings = page.lines().filter(|line| line.starts_with('#'));
    headings.map(|line| anchor(line.trim_start_matches('#').trim())).collect()
}

fn check(page: &Path, target: &str) -> Result<(), String> {
    let (file, heading) = target.split_once('#').map_or((target, None), |(f, h)| (f, Some(h)));
    let path = if file.is_empty() { page.to_owned() } else { page.parent().unwrap().join(file) };
    if !path.exists() {
        return Err(format!("{}: no {target}", page.display()));
    }
    let Some(heading) = heading else { return Ok(()) };
    let known = anchors(&fs::read_to_string(&path).unwrap());
    if known.iter().any(|known| known == heading) {
        return Ok(());
    }
    Err(format!("{}: no heading for {target} among {known:?}", page.display()))
}

#[test]
fn every_link_leads_somewhere() {
    let links = Regex::new(r"\]\(([^)\s]+)\)|(?:src|href)=.([^\s'>]+)[']").unwrap();
    let (mut wrong, mut count) = (Vec::new(), 0);
    for page in pages() {
        let text = prose(&fs::read_to_string(&page).unwrap());
        for found in links.captures_iter(&text) {
            let target = found.get(1).or(found.get(2)).unwrap().as_str();
            if target.contains("://") || target.starts_with("mailto:") {
                continue;
            }
            count += 1;
            wrong.extend(check(&page, target).err());
        }
    }
    assert!(count > 30, "{count}");
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// Pages that messages and comments of the program name.
#[test]
fn pages_that_the_source_names_exist() {
    let listed = Command::new("git")
        .args([
            "grep",
            "-nE",
            "docs/[a-z/-]+\\.md",
            "--",
            "orchestrator",
            "adapters",
            "validators",
            "benches",
            "scripts",
        ])
        .current_dir(repository())
        .output()
        .unwrap();
    let listed = String::from_utf8(listed.stdout).unwrap();
    assert!(listed.lines().count() > 2, "{listed}");
    let named = Regex::new(r"(?:^|[^/.\w])(docs/[a-z/-]+\.md)").unwrap();
    let missing = listed.lines().filter(|line| {
        let mut pages = named.captures_iter(line).map(|found| found[1].to_owned());
        pages.any(|page| !repository().join(page).exists())
    });
    assert_eq!(missing.collect::<Vec<_>>(), <[&str; 0]>::default());
}

/// Every page for users is reached from the first of them.
#[test]
fn the_index_names_every_page() {
    let index = fs::read_to_string(repository().join("docs/user/README.md")).unwrap();
    for folder in ["docs/user", "docs/user/agents"] {
        for entry in fs::read_dir(repository().join(folder)).unwrap() {
            let path = entry.unwrap().path();
            let name =
                path.strip_prefix(repository().join("docs/user")).unwrap().display().to_string();
            if name.ends_with(".md") && name != "README.md" {
                assert!(
                    index.contains(&format!("({name})")),
                    "docs/user/README.md does not name {name}"
                );
            }
        }
    }
}

#[test]
fn anchors_are_those_of_the_renderer() {
    assert_eq!(anchor("`[agent]` and `[agents.NAME]`"), "agent-and-agentsname");
    assert_eq!(anchor("What counts as the workspace?"), "what-counts-as-the-workspace");
}
