//! The tests that ran before any agent worked still run where a claim is accepted, and a check that cannot begin is told of
//! before anything is paid.

use serde_json::json;

use crate::environment::{Ended, TestEnvironment};

const CLAIM: &str = "<promise>COMPLETE: made it</promise>\n";
const UNITTEST: &str = "PYTHONDONTWRITEBYTECODE=1 python3 -m unittest discover -v -s tests";
const TESTS: &str = r#"import unittest
from pathlib import Path
class T(unittest.TestCase):
    def test_one(self): pass
    def test_two(self): pass
    def test_work(self): self.assertEqual(Path("work").read_text(), "done\n")
"#;
const DELETE: &str = "sed -i /test_two/d tests/test_a.py\n";

/// A workspace with three tests, of which one fails until the work is done, and this check, with further keys.
fn workspace(check: &str, keys: &str) -> TestEnvironment {
    let env = TestEnvironment::new();
    let agent = env.agent.program().display().to_string();
    env.raw_config(&format!(
        "[run]\ndelay = \"0s\"\n[agent]\nadapter = \"command\"\nunmetered = true\n[agent.config]\n\
         program = [\"{agent}\"]\n[limits]\nmax_iterations = 1\n[[validator]]\nkind = \"command\"\n\
         name = \"tests\"\nprogram = [\"sh\", \"check.sh\"]\n{keys}\n"
    ));
    env.write("check.sh", check);
    env.write("work", "begun\n");
    std::fs::create_dir(env.path("tests")).unwrap();
    env.write("tests/test_a.py", TESTS);
    env
}

/// A run whose agent does this, and claims.
fn run_with(env: &TestEnvironment, script: &str) -> Ended {
    env.agent.default_call().script(script).out(CLAIM);
    env.run()
}

#[test]
fn an_acceptance_counts_where_the_tests_of_the_start_still_run() {
    let skip = "sed -i 's/    def test_two/    @unittest.skip(\"later\")\\n&/' tests/test_a.py\n";
    let rename = "sed -i s/test_two/test_second/ tests/test_a.py\n";
    let quiet = format!("echo '{UNITTEST} 2>/dev/null' > check.sh\n");
    let forgiving = format!("echo '{UNITTEST}; exit 0' > check.sh; echo begun > work\n");
    let fall = "tests_may_fall = true";
    let gone = "but 1 test no longer runs: test_a.T.test_two. Have them run again";
    for (check, keys, cheat, code, says) in [
        (UNITTEST, "", "", 0, "(tests: 3 passed)"),
        (UNITTEST, "", DELETE, 1, gone),
        (UNITTEST, fall, DELETE, 0, "(tests: 2 passed)"),
        (UNITTEST, "", skip, 1, gone),
        (UNITTEST, "", rename, 0, "(tests: 3 passed)"),
        (UNITTEST, "", &quiet, 1, "can no longer be read from the output: 3 ran at the start"),
        (UNITTEST, fall, &quiet, 1, "can no longer be read from the output: 3 ran at the start"),
        (UNITTEST, "", &forgiving, 1, "the check accepts although 1 test failed"),
        (UNITTEST, "count_tests = false", &forgiving, 0, "accepted by 1 validator\n"),
        // Nothing can be counted, at no time.
        (&format!("{UNITTEST} 2>/dev/null"), "", DELETE, 0, "accepted by 1 validator\n"),
        // It is made to accept whatever the tests say.
        (
            &format!("{UNITTEST}; true"),
            "",
            "echo begun > work; touch new\n",
            0,
            "2 passed, 1 failed",
        ),
    ] {
        let env = workspace(check, keys);
        let ended = run_with(&env, &format!("echo done > work\n{cheat}"));
        assert_eq!(ended.code, Some(code), "{keys} {cheat}: {}", ended.stderr);
        let log = env.ralph(&["log", "1"]).stdout;
        assert!(log.contains(says), "{keys} {cheat}: {log}");
    }
}

#[test]
fn every_view_has_the_numbers() {
    let env = workspace(UNITTEST, "");
    let ended =
        run_with(&env, "echo done > work\nsed -i s/test_two/test_second/ tests/test_a.py\n");
    ended.expect(0).says("1 test no longer runs: test_a.T.test_two; new: test_a.T.test_second");
    let counts = json!({"passed": 3, "failed": 0, "skipped": 0});
    assert_eq!(env.records("validated")[0]["verdicts"][0]["tests"], counts);
    assert_eq!(env.records("baseline")[0]["verdicts"][0]["tests"]["failed"], 1);
    let why = env.ralph(&["why"]).stdout.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(why.contains("accepted (tests: 3 passed)"), "{why}");
    let why = env.ralph(&["why", "--json"]).stdout;
    let why: serde_json::Value = serde_json::from_str(&why).unwrap();
    assert_eq!(why["iterations"][0]["tests"]["tests"], counts);
    let log = env.ralph(&["log"]).stdout;
    assert!(log.contains("as it should be (tests: 2 passed, 1 failed)"), "{log}");
}

#[test]
fn a_resumed_run_compares_with_the_start() {
    for (forgets, says) in [
        (false, "1 test no longer runs: test_a.T.test_two"),
        // The journal has the numbers still.
        (true, "1 test no longer runs: 3 ran at the start, 2 now"),
    ] {
        let env = workspace(UNITTEST, "");
        env.agent.default_call().script(DELETE);
        env.run().expect(1);
        if forgets {
            let folder = env.journal_path().parent().unwrap().to_owned();
            std::fs::remove_file(folder.join("tests.json")).unwrap();
        }
        env.agent.default_call().script("echo done > work\n").out(CLAIM);
        let ended = env.ralph(&["run", "--set", "limits.max_iterations=2"]);
        ended.expect(1).says(says);
        assert_eq!(env.agent.calls(), 2);
    }
}

#[test]
fn a_check_that_cannot_begin_is_told_of_before_an_agent_is_paid() {
    let broken = "echo 'def broken(:' >> tests/test_a.py";
    for (check, prepare, says) in [
        ("make test || exit 1", "", "make says `make: *** No rule to make target 'test'."),
        // With its exit status, 127, there is no verdict, which says it.
        ("no-such-runner || exit 1", "", "the shell says `check.sh: 1: no-such-runner: not found`"),
        ("python3 -m no_such_runner", "", "No module named no_such_runner`"),
        (UNITTEST, broken, "python says `SyntaxError: invalid syntax`"),
    ] {
        let env = workspace(check, "");
        let mut shell = std::process::Command::new("sh");
        shell.args(["-c", prepare]).current_dir(env.workspace()).status().unwrap();
        let warning = "the check `tests` fails before it runs a test: ";
        let found = env.ralph(&["doctor"]).expect(0);
        assert!(found.stdout.contains(warning), "{check}: {}", found.stdout);
        let ended = run_with(&env, "echo done > work\n");
        ended.says(warning).says(says);
        assert!(env.has_record("warning"), "{check}");
    }
}

#[test]
fn what_could_not_begin_is_no_measure() {
    let env = workspace(UNITTEST, "");
    env.write("tests/test_a.py", format!("{TESTS}def broken(:\n"));
    env.write("tests/test_b.py", format!("{TESTS}def broken(:\n"));
    // Two files failed to load, of which one test is left.
    let mended = "rm tests/test_b.py; sed -i '/broken/d;/test_one/d;/test_two/d' tests/test_a.py\n";
    run_with(&env, &format!("echo done > work\n{mended}")).expect(0);
}

#[test]
fn doctor_says_whose_tests_cannot_be_counted() {
    let env = workspace("echo checked; exit 1", "");
    let found = env.ralph(&["doctor"]).expect(0);
    let says = "what `tests` prints has no number of tests that can be read";
    assert!(found.stdout.contains(says), "{}", found.stdout);
    env.write("check.sh", UNITTEST);
    let found = env.ralph(&["doctor"]).expect(0);
    assert!(found.stdout.contains("`tests`: 2 passed, 1 failed"), "{}", found.stdout);
}

#[test]
fn an_acceptance_names_the_settings_that_steer_the_checks_and_were_changed() {
    let env = workspace(UNITTEST, "");
    env.write(
        "pyproject.toml",
        "[project]\nversion = '1'\n[tool.pytest.ini_options]\naddopts = '-q'\n",
    );
    env.agent
        .default_call()
        .script("sed -i \"s/'1'/'2'/;s/-q/-k one/\" pyproject.toml; touch conftest.py\n");
    env.run().expect(1);
    env.agent.default_call().script("echo done > work\n").out(CLAIM);
    let ended = env.ralph(&["run", "--set", "limits.max_iterations=2"]).expect(0);
    ended.says("conftest.py steers the checks and was added");
    let warnings = env.records("warning");
    let steering: Vec<&str> = warnings
        .iter()
        .filter_map(|warning| warning["message"].as_str())
        .filter(|message| message.contains("steers the checks"))
        .collect();
    let key = "pyproject.toml: `tool.pytest.ini_options.addopts` steers the checks and was changed";
    let values = format!("{key} from `\"-q\"` to `\"-k one\"`");
    assert_eq!(steering, ["conftest.py steers the checks and was added", values.as_str()]);
}

#[test]
fn verify_counts_and_compares_with_nothing() {
    let env = workspace(&format!("{UNITTEST}; true"), "");
    let verified = env.ralph(&["verify"]).expect(0);
    assert!(verified.stdout.contains("; 2 passed, 1 failed)"), "{}", verified.stdout);
}
