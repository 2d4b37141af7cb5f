//! What `init` writes is a proof: with the real tools, work is accepted only if the tests that were there
//! pass.

use std::fs;
use std::process::Command;

use crate::environment::TestEnvironment;

const DONE: &str = "<promise>COMPLETE: made it</promise>\n";

struct Project {
    /// The program that says where the language's tools are, and how.
    tools: &'static [&'static str],
    files: &'static [(&'static str, &'static str)],
    /// The files whose tests count.
    tests: &'static str,
    /// What ends the work, as shell.
    work: &'static str,
}

const PYTHON: Project = Project {
    tools: &["python3", "-c", "import sys; print(sys.prefix)"],
    files: &[
        ("calc.py", "def add(a, b):\n    return 0\n"),
        (
            "tests/test_calc.py",
            "import unittest\n\nimport calc\n\n\nclass T(unittest.TestCase):\n    def test_add(self):\n        \
             self.assertEqual(calc.add(1, 2), 3)\n",
        ),
    ],
    tests: "tests/test_calc.py",
    work: "printf 'def add(a, b):\\n    return a + b\\n' > calc.py",
};

const NODE: Project = Project {
    tools: &["node", "-p", "require('path').dirname(require('path').dirname(process.execPath))"],
    files: &[
        ("package.json", r#"{"name": "calc", "scripts": {"test": "node --test"}}"#),
        ("calc.js", "exports.add = () => 0;\n"),
        (
            "test/calc.test.js",
            "const test = require('node:test');\nconst assert = require('node:assert');\n\
             test('add', () => assert.strictEqual(require('../calc.js').add(1, 2), 3));\n",
        ),
    ],
    tests: "test/calc.test.js",
    work: "echo 'exports.add = (a, b) => a + b;' > calc.js",
};

const RUST: Project = Project {
    tools: &["rustc", "--print", "sysroot"],
    files: &[
        ("Cargo.toml", "[package]\nname = \"calc\"\nversion = \"0.1.0\"\nedition = \"2021\"\n"),
        ("src/lib.rs", "pub fn add(_: i32, _: i32) -> i32 {\n    0\n}\n"),
        ("tests/add.rs", "#[test]\nfn adds() {\n    assert_eq!(calc::add(1, 2), 3);\n}\n"),
        (".gitignore", "target/\nCargo.lock\n"),
    ],
    tests: "tests/add.rs",
    work: "printf 'pub fn add(a: i32, b: i32) -> i32 {\\n    a + b\\n}\\n' > src/lib.rs",
};

/// The repository after `init`, with a fake agent in place of the one that `init` names.
fn project(project: &Project) -> TestEnvironment {
    let mut env = TestEnvironment::new();
    fs::remove_file(env.path("ralph.toml")).unwrap();
    fs::remove_file(env.path("PROMPT.md")).unwrap();
    for (name, text) in project.files {
        env.write(name, text);
    }
    let [program, args @ ..] = project.tools else { unreachable!() };
    let output = Command::new(program).args(args).output().unwrap();
    let home = String::from_utf8(output.stdout).unwrap();
    // Not through a version manager, which wants a home of its own.
    env.var("PATH", &format!("{}/bin:/usr/bin:/bin", home.trim()));
    let ended = env.ralph(&["init", "--goal", "Make the tests pass."]).expect(0);
    ended.says("fails now, as it should");
    let mut config: toml::Table = toml::from_str(&env.read("ralph.toml")).unwrap();
    let agent = env.agent.program().display().to_string();
    let agent = format!("adapter = \"command\"\nunmetered = true\nconfig.program = [{agent:?}]");
    config.insert("agent".into(), toml::from_str(&agent).unwrap());
    config["run"].as_table_mut().unwrap().insert("delay".into(), "0s".into());
    config["limits"].as_table_mut().unwrap().insert("max_rejections".into(), 10.into());
    env.write("ralph.toml", toml::to_string(&config).unwrap());
    env
}

/// Nothing but the work completes the run.
#[track_caller]
fn is_a_proof(of: &Project) {
    let env = project(of);
    let (tests, work) = (of.tests, of.work);
    let folder = tests.split('/').next().unwrap();
    env.agent.call(1).script(&format!("mv {folder} \"$FAKE_DIR/saved\"\n")).out(DONE);
    env.agent.call(2).script(&format!("mkdir {folder}; : > {tests}\n")).out(DONE);
    env.agent
        .call(3)
        .script(&format!("rm -r {folder}; cp -r \"$FAKE_DIR/saved\" {folder}\n"))
        .out(DONE);
    env.agent.call(4).script(&format!("{work}\n")).out(DONE);
    let ended = env.run().expect(0);
    assert_eq!(env.agent.calls(), 4, "{}", ended.stderr);
    let given = |call| String::from_utf8(env.agent.stdin(call)).unwrap();
    assert!(given(2).contains(&format!("{tests} (removed)")), "{}", given(2));
    assert!(given(3).contains(&format!("{tests} (modified)")), "{}", given(3));
    assert!(given(4).contains("failed: "), "{}", given(4));
}

/// Without anything protected, a run without tests proves nothing either.
#[track_caller]
fn demands_a_test(of: &Project) {
    let env = project(of);
    let config = env.read("ralph.toml");
    let (before, protect) = config.split_once("protect = [").unwrap();
    let (_, after) = protect.split_once("]\n").unwrap();
    env.write("ralph.toml", format!("{before}{after}"));
    let folder = of.tests.split('/').next().unwrap();
    let script = format!("{}; rm -r {folder}\n", of.work);
    env.agent.call(1).script(&script).out(DONE);
    env.agent.default_call().out(DONE);
    let ended = env.ralph(&["run", "--max-iterations", "2"]).expect(1);
    assert_ne!(env.status()["phase"], "completed", "{}", ended.stderr);
    let second = String::from_utf8(env.agent.stdin(2)).unwrap();
    assert!(second.contains("REJECTED"), "{second}");
}

#[test]
fn tests_in_python_can_neither_be_deleted_nor_emptied() {
    is_a_proof(&PYTHON);
    demands_a_test(&PYTHON);
}

#[test]
fn tests_in_javascript_can_neither_be_deleted_nor_emptied() {
    is_a_proof(&NODE);
    demands_a_test(&NODE);
}

#[test]
fn tests_in_rust_can_neither_be_deleted_nor_emptied() {
    is_a_proof(&RUST);
    demands_a_test(&RUST);
}

/// Starts a run whose agent puts a program in the place of what the check runs, and whose claim is refused for that.
fn replaced_by(fake: &str) -> TestEnvironment {
    let env = project(&PYTHON);
    let script = format!(
        "mkdir -p unittest; echo 'print(\"Ran 9 tests in 0.1s\"); raise SystemExit(0)' > {fake}; \
         rmdir unittest 2>/dev/null\n"
    );
    env.agent.call(1).script(&script).out(DONE);
    refused_for(&env, fake);
    env
}

fn refused_for(env: &TestEnvironment, fake: &str) {
    env.ralph(&["run", "--once"]).says("were not there when the run began").says(fake);
    assert_ne!(env.status()["phase"], "completed", "{fake}");
}

#[test]
fn what_python_would_run_instead_of_its_own_must_not_appear() {
    for fake in ["unittest.py", "argparse.py", "unittest.pyc"] {
        replaced_by(fake);
    }
    let fake = "unittest/__main__.py";
    let env = replaced_by(fake);
    // What is reserved was recorded when the run began: a later start knows it, too.
    env.agent.call(2).out(DONE);
    refused_for(&env, fake);
    env.agent.call(3).script(&format!("rm -rf unittest*; {}\n", PYTHON.work)).out(DONE);
    env.run().expect(0);
    assert_eq!(env.agent.calls(), 3);
}

#[test]
fn a_module_that_was_there_when_the_run_began_is_the_users_own() {
    let env = TestEnvironment::new();
    let config = env.read("ralph.toml");
    let program = "program = [\"python3\", \"-m\", \"check\"]";
    env.write("ralph.toml", config.replace("program = [\"test\", \"-e\", \"done\"]", program));
    env.write("check/__init__.py", "").write("check/__main__.py", "open('done')\n");
    env.ralph(&["doctor"]).expect(0).says("lies in the workspace and is not protected");
    env.agent
        .call(1)
        .script("touch done; echo '# more' >> check/__main__.py; echo > check/new.py\n")
        .out(DONE);
    env.run().expect(0);
    // But nothing may take its place.
    let config = env.read("ralph.toml");
    env.write("ralph.toml", config.replace("\"check\"", "\"other\""))
        .write("other.py", "open('more')\n");
    env.agent.call(2).script("mkdir other; touch other/__init__.py other/__main__.py\n").out(DONE);
    env.ralph(&["run", "--restart", "--once"]).says("other/__main__.py (added)");
    assert_ne!(env.status()["phase"], "completed");
}

#[test]
fn a_path_that_make_takes_for_its_target_completes_nothing() {
    let env = TestEnvironment::new();
    let config = env.read("ralph.toml");
    let check = "program = [\"make\", \"test\"]";
    env.write("ralph.toml", config.replace("program = [\"test\", \"-e\", \"done\"]", check));
    env.write("Makefile", "test:\n\ttest -e done\n");
    env.agent.call(1).script("touch test\n").out(DONE);
    env.agent.call(2).script("rm test; mkdir -p test/deep\n").out(DONE);
    env.agent.call(3).script("rm -r test; touch done\n").out(DONE);
    env.run().expect(0);
    assert_eq!(env.agent.calls(), 3);
    for call in [2, 3] {
        let prompt = String::from_utf8(env.agent.stdin(call)).unwrap();
        assert!(prompt.contains("change what `make test` does"), "{prompt}");
        assert!(prompt.contains("test (added)"), "{prompt}");
    }
}

#[test]
fn settings_that_would_change_a_protected_check_must_not_appear() {
    let env = TestEnvironment::new();
    let config = env.read("ralph.toml");
    let check = "program = [\"make\", \"test\"]\nprotect = [\"Makefile\"]";
    env.write("ralph.toml", config.replace("program = [\"test\", \"-e\", \"done\"]", check));
    env.write("Makefile", "test:\n\ttest -e done\n");
    env.agent.call(1).script("printf 'test:\\n\\ttrue\\n' > GNUmakefile\n").out(DONE);
    env.agent.call(2).script("rm GNUmakefile; touch done\n").out(DONE);
    let ended = env.run().expect(0);
    assert_eq!(env.agent.calls(), 2, "{}", ended.stderr);
    assert!(String::from_utf8(env.agent.stdin(2)).unwrap().contains("GNUmakefile (added)"));
}

#[test]
fn a_module_that_is_not_installed_is_no_rejection() {
    let env = TestEnvironment::new();
    let config = env.read("ralph.toml");
    let program = "program = [\"python3\", \"-m\", \"no_such_module\"]";
    env.write("ralph.toml", config.replace("program = [\"test\", \"-e\", \"done\"]", program));
    let doctor = env.ralph(&["doctor"]).expect(0);
    doctor.says("no verdict by `tests`").says("no_such_module is not installed");
}
