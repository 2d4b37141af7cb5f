//! What cannot be performed is refused before anything is started, with the reason.

use std::fs;

use rustix::process::Signal;

use crate::environment::{TestEnvironment, eventually};

use super::{SOLVES, add_task, environment, report, trial_files};

/// A task whose environment needs the network.
fn add_unsupported(env: &TestEnvironment) {
    add_task(env, "fetches", 600);
    let file = "tasks/fetches/environment/Dockerfile";
    env.write(file, format!("{}RUN curl -fsSLo tool http://127.0.0.1:9/tool\n", env.read(file)));
}

#[test]
fn a_task_that_needs_the_network_is_refused_with_the_line() {
    let env = environment(&[("solves", SOLVES)]);
    add_task(&env, "one", 600);
    add_unsupported(&env);
    let args = ["--agents", "solves"];
    let check = env.ralph(&[&["bench", "check"][..], &args].concat()).expect(78);
    check.says("test/fetches").says("Dockerfile:4").says("`curl`");
    let check = env.ralph(&[&["bench", "check", "--json"][..], &args].concat()).expect(78);
    let found = check.events().remove(0);
    assert_eq!(found["refused"][0]["task"], "test/fetches", "{found}");
    assert_eq!(found["refused"].as_array().unwrap().len(), 1);

    let run = [&["bench", "run", "--out", "job"][..], &args].concat();
    env.ralph(&run).expect(78).says("test/fetches").says("--skip-unsupported");
    assert!(!env.path("job").exists(), "nothing was begun");
    env.ralph(&[&run[..], &["--skip-unsupported"]].concat())
        .expect(0)
        .says("left out: test/fetches");
    let (trials, summary) = report(&env, "job");
    assert_eq!((trials.len(), &summary["planned"]), (1, &1.into()));
    env.ralph(&["bench", "resume", "job"]).expect(0).says("nothing is left to do: 1 trial planned");
    let config = env.read("ralph.toml");
    env.write("ralph.toml", config.replace("trust_agent = true", "trust_agent = true\ntrials = 6"));
    env.ralph(&["bench", "resume", "job"]).expect(78).says("bench.trials is 6").says("--reuse");
    for (change, says) in [
        ("seed = 9", "bench.seed is 9 now, and the job was planned with 0"),
        ("max_cost_usd = 7", "bench.max_cost_usd is $7 now, and the job was planned with none"),
        ("variant.terse = {}", "(bench.agents, bench.variant) are solves, solves"),
    ] {
        env.write("ralph.toml", config.replace("[bench]", &format!("[bench]\n{change}")));
        env.ralph(&["bench", "resume", "job"]).expect(78).says(says).says("--reuse");
    }
    env.write("ralph.toml", &config);

    env.ralph(&[&["bench", "check"][..], &args, &["--isolation", "none"]].concat())
        .expect(78)
        .says("test/one");
    fs::remove_dir_all(env.path("tasks/one")).unwrap();
    let none = [&["bench", "run", "--out", "none", "--skip-unsupported"][..], &args].concat();
    env.ralph(&none).expect(78).says("no task is left");
}

#[test]
fn mistakes_in_the_matrix_are_named() {
    let env = environment(&[("solves", SOLVES)]);
    add_task(&env, "one", 600);
    let check = |args: &[&str]| env.ralph(&[&["bench", "check"][..], args].concat());
    check(&["--agents", "solves"]).expect(0).says("trials     1");
    check(&["--agents", "slove"]).expect(78).says("no agent called \"slove\"").says("`solves`");
    check(&["--agents", "solves,solves"]).expect(78).says("named twice");
    check(&["--agents", "solves", "--tasks", "nowhere"]).expect(78).says("nowhere");
    for path in ["nowhere", "tasks/one/task.toml"] {
        check(&["--agents", "solves", "--tasks", path]).expect(78).says("the folder of a task");
    }
    fs::create_dir(env.path("empty")).unwrap();
    check(&["--agents", "solves", "--tasks", "empty"]).expect(78).says("empty");
    check(&["--agents", "solves", "--set=bench.agent_concurrency.slove=1"])
        .expect(78)
        .says("\"slove\"")
        .says("`solves`");
    check(&["--agents", "solves", "--set=bench.trust_agent=false"])
        .expect(78)
        .says("no [[bench.validator]]")
        .says("--trust-agent");
    check(&["--agents", "solves", "--set=sandbox.read=[\"gone\"]"])
        .expect(78)
        .says("sandbox.read.0")
        .says("no such file or folder");
    fs::rename(env.path("agents/solves.sh"), env.path("agents/moved.sh")).unwrap();
    check(&["--agents", "solves"])
        .expect(69)
        .says("agents.solves.config.program")
        .says("solves.sh");
    // Nobody has to be trusted for these.
    check(&["--agents", "oracle,nop", "--set=bench.trust_agent=false"]).expect(0);
    check(&["--agents", "solves", "--trials", "0"]).expect(64);
}

#[test]
fn a_job_whose_tasks_or_configuration_changed_is_not_resumed() {
    let script = format!(
        "touch \"$shared/begun\"\nwhile [ -e \"$shared/hold\" ]; do sleep 0.02; done\n{SOLVES}"
    );
    let env = environment(&[("waits", &script)]);
    add_task(&env, "one", 600);
    env.write("shared/hold", "");
    let mut running = env.start(&["bench", "run", "--agents", "waits", "--out", "job"]);
    eventually("the agent", || env.path("shared/begun").exists());
    running.signal(Signal::INT);
    running.wait().expect(130);
    fs::remove_file(env.path("shared/hold")).unwrap();

    for (file, change) in
        [("tasks/one/tests/test.sh", "# changed"), ("ralph.toml", "[env.set]\nCHANGED = \"1\"")]
    {
        let before = env.read(file);
        env.write(file, format!("{before}\n{change}\n"));
        let ended = env.ralph(&["bench", "resume", "job"]).expect(78);
        ended.says("changed since the job was planned").says("bench run");
        env.write(file, before);
    }
    fs::rename(env.path("tasks/one"), env.path("elsewhere")).unwrap();
    env.ralph(&["bench", "resume", "job"]).expect(78);
    fs::rename(env.path("elsewhere"), env.path("tasks/one")).unwrap();
    assert_eq!(trial_files(&env, "job").len(), 1, "nothing was begun");
    let before = env.read("ralph.toml");
    env.write("ralph.toml", format!("# A comment is no change.\n{before}"));
    env.ralph(&["bench", "resume", "job"]).expect(0).says("[1/1]");
    env.ralph(&["bench", "resume", "nowhere"]).expect(64).says("has no job");
}

#[test]
fn a_wrong_value_of_a_variant_is_named_with_its_column() {
    let env = environment(&[("solves", SOLVES)]);
    add_task(&env, "one", 600);
    let config = env.read("ralph.toml");
    for (set, says) in [
        ("\"limits.max_iterations\" = \"many\"", "limits.max_iterations: expected a whole number"),
        ("\"limits.max_itertions\" = 3", "did you mean `limits.max_iterations`?"),
    ] {
        env.write("ralph.toml", format!("{config}\n[bench.variant.quick]\nset = {{ {set} }}\n"));
        let check = env.ralph(&["bench", "check", "--agents", "solves"]).expect(78);
        check
            .says(says)
            .says("configuration of solves+quick")
            .says("`set` in [bench.variant.quick]");
    }
}
