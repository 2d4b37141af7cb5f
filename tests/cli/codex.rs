//! The real `codex` in the loop, against a model on loopback.

use ralph_orchestrator_contract::Tokens;
use ralph_orchestrator_testkit::model_server::{ModelServer, Reply, Script, Turn};

use crate::environment::{TestEnvironment, of_run};
use crate::real::Real;

fn environment(server: &ModelServer, limits: &str) -> TestEnvironment {
    Real::Codex.environment(
        server,
        &format!(
            "[[validator]]\nkind = \"evidence-files\"\n\
             [[validator]]\nkind = \"command\"\nname = \"tests\"\n\
             program = [\"grep\", \"-qx\", \"hello ralph\", \"hello.txt\"]\n[limits]\n{limits}\n"
        ),
    )
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
    let reported = requests[1].body["input"].to_string();
    assert!(reported.contains("was checked and REJECTED"), "{reported}");
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
