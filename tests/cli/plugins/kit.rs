//! `plugin test`, and the examples as they are shipped.

use std::fs;
use std::path::Path;

use ralph_orchestrator_testkit::model_server::{ModelServer, Script, Turn};

use super::built;
use crate::environment::TestEnvironment;

const SOURCE: &str = env!("CARGO_MANIFEST_DIR");

/// An example in a workspace of its own, with its library where its `ralph.toml` names it.
fn example(name: &str, library: &str) -> TestEnvironment {
    example_with(&built(&format!("examples/{name}"), library), name, library)
}

/// The same with the library from elsewhere.
pub(super) fn example_with(built: &Path, name: &str, library: &str) -> TestEnvironment {
    let env = TestEnvironment::new();
    fs::remove_file(env.path("PROMPT.md")).unwrap();
    for file in ["ralph.toml", "conformance.toml", "template/README.md"] {
        env.write(
            file,
            fs::read(Path::new(SOURCE).join("examples").join(name).join(file)).unwrap(),
        );
    }
    fs::create_dir_all(env.path("target/release")).unwrap();
    fs::copy(built, env.path(&format!("target/release/{library}"))).unwrap();
    env
}

/// Passes the kit, by its file and by its name in ralph.toml.
pub(super) fn holds(env: &TestEnvironment, library: &str, name: &str) {
    let library = format!("target/release/{library}");
    let ended =
        env.ralph(&["plugin", "test", &library, "--conformance", "conformance.toml"]).expect(0);
    ended.says("all checks passed").says("passed");
    assert!(!ended.stdout.contains("FAILED"), "{}", ended.stdout);
    // By its name in ralph.toml, too.
    env.ralph(&["plugin", "test", name, "--conformance", "conformance.toml"]).expect(0);
}

#[test]
fn the_example_agent_holds_and_works() {
    let library = "libchat_agent.so";
    let env = example("custom-adapter", library);
    holds(&env, library, "chat");
    let write = "echo 'for name; do echo \"hello, $name\"; done' > hello.sh";
    let server = ModelServer::scripted(
        Script::new()
            .then(Turn::shell(write))
            .then(Turn::text("<promise>COMPLETE: it greets</promise>")),
    );
    let set = format!("agent.config.base_url=\"{}/v1\"", server.base_url());
    env.ralph(&["run", "--set", &set]).expect(0).says("completed: 1 iteration");
    assert_eq!(server.main_requests().len(), 2);
    assert!(env.status()["tokens"].as_u64().unwrap_or(1) > 0);
}

#[test]
fn the_example_detector_holds_and_works() {
    let library = "libplan_detector.so";
    let env = example("custom-detector", library);
    holds(&env, library, "plan");
    env.run().expect(0).says("completed: 2 iterations");
}

#[test]
fn the_example_validator_holds_and_works() {
    let library = "libjunit_validator.so";
    let env = example("custom-validator", library);
    holds(&env, library, "junit");
    env.run().expect(0).says("1 of 1 tests").says("completed: 2 iterations");
}

#[test]
fn what_does_not_hold_is_said() {
    let library = built("orchestrator/plugin/host/tests/plugins/misbehaving", "libmisbehaving.so");
    let env = TestEnvironment::new();
    env.write("kit.toml", "[items.bad.config]\nunknown = 1\n");
    let library = library.to_str().unwrap();
    let test = ["plugin", "test", library, "--conformance", "kit.toml"];
    env.ralph(&test)
        .expect(1)
        .says("FAILED")
        .says("it rejects its table")
        .says("kit.toml:2:1: `unknown`");
}

#[test]
fn mistakes_in_the_kit_are_said() {
    let library = built("examples/custom-detector", "libplan_detector.so");
    let env = TestEnvironment::new();
    let library = library.to_str().unwrap();
    let said = |kit: &str, code: i32| {
        env.write("kit.toml", kit);
        env.ralph(&["plugin", "test", library, "--conformance", "kit.toml"]).expect(code)
    };
    said("[confg]\n", 78).says("confg");
    said("[items.other.config]\n", 78).says("no item `other`").says("plan");
    said("[config\n", 78).says("kit.toml");
    env.ralph(&["plugin", "test", library, "--conformance", "none.toml"])
        .expect(78)
        .says("--conformance none.toml: it cannot be read")
        .says("expected a TOML file");
    env.ralph(&["plugin", "test", "none.so"]).expect(69).says("there is no such file");
    env.ralph(&["plugin", "test", "nobody"]).expect(64).says("no [plugins.nobody]");
    fs::remove_file(env.path("ralph.toml")).unwrap();
    env.ralph(&["plugin", "test", "nobody"]).expect(78).says("or give the path of a library");
}

#[test]
fn what_an_agent_does_without_needs_a_reason_and_a_name() {
    let library = built("examples/custom-adapter", "libchat_agent.so");
    let env = TestEnvironment::new();
    let library = library.to_str().unwrap();
    for (kit, why) in [
        ("[[skip]]\nscenarios = [\"drpo\"]\nwhy = \"x\"\n", "tree-end"),
        ("[[skip]]\nscenarios = [\"drop\"]\nwhy = \" \"\n", "needs a reason"),
        ("[[skip]]\nscenarios = [\"drop\"]\n", "why"),
    ] {
        env.write("kit.toml", kit);
        env.ralph(&["plugin", "test", library, "--conformance", "kit.toml"]).expect(78).says(why);
    }
}
