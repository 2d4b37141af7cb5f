//! Packages of Node.js and Bun.

use serde_json::Value;

use super::lock_files::{LOCK_FILES, NODE_MODULES};
use super::patterns::{BUN, NODE, OF_SCRIPTS};
use super::{ProjectDir, TestSystem, words};
use crate::test_files;

/// Scripts that scripts may run, one through the other.
const DEEPEST: usize = 4;

pub(crate) fn find(project: &ProjectDir<'_>, notes: &mut Vec<String>) -> Option<TestSystem> {
    let package: Value = serde_json::from_str(&project.text("package.json")).ok()?;
    let manager = manager(project, &package);
    let script = script(&package, "test").filter(|script| !is_stub(script));
    let (program, runs) = match script {
        Some(script) => of_script(&package, manager, script),
        None => match without_script(project, &package, manager) {
            Some(program) => (program.clone(), program.join(" ")),
            None => {
                notes.push(
                    "package.json has no test script (the one that npm writes is no test)"
                        .to_owned(),
                );
                return None;
            }
        },
    };
    let through_script = program.last().is_some_and(|last| last == "test");
    let is_open = through_script || runs.contains("jest") || runs.contains("mocha");
    Some(TestSystem {
        name: "node",
        because: Some("package.json".to_owned()),
        must_match: must_match(&program, &runs),
        program,
        open: is_open.then(|| "package.json".to_owned()).into_iter().collect(),
        artefacts: &["node_modules/"],
        ..TestSystem::default()
    })
}

/// Returns the program that installs the dependencies of the package in a folder.
pub(super) fn find_manager(project: &ProjectDir<'_>) -> &'static str {
    let package = serde_json::from_str(&project.text("package.json"));
    manager(project, &package.unwrap_or_default())
}

/// The program that installs the package's dependencies.
fn manager(project: &ProjectDir<'_>, package: &Value) -> &'static str {
    let named = package["packageManager"].as_str().unwrap_or_default();
    let named = named.split('@').next().unwrap_or_default();
    let known = ["npm", "pnpm", "yarn", "bun"].into_iter().find(|known| *known == named);
    let of_node = LOCK_FILES.iter().filter(|lock| lock.folder == NODE_MODULES);
    let mut locks = of_node.filter(|lock| project.has(lock.name));
    let locked = || locks.next().and_then(|lock| lock.install.first().copied());
    known.or_else(locked).unwrap_or("npm")
}

fn script<'a>(package: &'a Value, name: &str) -> Option<&'a str> {
    let script = package.get("scripts")?.get(name)?.as_str()?;
    Some(script.trim()).filter(|script| !script.is_empty())
}

/// What npm writes at first, which only says that there is no test.
fn is_stub(script: &str) -> bool {
    script.contains("no test specified")
}

/// How a package's test script is run, and all that it says it runs.
///
/// A script that is the call of one known runner is not run as a script but by itself: then the agent,
/// who may have to change `package.json`, cannot exchange the tests there.
fn of_script(package: &Value, manager: &'static str, test: &str) -> (Vec<String>, String) {
    let runs = expand(package, test, DEEPEST);
    let is_plain = !test.contains(['&', '|', ';', '<', '>', '$', '"', '\'', '=', '*']);
    let has_hooks = script(package, "pretest").or(script(package, "posttest")).is_some();
    let typed: Vec<&str> = test.split_whitespace().collect();
    if is_plain && !has_hooks {
        match typed.as_slice() {
            ["node", "--test", ..] => return (words(&typed), runs),
            [runner, rest @ ..] if is_runner(runner) => return (by(manager, runner, rest), runs),
            _ => {}
        }
    }
    let program: &[&str] =
        if manager == "bun" { &["bun", "run", "test"] } else { &[manager, "test"] };
    (words(program), runs)
}

fn is_runner(word: &str) -> bool {
    word != "react-scripts" && OF_SCRIPTS.iter().any(|(runner, _)| *runner == word)
}

/// A script with the scripts that it runs.
fn expand(package: &Value, text: &str, left: usize) -> String {
    let mut all = text.to_owned();
    let words: Vec<&str> = text.split_whitespace().collect();
    let named = words.windows(2).filter(|pair| pair.first().is_some_and(|word| *word == "run"));
    for name in named.filter_map(|pair| pair.get(1)) {
        if let Some(inner) = script(package, name).filter(|_| left > 0) {
            all = format!("{all} {}", expand(package, inner, left - 1));
        }
    }
    all
}

/// A runner of the package's own dependencies; none is installed for it.
fn by(manager: &str, runner: &str, rest: &[&str]) -> Vec<String> {
    let start: &[&str] = match manager {
        "pnpm" => &["pnpm", "exec"],
        "yarn" => &["yarn", "run"],
        "bun" => &["bunx", "--no-install"],
        _ => &["npx", "--no"],
    };
    words(&[start, &[runner], rest].concat())
}

/// What runs the tests of a package that does not say so.
fn without_script(project: &ProjectDir<'_>, package: &Value, manager: &str) -> Option<Vec<String>> {
    let depends = |name: &str| {
        ["devDependencies", "dependencies"].iter().any(|list| package[*list].get(name).is_some())
    };
    if depends("vitest") {
        return Some(by(manager, "vitest", &["run"]));
    }
    if let Some(runner) = ["jest", "mocha", "ava", "jasmine"].into_iter().find(|name| depends(name))
    {
        return Some(by(manager, runner, &[]));
    }
    if !test_files::has_script_tests(project.folder) {
        return None;
    }
    Some(if manager == "bun" { words(&["bun", "test"]) } else { words(&["node", "--test"]) })
}

fn must_match(program: &[String], runs: &str) -> Vec<&'static str> {
    if program.iter().map(String::as_str).eq(["bun", "test"]) || runs.starts_with("bun test") {
        return vec![BUN];
    }
    let has = |runner: &str| {
        runs.split(|c: char| !(c.is_ascii_alphanumeric() || c == '-')).any(|word| word == runner)
    };
    let mut patterns: Vec<&str> =
        OF_SCRIPTS.iter().filter(|(runner, _)| has(runner)).map(|(_, pattern)| *pattern).collect();
    if runs.contains("node --test") {
        patterns.push(NODE);
    }
    patterns.dedup();
    patterns
}
