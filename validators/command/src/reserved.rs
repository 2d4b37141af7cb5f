//! Paths that would change what a command does by being there: programs believe what lies where they
//! run, and an agent can put it there.
//!
//! All are plain paths, so that looking for them costs nothing.

use std::path::{Path, PathBuf};

use crate::config::Config;
use crate::script;

/// Modules of Python's own that running tests loads after the folder of the tests can be searched. The
/// list is of what `unittest` loads; other modules are out of reach, or loaded before.
const PYTHON: [&str; 46] = [
    "argparse",
    "ast",
    "asyncio",
    "bisect",
    "collections",
    "contextlib",
    "copy",
    "dataclasses",
    "difflib",
    "dis",
    "enum",
    "fnmatch",
    "functools",
    "gettext",
    "heapq",
    "importlib",
    "inspect",
    "ipaddress",
    "keyword",
    "linecache",
    "locale",
    "logging",
    "opcode",
    "operator",
    "pathlib",
    "pkgutil",
    "pprint",
    "random",
    "re",
    "reprlib",
    "runpy",
    "shutil",
    "signal",
    "string",
    "struct",
    "tempfile",
    "textwrap",
    "threading",
    "token",
    "tokenize",
    "traceback",
    "types",
    "typing",
    "urllib",
    "warnings",
    "weakref",
];
/// The same that pytest loads beyond, with what it is made of.
const PYTEST: [&str; 17] = [
    "_pytest",
    "attr",
    "attrs",
    "exceptiongroup",
    "glob",
    "html",
    "iniconfig",
    "json",
    "packaging",
    "platform",
    "pluggy",
    "py",
    "pygments",
    "shlex",
    "subprocess",
    "sysconfig",
    "tomli",
];
/// Versions of Python 3 whose names of compiled modules are reserved.
const VERSIONS: std::ops::RangeInclusive<u8> = 8..=16;

/// What programs read, and would do something else for. It matters only to those who protect something.
const SETTINGS: [(&[&str], &[&str]); 12] = [
    (
        &["pytest", "py.test"],
        &[
            "conftest.py",
            "pytest.ini",
            ".pytest.ini",
            "pytest.toml",
            ".pytest.toml",
            "tox.ini",
            "setup.cfg",
        ],
    ),
    (&["cargo"], &[".cargo/config", ".cargo/config.toml", "rust-toolchain", "rust-toolchain.toml"]),
    (&["go"], &["vendor", "go.work"]),
    (
        &["npm", "npx", "pnpm", "yarn", "bun", "bunx"],
        &[
            ".npmrc",
            ".pnpmfile.cjs",
            ".yarnrc",
            ".yarnrc.yml",
            "bunfig.toml",
            "jest.config.cjs",
            "jest.config.js",
            "jest.config.json",
            "jest.config.mjs",
            "jest.config.ts",
            "vitest.config.cjs",
            "vitest.config.cts",
            "vitest.config.js",
            "vitest.config.mjs",
            "vitest.config.mts",
            "vitest.config.ts",
            "vitest.workspace.js",
            "vitest.workspace.json",
            "vitest.workspace.ts",
            ".mocharc.cjs",
            ".mocharc.js",
            ".mocharc.json",
            ".mocharc.jsonc",
            ".mocharc.yaml",
            ".mocharc.yml",
            "ava.config.cjs",
            "ava.config.js",
            "ava.config.mjs",
            "playwright.config.js",
            "playwright.config.ts",
        ],
    ),
    (&["make", "gmake"], &["GNUmakefile", "makefile", "Makefile"]),
    (&["mvn", "mvnw"], &[".mvn"]),
    (&["sbt"], &[".sbtopts", ".jvmopts"]),
    (&["rspec", "rake", "rails"], &[".rspec", ".rspec-local"]),
    (
        &["dotnet"],
        &["Directory.Build.props", "Directory.Build.targets", ".runsettings", "global.json"],
    ),
    (&["deno"], &["deno.json", "deno.jsonc"]),
    (&["phpunit", "composer"], &["phpunit.xml"]),
    (&["tox"], &["tox.toml"]),
];

/// Programs that run another, named by their arguments.
const WRAPPERS: [&str; 13] = [
    "bundle", "bunx", "env", "hatch", "npm", "npx", "pdm", "pipenv", "pnpm", "poetry", "rye", "uv",
    "yarn",
];

/// Those of them that Python would take for modules, as plain paths relative to the workspace.
pub(crate) fn python_paths(config: &Config) -> Vec<PathBuf> {
    let folder = config.cwd.as_deref().unwrap_or(Path::new(""));
    commands(&config.program).flat_map(|command| of_python(command, folder)).collect()
}

/// A command, and those that may be given to it if it runs others.
fn commands(words: &[String]) -> impl Iterator<Item = &[String]> {
    let is_wrapper = words.first().is_some_and(|first| WRAPPERS.contains(&bare(first)));
    let starts = if is_wrapper { words.len() } else { words.len().min(1) };
    (0..starts).filter_map(|start| words.get(start..))
}

/// The paths for this command, as globs relative to the workspace.
pub(crate) fn paths(config: &Config) -> Vec<String> {
    let folder = config.cwd.as_deref().unwrap_or(Path::new(""));
    let mut paths = python_paths(config);
    if !config.protect.is_empty() {
        for command in commands(&config.program) {
            let program = command.first().map(|word| bare(word));
            let names = [program, module_of(command)];
            let known = SETTINGS
                .iter()
                .filter(|(programs, _)| names.iter().flatten().any(|name| programs.contains(name)));
            paths.extend(known.flat_map(|(_, files)| files.iter().map(|file| folder.join(file))));
        }
    }
    paths.sort();
    paths.dedup();
    paths
        .iter()
        .map(|path| crate::setup::glob(&ralph_orchestrator_safe_fs::normalize_lexically(path)))
        .collect()
}

/// The module that the command has Python run, such as `pytest` of `python3 -m pytest`.
pub(crate) fn module(command: &[String]) -> Option<&str> {
    commands(command).find_map(module_of)
}

/// The name of a program without its folder and version.
fn bare(word: &str) -> &str {
    let name = word.rsplit('/').next().unwrap_or(word);
    name.trim_end_matches(|c: char| c.is_ascii_digit() || c == '.')
}

fn is_python(name: &str) -> bool {
    matches!(name, "python" | "pypy")
}

fn module_of(command: &[String]) -> Option<&str> {
    let (program, words) = command.split_first()?;
    if !is_python(bare(program)) {
        return None;
    }
    let mut words = words.iter().map(String::as_str);
    while let Some(word) = words.next() {
        let letters = word.strip_prefix('-').filter(|letters| !letters.starts_with('-'))?;
        match letters.split_once('m') {
            _ if matches!(letters, "W" | "X") => drop(words.next()),
            _ if letters.starts_with(['W', 'X']) => {}
            Some((_, "")) => return words.next(),
            Some((_, name)) => return Some(name),
            None if letters.contains('c') => return None,
            None => {}
        }
    }
    None
}

/// What Python would take for its own, or for what it is to run.
fn of_python(command: &[String], folder: &Path) -> Vec<PathBuf> {
    if !command.first().is_some_and(|program| is_python(bare(program))) {
        return Vec::new();
    }
    let Some(module) = module_of(command) else {
        // The folder of a script is searched in the same way.
        let script = script::find(command).and_then(|index| command.get(index));
        let Some(script) = script.filter(|script| !script.starts_with('/')) else {
            return Vec::new();
        };
        let beside = folder.join(Path::new(script).parent().unwrap_or(Path::new("")));
        return PYTHON.iter().flat_map(|name| sources(&beside, name)).collect();
    };
    let name = module.split('.').next().unwrap_or(module);
    let machine = std::env::consts::ARCH;
    let mut paths = Vec::from(sources(folder, name));
    paths.extend(["so", "abi3.so"].map(|end| folder.join(format!("{name}.{end}"))));
    paths.extend(
        VERSIONS
            .map(|minor| folder.join(format!("{name}.cpython-3{minor}-{machine}-linux-gnu.so"))),
    );
    let more: &[&str] = if name == "pytest" { &PYTEST } else { &[] };
    paths.extend(PYTHON.iter().chain(more).flat_map(|name| sources(folder, name)));
    paths
}

/// Where the code of a module may lie.
fn sources(folder: &Path, name: &str) -> [PathBuf; 3] {
    [folder.join(name), folder.join(format!("{name}.py")), folder.join(format!("{name}.pyc"))]
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn of(program: &[&str], protect: &[&str]) -> Vec<String> {
        let table = json!({"program": program, "protect": protect, "cwd": "app"});
        paths(&Config::parse(table).unwrap())
    }

    #[test]
    fn finds_the_module_that_python_runs() {
        for (command, name) in [
            (&["python3", "-m", "pytest", "-q"][..], Some("pytest")),
            (&["/usr/bin/python3.12", "-Bm", "unittest"], Some("unittest")),
            (&["python", "-W", "error", "-X", "dev", "-munittest"], Some("unittest")),
            (&["python", "-Wmodule", "-m", "a.b"], Some("a.b")),
            (&["uv", "run", "--with", "x", "python", "-m", "pytest"], Some("pytest")),
            (&["python3", "manage.py", "-m", "x"], None),
            (&["python3", "-c", "import m", "-m", "x"], None),
            (&["make", "-m", "x"], None),
        ] {
            let command: Vec<String> = command.iter().map(|word| (*word).to_owned()).collect();
            assert_eq!(module(&command), name, "{command:?}");
        }
    }

    #[test]
    fn reserves_where_python_would_find_the_module_it_runs() {
        let paths = of(&["python3", "-m", "my.check"], &[]);
        for path in ["app/my", "app/my.py", "app/my.pyc", "app/my.abi3.so", "app/argparse.py"] {
            assert!(paths.iter().any(|reserved| reserved == path), "{path}: {paths:?}");
        }
        assert!(!paths.iter().any(|path| path.contains("pluggy")), "{paths:?}");
        let script = of(&["python3", "ci/check.py"], &[]);
        assert!(script.contains(&"app/ci/argparse.py".to_owned()), "{script:?}");
        assert!(of(&["python3", "/ci/check.py"], &[]).is_empty());
    }

    #[test]
    fn reserves_settings_only_for_those_who_protect_something() {
        assert_eq!(
            of(&["make", "test"], &["Makefile"]),
            ["app/GNUmakefile", "app/Makefile", "app/makefile"]
        );
        assert!(of(&["make", "test"], &[]).is_empty());
        assert!(
            of(&["uv", "run", "pytest"], &["tests/**"]).contains(&"app/conftest.py".to_owned())
        );
        assert!(of(&["python3", "-m", "pytest"], &["t"]).contains(&"app/conftest.py".to_owned()));
        assert!(of(&["pytest", "cargo"], &["t"]).iter().all(|path| !path.contains("cargo")));
    }
}
