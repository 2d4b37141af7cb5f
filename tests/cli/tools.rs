//! The orchestrator's own tools in the hands of the real agents.

use std::sync::atomic::{AtomicU32, Ordering};

use ralph_orchestrator_testkit::model_server::{ModelServer, Reply, Request, Turn};
use serde_json::{Value, json};

use crate::environment::{TestEnvironment, of_run};
use crate::real::Real;

const CHECK: &str = "tools = true\n[[validator]]\nkind = \"command\"\nname = \"tests\"\n\
                     program = [\"grep\", \"-qx\", \"hello ralph\", \"hello.txt\"]\n[limits]\nmax_iterations = 1\n";

/// More than an agent needs that does as it is asked.
const MOST_REQUESTS: u32 = 12;

/// The name under which the agent offers a tool to its model.
pub(crate) fn offered(request: &Request, tool: &str) -> Option<String> {
    let names = |tools: &Value| -> Vec<String> {
        let tools = tools.as_array().cloned().unwrap_or_default();
        let one = |tool: &Value| {
            let name = tool["name"].as_str().or_else(|| tool["function"]["name"].as_str());
            name.map(str::to_owned)
        };
        let inner = tools.iter().filter_map(|tool| tool["tools"].as_array()).flatten();
        tools.iter().chain(inner).filter_map(one).collect()
    };
    names(&request.body["tools"]).into_iter().find(|name| name.ends_with(tool))
}

/// A model that claims by tool before the work, then does it, and claims again.
fn server() -> ModelServer {
    let requests = AtomicU32::new(0);
    ModelServer::start(move |request| {
        // A model that goes on for ever shows nothing.
        if !request.is_main() || requests.fetch_add(1, Ordering::Relaxed) > MOST_REQUESTS {
            return Reply::from(Turn::text("ok"));
        }
        let said = request.body.to_string();
        let claim = |message: &str| match offered(request, "claim_complete") {
            Some(name) => Reply::from(Turn::tool(&name, &json!({ "message": message }))),
            None => Reply::from(Turn::text(&format!("no tool in {}", request.body["tools"]))),
        };
        if said.contains("stands. End your turn now") {
            Reply::from(Turn::text("Finished."))
        } else if said.contains("hello ralph\\\\\\\" >") || said.contains("work is written") {
            claim("hello.txt is written")
        } else if said.contains("was checked and REJECTED") {
            Reply::from(Turn::shell("echo 'hello ralph' > hello.txt; echo work is written"))
        } else {
            claim("nothing yet")
        }
    })
}

fn claims_by_tool(agent: Real) -> TestEnvironment {
    let server = server();
    let env = agent.environment(&server, CHECK);
    let ended = env.ralph(&["run"]);
    let names: Vec<_> =
        server.main_requests().iter().map(|request| offered(request, "claim_complete")).collect();
    let last = server.main_requests().last().map(|request| request.body.to_string());
    let state = &env.status()["latch"]["state"];
    assert_eq!(state, "completed", "{names:?}\n{}\n{last:?}", ended.stdout);
    let previews = env.records("previewed");
    let accepted: Vec<_> = previews.iter().map(|preview| preview["accepted"].clone()).collect();
    assert_eq!(accepted, [false, true], "{previews:?}");
    let claims = env.records("claimed");
    assert!(!claims.is_empty(), "{claims:?}");
    assert_eq!(env.status()["iterations"], 1);
    assert!(of_run(&env.root()).is_empty());
    env
}

#[test]
fn claude_claims_by_tool() {
    claims_by_tool(Real::ClaudeCli);
}

#[test]
fn codex_claims_by_tool() {
    claims_by_tool(Real::Codex);
}

#[test]
fn claude_behind_acp_claims_by_tool() {
    claims_by_tool(Real::AcpClaude);
}

#[test]
fn tools_that_nobody_asked_for_are_not_offered() {
    let server = ModelServer::start(|_| Reply::from(Turn::text("ok")));
    let env = Real::ClaudeCli.environment(&server, "[limits]\nmax_iterations = 1\n");
    env.ralph(&["run"]);
    assert!(
        server.main_requests().iter().all(|request| offered(request, "claim_complete").is_none())
    );
}

#[test]
fn a_relay_without_a_run_says_what_is_missing() {
    let env = TestEnvironment::new();
    env.ralph(&["mcp", "/nonexistent/tools.json"]).expect(69).says("while its iteration runs");
}
