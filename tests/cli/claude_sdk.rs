//! The `claude-sdk` adapter in the loop, with the real `claude` against a model on loopback.

use ralph_orchestrator_testkit::model_server::{ModelServer, Script, Turn};
use serde_json::json;

use crate::environment::{TestEnvironment, of_run};
use crate::real::Real;

fn environment(server: &ModelServer, validators: &str) -> TestEnvironment {
    Real::ClaudeSdk.environment(server, &format!("{validators}[limits]\nmax_iterations = 2\n"))
}

const CHECK: &str = "[[validator]]\nkind = \"command\"\nname = \"tests\"\n\
                     program = [\"grep\", \"-qx\", \"hello ralph\", \"hello.txt\"]\n";

#[test]
fn a_claim_that_is_refused_is_repaired_in_the_same_session() {
    let mut env = environment(&ModelServer::scripted(Script::new()), CHECK);
    let file = env.path("hello.txt");
    let claim = Turn::text("<promise>COMPLETE: hello.txt is written</promise>");
    let server = ModelServer::scripted(
        Script::new()
            .then(claim.clone())
            .then(Turn::tool("Write", &json!({"file_path": file, "content": "hello ralph\n"})))
            .then(claim),
    );
    Real::ClaudeSdk.ask(&mut env, &server);
    env.run().expect(0);
    let status = env.status();
    assert_eq!((&status["phase"], &status["iterations"]), (&"completed".into(), &1.into()));
    let judged: Vec<bool> = env
        .records("previewed")
        .iter()
        .map(|record| record["accepted"].as_bool().unwrap())
        .collect();
    assert_eq!(judged, [false, true]);
    let validated = env.records("validated");
    assert_eq!((validated.len(), &validated[0]["accepted"]), (1, &true.into()), "the final word");
    let requests = server.main_requests();
    assert_eq!(requests.len(), 3);
    let reported = requests[1].body["messages"].to_string();
    assert!(
        reported.contains("tests") && reported.contains("exit 2"),
        "why it was refused: {reported}"
    );
    assert!(of_run(&env.root()).is_empty());
}

#[test]
fn claims_and_notes_come_by_tools() {
    let mut env = environment(&ModelServer::scripted(Script::new()), CHECK);
    let file = env.path("hello.txt");
    let server = ModelServer::scripted(
        Script::new()
            .then(Turn::tool("mcp__ralph__note", &json!({"text": "the file is hello.txt"})))
            .then(Turn::text("Enough for today."))
            .then(Turn::tool("Write", &json!({"file_path": file, "content": "hello ralph\n"})))
            .then(Turn::tool("mcp__ralph__claim_complete", &json!({"message": "it is written"})))
            .then(Turn::text("That was it.")),
    );
    Real::ClaudeSdk.ask(&mut env, &server);
    env.run().expect(0);
    let status = env.status();
    assert_eq!((&status["phase"], &status["iterations"]), (&"completed".into(), &2.into()));
    assert_eq!(status["latch"]["claim"]["detector"], "tool", "{status}");
    let second = server.main_requests()[2].body["messages"][0].to_string();
    assert!(second.contains("the file is hello.txt"), "told to the next iteration: {second}");
    assert!(of_run(&env.root()).is_empty());
}

#[test]
fn a_task_is_done_and_what_is_protected_stays_as_it_is() {
    let mut env = environment(
        &ModelServer::scripted(Script::new()),
        "[[validator]]\nkind = \"protected-paths\"\npaths = [\"expected.txt\"]\n\
         [[validator]]\nkind = \"command\"\nname = \"tests\"\n\
         program = [\"cmp\", \"expected.txt\", \"hello.txt\"]\n",
    );
    env.write("expected.txt", "hello ralph\n");
    let protected = env.path("expected.txt");
    let write = |path: &std::path::Path, text: &str| {
        Turn::tool("Write", &json!({"file_path": path, "content": text}))
    };
    // Files that are there have to be read before they can be written.
    let read = |path: &std::path::Path| Turn::tool("Read", &json!({"file_path": path}));
    let server = ModelServer::scripted(
        Script::new()
            .then(read(&protected))
            .then(write(&protected, "anything\n"))
            .then(read(&env.path("ralph.toml")))
            .then(write(&env.path("ralph.toml"), "[run]\n"))
            .then(write(&env.path("hello.txt"), "hello ralph\n"))
            .forever(Turn::text("<promise>COMPLETE: hello.txt is written</promise>")),
    );
    Real::ClaudeSdk.ask(&mut env, &server);
    let config = env.read("ralph.toml");
    env.run().expect(0);
    let status = env.status();
    assert_eq!((&status["phase"], &status["iterations"]), (&"completed".into(), &1.into()));
    assert_eq!(env.read("expected.txt"), "hello ralph\n");
    assert_eq!(env.read("ralph.toml"), config);
    let requests = server.main_requests();
    let reported = requests[4].body["messages"].to_string();
    assert_eq!(reported.matches("is protected").count(), 2, "{reported}");
    let served = server.served();
    let tokens = &status["tokens"];
    assert_eq!(tokens["input"], served.input, "{status}");
    assert_eq!(tokens["output"], served.output, "{status}");
    assert!(status["cost_usd"].as_f64().unwrap() > 0.0);
    assert!(of_run(&env.root()).is_empty());
}
