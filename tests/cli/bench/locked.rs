//! The lock of a job, and trials that are not performed again.

use serde_json::Value;

use crate::environment::{Ended, TestEnvironment};

use super::{
    add_script, add_task, append, environment, metered, report, result, status, trial_files,
};

/// An agent that costs a dollar and notes each time that it worked, on two tasks.
fn paid() -> TestEnvironment {
    let env = environment(&[]);
    let claim = result("<promise>COMPLETE</promise>", "1.0");
    add_script(
        &env,
        "paid",
        &format!("echo x >> \"$shared/worked\"\necho hello > out.txt\n{claim}"),
    );
    append(&env, &metered("paid"));
    add_task(&env, "one", 600);
    add_task(&env, "two", 600);
    env.write("shared/worked", "");
    env
}

fn run(env: &TestEnvironment, job: &str, more: &[&str]) -> Ended {
    env.ralph(&[&["bench", "run", "--agents", "paid", "--out", job][..], more].concat())
}

/// How often the agent worked.
fn worked(env: &TestEnvironment) -> usize {
    env.read("shared/worked").lines().count()
}

fn reused(env: &TestEnvironment, job: &str) -> usize {
    trial_files(env, job).iter().filter(|trial| trial["reused"].is_object()).count()
}

#[test]
fn what_differs_from_a_lock_is_named_and_nothing_is_started() {
    let env = paid();
    run(&env, "first", &["--seed", "3"]).expect(0);
    let lock: Value = serde_json::from_str(&env.read("first/bench.lock.json")).unwrap();
    assert_eq!(lock["tasks"].as_object().unwrap().len(), 2, "{lock:#}");
    // The folder of a job, or a copy of its file.
    run(&env, "second", &["--seed", "3", "--locked", "first"]).expect(0);
    env.write("kept.json", env.read("first/bench.lock.json"));
    let before = env.read("ralph.toml");
    append(&env, "\n# A comment is no change.\n");
    run(&env, "third", &["--seed", "3", "--locked", "kept.json"]).expect(0);
    env.raw_config(&before);
    let times = worked(&env);

    let refused = |more: &[&str], says: &[&str]| {
        let ended = run(&env, "not", &[&["--locked", "kept.json"], more].concat()).expect(78);
        for text in says {
            ended.says(text);
        }
        assert!(!env.path("not").exists());
    };
    refused(&["--seed", "4", "--trials", "2"], &["seed: was 3, is 4", "trials: was 1, is 2"]);
    let seed = ["--seed", "3"];
    let test = "tasks/one/tests/test.sh";
    let task = env.read(test);
    env.write(test, format!("{task}\n"));
    refused(&seed, &["task test/one: was digest ", ", is digest "]);
    env.write(test, &task);
    refused(
        &["--seed", "3", "--set=limits.max_iterations=2"],
        &["column paid: was configuration "],
    );
    let script = env.read("agents/paid.sh");
    env.write("agents/paid.sh", format!("{script}\n# another version\n"));
    refused(&seed, &["version of agent of paid: was "]);
    env.write("agents/paid.sh", &script);
    append(&env, "[bench.variant.more]\nset = { \"limits.max_iterations\" = 2 }\n");
    refused(&seed, &["column paid+more: was missing, is configuration "]);
    assert_eq!(worked(&env), times, "nothing was started");

    env.raw_config(&before);
    run(&env, "not", &["--locked", "nowhere.json"]).expect(64).says("nowhere.json");
    env.write("kept.json", "{\"program\": 1}");
    run(&env, "not", &["--locked", "kept.json"]).expect(65).says("kept.json is damaged");
}

#[test]
fn the_same_trials_are_taken_from_an_earlier_job_and_paid_once() {
    let env = paid();
    run(&env, "first", &[]).expect(0);
    assert_eq!(worked(&env), 2);
    run(&env, "plain", &[]).expect(0);
    assert_eq!(
        (worked(&env), reused(&env, "plain")),
        (4, 0),
        "nothing is taken unless it is asked for"
    );

    run(&env, "second", &["--trials", "2", "--reuse", "first", "--reuse", "first"])
        .expect(0)
        .says("2 trials taken from earlier jobs; these are no new samples")
        .says("2 of 4 trials of paid were taken from earlier jobs");
    assert_eq!((worked(&env), reused(&env, "second")), (6, 2));
    let (trials, summary) = report(&env, "second");
    assert_eq!(trials.iter().filter(|trial| trial["reused"].is_object()).count(), 2);
    assert_eq!(summary["columns"][0]["judged"], 4);
    // Only what this job performed was paid by it.
    assert_eq!(status(&env, "second")["cost_usd"], 2.0);
    assert_eq!(env.read("second/ledger.jsonl").lines().count(), 2);
    env.ralph(&["bench", "resume", "second"]).expect(0);
    assert_eq!(worked(&env), 6);

    let compare = |with: &str| {
        env.ralph(&["bench", "compare", "second", "paid", "paid", "--with", with]).expect(0)
    };
    compare("first").says("they are compared with themselves");
    assert!(!compare("plain").stderr.contains("themselves"));

    // What was taken is not taken further.
    run(&env, "third", &["--trials", "2", "--reuse", "second"]).expect(0);
    assert_eq!((worked(&env), reused(&env, "third")), (8, 2));
}

#[test]
fn other_trials_are_performed() {
    let env = paid();
    run(&env, "first", &[]).expect(0);
    let mut job = 0;
    let mut taken = |more: &[&str]| {
        job += 1;
        let name = format!("job-{job}");
        run(&env, &name, &[&["--reuse", "first"], more].concat()).expect(0);
        reused(&env, &name)
    };
    assert_eq!(taken(&[]), 2);
    assert_eq!(taken(&["--seed", "9"]), 0);
    assert_eq!(taken(&["--curve"]), 0);
    assert_eq!(taken(&["--set=limits.max_iterations=2"]), 0);
    let test = "tasks/one/tests/test.sh";
    env.write(test, format!("{}\n", env.read(test)));
    assert_eq!(taken(&[]), 1);
    // The same trial stands for one column only, even where two have the same configuration.
    append(&env, "[bench.variant.same]\nset = { \"limits.max_iterations\" = 1 }\n");
    assert_eq!(taken(&[]), 1);
    env.write("agents/paid.sh", format!("{}\n# another version\n", env.read("agents/paid.sh")));
    assert_eq!(taken(&[]), 0);
}

#[test]
fn a_job_can_take_results_only_from_jobs_that_are_as_it_would_be() {
    let env = paid();
    run(&env, "first", &[]).expect(0);
    let taken = ["--trials", "2", "--reuse", "first", "--only-reused"];
    run(&env, "second", &taken).expect(0).says("2 trials left");
    assert_eq!((worked(&env), reused(&env, "second")), (2, 2), "nothing was performed");
    // Another machine of the same system, and more trials, are the same results.
    let plan = env.read("first/bench.json");
    let mut moved: Value = serde_json::from_str(&plan).unwrap();
    moved["lock"]["host"]["processors"] = 4096.into();
    env.write("first/bench.json", moved.to_string());
    run(&env, "third", &[&taken[..], &["--locked", "results"]].concat()).expect(0);
    run(&env, "not", &[&taken[..], &["--locked", "machine"]].concat())
        .expect(78)
        .says("host processors: was 4096");
    run(&env, "not", &["--seed", "9", "--reuse", "first", "--locked=results"])
        .expect(78)
        .says("seed");
    run(&env, "not", &["--locked=results"]).expect(64).says("the jobs of `--reuse`");
    run(&env, "not", &["--only-reused"]).expect(64);
    assert_eq!(worked(&env), 2);
}
