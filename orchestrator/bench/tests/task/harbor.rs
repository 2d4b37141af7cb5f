//! `task.toml`: every key, and what is wrong with it.

use std::collections::BTreeMap;
use std::time::Duration;

use ralph_orchestrator_bench::task::{
    Artifact, EnvironmentSource, McpTransport, NetworkPolicy, OperatingSystem, Oracle,
    RewardStrategy, TaskForm, Tpu, User, Verification,
};

use super::scratch::Scratch;

const EVERYTHING: &str = r#"
schema_version = "1.4"
source = "a data set"
artifacts = ["/app/out", { source = "/app/b", destination = "c/d", exclude = ["*.o"], service = "main" }]

[task]
name = "org/every-key"
version = "1.2.3"
description = "All keys"
authors = [{ name = "Ada", email = "ada@example.test" }, { name = "Bob" }]
keywords = ["a", "b"]

[metadata]
difficulty = "hard"
anything = { goes = [1, 2] }

[agent]
timeout_sec = 12.5
user = "worker"
network_mode = "allowlist"
allowed_hosts = ["Example.test."]

[verifier]
timeout_sec = 30
env = { A = "${A:-b}" }
user = 1000
network_mode = "no-network"
environment_mode = "separate"

[verifier.environment]
cpus = 2
workdir = "/check"

[[verifier.collect]]
command = "dump"
service = "db"
timeout_sec = 5
user = "root"

[environment]
build_timeout_sec = 60
docker_image = "debian:12"
os = "Linux"
cpus = 1.5
memory_mb = 512
storage_mb = 1024
gpus = 1
gpu_types = ["T4"]
tpu = { type = "v6e", topology = "2x4" }
workdir = "/work"
env = { B = "c" }
skills_dir = "/skills"
network_mode = "public"
healthcheck = { command = "true", interval_sec = 1, timeout_sec = 2, start_period_sec = 3, start_interval_sec = 4, retries = 5 }

[[environment.mcp_servers]]
name = "tools"
transport = "http"
url = "http://localhost:1/"
headers = { X = "y" }

[[environment.mcp_servers]]
name = "local"
transport = "stdio"
command = "serve"
args = ["--now"]

[solution]
env = { D = "e" }
"#;

#[test]
fn takes_every_key() {
    let task = Scratch::harbor(EVERYTHING).task();
    assert_eq!(task.warnings, []);
    assert_eq!(
        (task.name.as_str(), task.short_name(), task.form),
        ("org/every-key", "every-key", TaskForm::Harbor)
    );
    let about = &task.about;
    assert_eq!(about.schema_version.as_deref(), Some("1.4"));
    assert_eq!(about.origin.as_deref(), Some("a data set"));
    assert_eq!(about.version.as_deref(), Some("1.2.3"));
    assert_eq!(
        about.authors,
        [("Ada".to_owned(), Some("ada@example.test".to_owned())), ("Bob".to_owned(), None)]
    );
    assert_eq!(about.keywords, ["a", "b"]);
    assert_eq!(about.metadata["difficulty"].as_str(), Some("hard"));
    let environment = &task.environment;
    assert_eq!(environment.build_timeout, Duration::from_secs(60));
    assert_eq!(environment.docker_image.as_deref(), Some("debian:12"));
    assert_eq!((environment.os, environment.gpus), (OperatingSystem::Linux, 1));
    assert_eq!(
        (environment.cpus, environment.memory_mb, environment.storage_mb),
        (Some(1.5), Some(512), Some(1024))
    );
    assert_eq!(environment.tpu, Some(Tpu { kind: "v6e".to_owned(), topology: "2x4".to_owned() }));
    assert_eq!(environment.workdir.as_deref(), Some("/work"));
    assert_eq!(environment.skills_dir.as_deref(), Some("/skills"));
    assert_eq!(environment.network, NetworkPolicy::Public);
    let check = environment.healthcheck.as_ref().unwrap();
    assert_eq!((check.interval.as_secs(), check.timeout.as_secs(), check.retries), (1, 2, 5));
    assert_eq!((check.start_period.as_secs(), check.start_interval.as_secs()), (3, 4));
    assert_eq!(environment.mcp_servers[0].transport, McpTransport::StreamableHttp);
    assert_eq!(environment.mcp_servers[1].args, ["--now"]);
    assert_eq!(task.solution_env["D"], "e");
}

#[test]
fn takes_every_key_of_agent_and_verifier() {
    let task = Scratch::harbor(EVERYTHING).task();
    let [step] = task.steps.as_slice() else { panic!("{:?}", task.steps) };
    assert_eq!(step.agent.timeout, Some(Duration::from_millis(12_500)));
    assert_eq!(step.agent.user, Some(User::Name("worker".to_owned())));
    assert_eq!(step.agent.network, Some(NetworkPolicy::Allowlist(vec!["example.test".to_owned()])));
    assert_eq!((step.verifier.timeout.as_secs(), &step.verifier.user), (30, &Some(User::Id(1000))));
    assert_eq!(step.verifier.network, Some(NetworkPolicy::NoNetwork));
    let separate = step.verifier.environment.as_ref().unwrap();
    assert_eq!((separate.settings.cpus, separate.has_bundled_tests), (Some(2.0), false));
    let [collect] = step.verifier.collect.as_slice() else { panic!() };
    assert_eq!(
        (collect.command.as_str(), collect.service.as_str(), collect.timeout.as_secs()),
        ("dump", "db", 5)
    );
    let artifact = |source: &str| Artifact {
        source: source.to_owned(),
        destination: None,
        exclude: Vec::new(),
        service: None,
    };
    let second = Artifact {
        destination: Some("c/d".to_owned()),
        exclude: vec!["*.o".to_owned()],
        service: Some("main".to_owned()),
        ..artifact("/app/b")
    };
    assert_eq!(step.artifacts, [artifact("/app/out"), second]);
    assert!(matches!(step.oracle, Some(Oracle::Script { .. })));
}

#[test]
fn an_empty_file_has_harbors_defaults() {
    let task = Scratch::harbor("").task();
    assert_eq!(task.name, "task");
    assert_eq!(task.environment.network, NetworkPolicy::Public);
    assert_eq!(task.environment.build_timeout.as_secs(), 600);
    assert_eq!(task.steps[0].verifier.timeout.as_secs(), 600);
    assert_eq!(task.steps[0].agent.timeout, None);
    assert_eq!(task.steps[0].instruction.as_deref(), Some("Do it.\n"));
    assert!(task.steps[0].verifier.environment.is_none());
    assert!(!task.is_multi_step());
}

#[test]
fn takes_older_keys() {
    let task = Scratch::harbor(
        "version = \"1.0\"\n[environment]\nmemory = \"2G\"\nstorage = \"512M\"\nallow_internet = false\n",
    )
    .task();
    assert_eq!(task.warnings, []);
    assert_eq!(task.about.schema_version.as_deref(), Some("1.0"));
    assert_eq!((task.environment.memory_mb, task.environment.storage_mb), (Some(2048), Some(512)));
    assert_eq!(task.environment.network, NetworkPolicy::NoNetwork);
    let newer =
        Scratch::harbor("[environment]\nallow_internet = false\nnetwork_mode = \"public\"\n")
            .task();
    assert_eq!(newer.environment.network, NetworkPolicy::Public);
}

#[test]
fn names_unknown_keys_and_their_place_as_warnings() {
    let task =
        Scratch::harbor("schema_version = \"9.0\"\n[environment]\n  cpu = 1\n[metadata]\nx = 1\n")
            .task();
    let warnings: Vec<String> = task.warnings.iter().map(ToString::to_string).collect();
    assert_eq!(warnings.len(), 2, "{warnings:?}");
    assert!(
        warnings[0].contains("task.toml:1:18: the version 9.0 of the schema is not known"),
        "{warnings:?}"
    );
    assert!(
        warnings[1].contains("task.toml:3:3: `environment.cpu` is not a known key"),
        "{warnings:?}"
    );
}

/// Lines of `task.toml` with a mistake, and what is said about it.
const MISTAKES: &[(&str, &str)] = &[
    ("x = ", "task/task.toml:1:5: "),
    (
        "[agent]\ntimeout_sec = \"1\"",
        "task/task.toml:2:15: `agent.timeout_sec` is string, expected a finite number",
    ),
    ("[agent]\ntimeout_sec = 0", "2:15: `agent.timeout_sec` is 0, expected seconds greater than 0"),
    ("[agent]\ntimeout_sec = nan", "expected a finite number"),
    ("[agent]\ntimeout_sec = 1e300", "expected seconds greater than 0"),
    ("[agent]\nuser = true", "`agent.user` is neither the name nor the number"),
    ("[task]\nname = \"plain\"", "`task.name` is \"plain\", expected org/name"),
    ("[task]\nname = \"a/../b\"", "expected org/name"),
    ("[task]\n", "`task.name` is missing"),
    ("[environment]\nos = \"beos\"", "expected \"linux\" or \"windows\""),
    (
        "[environment]\nmemory = \"2 GB\"",
        "`environment.memory` is \"2 GB\", expected a size such as",
    ),
    ("[environment]\nmemory = \"1G\"\nmemory_mb = 1", "contradict each other"),
    ("[environment]\nmemory_mb = -1", "expected a whole number from 0"),
    ("[environment]\ncpus = 0", "expected more than 0"),
    ("[environment]\nworkdir = \"app\"", "expected an absolute path without `..`"),
    ("[environment]\nworkdir = \"/app/../etc\"", "expected an absolute path without `..`"),
    (
        "[environment]\nnetwork_mode = \"lan\"",
        "expected one of \"public\", \"no-network\", \"allowlist\"",
    ),
    ("[environment]\nallowed_hosts = [\"a.b\"]", "needs `network_mode = \"allowlist\"`"),
    (
        "[environment]\nnetwork_mode = \"allowlist\"\nallowed_hosts = [\"http://a.b\"]",
        "3:18: \"http://a.b\" is no host name",
    ),
    (
        "[environment]\ntpu = { type = \"a\", topology = \"2\" }",
        "a TPU needs a `type` and a `topology`",
    ),
    ("[environment]\nhealthcheck = {}", "`environment.healthcheck.command` is missing"),
    ("[[environment.mcp_servers]]\nname = \"a\"", "needs a `url`"),
    ("[[environment.mcp_servers]]\nname = \"a\"\ntransport = \"stdio\"", "needs a `command`"),
    ("[environment]\nenv = { A = 1 }", "`environment.env.A` is integer, expected a string"),
    (
        "[verifier]\nenvironment_mode = \"shared\"\n[verifier.environment]",
        "contradicts the verifier's `environment`",
    ),
    ("[[verifier.collect]]\ncommand = \"a\"\nservice = \"-x\"", "expected letters, digits"),
    (
        "artifacts = [1]",
        "task/task.toml:1:14: `artifacts[0]` is integer, expected a path or a table",
    ),
    ("artifacts = [\"/a/../b\"]", "has `..` in it"),
    ("artifacts = [{ source = \"/a\", destination = \"/b\" }]", "is not usable"),
    ("artifacts = [{ source = \"/a\", destination = \"a/../../b\" }]", "is not usable"),
    ("artifacts = [{ source = \"/a\", destination = \"manifest.json\" }]", "is not usable"),
    ("artifacts = [{ source = \"a\", service = \"db\" }]", "write an absolute path"),
    ("multi_step_reward_strategy = \"max\"", "expected one of \"mean\", \"final\""),
    ("steps = 1", "`steps` is integer, expected a list"),
    ("[[steps]]\nname = \"../x\"", "is not usable as the name of a folder"),
    ("[[steps]]\nmin_reward = 1", "`steps[0].name` is missing"),
];

#[test]
fn names_every_mistake_with_file_line_and_column() {
    for (lines, expected) in MISTAKES {
        let refusal = Scratch::harbor(lines).refusal();
        assert!(refusal.contains(expected), "{lines}\n{refusal}");
    }
}

#[test]
fn names_all_mistakes_of_all_tasks_at_once() {
    let scratch = Scratch::new();
    for name in ["a", "b"] {
        scratch.write(&format!("task/{name}/task.toml"), "[agent]\ntimeout_sec = 0\nuser = []\n");
    }
    let refusal = scratch.refusal();
    assert_eq!(refusal.lines().filter(|line| line.contains("timeout_sec")).count(), 2, "{refusal}");
    assert_eq!(refusal.lines().filter(|line| line.contains("agent.user")).count(), 2, "{refusal}");
    assert!(refusal.contains("task/b/instruction.md: is missing"), "{refusal}");
    assert!(refusal.contains("task/b/tests/test.sh: is missing"), "{refusal}");
}

const STEPS: &str = r#"
multi_step_reward_strategy = "final"
artifacts = ["/app/all"]
[agent]
timeout_sec = 10
user = "worker"
[verifier]
timeout_sec = 20
env = { A = "1", B = "1" }
[[steps]]
name = "one"
min_reward = 0.5
artifacts = ["/app/one"]
[steps.verifier]
env = { B = "2" }
[[steps]]
name = "two"
min_reward = { a = 1, b = 0.25 }
[steps.agent]
timeout_sec = 30
[steps.verifier]
environment_mode = "separate"
[steps.healthcheck]
command = "true"
"#;

#[test]
fn steps_inherit_what_they_do_not_say() {
    let scratch = Scratch::harbor(STEPS);
    scratch.write("task/steps/one/instruction.md", "<!-- canary 1 -->\n\nFirst.");
    scratch.write("task/steps/one/workdir/setup.sh", "true");
    scratch.write("task/steps/one/tests/test.sh", "true");
    scratch.write("task/steps/two/instruction.md", "Second.");
    scratch.write("task/steps/two/solution/solve.sh", "true");
    scratch.write("task/steps/two/trajectory.json", "{}");
    let task = scratch.task();
    assert_eq!((task.is_multi_step(), task.reward_strategy), (true, RewardStrategy::Final));
    let [one, two] = task.steps.as_slice() else { panic!() };
    assert_eq!((one.name.as_deref(), one.instruction.as_deref()), (Some("one"), Some("First.")));
    assert_eq!(
        (one.agent.timeout.unwrap().as_secs(), two.agent.timeout.unwrap().as_secs()),
        (10, 30)
    );
    assert_eq!(two.agent.user, Some(User::Name("worker".to_owned())));
    let env = |pairs: &[(&str, &str)]| -> BTreeMap<String, String> {
        pairs.iter().map(|(k, v)| ((*k).to_owned(), (*v).to_owned())).collect()
    };
    assert_eq!(one.verifier.env, env(&[("A", "1"), ("B", "2")]));
    assert_eq!(two.verifier.env, env(&[("A", "1"), ("B", "1")]));
    assert_eq!(one.verifier.timeout.as_secs(), 20);
    assert!(one.verifier.environment.is_none() && two.verifier.environment.is_some());
    let gate = |step: &ralph_orchestrator_bench::task::Step| step.min_reward.clone().unwrap().0;
    assert_eq!(gate(one), BTreeMap::from([("reward".to_owned(), 0.5)]));
    assert_eq!(gate(two), BTreeMap::from([("a".to_owned(), 1.0), ("b".to_owned(), 0.25)]));
    let sources: Vec<&str> =
        one.artifacts.iter().map(|artifact| artifact.source.as_str()).collect();
    assert_eq!(sources, ["/app/all", "/app/one"]);
    assert!(one.workdir_files.is_some() && two.workdir_files.is_none());
    assert!(one.prior_trajectory.is_none() && two.prior_trajectory.is_some());
    assert!(two.healthcheck.is_some());
    let Verification::Script { folders, .. } = &one.verification else { panic!() };
    assert_eq!(folders, &[scratch.path("task/tests"), scratch.path("task/steps/one/tests")]);
    let oracle = |step: &ralph_orchestrator_bench::task::Step| match step.oracle.clone() {
        Some(Oracle::Script { folder, .. }) => folder,
        other => panic!("{other:?}"),
    };
    assert_eq!(oracle(one), scratch.path("task/solution"));
    assert_eq!(oracle(two), scratch.path("task/steps/two/solution"));
}

#[test]
fn steps_need_their_files_and_names_of_their_own() {
    let scratch = Scratch::harbor("[[steps]]\nname = \"a\"\n[[steps]]\nname = \"A\"\n");
    assert!(scratch.refusal().contains("a step before this one has the name \"A\" too"));
    let scratch = Scratch::harbor("[[steps]]\nname = \"a\"\n");
    assert!(scratch.refusal().contains("task/steps/a/instruction.md: is missing"));
}

#[test]
fn a_separate_verifier_is_built_from_its_own_files_if_it_has_any() {
    let scratch = Scratch::harbor("[verifier]\nenvironment_mode = \"separate\"\n");
    let environment =
        |scratch: &Scratch| scratch.task().steps[0].verifier.environment.clone().unwrap();
    let copy = environment(&scratch);
    assert!(!copy.has_bundled_tests && matches!(copy.source, EnvironmentSource::Dockerfile(_)));
    scratch.write("task/tests/Dockerfile", "FROM debian:12\nWORKDIR /check\nCOPY . /tests\n");
    let own = environment(&scratch);
    let EnvironmentSource::Dockerfile(dockerfile) = &own.source else { panic!() };
    assert_eq!((own.has_bundled_tests, dockerfile.workdir.as_deref()), (true, Some("/check")));
    let Verification::Script { folders, .. } = &scratch.task().steps[0].verification else {
        panic!()
    };
    assert!(folders.is_empty());
    let staged = scratch.task().stage_verifier(&own, &scratch.path("v"), &BTreeMap::new()).unwrap();
    assert!(staged.host_path("/tests/test.sh").unwrap().is_file());
}
