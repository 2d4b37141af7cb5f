//! Links within the repository lead to files and headings that are there, and paths in code are those of files.

use std::collections::BTreeSet;
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

/// The page without its blocks of code.
fn without_blocks(page: &str) -> String {
    let mut is_inside = false;
    let lines = page.lines().filter(|line| {
        let is_fence = line.trim_start().starts_with("```");
        is_inside ^= is_fence;
        !is_inside && !is_fence
    });
    lines.collect::<Vec<_>>().join("\n")
}

/// The page without what is code.
fn prose(page: &str) -> String {
    Regex::new("`[^`\n]*`").unwrap().replace_all(&without_blocks(page), "code").into_owned()
}

/// All files of the repository, and all their folders, each with a slash before it.
fn places() -> BTreeSet<String> {
    let listed = Command::new("git")
        .args(["ls-files", "-co", "--exclude-standard"])
        .current_dir(repository())
        .output()
        .unwrap();
    let listed = String::from_utf8(listed.stdout).unwrap();
    let files = listed.lines().map(Path::new).filter(|file| repository().join(file).exists());
    let above = files.flat_map(Path::ancestors).filter(|place| *place != Path::new(""));
    above.map(|place| format!("/{}", place.display())).collect()
}

/// Whether a file or folder ends so; `src` is left out after the name of a crate.
fn is_place(path: &str, places: &BTreeSet<String>) -> bool {
    let in_src = path.split_once('/').map(|(name, rest)| format!("/{name}/src/{rest}"));
    let ends: Vec<String> = [format!("/{path}")].into_iter().chain(in_src).collect();
    places.iter().any(|place| ends.iter().any(|end| place.ends_with(end)))
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

/// Paths in code, in the pages about the source: files by their endings, folders by what they begin with.
#[test]
fn every_path_in_the_pages_for_developers_is_there() {
    let places = places();
    let first = |place: &String| place.split('/').nth(1).unwrap().to_owned();
    let crates = places.iter().filter_map(|place| place.strip_prefix("/orchestrator/"));
    let folders: BTreeSet<String> = places
        .iter()
        .filter(|place| repository().join(&place[1..]).is_dir())
        .map(first)
        .chain(crates.map(|path| path.split('/').next().unwrap().to_owned()))
        .collect();
    let path = Regex::new(r"`([\w.-]+(?:/[\w.-]+)*)/?`").unwrap();
    let is_meant = |path: &str| {
        let (begin, end) = (path.split('/').next().unwrap(), path.rsplit('/').next().unwrap());
        let is_of_page = end.ends_with(".md") || end.ends_with(".toml");
        let is_inside = path.contains('/');
        let is_folder = folders.contains(begin) && !end.contains('.');
        let stands_for_any = end.starts_with("NAME.");
        (end.ends_with(".rs") || is_inside && (is_of_page || is_folder)) && !stands_for_any
    };
    let (mut wrong, mut count) = (Vec::new(), 0);
    let of_developers = |page: &PathBuf| {
        let page = page.strip_prefix(repository()).unwrap();
        page.starts_with("docs/dev") || page == Path::new("ARCHITECTURE.md")
    };
    for page in pages().into_iter().filter(of_developers) {
        let text = without_blocks(&fs::read_to_string(&page).unwrap());
        for found in path.captures_iter(&text).map(|found| found.get(1).unwrap().as_str()) {
            if is_meant(found) {
                count += 1;
                let is_there = is_place(found, &places);
                wrong.extend((!is_there).then(|| format!("{}: no {found}", page.display())));
            }
        }
    }
    assert!(count > 300, "{count}");
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
