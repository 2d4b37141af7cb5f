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
fn oracle_solves_a_task_of_terminal_bench_1_and_nop_does_not() {
    let env = environment(&[]);
    env.write("tasks/hello/task.yaml", "instruction: Write hello.txt\nparser_name: pytest\n");
    env.write("tasks/hello/Dockerfile", "FROM debian:12\nWORKDIR /app\n");
    env.write("tasks/hello/solution.sh", "echo hello > hello.txt\n");
    let test = "echo '=== short test summary info ==='\n\
                grep -q hello hello.txt && echo \"PASSED $TEST_DIR/t.py::a\" || echo 'FAILED t.py::a - x'\n";
    env.write("tasks/hello/run-tests.sh", test);
    env.ralph(&["bench", "run", "--agents", "oracle,nop", "--out", "job"]).expect(0);
    for (agent, reward) in [("oracle", 1.0), ("nop", 0.0)] {
        let trial = super::trial_of(&env, "job", agent);
        super::expect_trial(&trial, reward, &serde_json::Value::Null, &[]);
    }
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

#[test]
fn tasks_that_reward_nothing_or_cannot_be_solved_are_named() {
    let env = environment(&[]);
    ["good", "free", "bad"].iter().for_each(|task| super::add_task(&env, task, 600));
    for (task, reward) in [("free", 1), ("bad", 0)] {
        let test = format!("echo {reward} > /logs/verifier/reward.txt\n");
        env.write(&format!("tasks/{task}/tests/test.sh"), test);
    }
    let nop = "nop is rewarded on 1 task: test/free";
    let oracle = "oracle has less than the full reward on 1 task: test/bad";
    env.ralph(&["bench", "validate", "tasks", "--out", "job"]).expect(1).says(nop).says(oracle);
    // Each report of these two says it.
    env.ralph(&["bench", "report", "job"]).expect(0).says(nop).says(oracle);
    let args = ["bench", "validate", "tasks/free", "--out", "json", "--json"];
    let last = env.ralph(&args).expect(1).events().pop().unwrap();
    assert_eq!(
        (&last["event"], &last["rewarding_nop"][0]),
        (&"validated".into(), &"test/free".into())
    );
    let ended = env.ralph(&["bench", "validate", "tasks/good"]).expect(0);
    assert!(!ended.stdout.contains("nop is rewarded"), "{}", ended.stdout);
    env.ralph(&["bench", "validate", "tasks", "--agents", "nop"])
        .expect(64)
        .says("`oracle` and `nop`");
}
