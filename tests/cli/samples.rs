//! `init` in repositories of all kinds: what it guesses, what it protects, and what it says.

use std::fs;
use std::os::unix::fs::symlink;

use crate::environment::TestEnvironment;

/// A repository by its files, and by what is installed: names of programs with what they do.
struct Sample {
    name: &'static str,
    files: &'static [(&'static str, &'static str)],
    installed: &'static [(&'static str, &'static str)],
}

const fn sample(name: &'static str, files: &'static [(&'static str, &'static str)]) -> Sample {
    Sample { name, files, installed: &[] }
}

const STUB: &str =
    r#"{"name": "a", "scripts": {"test": "echo \"Error: no test specified\" && exit 1"}}"#;
const PYTHON_TEST: &str = "import unittest\n\n\nclass T(unittest.TestCase):\n    pass\n";

const SAMPLES: &[Sample] = &[
    sample("empty", &[]),
    Sample {
        name: "cargo",
        files: &[("Cargo.toml", ""), ("src/lib.rs", ""), ("tests/it.rs", ""), (".git/HEAD", "")],
        installed: &[("cargo", "echo 'test result: FAILED. 0 passed; 1 failed'; exit 101")],
    },
    Sample {
        name: "cargo_that_passes",
        files: &[("Cargo.toml", ""), ("src/lib.rs", "")],
        installed: &[("cargo", "echo 'test result: ok. 3 passed; 0 failed'; mkdir target")],
    },
    sample(
        "monorepo",
        &[
            ("backend/Cargo.toml", ""),
            ("backend/tests/api.rs", ""),
            ("frontend/package.json", r#"{"devDependencies": {"vitest": "3"}}"#),
            ("frontend/src/app.test.ts", ""),
            ("service/gradlew", ""),
            ("service/build.gradle.kts", ""),
            ("node_modules/x/package.json", r#"{"scripts": {"test": "jest"}}"#),
        ],
    ),
    sample(
        "monorepo_with_a_system_at_the_top",
        &[
            ("Cargo.toml", ""),
            ("crates/a/Cargo.toml", ""),
            ("core/Cargo.toml", ""),
            ("web/package.json", r#"{"scripts": {"test": "jest"}}"#),
        ],
    ),
    sample("npm_with_the_stub_only", &[("package.json", STUB)]),
    sample(
        "npm_jest",
        &[
            ("package.json", r#"{"scripts": {"test": "jest --ci"}}"#),
            ("jest.config.js", ""),
            ("src/a.test.js", ""),
            ("node_modules/x/test/a.js", ""),
        ],
    ),
    Sample {
        name: "npm_script_with_several_commands",
        files: &[
            (
                "package.json",
                r#"{"scripts": {"test": "npm run unit && true", "unit": "vitest run"}}"#,
            ),
            ("test/a.spec.ts", ""),
        ],
        installed: &[("npm", "echo 'sh: 1: vitest: not found' >&2; exit 127")],
    },
    sample(
        "npm_node_test",
        &[("package.json", r#"{"scripts": {"test": "node --test"}}"#), ("test/a.test.js", "")],
    ),
    sample("node_without_a_script", &[("package.json", "{}"), ("lib/a.test.mjs", "")]),
    sample(
        "pnpm_vitest_without_a_script",
        &[("package.json", r#"{"devDependencies": {"vitest": "3"}}"#), ("pnpm-lock.yaml", "")],
    ),
    sample(
        "yarn_mocha",
        &[
            ("package.json", r#"{"scripts": {"test": "mocha"}}"#),
            ("yarn.lock", ""),
            (".mocharc.yml", ""),
        ],
    ),
    sample("bun", &[("package.json", r#"{"packageManager": "bun@1.2.0"}"#), ("a.test.ts", "")]),
    sample(
        "pytest",
        &[
            ("pyproject.toml", "[tool.pytest.ini_options]\n"),
            ("tests/test_a.py", "def test_a():\n    pass\n"),
        ],
    ),
    sample("pyproject_alone", &[("pyproject.toml", "[project]\nname = \"a\"\n"), ("a.py", "")]),
    sample("uv", &[("uv.lock", ""), ("pyproject.toml", "pytest"), ("tests/test_a.py", "")]),
    sample("poetry", &[("pyproject.toml", "[tool.poetry]\n"), ("tests/test_a.py", PYTHON_TEST)]),
    sample("tox", &[("tox.ini", "[tox]\n[testenv]\ncommands = pytest\n"), ("tests/test_a.py", "")]),
    sample("nox", &[("noxfile.py", "session.run('pytest')"), ("pyproject.toml", "")]),
    sample("unittest", &[("app.py", ""), ("tests/test_a.py", PYTHON_TEST)]),
    sample("unittest_package", &[("tests/__init__.py", ""), ("tests/test_a.py", PYTHON_TEST)]),
    sample("unittest_beside_the_code", &[("app.py", ""), ("test_app.py", PYTHON_TEST)]),
    sample("django", &[("manage.py", ""), ("shop/tests.py", PYTHON_TEST), ("shop/models.py", "")]),
    Sample {
        name: "go",
        files: &[("go.mod", ""), ("a.go", ""), ("a_test.go", ""), ("in/b_test.go", "")],
        installed: &[("go", "echo '--- FAIL: TestA (0.00s)'; exit 1")],
    },
    sample(
        "maven",
        &[("pom.xml", ""), ("src/main/java/A.java", ""), ("src/test/java/ATest.java", "")],
    ),
    Sample {
        name: "gradle",
        files: &[("build.gradle.kts", ""), ("gradlew", ""), ("src/test/kotlin/ATest.kt", "")],
        installed: &[],
    },
    sample("sbt", &[("build.sbt", ""), ("src/test/scala/A.scala", "")]),
    sample(
        "rails",
        &[("Gemfile", "gem \"rails\""), ("bin/rails", ""), ("test/models/a_test.rb", "")],
    ),
    sample("rspec", &[("Gemfile", "gem \"rspec\""), (".rspec", ""), ("spec/a_spec.rb", "")]),
    sample("minitest", &[("Rakefile", ""), ("test/test_a.rb", "")]),
    sample("mix", &[("mix.exs", ""), ("test/a_test.exs", ""), ("lib/a.ex", "")]),
    sample("dotnet", &[("App.sln", ""), ("App/App.cs", ""), ("App.Tests/AppTests.cs", "")]),
    sample("deno", &[("deno.json", "{}"), ("a_test.ts", "")]),
    sample("swift", &[("Package.swift", ""), ("Tests/AppTests/AppTests.swift", "")]),
    sample("cmake", &[("CMakeLists.txt", ""), ("tests/a.cpp", "")]),
    sample("meson", &[("meson.build", ""), ("test/a.c", "")]),
    sample(
        "phpunit",
        &[("composer.json", "{}"), ("phpunit.xml.dist", ""), ("tests/ATest.php", "")],
    ),
    Sample {
        name: "make",
        files: &[("Makefile", "test:\n\tfalse\n")],
        installed: &[("make", "echo 'make: *** [Makefile:2: test] Error 1' >&2; exit 2")],
    },
    Sample {
        name: "npm_with_a_lock_file",
        files: &[
            ("package.json", r#"{"scripts": {"test": "node --test"}}"#),
            ("package-lock.json", "{}"),
            ("node_modules/a/index.js", ""),
            ("test/a.test.js", ""),
        ],
        installed: &[("git", "exit 0"), ("npm", ""), ("node", "exit 1")],
    },
    Sample {
        name: "lock_files_of_two_languages",
        files: &[
            ("package.json", r#"{"scripts": {"test": "node --test"}}"#),
            ("yarn.lock", "__metadata:\n"),
            ("package-lock.json", "{}"),
            ("uv.lock", ""),
            ("requirements.txt", ""),
            ("tests/test_a.py", PYTHON_TEST),
        ],
        installed: &[("git", "exit 0"), ("yarn", ""), ("uv", "exit 1"), ("npm", "")],
    },
    Sample {
        name: "requirements_without_a_lock",
        files: &[
            ("requirements.txt", "a"),
            (".venv/bin/python", ""),
            ("tests/test_a.py", PYTHON_TEST),
        ],
        installed: &[("git", "exit 0")],
    },
    Sample {
        name: "lock_file_without_its_program",
        files: &[("mix.exs", ""), ("mix.lock", ""), ("test/a_test.exs", "")],
        installed: &[("git", "exit 0")],
    },
    Sample {
        name: "dependencies_that_git_keeps",
        files: &[("composer.json", ""), ("composer.lock", ""), ("phpunit.xml", "")],
        installed: &[("git", "exit 1"), ("composer", "")],
    },
    sample("just", &[("justfile", "test:\n  false\n"), ("tests/a", "")]),
    sample(
        "several",
        &[
            ("Cargo.toml", ""),
            ("package.json", r#"{"scripts": {"test": "ava"}}"#),
            ("tests/test_a.py", PYTHON_TEST),
            ("Makefile", "test:\n\tcargo test\n"),
        ],
    ),
];

/// What init writes is always right, but for a check that is still to be written, or whose program is not installed.
fn is_right(env: &TestEnvironment) {
    let checked = env.ralph(&["config", "check"]);
    for error in checked.stderr.lines().filter(|line| line.starts_with("error:")) {
        let is_known = ["still to be written", "in PATH"].iter().any(|why| error.contains(why));
        assert!(is_known && checked.code == Some(78), "{}", checked.stderr);
    }
    assert_eq!(checked.code == Some(0), !checked.stderr.contains("error:"), "{}", checked.stderr);
}

/// Everything that `init` does with a sample: what it says, and the validators that it writes.
fn run(sample: &Sample) -> String {
    let mut env = TestEnvironment::new();
    fs::remove_file(env.path("ralph.toml")).unwrap();
    fs::remove_file(env.path("PROMPT.md")).unwrap();
    for (name, text) in sample.files {
        env.write(name, text);
    }
    let bin = env.root().join("bin");
    fs::create_dir(&bin).unwrap();
    for name in ["sh", "mkdir"] {
        symlink(format!("/bin/{name}"), bin.join(name)).unwrap();
    }
    for (name, does) in sample.installed.iter().chain(&[("claude", "exit 1")]) {
        let path = bin.join(name).display().to_string();
        env.write(&path, format!("#!/bin/sh\n{does}\n")).write_mode(&path, 0o755);
    }
    env.var("PATH", &bin.display().to_string());
    let ended = env.ralph(&["init"]).expect(0);
    let config = env.read("ralph.toml");
    let (_, validators) = config.split_once("[[validator]]").unwrap();
    let (validators, _) = validators.split_once("[limits]").unwrap();
    is_right(&env);
    let text = format!("{}\n--- ralph.toml\n[[validator]]{validators}", ended.stdout);
    text.replace(&env.root().display().to_string(), "[root]")
}

#[test]
fn guesses_protects_and_says_what_fits_the_repository() {
    assert!(SAMPLES.len() >= 25);
    for sample in SAMPLES {
        insta::assert_snapshot!(sample.name, run(sample));
    }
}

#[test]
fn writes_the_agent_that_is_asked_for_or_installed() {
    for (args, installed, says, config) in [
        (&["init"][..], "codex", "the agent is codex", "adapter = \"codex\""),
        (&["init"], "gemini", "the agent is gemini", "program = [\"gemini\", \"--acp\"]"),
        (&["init"], "other", "no agent was found in PATH", "adapter = \"claude-cli\""),
        (&["init", "--agent", "codex"], "claude", "`codex` is not in PATH", "adapter = \"codex\""),
        (&["init", "--agent", "claude-sdk"], "claude", "claude-sdk", "adapter = \"claude-sdk\""),
    ] {
        let mut env = TestEnvironment::new();
        fs::remove_file(env.path("ralph.toml")).unwrap();
        let bin = env.root().join("bin");
        fs::create_dir(&bin).unwrap();
        let path = bin.join(installed).display().to_string();
        env.write(&path, "#!/bin/sh\n").write_mode(&path, 0o755);
        env.var("PATH", &bin.display().to_string());
        env.ralph(args).expect(0).says(says);
        let text = env.read("ralph.toml");
        assert!(text.contains(config), "{text}");
        is_right(&env);
    }
    let env = TestEnvironment::new();
    fs::remove_file(env.path("ralph.toml")).unwrap();
    env.ralph(&["init", "--agent", "clade"]).expect(64).says("known agents: claude, codex");
    assert!(!env.path("ralph.toml").exists());
}

#[test]
fn the_goal_goes_into_a_new_prompt_and_never_into_one_that_is_there() {
    let env = TestEnvironment::new();
    fs::remove_file(env.path("ralph.toml")).unwrap();
    let refused = env.ralph(&["init", "--goal", "Make it fast."]).expect(64);
    refused.says("--goal would have no effect").says("write the task into that file");
    assert!(!env.path("ralph.toml").exists(), "nothing was written");
    fs::remove_file(env.path("PROMPT.md")).unwrap();
    let ended = env.ralph(&["init", "--goal", "Make it fast."]).expect(0);
    assert!(!ended.stdout.contains("describe the task"), "{}", ended.stdout);
    let prompt = env.read("PROMPT.md");
    assert!(prompt.contains("Make it fast.") && prompt.contains("<promise>"), "{prompt}");
}

#[test]
fn adds_to_the_gitignore_only_when_asked_to() {
    let env = TestEnvironment::new();
    fs::remove_file(env.path("ralph.toml")).unwrap();
    env.write("Cargo.toml", "").write(".git/HEAD", "").write(".gitignore", "/out");
    env.ralph(&["init", "--no-run"])
        .expect(0)
        .says(".gitignore lacks target/ (`init --gitignore` adds it)");
    assert_eq!(env.read(".gitignore"), "/out");
    let again = ["init", "--no-run", "--force", "--gitignore"];
    env.ralph(&again).expect(0).says("added to .gitignore: target/");
    assert_eq!(env.read(".gitignore"), "/out\ntarget/\n");
    assert!(!env.ralph(&again).expect(0).stdout.contains("gitignore"), "it is there now");
    // Outside a repository there is nothing to ignore.
    fs::remove_dir_all(env.path(".git")).unwrap();
    fs::remove_file(env.path(".gitignore")).unwrap();
    env.ralph(&again).expect(0);
    assert!(!env.path(".gitignore").exists());
}

#[test]
fn a_gitignore_that_is_a_link_is_not_written_through() {
    let env = TestEnvironment::new();
    fs::remove_file(env.path("ralph.toml")).unwrap();
    env.write("Cargo.toml", "").write(".git/HEAD", "");
    let target = env.root().join("target-of-link");
    fs::write(&target, "").unwrap();
    symlink(&target, env.path(".gitignore")).unwrap();
    env.ralph(&["init", "--no-run", "--gitignore"]).expect(64).says("no regular file");
    assert_eq!(fs::read_to_string(&target).unwrap(), "");
}
