//! Tasks of the own form: a folder with `ralph.toml`, whose validators decide.

use crate::backlog::{feature, feature_list};
use crate::environment::{TestEnvironment, of_run};

use super::{SOLVES, append, column, environment, report, trial_of};

const CLAIM: &str = "echo '<promise>COMPLETE</promise>'\n";

/// A task that wants `hello` in `out.txt`, where `check.sh` and its own variable say so.
fn add_own_task(env: &TestEnvironment) {
    env.write("tasks/own/PROMPT.md", "Write hello into out.txt.\n")
        .write("tasks/own/check.sh", "test \"$WANTED\" = \"$(cat out.txt)\"\n")
        .write(
            "tasks/own/ralph.toml",
            "[run]\ndelay = \"0s\"\n[limits]\nmax_iterations = 2\n\
             [env.set]\nWANTED = \"hello\"\n\
             [[validator]]\nkind = \"command\"\nname = \"tests\"\nprogram = [\"sh\", \"./check.sh\"]\n",
        );
}

/// Agents that lie beside the configuration of the job, which sets a variable for them.
fn agents() -> TestEnvironment {
    let second = format!("if [ -e half ]; then {SOLVES} else touch half\n{CLAIM} fi\n");
    let env = environment(&[
        ("solves", SOLVES),
        ("liar", CLAIM),
        ("second", &second),
        ("told", "echo \"$GREETING\" > out.txt\necho '<promise>COMPLETE</promise>'\n"),
        (
            "reads",
            "case $prompt in *'Write hello'*) echo hello > out.txt;; esac\necho '<promise>COMPLETE</promise>'\n",
        ),
    ]);
    append(&env, "[env.set]\nGREETING = \"hello\"\n");
    add_own_task(&env);
    env
}

#[test]
fn validators_of_the_task_give_the_reward() {
    for isolation in ["none", "namespace", "bubblewrap"] {
        let env = agents();
        let names = "solves,liar,second,told,reads,nop";
        let run = ["bench", "run", "--agents", names, "--isolation", isolation, "--out", "job"];
        env.ralph(&run).expect(0).says("[6/6]");
        let expected = [
            ("solves", 1.0, "completed", 1),
            ("liar", 0.0, "max_iterations", 2),
            ("second", 1.0, "completed", 2),
            ("told", 1.0, "completed", 1),
            ("reads", 1.0, "completed", 1),
            ("nop", 0.0, "once", 1),
        ];
        for (agent, reward, reason, iterations) in expected {
            let trial = trial_of(&env, "job", agent);
            assert_eq!(trial["rewards"]["reward"], reward, "{isolation} {agent}: {trial:#}");
            assert_eq!(trial["stop_reason"], reason, "{isolation} {agent}: {trial:#}");
            assert_eq!(trial["iterations"], iterations, "{isolation} {agent}: {trial:#}");
        }
        let (_, summary) = report(&env, "job");
        assert_eq!(column(&summary, "second")["loop_figures"]["claims"], 2);
        // Validators refused what was false, so nothing was completed falsely.
        assert_eq!(column(&summary, "liar")["loop_figures"]["false_completions"], 0);
        // The task itself is as it was.
        assert!(!env.path("tasks/own/out.txt").exists() && !env.path("tasks/own/half").exists());
        assert!(of_run(&env.root()).is_empty());
        // Trials are none of the user's runs, whose list every start reads.
        assert!(!env.has_state());
        env.ralph(&["bench", "resume", "job"]).expect(0);
    }
}

#[test]
fn a_job_of_these_tasks_only_needs_nobody_to_be_trusted() {
    let env = agents();
    let run = ["bench", "run", "--agents", "solves", "--isolation", "none", "--out", "job"];
    env.ralph(&[&run[..], &["--set=bench.trust_agent=false"]].concat()).expect(0);
    assert_eq!(trial_of(&env, "job", "solves")["rewards"]["reward"], 1.0);
}

#[test]
fn what_is_wrong_with_a_task_is_said_before_the_job() {
    let env = agents();
    env.write("tasks/own/ralph.toml", "[run]\ndealy = \"0s\"\n[[validator]]\nkind = \"command\"\n");
    let check = ["bench", "check", "--agents", "solves", "--isolation", "none"];
    env.ralph(&check).expect(78).says("own").says("dealy").says("delay");
    env.write("tasks/own/ralph.toml", "[run]\ndelay = \"0s\"\n");
    env.ralph(&check).expect(78).says("no [[validator]]");
}

#[test]
fn a_task_with_a_backlog_is_solved_once_all_items_are() {
    let env = agents();
    let list = feature_list(&[feature("a", 1, &[]), feature("b", 2, &[])]);
    let table = "[backlog]\nkind = \"json\"\npath = \"list.json\"\n";
    let config =
        env.read("tasks/own/ralph.toml").replace("max_iterations = 2", "max_iterations = 4");
    env.write("tasks/own/list.json", list)
        .write("tasks/own/ralph.toml", format!("{config}{table}"));
    let run =
        ["bench", "run", "--agents", "solves,liar,nop", "--isolation", "none", "--out", "job"];
    env.ralph(&run).expect(0);
    for (agent, reward, reason, iterations) in [
        ("solves", 1.0, "completed", 2),
        ("liar", 0.0, "max_iterations", 4),
        ("nop", 0.0, "once", 1),
    ] {
        let trial = trial_of(&env, "job", agent);
        assert_eq!(trial["rewards"]["reward"], reward, "{agent}: {trial:#}");
        assert_eq!(trial["stop_reason"], reason, "{agent}: {trial:#}");
        assert_eq!(trial["iterations"], iterations, "{agent}: {trial:#}");
    }
}

#[test]
fn variants_and_budgets_hold_for_these_tasks() {
    let env = agents();
    append(&env, "[bench.variant.once]\nset = { \"limits.max_iterations\" = 1 }\n");
    let run = ["bench", "run", "--agents", "second", "--isolation", "none", "--out", "job"];
    env.ralph(&run).expect(0);
    let (trials, _) = report(&env, "job");
    let reward = |variant: &serde_json::Value| {
        trials.iter().find(|trial| trial["variant"] == *variant).unwrap()["rewards"]["reward"]
            .clone()
    };
    assert_eq!(
        (reward(&serde_json::Value::Null), reward(&"once".into())),
        (1.0.into(), 0.0.into())
    );
}

#[test]
fn what_an_agent_does_to_files_that_decide_is_found() {
    let env = environment(&[
        ("solves", SOLVES),
        ("edits", "echo true > check.sh\necho '<promise>COMPLETE</promise>'\n"),
        ("deletes", "rm check.sh data/expected\n"),
        ("restores", "cp check.sh copy; echo true > check.sh; cat copy > check.sh\n"),
    ]);
    add_own_task(&env);
    let config = env.read("tasks/own/ralph.toml");
    env.write("tasks/own/ralph.toml", format!("{config}protect = [\"data\"]\n"))
        .write("tasks/own/data/expected", "hello\n");
    let run = ["bench", "run", "--agents", "solves,edits,deletes,restores", "--out", "job"];
    env.ralph(&run).expect(0);
    let found = |agent: &str| {
        let trial = trial_of(&env, "job", agent);
        let findings = trial["cheating"].as_array().cloned().unwrap_or_default();
        let name = |finding: &serde_json::Value| {
            let path = finding["path"].as_str().unwrap();
            let (_, path) = path.split_once("/root/").unwrap();
            format!("{} {path}", finding["kind"].as_str().unwrap())
        };
        findings.iter().map(name).collect::<Vec<_>>()
    };
    assert!(found("solves").is_empty() && found("restores").is_empty());
    assert_eq!(found("edits"), ["edited_tests check.sh"]);
    assert_eq!(found("deletes"), ["deleted_tests check.sh", "deleted_tests data/expected"]);
}
