//! Completion without a claim, and telling the agent how to claim.

use std::fs;

use crate::environment::TestEnvironment;

const PROVED: &str = "[completion]\nwhen = \"proved\"\n";
const TOLD: &str =
    "end your final message with a line `<promise>COMPLETE: what was done</promise>`";

fn stdin(env: &TestEnvironment, call: usize) -> String {
    String::from_utf8(env.agent.stdin(call)).unwrap()
}

#[test]
fn the_checks_decide_after_an_iteration_that_changed_something() {
    let env = TestEnvironment::new();
    env.config(PROVED);
    env.agent.call(1).script("echo half > part\n").out("half of it\n");
    env.agent.call(2).script("touch done\n").out("all of it\n");
    let ended = env.run().expect(0);
    assert_eq!(env.agent.calls(), 2);
    assert_eq!(env.records("validated").len(), 2);
    assert!(!ended.stderr.contains("claim"), "{}", ended.stderr);
    let second = stdin(&env, 2);
    assert!(second.starts_with("Your work is not accepted yet. The checks report:\n"), "{second}");
    assert!(!second.contains("claim"), "{second}");
    assert_eq!(stdin(&env, 1), env.read("PROMPT.md"), "no claim is needed, so none is explained");
}

#[test]
fn work_that_did_not_change_is_not_validated_again() {
    let env = TestEnvironment::new();
    env.config(&format!(
        "\n[[validator]]\nkind = \"command\"\nname = \"counts\"\n\
         program = [\"sh\", \"-c\", \"echo x >> ../executions\"]\n\
         [limits]\nmax_stagnant = 3\n{PROVED}baseline = \"off\"\n"
    ));
    env.agent.call(1).script("echo x > part\n");
    env.run().expect(1);
    assert_eq!(fs::read_to_string(env.root().join("executions")).unwrap(), "x\n");
}

#[test]
fn a_required_validator_is_needed_for_it() {
    let env = TestEnvironment::new();
    let config = env.read("ralph.toml");
    let head = config.split("[[validator]]").next().unwrap().to_owned();
    env.write("ralph.toml", format!("{head}{PROVED}trust_agent = true\n"));
    env.run()
        .expect(78)
        .says("without a required validator nothing can prove that the work is done");
}

#[test]
fn an_agent_whose_prompt_says_nothing_of_claims_gets_instructions() {
    let env = TestEnvironment::new();
    env.agent.default_call().script("touch done\n").out("all tests pass\n");
    env.agent.call(2).out("<promise>COMPLETE: made it</promise>\n");
    env.run().expect(0);
    let first = stdin(&env, 1);
    let rest = first.strip_prefix(&env.read("PROMPT.md")).unwrap();
    assert!(rest.starts_with("\n\n---\n\n") && rest.contains(TOLD), "{rest}");
    env.ralph(&["log"]).expect(0).says("started (initial); claim instructions after the prompt");
    let kept = env.state().join("runs").join(env.status()["run"].as_str().unwrap());
    let kept = fs::read_to_string(kept.join("iterations/0001/prompt.md")).unwrap();
    assert_eq!(kept, first);
}

#[test]
fn a_dry_run_shows_what_follows_the_prompt() {
    let env = TestEnvironment::new();
    env.ralph(&["run", "--dry-run"]).expect(0).says(TOLD);
    let json = env.ralph(&["run", "--dry-run", "--json"]).expect(0);
    assert!(json.events()[0]["instructions"].as_str().unwrap().contains(TOLD));
    env.config("[completion]\ninstructions = \"never\"\n");
    let ended = env.ralph(&["run", "--dry-run"]).expect(0);
    assert!(!ended.stdout.contains("<promise>"), "{}", ended.stdout);
}

#[test]
fn a_prompt_that_shows_a_form_reaches_the_agent_byte_for_byte() {
    for prompt in [
        "Make done.\r\nThen say `<promise>COMPLETE: …</promise>`.",
        "Make done and put TASK_COMPLETE here\n\n",
    ] {
        let env = TestEnvironment::new();
        env.write("PROMPT.md", prompt);
        env.agent.call(1).script("touch done\n").out("<promise>COMPLETE: it is</promise>\n");
        env.run().expect(0);
        assert_eq!(env.agent.stdin(1), prompt.as_bytes());
    }
}

#[test]
fn never_keeps_the_bytes_whatever_the_prompt_says() {
    let env = TestEnvironment::new();
    env.config("[completion]\ninstructions = \"never\"\n");
    env.agent.call(1).script("touch done\n").out("<promise>COMPLETE: it is</promise>\n");
    env.run().expect(0);
    assert_eq!(stdin(&env, 1), env.read("PROMPT.md"));
}

#[test]
fn a_command_line_that_says_how_to_claim_is_enough() {
    let env = TestEnvironment::new();
    let config = env.read("ralph.toml");
    let program = env.agent.program().display().to_string();
    let with_words = config.replace(
        &format!("program = [\"{program}\"]"),
        &format!("program = [\"{program}\", \"say <promise>COMPLETE: …</promise> at the end\"]"),
    );
    assert_ne!(config, with_words);
    env.write("ralph.toml", with_words);
    env.agent.call(1).script("touch done\n").out("<promise>COMPLETE: it is</promise>\n");
    env.run().expect(0);
    assert_eq!(stdin(&env, 1), env.read("PROMPT.md"));
}

#[test]
fn an_agent_that_repeats_its_instructions_claims_nothing() {
    let env = TestEnvironment::new();
    env.config("[limits]\nmax_iterations = 2\n");
    env.agent.default_call().script("touch done; cat\n");
    env.run().expect(1);
    assert!(!env.has_record("claimed"));
}

#[test]
fn an_iteration_that_changes_nothing_says_why_the_work_is_still_rejected() {
    let env = TestEnvironment::new();
    env.config(&format!("[limits]\nmax_iterations = 3\n{PROVED}"));
    env.agent.call(1).script("touch part\n");
    let ended = env.run().expect(1);
    let said = |text: &str| ended.stderr.matches(text).count();
    // The same work is not validated again.
    assert_eq!(said("\n  rejected by "), 1, "{}", ended.stderr);
    assert_eq!(said("\n  still rejected, as nothing was changed since: "), 2, "{}", ended.stderr);
}

#[test]
fn where_no_claim_is_needed_none_is_spoken_of() {
    let env = TestEnvironment::new();
    env.config(&format!("[limits]\nmax_iterations = 3\n{PROVED}"));
    env.agent.default_call().script("echo $n > part\n").out("all tests pass, all is done\n");
    let ended = env.run().expect(1);
    let summary = "checked 3 times, always rejected: `";
    ended.says(summary).says("raises limits.max_iterations (3), then");
    let status = env.ralph(&["status"]).expect(0);
    status.says("completion  checked 3 times, rejected each time");
    let why = env.ralph(&["why"]).expect(0);
    why.says(summary);
    let log = env.ralph(&["log"]).expect(0);
    for said in [&ended.stderr, &ended.stdout, &status.stdout, &why.stdout, &log.stdout] {
        assert!(!said.contains("claim"), "{said}");
    }
    let latch = env.status()["latch"].clone();
    assert_eq!((&latch["state"], &latch["claim"]), (&"open".into(), &serde_json::Value::Null));
    assert_eq!(latch["rejections"], 3);
}

#[test]
fn an_interrupted_iteration_is_not_one_without_progress() {
    let env = TestEnvironment::new();
    env.config(&format!("[limits]\nmax_stagnant = 1\n{PROVED}"));
    env.agent.call(1).script("sleep 1000\n");
    env.agent.call(2).script("touch done\n");
    let mut running = env.start(&["run"]);
    running.says("Iteration 1/");
    crate::environment::eventually("the agent works", || env.agent.calls() == 1);
    running.signal(rustix::process::Signal::INT);
    running.wait().expect(130);
    env.ralph(&["status"]).expect(0).says("completion  not checked yet");
    assert_eq!(env.status()["stagnant"], 0);
    env.run().expect(0).says("Iteration 2/");
    assert_eq!(env.status()["iterations"], 2);
}

#[test]
fn what_the_program_prints_into_the_workspace_is_no_work() {
    let env = TestEnvironment::new();
    // The check would accept, and needs only that something was changed.
    env.config(&format!("[limits]\nmax_stagnant = 3\n{PROVED}"));
    env.write("done", "");
    env.agent.default_call().out("thinking\n");
    let log = fs::File::create(env.path("run.log")).unwrap();
    let mut command = env.command(&["run"]);
    let ended = command.stdout(log.try_clone().unwrap()).stderr(log).status().unwrap();
    let log = env.read("run.log");
    assert_eq!(ended.code(), Some(1), "{log}");
    assert!(log.starts_with("run.log receives what this program prints"), "{log}");
    assert!(log.contains("changed no files") && !log.contains("run.log,"), "{log}");
    assert!(!log.contains("changed run.log"), "{log}");
    assert_eq!(env.agent.calls(), 3);
}
