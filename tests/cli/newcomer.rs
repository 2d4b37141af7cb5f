//! A newcomer's first hour: `init`, `doctor`, `run` with the real claude, in repositories without a
//! `.gitignore`.

use std::fs;
use std::path::Path;
use std::process::Command;

use ralph_orchestrator_testkit::claude_binary;
use ralph_orchestrator_testkit::model_server::{ModelServer, Script, Turn};
use serde_json::json;

use crate::environment::{TestEnvironment, of_run};
use crate::real::Real;

const CLAIM: &str = "All tests pass.\n\n<promise>COMPLETE: add works</promise>";

/// A repository whose one test fails until `work` was done.
struct Repository {
    /// Prints the folder of the language's tools: version managers want a home of their own.
    tools: &'static [&'static str],
    files: &'static [(&'static str, &'static str)],
    work: &'static str,
}

const PYTHON: Repository = Repository {
    tools: &["python3", "-c", "import sys; print(sys.prefix + '/bin')"],
    files: &[
        ("calc.py", "def add(a, b):\n    return 0\n"),
        (
            "tests/test_calc.py",
            "import unittest\n\nimport calc\n\n\nclass TestAdd(unittest.TestCase):\n    \
             def test_add(self):\n        self.assertEqual(calc.add(1, 2), 3)\n",
        ),
    ],
    work: "printf 'def add(a, b):\\n    return a + b\\n' > calc.py",
};

const NODE: Repository = Repository {
    tools: &["node", "-p", "require('path').dirname(process.execPath)"],
    files: &[
        ("package.json", "{\"name\": \"calc\", \"scripts\": {\"test\": \"node --test\"}}\n"),
        ("calc.js", "exports.add = () => 0;\n"),
        (
            "test/calc.test.js",
            "const test = require('node:test');\nconst assert = require('node:assert');\n\
             test('add', () => assert.strictEqual(require('../calc.js').add(1, 2), 3));\n",
        ),
    ],
    work: "echo 'exports.add = (a, b) => a + b;' > calc.js",
};

const RUST: Repository = Repository {
    tools: &["sh", "-c", "echo $(rustc --print sysroot)/bin"],
    files: &[
        ("Cargo.toml", "[package]\nname = \"calc\"\nversion = \"0.1.0\"\nedition = \"2024\"\n"),
        ("src/lib.rs", "pub fn add(_: i32, _: i32) -> i32 {\n    0\n}\n"),
        ("tests/add.rs", "#[test]\nfn adds() {\n    assert_eq!(calc::add(1, 2), 3);\n}\n"),
    ],
    work: "printf 'pub fn add(a: i32, b: i32) -> i32 {\\n    a + b\\n}\\n' > src/lib.rs",
};

fn git(env: &TestEnvironment, args: &[&str]) {
    let identity = ["-c", "user.name=A", "-c", "user.email=a@b", "-c", "init.defaultBranch=main"];
    let done = env.program(Path::new("git")).args(identity).args(args).output().unwrap();
    assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
}

/// The repository as its owner has it, with claude in the PATH.
fn clone(repository: &Repository, model: &ModelServer) -> TestEnvironment {
    let mut env = TestEnvironment::new();
    for file in ["ralph.toml", "PROMPT.md"] {
        fs::remove_file(env.path(file)).unwrap();
    }
    for (name, text) in repository.files {
        env.write(name, text);
    }
    let [program, args @ ..] = repository.tools else { unreachable!() };
    let tools = String::from_utf8(Command::new(program).args(args).output().unwrap().stdout);
    let claude = claude_binary();
    let claude = claude.parent().unwrap().display().to_string();
    let node = "require('path').dirname(process.execPath)";
    let node = Command::new("node").args(["-p", node]).output().unwrap();
    let node = String::from_utf8(node.stdout).unwrap();
    let (tools, node) = (tools.unwrap(), node.trim().to_owned());
    env.var("PATH", &format!("{claude}:{}:{node}:/usr/bin:/bin", tools.trim()));
    Real::ClaudeCli.ask(&mut env, model);
    env.var("RALPH_ENV__PASS", r#"["DISABLE_*", "CLAUDE_CODE_*", "IS_SANDBOX"]"#);
    git(&env, &["init", "--quiet"]);
    git(&env, &["add", "-A"]);
    git(&env, &["commit", "--quiet", "-m", "as it was"]);
    env.ralph(&["init", "--agent", "claude"]).expect(0).says("fails now, as it should");
    let prompt = env.read("PROMPT.md");
    env.write(
        "PROMPT.md",
        format!(
            "# Make `add` add its two arguments\n\nDo not touch the tests.\n{}",
            claim_part(&prompt)
        ),
    );
    env.ralph(&["doctor"]).expect(0);
    env
}

/// What `init` says of how to claim stays where it is.
fn claim_part(prompt: &str) -> String {
    prompt.split_once("\n## ").map_or_else(String::new, |(_, rest)| format!("\n## {rest}"))
}

fn bash(command: &str) -> Turn {
    Turn::tool("Bash", &json!({"command": command, "description": "work"}))
}

fn accepts_correct_work(repository: &Repository) {
    let model =
        ModelServer::scripted(Script::new().then(bash(repository.work)).then(Turn::text(CLAIM)));
    let env = clone(repository, &model);
    env.run().expect(0).says("completed");
    assert_eq!(env.status()["iterations"], 1);
    assert_eq!(env.status()["latch"]["validated"], true);
    assert!(of_run(&env.root()).is_empty());
}

#[test]
fn python_completes_in_one_iteration() {
    accepts_correct_work(&PYTHON);
}

#[test]
fn node_completes_in_one_iteration() {
    accepts_correct_work(&NODE);
}

#[test]
fn rust_completes_in_one_iteration() {
    accepts_correct_work(&RUST);
}

/// One fraud after the other in one run: each is claimed, and each claim is refused.
/// What is protected in the other languages, `init` says.
#[test]
fn python_refuses_deleted_and_weakened_tests_and_no_work() {
    let weakened = "printf 'import unittest\\n\\nclass TestAdd(unittest.TestCase):\\n    def test_add(self):\\n        \
                    pass\\n' > tests/test_calc.py";
    let frauds = ["true", "rm tests/test_calc.py", weakened];
    let script = frauds
        .iter()
        .fold(Script::new(), |script, fraud| script.then(bash(fraud)).then(Turn::text(CLAIM)));
    let model = ModelServer::scripted(script);
    let env = clone(&PYTHON, &model);
    let ended = env.ralph(&["run", "--max-iterations", "3"]);
    assert_eq!(ended.code, Some(1), "{}\n{}", ended.stdout, ended.stderr);
    assert_eq!(env.status()["iterations"], 3);
    assert_eq!(env.status()["latch"]["rejections"], 3);
    assert_eq!(env.status()["latch"]["state"], "claimed");
}
