//! What `bench compare`, `status` and `report` say of a job that has ended.

use serde_json::Value;

use crate::environment::TestEnvironment;

use super::{FAILS, SOLVES, add_task, environment, report, status};

/// Enough that an exact test sees that one agent solves all and another none.
const TASKS: usize = 6;

fn ended() -> TestEnvironment {
    let env = environment(&[("solves", SOLVES), ("fails", FAILS), ("same", SOLVES)]);
    (0..TASKS).for_each(|number| add_task(&env, &format!("task-{number}"), 600));
    env.ralph(&["bench", "run", "--agents", "solves,fails,same", "-n", "2", "--out", "job"])
        .expect(0);
    env
}

#[test]
fn compare_ends_with_1_for_a_significant_regression_only() {
    let env = ended();
    let compare = |baseline: &str, candidate: &str| {
        env.ralph(&["bench", "compare", "job", baseline, candidate])
    };
    compare("solves", "fails").expect(1).says("100.0 points worse").says("McNemar");
    compare("fails", "solves").expect(0);
    compare("solves", "same").expect(0);
    // Six tasks that differ are significant at 5 %, and not at 1 %.
    let strict = ["bench", "compare", "job", "solves", "fails", "--significance", "0.01", "--json"];
    let found = env.ralph(&strict).expect(0).events().remove(0);
    assert_eq!((&found["worse"], &found["better"]), (&TASKS.into(), &0.into()), "{found}");
    assert!((found["p_value"].as_f64().unwrap() - 0.031_25).abs() < 1e-9, "{found}");
    env.ralph(&["bench", "compare", "job", "solves", "fails", "--significance", "5"])
        .expect(64)
        .says("a probability between 0 and 1");
    compare("solves", "nobody").expect(64).says("no column \"nobody\"").says("fails");
    env.ralph(&["bench", "compare", "nowhere", "a", "b"]).expect(64).says("has no job");
}

#[test]
fn status_and_report_agree_about_a_job_that_ended() {
    let env = ended();
    let found = status(&env, "job");
    assert_eq!(found["is_running"], false);
    assert_eq!((&found["planned"], &found["ended"]), (&(3 * TASKS).into(), &(3 * TASKS).into()));
    assert_eq!((&found["judged"], &found["solved"]), (&(3 * TASKS).into(), &(2 * TASKS).into()));
    // None of these agents says what it costs.
    assert_eq!((&found["cost_usd"], &found["cost_unknown"]), (&Value::Null, &(3 * TASKS).into()));
    env.ralph(&["bench", "status", "job"]).expect(0).says("cost    not known");
    let (trials, summary) = report(&env, "job");
    assert_eq!(summary["columns"][0]["cost_usd"], Value::Null);
    assert_eq!(trials.len(), 3 * TASKS);
    assert_eq!(summary["planned"], 3 * TASKS);
    env.ralph(&["bench", "report", "job"]).expect(0).says("solves").says("100.0 %");
    env.ralph(&["bench", "report", "job", "--markdown"]).expect(0).says("| solves |");
    env.ralph(&["bench", "report", "job", "--html", "page.html"]).expect(0);
    assert_eq!(env.read("page.html"), env.read("job/report.html"));
    env.ralph(&["bench", "report", "job", "--json", "--markdown"])
        .expect(64)
        .says("cannot be used with");
    env.ralph(&["bench", "report", "job", "--html", "nowhere/page.html"])
        .expect(64)
        .says("cannot write nowhere/page.html");
    env.ralph(&["bench", "report", "."]).expect(64).says("name one of the jobs in it").says("/job");
    env.ralph(&["bench", "status", "nowhere"]).expect(64).says("has no job").says("bench run");
    env.ralph(&["bench", "run", "--agents", "solves", "--out", "job"])
        .expect(64)
        .says("has a job already")
        .says("bench resume");
    // A job that ended by agreement of all its events.
    let args = ["bench", "run", "--agents", "solves", "--out", "other", "--json"];
    let events = env.ralph(&args).expect(0).events();
    let of = |kind: &str| events.iter().filter(|event| event["event"] == kind).count();
    assert_eq!((of("trial_started"), of("trial_ended"), of("job_finished")), (TASKS, TASKS, 1));
    let last = events.last().unwrap();
    assert_eq!((&last["exit_code"], &last["end"]), (&0.into(), &"finished".into()));
    // Columns of two jobs.
    env.ralph(&["bench", "compare", "job", "fails", "solves", "--with", "other"]).expect(0);
    // Two jobs without a common task: nothing was compared, which is no success.
    let only = ["bench", "run", "--agents", "solves", "--tasks", "elsewhere", "--out", "third"];
    std::fs::rename(env.path("tasks/task-0"), env.path("elsewhere")).unwrap();
    env.write("elsewhere/instruction.md", "Write hello into out.txt, please.\n");
    env.ralph(&only).expect(0);
    let apart = ["bench", "compare", "job", "fails", "solves", "--with", "third"];
    env.ralph(&apart).expect(64).says("no task in common").says("its files are the same");
    let json = env.ralph(&[&apart[..], &["--json"]].concat()).expect(64);
    assert_eq!(json.events()[0]["tasks"], 0, "{}", json.stdout);
}
