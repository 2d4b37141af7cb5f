//! `bench plan`: how many trials it takes.

use super::{add_script, add_task, append, environment, metered, result};

#[test]
fn a_prior_says_what_it_takes() {
    let env = environment(&[]);
    let ended = env.ralph(&["bench", "plan", "--detect", "5pp", "--prior", "0.4"]).expect(0);
    ended.says("5.0 points").says("with another number of tasks");
    let plan = |args: &[&str]| {
        let all = [&["bench", "plan", "--json", "--tasks", "100"], args].concat();
        env.ralph(&all).expect(0).events().remove(0)
    };
    let coarse = plan(&["--detect", "20pp", "--cost", "0.5"]);
    let size = &coarse["with_these_tasks"];
    let trials = size["trials"].as_u64().and_then(|count| u32::try_from(count).ok()).unwrap();
    assert_eq!(u64::from(trials), 200 * size["trials_per_task"].as_u64().unwrap(), "{coarse}");
    let cost = size["cost_usd"].as_f64().unwrap();
    assert!((cost - 0.5 * f64::from(trials)).abs() < 1e-9, "{coarse}");
    // The same in other words.
    assert_eq!(plan(&["--detect", "0.2", "--cost", "0.5"]), coarse);
    for (wrong, says) in [
        (["--detect", "five", "--prior", "0.5"], "percentage points"),
        (["--detect", "0pp", "--prior", "0.5"], "more than 0pp and at most 100pp"),
        (["--detect", "500pp", "--prior", "0.5"], "more than 0pp and at most 100pp"),
        // Most who type a bare number mean points.
        (["--detect", "1", "--prior", "0.5"], "a share below 1"),
        (["--detect", "5pp", "--prior", "1.5"], "a share from 0 to 1"),
    ] {
        env.ralph(&[&["bench", "plan"][..], &wrong].concat()).expect(64).says(says);
    }
}

#[test]
fn a_pilot_says_how_rewards_vary_and_what_a_trial_costs() {
    let env = environment(&[]);
    ["a", "b", "c", "d"].iter().for_each(|task| add_task(&env, task, 600));
    // It solves two of the four tasks.
    let script = format!(
        "case $(cat name.txt) in a|b) echo hello > out.txt;; esac\n{}",
        result("<promise>COMPLETE</promise>", "0.25")
    );
    add_script(&env, "half", &script);
    append(&env, &metered("half"));
    let run = ["bench", "run", "--agents", "half", "--trials", "2", "-n", "2", "--out", "pilot"];
    env.ralph(&run).expect(0);
    let args = ["bench", "plan", "--detect", "5pp", "--pilot", "pilot"];
    env.ralph(&args).expect(0).says("about $");
    let plan = env.ralph(&[&args[..], &["--json"]].concat()).expect(0).events().remove(0);
    let size = &plan["with_more_tasks"][0];
    let each = size["cost_usd"].as_f64().unwrap() / size["trials"].as_f64().unwrap();
    assert!((each - 0.25).abs() < 1e-9, "{plan}");

    let small = ["bench", "run", "--agents", "half", "--tasks", "tasks/a", "--out", "small"];
    env.ralph(&small).expect(0);
    env.ralph(&["bench", "plan", "--detect", "5pp", "--pilot", "small"])
        .expect(64)
        .says("too small for a pilot")
        .says("two trials");
}
