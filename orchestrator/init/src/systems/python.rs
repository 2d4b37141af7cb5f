//! Projects in Python.

use ralph_orchestrator_assembly::block_on::block_on;
use ralph_orchestrator_assembly::probe::probe;
use ralph_orchestrator_assembly::user_folders::variables;
use ralph_orchestrator_supervisor::find_program;

use super::patterns::{PYTEST, UNITTEST};
use super::{ProjectDir, TestSystem, found, words};
use crate::test_files;

const MARKS: [&str; 13] = [
    "pyproject.toml",
    "setup.py",
    "setup.cfg",
    "requirements.txt",
    "pytest.ini",
    "conftest.py",
    "tox.ini",
    "noxfile.py",
    "manage.py",
    "Pipfile",
    "uv.lock",
    "poetry.lock",
    "pdm.lock",
];
const ARTEFACTS: &[&str] = &["__pycache__/"];
const PYTEST_ARTEFACTS: &[&str] = &["__pycache__/", ".pytest_cache/"];

pub(crate) fn find(project: &ProjectDir<'_>) -> Option<TestSystem> {
    let tests = test_files::python_tests(project.folder);
    let because = project.first(&MARKS).map(str::to_owned);
    let because = because.or_else(|| tests.first().cloned())?;
    let open: Vec<String> =
        project.first(&["pyproject.toml"]).map(str::to_owned).into_iter().collect();
    let uses_pytest = uses_pytest(project, &tests);
    if let Some(file) =
        project.first(&["tox.ini"]).filter(|file| project.text(file).contains("[tox]"))
    {
        let mut must_match = vec![r"congratulations :\)"];
        must_match.extend(of_settings(&project.text(file)));
        return Some(TestSystem {
            must_match,
            definitions: &["tox.ini"],
            artefacts: &[".tox/", "__pycache__/", ".pytest_cache/"],
            open,
            ..found("tox", file, &["tox"])
        });
    }
    if project.has("noxfile.py") {
        return Some(TestSystem {
            must_match: of_settings(&project.text("noxfile.py")).into_iter().collect(),
            definitions: &["noxfile.py"],
            artefacts: &[".nox/", "__pycache__/", ".pytest_cache/"],
            open,
            ..found("nox", "noxfile.py", &["nox"])
        });
    }
    let prefix = prefix(project);
    let (name, program, pattern) = if project.has("manage.py") && !uses_pytest {
        ("django", python(project, &prefix, &["manage.py", "test", "-v", "2"]), UNITTEST)
    } else if uses_pytest || (tests.is_empty() && prefers_pytest(project, &prefix)) {
        let program = match prefix.as_slice() {
            [] => python(project, &prefix, &["-m", "pytest"]),
            prefix => words(&[prefix, &["pytest"]].concat()),
        };
        ("pytest", program, PYTEST)
    } else {
        ("unittest", python(project, &prefix, &unittest(project, &tests)), UNITTEST)
    };
    Some(TestSystem {
        must_match: vec![pattern],
        definitions: if name == "django" { &["manage.py"] } else { &[] },
        artefacts: if name == "pytest" { PYTEST_ARTEFACTS } else { ARTEFACTS },
        open: if name == "pytest" { open } else { Vec::new() },
        program,
        ..found(name, &because, &[])
    })
}

/// What runs programs in the environment of the project.
fn prefix(project: &ProjectDir<'_>) -> Vec<&'static str> {
    let pyproject = project.text("pyproject.toml");
    let known = [
        ("uv.lock", "[tool.uv", "uv"),
        ("poetry.lock", "[tool.poetry", "poetry"),
        ("pdm.lock", "[tool.pdm", "pdm"),
        ("Pipfile", "[tool.pipenv", "pipenv"),
    ];
    let found =
        known.iter().find(|(file, table, _)| project.has(file) || pyproject.contains(table));
    found.map_or(Vec::new(), |(_, _, tool)| vec![*tool, "run"])
}

/// Python with these arguments: that of the project's own environment if there is one.
fn python(project: &ProjectDir<'_>, prefix: &[&str], arguments: &[&str]) -> Vec<String> {
    if !prefix.is_empty() {
        return words(&[prefix, &["python"], arguments].concat());
    }
    words(&[&[interpreter(project)], arguments].concat())
}

fn interpreter(project: &ProjectDir<'_>) -> &'static str {
    project.first(&[".venv/bin/python", "venv/bin/python"]).map_or("python3", |python| match python
    {
        ".venv/bin/python" => "./.venv/bin/python",
        _ => "./venv/bin/python",
    })
}

/// Whether anything speaks of pytest, or tests are written as functions.
fn uses_pytest(project: &ProjectDir<'_>, tests: &[String]) -> bool {
    if project.first(&["pytest.ini", ".pytest.ini", "pytest.toml", "conftest.py"]).is_some() {
        return true;
    }
    let files = [
        "pyproject.toml",
        "setup.cfg",
        "setup.py",
        "tox.ini",
        "requirements.txt",
        "requirements-dev.txt",
        "requirements_dev.txt",
        "dev-requirements.txt",
        "Pipfile",
    ];
    if files.iter().any(|file| project.text(file).contains("pytest")) {
        return true;
    }
    tests.iter().any(|test| {
        let is_function =
            |line: &str| line.starts_with("def test_") || line.starts_with("async def test_");
        test.ends_with("conftest.py")
            || project
                .text(test)
                .lines()
                .any(|line| line.starts_with("import pytest") || is_function(line))
    })
}

/// Without any hint: pytest if it is installed, for it runs tests of both kinds.
fn prefers_pytest(project: &ProjectDir<'_>, prefix: &[&str]) -> bool {
    prefix.is_empty() && has_module(project, "pytest")
}

fn has_module(project: &ProjectDir<'_>, module: &str) -> bool {
    let vars = variables();
    let path = vars.get("PATH").map(String::as_str).unwrap_or_default();
    let Ok(program) = find_program(interpreter(project), path, project.folder) else {
        return false;
    };
    let import = format!("import {module}");
    let output = block_on(async {
        Ok(probe(program, &["-I", "-c", &import], project.folder, vars.clone()).await)
    });
    output.ok().flatten().is_some_and(|output| output.succeeded)
}

/// The pattern for the tests that other tools' settings speak of.
fn of_settings(text: &str) -> Option<&'static str> {
    let has_unittest = || text.contains("unittest") || text.contains("manage.py");
    if text.contains("pytest") { Some(PYTEST) } else { has_unittest().then_some(UNITTEST) }
}

/// The arguments that have `unittest` find the tests, and name each one.
fn unittest<'a>(project: &ProjectDir<'_>, tests: &'a [String]) -> Vec<&'a str> {
    let folders: Vec<&str> =
        tests.iter().map(|test| test.split_once('/').map_or("", |parts| parts.0)).collect();
    let Some(folder) =
        folders.first().filter(|folder| !folder.is_empty() && !folders.contains(&""))
    else {
        return vec!["-m", "unittest", "discover", "-v"];
    };
    if project.has(&format!("{folder}/__init__.py")) {
        return vec!["-m", "unittest", "discover", "-v", "-s", folder, "-t", "."];
    }
    vec!["-m", "unittest", "discover", "-v", "-s", folder]
}
