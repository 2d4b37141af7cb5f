//! Tests that a change touches: which files they are, and what runs them and no others.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use toml::Table;

use crate::systems::dependencies::DependencySetup;
use crate::systems::patterns::file_name;
use crate::systems::{self, TestSystem};
use crate::test_files::{is_in_test_folder, is_test, matches};

/// The folders above a file, from the project's own, in which its test system is searched.
const MOST_FOLDERS: usize = 4;
/// The ends of the names of source files.
const SOURCES: [&str; 47] = [
    "rs", "go", "py", "pyi", "js", "jsx", "ts", "tsx", "mjs", "cjs", "vue", "svelte", "java", "kt",
    "kts", "scala", "groovy", "rb", "php", "c", "h", "cc", "cpp", "cxx", "hpp", "hh", "cs", "fs",
    "vb", "swift", "dart", "ex", "exs", "erl", "clj", "hs", "ml", "lua", "pl", "pm", "r", "jl",
    "sh", "bash", "sql", "zig", "proto",
];
/// Tests by their names, beside those that [`is_test`] knows.
const MORE_TESTS: [&str; 10] = [
    "tests.rs",
    "test.rs",
    "*_test.rs",
    "*_tests.rs",
    "*Test.java",
    "*Tests.java",
    "*Test.kt",
    "*Spec.scala",
    "*_test.exs",
    "*.snap",
];
/// Folders of what tests read.
const DATA_FOLDERS: [&str; 3] = ["testdata", "__snapshots__", "__fixtures__"];

/// What a file of a project is, as its path says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ProjectFileKind {
    /// A test, or what tests read.
    Test,
    /// Source text.
    Code,
    /// Anything else, such as documentation or settings.
    Other,
}

/// A command that runs tests that a change touches.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TouchedTestCommand {
    /// The test system.
    pub system: &'static str,
    /// The folder in which it is run, relative to the project; empty for the project's own.
    pub folder: String,
    /// Its words.
    pub words: Vec<String>,
    /// Each matches a line of its output if at least one test has passed.
    pub must_match: Vec<&'static str>,
}

/// Says what a file is, by its path in the project.
#[must_use]
pub fn classify_file(path: &Path) -> ProjectFileKind {
    let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
    let is_data = || path.iter().any(|part| DATA_FOLDERS.iter().any(|folder| part == *folder));
    if is_test(path) || MORE_TESTS.iter().any(|glob| matches(glob, name)) || is_data() {
        ProjectFileKind::Test
    } else if is_source_file(path) {
        ProjectFileKind::Code
    } else {
        ProjectFileKind::Other
    }
}

/// Whether a file is source text, by its name.
#[must_use]
pub fn is_source_file(path: &Path) -> bool {
    let end = path.extension().and_then(|end| end.to_str()).unwrap_or_default();
    SOURCES.contains(&end)
}

/// Returns what runs these files of tests in a project, and as few others as its test systems allow; nothing if it has none
/// that is known.
#[must_use]
pub fn find_touched_tests(project: &Path, files: &[String]) -> Vec<TouchedTestCommand> {
    let mut known: BTreeMap<String, Vec<TestSystem>> = BTreeMap::new();
    let mut touched: BTreeMap<(String, usize), Vec<&str>> = BTreeMap::new();
    for file in files {
        for folder in list_folders(file) {
            let systems = known
                .entry(folder.clone())
                .or_insert_with(|| systems::find(&project.join(&folder)).0);
            let runner = systems.iter().position(|system| runs_file(system.name, Path::new(file)));
            if let Some(runner) = runner {
                touched.entry((folder, runner)).or_default().push(file);
                break;
            }
        }
    }
    let narrowed = touched.into_iter().flat_map(|((folder, runner), files)| {
        let system = known.get(&folder).and_then(|systems| systems.get(runner));
        let commands = system.map(|system| narrow_to_files(project, &folder, system, &files));
        commands.unwrap_or_default()
    });
    let narrowed: Vec<TouchedTestCommand> = narrowed.collect();
    if !narrowed.is_empty() {
        return narrowed;
    }
    let (systems, _) = systems::find(project);
    systems
        .first()
        .map(|system| to_command(system, "", system.program.clone()))
        .into_iter()
        .collect()
}

/// Returns what installs the dependencies of a project, as a shell's line; none if nothing does, or its programs are missing.
#[must_use]
pub fn find_dependency_setup(project: &Path) -> Option<String> {
    DependencySetup::find(project).command()
}

/// Returns the folders that a file is in, the outermost first, from the project's own, which is empty.
fn list_folders(file: &str) -> Vec<String> {
    let ends = file.match_indices('/').map(|(at, _)| at);
    let below = ends.filter_map(|end| file.get(..end)).map(str::to_owned);
    std::iter::once(String::new()).chain(below).take(MOST_FOLDERS).collect()
}

fn to_command(system: &TestSystem, folder: &str, words: Vec<String>) -> TouchedTestCommand {
    TouchedTestCommand {
        system: system.name,
        folder: folder.to_owned(),
        words,
        must_match: system.must_match.clone(),
    }
}

/// Whether a test system runs the tests of a file.
fn runs_file(system: &str, path: &Path) -> bool {
    let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
    let end = path.extension().and_then(|end| end.to_str()).unwrap_or_default();
    let has_name = |globs: &[&str]| globs.iter().any(|glob| matches(glob, name));
    match system {
        "cargo" => end == "rs",
        "go" => has_name(&["*_test.go"]),
        "pytest" | "unittest" | "django" | "tox" | "nox" => {
            has_name(&["test_*.py", "*_test.py", "tests.py"])
        }
        "node" | "deno" => {
            ["js", "jsx", "ts", "tsx", "mjs", "cjs"].contains(&end)
                && (is_in_test_folder(path) || has_name(&["*.test.*", "*_test.*"]) || is_test(path))
        }
        "ruby" => has_name(&["*_spec.rb", "*_test.rb", "test_*.rb"]),
        "mix" => has_name(&["*_test.exs"]),
        "maven" | "gradle" => ["java", "kt", "groovy"].contains(&end),
        "sbt" => ["scala", "java"].contains(&end),
        "dotnet" => ["cs", "fs", "vb"].contains(&end),
        "swift" => end == "swift",
        "ctest" | "meson" => ["c", "cc", "cpp", "cxx", "h", "hpp"].contains(&end),
        "pest" | "phpspec" | "phpunit" => end == "php",
        _ => false,
    }
}

/// Returns the commands that run these files by a system of a folder.
fn narrow_to_files(
    project: &Path,
    folder: &str,
    system: &TestSystem,
    files: &[&str],
) -> Vec<TouchedTestCommand> {
    let below = |file: &&str| match folder {
        "" => (*file).to_owned(),
        folder => file.strip_prefix(folder).unwrap_or(file).trim_start_matches('/').to_owned(),
    };
    let files: BTreeSet<String> = files.iter().map(below).collect();
    let with = |more: Vec<String>| vec![[system.program.clone(), more].concat()];
    let first = system.program.first().map(|word| file_name(word)).unwrap_or_default();
    let commands = match system.name {
        "cargo" => with(narrow_cargo(&project.join(folder), &files)),
        "go" => vec![narrow_go(&files)],
        "pytest" | "mix" | "deno" => with(files.into_iter().collect()),
        "unittest" => narrow_unittest(&system.program, &files),
        "django" => with(files.iter().map(|file| to_module(file)).collect()),
        "node" if takes_files(&system.program) => with(files.into_iter().collect()),
        "ruby" if system.program.iter().any(|word| word == "rspec") || first == "rails" => {
            with(files.into_iter().collect())
        }
        "maven" => with(narrow_maven(&files)),
        _ => with(Vec::new()),
    };
    commands.into_iter().map(|words| to_command(system, folder, words)).collect()
}

/// Whether a command of Node.js or Bun is a runner that takes files, and names none yet.
fn takes_files(program: &[String]) -> bool {
    let words: Vec<&str> = program.iter().map(String::as_str).collect();
    let runs = |name: &str| words.contains(&name);
    match words.as_slice() {
        ["node", "--test"] | ["bun", "test"] => true,
        ["node", ..] => false,
        _ => ["jest", "vitest", "mocha", "ava"].into_iter().any(runs),
    }
}

/// Returns the arguments that run the tests of files of Cargo packages: whole packages, unless all are integration tests.
fn narrow_cargo(folder: &Path, files: &BTreeSet<String>) -> Vec<String> {
    let (mut packages, mut targets) = (BTreeSet::new(), BTreeSet::new());
    let mut is_narrow = true;
    for file in files {
        let Some((at, manifest)) = find_package(folder, file) else { return Vec::new() };
        packages.extend(name_of(manifest.get("package")));
        match find_test_target(folder, &at, &manifest, file) {
            Some(target) => drop(targets.insert(target)),
            None => is_narrow = false,
        }
    }
    let mut words: Vec<String> =
        packages.into_iter().flat_map(|name| ["-p".to_owned(), name]).collect();
    if is_narrow {
        words.extend(targets.into_iter().flat_map(|name| ["--test".to_owned(), name]));
    }
    words
}

/// Returns the folder of the package that a file belongs to, relative to the project, and its manifest.
fn find_package(folder: &Path, file: &str) -> Option<(String, Table)> {
    list_above(file).into_iter().find_map(|at| {
        let text = std::fs::read_to_string(folder.join(&at).join("Cargo.toml")).ok()?;
        let manifest: Table = text.parse().ok()?;
        manifest.contains_key("package").then_some((at, manifest))
    })
}

/// Returns the folders that a file is in, the innermost first.
fn list_above(file: &str) -> Vec<String> {
    let above = Path::new(file).ancestors().skip(1);
    above.map(|folder| folder.to_string_lossy().into_owned()).collect()
}

/// Returns the integration test that a file is, or is a part of.
fn find_test_target(folder: &Path, at: &str, manifest: &Table, file: &str) -> Option<String> {
    let file = Path::new(file).strip_prefix(at).ok()?;
    let named = manifest.get("test").and_then(toml::Value::as_array).into_iter().flatten();
    let of_path = named.filter_map(|test| {
        let path = Path::new(test.get("path")?.as_str()?);
        let is_main = path.file_name().is_some_and(|name| name == "main.rs");
        let is_part = is_main && path.parent().is_some_and(|parent| file.starts_with(parent));
        (path == file || is_part).then(|| name_of(Some(test))).flatten()
    });
    if let Some(name) = of_path.into_iter().next() {
        return Some(name);
    }
    let below = file.strip_prefix("tests").ok()?;
    let mut parts = below.iter().filter_map(|part| part.to_str());
    match (parts.next()?, parts.next()) {
        (name, None) => name.strip_suffix(".rs").map(str::to_owned),
        (name, Some(_)) => {
            let main = folder.join(at).join("tests").join(name).join("main.rs");
            main.is_file().then(|| name.to_owned())
        }
    }
}

fn name_of(table: Option<&toml::Value>) -> Option<String> {
    table?.get("name")?.as_str().map(str::to_owned)
}

fn narrow_go(files: &BTreeSet<String>) -> Vec<String> {
    let folder = |file: &String| match file.rsplit_once('/') {
        Some((folder, _)) => format!("./{folder}"),
        None => ".".to_owned(),
    };
    let folders: BTreeSet<String> = files.iter().map(folder).collect();
    ["go", "test", "-v"].map(str::to_owned).into_iter().chain(folders).collect()
}

/// Returns a command for each name of a file: `discover` takes one pattern.
fn narrow_unittest(program: &[String], files: &BTreeSet<String>) -> Vec<Vec<String>> {
    let names: BTreeSet<&str> = files.iter().map(|file| file_name(file)).collect();
    let named = |name: &str| [program, &["-p".to_owned(), name.to_owned()]].concat();
    names.into_iter().map(named).collect()
}

fn narrow_maven(files: &BTreeSet<String>) -> Vec<String> {
    let stem =
        |file: &String| Path::new(file).file_stem().map(|name| name.to_string_lossy().into());
    let names: Vec<String> = files.iter().filter_map(stem).collect();
    vec![
        format!("-Dtest={}", names.join(",")),
        "-Dsurefire.failIfNoSpecifiedTests=false".to_owned(),
    ]
}

fn to_module(file: &str) -> String {
    file.trim_end_matches(".py").replace('/', ".")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn find(project: &[(&str, &str)], files: &[&str]) -> Vec<String> {
        let folder = tempfile::tempdir().unwrap();
        for (path, text) in project {
            let path = folder.path().join(path);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, text).unwrap();
        }
        let files: Vec<String> = files.iter().map(|file| (*file).to_owned()).collect();
        let commands = find_touched_tests(folder.path(), &files);
        let line =
            |command: TouchedTestCommand| format!("{}:{}", command.folder, command.words.join(" "));
        commands.into_iter().map(line).collect()
    }

    #[test]
    fn files_are_tests_code_or_neither() {
        use ProjectFileKind::{Code, Other, Test};
        for (path, kind) in [
            ("src/lib.rs", Code),
            ("src/parser/tests.rs", Test),
            ("tests/data/a.bin", Test),
            ("pkg/testdata/x.json", Test),
            ("pkg/a_test.go", Test),
            ("src/__snapshots__/a.snap", Test),
            ("src/main/java/A.java", Code),
            ("src/test/java/ATest.java", Test),
            ("README.md", Other),
            ("Cargo.toml", Other),
            ("pages/testing.md", Other),
            ("latest.py", Code),
        ] {
            assert_eq!(classify_file(Path::new(path)), kind, "{path}");
        }
    }

    #[test]
    fn only_the_touched_tests_are_run_where_the_system_can() {
        let package = "[package]\nname = \"one\"\n";
        let cargo = [("Cargo.toml", package), ("tests/it/main.rs", ""), ("tests/a.rs", "")];
        assert_eq!(
            find(&cargo, &["tests/a.rs", "tests/it/b.rs"]),
            [":cargo test -p one --test a --test it"]
        );
        assert_eq!(find(&cargo, &["tests/a.rs", "src/tests.rs"]), [":cargo test -p one"]);
        assert_eq!(find(&cargo, &["tests/common/mod.rs"]), [":cargo test -p one"]);
        let members = [
            ("Cargo.toml", "[workspace]\nmembers = [\"m\"]\n"),
            (
                "m/Cargo.toml",
                "[package]\nname = \"m\"\n[[test]]\nname = \"all\"\npath = \"t/main.rs\"\n",
            ),
        ];
        assert_eq!(find(&members, &["m/t/x.rs"]), [":cargo test -p m --test all"]);
        let go = [("go.mod", "module x\n")];
        assert_eq!(find(&go, &["a_test.go", "in/b_test.go"]), [":go test -v . ./in"]);
        let pytest = [("pytest.ini", "[pytest]\n"), ("tests/test_a.py", "")];
        assert_eq!(find(&pytest, &["tests/test_a.py"]), [":python3 -m pytest tests/test_a.py"]);
        // Settings of tests are no tests: everything runs.
        assert_eq!(find(&pytest, &["tests/conftest.py"]), [":python3 -m pytest"]);
        let unittest = [("setup.py", ""), ("tests/test_a.py", "import unittest\n")];
        assert_eq!(
            find(&unittest, &["tests/test_a.py"]),
            [":python3 -m unittest discover -v -s tests -p test_a.py"]
        );
        let jest = [("package.json", "{\"scripts\": {\"test\": \"jest\"}}")];
        assert_eq!(find(&jest, &["a.test.js"]), [":npx --no jest a.test.js"]);
        let script = [("package.json", "{\"scripts\": {\"test\": \"make x && jest\"}}")];
        assert_eq!(find(&script, &["a.test.js"]), [":npm test"]);
    }

    #[test]
    fn a_project_in_a_folder_runs_its_own_tests() {
        let project = [
            ("Makefile", "all:\n"),
            ("web/package.json", "{\"scripts\": {\"test\": \"node --test\"}}"),
        ];
        assert_eq!(find(&project, &["web/test/a.test.mjs"]), ["web:node --test test/a.test.mjs"]);
        assert!(find(&project, &["other/a_test.go"]).is_empty());
        let task = [("Makefile", "test:\n\tsh check.sh\n")];
        assert_eq!(find(&task, &["tests/check.sh"]), [":make test"]);
    }
}
