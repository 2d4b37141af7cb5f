//! Makefiles, justfiles and scripts, which say nothing of what they run.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;

use super::patterns::of_script;
use super::{ProjectDir, TestSystem, found};

pub(crate) fn find(project: &ProjectDir<'_>) -> Option<TestSystem> {
    let make = project.first(&["GNUmakefile", "makefile", "Makefile"]);
    let just = project.first(&["justfile", "Justfile", ".justfile"]);
    let target = |name: &str| make.filter(|file| has_target(&project.text(file), name));
    let recipe = |name: &str| just.filter(|file| has_target(&project.text(file), name));
    let run = |name, file: &str, target: &str| TestSystem {
        must_match: of_script(&body(&project.text(file), target)),
        ..found(name, file, &[name, target])
    };
    if let Some(file) = target("test") {
        return Some(run("make", file, "test"));
    }
    if let Some(file) = target("check") {
        return Some(run("make", file, "check"));
    }
    if let Some(file) = recipe("test") {
        return Some(run("just", file, "test"));
    }
    let meta = fs::metadata(project.folder.join("test.sh")).ok().filter(fs::Metadata::is_file)?;
    let is_executable = meta.permissions().mode() & 0o111 != 0;
    let program: &[&str] = if is_executable { &["./test.sh"] } else { &["sh", "./test.sh"] };
    let must_match = of_script(&project.text("test.sh"));
    Some(TestSystem { must_match, ..found("script", "test.sh", program) })
}

/// Whether a Makefile or justfile has this target.
fn has_target(text: &str, target: &str) -> bool {
    text.lines().any(|line| is_head(line, target))
}

/// Whether a line begins this target.
fn is_head(line: &str, target: &str) -> bool {
    if line.starts_with([' ', '\t', '#']) {
        return false;
    }
    let Some((names, rest)) = line.split_once(':') else { return false };
    let mut names = names.split_whitespace().map(|name| name.trim_start_matches('@'));
    !rest.starts_with('=') && names.any(|name| name == target)
}

/// The commands of a target.
fn body(text: &str, target: &str) -> String {
    let lines = text.lines().skip_while(|line| !is_head(line, target)).skip(1);
    lines.take_while(|line| line.starts_with([' ', '\t'])).collect::<Vec<_>>().join("\n")
}
