//! The real `codex` in the loop, against a model on loopback.

use orchestrator::contract::Tokens;
use ralph_orchestrator_testkit::codex_binary;
use ralph_orchestrator_testkit::model_server::{ModelServer, Reply, Script, Turn};

use crate::environment::{TestEnvironment, of_run};

fn environment(server: &ModelServer, limits: &str) -> TestEnvironment {
    let mut env = TestEnvironment::new();
    env.raw_config(&format!(
        "[run]\ndelay = \"0s\"\n[agent]\nadapter = \"codex\"\n[agent.config]\n\
         program = \"{}\"\nmodel = \"gpt-5.1-codex\"\n\
         args = [\"-c\", \"model_provider=loop\", \"-c\", \"analytics.enabled=false\", \"-c\", \
         'model_providers.loop={{name=\"loop\",base_url=\"{}/v1\",env_key=\"CODEX_API_KEY\",\
         wire_api=\"responses\",request_max_retries=0,stream_max_retries=0}}']\n\
         [[validator]]\nkind = \"evidence-files\"\n\
         [[validator]]\nkind = \"command\"\nname = \"tests\"\n\
         program = [\"grep\", \"-qx\", \"hello ralph\", \"hello.txt\"]\n\
         [limits]\n{limits}\n",
        codex_binary().display(),
        server.base_url(),
    ));
    env.var("CODEX_API_KEY", "dummy-key");
    env
}

const CLAIM: &str = "All done.\n\n<promise>COMPLETE: hello.txt is written</promise>";
const WORK: &str = "echo 'hello ralph' > hello.txt && mkdir -p validation-evidence && \
                    for i in 1 2 3; do echo \"check $i: $(cat hello.txt)\" > validation-evidence/$i.txt; done";

#[test]
fn claims_without_evidence_is_refused_repairs_it_and_is_accepted() {
    let usage = Tokens { input: 1000, output: 10, cache_read: 500, cache_write: 0 };
    let server = ModelServer::scripted(
        Script::new()
            .then(Turn::text(CLAIM).usage(usage))
            .then(Turn::shell(WORK).usage(usage))
            .then(Turn::text("Now it is really done.").usage(usage)),
    );
    let env = environment(&server, "max_iterations = 3");
    let ended = env.ralph(&["run", "--json"]).expect(0);
    let requests = server.main_requests();
    assert_eq!(requests.len(), 3);
    let told = requests[1].body["input"].to_string();
    assert!(told.contains("was checked and REJECTED"), "{told}");
    let finished: Vec<_> =
        ended.events().into_iter().filter(|event| event["event"] == "iteration_finished").collect();
    assert_eq!(finished.len(), 2);
    let status = env.status();
    assert_eq!(status["tokens"]["input"], server.served().input);
    assert_eq!(status["tokens"]["cache_read"], server.served().cache_read);
    assert_eq!(status["latch"]["state"], "completed");
    assert_eq!(status["latch"]["rejections"], 1);
    assert!(of_run(&env.root()).is_empty());
}

#[test]
fn a_refused_key_needs_a_human() {
    let server = ModelServer::scripted(Script::new().forever(Reply::error(401, "invalid key")));
    let env = environment(&server, "max_iterations = 3");
    env.run().expect(2).says("unauthenticated");
    assert_eq!(env.status()["phase"], "needs_human");
}

/// A request of this model costs 20 cents: 1.25 dollars for a million tokens.
const DEAR: Tokens = Tokens { input: 160_000, output: 0, cache_read: 0, cache_write: 0 };

#[test]
fn an_estimated_budget_stops_it_inside_an_iteration_at_most_one_turn_over() {
    let tick = Turn::shell("date >> ticks").usage(DEAR);
    // It goes on until it is stopped; what comes after the stop would hang.
    let server = ModelServer::scripted(Script::new().times(20, tick));
    let env = environment(&server, "max_cost_usd = 0.5");
    env.run().expect(1).says("max_cost").says("about $");
    let status = env.status();
    assert_eq!(status["cost_estimated"], true);
    let cost = status["cost_usd"].as_f64().unwrap();
    let served = server.served().input;
    assert!((0.5..=0.8).contains(&cost), "{status}");
    assert!(served <= 4 * DEAR.input, "asked on and on: {served}");
    assert!((cost - f64::from(u32::try_from(served).unwrap()) * 1.25e-6).abs() < 1e-9, "{cost}");
    assert!(env.ralph(&["status"]).expect(0).stdout.contains("(estimated)"));
    assert!(of_run(&env.root()).is_empty());
}

#[test]
fn an_estimated_budget_stops_it_between_iterations() {
    let server = ModelServer::scripted(Script::new().forever(Turn::text("Going on.").usage(DEAR)));
    let env = environment(&server, "max_cost_usd = 0.5");
    env.run().expect(1).says("max_cost");
    let status = env.status();
    assert_eq!(status["iterations"], 3);
    assert!((status["cost_usd"].as_f64().unwrap() - 0.6).abs() < 1e-9, "{status}");
    assert_eq!(server.served().input, 3 * DEAR.input);
}
