//! What cannot be honoured is refused, with what a person can do.

use std::fs;

use ralph_orchestrator_bench::task::{Capabilities, Feature, IsolationKind};

use super::scratch::{Scratch, namespace};

/// What a task asks for, what is said about it, and the feature that takes the obstacle away.
const CASES: [(&str, &str, Option<Feature>); 13] = [
    ("[environment]\nos = \"windows\"", "its environment is Windows", None),
    ("[environment]\ntpu = { type = \"v6e\", topology = \"2x4\" }", "it needs a TPU", None),
    ("[environment]\ngpus = 2", "it needs 2 GPUs, and 0 can be offered", None),
    (
        "[environment]\nnetwork_mode = \"no-network\"",
        "which cannot be cut off here",
        Some(Feature::CutNetwork),
    ),
    (
        "[environment]\nnetwork_mode = \"allowlist\"",
        "single hosts cannot be let through",
        Some(Feature::FilterNetwork),
    ),
    (
        "[agent]\nnetwork_mode = \"allowlist\"",
        "single hosts cannot be let through",
        Some(Feature::FilterNetwork),
    ),
    (
        "[verifier.environment]\nnetwork_mode = \"allowlist\"",
        "single hosts cannot be",
        Some(Feature::FilterNetwork),
    ),
    ("[environment]\nskills_dir = \"/s\"", "it gives skills to the agent", Some(Feature::Skills)),
    (
        "[[environment.mcp_servers]]\nname = \"a\"\nurl = \"http://h\"",
        "it gives MCP servers",
        Some(Feature::McpServers),
    ),
    (
        "[[verifier.collect]]\ncommand = \"a\"\nservice = \"db\"",
        "collects from the service \"db\"",
        Some(Feature::Compose),
    ),
    (
        "artifacts = [{ source = \"/a\", service = \"db\" }]",
        "collects from the service \"db\"",
        Some(Feature::Compose),
    ),
    ("[agent]\nuser = \"worker\"", "agent and verifier are different users", Some(Feature::Users)),
    ("[environment]\nworkdir = \"/usr/src\"", "`environment.workdir` /usr/src is in /usr", None),
];

#[test]
fn every_obstacle_is_named_until_the_feature_is_there() {
    for (lines, expected, feature) in CASES {
        let scratch = Scratch::harbor(lines);
        let mut capabilities = namespace();
        capabilities.features.clear();
        let obstacles = scratch.obstacles(&capabilities);
        let is_named = obstacles
            .iter()
            .any(|obstacle| obstacle.starts_with("task.toml: ") && obstacle.contains(expected));
        assert!(is_named, "{lines}\n{obstacles:?}");
        let Some(feature) = feature else { continue };
        capabilities.features.insert(feature);
        assert_eq!(scratch.obstacles(&capabilities), Vec::<String>::new(), "{lines}");
    }
    let mut capabilities = namespace();
    capabilities.gpus = 2;
    assert_eq!(
        Scratch::harbor("[environment]\ngpus = 2").obstacles(&capabilities),
        Vec::<String>::new()
    );
}

#[test]
fn one_user_for_agent_and_verifier_is_no_obstacle() {
    for lines in [
        "[agent]\nuser = \"root\"",
        "[agent]\nuser = \"w\"\n[verifier]\nuser = \"w\"",
        "[verifier]\nuser = 0",
    ] {
        assert_eq!(Scratch::harbor(lines).obstacles(&namespace()), Vec::<String>::new(), "{lines}");
    }
}

#[test]
fn absolute_paths_need_an_isolation() {
    let obstacles = Scratch::harbor("").obstacles(&Capabilities::new(IsolationKind::None));
    assert_eq!(obstacles.len(), 1, "{obstacles:?}");
    assert!(obstacles[0].contains("use the isolation `namespace`"), "{obstacles:?}");
}

#[test]
fn images_and_services_need_a_container_engine() {
    let scratch = Scratch::harbor("[environment]\ndocker_image = \"org/image:1\"\n");
    assert_eq!(scratch.obstacles(&namespace()), Vec::<String>::new(), "the Dockerfile is followed");
    fs::remove_dir_all(scratch.path("task/environment")).unwrap();
    let obstacles = scratch.obstacles(&namespace());
    assert!(
        obstacles[0].contains("container image org/image:1 and brings no environment/Dockerfile"),
        "{obstacles:?}"
    );
    assert_eq!(
        scratch.obstacles(&Capabilities::new(IsolationKind::Container)),
        Vec::<String>::new()
    );
    assert!(scratch.stage().unwrap_err().to_string().contains("find_obstacles"));

    let scratch = Scratch::harbor("");
    scratch.write("task/environment/docker-compose.yaml", "services: {}\n");
    let obstacles = scratch.obstacles(&namespace());
    assert!(
        obstacles[0].starts_with("environment/docker-compose.yaml: it runs in several services"),
        "{obstacles:?}"
    );

    let scratch = Scratch::harbor("");
    fs::remove_dir_all(scratch.path("task/environment")).unwrap();
    let obstacles = scratch.obstacles(&Capabilities::new(IsolationKind::Container));
    assert!(
        obstacles[0].starts_with("environment: there is nothing to make the environment from"),
        "{obstacles:?}"
    );
}

#[test]
fn run_lines_need_provided_packages_or_a_setup() {
    let scratch = Scratch::dockerfile(
        "FROM x\nWORKDIR /app\nRUN pip install pytest && apt-get update && apt-get install -y bats\n",
    );
    let mut capabilities = namespace();
    let provide = |capabilities: &mut Capabilities, entry: &str| {
        capabilities.provided.push(entry.parse().unwrap());
    };
    let obstacles = scratch.obstacles(&capabilities);
    assert_eq!(
        obstacles,
        [
            "environment/Dockerfile:3: RUN: it installs packages that the machine is not said to provide: install them by \
          `python3 -m pip install 'pytest'; apt-get install bats` and add \"pip:pytest\", \"apt:bats\" to `provided` of [bench]"
        ]
    );
    provide(&mut capabilities, "pip:pytest");
    let obstacles = scratch.obstacles(&capabilities);
    assert!(
        obstacles[0].contains("add \"apt:bats\" to") && !obstacles[0].contains("pytest"),
        "{obstacles:?}"
    );
    provide(&mut capabilities, "apt:bats");
    assert_eq!(scratch.obstacles(&capabilities), Vec::<String>::new());
    let mut capabilities = namespace();
    capabilities.features.insert(Feature::Setup);
    assert_eq!(scratch.obstacles(&capabilities), Vec::<String>::new());
}

#[test]
fn variables_without_a_value_are_named() {
    for lines in [
        "[environment]\nenv = { A = \"${B}\" }",
        "[verifier]\nenv = { A = \"${B}\" }",
        "[solution]\nenv = { A = \"${B}\" }",
    ] {
        let scratch = Scratch::harbor(lines);
        let obstacles = scratch.obstacles(&namespace());
        assert!(
            obstacles[0].contains("`A` needs the environment variable B, which is not set"),
            "{obstacles:?}"
        );
        let mut capabilities = namespace();
        capabilities.variables.insert("B".to_owned(), "1".to_owned());
        assert_eq!(scratch.obstacles(&capabilities), Vec::<String>::new(), "{lines}");
    }
    let scratch = Scratch::harbor("[environment]\nenv = { A = \"${B}\" }");
    assert!(scratch.stage().unwrap_err().to_string().contains("environment variable B"));
}

#[test]
fn a_trajectory_and_tests_for_windows_are_obstacles() {
    let scratch = Scratch::harbor("");
    scratch.write("task/trajectory.json", "{}");
    assert!(scratch.obstacles(&namespace())[0].contains("another agent's trajectory"));
    let scratch = Scratch::harbor("");
    fs::rename(scratch.path("task/tests/test.sh"), scratch.path("task/tests/test.bat")).unwrap();
    assert!(
        scratch.obstacles(&namespace())[0]
            .contains("its tests have no test.sh, only one for Windows")
    );
}

#[test]
fn a_container_has_one_network_and_an_image() {
    let container = Capabilities::new(IsolationKind::Container);
    let scratch = Scratch::harbor("[environment]\nnetwork_mode = \"no-network\"\n");
    assert_eq!(scratch.obstacles(&container), Vec::<String>::new());
    for table in ["agent", "verifier"] {
        let scratch = Scratch::harbor(&format!("[{table}]\nnetwork_mode = \"no-network\"\n"));
        let obstacles = scratch.obstacles(&container);
        assert!(obstacles[0].contains("a container has one"), "{obstacles:?}");
    }
    // A verifier with a container of its own has a network of its own.
    let separate = "[verifier]\nenvironment_mode = \"separate\"\nnetwork_mode = \"no-network\"\n";
    assert_eq!(Scratch::harbor(separate).obstacles(&container), Vec::<String>::new());
    // Lines that need the machine, or that nobody can follow, are the image's.
    let scratch = Scratch::harbor("");
    scratch.write(
        "task/environment/Dockerfile",
        "FROM debian:12\nRUN make install\nADD http://a/b /usr/\n",
    );
    assert_eq!(scratch.obstacles(&container), Vec::<String>::new());
}
