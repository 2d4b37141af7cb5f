//! Files that are larger than anybody can read.

use std::fs::{self, File};
use std::path::Path;
use std::time::{Duration, Instant};

use rustix::process::Signal;

use super::{PROMISE, WORK, completed, ends, hostile};
use crate::environment::{TestEnvironment, eventually, of_run};

const TERABYTE: u64 = 1 << 40;
/// How long a run may last that has nothing to do.
const MOST_RUN: Duration = Duration::from_secs(30);

fn huge(path: &Path) {
    File::create(path).unwrap().set_len(8 * TERABYTE).unwrap();
}

/// Makes a folder of two thousand files, each just not too large to be read whole: to read all of them
/// takes minutes.
pub(super) const MUCH: &str = "mkdir much; truncate -s 64M much/0
python3 -c \"import os; [os.link('much/0', 'much/%d' % n) for n in range(1, 2000)]\"\n";

#[track_caller]
fn completes(env: &TestEnvironment, what: &str, iterations: u64, made: &[&str]) {
    let began = Instant::now();
    let mut running = env.start(&["run"]);
    while running.child.try_wait().unwrap().is_none() {
        assert!(began.elapsed() < MOST_RUN, "{what}: it reads for ever");
        std::thread::sleep(Duration::from_millis(2));
    }
    ends(env, what, &running.wait(), completed(iterations, made));
}

#[test]
fn a_hole_of_terabytes_in_the_workspace_is_digested_in_no_time() {
    let env = hostile();
    huge(&env.path("huge"));
    env.agent.call(1).script("printf x | dd of=huge bs=1 seek=5T conv=notrunc 2> /dev/null\n");
    env.agent.call(2).script(WORK).out(PROMISE);
    completes(&env, "there before", 2, &["huge", "done"]);
    // What was written in the middle of it is another tree.
    let trees: Vec<_> = env.records("observed").iter().map(|r| r["tree"].clone()).collect();
    assert_ne!(trees[0], trees[1]);

    let env = hostile();
    env.agent.call(1).script(&format!("truncate -s 8T huge; {WORK}")).out(PROMISE);
    completes(&env, "made by the agent", 1, &["huge", "done"]);
}

#[test]
fn a_hole_of_terabytes_that_is_protected_is_compared_in_no_time() {
    let protected = "protect = [\"tests/**\"]\n";
    let env = hostile();
    env.config(protected);
    fs::create_dir(env.path("tests")).unwrap();
    huge(&env.path("tests/huge"));
    env.agent.call(1).script(WORK).out(PROMISE);
    completes(&env, "there before", 1, &["tests", "done"]);

    let env = hostile();
    env.config(protected);
    env.write("tests/a", "");
    env.agent.call(1).script(&format!("truncate -s 8T tests/a; {WORK}")).out(PROMISE);
    env.agent.call(2).script(": > tests/a\n");
    completes(&env, "made by the agent", 2, &["tests", "done"]);
}

#[test]
fn a_hole_of_terabytes_among_the_evidence_is_digested_in_no_time() {
    let env = hostile();
    env.config(
        "[[validator]]\nkind = \"evidence-files\"\ndir = \"proof\"\nmin_files = 1\nextensions = [\"txt\"]\n",
    );
    env.agent
        .call(1)
        .script(&format!(
            "{WORK}mkdir proof; truncate -s 8T proof/huge.txt; echo 'it works' > proof/a.txt\n"
        ))
        .out(PROMISE);
    env.agent.call(2).script("rm proof/huge.txt; echo 'it really works' > proof/a.txt\n");
    let began = Instant::now();
    env.run().expect(0);
    assert!(began.elapsed() < MOST_RUN);
}

#[test]
fn a_template_with_a_hole_is_copied_with_its_hole() {
    let env = hostile();
    let template = env.root().join("template");
    fs::create_dir(&template).unwrap();
    huge(&template.join("huge"));
    fs::write(template.join("small"), "small").unwrap();
    let state = env.root().join("home/.local/state/mine");
    env.raw_config(&format!(
        "[run]\nprompt_text = \"x\"\ndelay = \"0s\"\nworkspace = \"{}\"\ntemplate = \"{}\"\n\
         [agent]\nadapter = \"command\"\nunmetered = true\n[agent.config]\nprogram = [\"@AGENT@\"]\n\
         [[validator]]\nkind = \"command\"\nprogram = [\"test\", \"-e\", \"done\"]\n\
         [state]\ndir = \"{}\"\n",
        env.root().join("copy").display(),
        template.display(),
        state.display(),
    ));
    env.agent.call(1).script(WORK).out(PROMISE);
    let began = Instant::now();
    let mut running = env.start(&["run"]);
    while running.child.try_wait().unwrap().is_none() {
        assert!(began.elapsed() < MOST_RUN, "it copies for ever");
        std::thread::sleep(Duration::from_millis(2));
    }
    running.wait().expect(0);
    assert_eq!(fs::metadata(env.root().join("copy/huge")).unwrap().len(), 8 * TERABYTE);
    assert_eq!(fs::read(env.root().join("copy/small")).unwrap(), b"small");
}

#[test]
fn max_runtime_cuts_a_look_and_what_was_claimed_stays() {
    let env = hostile();
    env.agent.call(1).script(&format!("{MUCH}{WORK}")).out(PROMISE);
    let began = Instant::now();
    let ended = env.ralph(&["run", "--max-runtime", "6s"]).expect(1);
    ended.says("max_runtime");
    assert!(began.elapsed() < Duration::from_secs(60), "{:?}", began.elapsed());
    assert_eq!(env.status()["latch"]["state"], "claimed");
    assert!(env.records("validated").is_empty());
    fs::remove_dir_all(env.path("much")).unwrap();
    env.ralph(&["run", "--max-runtime", "1000s"]).expect(0);
    assert_eq!(env.agent.calls(), 1, "it is validated first of all");
}

#[test]
fn a_look_before_the_run_that_is_cut_begins_no_run() {
    for (folder, config) in [("much", ""), ("much", "protect = [\"much/**\"]\n")] {
        let env = hostile();
        env.config(config);
        fs::create_dir(env.path(folder)).unwrap();
        File::create(env.path("much/0")).unwrap().set_len(64 << 20).unwrap();
        for n in 1..2000 {
            fs::hard_link(env.path("much/0"), env.path(&format!("much/{n}"))).unwrap();
        }
        let mut running = env.start(&["run"]);
        eventually("it holds the state", || env.has_state() && env.state().join("lock").exists());
        let began = Instant::now();
        running.signal(Signal::TERM);
        running.wait().expect(143);
        assert!(began.elapsed() < Duration::from_secs(12), "{:?}", began.elapsed());
        assert_eq!(env.agent.calls(), 0);
        fs::remove_dir_all(env.path("much")).unwrap();
        env.write("much/0", "");
        env.agent.default_call().script(WORK).out(PROMISE);
        env.run().expect(0);
    }
}

/// A validator that waits until it may not any more, unless there is a file called go.
fn waiting(env: &TestEnvironment, timeout: &str) {
    env.config(&format!(
        "\n[[validator]]\nkind = \"command\"\nname = \"waits\"\ntimeout = \"{timeout}\"\n\
         program = [\"sh\", \"-c\", \"test -e '{}' || sleep 1000\"]\n\
         [completion]\nbaseline = \"off\"\n",
        env.root().join("go").display()
    ));
    env.agent.call(1).script(WORK).out(PROMISE);
}

#[test]
fn max_runtime_cuts_the_checks_before_any_work() {
    let env = hostile();
    waiting(&env, "20m");
    let began = Instant::now();
    let run = ["run", "--max-runtime", "3s", "--set", "completion.baseline=warn"];
    env.ralph(&run).expect(1).says("max_runtime");
    assert!(began.elapsed() < Duration::from_secs(30), "{:?}", began.elapsed());
    assert!(of_run(&env.root()).is_empty(), "the validator is gone");
    assert!(env.records("baseline").is_empty(), "nothing was said about them");
    assert_eq!(env.agent.calls(), 0);
}

#[test]
fn max_runtime_cuts_a_validator_and_the_claim_stays() {
    let env = hostile();
    waiting(&env, "20m");
    let began = Instant::now();
    env.ralph(&["run", "--max-runtime", "3s"]).expect(1).says("max_runtime");
    assert!(began.elapsed() < Duration::from_secs(30), "{:?}", began.elapsed());
    assert!(of_run(&env.root()).is_empty(), "the validator is gone");
    let status = env.status();
    assert_eq!(
        (&status["latch"]["state"], &status["latch"]["rejections"]),
        (&"claimed".into(), &0.into())
    );
    assert!(env.records("validated").is_empty(), "nothing was said about the work");
    // With more time it is validated at once.
    fs::write(env.root().join("go"), "").unwrap();
    env.ralph(&["run", "--max-runtime", "1000s"]).expect(0);
    assert_eq!(env.agent.calls(), 1);
}

#[test]
fn a_claim_in_the_iteration_that_max_runtime_cuts_is_still_validated() {
    let env = hostile();
    env.agent.call(1).script(&format!("{WORK}echo TASK_COMPLETE >> PROMPT.md; sleep 1000\n"));
    env.ralph(&["run", "--max-runtime", "2s"]).expect(0);
    assert_eq!(env.status()["phase"], "completed");
}

#[test]
fn a_signal_cuts_a_validator_soon() {
    let env = hostile();
    waiting(&env, "20m");
    let mut running = env.start(&["run"]);
    running.says("claims completion");
    let began = Instant::now();
    running.signal(Signal::TERM);
    running.wait().expect(143);
    assert!(began.elapsed() < Duration::from_secs(15), "{:?}", began.elapsed());
}
