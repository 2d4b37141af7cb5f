//! Trials in containers, of an engine that a script stands in for.

mod faults;
mod leftovers;
mod verifiers;

use std::fs;
use std::io::{BufRead as _, BufReader};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::LazyLock;

use serde_json::{Value, json};

use crate::environment::{TestEnvironment, of_run};

use super::{FAILS, SOLVES, add_task, append, environment, expect_trial, trial_files, trial_of};

const CLAIM: &str = "echo '<promise>COMPLETE</promise>'\n";
const PODMAN: [&str; 2] = ["--isolation", "podman"];

/// What a task wants of the machine at most.
const LIMITED: &str =
    "[environment]\ncpus = 1\nmemory_mb = 512\nstorage_mb = 64\nnetwork_mode = \"no-network\"\n";

/// The interpreter itself.
pub(super) fn python() -> &'static str {
    static PATH: LazyLock<String> = LazyLock::new(|| {
        let mut python = Command::new("python3");
        python.args(["-c", "import sys; print(sys.executable, end='')"]);
        let output = python.output().expect("python3 is needed for this test");
        String::from_utf8(output.stdout).unwrap()
    });
    &PATH
}

/// The engine: a daemon, and its client in the search path of the environment.
struct StandIn {
    daemon: Child,
    folder: PathBuf,
}

impl StandIn {
    /// Starts the daemon, whose client is called `podman`.
    fn start(env: &mut TestEnvironment) -> Self {
        let folder = env.root().join("engine");
        fs::create_dir_all(&folder).unwrap();
        // Not by `env`: a version manager's script in its place takes longer than the client.
        let client = format!("#!{} -IS\n{}", python(), include_str!("stand_in.py"));
        env.write("../engine/podman", client);
        env.write_mode("../engine/podman", 0o755);
        env.var("PATH", &format!("{}:{}", folder.display(), std::env::var("PATH").unwrap()));
        let mut daemon = Command::new(python());
        daemon.arg("-IS").arg(folder.join("podman")).arg("daemon");
        let mut daemon = daemon.stdout(Stdio::piped()).stdin(Stdio::null()).spawn().unwrap();
        let mut line = String::new();
        BufReader::new(daemon.stdout.take().unwrap()).read_line(&mut line).unwrap();
        assert_eq!(line, "ready\n", "the stand-in did not start");
        Self { daemon, folder }
    }

    /// The words of every call so far with this verb.
    fn calls(&self, verb: &str) -> Vec<Vec<String>> {
        let text = fs::read_to_string(self.folder.join("calls.jsonl")).unwrap_or_default();
        let calls = text.lines().map(|line| serde_json::from_str::<Vec<String>>(line).unwrap());
        calls.filter(|call| call[0] == verb).collect()
    }

    /// Names of the containers that exist.
    fn containers(&self) -> Vec<String> {
        let found = fs::read_dir(self.folder.join("containers")).into_iter().flatten();
        found.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect()
    }

    /// Calls the engine as somebody else.
    fn call(&self, words: &[&str]) {
        let output = Command::new(self.folder.join("podman")).args(words).output().unwrap();
        assert!(output.status.success(), "{words:?}: {output:?}");
    }

    /// Makes a verb fail: "hang", or an exit status and a message.
    fn break_verb(&self, verb: &str, how: &str) {
        fs::write(self.folder.join(format!("fault-{verb}")), how).unwrap();
    }

    fn mend_verb(&self, verb: &str) {
        fs::remove_file(self.folder.join(format!("fault-{verb}"))).unwrap();
    }

    /// Ends the daemon, with everything in its containers.
    fn stop(&mut self) {
        self.daemon.kill().unwrap();
        self.daemon.wait().unwrap();
    }
}

impl Drop for StandIn {
    fn drop(&mut self) {
        let _ = self.daemon.kill();
        let _ = self.daemon.wait();
    }
}

/// Adds lines to the Dockerfile of a task.
fn add_lines(env: &TestEnvironment, task: &str, lines: &str) {
    let file = format!("tasks/{task}/environment/Dockerfile");
    env.write(&file, format!("{}{lines}", env.read(&file)));
}

fn run(env: &TestEnvironment, agents: &str, more: &[&str]) -> crate::environment::Ended {
    let run = ["bench", "run", "--out", "job", "-n", "2", "--agents", agents];
    env.ralph(&[&run[..], &PODMAN, more].concat())
}

/// A file of the work of an agent's only attempt.
fn work(env: &TestEnvironment, agent: &str, file: &str) -> String {
    let trial = trial_of(env, "job", agent);
    let folders = fs::read_dir(env.path("job")).unwrap().map(|entry| entry.unwrap().path());
    let is_of = |folder: &PathBuf| {
        let text = fs::read_to_string(folder.join("attempts/1/trial.json")).unwrap_or_default();
        serde_json::from_str::<Value>(&text).is_ok_and(|found| found == trial)
    };
    let folder = folders.into_iter().find(is_of).unwrap();
    fs::read_to_string(folder.join("attempts/1/environment/root/app").join(file)).unwrap()
}

#[test]
fn agents_and_verifiers_see_their_container_and_no_more() {
    let fake = format!("echo 1 > /logs/verifier/reward.txt\n{CLAIM}");
    let peeks = format!("cat /solution/solve.sh; cat /tests/test.sh\n{CLAIM}");
    let leaves = format!("{SOLVES}(setsid sleep 1000 > /dev/null 2>&1 &)\n");
    let outside = format!("touch /var-of-agent; ls /tests | wc -l > seen.txt; {SOLVES}");
    let reads = format!(
        "echo \"$AGENT_KEY $OF_IMAGE $HOME\" > env.txt; cat built.txt >> env.txt; pwd >> env.txt; {SOLVES}"
    );
    let agents = [
        ("solves", SOLVES),
        ("fails", FAILS),
        ("fake", &fake),
        ("peeks", &peeks),
        ("leaves", &leaves),
        ("outside", &outside),
        ("reads", &reads),
    ];
    let mut env = environment(&agents);
    let engine = StandIn::start(&mut env);
    env.var("AGENT_KEY", "a-secret-key");
    append(&env, "[env]\npass = [\"AGENT_KEY\"]\n");
    add_task(&env, "one", 600);
    add_lines(&env, "one", "RUN echo made-by-run > built.txt\n");
    env.write("tasks/one/task.toml", format!("{}{LIMITED}", env.read("tasks/one/task.toml")));
    let names = agents.map(|(name, _)| name).join(",");
    run(&env, &format!("{names},oracle,nop"), &[]).expect(0);
    assert!(of_run(&env.root()).is_empty());
    assert_eq!(engine.containers(), Vec::<String>::new());

    let expect = |agent: &str, reward: f64, fault: Value, cheating: &[&str]| {
        expect_trial(&trial_of(&env, "job", agent), reward, &fault, cheating);
    };
    expect("solves", 1.0, Value::Null, &[]);
    expect("fails", 0.0, json!("MaxIterationsError"), &[]);
    expect("fake", 0.0, Value::Null, &["/logs/verifier/reward.txt"]);
    expect("peeks", 0.0, Value::Null, &["/tests/test.sh", "/solution/solve.sh"]);
    expect("leaves", 1.0, Value::Null, &[]);
    expect("outside", 1.0, Value::Null, &[]);
    expect("reads", 1.0, Value::Null, &[]);
    expect("oracle", 1.0, Value::Null, &[]);
    expect("nop", 0.0, Value::Null, &[]);
    assert_eq!(work(&env, "reads", "env.txt"), "a-secret-key yes /root\nmade-by-run\n/app\n");
    assert_eq!(work(&env, "outside", "seen.txt"), "1\n", "the decoy of the tests");
    let resources = json!({
        "cpus": { "amount": 1.0, "enforced": true },
        "memory_mb": { "amount": 512.0, "enforced": true },
        "storage_mb": { "amount": 64.0, "enforced": false },
    });
    assert_eq!(trial_of(&env, "job", "solves")["resources"], resources);

    assert_eq!(engine.calls("build").len(), 1, "once for all trials");
    let calls = fs::read_to_string(engine.folder.join("calls.jsonl")).unwrap();
    assert!(!calls.contains("a-secret-key"), "everybody can read the arguments of a process");
    let made = engine.calls("create");
    let made: Vec<String> = made.iter().map(|words| words.join(" ")).collect();
    let limited = made.iter().filter(|words| words.contains("--cpus 1 --memory 512m"));
    assert_eq!(limited.count(), agents.len() + 2);
    assert!(made.iter().all(|words| words.contains("--network none")), "{made:#?}");
}

#[test]
fn an_agent_that_ignores_signals_ends_with_its_time_and_its_work_counts() {
    let hangs = "echo hello > out.txt; trap '' TERM INT; (setsid sleep 3600 &); sleep 3600\n";
    let mut env = environment(&[("hangs", hangs)]);
    let engine = StandIn::start(&mut env);
    // The time has to be enough for the work on a busy machine.
    add_task(&env, "one", 10);
    run(&env, "hangs", &[]).expect(0);
    let trial = trial_of(&env, "job", "hangs");
    assert_eq!(trial["fault"]["kind"], "AgentTimeoutError", "{trial:#}");
    assert_eq!(trial["rewards"]["reward"], 1.0, "{trial:#}");
    assert!(of_run(&env.root()).is_empty());
    assert_eq!(engine.containers(), Vec::<String>::new());
}

#[test]
fn a_task_of_several_steps_keeps_its_container() {
    let first = "[ -e first.txt ] || echo one > /of-container\ncat /of-container >> first.txt\n";
    let mut env = environment(&[("steps", &format!("{first}{SOLVES}"))]);
    let engine = StandIn::start(&mut env);
    add_task(&env, "two", 600);
    env.write(
        "tasks/two/task.toml",
        "schema_version = \"1.4\"\n[task]\nname = \"test/two\"\n[[steps]]\nname = \"a\"\n[[steps]]\nname = \"b\"\n",
    );
    for step in ["a", "b"] {
        let tests = "ls /tests > /app/tests-of-last.txt; echo 1 > /logs/verifier/reward.txt\n";
        env.write(&format!("tasks/two/steps/{step}/instruction.md"), "Write hello into out.txt.\n")
            .write(&format!("tasks/two/steps/{step}/tests/only-{step}.txt"), "")
            .write(&format!("tasks/two/steps/{step}/tests/test.sh"), tests);
    }
    run(&env, "steps", &[]).expect(0);
    let trial = trial_of(&env, "job", "steps");
    assert_eq!(trial["rewards"]["reward"], 1.0, "{trial:#}");
    assert_eq!(work(&env, "steps", "first.txt"), "one\none\n");
    let last = work(&env, "steps", "tests-of-last.txt");
    assert!(last.contains("only-b.txt") && !last.contains("only-a.txt"), "{last}");
    let made = engine.calls("create");
    assert_eq!(made.len(), 2, "the container, and the one that files are copied from: {made:#?}");
    assert_eq!(engine.containers(), Vec::<String>::new());
}

#[test]
fn check_names_the_engine_and_what_is_not_for_containers() {
    let mut env = environment(&[("solves", SOLVES)]);
    let mut engine = StandIn::start(&mut env);
    add_task(&env, "one", 600);
    let check = |more: &[&str]| {
        let check = ["bench", "check", "--agents", "solves"];
        env.ralph(&[&check[..], &PODMAN, more].concat())
    };
    check(&[]).expect(0).says("isolation  podman").says("engine     podman 9.8.7");
    assert_eq!(check(&["--json"]).expect(0).events()[0]["engine"], "podman 9.8.7");
    check(&["--curve"]).expect(78).says("bench.curve").says("`namespace`");
    env.write("tasks/own/ralph.toml", "[[validator]]\nkind = \"command\"\nprogram = [\"true\"]\n")
        .write("tasks/own/PROMPT.md", "Do it.\n");
    check(&[]).expect(78).says("own").says("names no image");
    fs::remove_dir_all(env.path("tasks/own")).unwrap();
    let text = env.read("tasks/one/task.toml");
    env.write(
        "tasks/one/task.toml",
        text.replace("[agent]", "[agent]\nnetwork_mode = \"no-network\""),
    );
    check(&[]).expect(78).says("a container has one");
    engine.stop();
    let ended = check(&[]).expect(69);
    ended.says("podman info").says("Cannot connect").says("answers for this user");
}

#[test]
fn without_an_engine_nothing_is_started_and_the_package_is_named() {
    let mut env = environment(&[("solves", SOLVES)]);
    add_task(&env, "one", 600);
    env.var("PATH", &env.path("shared").display().to_string());
    for (isolation, hint) in [("podman", "install the package podman"), ("docker", "Docker Engine")]
    {
        let run = ["bench", "run", "--agents", "solves", "--out", "job", "--isolation", isolation];
        env.ralph(&run).expect(69).says(&format!("`{isolation}`")).says(hint);
        assert!(!env.path("job").exists());
    }
}
