//! What made the checks green: said once the work is accepted, and whatever becomes of it, the completion stays.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::SystemTime;

use rustix::process::Signal;
use serde_json::Value;

use crate::environment::{Running, TestEnvironment, eventually, of_run};

const CLAIM: &str = "<promise>COMPLETE: made it</promise>\n";
const TEST: &str = "import unittest\nfrom tax import *\n\n\nclass Tax(unittest.TestCase):\n    \
                    def test_net(self):\n        self.assertEqual(net(1190), 1000)\n";
/// The test passes only if the two fixes of `net` are made; nothing tests `gross`.
const BASE: &str = "RATE = 18\n\n\ndef net(gross):\n    return gross * 100 // (100 + RATE)\n\n\n\
                    def gross(net):\n    return net * RATE\n\n\ndef label():\n    return 'tax'\n";

fn git(env: &TestEnvironment, args: &[&str]) {
    let mut command = Command::new("git");
    command.arg("-C").arg(env.workspace()).args([
        "-c",
        "user.name=t",
        "-c",
        "user.email=t@localhost",
    ]);
    let output = command.args(args).env("HOME", env.root()).output().unwrap();
    assert!(output.status.success(), "{args:?}: {}", String::from_utf8_lossy(&output.stderr));
}

/// A small project of Python, whose test is protected, with these further files.
fn project(explain: &str, files: &[(&str, &str)]) -> TestEnvironment {
    let env = TestEnvironment::new();
    let agent = env.agent.program().display().to_string();
    env.raw_config(&format!(
        "[run]\ndelay = \"0s\"\n[agent]\nadapter = \"command\"\nunmetered = true\n[agent.config]\n\
         program = [\"{agent}\"]\n[limits]\nmax_iterations = 1\n[validation]\nwhere = \"checkout\"\n\
         {explain}\n[[validator]]\nkind = \"command\"\nname = \"tests\"\n\
         program = [\"python3\", \"-m\", \"unittest\", \"-v\"]\nprotect = [\"test_tax.py\"]\n"
    ));
    env.write(".gitignore", "__pycache__/\n");
    env.write("test_tax.py", TEST);
    env.write("tax.py", BASE);
    for (path, text) in files {
        env.write(path, text);
    }
    git(&env, &["init", "-q", "-b", "main"]);
    git(&env, &["add", "."]);
    git(&env, &["commit", "-qm", "base"]);
    env
}

/// Has an agent write these files and claim.
fn work(env: &TestEnvironment, files: &[(&str, &str)]) {
    let script: Vec<String> = files
        .iter()
        .map(|(path, text)| {
            let folder = Path::new(path).parent().unwrap().display().to_string();
            let folder = if folder.is_empty() { ".".to_owned() } else { folder };
            format!("mkdir -p {folder}\ncat > {path} <<'EOF'\n{text}EOF\n")
        })
        .collect();
    env.agent.default_call().script(&script.concat()).out(CLAIM);
}

fn explained(env: &TestEnvironment) -> Value {
    let why = env.ralph(&["why", "--json"]);
    serde_json::from_str::<Value>(&why.stdout).unwrap()["explained"].clone()
}

#[test]
fn parts_that_no_check_notices_are_told_from_those_that_are_needed() {
    let fixed = BASE.replace("RATE = 18", "RATE = 19");
    let second = fixed.replace("return net * RATE", "return net * (100 + RATE) // 100");
    let commented = format!("{fixed}\n\n# Rates are of this year.\n");
    let dead = format!("{fixed}\n\ndef unused():\n    return 1\n");
    let imports = fixed.replace("RATE = 19", "from rates import RATE");
    let rows: &[(&[(&str, &str)], &str)] = &[
        (&[("tax.py", &fixed)], "needed: tax.py."),
        (
            &[("tax.py", &fixed), ("README.md", "# Tax\n")],
            "needed: tax.py. No check notices if these are gone: README.md.",
        ),
        (
            &[("tax.py", &second)],
            "needed: tax.py (1 of 2 hunks). No check notices if these are gone: tax.py (1 of 2 hunks) at line 9.",
        ),
        (
            &[("tax.py", &commented)],
            "needed: tax.py (1 of 2 hunks). No check notices if these are gone: tax.py (1 of 2 hunks) at line 14.",
        ),
        (
            &[("tax.py", &dead), ("tools/extra.py", "print('hi')\n")],
            "needed: tax.py (1 of 2 hunks). No check notices if these are gone: tax.py (1 of 2 hunks) at line 14, \
             tools/extra.py.",
        ),
        (
            &[("tax.py", &imports), ("rates.py", "RATE = 19\n")],
            "needed: tax.py. Holds the build: rates.py.",
        ),
    ];
    for (files, expected) in rows {
        let env = project("explain = \"2m\"", &[]);
        work(&env, files);
        let ended = env.run();
        ended.expect(0);
        let found = explained(&env);
        assert_eq!(found["summary"], *expected, "{files:?} {found:#}");
        assert_eq!(found["explanation"]["stopped"], Value::Null);
    }
}

#[test]
fn one_of_two_equal_parts_is_enough() {
    let env =
        project("explain = \"2m\"", &[("rates.py", "RATE = 18\n"), ("more.py", "MORE = 0\n")]);
    let base = "from rates import RATE\nfrom more import MORE\n\n\ndef net(gross):\n    \
                return gross * 100 // (100 + max(RATE, 18 + MORE))\n";
    env.write("tax.py", base);
    git(&env, &["commit", "-qam", "two ways"]);
    work(&env, &[("rates.py", "RATE = 19\n"), ("more.py", "MORE = 1\n")]);
    env.run().expect(0);
    let found = explained(&env);
    assert_eq!(found["summary"], "One of these is enough: rates.py:1, more.py:1.", "{found:#}");
}

/// A project whose check ends at once with all of the work, and never without one of many files.
fn endless(explain: &str) -> TestEnvironment {
    let env = project(
        explain,
        &[(
            "check.sh",
            "[ -e work ] || exit 1\nfor n in 1 2 3 4 5 6 7 8; do [ -e n$n ] || sleep 600; done\n",
        )],
    );
    let config = fs::read_to_string(env.path("ralph.toml")).unwrap();
    let config =
        config.replace("\"python3\", \"-m\", \"unittest\", \"-v\"", "\"sh\", \"check.sh\"");
    env.write("ralph.toml", &config);
    env.agent.default_call().script("touch work n1 n2 n3 n4 n5 n6 n7 n8\n").out(CLAIM);
    env
}

fn explaining(env: &TestEnvironment) -> Running {
    let running = env.start(&["run"]);
    eventually("the work is accepted", || env.has_record("completed"));
    running
}

/// Says that the run is complete.
fn is_complete(env: &TestEnvironment) {
    assert_eq!(env.status()["phase"], "completed");
    assert!(of_run(&env.root()).is_empty());
    env.run().expect(0).says("already completed");
    assert_eq!(env.agent.calls(), 1);
}

#[test]
fn stop_and_ctrl_c_end_it_at_once_and_what_was_tried_is_said() {
    for is_signal in [false, true] {
        // The first run takes as long as the file lets it, and is not the last.
        let env = endless("explain = \"1h\"");
        let mut running = explaining(&env);
        match is_signal {
            true => running.signal(Signal::INT),
            false => {
                env.ralph(&["stop"]).expect(0).says("; the run is complete");
            }
        }
        running.wait().expect(0).says("completed");
        is_complete(&env);
        let said = explained(&env)["summary"].as_str().unwrap().to_owned();
        assert!(said.contains(" of 9 parts tried in "), "{said}");
        assert!(said.contains(" s, then it was stopped. "), "{said}");
        env.ralph(&["log"]).says("then it was stopped");
    }
}

#[test]
fn a_run_that_is_killed_meanwhile_is_complete() {
    let env = endless("explain = \"1h\"");
    let mut running = explaining(&env);
    running.signal(Signal::KILL);
    running.wait();
    is_complete(&env);
    assert_eq!(explained(&env), Value::Null);
}

#[test]
fn it_is_cut_by_its_budget_and_off_at_0s() {
    for (explain, is_cut) in [("explain = \"2s\"", true), ("explain = \"0s\"", false)] {
        let env = endless(explain);
        env.run().expect(0);
        let found = explained(&env);
        if is_cut {
            let said = found["summary"].as_str().unwrap();
            assert!(said.starts_with("explained in part: "), "{said}");
            assert!(said.contains(" of 9 parts tried in 2."), "{said}");
        } else {
            assert_eq!((found, env.has_record("explained")), (Value::Null, false));
        }
        assert!(of_run(&env.root()).is_empty());
    }
}

/// Every entry of the workspace but git's own, with its times.
fn stamps(folder: &Path, all: &mut Vec<(PathBuf, SystemTime)>) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let found = fs::symlink_metadata(&path).unwrap();
        if path.file_name().is_some_and(|name| name == ".git" || name == ".ralph") {
            continue;
        }
        all.push((path.clone(), found.modified().unwrap()));
        if found.is_dir() {
            stamps(&path, all);
        }
    }
}

#[test]
fn the_users_tree_is_not_touched_and_everybody_is_told() {
    let fixed = BASE.replace("RATE = 18", "RATE = 19");
    let env = project("explain = \"2m\"", &[]);
    work(&env, &[("tax.py", &fixed), ("doc/README.md", "# Tax\n")]);
    let ended = env.ralph(&["run", "--json"]).expect(0);
    let summary = "needed: tax.py. No check notices if these are gone: doc/README.md.";
    let events: Vec<Value> =
        ended.stdout.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let event = |name: &str| events.iter().find(|event| event["event"] == name).unwrap();
    assert_eq!(event("explaining")["budget_ms"], 120_000);
    assert_eq!(event("explained")["summary"], summary);
    let parts = event("explained")["explanation"]["parts"].as_array().unwrap();
    assert_eq!(parts[1]["verdict"]["tests"][0], "test_tax.Tax.test_net");
    let mut found = Vec::new();
    stamps(&env.workspace(), &mut found);
    let accepted = env.records("validated")[0]["time"].as_str().unwrap().to_owned();
    let accepted: SystemTime = accepted.parse::<jiff::Timestamp>().unwrap().into();
    let later: Vec<_> = found.iter().filter(|(_, time)| *time > accepted).collect();
    assert!(later.is_empty(), "{later:?}");
    let said = format!("made green: {summary}");
    env.ralph(&["why"]).expect(0).says("made green: needed: tax.py.");
    env.ralph(&["log"]).expect(0).says(&said);
    let page = env.root().join("page.html");
    env.ralph(&["report", "--html", page.to_str().unwrap()]).expect(0);
    assert!(fs::read_to_string(page).unwrap().contains("No check notices if these are gone: "));
}
