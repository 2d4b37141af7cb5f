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
    assert_eq!(env.records("marker_removed").len(), 1, "the removal is recorded");
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
fn marker_without_evidence_for_ever_gets_the_reason_and_ends_as_thrashing() {
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
    env.raw_config(&format!("{}[completion]\ninstructions = \"never\"\n", env.read("ralph.toml")));
    env.agent.default_call().out("I have completed the task. Everything is done, committed.\n");
    env.run().expect(1).says("stagnation");
    assert_eq!(env.agent.calls(), 10, "not a hundred");
    assert!(env.records("claimed").is_empty());
    assert_eq!(env.agent.stdin(3), env.read("PROMPT.md").into_bytes(), "nothing to say yet");
    let fourth = String::from_utf8(env.agent.stdin(4)).unwrap();
    assert!(fourth.contains("did not claim completion"), "{fourth}");
    assert!(fourth.contains("<promise>COMPLETE"), "it says what a claim looks like: {fourth}");
    assert!(fourth.contains("TASK_COMPLETE"), "{fourth}");
}

#[test]
fn marker_and_evidence_from_before_the_start_prove_nothing() {
    for fresh in ["tree", "run"] {
        let env = seed();
        env.raw_config(&format!("{}fresh = \"{fresh}\"\n", env.read("ralph.toml")));
        env.write("PROMPT.md", "# Task\n\n- [x] TASK_COMPLETE\n");
        for n in 1..=3 {
            env.write(&format!("validation-evidence/{n}.txt"), format!("proof {n}\n"));
        }
        env.agent.call(1).script(PROVE);
        env.run().expect(0).says("completed");
        assert_eq!(env.agent.calls(), 1, "{fresh}");
        let reported = String::from_utf8(env.agent.stdin(1)).unwrap();
        assert!(reported.contains("was there before this run began"), "{reported}");
    }
}

#[test]
fn the_promise_alone_with_evidence_years_old_completes_nothing() {
    let env = seed();
    for n in 1..=3 {
        env.write(&format!("validation-evidence/{n}.txt"), format!("proof {n}\n"));
        let old = std::time::UNIX_EPOCH + std::time::Duration::from_secs(1_000_000_000);
        let file = env.path(&format!("validation-evidence/{n}.txt"));
        std::fs::File::options().write(true).open(file).unwrap().set_modified(old).unwrap();
    }
    env.agent.default_call().out("<promise>COMPLETE: it was done long ago</promise>\n");
    env.run().expect(1).says("thrashing");
    assert_eq!(env.status()["latch"]["state"], "claimed");
}

#[test]
fn marker_before_the_start_without_evidence_is_rejected_with_the_reason() {
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

/// Each iteration leaves another tree.
const BUSY: &str = "echo \"iteration $n\" >> progress.md\n";

fn thrashes(env: &TestEnvironment, calls: usize, text: &str) {
    env.run().expect(1).says("thrashing").says(text);
    assert_eq!(env.agent.calls(), calls, "not a hundred");
    assert_eq!(env.status()["stop_reason"], "thrashing");
}

#[test]
fn a_line_in_progress_md_and_a_claim_each_time_end_as_thrashing() {
    let env = seed();
    env.agent.default_call().script(BUSY);
    env.agent.default_call().out("<promise>COMPLETE: all of it works</promise>\n");
    thrashes(&env, 11, "claimed 11×, rejected 11×, always: evidence directory");
}

#[test]
fn a_marker_that_alternates_on_a_tree_that_changes_ends_as_thrashing() {
    let env = seed();
    env.agent
        .default_call()
        .script(&format!("{BUSY}if [ $((n % 2)) = 1 ]; then {MARK} else {UNMARK} fi\n"));
    thrashes(&env, 11, "rejected 11×, always: evidence directory");
}

#[test]
fn evidence_that_is_lacking_for_ever_ends_as_thrashing_though_the_tree_changes() {
    let env = seed();
    env.agent.default_call().script(&format!("{BUSY}grep -q TASK_C PROMPT.md || {{ {MARK} }}\n"));
    thrashes(&env, 11, "claimed 1×, rejected 11×, always: evidence directory");
}

#[test]
fn the_same_failing_test_for_ever_ends_as_thrashing_though_the_tree_changes() {
    let env = TestEnvironment::new();
    env.raw_config(
        "[run]\ndelay = \"0s\"\n[agent]\nadapter = \"command\"\nunmetered = true\n\
         [agent.config]\nprogram = [\"@AGENT@\"]\n\
         [[validator]]\nkind = \"command\"\nname = \"tests\"\n\
         program = [\"sh\", \"-c\", \"echo 12 failed in 0.$$ s, see /tmp/report-$$; exit 1\"]\n",
    );
    env.agent.default_call().script(BUSY);
    env.agent.default_call().out("<promise>COMPLETE: fixed</promise>\n");
    thrashes(&env, 11, "rejected 11×, always: ");
}

#[test]
fn completed_committed_for_ever_without_a_claim_ends_as_stagnation_though_the_tree_changes() {
    let env = seed();
    env.agent.default_call().script(BUSY);
    env.agent.default_call().out("completed, committed\n");
    env.run().expect(1).says("stagnation").says("said that the work is done, but claimed nothing");
    assert_eq!(env.agent.calls(), 10, "not a hundred");
}

/// A report that is the same each time, as of a page that has not changed.
const REPORT: &str = "mkdir -p validation-evidence
for i in 1 2 3; do echo \"check $i passed\" > validation-evidence/$i.txt; done\n";

#[test]
fn the_same_report_written_again_after_a_fix_is_believed() {
    let env = seed();
    let script = format!(
        "if [ $n = 1 ]; then echo wrong > source; {REPORT} fi
         if [ $n = 2 ]; then echo right > source; {REPORT} {MARK} fi\n"
    );
    env.agent.default_call().script(&script);
    env.run().expect(0).says("completed");
    assert_eq!(env.agent.calls(), 2, "not a hundred");
}

#[test]
fn the_same_report_that_was_not_written_again_after_a_fix_is_not_believed() {
    let env = seed();
    let script = format!(
        "if [ $n = 1 ]; then echo wrong > source; {REPORT} fi
         if [ $n = 2 ]; then echo right > source; {MARK} fi\n"
    );
    env.agent.default_call().script(&script);
    env.run().expect(1).says("is stale: it was written in iteration 1");
}

/// The work and its report, then nothing until the orchestrator ends; from the second call on the same
/// work, the same report, and a claim.
fn cut_after_the_report() -> TestEnvironment {
    let env = seed();
    let ready = env.root().join("ready").display().to_string();
    env.agent.default_call().script(&format!(
        "if [ $n = 1 ]; then echo half > source; {REPORT} touch \"{ready}\"; exec sleep 1000; fi
         echo right > source\n{REPORT}grep -q TASK_C PROMPT.md || {{ {MARK} }}\n"
    ));
    env
}

fn cut_and_run_again(signal: rustix::process::Signal) {
    let env = cut_after_the_report();
    let mut running = env.start(&["run"]);
    crate::environment::eventually("the report", || env.root().join("ready").exists());
    running.signal(signal);
    running.wait();
    env.run().expect(0).says("completed");
    assert_eq!(env.agent.calls(), 2, "not a hundred");
}

#[test]
fn the_same_report_after_kill_9_in_the_iteration_that_wrote_it_is_believed() {
    cut_and_run_again(rustix::process::Signal::KILL);
}

#[test]
fn the_same_report_after_ctrl_c_in_the_iteration_that_wrote_it_is_believed() {
    cut_and_run_again(rustix::process::Signal::INT);
}

#[test]
fn what_a_lost_iteration_wrote_counts_for_the_next_one() {
    let env = seed();
    let ready = env.root().join("ready").display().to_string();
    env.agent.default_call().script(&format!(
        "if [ $n = 1 ]; then echo right > source; {REPORT} touch \"{ready}\"; exec sleep 1000; fi
         {MARK}"
    ));
    let mut running = env.start(&["run"]);
    crate::environment::eventually("the report", || env.root().join("ready").exists());
    running.signal(rustix::process::Signal::KILL);
    running.wait();
    env.run().expect(0).says("completed");
    assert_eq!(env.agent.calls(), 2);
}
