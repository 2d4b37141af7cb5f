//! Makefiles, justfiles and scripts, which say nothing of what they run.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;

use super::{ProjectDir, TestSystem, found};

pub(super) fn find(project: &ProjectDir<'_>) -> Option<TestSystem> {
    let make = project.first(&["GNUmakefile", "makefile", "Makefile"]);
    let just = project.first(&["justfile", "Justfile", ".justfile"]);
    let target = |name: &str| make.filter(|file| has_target(&project.text(file), name));
    let recipe = |name: &str| just.filter(|file| has_target(&project.text(file), name));
    if let Some(file) = target("test") {
        return Some(found("make", file, &["make", "test"]));
    }
    if let Some(file) = target("check") {
        return Some(found("make", file, &["make", "check"]));
    }
    if let Some(file) = recipe("test") {
        return Some(found("just", file, &["just", "test"]));
    }
    let meta = fs::metadata(project.folder.join("test.sh")).ok().filter(fs::Metadata::is_file)?;
    let is_executable = meta.permissions().mode() & 0o111 != 0;
    let program: &[&str] = if is_executable { &["./test.sh"] } else { &["sh", "./test.sh"] };
    Some(found("script", "test.sh", program))
}

/// Whether a Makefile or justfile has this target.
fn has_target(text: &str, target: &str) -> bool {
    text.lines().filter(|line| !line.starts_with([' ', '\t', '#'])).any(|line| {
        let Some((names, rest)) = line.split_once(':') else { return false };
        let mut names = names.split_whitespace().map(|name| name.trim_start_matches('@'));
        !rest.starts_with('=') && names.any(|name| name == target)
    })
}
