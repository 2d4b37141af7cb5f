//! Agents that do one thing each, as the columns of one job: what is said of each is what it did.

use serde_json::{Value, json};

use crate::environment::{TestEnvironment, of_run};

use super::{
    FAILS, SOLVES, add_script, add_task, append, column, environment, metered, report, result,
    trial_files, trial_of,
};

const CLAIM: &str = "echo '<promise>COMPLETE</promise>'\n";

/// A job of one task, with these agents, that has ended.
fn performed(agents: &[(&str, &str)], args: &[&str]) -> TestEnvironment {
    let env = environment(agents);
    add_task(&env, "one", 600);
    let names: Vec<&str> = agents.iter().map(|(name, _)| *name).collect();
    let names = names.join(",");
    let all = [&["bench", "run", "--out", "job", "-n", "2", "--agents", &names], args].concat();
    env.ralph(&all).expect(0);
    assert!(of_run(&env.root()).is_empty());
    env
}

/// Asserts the reward, the cause and kind of the fault, and what it did to the verification.
#[track_caller]
fn expect(trial: &Value, reward: f64, fault: &Value, cheating: &Value) {
    assert_eq!(trial["rewards"], json!({ "reward": reward }), "{trial:#}");
    let found = match trial.get("fault") {
        Some(fault) => json!([fault["cause"], fault["kind"]]),
        None => Value::Null,
    };
    assert_eq!(found, *fault, "{trial:#}");
    let findings = trial["cheating"].as_array().into_iter().flatten();
    let mut findings: Vec<Value> =
        findings.map(|finding| json!([finding["kind"], finding["path"]])).collect();
    findings.sort_by_key(ToString::to_string);
    assert_eq!(Value::from(findings), *cheating, "{trial:#}");
}

#[test]
fn each_lands_in_its_own_column() {
    let second = format!("if [ -e half ]; then {SOLVES} else touch half; fi\n");
    let fake = format!(
        "echo 1 > /logs/verifier/reward.txt\necho '{{\"reward\": 1}}' > /logs/verifier/reward.json\n{CLAIM}"
    );
    let edits = format!("echo mine > check.txt\n{CLAIM}");
    let deletes = format!("rm check.txt\n{CLAIM}");
    let peeks = format!("cat /solution/solve.sh; ls /tests; cat /tests/test.sh\n{CLAIM}");
    let env = performed(
        &[
            ("solves", SOLVES),
            ("fails", FAILS),
            ("second", &second),
            ("liar", CLAIM),
            ("fake", &fake),
            ("edits", &edits),
            ("deletes", &deletes),
            ("peeks", &peeks),
        ],
        &["--curve", "--set", "limits.max_iterations=3"],
    );
    let none = || json!([]);
    let of = |agent: &str| trial_of(&env, "job", agent);
    expect(&of("solves"), 1.0, &Value::Null, &none());
    expect(&of("fails"), 0.0, &json!(["budget", "MaxIterationsError"]), &none());
    expect(&of("second"), 1.0, &Value::Null, &none());
    expect(&of("liar"), 0.0, &Value::Null, &none());
    let files = json!([
        ["wrote_reward", "/logs/verifier/reward.json"],
        ["wrote_reward", "/logs/verifier/reward.txt"]
    ]);
    expect(&of("fake"), 0.0, &Value::Null, &files);
    expect(&of("edits"), 0.0, &Value::Null, &json!([["edited_tests", "/app/check.txt"]]));
    expect(&of("deletes"), 0.0, &Value::Null, &json!([["deleted_tests", "/app/check.txt"]]));
    let reached = json!([
        ["reached_for_solution", "/solution/solve.sh"],
        ["reached_for_solution", "/tests/test.sh"]
    ]);
    expect(&of("peeks"), 0.0, &Value::Null, &reached);

    check_curves(&env);
    check_figures(&env);
}

/// The work after each iteration.
fn check_curves(env: &TestEnvironment) {
    let curve = |agent: &str| {
        let curve = trial_of(env, "job", agent)["curve"].as_array().unwrap().clone();
        curve.iter().map(|point| point["rewards"]["reward"].clone()).collect::<Vec<_>>()
    };
    assert_eq!(curve("second"), [0.0, 1.0]);
    assert_eq!(curve("solves"), [1.0]);
    assert_eq!(curve("fails"), [0.0, 0.0, 0.0]);
}

/// What the report makes of the trials.
fn check_figures(env: &TestEnvironment) {
    let (trials, summary) = report(env, "job");
    assert_eq!(trials.len(), 8);
    for (agent, solved, false_completions, claims) in
        [("solves", 1, 0, 1), ("fails", 0, 0, 0), ("second", 1, 0, 1), ("liar", 0, 1, 1)]
    {
        let column = column(&summary, agent);
        assert_eq!(column["judged"], 1, "{column}");
        assert_eq!(column["solved"], solved, "{column}");
        let figures = &column["loop_figures"];
        assert_eq!(figures["false_completions"], false_completions, "{agent}: {figures}");
        assert_eq!(figures["claims"], claims, "{agent}: {figures}");
    }
    let figures = &column(&summary, "second")["loop_figures"];
    assert_eq!(figures["median_iterations_to_solve"], 2.0);
    assert_eq!(figures["reward_by_iteration"], json!([0.0, 1.0]));
    assert_eq!(column(&summary, "fake")["cheating"], json!({ "wrote_reward": 1 }));
    assert_eq!(column(&summary, "liar")["cheating"], json!({}));
}

#[test]
fn money_of_an_agent_that_crashes_is_in_the_ledger_and_its_work_is_judged() {
    let env = environment(&[]);
    add_task(&env, "one", 600);
    add_script(&env, "crashes", &format!("{}exit 1\n", result("half", "0.25")));
    append(&env, &metered("crashes"));
    // However the run ends after it: the crash is the fault.
    for (job, iterations, cost) in [("once", "1", 0.25), ("twice", "2", 0.5)] {
        let limit = format!("limits.max_iterations={iterations}");
        let args = ["bench", "run", "--agents", "crashes", "--out", job, "--set", &limit];
        env.ralph(&args).expect(0).says("NonZeroAgentExitCodeError");
        let trial = trial_of(&env, job, "crashes");
        expect(&trial, 0.0, &json!(["agent", "NonZeroAgentExitCodeError"]), &json!([]));
        assert_eq!(trial["usage"]["cost"], cost, "{trial:#}");
        let (_, summary) = report(&env, job);
        let column = column(&summary, "crashes");
        assert_eq!(column["cost_usd"], cost);
        assert_eq!((&column["judged"], &column["retries"]), (&1.into(), &0.into()));
        assert_eq!(column["faults"], json!({ "agent": 1 }));
        let ledger = env.read(&format!("{job}/ledger.jsonl"));
        assert_eq!(ledger.lines().count().to_string(), iterations, "{ledger}");
    }
}

#[test]
fn an_agent_that_hangs_is_ended_in_its_time_and_judged() {
    let script = format!("{}(sleep 3600) & sleep 3600\n", "echo hello > out.txt\n");
    let env = environment(&[("hangs", &script)]);
    add_task(&env, "short", 2);
    env.ralph(&["bench", "run", "--agents", "hangs", "--out", "job"]).expect(0);
    let trial = trial_of(&env, "job", "hangs");
    expect(&trial, 1.0, &json!(["agent", "AgentTimeoutError"]), &json!([]));
    assert!(trial["durations"]["run_ms"].as_u64().unwrap() >= 2000, "{trial:#}");
    assert!(of_run(&env.root()).is_empty());
}

#[test]
fn an_agent_that_cannot_be_started_is_never_scored() {
    // Trials do not see it, since only its neighbour is among what they see.
    let env = environment(&[("hidden", SOLVES), ("solves", SOLVES)]);
    add_task(&env, "one", 600);
    let seen = "--set=sandbox.read=[\"agents/solves.sh\"]";
    // It is said before anything is paid for.
    let warning = "trials of hidden cannot begin: trials do not see `";
    let check = env.ralph(&["bench", "check", "--agents", "hidden,solves", seen]).expect(69);
    check.says(warning).says("hidden.sh").says("agents\"]` in [sandbox]");
    check.says("no trial of hidden could begin");
    env.ralph(&["bench", "check", "--agents", "solves", seen]).expect(0);
    assert!(!check.stderr.contains("trials of solves"), "{}", check.stderr);
    env.ralph(&["bench", "check", "--agents", "hidden", "--isolation", "none", seen]).expect(78);
    let run = ["bench", "run", "--agents", "hidden,solves", "--out", "job", seen];
    env.ralph(&run)
        .expect(0)
        .says(warning)
        .says("hidden on test/one, trial 1: not judged")
        .says("AgentNotAvailableError");
    let fault = trial_of(&env, "job", "hidden")["fault"]["message"].clone();
    let message = fault.as_str().unwrap();
    assert!(message.contains("hidden.sh") && message.contains("[sandbox]"), "{message}");
    let (_, summary) = report(&env, "job");
    let hidden = column(&summary, "hidden");
    assert_eq!(hidden["score"], Value::Null, "{hidden}");
    assert_eq!((&hidden["ended"], &hidden["judged"]), (&1.into(), &0.into()), "{hidden}");
    assert_eq!(hidden["faults"], json!({ "infrastructure": 1 }));
    assert_eq!(column(&summary, "solves")["score"]["value"], 1.0);
    // What would only fail again is not tried again.
    let attempts = trial_files(&env, "job");
    assert_eq!(attempts.len(), 2, "{attempts:#?}");

    let run = ["bench", "run", "--agents", "hidden", "--out", "none", seen];
    env.ralph(&run).expect(1).says("no trial was judged");
}

#[test]
fn an_agent_that_is_not_installed_is_named_before_anything_is_started() {
    let mut env = environment(&[("solves", SOLVES)]);
    add_task(&env, "one", 600);
    // Nothing that the tests' machine may have installed is found.
    env.var("PATH", &env.path("shared").display().to_string());
    for command in ["check", "run"] {
        let args = ["bench", command, "--agents", "solves,claude-cli"];
        env.ralph(&args).expect(69).says("the agent of the column claude-cli cannot be started");
    }
    assert!(!env.path("bench-jobs").exists() && !env.path("jobs").exists());
    env.ralph(&["bench", "check", "--agents", "solves"]).expect(0);
}

#[test]
fn a_package_that_only_this_user_sees_is_named_since_tests_of_trials_do_not() {
    let mut env = environment(&[("solves", SOLVES)]);
    add_task(&env, "one", 600);
    env.write("venv/bin/python3", "#!/bin/sh\necho 1.2.3\n");
    env.write_mode("venv/bin/python3", 0o755);
    let venv = env.path("venv");
    let path = format!("{}:{}", venv.join("bin").display(), std::env::var("PATH").unwrap());
    env.var("PATH", &path);
    let check = |more: &str, code| {
        let args = ["bench", "check", "--agents", "solves", "--provided", "pip:ralph-not-there"];
        env.ralph(&[&args[..], &[more]].concat()).expect(code).stderr
    };
    let hidden = "pip:ralph-not-there is installed where the tests of a trial do not see it";
    let warned = check("--isolation=namespace", 0);
    assert!(warned.contains(hidden) && warned.contains("`read` in [sandbox]"), "{warned}");
    let seen = format!("--set=sandbox.read=[{venv:?}, {:?}]", env.path("agents"));
    // Without a file system of its own the task is refused, and its tests see what the user does.
    for (more, code) in [("--isolation=none", 78), (&seen, 0)] {
        let silent = check(more, code);
        assert!(!silent.contains("ralph-not-there"), "{silent}");
    }
}

#[test]
fn what_takes_the_place_of_the_logs_leads_nowhere_and_keeps_nothing_from_being_judged() {
    let gone = format!("rm -rf /logs/verifier\n{CLAIM}");
    // The reward would be written where the agent likes, and read from there.
    let link = format!(
        "rm -rf /logs/verifier\nln -s \"$shared\" /logs/verifier\necho 1 > \"$shared/reward.txt\"\n{CLAIM}"
    );
    let file = format!("rm -rf /logs/verifier\necho 1 > /logs/verifier\n{CLAIM}");
    let env = performed(&[("gone", &gone), ("link", &link), ("file", &file)], &[]);
    for agent in ["gone", "link", "file"] {
        let trial = trial_of(&env, "job", agent);
        assert_eq!(trial["rewards"], json!({ "reward": 0.0 }), "{agent}: {trial:#}");
        assert!(trial.get("fault").is_none(), "{agent}: {trial:#}");
    }
    assert_eq!(env.read("shared/reward.txt"), "1\n", "nothing was written through the link");
    let mut shared: Vec<_> = std::fs::read_dir(env.path("shared"))
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    shared.sort();
    assert_eq!(shared, [".keep", "reward.txt"]);
}

#[test]
fn to_list_every_folder_is_not_to_reach_for_the_solution() {
    let lists =
        format!("find / -maxdepth 3 -name '*.toml' > /dev/null 2>&1; ls /tests /solution\n{CLAIM}");
    let searches = format!("grep -r 'the solution' /solution > /dev/null 2>&1\n{CLAIM}");
    let env = performed(&[("lists", &lists), ("searches", &searches)], &[]);
    assert!(trial_of(&env, "job", "lists").get("cheating").is_none());
    let found = &trial_of(&env, "job", "searches")["cheating"];
    assert_eq!(found[0]["kind"], "reached_for_solution", "{found}");
}

/// An agent that leaves something which its work cannot be verified with is judged as having failed, once.
#[test]
fn no_agent_chooses_not_to_be_judged() {
    let deep = "for n in $(seq 200); do mkdir d && cd d || exit; done; cd /app\n";
    let agents = [
        ("works", String::new()),
        ("file", "rm -rf /logs/artifacts; echo x > /logs/artifacts\n".to_owned()),
        ("folder", "rm -rf out; echo x > out; mkdir -p /logs/artifacts/out\n".to_owned()),
        ("deep", format!("mkdir -p out && cd out && {deep}")),
        ("pipe", "rm -rf out /logs/artifacts; mkfifo out /logs/artifacts\n".to_owned()),
        ("gone", "rm -rf /app/* /logs/* /tmp/* \"$HOME\" 2> /dev/null\n".to_owned()),
    ];
    let scripts: Vec<(&str, String)> = agents
        .into_iter()
        .map(|(name, script)| {
            let work = "mkdir -p out; echo hello > out/word\n";
            (name, format!("{work}{script}echo '<promise>COMPLETE</promise>'\n"))
        })
        .collect();
    let scripts: Vec<(&str, &str)> =
        scripts.iter().map(|(name, script)| (*name, script.as_str())).collect();
    let env = environment(&scripts);
    add_task(&env, "one", 60);
    let settings = env
        .read("tasks/one/task.toml")
        .replace("[verifier]\n", "[verifier]\nenvironment_mode = \"separate\"\n");
    env.write("tasks/one/task.toml", format!("artifacts = [\"/app/out\"]\n{settings}"));
    env.write(
        "tasks/one/tests/test.sh",
        "if [ \"$(cat /app/out/word)\" = hello ]; then echo 1; else echo 0; fi > /logs/verifier/reward.txt\n",
    );
    let names: Vec<&str> = scripts.iter().map(|(name, _)| *name).collect();
    env.ralph(&["bench", "run", "--agents", &names.join(","), "--out", "job"]).expect(0);
    for name in names {
        // One attempt: nobody is given another one for free.
        let trial = trial_of(&env, "job", name);
        let reward = trial["rewards"]["reward"].as_f64();
        assert!(reward.is_some(), "{name} was not judged: {trial:#}");
        if name != "works" && name != "file" {
            assert_eq!(reward, Some(0.0), "{name}: {trial:#}");
        }
        if let Some(fault) = trial.get("fault") {
            assert_eq!(fault["cause"], "agent", "{name}: {trial:#}");
        }
    }
    assert_eq!(trial_of(&env, "job", "works")["rewards"]["reward"], 1.0);
}

/// What an agent leaves can keep the tests from ending.
#[test]
fn a_verifier_that_does_not_end_after_an_agent_is_worth_nothing_unless_it_is_not_to_count() {
    let env = environment(&[("blocks", "mkfifo out.txt; echo '<promise>COMPLETE</promise>'\n")]);
    add_task(&env, "one", 60);
    let settings = env.read("tasks/one/task.toml").replace("timeout_sec = 120", "timeout_sec = 1");
    env.write("tasks/one/task.toml", settings);
    env.ralph(&["bench", "run", "--agents", "blocks", "--out", "zero"]).expect(0);
    let trial = trial_of(&env, "zero", "blocks");
    assert_eq!(trial["fault"]["kind"], "VerifierTimeoutError", "{trial:#}");
    assert_eq!(trial["rewards"]["reward"], 0.0, "{trial:#}");
    let unjudged = ["--set", "bench.verifier_timeout=\"unjudged\"", "--out", "unjudged"];
    env.ralph(&[&["bench", "run", "--agents", "blocks"], &unjudged[..]].concat()).expect(1);
    let trial = trial_of(&env, "unjudged", "blocks");
    assert_eq!(trial["fault"]["kind"], "VerifierTimeoutError", "{trial:#}");
    assert_eq!(trial["rewards"], serde_json::json!({}), "{trial:#}");
}

#[test]
fn what_tests_print_is_not_kept_through_a_link_that_the_work_makes() {
    let env = environment(&[]);
    add_task(&env, "runs", 600);
    env.write("victim", "as it was\n");
    let victim = env.path("victim").display().to_string();
    // The tests run the work, which knows where their output will be kept.
    env.write("tasks/runs/tests/test.sh", "sh /app/work.sh\necho 0 > /logs/verifier/reward.txt\n");
    let plant = format!("ln -sf '{victim}' /logs/verifier/test-stdout.txt; echo overwritten");
    add_script(&env, "plants", &format!("echo \"{plant}\" > work.sh\n{CLAIM}"));
    append(&env, &super::unmetered("plants"));
    env.ralph(&["bench", "run", "--agents", "plants", "--out", "job"]).expect(0);
    assert_eq!(trial_of(&env, "job", "plants")["rewards"]["reward"], 0.0);
    assert_eq!(env.read("victim"), "as it was\n");
}

#[test]
fn a_busy_machine_is_a_warning_and_what_a_task_wants_of_it_too() {
    // More processes than processors, for longer than it takes to measure.
    let busy = format!(
        "for i in $(seq $(($(nproc) * 4))); do timeout 1.5 sh -c 'while :; do :; done' & done; wait\n{SOLVES}"
    );
    let env = environment(&[("busy", &busy)]);
    add_task(&env, "one", 600);
    let file = "tasks/one/task.toml";
    env.write(
        file,
        format!("{}[environment]\ncpus = 100000\nmemory_mb = 900000000\n", env.read(file)),
    );
    let ended = env.ralph(&["bench", "run", "--agents", "busy", "--out", "job"]).expect(0);
    ended.says("test/one wants 100000 processors").says("test/one wants 900000000 MiB of memory");
    let trial = trial_of(&env, "job", "busy");
    if std::path::Path::new("/proc/pressure/cpu").exists() {
        assert!(trial["contention"].as_f64().unwrap() >= 0.2, "{trial:#}");
        ended.says("the processors were contended");
    }
}
