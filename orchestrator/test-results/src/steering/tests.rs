use super::*;

/// Describes the changes between two texts of a file.
fn changes(path: &str, base: &str, now: &str) -> Vec<String> {
    let optional = |text: &str| (text != "-").then(|| text.as_bytes().to_vec());
    let (base, now) = (optional(base), optional(now));
    let found = find_steering_changes(path, base.as_deref(), now.as_deref());
    assert!(found.iter().all(|change| change.path == path));
    found.into_iter().map(|change| change.key.unwrap_or_else(|| "whole".to_owned())).collect()
}

/// Two versions of a file, where `-` is none, and the keys that steer checks.
const STEERING: &[(&str, &str, &str, &[&str])] = &[
    (
        "pyproject.toml",
        "[tool.pytest.ini_options]\naddopts = '-q'",
        "[tool.pytest.ini_options]\naddopts = '-k one'",
        &["tool.pytest.ini_options.addopts"],
    ),
    (
        "a/pyproject.toml",
        "[project]\nname = 'a'",
        "[project]\nname = 'a'\n[project.entry-points.pytest11]\nhelpful = 'helpful'",
        &["project.entry-points.pytest11.helpful"],
    ),
    (
        "pyproject.toml",
        "[tool.hatch.envs.test.scripts]\nrun = 'pytest'",
        "[tool.hatch.envs.test.scripts]\nrun = 'true'",
        &["tool.hatch.envs.test.scripts.run"],
    ),
    ("pyproject.toml", "-", "[tool.coverage.run]\nbranch = true", &["tool.coverage.run.branch"]),
    ("pyproject.toml", "[tool", "[tool.a]\nb = 1", &["whole"]),
    (
        "setup.cfg",
        "[tool:pytest]\naddopts = -q\n",
        "[tool:pytest]\naddopts =\n  -q\n  -k one\n",
        &["[tool:pytest] addopts"],
    ),
    ("setup.cfg", "[metadata]\nname = a", "a line", &["whole"]),
    (
        "tox.ini",
        "[testenv]\ncommands = pytest\n",
        "[testenv]\ncommands = true\n",
        &["[testenv] commands"],
    ),
    ("conftest.py", "-", "import os", &["whole"]),
    ("x/y.pth", "-", "import os", &["whole"]),
    ("v/a.dist-info/entry_points.txt", "-", "[pytest11]\na = a", &["whole"]),
    (
        "package.json",
        "{\"scripts\":{\"test\":\"jest\"}}",
        "{\"scripts\":{\"test\":\"true\"},\"jest\":{\"rootDir\":\"x\"}}",
        &["jest.rootDir", "scripts.test"],
    ),
    ("package.json", "{}", "{", &["whole"]),
    ("vitest.config.ts", "a", "b", &["whole"]),
    (
        "Cargo.toml",
        "[package]\nname='a'",
        "[package]\nname='a'\nautotests=false\n[[test]]\nname='t'\npath='o.rs'\n[lib]\nharness=false\n[[bench]]\nname='b'\nharness=false",
        &["bench.b.harness", "lib.harness", "package.autotests", "test.t.name", "test.t.path"],
    ),
    (
        "Cargo.toml",
        "[[bin]]\nname='a'",
        "[[bin]]\nname='a'\ntest=false\n[profile.test]\nopt-level=1",
        &["bin.a.test", "profile.test.opt-level"],
    ),
    (".cargo/config.toml", "", "[target.x]\nrunner = 'true'", &["target.x.runner"]),
    ("Makefile", "test:\n\tpytest", "test:\n\ttrue", &["whole"]),
    (
        "CMakeLists.txt",
        "add_test(NAME a\n  COMMAND a)\n",
        "add_test(NAME a\n  COMMAND true)\n",
        &["add_test"],
    ),
    (
        "build.gradle",
        "test {\n useJUnit()\n}\n",
        "test {\n useJUnit()\n exclude 'a'\n}\n",
        &["test"],
    ),
    (
        "pom.xml",
        "<project><build/></project>",
        "<project><properties><skipTests>true</skipTests></properties><build><plugins><plugin><artifactId>maven-surefire-plugin</artifactId><configuration><skip>true</skip></configuration></plugin></plugins></build></project>",
        &["maven-surefire-plugin", "skipTests"],
    ),
    ("mix.exs", "aliases: [\n  a: 1\n]", "aliases: [\n  test: []\n]", &["aliases"]),
    ("deno.json", "{}", "{\"tasks\":{\"test\":\"true\"}}", &["tasks.test"]),
    ("bunfig.toml", "", "[test]\nroot = 'x'", &["test.root"]),
    (".rspec", "a", "-", &["whole"]),
];

/// Two versions of a file that differ in nothing that steers checks.
const HONEST: &[(&str, &str, &str)] = &[
    (
        "pyproject.toml",
        "[project]\nversion = '1'\ndependencies = []",
        "[project]\nversion = '2'\ndependencies = ['a']\n[project.scripts]\na = 'a:b'\n[tool.ruff]\nx = 1",
    ),
    (
        "pyproject.toml",
        "[tool.pytest.ini_options]\naddopts = '-q'\n",
        "[tool.pytest.ini_options]\n# why\naddopts = \"-q\"\n",
    ),
    (
        "setup.cfg",
        "[metadata]\nversion = 1\n[options]\ninstall_requires =\n  a\n",
        "[metadata]\nversion = 2\n[options]\ninstall_requires =\n  a\n  b\n",
    ),
    (
        "tox.ini",
        "[testenv]\ndeps =\n  a==1\ncommands = a",
        "[testenv]\ndeps =\n  a==2\n  b\ncommands = a",
    ),
    (
        "package.json",
        "{\"version\":\"1\",\"dependencies\":{}}",
        "{\"version\":\"2\",\"dependencies\":{\"a\":\"1\"},\"exports\":{\".\":\"./a.js\"},\"type\":\"module\"}",
    ),
    (
        "Cargo.toml",
        "[package]\nversion='1'\n[dependencies]\n",
        "[package]\nversion='2'\n[dependencies]\na='1'\n[features]\ndefault=['x']\nx=[]\n[[bin]]\nname='b'\npath='b.rs'\n[dev-dependencies]\nt='1'",
    ),
    (".cargo/config.toml", "", "[net]\nretry = 3"),
    ("CMakeLists.txt", "project(a)", "project(a VERSION 2)\nadd_library(b b.c)\n"),
    (
        "build.gradle",
        "dependencies {\n}\n",
        "version = '2'\ndependencies {\n testImplementation 'a:b:1'\n}\n",
    ),
    (
        "pom.xml",
        "<project><version>1</version><build><plugins><plugin><artifactId>maven-surefire-plugin</artifactId><version>1</version></plugin></plugins></build></project>",
        "<project><version>2</version><dependencies><dependency/></dependencies><build><plugins><plugin><artifactId>maven-surefire-plugin</artifactId><version>2</version></plugin></plugins></build></project>",
    ),
    ("mix.exs", "version: \"1\"", "version: \"2\",\n{:a, \"~> 1\", only: :test}"),
    ("tsconfig.json", "a", "b"),
    ("src/lib.rs", "a", "b"),
    ("build.rs", "a", "b"),
    ("go.mod", "a", "b"),
    ("docs/entry_points.txt", "a", "b"),
    ("conftest.py", "a", "a"),
];

#[test]
fn finds_settings_that_steer_checks() {
    for (path, base, now, keys) in STEERING {
        assert_eq!(changes(path, base, now), *keys, "{path}: {now}");
    }
}

#[test]
fn honest_changes_steer_nothing() {
    for (path, base, now) in HONEST {
        assert_eq!(changes(path, base, now), [""; 0], "{path}: {now}");
    }
}

#[test]
fn a_change_is_described_with_its_values() {
    let describe = |path: &str, base: Option<&str>, now: Option<&str>| {
        let found = find_steering_changes(path, base.map(str::as_bytes), now.map(str::as_bytes));
        found.iter().map(SteeringChange::describe).collect::<Vec<_>>().join("; ")
    };
    let pytest = |options: &str| format!("[tool.pytest.ini_options]\naddopts = '{options}'");
    let key = "pyproject.toml: `tool.pytest.ini_options.addopts` steers the checks and was";
    let (quiet, one) = (pytest("-q"), pytest("-k one"));
    for (path, base, now, expected) in [
        (
            "pyproject.toml",
            Some(quiet.as_str()),
            Some(one.as_str()),
            format!("{key} changed from `\"-q\"` to `\"-k one\"`"),
        ),
        ("pyproject.toml", None, Some(&one), format!("{key} added: `\"-k one\"`")),
        ("pyproject.toml", Some(&one), Some(""), format!("{key} removed: `\"-k one\"`")),
        ("conftest.py", None, Some(""), "conftest.py steers the checks and was added".to_owned()),
        (
            "conftest.py",
            Some("a"),
            None,
            "conftest.py steers the checks and was removed".to_owned(),
        ),
        (
            "conftest.py",
            Some("a"),
            Some("b"),
            "conftest.py steers the checks and was changed".to_owned(),
        ),
        ("conftest.py", Some("a"), Some("a"), String::new()),
    ] {
        assert_eq!(describe(path, base, now), expected);
    }
}
