//! What an iteration's agent was given, and what of that differed.

use std::fs;
use std::os::unix::fs::symlink;

use serde_json::Value;

use crate::environment::TestEnvironment;

/// An agent that reads `settings.json` and `servers.json`; the latter is named on its command line.
fn environment(more: &str) -> TestEnvironment {
    let env = TestEnvironment::new();
    env.raw_config(&format!(
        "[run]\ndelay = \"0s\"\n[agent]\nadapter = \"command\"\nunmetered = true\ninputs = [\"settings.json\"]\n\
         [agent.config]\nprogram = [\"@AGENT@\", \"--mcp-config\", \"servers.json\", \"-x\"]\n\
         [[validator]]\nkind = \"command\"\nname = \"tests\"\nprogram = [\"test\", \"-e\", \"done\"]\n{more}"
    ));
    env.write("settings.json", "{}\n");
    env.write("servers.json", "[]\n");
    env
}

fn fields(env: &TestEnvironment) -> Vec<Value> {
    env.records("iteration_started").into_iter().map(|mut start| start["given"].take()).collect()
}

fn differing(one: &Value, other: &Value) -> Vec<String> {
    let names = one.as_object().unwrap().keys().chain(other.as_object().unwrap().keys());
    let mut names: Vec<String> = names.filter(|name| one[*name] != other[*name]).cloned().collect();
    names.sort();
    names.dedup();
    names
}

#[test]
fn the_same_is_given_until_something_is_changed() {
    let env = environment("[limits]\nmax_iterations = 5\nmax_stagnant = 99\n");
    let agent = env.agent.program().display().to_string();
    env.agent.call(2).script(&format!("printf '\\n# more\\n' >> {agent}\n"));
    env.agent.call(3).script("echo 'And quickly.' >> PROMPT.md\n");
    env.run().expect(1);
    let (given, starts) = (fields(&env), env.records("iteration_started"));
    let names: Vec<&String> = given[0].as_object().unwrap().keys().collect();
    assert_eq!(
        names,
        [
            "agent",
            "argv",
            "config",
            "env",
            "inputs",
            "instructions",
            "program",
            "prompt",
            "workspace"
        ]
    );
    assert_eq!(given[0], given[1]);
    assert_eq!(starts[0]["fingerprint"], starts[1]["fingerprint"]);
    assert_eq!(differing(&given[1], &given[2]), ["program"]);
    assert_ne!(starts[1]["fingerprint"], starts[2]["fingerprint"]);
    assert_eq!(differing(&given[2], &given[3]), ["prompt"]);
    assert_eq!(given[3], given[4]);
    assert_eq!(starts[0]["agent"], "command");
    assert!(starts[0]["version"].as_str().unwrap().contains(&agent), "{}", starts[0]);
    assert_eq!(given[0]["prompt"], digest(&env.agent.stdin(1)));
    assert_eq!(given[4]["prompt"], digest(&env.agent.stdin(5)));

    let shown = env.ralph(&["log", "--diff", "3", "4"]).expect(0);
    shown.says("prompt     differs").says("+And quickly.").says("argv       same");
    env.ralph(&["log", "--diff", "1", "2"]).expect(0).says("were given the same");
    let json = env.ralph(&["log", "--diff", "2", "3", "--json"]).expect(0);
    let json: Value = serde_json::from_str(&json.stdout).unwrap();
    assert_eq!((&json["same"], &json["iterations"][1]), (&Value::Bool(false), &Value::from(3)));
    let program =
        json["fields"].as_array().unwrap().iter().find(|f| f["field"] == "program").unwrap();
    assert!(program["differences"].to_string().contains(&agent), "{program}");
    env.ralph(&["log", "--diff", "1", "9"]).expect(64).says("has no iteration 9");
}

fn digest(bytes: &[u8]) -> String {
    blake3::hash(bytes).to_hex().to_string()
}

#[test]
fn environment_and_arguments_of_another_start_are_named_without_their_values() {
    let mut env = environment("[limits]\nmax_iterations = 1\n[env]\npass = [\"MINE\"]\n");
    env.var("MINE", "a-value-of-mine");
    env.run().expect(1);
    env.unset("MINE");
    env.var("MINE", "another-of-mine");
    let config = env.read("ralph.toml");
    env.write(
        "ralph.toml",
        config.replace("\"-x\"", "\"-y\"").replace("max_iterations = 1", "max_iterations = 2"),
    );
    env.run().expect(1);
    let shown = env.ralph(&["log", "--diff", "1", "2"]).expect(0);
    shown
        .says("argv       differs\n  --x\n  +-y\n")
        .says("env        differs\n  MINE: another value\n");
    let kept = env.journal_path().with_file_name("iterations/0001/start.json");
    let start: Value = serde_json::from_str(&fs::read_to_string(kept).unwrap()).unwrap();
    assert_eq!(start["env"]["MINE"].as_str().unwrap().len(), 64);
    assert!(!start.to_string().contains("a-value-of-mine"));
    assert_ne!(start["env"]["MINE"], digest(b"a-value-of-mine"), "a digest that can be guessed");
}

#[test]
fn files_that_the_agent_reads_are_put_back_before_each_iteration() {
    let env = environment("[limits]\nmax_iterations = 4\nmax_stagnant = 99\n");
    let precious = env.root().join("precious");
    fs::write(&precious, "mine").unwrap();
    env.agent.call(1).script("echo '{\"hooks\":1}' > settings.json; rm servers.json\n");
    env.agent.call(2).script(&format!(
        "cat settings.json servers.json > seen; rm settings.json; ln -s {} settings.json\n",
        precious.display()
    ));
    env.agent.call(3).script("cat settings.json servers.json >> seen\n");
    let ended = env.run().expect(1);
    assert_eq!(env.read("seen"), "{}\n[]\n{}\n[]\n");
    assert_eq!(fs::read_to_string(&precious).unwrap(), "mine");
    ended.says("settings.json, which the agent `command` reads, was changed; it was put back");
    ended.says("servers.json, which the agent");
    assert_eq!(env.records("warning").len(), 3);
    let given = fields(&env);
    assert!(given.iter().all(|fields| fields["inputs"] == given[0]["inputs"]), "{given:?}");
    // Another folder in its place is written to by nobody.
    let other = env.root().join("other");
    fs::create_dir(&other).unwrap();
    let config = env.read("ralph.toml").replace("settings.json", "in/settings.json");
    env.write("ralph.toml", config.replace("max_iterations = 4", "max_iterations = 9"));
    env.write("in/settings.json", "{}\n");
    env.agent.call(5).script(&format!("mv in away; ln -s {} in\n", other.display()));
    let ended = env.run().expect(78);
    ended.says("cannot be put back").says("another one now");
    assert_eq!(env.agent.calls(), 5);
    assert_eq!(fs::read_dir(&other).unwrap().count(), 0);
}

/// What an iteration changed that never came to its end does not count for the original.
#[test]
fn files_that_the_agent_reads_are_put_back_after_a_kill_too() {
    let env = environment("[limits]\nmax_iterations = 3\nmax_stagnant = 99\n");
    let fifo = env.fifo("changed");
    env.agent.call(1).script(&format!(
        "echo '{{\"hooks\":1}}' > settings.json; rm servers.json; echo x > '{}'; sleep 1000 & wait\n",
        fifo.display()
    ));
    env.agent.call(2).script("cat settings.json servers.json > seen\n");
    env.agent.call(3).script("cat settings.json servers.json >> seen\n");
    let mut running = env.start(&["run"]);
    fs::read(&fifo).unwrap();
    running.signal(rustix::process::Signal::KILL);
    running.wait();
    assert_eq!(env.read("settings.json"), "{\"hooks\":1}\n");
    let ended = env.run().expect(1);
    assert_eq!(env.read("seen"), "{}\n[]\n{}\n[]\n");
    ended.says("settings.json, which the agent `command` reads, was changed; it was put back");
    ended.says("servers.json, which the agent");
    assert_eq!(env.records("warning").len(), 2);
    let given = fields(&env);
    assert!(given.iter().all(|fields| fields["inputs"] == given[0]["inputs"]), "{given:?}");
}

/// A person changes them with `run --restart`.
#[test]
fn a_new_run_takes_the_files_as_they_are() {
    let env = environment("[limits]\nmax_iterations = 1\n");
    env.agent.default_call().script("cat settings.json > seen\n");
    env.run().expect(1);
    env.write("settings.json", "{\"mine\":1}\n");
    env.ralph(&["run", "--restart"]).expect(1);
    assert_eq!(env.read("seen"), "{\"mine\":1}\n");
    assert!(env.records("warning").is_empty());
}

/// Who changes what was kept of them may have changed them too.
#[test]
fn kept_files_that_were_changed_from_outside_start_nothing() {
    let env = environment("[limits]\nmax_iterations = 1\n");
    env.run().expect(1);
    let kept = env.journal_path().with_file_name("inputs.json");
    let text = fs::read_to_string(&kept).unwrap();
    fs::write(&kept, text.replacen("\"sealed\":\"", "\"sealed\":\"A", 1)).unwrap();
    env.ralph(&["run", "--max-iterations", "2"]).expect(65).says("inputs.json");
    assert_eq!(env.agent.calls(), 1);
}

#[test]
fn an_input_that_is_not_there_or_no_file_stops_the_start() {
    for bad in ["none", "folder", "pipe"] {
        let env = environment("");
        fs::create_dir(env.path("folder")).unwrap();
        fs::rename(env.fifo("pipe"), env.path("pipe")).unwrap();
        fs::remove_file(env.path("settings.json")).unwrap();
        symlink(env.path(bad), env.path("settings.json")).unwrap();
        env.run().expect(78).says("named in [agent] inputs");
        assert_eq!(env.agent.calls(), 0);
    }
}

#[test]
fn the_six_rows_of_determinism_are_reported_by_the_journal() {
    let env = environment("[limits]\nmax_iterations = 3\nmax_stagnant = 99\n");
    env.agent.default_call().script("echo $n > work\n");
    env.run().expect(1);
    let rows = |env: &TestEnvironment| -> Vec<(String, String)> {
        let json = env.ralph(&["log", "--determinism", "--json"]).expect(0).stdout;
        let rows: Vec<Value> = serde_json::from_str(&json).unwrap();
        let text = |row: &Value, key: &str| row[key].as_str().unwrap().to_owned();
        rows.iter().map(|row| (text(row, "component"), text(row, "finding"))).collect()
    };
    let expected = [
        ("client creation", "identical"),
        ("prompt loading", "identical"),
        ("session scoping", "identical"),
        ("auto-continue loop", "identical"),
        ("workspace state", "expected_variance"),
        ("progress notes", "identical"),
    ];
    assert_eq!(rows(&env), expected.map(|(a, b)| (a.to_owned(), b.to_owned())));
    let shown = env.ralph(&["log", "--determinism"]).expect(0);
    assert_eq!(shown.stdout.lines().count(), 6);
    shown.says("workspace state    varies as expected   3 of 3 iterations changed it");

    // A claim that is rejected is told to the next, a daemon is left, the program is changed.
    let agent = env.agent.program().display().to_string();
    env.write(
        "ralph.toml",
        env.read("ralph.toml").replace("max_iterations = 3", "max_iterations = 5"),
    );
    env.agent.call(4).script(&format!(
        "printf '\\n#\\n' >> {agent}; echo x >> PROMPT.md; sleep 600 >/dev/null 2>&1 &\n\
         echo '<promise>COMPLETE: no</promise>'\n"
    ));
    env.run().expect(1);
    let rows = rows(&env);
    for varied in [0, 1, 2, 5] {
        assert_eq!(rows[varied].1, "varies", "{rows:?}");
    }
    env.ralph(&["log", "--determinism"]).expect(0).says("program (iteration 5)");
}

#[test]
fn where_there_is_nothing_to_compare_that_is_said() {
    let env = environment("[limits]\nmax_iterations = 1\n");
    env.ralph(&["log", "--determinism"]).expect(0).says("no run in this workspace");
    env.ralph(&["log", "--diff", "1"]).expect(64);
}
