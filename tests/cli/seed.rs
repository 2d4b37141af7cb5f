//! The bug this project began with: a hundred iterations of "complete", and nothing that worked.
//! Named after what happened there.

use crate::environment::TestEnvironment;

const EVIDENCE: &str = "
[[validator]]
kind = \"evidence-files\"
";

/// The seed's own set-up: markers in the prompt file, evidence files, and nothing else.
fn seed() -> TestEnvironment {
    let env = TestEnvironment::new();
    env.raw_config(&format!(
        "[run]\ndelay = \"0s\"\n[agent]\nadapter = \"command\"\nunmetered = true\n\
         [agent.config]\nprogram = [\"@AGENT@\"]\n{EVIDENCE}"
    ));
    env
}

const MARK: &str = "printf -- '\\n- [x] TASK_COMPLETE\\n' >> PROMPT.md\n";
const UNMARK: &str = "grep -v TASK_COMPLETE PROMPT.md > p; cat p > PROMPT.md; rm p\n";
const PROVE: &str = "mkdir -p validation-evidence
for i in 1 2 3; do echo \"check $i passed in call $n\" > validation-evidence/$i.txt; done\n";
/// Waits until the orchestrator has recorded a claim: an event, not a time.
const SEEN: &str = "until grep -q '\"kind\":\"claimed\"' \"$HOME\"/.local/state/*/*/runs/*/journal.jsonl; do :; done\n";

#[test]
fn marker_added_and_removed_inside_one_call_is_a_claim_all_the_same() {
    let env = seed();
    env.agent.call(1).script(&format!("{PROVE}{MARK}{SEEN}{UNMARK}"));
    env.run().expect(0).says("completed");
    assert_eq!(env.agent.calls(), 1);
    assert!(!env.read("PROMPT.md").contains("TASK_COMPLETE"));
    let status = env.status();
    assert_eq!(status["latch"]["state"], "completed");
    assert_eq!(status["latch"]["claim"]["iteration"], 1);
    assert_eq!(env.records("withdrawn").len(), 1, "the removal is recorded");
}

#[test]
fn marker_added_and_removed_without_evidence_ends_as_thrashing() {
    let env = seed();
    env.agent.default_call().script(&format!("{MARK}{SEEN}{UNMARK}"));
    let ended = env.run().expect(1);
    ended.says("thrashing").says("validation-evidence");
    assert_eq!(env.agent.calls(), 3, "not a hundred");
    assert_eq!(env.status()["stop_reason"], "thrashing");
}

#[test]
fn marker_alternating_across_calls_ends_as_thrashing() {
    let env = seed();
    env.agent
        .default_call()
        .script(&format!("if [ $((n % 2)) = 1 ]; then {MARK} else {UNMARK} fi\n"));
    env.run().expect(1).says("thrashing");
    assert_eq!(env.agent.calls(), 3);
}

#[test]
fn marker_without_evidence_for_ever_is_told_why_and_ends_as_thrashing() {
    let env = seed();
    env.agent.call(1).script(MARK);
    env.run().expect(1).says("thrashing");
    assert_eq!(env.agent.calls(), 3);
    let second = String::from_utf8(env.agent.stdin(2)).unwrap();
    assert!(second.starts_with("Your claim that the task is complete was checked and REJECTED:"));
    assert!(second.contains("validation-evidence"), "{second}");
    assert!(second.ends_with(&env.read("PROMPT.md")), "the prompt follows as it is");
}

#[test]
fn done_in_prose_for_ever_changes_nothing_and_ends_as_stagnation() {
    let env = seed();
    env.agent.default_call().out("I have completed the task. Everything is done, committed.\n");
    env.run().expect(1).says("stagnation");
    assert_eq!(env.agent.calls(), 10, "not a hundred");
    assert!(env.records("claimed").is_empty());
    assert_eq!(env.agent.stdin(3), env.read("PROMPT.md").into_bytes(), "nothing to say yet");
    let fourth = String::from_utf8(env.agent.stdin(4)).unwrap();
    assert!(fourth.contains("completion was not claimed"), "{fourth}");
    assert!(fourth.contains("<promise>COMPLETE"), "it says what a claim looks like: {fourth}");
    assert!(fourth.contains("TASK_COMPLETE"), "{fourth}");
}

#[test]
fn marker_before_the_start_with_evidence_needs_no_iteration() {
    let env = seed();
    env.write("PROMPT.md", "# Task\n\n- [x] TASK_COMPLETE\n");
    for n in 1..=3 {
        env.write(&format!("validation-evidence/{n}.txt"), format!("proof {n}\n"));
    }
    env.run().expect(0).says("completed");
    assert_eq!(env.agent.calls(), 0);
}

#[test]
fn marker_before_the_start_without_evidence_is_rejected_and_told() {
    let env = seed();
    env.write("PROMPT.md", "# Task\n\n- [x] TASK_COMPLETE\n");
    env.agent.call(1).script(PROVE);
    env.run().expect(0).says("rejected by evidence-files");
    assert_eq!(env.agent.calls(), 1);
    assert!(env.agent.stdin(1).starts_with(b"Your claim"));
}

#[test]
fn evidence_of_an_earlier_run_proves_nothing_new() {
    let env = seed();
    for n in 1..=3 {
        env.write(&format!("validation-evidence/{n}.txt"), format!("old proof {n}\n"));
    }
    // The agent changes the source, touches and copies the old evidence, and claims.
    env.agent.default_call().script(&format!(
        "echo $n > source; touch validation-evidence/*; cp validation-evidence/1.txt \
         validation-evidence/copy.txt; grep -q TASK_C PROMPT.md || {{ {MARK} }}\n"
    ));
    env.config("");
    env.raw_config(&format!(
        "[run]\ndelay = \"0s\"\n[agent]\nadapter = \"command\"\nunmetered = true\n\
         [agent.config]\nprogram = [\"@AGENT@\"]\n[limits]\nmax_iterations = 2\n{EVIDENCE}"
    ));
    env.run().expect(1).says("max_iterations");
    assert_eq!(env.status()["latch"]["state"], "claimed");
}

#[test]
fn completion_in_the_last_allowed_iteration_wins_over_max_iterations() {
    let env = TestEnvironment::new();
    env.agent.call(1).script("touch done\n").out("<promise>COMPLETE: made it</promise>\n");
    env.ralph(&["run", "--max-iterations", "1"]).expect(0).says("completed");
}

#[test]
fn completion_in_the_last_allowed_iteration_wins_over_max_runtime() {
    let env = TestEnvironment::new();
    // It claims and proves, and then never ends.
    env.agent.call(1).script(&format!("touch done\n{MARK}exec sleep 1000\n"));
    env.ralph(&["run", "--max-runtime", "1s"]).expect(0).says("completed");
    assert_eq!(env.status()["latch"]["state"], "completed");
}

#[test]
fn completion_in_the_last_allowed_iteration_wins_over_max_cost() {
    let env = TestEnvironment::new();
    env.raw_config(
        "[run]\ndelay = \"0s\"\n[agent]\nadapter = \"command\"\n[agent.config]\n\
         program = [\"@AGENT@\"]\noutput = \"claude-json\"\n\
         [[validator]]\nkind = \"command\"\nprogram = [\"test\", \"-e\", \"done\"]\n\
         [limits]\nmax_cost_usd = 0.5\n",
    );
    env.agent.call(1).script("touch done\n").out(crate::completion::claude_result(
        "All done. <promise>COMPLETE: made it</promise>",
        0.7,
    ));
    env.run().expect(0).says("completed");
    assert_eq!(env.status()["cost_usd"], 0.7);
}

#[test]
fn validators_are_off_only_by_trust_agent_and_then_it_is_said_everywhere() {
    let env = TestEnvironment::new();
    let without = "[run]\ndelay = \"0s\"\n[agent]\nadapter = \"command\"\nunmetered = true\n\
                   [agent.config]\nprogram = [\"@AGENT@\"]\n";
    env.raw_config(without);
    env.agent.default_call().out("<promise>COMPLETE: trust me</promise>\n");
    env.run().expect(78).says("trust_agent");
    assert_eq!(env.agent.calls(), 0);

    env.raw_config(&format!("{without}[completion]\ntrust_agent = true\n"));
    let ended = env.run().expect(0);
    ended.says("NOT validated").says("completed WITHOUT validation");
    env.run().expect(0).says("WITHOUT validation");
    assert_eq!(env.status()["latch"]["validated"], false);
    env.ralph(&["status"]).expect(0).says("WITHOUT validation");
    env.ralph(&["log"]).expect(0).says("WITHOUT validation");
    assert_eq!(env.records("completed")[0]["validated"], false);
}
