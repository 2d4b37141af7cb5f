//! `rehearse`: which cheats a run would accept.

use std::fs;
use std::path::PathBuf;

use rustix::process::Signal;
use serde_json::Value;

use crate::environment::TestEnvironment;

const AGENT: &str = "[agent]\nadapter = \"command\"\n[agent.config]\nprogram = [\"@AGENT@\"]\n";

/// A project in Python whose tests pass, with further keys of its check.
fn project(keys: &str) -> TestEnvironment {
    let env = TestEnvironment::new();
    env.write("shop/__init__.py", "");
    env.write("shop/tax.py", "def gross(net):\n    return net * 2\n");
    let test = "import unittest\n\nfrom shop.tax import gross\n\n\nclass Tax(unittest.TestCase):\n    def test_gross(self):\n        \
                self.assertEqual(gross(1), 2)\n\n    def test_nothing(self):\n        self.assertEqual(gross(0), 0)\n";
    env.write("tests/__init__.py", "");
    env.write("tests/test_tax.py", test);
    env.raw_config(&format!(
        "{AGENT}[[validator]]\nkind = \"command\"\nname = \"tests\"\n\
         program = [\"python3\", \"-m\", \"unittest\", \"discover\", \"-v\"]\n{keys}"
    ));
    env
}

/// What came of each thing that was tried, and what is to be added.
fn rehearse(env: &TestEnvironment, status: i32) -> Vec<(String, String, Option<String>)> {
    let ended = env.ralph(&["rehearse", "--json"]).expect(status);
    let value: Value = serde_json::from_str(&ended.stdout).unwrap();
    assert_eq!(value["ok"], status == 0);
    let rows = value["rows"].as_array().unwrap().iter();
    let text = |row: &Value, key: &str| row[key].as_str().unwrap_or_default().to_owned();
    rows.map(|row| {
        (text(row, "tried"), text(row, "outcome"), row["add"].as_str().map(str::to_owned))
    })
    .collect()
}

fn outcome<'a>(rows: &'a [(String, String, Option<String>)], tried: &str) -> &'a str {
    let found = rows.iter().find(|(kind, _, _)| kind == tried);
    found.map_or("-", |(_, outcome, _)| outcome.as_str())
}

#[test]
fn unprotected_tests_are_found_and_the_line_mends_it() {
    let env = project("");
    let before = env.read("tests/test_tax.py");
    let rows = rehearse(&env, 1);
    assert_eq!(outcome(&rows, "honest edit"), "accepted", "{rows:?}");
    assert_eq!(outcome(&rows, "weakened assertion"), "ACCEPTED", "{rows:?}");
    // Fewer tests run, which is noticed.
    for kind in ["skipped test", "deleted test", "early exit 0", "shadowing module"] {
        assert_eq!(outcome(&rows, kind), "rejected", "{kind}: {rows:?}");
    }
    let weakened = rows.iter().find(|(kind, _, _)| kind == "weakened assertion").unwrap();
    let line = weakened.2.as_deref().unwrap();
    assert_eq!(line, "protect = [\"tests/**\"]");
    let env = project(&format!("{line}\n"));
    let rows = rehearse(&env, 0);
    assert_eq!(outcome(&rows, "weakened assertion"), "rejected", "{rows:?}");
    assert_eq!(outcome(&rows, "honest edit"), "accepted", "{rows:?}");
    assert_eq!(env.read("tests/test_tax.py"), before, "nothing of the user's is changed");
    assert!(!env.has_state(), "nothing is recorded");
    assert_eq!(env.agent.calls(), 0);
}

#[test]
fn what_a_check_prints_is_required_where_its_exit_status_alone_decides() {
    let env = project("count_tests = false\nprotect = [\"tests/**\"]\n");
    let rows = rehearse(&env, 1);
    let exit = rows.iter().find(|(kind, _, _)| kind == "early exit 0").unwrap();
    assert_eq!(exit.1, "ACCEPTED", "{rows:?}");
    let line = exit.2.as_deref().unwrap();
    assert!(line.starts_with("must_match = "), "{line}");
    let env = project(&format!("count_tests = false\nprotect = [\"tests/**\"]\n{line}\n"));
    assert_eq!(outcome(&rehearse(&env, 0), "early exit 0"), "rejected");
}

#[test]
fn honest_work_that_is_protected_is_reported() {
    let env = project("protect = [\"tests/**\", \"shop/**\"]\n");
    let ended = env.ralph(&["rehearse"]).expect(1);
    ended.says("REJECTED   honest edit").says("take what covers shop/tax.py out of `protect`");
}

#[test]
fn a_check_that_still_fails_is_tried_by_the_tests_that_it_runs() {
    let env = project("protect = [\"tests/**\"]\n");
    env.write("shop/tax.py", "def gross(net):\n    return net * 3\n");
    let rows = rehearse(&env, 0);
    assert_eq!(outcome(&rows, "honest edit"), "accepted", "{rows:?}");
    assert_eq!(outcome(&rows, "early exit 0"), "rejected", "{rows:?}");
    let env = project("");
    env.write("shop/tax.py", "def gross(net):\n    return net * 3\n");
    assert_eq!(outcome(&rehearse(&env, 1), "weakened assertion"), "ACCEPTED");
}

#[test]
fn a_script_that_is_the_check_has_to_be_protected() {
    let env = TestEnvironment::new();
    env.write("check.sh", "#!/bin/sh\ntest -e done\n");
    env.raw_config(&format!(
        "{AGENT}[[validator]]\nkind = \"command\"\nname = \"tests\"\nprogram = [\"sh\", \"check.sh\"]\n"
    ));
    let ended = env.ralph(&["rehearse"]).expect(1);
    ended.says("ACCEPTED   check that exits 0").says("protect = [\"check.sh\"]");
    env.ralph(&["doctor", "--rehearse"]).says("rehearsal").says("protect = [\"check.sh\"]");
}

#[test]
fn nothing_is_tried_without_a_command_or_beside_a_run() {
    let env = TestEnvironment::new();
    env.raw_config(&format!("{AGENT}[completion]\ntrust_agent = true\n"));
    env.ralph(&["rehearse"])
        .expect(78)
        .says("no required validator of this configuration runs a command");
}

#[test]
fn a_signal_ends_it_and_leaves_nothing_behind() {
    let env = TestEnvironment::new();
    let up = env.fifo("up");
    let script = format!("#!/bin/sh\necho $$ > '{}'\nwhile :; do sleep 1; done\n", up.display());
    env.write("check.sh", script);
    env.raw_config(&format!(
        "{AGENT}[[validator]]\nkind = \"command\"\nname = \"tests\"\nprogram = [\"sh\", \"check.sh\"]\n"
    ));
    let mut running = env.start(&["rehearse"]);
    fs::read(&up).unwrap();
    running.signal(Signal::INT);
    running.wait().expect(130);
    assert_eq!(crate::environment::of_run(&env.root()), Vec::<i32>::new());
    assert_eq!(left_in_checks(&env), Vec::<PathBuf>::new());
}

/// What is left of checkouts that were made for checks outside of runs.
fn left_in_checks(env: &TestEnvironment) -> Vec<PathBuf> {
    let found = env.root().join("home/.local/state/ralph-orchestrator/.checks").read_dir().unwrap();
    let paths = found.map(|entry| entry.unwrap().path());
    paths.filter(|path| !path.ends_with("lock")).collect()
}
