//! kill -9 at every write of a job, then `bench resume`: what the job comes to is what it comes to without.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use rustix::process::Signal;
use serde_json::Value;

use crate::environment::{PATIENCE, Running, TestEnvironment, eventually, of_run};

use super::{add_script, add_task, append, environment, metered, report, result, trial_files};

/// What each iteration costs, in dollars.
const COST: f64 = 0.01;
const TASKS: [&str; 4] = ["one", "two", "three", "four"];
const TRIALS: usize = 20;
/// More than a trial writes: the folder of its attempt, the records of its run, its lines of the ledger, its record.
const WRITES_OF_TRIAL: usize = 16;

/// One agent on four tasks, five times each, one trial after the other. Half of the work is done in each of two
/// iterations, each of which the provider bills by a line with the run in `shared/bill` before the agent reports it.
fn job() -> TestEnvironment {
    let env = environment(&[]);
    TASKS.iter().for_each(|task| add_task(&env, task, 600));
    let first = result("half", &COST.to_string());
    let last = result("<promise>COMPLETE</promise>", &COST.to_string());
    let script = format!(
        "echo \"$RALPH_RUN_ID\" >> \"$shared/bill\"\n\
         if [ -e half ]; then echo hello > out.txt\n{last}else touch half\n{first}fi\n"
    );
    add_script(&env, "a", &script);
    append(&env, &metered("a"));
    env.write("shared/bill", "");
    env
}

fn start(env: &TestEnvironment, job: &str) -> Running {
    env.start(&[
        "bench",
        "run",
        "--agents",
        "a",
        "--trials",
        "5",
        "-n",
        "1",
        "--out",
        job,
        "--set=limits.max_iterations=3",
    ])
}

fn folders(path: &Path) -> impl Iterator<Item = PathBuf> + use<> {
    let found = fs::read_dir(path).into_iter().flatten().flatten().map(|entry| entry.path());
    found.filter(|path| path.is_dir())
}

fn count_lines(path: &Path) -> usize {
    fs::read(path).unwrap_or_default().iter().filter(|byte| **byte == b'\n').count()
}

/// What a job has written: its plan, lines of its ledger, and of each attempt its folder, its record, and as long as it
/// has none the records of its run's journal.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
struct Written {
    plan: usize,
    ledger: usize,
    attempts: usize,
    ended: usize,
    journal: usize,
}

impl Written {
    fn read(job: &Path) -> Self {
        let is_there = |name: &str| usize::from(job.join(name).exists());
        let mut written = Self {
            plan: is_there("bench.json") + is_there("bench.lock.json"),
            ledger: count_lines(&job.join("ledger.jsonl")),
            ..Self::default()
        };
        for attempt in folders(job).flat_map(|trial| folders(&trial.join("attempts"))) {
            written.attempts += 1;
            if attempt.join("trial.json").exists() {
                written.ended += 1;
                continue;
            }
            for run in folders(&attempt.join("state/runs")) {
                written.journal += count_lines(&run.join("journal.jsonl"));
            }
        }
        written
    }

    /// How far it is. What a trial whose record is there has in its journal is no part of it.
    const fn count(self) -> usize {
        self.plan + self.ledger + self.attempts + self.ended + self.journal
    }
}

/// Waits for this many further writes, then kills the orchestrator. Returns how far the job was when it was dead, and
/// whether it had ended before.
fn kill_after(env: &TestEnvironment, running: &mut Running, writes: usize) -> (Written, bool) {
    let job = env.path("job");
    let deadline = Instant::now() + PATIENCE;
    let (mut seen, mut last) = (0, Written::read(&job).count());
    while seen < writes {
        assert!(Instant::now() < deadline, "no further write");
        if running.child.try_wait().unwrap().is_some() {
            return (Written::read(&job), true);
        }
        let now = Written::read(&job).count();
        // It falls by the records of a journal whose trial has ended.
        seen += if now < last { 1 } else { now - last };
        last = now;
        std::thread::sleep(Duration::from_micros(100));
    }
    running.signal(Signal::KILL);
    running.wait();
    (Written::read(&job), false)
}

/// The rewards of the trials of a job that count, each trial once.
fn results(env: &TestEnvironment, job: &str) -> BTreeMap<String, Value> {
    let (attempts, summary) = report(env, job);
    let column = &summary["columns"][0];
    assert_eq!((&column["planned"], &column["judged"]), (&20.into(), &20.into()), "{column}");
    assert_eq!(column["retries"], 0, "an interruption is no repetition after a fault");
    let mut results = BTreeMap::new();
    for attempt in &attempts {
        let is_cancelled = attempt["fault"]["cause"] == "cancelled";
        assert_eq!(attempt.get("fault").is_some(), is_cancelled, "{attempt:#}");
        if !is_cancelled {
            let key = format!("{} {}", attempt["task"], attempt["trial"]);
            let other = results.insert(key, attempt["rewards"].clone());
            assert_eq!(other, None, "it counts twice: {attempt:#}");
        }
    }
    assert_eq!(trial_files(env, job).len(), attempts.len());
    results
}

/// What the ledger says that each run cost, each line counted once, in dollars.
fn paid(env: &TestEnvironment, job: &str) -> BTreeMap<String, f64> {
    let mut lines: BTreeMap<(String, u64), f64> = BTreeMap::new();
    for line in env.read(&format!("{job}/ledger.jsonl")).lines() {
        let entry: Value = serde_json::from_str(line).unwrap();
        let key = (entry["run"].as_str().unwrap().to_owned(), entry["iteration"].as_u64().unwrap());
        let cost = lines.entry(key).or_default();
        *cost = cost.max(entry["cost_usd"].as_f64().unwrap_or_default());
    }
    let mut paid: BTreeMap<String, f64> = BTreeMap::new();
    for ((run, _), cost) in lines {
        *paid.entry(run).or_default() += cost;
    }
    paid
}

/// What the provider bills for each run, in dollars.
fn billed(env: &TestEnvironment) -> BTreeMap<String, f64> {
    let mut billed: BTreeMap<String, f64> = BTreeMap::new();
    for run in env.read("shared/bill").lines() {
        *billed.entry(run.to_owned()).or_default() += COST;
    }
    billed
}

#[test]
fn kill_9_after_any_write_of_a_job_changes_no_result_and_hides_no_cost() {
    let env = job();
    start(&env, "whole").wait().expect(0);
    let whole = results(&env, "whole");
    assert_eq!(whole.len(), TRIALS);
    assert_eq!(paid(&env, "whole"), billed(&env));

    let (mut kills, mut places) = (0, BTreeSet::new());
    let mut running = start(&env, "job");
    // At the first write after it was started, at the second one, and so on: from those that say that what was killed
    // before is lost to those of the trial after the next one. Then from the beginning.
    for writes in (1..=2 * WRITES_OF_TRIAL + 6).cycle() {
        let (written, has_ended) = kill_after(&env, &mut running, writes);
        if has_ended {
            break;
        }
        kills += 1;
        places.insert((written.attempts - written.ended, written.journal));
        let again: &[&str] = &["bench", "resume", "job"];
        // Without a plan there is no job yet.
        running =
            if env.path("job/bench.json").exists() { env.start(again) } else { start(&env, "job") };
    }
    running.wait().expect(0);
    eventually("the end of what was killed", || of_run(&env.root()).is_empty());
    assert!(kills >= 15, "it was killed only {kills} times");
    assert!(places.len() >= 6, "it was killed at the same places: {places:?}");

    assert_eq!(results(&env, "job"), whole);
    let (paid, billed) = (paid(&env, "job"), billed(&env));
    let finished: BTreeSet<String> = trial_files(&env, "job")
        .iter()
        .filter(|trial| trial.get("fault").is_none())
        .map(|trial| trial["run"].as_str().unwrap().to_owned())
        .collect();
    assert_eq!(finished.len(), TRIALS);
    for run in &finished {
        assert!((paid[run] - 2.0 * COST).abs() < 1e-9, "{run}: {paid:?}");
    }
    let of_this_job = |run: &&String| !env.read("whole/ledger.jsonl").contains(run.as_str());
    for run in billed.keys().filter(of_this_job) {
        let paid = paid.get(run).copied().unwrap_or_default();
        assert!(paid >= billed[run] - 1e-9, "{run}: billed ${}, paid ${paid}", billed[run]);
        if finished.contains(run) {
            assert!(
                (paid - billed[run]).abs() < 1e-9,
                "{run}: billed ${}, paid ${paid}",
                billed[run]
            );
        }
    }
    let unpaid = env.ralph(&["bench", "status", "job", "--json"]).expect(0);
    let status: Value = serde_json::from_str(&unpaid.stdout).unwrap();
    let sum: f64 = paid.values().sum();
    assert!((status["cost_usd"].as_f64().unwrap() - sum).abs() < 1e-9, "{status} {sum}");
}
