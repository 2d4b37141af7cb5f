//! Where tasks are found, and the forms beside Harbor's.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::symlink;

use ralph_orchestrator_bench::task::{Capabilities, IsolationKind, TaskForm, Verification, load};

use super::scratch::{Scratch, list, namespace};

fn exercise() -> Scratch {
    let scratch = Scratch::new();
    scratch.write(
        "task/.meta/config.json",
        r#"{"authors": ["ada"], "contributors": [], "blurb": "About it", "files": {
            "solution": ["leap.py"], "test": ["leap_test.py"], "example": [".meta/example.py"]}}"#,
    );
    scratch.write("task/.meta/example.py", "solved");
    scratch.write("task/.docs/instructions.md", "# Instructions\n\nLeap.\n");
    scratch.write("task/.docs/instructions.append.md", "# Append\n");
    scratch.write("task/leap.py", "stub");
    scratch.write("task/leap_test.py", "test");
    scratch.write("task/data/years.txt", "2000");
    scratch
}

#[test]
fn loads_an_exercise() {
    let scratch = exercise();
    let task = scratch.task();
    assert_eq!((task.form, task.name.as_str()), (TaskForm::Exercism, "task"));
    assert_eq!(task.about.description, "About it");
    let instruction = task.steps[0].instruction.clone().unwrap();
    assert!(
        instruction.starts_with("# Instructions\n\nLeap.\n\n# Append\n\nEdit leap.py"),
        "{instruction}"
    );
    assert_eq!(scratch.obstacles(&namespace()), Vec::<String>::new());
    let staged = scratch.stage().unwrap();
    let app = staged.host_path("/app").unwrap();
    assert_eq!(list(&app), ["data/", "data/years.txt", "leap.py"]);
    assert_eq!(staged.workdir, "/app");
    let Verification::Command { program, .. } = &task.steps[0].verification else { panic!() };
    assert_eq!(program.join(" "), "python3 -m pytest -q -p no:cacheprovider leap_test.py");
    fs::write(app.join("leap_test.py"), "of the agent").unwrap();
    fs::create_dir(app.join("x")).unwrap();
    assert_eq!(task.install_tests(&task.steps[0], &staged, &scratch.path("tests")).unwrap(), None);
    assert_eq!(fs::read_to_string(app.join("leap_test.py")).unwrap(), "test");
    task.install_solution(&task.steps[0], &staged, &scratch.path("solution")).unwrap();
    assert_eq!(fs::read_to_string(app.join("leap.py")).unwrap(), "solved");
}

#[test]
fn an_exercise_in_an_unknown_language_is_an_obstacle() {
    let scratch = exercise();
    let config = r#"{"files": {"solution": ["leap.py"], "test": ["leap.t"], "example": []}}"#;
    scratch.write("task/.meta/config.json", config);
    scratch.write("task/leap.t", "");
    let obstacles = scratch.obstacles(&namespace());
    assert!(
        obstacles[0]
            .starts_with(".meta/config.json: no command is known that runs tests such as leap.t"),
        "{obstacles:?}"
    );
    assert!(scratch.task().steps[0].oracle.is_none());
}

#[test]
fn mistakes_of_an_exercise_are_named() {
    for (config, expected) in [
        ("{", "task/.meta/config.json:1:"),
        (r#"{"files": {"solution": ["a"]}}"#, "missing field `test`"),
        (r#"{"files": {"solution": [], "test": ["leap_test.py"]}}"#, "`files.solution` is empty"),
        (
            r#"{"files": {"solution": ["none.py"], "test": ["leap_test.py"]}}"#,
            "names none.py, which is not there",
        ),
        (
            r#"{"files": {"solution": ["../x"], "test": ["leap_test.py"]}}"#,
            "write a path below the exercise",
        ),
        (
            r#"{"files": {"solution": ["/etc/passwd"], "test": ["leap_test.py"]}}"#,
            "write a path below the exercise",
        ),
        (
            r#"{"files": {"solution": ["data"], "test": ["leap_test.py"]}}"#,
            "names data, which is not there",
        ),
    ] {
        let scratch = exercise();
        scratch.write("task/.meta/config.json", config);
        let refusal = scratch.refusal();
        assert!(refusal.contains(expected), "{config}\n{refusal}");
    }
    let scratch = exercise();
    fs::remove_file(scratch.path("task/.docs/instructions.md")).unwrap();
    assert!(scratch.refusal().contains(".docs/instructions.md: is missing"));
}

#[test]
fn loads_the_own_form_which_any_isolation_can_run() {
    let scratch = Scratch::new();
    scratch.write("task/ralph.toml", "[[validator]]\nkind = \"command\"\n");
    scratch.write("task/template/file", "x");
    let task = scratch.task();
    assert_eq!((task.form, task.steps[0].instruction.as_ref()), (TaskForm::Own, None));
    let nothing = Verification::Validators { files: Vec::new() };
    assert_eq!(task.steps[0].verification, nothing);
    assert_eq!(task.find_obstacles(&Capabilities::new(IsolationKind::None)), []);
    let staged = scratch.stage().unwrap();
    assert_eq!(list(&staged.root), ["ralph.toml", "template/", "template/file"]);
    assert_eq!(staged.host_path(".").unwrap(), staged.root);
    scratch.write("task/ralph.toml", "[run]\n");
    assert!(scratch.refusal().contains("task/ralph.toml:1:1: there is no [[validator]]"));
    scratch.write("task/ralph.toml", "[run");
    assert!(scratch.refusal().contains("task/ralph.toml:1:5:"), "{}", scratch.refusal());
}

#[test]
fn finds_tasks_below_a_folder_in_the_order_of_their_paths() {
    let scratch = Scratch::harbor("");
    for name in [
        "set/b/inner",
        "set/a",
        "set/.hidden",
        "set/1/2/3/4/5/6/7/deep",
        "set/1/2/3/4/5/6/7/8/too-deep",
    ] {
        scratch.write(&format!("{name}/ralph.toml"), "validator = []\n");
    }
    scratch.write("set/a/nested/ralph.toml", "validator = []\n");
    scratch.write("set/README.md", "");
    let tasks = load(&[scratch.path("set")]).unwrap();
    let names: Vec<&str> = tasks.iter().map(|task| task.name.as_str()).collect();
    assert_eq!(names, ["deep", "a", "inner"]);
}

#[test]
fn tells_tasks_of_the_same_name_apart_by_the_folders_in_which_they_differ() {
    let scratch = Scratch::new();
    for name in ["set/go/practice/x", "set/rust/practice/x", "set/rust/practice/y"] {
        scratch.write(&format!("{name}/ralph.toml"), "validator = []\n");
    }
    let names = |folders: &[&str]| {
        let folders: Vec<_> = folders.iter().map(|folder| scratch.path(folder)).collect();
        let tasks = load(&folders).unwrap();
        tasks.into_iter().map(|task| task.name).collect::<Vec<_>>()
    };
    assert_eq!(names(&["set"]), ["go/x", "rust/x", "y"]);
    assert_eq!(names(&["set/go", "set/rust"]), ["go/x", "rust/x", "y"]);
    assert_eq!(names(&["set/go", "set", "set/go/practice/x"]), ["go/x", "rust/x", "y"]);
    assert_eq!(names(&["set/go"]), ["x"]);
    scratch.write("set/rust/practice/z/x/ralph.toml", "validator = []\n");
    assert_eq!(names(&["set/rust"]), ["x", "y", "z/x"]);
}

#[test]
fn refuses_folders_without_tasks_and_links() {
    let scratch = Scratch::new();
    fs::create_dir_all(scratch.path("task")).unwrap();
    assert!(
        scratch.refusal().contains("no task found; expected task.toml, ralph.toml"),
        "{}",
        scratch.refusal()
    );
    let missing = load(&[scratch.path("none")]).unwrap_err().to_string();
    assert!(missing.contains("none: No such file"), "{missing}");
    scratch.write("task/a/same/ralph.toml", "validator = []\n");
    symlink(scratch.path("task/a/same"), scratch.path("task/link")).unwrap();
    assert!(scratch.refusal().contains("task/link: is a link to a task"), "{}", scratch.refusal());
}

#[test]
fn the_same_task_elsewhere_has_the_same_digest() {
    let digest = |scratch: &Scratch| scratch.task().digest;
    let one = exercise();
    assert_eq!(digest(&one), digest(&exercise()));
    let before = digest(&one);
    one.write("task/data/years.txt", "2001");
    assert_ne!(digest(&one), before);
    assert_eq!(before.len(), 64);
    assert_eq!(one.task().stage(&one.path("s"), &BTreeMap::new()).unwrap().env, BTreeMap::new());
}

fn terminal_bench(yaml: &str, compose: &str) -> Scratch {
    let scratch = Scratch::new();
    scratch.write("task/task.yaml", yaml);
    scratch.write("task/Dockerfile", "FROM debian:12\nWORKDIR /app\n");
    scratch.write("task/docker-compose.yaml", compose);
    scratch.write("task/run-tests.sh", "pytest -rA $TEST_DIR/test_outputs.py\n");
    scratch.write("task/tests/test_outputs.py", "test");
    scratch.write("task/solution.sh", "solve");
    scratch
}

const TERMINAL_BENCH: &str = "# canary\ninstruction: |-\n  Do it.\n  All of it.\nauthor_name: A\n\
                              author_email: unknown\ndifficulty: easy\ntags:\n  - files\nparser_name: pytest\n\
                              max_agent_timeout_sec: 90.5\nunknown_key: [1]\n";
const COMPOSE: &str = "services:\n  client:\n    build:\n      dockerfile: Dockerfile\n    image: ${A}\n    \
                       command: [\"sh\", \"-c\", \"sleep infinity\"]\n    environment:\n      \
                       - TEST_DIR=${T_BENCH_TEST_DIR}\n    volumes:\n      - ${T_BENCH_TASK_LOGS_PATH}:${X}\n";

#[test]
fn loads_a_task_of_terminal_bench_1() {
    let scratch = terminal_bench(TERMINAL_BENCH, COMPOSE);
    let task = scratch.task();
    assert_eq!((task.form, task.name.as_str()), (TaskForm::TerminalBench, "task"));
    let step = &task.steps[0];
    assert_eq!(step.instruction.as_deref(), Some("Do it.\nAll of it."));
    assert_eq!(step.agent.timeout.unwrap().as_secs_f64(), 90.5);
    assert_eq!(step.verifier.timeout.as_secs(), 60);
    assert_eq!(step.verifier.env["TEST_DIR"], "/tests");
    assert_eq!(scratch.obstacles(&namespace()), Vec::<String>::new());
    let staged = scratch.stage().unwrap();
    let tests = task.install_tests(step, &staged, &scratch.path("tests")).unwrap().unwrap();
    assert_eq!(list(&tests), ["run-tests.sh", "test_outputs.py"]);
    let solution =
        task.install_solution(step, &staged, &scratch.path("solution")).unwrap().unwrap();
    assert!(solution.join("solution.sh").is_file());
}

#[test]
fn what_of_a_task_of_terminal_bench_1_cannot_be_honoured_is_said() {
    for (yaml, expected) in [
        ("parser_name: swebench", "`parser_name` is \"swebench\""),
        ("run_tests_in_same_shell: true", "`run_tests_in_same_shell` is true"),
        ("max_test_timeout_sec: -1", "`max_test_timeout_sec` is -1"),
        ("tags: {", "task.yaml:"),
    ] {
        let yaml = format!("instruction: x\n{yaml}\n");
        let scratch = terminal_bench(&yaml, COMPOSE);
        let error = load(&[scratch.path("task")]).unwrap_err().to_string();
        assert!(error.contains(expected), "{error}");
    }
    let more =
        ["    privileged: true\n", "    ports: [\"80:80\"]\n", "  db:\n    image: postgres\n"];
    let volume = COMPOSE.replace("${T_BENCH_TASK_LOGS_PATH}", "/etc");
    let variable = COMPOSE.replace("- TEST_DIR=${T_BENCH_TEST_DIR}", "- OTHER=1");
    let context = COMPOSE.replace("dockerfile: Dockerfile", "context: ..");
    let all = more.map(|line| format!("{COMPOSE}{line}")).into_iter();
    for compose in all.chain([volume, variable, context]) {
        let scratch = terminal_bench(TERMINAL_BENCH, &compose);
        let obstacles = scratch.obstacles(&namespace());
        assert!(
            obstacles.iter().any(|one| one.contains("only tasks with one Dockerfile")),
            "{compose}"
        );
    }
}
