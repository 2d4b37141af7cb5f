//! The real agents in a sandbox, with a home directory as people have it.

use std::fs;

use ralph_orchestrator_testkit::model_server::{ModelServer, Reply, Turn};
use serde_json::json;

use super::home::fill_home;
use super::kernel_level;
use crate::environment::of_run;
use crate::real::Real;
use crate::tools::offered;

/// What the agent's shell does: the work of every day, and what it must not.
const WORK: &str = "exec >log 2>&1; echo 'hello ralph' > hello.txt; git init -q . && git add hello.txt && \
     git commit -qm work && git log --oneline >commits; \
     echo '{\"name\":\"x\",\"version\":\"1.0.0\",\"scripts\":{\"hello\":\"node -p 6*7\"}}' > package.json; \
     npm run --silent hello >answer; npm pack --offline; cat ~/.claude.json ~/.cargo/config.toml >open; \
     cat ~/.ssh/id_ed25519 >secret; cat ~/.bash_history >>secret; cat ~/.cargo/credentials.toml >>secret; \
     cat ~/.config/ralph-orchestrator/receipt-key.pem >>secret; ls ~ >>secret; echo work is written";

/// Has the agent work, and claim by the orchestrator's own tool, over MCP, if it has `tools`. It may write these
/// paths of the home directory.
fn works(real: Real, tools: bool, write: &[&str]) {
    let server = ModelServer::start(|request| {
        let said = request.body.to_string();
        if !request.is_main() {
            Reply::from(Turn::text("ok"))
        } else if said.contains("stands. End your turn now") {
            Reply::from(Turn::text("Finished."))
        } else if !said.contains("work is written") {
            Reply::from(Turn::shell(WORK))
        } else if let Some(name) = offered(request, "claim_complete") {
            Reply::from(Turn::tool(&name, &json!({ "message": "hello.txt is written" })))
        } else {
            Reply::from(Turn::text("<promise>COMPLETE: hello.txt is written</promise>"))
        }
    });
    // Where no file can be made beside its configuration, Claude writes that in place, and another process of it that reads
    // half of it ends: then the next iteration does the work.
    let mut env = real.environment(
        &server,
        &format!(
            "tools = {tools}\n[sandbox]\nmode = \"landlock\"\n@WRITE@[limits]\nmax_iterations = 3\n[[validator]]\n\
             kind = \"command\"\nname = \"tests\"\nprogram = [\"grep\", \"-qx\", \"hello ralph\", \"hello.txt\"]\n"
        ),
    );
    fill_home(&env);
    let home = env.root().join("home");
    fs::write(home.join(".gitconfig"), "[user]\nname = A\nemail = a@example.com\n").unwrap();
    let write = write.iter().map(|path| format!("{:?}", home.join(path))).collect::<Vec<_>>();
    let text = env.read("ralph.toml");
    env.raw_config(&text.replace("@WRITE@", &format!("write = [{}]\n", write.join(", "))));
    // It would be the home directory.
    env.unset("CLAUDE_CODE_TMPDIR");
    if kernel_level() < 3 {
        env.run().expect(69).says("Landlock");
        return;
    }
    env.run().expect(0).says("completed");
    let log = env.read("log");
    assert_eq!(env.read("secret"), "", "{real:?}: {log}");
    assert!(log.matches("Permission denied").count() >= 5, "{real:?}: {log}");
    assert_eq!(env.read("answer"), "42\n", "{real:?}: {log}");
    assert!(env.read("commits").contains("work") && env.path("x-1.0.0.tgz").exists(), "{log}");
    assert!(env.read("open").contains('{'), "{real:?}: {log}");
    assert_eq!(env.has_record("previewed"), tools, "{real:?}");
    assert!(of_run(&env.root()).is_empty());
}

#[test]
fn claude_works_in_it_with_its_own_folder_and_the_cache_of_npm() {
    works(Real::ClaudeCli, true, &[".claude", ".claude.json", ".npm"]);
}

#[test]
fn codex_works_in_it_with_its_own_folder_and_the_cache_of_npm() {
    works(Real::Codex, true, &[".codex", ".npm"]);
}

#[test]
fn claude_behind_acp_works_in_it_with_its_own_folder_and_the_cache_of_npm() {
    works(Real::AcpClaude, true, &[".claude", ".claude.json", ".npm"]);
}

#[test]
fn codex_behind_acp_works_in_it_with_its_own_folder_and_the_cache_of_npm() {
    works(Real::AcpCodex, false, &[".codex", ".npm"]);
}
