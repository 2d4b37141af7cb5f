//! What trials and jobs may cost.

use crate::environment::TestEnvironment;

use super::{
    SOLVES, add_script, add_task, append, environment, metered, report, result, status,
    trial_files, trial_of,
};

/// An agent whose every iteration costs 25 cents and leads nowhere.
fn expensive() -> TestEnvironment {
    let env = environment(&[("free", SOLVES)]);
    add_task(&env, "one", 600);
    add_script(&env, "dear", &result("nothing", "0.25"));
    append(&env, &metered("dear"));
    env
}

#[test]
fn a_job_ends_when_its_money_is_used_up() {
    let env = expensive();
    let run = ["bench", "run", "--agents", "dear", "--trials", "5", "--out", "job"];
    let ended = env.ralph(&[&run[..], &["--max-cost", "0.60"]].concat()).expect(1);
    ended.says("the money is used up, 2 trials left").says("bench.max_cost_usd");
    let found = status(&env, "job");
    assert_eq!((&found["planned"], &found["ended"]), (&5.into(), &3.into()), "{found}");
    assert_eq!(found["cost_usd"], 0.75, "the last iteration may go over it");
    env.ralph(&["bench", "status", "job"]).expect(0).says("3 of 5 ended").says("not finished");
    // Nothing is begun again without money.
    env.ralph(&["bench", "resume", "job"]).expect(1).says("2 trials left");
    assert_eq!(status(&env, "job")["cost_usd"], 0.75);
    let (_, summary) = report(&env, "job");
    assert_eq!(summary["columns"][0]["ended"], 3);
}

#[test]
fn the_smaller_of_the_limits_of_job_and_run_holds() {
    let env = expensive();
    let more = ["--set=limits.max_iterations=20", "--set=limits.max_cost_usd=0.4"];
    let run = ["bench", "run", "--agents", "dear", "--out"];
    for (job, budget, cost) in [("run", "10", 0.5), ("job", "0.2", 0.25)] {
        env.ralph(&[&run[..], &[job, "--max-cost", budget], &more].concat()).says("MaxCostError");
        let trial = trial_of(&env, job, "dear");
        assert_eq!(trial["fault"]["cause"], "budget", "{trial:#}");
        assert_eq!(trial["usage"]["cost"], cost, "{trial:#}");
        assert_eq!(trial["stop_reason"], "max_cost");
    }
}

#[test]
fn the_budget_of_an_agent_leaves_the_money_of_others() {
    let env = expensive();
    let run = ["bench", "run", "--agents", "dear,free", "--trials", "3", "--out", "job"];
    env.ralph(&[&run[..], &["--set=bench.max_cost_per_agent_usd=0.25"]].concat()).expect(1);
    let ended = |agent: &str| {
        trial_files(&env, "job").iter().filter(|trial| trial["agent"] == agent).count()
    };
    assert_eq!((ended("dear"), ended("free")), (1, 3));
}

#[test]
fn an_agent_of_unknown_cost_is_refused_where_there_is_a_budget() {
    let env = environment(&[]);
    add_task(&env, "one", 600);
    add_script(&env, "silent", SOLVES);
    append(
        &env,
        "[agents.silent]\nadapter = \"command\"\n[agents.silent.config]\n\
         program = [\"./agents/silent.sh\"]\n",
    );
    let run = ["bench", "run", "--agents", "silent", "--max-cost", "1", "--out", "job"];
    env.ralph(&run).expect(78).says("reports no cost").says("unmetered");
}
