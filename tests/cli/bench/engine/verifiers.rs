//! Verifiers with a container of their own: the agent's work reaches them as artifacts only.

use super::{CLAIM, StandIn, add_task, environment, run, trial_of};

/// Full reward for both artifacts, and nothing else of the agent's.
const TESTS: &str = "if [ \"$(cat /data/out/word)\" = hello ] && [ \"$(cat /app/result.txt)\" = done ] \
    && [ ! -e /of-agent ] && [ ! -e /app/other.txt ]; then echo 1; else echo 0; fi > /logs/verifier/reward.txt\n";

#[test]
fn a_separate_verifier_gets_artifacts_and_nothing_else() {
    let works = format!(
        "mkdir -p /data/out; echo hello > /data/out/word; echo done > result.txt\n\
         touch /of-agent; echo x > other.txt; {CLAIM}"
    );
    let nothing = format!("touch /of-agent\n{CLAIM}");
    let mut env = environment(&[("works", &works), ("nothing", &nothing)]);
    let engine = StandIn::start(&mut env);
    for name in ["copied", "bundled"] {
        add_task(&env, name, 600);
        let file = format!("tasks/{name}/task.toml");
        let text = env.read(&file);
        let text = text.replace("[verifier]\n", "[verifier]\nenvironment_mode = \"separate\"\n");
        let artifacts = "artifacts = [\"/data/out\", \"/app/result.txt\", \"/missing\"]\n";
        env.write(&file, format!("{artifacts}{text}"));
        env.write(&format!("tasks/{name}/tests/test.sh"), TESTS);
    }
    // This one is built of its own files, and brings its tests along.
    env.write("tasks/bundled/tests/Dockerfile", "FROM debian:12\nWORKDIR /check\nCOPY . /tests\n");
    for task in ["copied", "bundled"] {
        let tasks = format!("tasks/{task}");
        let job = ["--tasks", &tasks];
        run(&env, "works,nothing", &job).expect(0);
        let trial = trial_of(&env, "job", "works");
        assert_eq!(trial["rewards"]["reward"], 1.0, "{task}: {trial:#}");
        assert_eq!(trial_of(&env, "job", "nothing")["rewards"]["reward"], 0.0, "{task}");
        std::fs::remove_dir_all(env.path("job")).unwrap();
        assert_eq!(engine.containers(), Vec::<String>::new());
    }
    assert_eq!(engine.calls("build").len(), 3, "one image is that of agent and verifier");
    let made = engine.calls("create").into_iter().map(|words| words.join(" "));
    let own = made.filter(|words| words.contains("-verifier-0 ")).count();
    assert_eq!(own, 4, "one for each attempt");
}
