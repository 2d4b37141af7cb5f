//! `bench regrade`: the work of a job, verified again.

use std::fs;

use rustix::process::Signal;

use crate::environment::{TestEnvironment, eventually, of_run};

use super::{SOLVES, add_task, column, environment, report, status, trial_files, trial_of};

const FAILS: &str = "echo bye > out.txt\necho '<promise>COMPLETE</promise>'\n";

fn job() -> TestEnvironment {
    let env = environment(&[("solves", SOLVES), ("fails", FAILS)]);
    add_task(&env, "one", 60);
    env.ralph(&["bench", "run", "--agents", "solves,fails", "--out", "job"]).expect(0);
    env
}

/// Replaces the task's verifier by one that wants another word.
fn want(env: &TestEnvironment, word: &str) {
    let test = format!(
        "if [ \"$(cat /app/out.txt)\" = {word} ]; then echo 1; else echo 0; fi > /logs/verifier/reward.txt\n"
    );
    env.write("tasks/one/tests/test.sh", test);
}

#[test]
fn a_corrected_verifier_changes_rewards_and_nothing_is_lost_or_paid() {
    let env = job();
    let (records, ledger) = (trial_files(&env, "job"), env.read("job/ledger.jsonl"));
    let same = env.ralph(&["bench", "regrade", "job"]).expect(0);
    same.says("2 trials verified again, 0 changed").says("as before");
    want(&env, "bye");
    let ended = env.ralph(&["bench", "regrade", "job"]).expect(0);
    ended.says("2 changed").says("solves on test/one, trial 1: reward 0, before 1");
    let (lines, summary) = report(&env, "job");
    assert_eq!(column(&summary, "fails")["score"]["value"], 1.0);
    assert_eq!(column(&summary, "solves")["score"]["value"], 0.0);
    let solves = lines.iter().find(|line| line["agent"] == "solves").unwrap();
    assert_eq!(solves["regraded"]["first_rewards"]["reward"], 1.0);
    assert!(env.read("job/report.html").contains("verified again"));
    env.ralph(&["bench", "report", "job"]).expect(0).says("verified again after the trial: 2");
    // The records are those of the trials, and no agent was paid.
    assert_eq!(trial_files(&env, "job"), records);
    assert_eq!(env.read("job/ledger.jsonl"), ledger);
    // Back again: the first result is still the trial's.
    want(&env, "hello");
    env.ralph(&["bench", "regrade", "job", "--only", "test/one"]).expect(0).says("2 changed");
    let (lines, summary) = report(&env, "job");
    assert_eq!(column(&summary, "solves")["score"]["value"], 1.0);
    assert_eq!(lines[0]["regraded"]["first_rewards"], lines[0]["rewards"]);
}

#[test]
fn rewards_of_other_tests_are_not_taken_by_another_job() {
    let env = job();
    let original = env.read("tasks/one/tests/test.sh");
    want(&env, "bye");
    env.ralph(&["bench", "regrade", "job"]).expect(0);
    env.write("tasks/one/tests/test.sh", original);
    let again = |job: &str| {
        let run = ["bench", "run", "--agents", "solves,fails", "--reuse", "job", "--out", job];
        env.ralph(&run).expect(0);
        let taken = |trial: &&serde_json::Value| trial["reused"].is_object();
        let score = column(&report(&env, job).1, "solves")["score"]["value"].clone();
        (trial_files(&env, job).iter().filter(taken).count(), score)
    };
    assert_eq!(again("after"), (0, 1.0.into()));
    // By the tests of the job they are its rewards.
    env.ralph(&["bench", "regrade", "job"]).expect(0);
    assert_eq!(again("restored"), (2, 1.0.into()));
}

#[test]
fn what_a_verifier_leaves_is_not_there_the_next_time() {
    let env = environment(&[("solves", SOLVES)]);
    add_task(&env, "one", 60);
    env.ralph(&["bench", "run", "--agents", "solves", "--out", "job"]).expect(0);
    let test = "if [ -e /app/seen ]; then echo 0; else echo 1; fi > /logs/verifier/reward.txt\ntouch /app/seen\n";
    env.write("tasks/one/tests/test.sh", test);
    for _ in 0..2 {
        env.ralph(&["bench", "regrade", "job"]).expect(0).says("reward 1, as before");
    }
    let attempt = trial_of(&env, "job", "solves");
    assert_eq!(attempt["rewards"]["reward"], 1.0);
    let left = fs::read_dir(env.path("job")).unwrap().map(|entry| entry.unwrap().path());
    assert!(left.into_iter().all(|trial| !trial.join("attempts/1/regrading").exists()));
}

#[test]
fn a_verification_that_is_killed_on_request_changes_nothing() {
    let env = environment(&[("solves", SOLVES)]);
    add_task(&env, "one", 60);
    env.ralph(&["bench", "run", "--agents", "solves", "--out", "job"]).expect(0);
    env.write("shared/hold", "").write(
        "tasks/one/tests/test.sh",
        format!(
            "echo 0 > /logs/verifier/reward.txt\ntouch '{shared}/verifying'\n\
             while [ -e '{shared}/hold' ]; do sleep 0.02; done\n",
            shared = env.path("shared").display()
        ),
    );
    let mut running = env.start(&["bench", "regrade", "job"]);
    eventually("the verifier", || env.path("shared/verifying").exists());
    running.signal(Signal::INT);
    running.says("signal again to kill what runs");
    running.signal(Signal::INT);
    running.wait().expect(130).says("0 trials verified again").says("was killed on request");
    assert!(of_run(&env.root()).is_empty());
    let (lines, _) = report(&env, "job");
    assert_eq!(lines[0]["rewards"]["reward"], 1.0, "{lines:#?}");
    assert_eq!(lines[0].get("regraded"), None, "{lines:#?}");
}

#[test]
fn what_cannot_be_verified_again_stays_as_it_is() {
    let env = job();
    let attempts = fs::read_dir(env.path("job")).unwrap().map(|entry| entry.unwrap().path());
    let kept = |path: &std::path::PathBuf| path.join("attempts/1/environment").is_dir();
    let trial = attempts.into_iter().find(kept).unwrap();
    fs::remove_dir_all(trial.join("attempts/1/environment")).unwrap();
    let ended = env.ralph(&["bench", "regrade", "job"]).expect(0);
    ended.says("1 trial verified again").says("left as it is: its environment was not kept");
    // A verifier that says nothing takes nothing away.
    env.write("tasks/one/tests/test.sh", "true\n");
    let ended = env.ralph(&["bench", "regrade", "job", "--json"]).expect(1);
    let problems = ended.events();
    assert!(
        problems.iter().all(|line| line["problem"].is_string() && line["before"] == line["after"])
    );
    assert!(
        problems
            .iter()
            .any(|line| { line["problem"].as_str().unwrap().contains("RewardFileNotFoundError") })
    );
    assert_eq!(trial_of(&env, "job", "solves")["rewards"]["reward"], 1.0);
    let (_, summary) = report(&env, "job");
    assert_eq!(column(&summary, "solves")["score"]["value"], 1.0);
    env.ralph(&["bench", "regrade", "job", "--only", "two"]).expect(64).says("no task \"two\"");
    env.ralph(&["bench", "regrade", "none"]).expect(64).says("bench run");
    assert_eq!(status(&env, "job")["ended"], 2);
}

#[test]
fn a_verifier_that_gave_no_reward_can_be_corrected() {
    let env = environment(&[("solves", SOLVES)]);
    add_task(&env, "one", 60);
    let good = env.read("tasks/one/tests/test.sh");
    env.write("tasks/one/tests/test.sh", "echo nothing\n");
    env.ralph(&["bench", "run", "--agents", "solves", "--out", "job"]).expect(1);
    env.write("tasks/one/tests/test.sh", good);
    env.ralph(&["bench", "regrade", "job"]).expect(0).says("reward 1, before none");
    let (lines, summary) = report(&env, "job");
    assert_eq!(column(&summary, "solves")["judged"], 1);
    assert_eq!(lines[0]["fault"], serde_json::Value::Null);
    assert_eq!(lines[0]["regraded"]["first_fault"]["cause"], "verifier");
}
