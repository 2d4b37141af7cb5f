//! The agents oracle and nop, on the tasks of the project.

use crate::environment::of_run;

use super::{column, environment, report};

#[test]
fn oracle_solves_every_task_of_the_project_and_nop_none() {
    let env = environment(&[]);
    let tasks = concat!(env!("CARGO_MANIFEST_DIR"), "/examples/bench/tasks");
    let args =
        ["bench", "run", "--agents", "oracle,nop", "--tasks", tasks, "-n", "2", "--out", "job"];
    env.ralph(&args).expect(0).says("[24/24]");
    let (trials, summary) = report(&env, "job");
    assert_eq!(trials.len(), 24);
    for (agent, reward) in [("oracle", 1.0), ("nop", 0.0)] {
        let column = column(&summary, agent);
        assert_eq!((&column["planned"], &column["judged"]), (&12.into(), &12.into()), "{column}");
        assert_eq!(column["score"]["value"], reward, "{column}");
        assert_eq!(column["tasks"].as_array().unwrap().len(), 12);
        for task in column["tasks"].as_array().unwrap() {
            assert_eq!(task["mean_reward"], reward, "{agent}: {task}");
        }
        assert_eq!(column["faults"], serde_json::json!({}), "{column}");
        assert_eq!(column["cost_usd"], 0.0);
    }
    let page = env.read("job/report.html");
    assert!(page.contains("oracle") && page.contains("greet-file"));
    assert!(of_run(&env.root()).is_empty());
}

#[test]
fn oracle_is_said_to_do_nothing_where_there_is_no_solution() {
    let env = environment(&[]);
    super::add_task(&env, "bare", 600);
    std::fs::remove_dir_all(env.path("tasks/bare/solution")).unwrap();
    env.ralph(&["bench", "run", "--agents", "oracle", "--out", "job"])
        .expect(0)
        .says("test/bare brings no solution");
    assert_eq!(super::trial_of(&env, "job", "oracle")["rewards"]["reward"], 0.0);
}
