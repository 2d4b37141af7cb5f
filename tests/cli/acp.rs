//! The `acp` adapter in the loop, with the real Claude Code behind the Agent Client Protocol, against a
//! model on loopback.

use ralph_orchestrator_contract::Tokens;
use ralph_orchestrator_testkit::model_server::{ModelServer, Reply, Script, Turn};
use serde_json::json;

use crate::environment::{TestEnvironment, of_run};
use crate::real::Real;

fn environment(server: &ModelServer) -> TestEnvironment {
    let env = Real::AcpClaude.environment(
        server,
        "mode = \"default\"\n\
         [[validator]]\nkind = \"protected-paths\"\npaths = [\"expected.txt\"]\n\
         [[validator]]\nkind = \"command\"\nname = \"tests\"\n\
         program = [\"cmp\", \"expected.txt\", \"hello.txt\"]\n\
         [limits]\nmax_iterations = 2\n",
    );
    env.write("expected.txt", "hello ralph\n");
    env
}

#[test]
fn a_task_is_done_and_what_is_protected_stays_as_it_is() {
    let server = ModelServer::scripted(Script::new());
    let mut env = environment(&server);
    let (protected, hello) = (env.path("expected.txt"), env.path("hello.txt"));
    let write = |path: &std::path::Path, text: &str| {
        Turn::tool("Write", &json!({"file_path": path, "content": text}))
    };
    // Files that are there have to be read before they can be written.
    let read = Turn::tool("Read", &json!({"file_path": protected}));
    let server = ModelServer::scripted(
        Script::new()
            .then(read)
            .then(write(&protected, "anything\n"))
            .then(write(&hello, "hello ralph\n"))
            .then(Turn::text("<promise>COMPLETE: hello.txt is written</promise>"))
            // It may ask for more than the turn needs, such as for what could come next.
            .forever(Turn::text("").usage(Tokens::default())),
    );
    Real::AcpClaude.ask(&mut env, &server);
    env.run().expect(0);
    let status = env.status();
    assert_eq!((&status["phase"], &status["iterations"]), (&"completed".into(), &1.into()));
    assert_eq!(env.read("expected.txt"), "hello ralph\n");
    let asked = server.main_requests()[3].body["messages"].to_string();
    assert!(asked.contains("refused permission"), "{asked}");
    let served = server.served();
    assert_eq!(status["tokens"]["input"], served.input, "{status}");
    assert_eq!(status["tokens"]["output"], served.output, "{status}");
    assert!(status["cost_usd"].as_f64().is_some_and(|cost| cost > 0.0), "{status}");
    assert_eq!(status["cost_estimated"], false, "{status}");
    assert!(of_run(&env.root()).is_empty());
}

#[test]
fn a_refused_key_needs_a_human() {
    let server = ModelServer::scripted(Script::new().forever(Reply::error(401, "invalid key")));
    let env = environment(&server);
    env.run().expect(2).says("unauthenticated");
    assert_eq!(env.status()["phase"], "needs_human");
}
