//! kill -9 in the middle of a job, then `bench resume`: nothing is lost, nothing counts twice.

use std::collections::BTreeMap;

use rustix::process::Signal;
use serde_json::Value;

use crate::environment::{Running, TestEnvironment, eventually, of_run};

use super::{
    SOLVES, add_script, add_task, append, column, environment, metered, report, result, status,
    trial_files,
};

/// What each iteration of the agents costs, in dollars.
const COST: f64 = 0.01;
/// Trials of the jobs.
const TRIALS: usize = 12;

/// Two agents on two tasks, three times each. Each agent writes into `shared/reported` what it is about to report, and
/// does half of the work in each of two iterations. In the second one it waits while there is `shared/hold`.
pub(super) fn job() -> TestEnvironment {
    let env = environment(&[]);
    ["one", "two"].iter().for_each(|task| add_task(&env, task, 600));
    let first = result("half", "0.01");
    let last = result("<promise>COMPLETE</promise>", "0.01");
    let script = format!(
        "if [ -e half ]; then\n\
         echo x >> \"$shared/second\"\n\
         while [ -e \"$shared/hold\" ]; do sleep 0.02; done\n\
         echo hello > out.txt\necho x >> \"$shared/reported\"\n{last}\
         else touch half\necho x >> \"$shared/reported\"\n{first}fi\n"
    );
    for name in ["a", "b"] {
        add_script(&env, name, &script);
        append(&env, &metered(name));
    }
    env.write("shared/reported", "").write("shared/second", "");
    env
}

pub(super) const RUN: [&str; 11] = [
    "bench",
    "run",
    "--agents",
    "a,b",
    "--trials",
    "3",
    "-n",
    "2",
    "--out",
    "job",
    "--set=limits.max_iterations=3",
];

pub(super) fn lines(env: &TestEnvironment, file: &str) -> usize {
    env.read(file).lines().count()
}

/// Kills the orchestrator.
fn kill(running: &mut Running) {
    running.signal(Signal::KILL);
    running.wait();
}

/// Kills the orchestrator, and waits until nothing of it is left.
fn kill_and_wait(env: &TestEnvironment, running: &mut Running) {
    kill(running);
    eventually("the end of what was killed", || of_run(&env.root()).is_empty());
}

/// What the ledgers of the job come to, each line counted once.
fn paid(env: &TestEnvironment) -> f64 {
    let files = std::fs::read_dir(env.path("job")).unwrap().map(|entry| entry.unwrap().path());
    let ledgers = files.filter(|path| path.extension().is_some_and(|end| end == "jsonl"));
    let lines: String = ledgers.map(|path| std::fs::read_to_string(path).unwrap()).collect();
    let mut entries: BTreeMap<String, f64> = BTreeMap::new();
    for line in lines.lines() {
        let entry: Value = serde_json::from_str(line).unwrap();
        let key = format!("{} {} {}", entry["trial"], entry["attempt"], entry["iteration"]);
        let cost = entry["cost_usd"].as_f64().unwrap_or_default();
        let known = entries.entry(key).or_default();
        *known = known.max(cost);
    }
    entries.values().sum()
}

/// Every trial of a job that ended is once in the scores, and everything that agents reported was paid.
pub(super) fn check_whole(env: &TestEnvironment) {
    let (attempts, summary) = report(env, "job");
    let mut finals: BTreeMap<String, u32> = BTreeMap::new();
    for attempt in attempts.iter().filter(|attempt| attempt.get("fault").is_none()) {
        let key = format!("{} {} {}", attempt["agent"], attempt["task"], attempt["trial"]);
        *finals.entry(key).or_default() += 1;
    }
    assert_eq!(finals.len(), TRIALS, "{finals:#?}");
    assert!(finals.values().all(|count| *count == 1), "{finals:#?}");
    let mut retries = 0;
    for agent in ["a", "b"] {
        let column = column(&summary, agent);
        assert_eq!((&column["planned"], &column["judged"]), (&6.into(), &6.into()), "{column}");
        assert_eq!(column["score"]["value"], 1.0, "{column}");
        retries += column["retries"].as_u64().unwrap();
    }
    assert_eq!(retries, 0, "an interruption is no repetition after a fault");
    for attempt in attempts.iter().filter(|attempt| attempt.get("fault").is_some()) {
        assert_eq!(attempt["fault"]["cause"], "cancelled", "{attempt:#}");
        assert!(attempt.get("rewards").is_none_or(|rewards| *rewards == serde_json::json!({})));
    }
    assert_eq!(trial_files(env, "job").len(), attempts.len());
    let reported = f64::from(u32::try_from(lines(env, "shared/reported")).unwrap()) * COST;
    let paid = paid(env);
    assert!(paid >= reported - 1e-9, "agents reported ${reported}, the ledger has ${paid}");
    let status = status(env, "job");
    assert!((status["cost_usd"].as_f64().unwrap() - paid).abs() < 1e-9, "{status} {paid}");
    let of_columns: f64 =
        ["a", "b"].iter().map(|agent| column(&summary, agent)["cost_usd"].as_f64().unwrap()).sum();
    assert!((of_columns - paid).abs() < 1e-9, "columns ${of_columns}, ledger ${paid}");
}

#[test]
fn several_processes_share_a_job_and_repeat_what_one_of_them_lost() {
    let env = job();
    env.write("shared/hold", "");
    let planned = env.ralph(&[&RUN[..], &["--plan-only"]].concat()).expect(0);
    planned.says("12 trials planned").says("bench work ");
    assert_eq!(status(&env, "job")["is_running"], false);
    let mut workers: Vec<Running> =
        (0..3).map(|_| env.start(&["bench", "work", "job", "-n", "1"])).collect();
    eventually("three agents in their second iteration", || lines(&env, "shared/second") == 3);
    let before = status(&env, "job");
    assert_eq!((&before["is_running"], &before["running"]), (&true.into(), &3.into()), "{before}");
    let pids: Vec<u64> =
        before["workers"].as_array().unwrap().iter().map(|w| w["pid"].as_u64().unwrap()).collect();
    assert!(
        workers.iter().all(|worker| pids.contains(&u64::try_from(worker.pid()).unwrap())),
        "{before}"
    );
    // One who wants the job for itself is told who has it, and how to join.
    env.ralph(&["bench", "resume", "job"])
        .expect(75)
        .says("another process works on")
        .says("bench work");
    kill(&mut workers[0]);
    env.ralph(&["bench", "status", "job"]).expect(0).says("last sign of life");
    let now = status(&env, "job");
    // It is lost until another worker has recorded that.
    assert!(now["running"] == 2 && (now["lost"] == 1 || now["lost"] == 0), "{now}");
    std::fs::remove_file(env.path("shared/hold")).unwrap();
    workers[1..].iter_mut().for_each(|worker| drop(worker.wait().expect(0)));
    check_whole(&env);
    assert!(of_run(&env.root()).is_empty());
    // Nothing is left of who performed it, and one more finds nothing to do.
    assert_eq!(status(&env, "job")["workers"], serde_json::json!([]));
    env.ralph(&["bench", "work", "job"]).expect(0).says("report: ");
}

#[test]
fn a_worker_begins_nothing_after_its_time_and_leaves_the_rest_to_others() {
    let env = job();
    env.ralph(&[&RUN[..], &["--plan-only"]].concat()).expect(0);
    env.write("shared/hold", "");
    let mut worker = env.start(&["bench", "work", "job", "-n", "1", "--for", "10ms"]);
    std::fs::remove_file(env.path("shared/hold")).unwrap();
    worker.wait().says("bench work");
    assert_eq!(status(&env, "job")["is_running"], false);
    env.ralph(&["bench", "work", "job"]).expect(0);
    check_whole(&env);
}

#[test]
fn what_was_lost_is_kept_and_paid_and_performed_again() {
    let env = job();
    env.write("shared/hold", "");
    let mut running = env.start(&RUN);
    eventually("two agents in their second iteration", || lines(&env, "shared/second") == 2);
    let before = status(&env, "job");
    assert_eq!((&before["is_running"], &before["running"]), (&true.into(), &2.into()), "{before}");
    kill_and_wait(&env, &mut running);
    let after = status(&env, "job");
    assert_eq!((&after["is_running"], &after["lost"]), (&false.into(), &2.into()), "{after}");
    env.ralph(&["bench", "status", "job"]).expect(0).says("; resume repeats it");
    env.ralph(&["bench", "status", "job"]).expect(0).says("not finished").says("bench resume");

    std::fs::remove_file(env.path("shared/hold")).unwrap();
    env.ralph(&["bench", "resume", "job"]).expect(0);
    check_whole(&env);
    assert!(of_run(&env.root()).is_empty());
    let lost: Vec<Value> =
        trial_files(&env, "job").into_iter().filter(|trial| trial.get("fault").is_some()).collect();
    assert_eq!(lost.len(), 2);
    for attempt in lost {
        assert_eq!(attempt["attempt"], 1);
        assert_eq!(attempt["iterations"], 2);
        assert!(attempt["usage"]["cost"].as_f64().unwrap() >= COST, "{attempt:#}");
        assert!(attempt["run"].is_string(), "{attempt:#}");
    }
    // A job that is whole has nothing left to do.
    env.ralph(&["bench", "resume", "job"]).expect(0);
    check_whole(&env);
}

#[test]
fn kill_9_again_and_again_loses_and_doubles_nothing() {
    let env = job();
    let mut running = env.start(&RUN);
    // A handful of moments, which this seed chooses: after so many further reports, and so many milliseconds later.
    let mut seed = 0x9E37_79B9_u32;
    let mut draw = |below: u32| {
        seed ^= seed << 13;
        seed ^= seed >> 17;
        seed ^= seed << 5;
        seed % below
    };
    let mut kills = 0;
    for _ in 0..6 {
        let until = lines(&env, "shared/reported") + draw(4) as usize + 1;
        let mut ended = false;
        eventually("further reports", || {
            ended = running.child.try_wait().unwrap().is_some();
            ended || lines(&env, "shared/reported") >= until
        });
        if ended {
            break;
        }
        // What is interrupted depends on it, and not what has to hold.
        std::thread::sleep(std::time::Duration::from_millis(u64::from(draw(40))));
        // What it started may not have ended when the next one begins.
        kill(&mut running);
        kills += 1;
        running = env.start(&["bench", "resume", "job"]);
    }
    running.wait().expect(0);
    assert!(kills >= 3, "it was killed only {kills} times");
    check_whole(&env);
    assert!(of_run(&env.root()).is_empty());
}

#[test]
fn a_signal_stops_the_job_and_resume_goes_on() {
    let env = job();
    env.write("shared/hold", "");
    let mut running = env.start(&RUN);
    eventually("two agents in their second iteration", || lines(&env, "shared/second") == 2);
    env.ralph(&["bench", "resume", "job"]).expect(75).says("another process works on the job");
    env.ralph(&RUN).expect(75).says("another process works on the job");
    running.signal(Signal::INT);
    running.wait().expect(130).says("12 trials left").says("bench resume");
    assert!(of_run(&env.root()).is_empty());
    let now = status(&env, "job");
    assert_eq!((&now["is_running"], &now["judged"]), (&false.into(), &0.into()), "{now}");
    assert_eq!(trial_files(&env, "job").len(), 2, "those that were stopped, and no other");

    std::fs::remove_file(env.path("shared/hold")).unwrap();
    let ended = env.ralph(&["bench", "resume", "job", "--json"]).expect(0);
    let last = ended.events().pop().unwrap();
    assert_eq!((&last["event"], &last["end"]), (&"job_finished".into(), &"finished".into()));
    check_whole(&env);
    env.ralph(&["bench", "status", "job"]).expect(0).says("job finished").says("12 of 12 ended");
}

#[test]
fn a_job_that_is_killed_before_its_first_trial_can_be_resumed() {
    let env = environment(&[("solves", SOLVES)]);
    add_task(&env, "one", 600);
    env.ralph(&["bench", "run", "--agents", "solves", "--out", "job"]).expect(0);
    // As if the process had ended between the plan and the first attempt.
    for entry in std::fs::read_dir(env.path("job")).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            std::fs::remove_dir_all(path).unwrap();
        }
    }
    assert_eq!(status(&env, "job")["ended"], 0);
    env.ralph(&["bench", "resume", "job"]).expect(0);
    assert_eq!(trial_files(&env, "job").len(), 1);
}

/// Its own time limit would be the next to end it.
#[test]
fn one_signal_ends_a_verifier_that_goes_on_and_its_trial_is_performed_anew() {
    let env = environment(&[("solves", SOLVES)]);
    add_task(&env, "one", 600);
    let shared = env.path("shared").display().to_string();
    env.write("shared/hold", "").write(
        "tasks/one/tests/test.sh",
        format!(
            "trap '' INT TERM\necho 1 > /logs/verifier/reward.txt\ntouch '{shared}/verifying'\n\
             while [ -e '{shared}/hold' ]; do sleep 0.02; done\n"
        ),
    );
    let mut running = env.start(&["bench", "run", "--agents", "solves", "--out", "job"]);
    eventually("the verifier", || env.path("shared/verifying").exists());
    running.signal(Signal::TERM);
    running.says("what runs has 10 s to end");
    running.wait().expect(143).says("1 trial left");
    assert!(of_run(&env.root()).is_empty());
    let stopped = trial_files(&env, "job").remove(0);
    assert_eq!(stopped["fault"]["cause"], "cancelled", "{stopped:#}");

    std::fs::remove_file(env.path("shared/hold")).unwrap();
    env.ralph(&["bench", "resume", "job"]).expect(0).says("reward 1");
    assert_eq!(trial_files(&env, "job").len(), 2);
}

#[test]
fn a_verifier_that_is_killed_on_request_has_said_nothing() {
    let env = environment(&[("solves", SOLVES)]);
    add_task(&env, "one", 600);
    let shared = env.path("shared").display().to_string();
    env.write("shared/hold", "").write(
        "tasks/one/tests/test.sh",
        format!(
            "echo 0 > /logs/verifier/reward.txt\ntouch '{shared}/verifying'\n\
             while [ -e '{shared}/hold' ]; do sleep 0.02; done\n\
             echo 1 > /logs/verifier/reward.txt\n"
        ),
    );
    let mut running = env.start(&["bench", "run", "--agents", "solves", "--out", "job"]);
    eventually("the verifier", || env.path("shared/verifying").exists());
    running.signal(Signal::INT);
    running.says("signal again to kill what runs");
    running.signal(Signal::INT);
    running.wait().expect(130).says("1 trial left");
    assert!(of_run(&env.root()).is_empty());
    let stopped = trial_files(&env, "job").remove(0);
    assert_eq!(stopped["fault"]["cause"], "cancelled", "{stopped:#}");
    assert_eq!(stopped["rewards"], serde_json::json!({}), "{stopped:#}");

    std::fs::remove_file(env.path("shared/hold")).unwrap();
    env.ralph(&["bench", "resume", "job"]).expect(0).says("reward 1");
    assert_eq!(trial_files(&env, "job").len(), 2);
    assert_eq!(report(&env, "job").1["columns"][0]["solved"], 1);
}
