//! Validators that write into the workspace.

use std::fs;

use rustix::process::Signal;

use crate::environment::{Running, TestEnvironment};

const CLAIM: &str = "<promise>COMPLETE: it is there</promise>\n";
const OFF: &str = "[completion]\nbaseline = \"off\"\n";

/// A required check `name` that runs this, besides the usual one.
fn check(name: &str, script: &str, keys: &str) -> String {
    format!(
        "\n[[validator]]\nkind = \"command\"\nname = \"{name}\"\nprogram = [\"sh\", \"-c\", '{script}']\n{keys}"
    )
}

/// Another content each time, as of a report with a time in it.
const REPORT: &str = "date +%s.%N > report.xml; test -e done";

fn artefacts(env: &TestEnvironment) -> Vec<String> {
    let records = env.records("artefacts");
    let paths = records.iter().flat_map(|record| record["paths"].as_array().unwrap().clone());
    paths.map(|path| path.as_str().unwrap().to_owned()).collect()
}

#[test]
fn a_new_report_is_an_artefact_and_keeps_nothing_from_completing() {
    let env = TestEnvironment::with_checks_in_workspace();
    env.config(&format!("{}{OFF}", check("reports", REPORT, "")));
    env.agent.call(1).script("touch done\n").out(CLAIM);
    let ended = env.run().expect(0);
    assert_eq!(env.agent.calls(), 1);
    assert_eq!(artefacts(&env), ["report.xml"]);
    ended.says("artefacts of reports: report.xml (not part of the work)");
    env.ralph(&["log"]).expect(0).says("artefacts of `reports`: report.xml (not part of the work)");
}

#[test]
fn a_report_that_the_baseline_left_may_be_written_by_the_agent_too() {
    let env = TestEnvironment::with_checks_in_workspace();
    env.config(&check("reports", REPORT, ""));
    env.agent.call(1).script("touch done; echo mine > report.xml\n").out(CLAIM);
    env.run().expect(0);
    assert_eq!(env.agent.calls(), 1);
    assert_eq!(artefacts(&env), ["report.xml"]);
}

#[test]
fn a_report_from_before_the_run_is_named_before_any_money_is_spent() {
    let env = TestEnvironment::with_checks_in_workspace();
    env.config(&check("reports", REPORT, ""));
    env.write("report.xml", "left by an earlier execution");
    env.agent.call(1).script("touch done\n").out(CLAIM);
    let ended = env.run().expect(78);
    ended.says(
        "nothing could be accepted: the validator `reports` will accept nothing: it changes files",
    );
    ended.says("list them in .gitignore, or add `artefacts = [\"report.xml\"]`");
    assert_eq!(env.agent.calls(), 0);
    // Nothing was begun, so that what is mended counts.
    env.config(&check("reports", REPORT, "artefacts = [\"report.xml\"]\n"));
    env.ralph(&["run", "--restart"]).expect(0);
}

/// A check during which something else writes to a file of the workspace: it waits until that is done.
fn with_an_outside_writer(env: &TestEnvironment) {
    let (begun, written) = (env.fifo("begun"), env.fifo("written"));
    let script =
        format!("echo > {}; read x < {}; test -e done", begun.display(), written.display());
    env.config(&check("served", &script, ""));
    env.write("dev.log", "0");
    let log = env.path("dev.log");
    std::thread::spawn(move || {
        for number in 1.. {
            if fs::read(&begun).is_err() || fs::write(&log, format!("{number}")).is_err() {
                break;
            }
            if fs::write(&written, "\n").is_err() {
                break;
            }
        }
    });
}

#[test]
fn nothing_is_started_where_something_else_keeps_changing_the_work() {
    let env = TestEnvironment::new();
    with_an_outside_writer(&env);
    env.agent.default_call().script("touch done\n").out(CLAIM);
    for _ in 0..2 {
        let ended = env.run().expect(78);
        ended.says(
            "something else than the checks changes files of the workspace each time they run",
        );
        ended.says("`dev.log` (modified)").says("`bookkeeping = [\"dev.log\"]` below [run]");
    }
    assert_eq!(env.agent.calls(), 0);
    env.ralph(&["why"]).says("stop what changes the files");
    let config =
        env.read("ralph.toml").replacen("[run]\n", "[run]\nbookkeeping = [\"dev.log\"]\n", 1);
    env.write("ralph.toml", config);
    env.ralph(&["run", "--restart"]).expect(0);
}

#[test]
fn a_report_that_an_earlier_run_left_is_no_work_of_the_next_one() {
    let env = TestEnvironment::with_checks_in_workspace();
    env.config(&check("reports", REPORT, ""));
    env.agent.default_call().script("touch done\n").out(CLAIM);
    env.run().expect(0);
    fs::remove_file(env.path("done")).unwrap();
    let ended = env.ralph(&["run", "--restart"]).expect(0);
    assert!(!ended.stderr.contains("warning"), "{}", ended.stderr);
    assert_eq!(env.agent.calls(), 2);
    assert_eq!(artefacts(&env), ["report.xml"]);
    // Another task is another run, too.
    fs::remove_file(env.path("done")).unwrap();
    env.write("PROMPT.md", "# Another task\n\nMake a file called done again.\n");
    env.run().expect(0).says("this is a new run");
    assert_eq!(artefacts(&env), ["report.xml"]);
}

#[test]
fn what_was_added_to_git_after_a_run_is_work_of_the_next_one() {
    let env = TestEnvironment::with_checks_in_workspace();
    env.config(&check("locks", "test -e lock || echo 1 > lock", ""));
    env.agent.call(1).script("touch done\n").out(CLAIM);
    env.run().expect(0);
    assert_eq!(artefacts(&env), ["lock"]);
    fs::remove_file(env.path("done")).unwrap();
    for args in [&["init", "--quiet"][..], &["add", "lock"]] {
        assert!(env.program("git".as_ref()).args(args).status().unwrap().success());
    }
    env.agent.call(2).script("touch done\n").out(CLAIM);
    env.ralph(&["run", "--restart"]).expect(0);
    assert_eq!(artefacts(&env), [""; 0]);
}

#[test]
fn a_report_that_the_agent_wrote_first_is_work_that_the_validator_changes() {
    let env = TestEnvironment::with_checks_in_workspace();
    env.config(&format!("{}{OFF}", check("reports", REPORT, "")));
    env.agent.default_call().script("touch done; test -e report.xml || echo mine > report.xml\n");
    env.agent.default_call().out(CLAIM);
    let ended = env.run().expect(2);
    ended.says("list them in .gitignore, or add `artefacts = [\"report.xml\"]`");
    // With the line that it names, the same work is accepted.
    env.config(&format!("{}{OFF}", check("reports", REPORT, "artefacts = [\"report.xml\"]\n")));
    env.ralph(&["run", "--restart"]).expect(0);
}

#[test]
fn a_new_report_of_failing_tests_is_no_progress() {
    let env = TestEnvironment::with_checks_in_workspace();
    env.config(&format!("{}{OFF}", check("reports", REPORT, "")));
    env.agent.default_call().out(CLAIM);
    env.run().expect(1).says("thrashing");
    assert_eq!(env.agent.calls(), 3, "the same work was rejected limits.max_rejections times");
}

#[test]
fn a_check_that_formats_the_work_validates_it_once_more() {
    let env = TestEnvironment::with_checks_in_workspace();
    let script = "echo x >> ../executions; echo formatted > source";
    env.config(&format!("{}{OFF}", check("format", script, "")));
    env.agent.call(1).script("touch done; echo raw > source\n").out(CLAIM);
    let ended = env.run().expect(0);
    ended.says("the validator `format` changed `source` (modified) while it checked the work");
    assert_eq!(fs::read_to_string(env.root().join("executions")).unwrap().lines().count(), 2);
    assert_eq!(env.agent.calls(), 1);
}

/// A check that changes what was there before each time it runs.
fn restless(keys: &str) -> TestEnvironment {
    let env = TestEnvironment::with_checks_in_workspace();
    let script = "date +%s.%N > out; test -e done";
    env.config(&format!("{}{OFF}", check("restless", script, keys)));
    env.agent.default_call().script("touch done; [ -e out ] || echo x > out\n").out(CLAIM);
    env
}

#[test]
fn a_check_that_changes_files_each_time_is_its_users_to_settle() {
    let env = restless("");
    let ended = env.run().expect(2);
    ended.says("the validator `restless` reached no verdict 3 times in a row");
    ended.says("`out` (modified)").says("add `artefacts = [\"out\"]` to the validator at");
    ended.says("ralph.toml:").says("list them in .gitignore");
    assert_eq!(env.agent.calls(), 3, "three errors in a row stop the run");
    // The run has a copy of its configuration; advice names the file that the user edits.
    let resumed = env.run().expect(2);
    resumed.says("add `artefacts = [\"out\"]` to the validator at").says("ralph.toml:");
    assert!(!resumed.stderr.contains("config.toml"), "{}", resumed.stderr);
}

#[test]
fn both_ways_to_settle_it_work() {
    let env = restless("artefacts = [\"out\"]\n");
    env.run().expect(0);
    assert_eq!(env.agent.calls(), 1);
    let env = restless("");
    env.write(".gitignore", "out\n");
    env.run().expect(0);
    assert_eq!(env.agent.calls(), 1);
}

#[test]
fn a_bad_artefact_glob_is_refused_with_its_place() {
    let env = restless("artefacts = [\"ok\", \"../out\"]\n");
    env.run().expect(78).says("ralph.toml:").says("leads out of the workspace");
}

#[test]
fn an_optional_check_that_changes_files_each_time_completes_nothing() {
    let env = restless("required = false\n");
    env.run().expect(1);
    assert_eq!(env.status()["latch"]["state"], "claimed");
}

#[test]
fn a_read_only_check_must_not_even_add_a_file() {
    let env = TestEnvironment::with_checks_in_workspace();
    env.config(&format!("{}{OFF}", check("strict", "date +%N > new", "read_only = true\n")));
    env.agent.default_call().script("touch done\n").out(CLAIM);
    env.run().expect(2).says("it changed `new` (added), which `read_only = true` forbids");
}

#[test]
fn a_check_that_deletes_work_is_at_fault() {
    let env = TestEnvironment::with_checks_in_workspace();
    let script = "rm -f \"$(ls -d part* | head -n 1)\"";
    env.config(&format!("{}{OFF}", check("deletes", script, "")));
    env.agent.default_call().script("touch done part1 part2 part3 part4 part5 part6\n").out(CLAIM);
    env.run().expect(2).says("`part2` (deleted)");
}

#[test]
fn many_new_files_are_named_by_their_folder() {
    let env = TestEnvironment::with_checks_in_workspace();
    let script = "mkdir -p target/deep __pycache__ src; touch src/a; for i in $(seq 200); do echo $i > target/deep/$i; done; touch __pycache__/x.pyc";
    env.config(&format!("{}{OFF}", check("builds", script, "")));
    env.agent.call(1).script("touch done; mkdir src; touch src/main\n").out(CLAIM);
    env.run().expect(0);
    let mut left = artefacts(&env);
    left.sort();
    assert_eq!(left, ["src/a", "target"]);
}

/// A run in the middle of a check that has written its report. It waits only the first time.
fn in_a_check() -> (TestEnvironment, Running) {
    let env = TestEnvironment::with_checks_in_workspace();
    let (runs, go) = (env.fifo("runs"), env.fifo("go"));
    let script = format!(
        "date +%s.%N > report.xml; if [ -p {0} ]; then echo > {0}; rm -f {0}; cat {1}; fi",
        runs.display(),
        go.display()
    );
    env.config(&format!("{}{OFF}", check("reports", &script, "")));
    env.agent.call(1).script("touch done\n").out(CLAIM);
    let running = env.start(&["run"]);
    fs::read(&runs).unwrap();
    // The check may be ended before it has removed it, and would wait for a reader in the next run.
    let _ = fs::remove_file(&runs);
    (env, running)
}

#[test]
fn a_kill_while_a_check_runs_that_has_written_a_file_loses_nothing() {
    let (env, mut running) = in_a_check();
    running.signal(Signal::KILL);
    running.wait();
    assert!(!env.has_record("validated"));
    env.run().expect(0).says("report.xml (not part of the work)");
    assert_eq!((env.agent.calls(), artefacts(&env)), (1, vec!["report.xml".to_owned()]));
}

#[test]
fn what_a_person_adds_between_two_starts_is_no_artefact() {
    let env = TestEnvironment::with_checks_in_workspace();
    env.config(&format!("{}{OFF}[limits]\nmax_iterations = 1\n", check("reports", REPORT, "")));
    env.agent.call(1).out(CLAIM);
    env.agent.call(2).script("touch done\n");
    env.run().expect(1);
    env.write("hints.md", "look here");
    let config = env.read("ralph.toml").replace("max_iterations = 1", "max_iterations = 2");
    env.write("ralph.toml", config);
    env.run().expect(0);
    assert_eq!(artefacts(&env), ["report.xml"]);
}

/// Two required checks: one reads `core.sh`, the other runs the agent's `main.sh`.
fn style_and_tests(keys: &str) -> TestEnvironment {
    let env = TestEnvironment::with_checks_in_workspace();
    let style = check("style", "! grep -q FORBIDDEN core.sh", keys);
    env.config(&format!(
        "{style}{}{OFF}[limits]\nmax_iterations = 4\n",
        check("main", "sh ./main.sh", keys)
    ));
    env.write("core.sh", "echo core\n").write("main.sh", "true\n");
    env
}

/// The check that runs it puts something else in the place of what was checked before.
const EXCHANGE: &str =
    "touch done; echo 'echo FORBIDDEN > core.sh' > main.sh; echo fine > core.sh\n";

#[test]
fn work_that_a_check_makes_again_is_no_artefact() {
    for keys in ["", "read_only = true\n"] {
        let env = style_and_tests(keys);
        env.agent.call(1).script("rm core.sh; echo 'echo fine > core.sh' > main.sh\n").out(CLAIM);
        env.agent.default_call().script(EXCHANGE).out(CLAIM);
        assert_ne!(env.run().code, Some(0), "{keys}");
        assert_eq!(artefacts(&env), <[&str; 0]>::default());
    }
}

#[test]
fn work_that_the_agent_ignores_counts_on() {
    for git in [false, true] {
        let env = style_and_tests("");
        if git {
            let git = |args: &str| {
                let mut command = env.program(std::path::Path::new("git"));
                let done = command.args(args.split(' ')).output().unwrap();
                assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
            };
            git("init --quiet");
            git("add core.sh");
        }
        let ignore = "echo core.sh > .gitignore; git rm -q --cached core.sh 2>&1 || true\n";
        env.agent.default_call().script(&format!("{ignore}{EXCHANGE}")).out(CLAIM);
        assert_ne!(env.run().code, Some(0), "git: {git}");
    }
}

#[test]
fn a_run_remembers_what_counts_over_a_restart() {
    let env = style_and_tests("");
    env.agent.call(1).script("rm core.sh\n");
    env.agent.default_call().script(EXCHANGE).out(CLAIM);
    env.ralph(&["run", "--once"]).expect(0);
    assert_ne!(env.run().code, Some(0));
    let paths = env.journal_path().with_file_name("paths.json");
    fs::write(&paths, fs::read_to_string(&paths).unwrap().replace("core.sh", "cork.sh")).unwrap();
    env.run().expect(65).says("paths.json");
}

#[test]
fn an_agent_that_runs_the_check_itself_is_believed() {
    let env = TestEnvironment::with_checks_in_workspace();
    env.config(&check("reports", REPORT, ""));
    let work = "touch done; date +%s.%N > report.xml\n";
    env.agent.call(1).script(work).out("all done\n");
    env.agent.call(2).script(work).out(CLAIM);
    env.run().expect(0);
    assert_eq!(env.agent.calls(), 2);
}

#[test]
fn what_a_person_adds_after_an_interruption_is_no_artefact() {
    let (env, mut running) = in_a_check();
    running.signal(Signal::TERM);
    assert_eq!(running.wait().code, Some(143));
    env.write("hints.md", "look here");
    env.run().expect(0);
    assert_eq!(artefacts(&env), ["report.xml"]);
}

#[test]
fn folders_that_tools_mark_as_caches_are_no_work() {
    let env = TestEnvironment::with_checks_in_workspace();
    let tag = "Signature: 8a477f597d28d172789f06886806bc55";
    env.config(&format!(
        "{}{OFF}",
        check("builds", "mkdir -p target; date +%N > target/x; test -e done", "")
    ));
    let work = format!(
        "mkdir -p target; echo {tag} > target/CACHEDIR.TAG; touch done; echo 1 > target/x\n"
    );
    env.agent.call(1).script(&work).out(CLAIM);
    env.run().expect(0);
    assert_eq!(artefacts(&env), <[&str; 0]>::default());
}
