//! The files that steer checks, each with what of it does.

use super::blocks::Heads;

/// How a file is read.
#[derive(Clone, Copy)]
pub(super) enum FileKind {
    /// Steers checks as a whole.
    Whole,
    /// By keys; `*` at the end of a segment stands for anything, `**` for any number of segments.
    Toml(&'static [&'static str]),
    Json(&'static [&'static str]),
    /// By section and key.
    Ini(fn(&str, &str) -> bool),
    /// By commands or blocks.
    Blocks(Heads),
    Maven,
}

/// Files that count as a whole, by name; `*` at the beginning or the end stands for anything.
const WHOLE: &[&str] = &[
    // Python
    "conftest.py",
    "sitecustomize.py",
    "usercustomize.py",
    "*.pth",
    "pytest.ini",
    ".pytest.ini",
    ".coveragerc",
    "noxfile.py",
    "entry_points.txt",
    // Node.js
    "jest.config.*",
    "vitest.config.*",
    "vitest.workspace.*",
    "vite.config.*",
    "babel.config.*",
    ".babelrc*",
    ".mocharc*",
    "playwright.config.*",
    "cypress.config.*",
    "karma.conf.*",
    "ava.config.*",
    ".nycrc*",
    ".c8rc*",
    ".taprc",
    // Runners of tasks
    "Makefile",
    "makefile",
    "GNUmakefile",
    "*.mk",
    "justfile",
    "Justfile",
    ".justfile",
    "Taskfile.*",
    "Rakefile",
    // Rust, Ruby, PHP, JVM, .NET, CMake, Elixir, bats
    "nextest.toml",
    ".rspec",
    ".rspec-local",
    "spec_helper.rb",
    "rails_helper.rb",
    "test_helper.rb",
    "phpunit.xml",
    "phpunit.xml.dist",
    "phpunit.dist.xml",
    "junit-platform.properties",
    "testng.xml",
    "maven.config",
    "*.runsettings",
    "xunit.runner.json",
    "CTestTestfile.cmake",
    "CTestCustom.cmake",
    "test_helper.exs",
    "setup_suite.bash",
];

const PYPROJECT: FileKind = FileKind::Toml(&[
    "tool.pytest*",
    "tool.coverage",
    "tool.tox",
    "tool.hatch.envs.*.scripts",
    "tool.pdm.scripts",
    "tool.poe.tasks",
    "tool.taskipy.tasks",
    "tool.rye.scripts",
    "project.entry-points.pytest11",
    "tool.poetry.plugins.pytest11",
]);

const CARGO: FileKind = FileKind::Toml(&[
    "test",
    "package.autotests",
    "package.autobins",
    "package.autoexamples",
    "lib.test",
    "lib.doctest",
    "bin.*.test",
    "example.*.test",
    "bench.*.test",
    "profile.test",
    "workspace.default-members",
    "workspace.exclude",
    "**.harness",
]);

/// Sources and registries of packages, the network and the terminal steer no test.
const CARGO_CONFIG: FileKind = FileKind::Toml(&[
    "alias", "build", "env", "host", "include", "patch", "paths", "profile", "target", "unstable",
]);

const PACKAGE_JSON: FileKind =
    FileKind::Json(&["scripts", "jest", "mocha", "vitest", "ava", "c8", "nyc", "tap", "babel"]);

const MIX: Heads = Heads {
    heads: &[
        "aliases",
        "def aliases",
        "defp aliases",
        "test_",
        "elixirc_paths",
        "def elixirc_paths",
        "defp elixirc_paths",
        "preferred_cli_env",
        "preferred_envs",
    ],
    brackets: ('[', ']'),
};
const GRADLE: Heads = Heads {
    heads: &[
        "test",
        "tasks.test",
        "tasks.named('test'",
        "tasks.named(\"test\"",
        "tasks.named<Test>(",
        "tasks.withType(Test",
        "tasks.withType<Test>",
        "testing",
        "sourceSets",
    ],
    brackets: ('{', '}'),
};
const CMAKE: Heads = Heads {
    heads: &[
        "add_test",
        "enable_testing",
        "set_tests_properties",
        "set_property(TEST",
        "include(CTest",
        "gtest_discover_tests",
        "catch_discover_tests",
        "doctest_discover_tests",
    ],
    brackets: ('(', ')'),
};

impl FileKind {
    /// Returns how a file is read by its path; none if it does not steer checks.
    pub(super) fn of(path: &str) -> Option<Self> {
        let (folder, name) = path.rsplit_once('/').unwrap_or(("", path));
        let folder = folder.rsplit('/').next().unwrap_or_default();
        let kind = match name {
            "pyproject.toml" => PYPROJECT,
            "setup.cfg" => FileKind::Ini(is_steering_in_setup),
            "tox.ini" => FileKind::Ini(is_steering_in_tox),
            "package.json" => PACKAGE_JSON,
            "deno.json" | "deno.jsonc" => FileKind::Json(&["tasks", "test", "exclude"]),
            "bunfig.toml" => FileKind::Toml(&["test", "preload"]),
            "Cargo.toml" => CARGO,
            "config.toml" | "config" if folder == ".cargo" => CARGO_CONFIG,
            "build.gradle" | "build.gradle.kts" => FileKind::Blocks(GRADLE),
            "pom.xml" => FileKind::Maven,
            "CMakeLists.txt" => FileKind::Blocks(CMAKE),
            "mix.exs" => FileKind::Blocks(MIX),
            // The entry points of an installed package; any other file of that name is not Python's.
            "entry_points.txt" if !folder.ends_with("-info") => return None,
            _ => {
                return WHOLE
                    .iter()
                    .any(|pattern| matches_name(pattern, name))
                    .then_some(FileKind::Whole);
            }
        };
        Some(kind)
    }
}

fn matches_name(pattern: &str, name: &str) -> bool {
    if let Some(end) = pattern.strip_prefix('*') {
        name.ends_with(end)
    } else if let Some(start) = pattern.strip_suffix('*') {
        name.starts_with(start)
    } else {
        name == pattern
    }
}

fn is_steering_in_setup(section: &str, key: &str) -> bool {
    section == "tool:pytest"
        || section == "aliases"
        || section == "test"
        || section.starts_with("coverage:")
        || section.starts_with("tox")
        || section.starts_with("testenv")
        || (section == "options.entry_points" && key == "pytest11")
}

/// All of it, but for what is installed.
fn is_steering_in_tox(_section: &str, key: &str) -> bool {
    !matches!(key, "deps" | "requires" | "minversion" | "min_version" | "extras")
}
