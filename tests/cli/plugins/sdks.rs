//! The packages for plugins in Python and Node.js: their own tests, type checkers, and the conformance tests on plugins
//! that import them.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use super::author::{author, blocks, ended};
use crate::environment::{Ended, TestEnvironment};

const SOURCE: &str = env!("CARGO_MANIFEST_DIR");

/// A program that a script of this repository installs below `target`.
fn installed(program: &str, script: &str) -> PathBuf {
    let path = Path::new(SOURCE).join("target").join(program);
    assert!(path.exists(), "{} is missing: run `scripts/{script}` once", path.display());
    path
}

fn run_in(folder: &Path, program: impl AsRef<std::ffi::OsStr>, arguments: &[&str]) -> Ended {
    let mut command = Command::new(program);
    // What a test runner says of itself to its children, and where compiled modules would be left.
    command.env_remove("NODE_TEST_CONTEXT").env("PYTHONDONTWRITEBYTECODE", "1");
    command.current_dir(folder).args(arguments);
    ended(command)
}

fn run_mypy(folder: &Path, arguments: &[&str]) -> Ended {
    let mypy = installed("python/bin/mypy", "install-python-tools");
    let fixed = ["--strict", "--cache-dir", "/dev/null"];
    run_in(folder, mypy, &[&fixed, arguments].concat())
}

/// Checks Python 3.9, which mypy no longer knows.
fn run_pyright(folder: &Path, mode: &str) -> Ended {
    let pyright = installed("agents/node_modules/.bin/pyright", "install-agents");
    let config = format!(r#"{{"typeCheckingMode": "{mode}", "pythonVersion": "3.9"}}"#);
    fs::write(folder.join("pyrightconfig.json"), config).unwrap();
    run_in(folder, pyright, &["--project", "."])
}

fn run_tsc(folder: &Path, files: &[&str]) -> Ended {
    let tsc = installed("agents/node_modules/.bin/tsc", "install-agents");
    let types = installed("agents/node_modules/@types", "install-agents");
    let types = types.to_str().unwrap();
    let fixed = ["--noEmit", "--strict", "--allowJs", "--checkJs", "--noUncheckedIndexedAccess"];
    let kind =
        ["--module", "nodenext", "--target", "es2022", "--types", "node", "--typeRoots", types];
    run_in(folder, tsc, &[&fixed, &kind[..], files].concat())
}

/// Copies what the package consists of, with its tests.
fn copy_of(package: &str) -> (TestEnvironment, PathBuf) {
    let env = TestEnvironment::new();
    let folder = env.path(package);
    let from = Path::new(SOURCE).join("sdks").join(package);
    let copied =
        run_in(&env.root(), "cp", &["-r", from.to_str().unwrap(), folder.to_str().unwrap()]);
    copied.expect(0);
    (env, folder)
}

#[test]
fn the_package_for_python_passes_its_tests() {
    let folder = Path::new(SOURCE).join("sdks/python");
    let ended =
        run_in(&folder, "python3", &["-m", "unittest", "discover", "-s", "tests"]).expect(0);
    ended.says("OK");
}

#[test]
fn the_package_for_node_passes_its_tests() {
    let folder = Path::new(SOURCE).join("sdks/node");
    run_in(&folder, "node", &["--test"]).expect(0).says("# fail 0");
}

#[test]
fn type_checkers_accept_the_package_for_python() {
    let (_env, folder) = copy_of("python");
    run_mypy(&folder, &["src", "tests"]).expect(0).says("no issues found");
    run_pyright(&folder.join("src"), "standard").expect(0).says("0 errors");
}

#[test]
fn tsc_accepts_the_declarations_for_node_and_finds_mistakes() {
    let (_env, folder) = copy_of("node");
    run_tsc(&folder, &["src/index.d.mts", "src/testing.d.mts", "tests/types.mts"]).expect(0);
    let wrong = "import { accepted } from \"../src/index.mjs\";\naccepted(7);\n";
    fs::write(folder.join("tests/wrong.mts"), wrong).unwrap();
    run_tsc(&folder, &["tests/wrong.mts"]).says("wrong.mts(2,10)");
}

/// A folder with a plugin, the package beside it, and a `ralph.toml` that names both.
fn plugin_in(language: &str, file: &str, text: &str) -> TestEnvironment {
    let env = TestEnvironment::new();
    env.write(file, text);
    env.ralph(&["plugin", "sdk", language]).expect(0).says("wrote ./ralph");
    let command = match language {
        "python" => "\"python3\", \"plugin.py\", \"ralph_orchestrator_sdk/__init__.py\"",
        _ => "\"node\", \"plugin.mjs\", \"ralph-orchestrator-sdk/index.mjs\"",
    };
    env.raw_config(&format!(
        "[plugins.mine]\ncommand = [{command}]\n[agent]\nadapter = \"command\"\nunmetered = true\n\
         [agent.config]\nprogram = [\"true\"]\n\
         [[validator]]\nkind = \"command\"\nname = \"tests\"\nprogram = [\"test\", \"-e\", \"done\"]\n"
    ));
    env
}

/// Passes every scenario of an agent.
fn chat_agent_holds(language: &str, file: &str) {
    let example = Path::new(SOURCE).join("sdks").join(language).join("examples/chat-agent");
    let env = plugin_in(language, file, &fs::read_to_string(example.join(file)).unwrap());
    env.write("conformance.toml", fs::read(example.join("conformance.toml")).unwrap());
    let ended = env.ralph(&["plugin", "test", "mine"]).expect(0);
    ended.says("all checks passed");
    let rows = ended.stdout.lines().filter(|line| line.contains(" passed ")).count();
    assert_eq!(rows, 24, "{}", ended.stdout);
}

#[test]
fn an_agent_in_python_passes_every_scenario() {
    chat_agent_holds("python", "plugin.py");
}

#[test]
fn an_agent_in_node_passes_every_scenario() {
    chat_agent_holds("node", "plugin.mjs");
}

/// A detector that observes and strips, a validator that runs a program and a format of backlogs pass theirs.
fn other_kinds_hold(env: &TestEnvironment) {
    env.write(
        "conformance.toml",
        "[[items.marks.workspace]]\nname = \"marked\"\ntext = \"<<all>>\"\nexpect = \"claim\"\n\
         [[items.marks.workspace]]\nname = \"plain\"\ntext = \"all\"\nexpect = \"none\"\n\
         [[items.written.workspace]]\nname = \"there\"\nfiles = { \"a.txt\" = \"x\" }\nexpect = \"accepted\"\n\
         [[items.written.workspace]]\nname = \"missing\"\nexpect = \"rejected\"\n",
    );
    let ended = env.ralph(&["plugin", "test", "mine"]).expect(0);
    ended
        .says("all checks passed")
        .says("detector marks")
        .says("validator written")
        .says("backlog boxes");
    let rows = ended.stdout.lines().filter(|line| line.contains(" passed ")).count();
    assert_eq!(rows, 12 + 12 + 10, "{}", ended.stdout);
}

#[test]
fn the_other_kinds_in_python_pass_every_check() {
    let env = plugin_in("python", "plugin.py", include_str!("every_kind.py"));
    run_mypy(&env.workspace(), &["plugin.py"]).expect(0);
    other_kinds_hold(&env);
}

#[test]
fn the_other_kinds_in_node_pass_every_check() {
    let env = plugin_in("node", "plugin.mjs", include_str!("every_kind.mjs"));
    run_tsc(&env.workspace(), &["plugin.mjs"]).expect(0);
    other_kinds_hold(&env);
}

#[test]
fn type_checkers_accept_what_plugin_new_writes() {
    let env = TestEnvironment::new();
    for kinds in ["agent", "detector", "validator", "agent,detector,validator"] {
        for language in ["python", "node"] {
            let name = format!("{language}-{}", kinds.replace(',', "-"));
            env.ralph(&["plugin", "new", &name, "--kind", kinds, "--language", language]).expect(0);
            let folder = env.path(&name);
            if language == "node" {
                run_tsc(&folder, &["plugin.mjs", "plugin.test.mjs"]).expect(0);
                run_in(&folder, "node", &["--test"]).expect(0).says("# fail 0");
            } else {
                run_mypy(&folder, &["."]).expect(0);
                run_pyright(&folder, "standard").expect(0).says("0 errors");
                run_in(&folder, "python3", &["-m", "unittest"]).expect(0).says("OK");
            }
        }
    }
    // They are really checked.
    let plugin = env.path("python-agent/plugin.py");
    let text = fs::read_to_string(&plugin).unwrap().replace("return self.config.says", "return 7");
    fs::write(&plugin, text).unwrap();
    run_mypy(&env.path("python-agent"), &["plugin.py"]).expect(1).says("return-value");
    let plugin = env.path("node-validator/plugin.mjs");
    let text =
        fs::read_to_string(&plugin).unwrap().replace("return accepted(this.demands)", "return 7");
    fs::write(&plugin, text).unwrap();
    run_tsc(&env.path("node-validator"), &["plugin.mjs"]).says("Type 'number' is not assignable");
}

#[test]
fn a_package_is_a_part_of_the_plugins_digest() {
    let env = TestEnvironment::new();
    for (language, package) in [
        ("python", "ralph_orchestrator_sdk/__init__.py"),
        ("node", "ralph-orchestrator-sdk/index.mjs"),
    ] {
        env.ralph(&["plugin", "new", language, "--kind", "validator", "--language", language])
            .expect(0);
        let config = env.path(language).join("ralph.toml");
        let list = ["plugin", "list", "-c", config.to_str().unwrap()];
        let before = env.ralph(&list).expect(0).stdout;
        let package = env.path(language).join(package);
        let text = fs::read_to_string(&package).unwrap();
        let comment = if language == "node" { "//" } else { "#" };
        fs::write(&package, format!("{text}{comment}\n")).unwrap();
        assert_ne!(env.ralph(&list).expect(0).stdout, before, "{language}");
    }
}

#[test]
fn an_older_package_is_replaced_and_nothing_else() {
    let env = TestEnvironment::new();
    env.ralph(&["plugin", "sdk", "python"]).expect(0);
    let module = "ralph_orchestrator_sdk/__init__.py";
    let now = env.read(module);
    let older = "# Of ralph-orchestrator 0.0.1, MIT OR Apache-2.0.\nraise SystemExit\n";
    env.write(module, older);
    env.ralph(&["plugin", "sdk", "python"]).expect(0).says(env!("CARGO_PKG_VERSION"));
    assert_eq!(env.read(module), now);
    env.write("ralph-orchestrator-sdk/testing.mjs", "// mine\n");
    let ended = env.ralph(&["plugin", "sdk", "node"]).expect(64);
    ended.says("testing.mjs is not a file of the package").says("--path DIR");
    assert!(!env.path("ralph-orchestrator-sdk/index.mjs").exists());
    // What a link leads to belongs to somebody else.
    fs::remove_file(env.path(module)).unwrap();
    env.write("other.py", "mine\n");
    std::os::unix::fs::symlink(env.path("other.py"), env.path(module)).unwrap();
    env.ralph(&["plugin", "sdk", "python"]).expect(64).says("is not a file of the package");
    assert_eq!(env.read("other.py"), "mine\n");
    env.ralph(&["plugin", "sdk", "node", "--path", "new/folder"]).expect(0).says("new/folder");
    assert!(env.path("new/folder/ralph-orchestrator-sdk/index.d.mts").exists());
}

/// Has every plugin of the page pass its tests.
fn example_holds(language: &str, text: &str) -> TestEnvironment {
    let file = if language == "python" { "plugin.py" } else { "plugin.mjs" };
    let env = plugin_in(if language == "python" { "python" } else { "node" }, file, text);
    let conformance = if text.contains("Notes") {
        "[config]\nfile = \"a\"\n\
         [[workspace]]\nname = \"there\"\nfiles = { \"a\" = \"x\" }\nexpect = \"accepted\"\n\
         [[workspace]]\nname = \"missing\"\nexpect = \"rejected\"\n"
    } else {
        "[[skip]]\nscenarios = [\"start\", \"long-prompt\", \"order\", \"bad-output\", \"flood\", \"drop\", \
         \"cancel-in-tool\", \"tree-end\", \"cancel-at-first-event\", \"deadline\", \"cancel-in-message\", \
         \"hand-off\"]\nwhy = \"it does nothing else\"\n"
    };
    env.write("conformance.toml", conformance);
    env.ralph(&["plugin", "test", "mine"]).expect(0).says("all checks passed");
    let lines = text.lines().count();
    assert!(lines <= 15, "{lines} lines:\n{text}");
    env
}

#[test]
fn the_page_about_the_packages_is_true() {
    let page = Path::new(SOURCE).join("docs/dev/plugins-in-python-and-node.md");
    let page = fs::read_to_string(page).unwrap();
    let (mut plugins, mut validator) = (0, None);
    for (language, text) in blocks(&page) {
        match language.as_str() {
            "sh" => {
                let env = TestEnvironment::new();
                let mut command = author(&env, "bash", &env.root());
                command.args(["-euxc", &text]);
                ended(command).expect(0).says("completed: 1 iteration");
            }
            "python" if text.contains("import Workspace") => {
                let env: &TestEnvironment = validator.as_ref().unwrap();
                env.write("test.py", text);
                run_in(&env.workspace(), "python3", &["test.py"]).expect(0);
            }
            "python" | "js" => {
                let env = example_holds(&language, &text);
                validator = validator.or(Some(env));
                plugins += 1;
            }
            "toml" => {
                let env: &TestEnvironment = validator.as_ref().unwrap();
                let agent = "[agent]\nadapter = \"command\"\nunmetered = true\n[agent.config]\n\
                             program = [\"sh\", \"-c\", \"echo x > notes.txt; echo '<promise>COMPLETE</promise>'\"]\n";
                env.raw_config(&format!("{agent}{text}"));
                env.ralph(&["run"]).expect(0).says("notes.txt is written");
            }
            other => panic!("a block that nothing runs: {other}\n{text}"),
        }
    }
    assert_eq!(plugins, 4);
}

/// The packages have the version of the program, need nothing, and cannot be published by mistake under names that
/// anybody could take.
#[test]
fn the_packages_have_the_version_of_the_program() {
    let read = |file: &str| fs::read_to_string(Path::new(SOURCE).join("sdks").join(file)).unwrap();
    let version = env!("CARGO_PKG_VERSION");
    let python: toml::Table = read("python/pyproject.toml").parse().unwrap();
    let project = &python["project"];
    assert_eq!(project["version"].as_str(), Some(version));
    assert_eq!(project["dependencies"].as_array().map(Vec::len), Some(0));
    let classifiers = project["classifiers"].as_array().unwrap();
    assert!(classifiers.iter().any(|one| one.as_str() == Some("Private :: Do Not Upload")));
    let module = read("python/src/ralph_orchestrator_sdk/__init__.py");
    assert!(module.contains(&format!("\n__version__ = \"{version}\"\n")));
    let node: serde_json::Value = serde_json::from_str(&read("node/package.json")).unwrap();
    assert_eq!((&node["version"], &node["private"]), (&version.into(), &true.into()));
    assert_eq!(node.get("dependencies"), None);
    assert!(read("node/src/index.mjs").contains(&format!("export const version = \"{version}\";")));
}
