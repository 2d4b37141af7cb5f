//! What is a claim, what the agent is told, and what an accepted completion withstands.

use std::fs;

use serde_json::json;

use crate::environment::TestEnvironment;

/// A complete Claude-shaped stream with this final message and cost.
pub(crate) fn claude_result(text: &str, cost: f64) -> String {
    let assistant = json!({"type": "assistant", "message": {
        "id": "msg_1", "role": "assistant", "model": "m",
        "content": [{"type": "text", "text": text}], "usage": {"input_tokens": 1, "output_tokens": 1},
    }, "parent_tool_use_id": null, "session_id": "s"});
    let result = json!({"type": "result", "subtype": "success", "is_error": false, "result": text,
        "total_cost_usd": cost, "session_id": "s", "num_turns": 1,
        "usage": {"input_tokens": 1, "output_tokens": 1}});
    format!("{assistant}\n{result}\n")
}

/// The agent reads the prompt byte for byte, whatever it says.
const NO_INSTRUCTIONS: &str = "[completion]\ninstructions = \"never\"\n";
const PROMISE: &str = "<promise>COMPLETE: made it</promise>\n";

#[test]
pub(crate) fn the_stdin_of_the_agent_is_the_prompt_byte_for_byte() {
    let env = TestEnvironment::new();
    env.config(NO_INSTRUCTIONS);
    let prompt = "# T\u{feff} {x} $HOME {{y}}\r\n\ttrailing  \n\nno end";
    env.write("PROMPT.md", prompt);
    env.agent.call(2).script("touch done\n").out(PROMISE);
    env.run().expect(0);
    assert_eq!(env.agent.stdin(1), prompt.as_bytes());
    assert_eq!(env.agent.stdin(2), prompt.as_bytes());
    assert_ne!(env.agent.env(1)["RALPH_ITERATION"], env.agent.env(2)["RALPH_ITERATION"]);
    assert_eq!(env.agent.cwd(1), env.workspace());
}

#[test]
fn all_five_marker_forms_complete() {
    for form in [
        "- [x] TASK_COMPLETE",
        "[x] TASK_COMPLETE",
        "**TASK_COMPLETE**",
        "TASK_COMPLETE",
        "Status: TASK_COMPLETE",
    ] {
        let env = TestEnvironment::new();
        env.agent.call(1).script(&format!("touch done; printf '\\n%s\\n' '{form}' >> PROMPT.md\n"));
        env.run().expect(0).says("completed");
        assert_eq!(env.agent.calls(), 1, "{form}");
    }
}

#[test]
fn a_near_miss_is_reported_to_user_and_agent() {
    let env = TestEnvironment::new();
    env.agent.call(1).script("printf '\\n## TASK_COMPLETE\\n' >> PROMPT.md; echo 1 > x\n");
    env.agent.call(2).script("touch done\n").out(PROMISE);
    env.run().expect(0).says("near miss, not a valid claim").says("is in a heading");
    let second = String::from_utf8(env.agent.stdin(2)).unwrap();
    assert!(second.contains("## TASK_COMPLETE"), "{second}");
    assert!(second.contains("- [x] TASK_COMPLETE"), "it says what counts: {second}");
}

#[test]
pub(crate) fn a_failed_call_makes_no_claim() {
    let env = TestEnvironment::new();
    env.agent.call(1).script("touch done\n").out(PROMISE).rc(1);
    env.agent.call(2).out(PROMISE);
    env.run().expect(0);
    assert_eq!(env.agent.calls(), 2);
    assert_eq!(env.records("claimed")[0]["iteration"], 2);
}

#[test]
fn an_echo_of_the_prompt_completes_nothing_that_is_not_done() {
    let env = TestEnvironment::new();
    env.write("PROMPT.md", "End with\n\n    <promise>COMPLETE: x</promise>\n");
    env.agent.default_call().script("cat \"$call.stdin\"\n");
    env.ralph(&["run", "--max-iterations", "2"]).expect(1);
    assert!(env.records("completed").is_empty());
}

#[test]
pub(crate) fn needs_human_stops_with_its_reason_and_the_answer_heads_the_next_prompt() {
    let env = TestEnvironment::new();
    env.agent.call(1).out("<promise>NEEDS_HUMAN: which colour?</promise>\n");
    env.agent.call(2).script("touch done\n").out(PROMISE);
    env.run().expect(2).says("which colour?");
    assert_eq!(env.status()["phase"], "needs_human");
    env.ralph(&["log"]).expect(0).says("question (promise, iteration 1): which colour?");
    env.ralph(&["answer", "blue, please"]).expect(0);
    env.run().expect(0).says(" resumed after ");
    let second = String::from_utf8(env.agent.stdin(2)).unwrap();
    assert!(second.contains("- blue, please"), "{second}");
    assert_eq!(env.agent.env(2)["RALPH_ITERATION"], "2");
}

#[test]
fn complete_counts_before_needs_human_if_it_stands() {
    let both = "<promise>NEEDS_HUMAN: stuck</promise>\n<promise>COMPLETE: no</promise>\n";
    let env = TestEnvironment::new();
    env.agent.default_call().out(both);
    env.run().expect(2).says("stuck");
    let env = TestEnvironment::new();
    env.agent.default_call().script("touch done\n").out(both);
    env.run().expect(0);
}

#[test]
fn a_completion_withstands_everything_done_afterwards() {
    let env = TestEnvironment::new();
    env.agent.call(1).script("touch done; printf '\\nTASK_COMPLETE\\n' >> PROMPT.md\n");
    env.run().expect(0);
    let again = || {
        env.run().expect(0).says("already completed");
        assert_eq!(env.agent.calls(), 1);
        assert_eq!(env.status()["phase"], "completed");
    };
    again();
    fs::remove_file(env.path("done")).unwrap();
    again();
    let prompt = env.read("PROMPT.md").replace("\nTASK_COMPLETE\n", "");
    env.write("PROMPT.md", prompt);
    again();
    env.write("other", "file");
    env.config("\n[limits]\nmax_iterations = 1\n");
    again();
    env.config("\n[[validator]]\nkind = \"command\"\nname = \"never\"\nprogram = [\"false\"]\n");
    again();
    fs::remove_file(env.path("PROMPT.md")).unwrap();
    again();
}

#[test]
fn another_task_is_a_new_run_and_restart_is_one_too() {
    let env = TestEnvironment::new();
    env.agent.default_call().script("touch done\n").out(PROMISE);
    env.run().expect(0);
    env.write("PROMPT.md", "# Another task\n");
    env.run().expect(0).says("this is a new run");
    assert_eq!(env.agent.calls(), 2);
    env.ralph(&["run", "--restart"]).expect(0);
    assert_eq!(env.agent.calls(), 3);
}

#[test]
fn evidence_is_kept_and_may_be_lost_afterwards() {
    let env = TestEnvironment::new();
    env.config("\n[[validator]]\nkind = \"evidence-files\"\nmin_files = 1\n");
    env.agent
        .call(1)
        .script(
            "touch done; mkdir validation-evidence; echo 42 passed > validation-evidence/t.txt\n",
        )
        .out(PROMISE);
    env.run().expect(0);
    fs::remove_dir_all(env.path("validation-evidence")).unwrap();
    env.run().expect(0).says("already completed");
    let completed = &env.records("completed")[0];
    let digest = completed["evidence"][0]["digest"].as_str().unwrap();
    let kept = env.journal_path().with_file_name("evidence").join(digest);
    assert_eq!(fs::read_to_string(kept).unwrap(), "42 passed\n");
}

#[test]
fn a_rejected_claim_stays_pending_and_needs_no_second_one() {
    let env = TestEnvironment::new();
    env.agent.call(1).out(PROMISE);
    env.agent.call(2).script("touch done\n").out("mended\n");
    env.run().expect(0);
    assert_eq!(env.agent.calls(), 2);
    assert_eq!(env.records("claimed").len(), 1);
}

#[test]
fn after_rejection_reclaim_asks_for_a_second_claim() {
    let env = TestEnvironment::new();
    env.config("\n[completion]\nafter_rejection = \"require_new_claim\"\n");
    env.agent.call(1).out(PROMISE);
    env.agent.call(2).script("touch done\n").out("mended\n");
    env.agent.call(3).out(PROMISE);
    env.run().expect(0);
    assert_eq!(env.agent.calls(), 3);
}

#[test]
fn protected_paths_have_to_be_as_they_were() {
    let env = TestEnvironment::new();
    env.config("protect = [\"tests/**\"]\n");
    env.write("tests/a", "assert 1");
    env.agent.call(1).script("echo 'assert 0' > tests/a; touch done\n").out(PROMISE);
    env.agent.call(2).script("printf 'assert 1' > tests/a\n");
    env.run().expect(0).says("tests/a");
    assert_eq!(env.agent.calls(), 2);
    assert!(String::from_utf8(env.agent.stdin(2)).unwrap().contains("tests/a"));
}

#[test]
fn an_optional_validator_is_reported_but_does_not_decide() {
    let env = TestEnvironment::new();
    env.config("\n[[validator]]\nkind = \"command\"\nname = \"lint\"\nrequired = false\nprogram = [\"false\"]\n");
    env.agent.call(1).script("touch done\n").out(PROMISE);
    env.run().expect(0).says("lint (not required)");
}

#[test]
fn a_validator_that_hangs_is_ended_with_all_its_children() {
    let env = TestEnvironment::with_checks_in_workspace();
    let pid = env.root().join("pid");
    env.config(&format!(
        "\n[[validator]]\nkind = \"command\"\nname = \"hangs\"\ntimeout = \"1s\"\n\
         program = [\"sh\", \"-c\", \"setsid sleep 1000 & echo $! > '{}'; sleep 1000\"]\n\
         [limits]\nmax_iterations = 1\n",
        pid.display()
    ));
    env.agent.call(1).script("touch done\n").out(PROMISE);
    env.run().expect(1).says("within 1 s");
    let pid = fs::read_to_string(pid).unwrap().trim().parse().unwrap();
    assert!(!crate::environment::alive(pid));
}

#[test]
fn a_prompt_deleted_by_the_agent_is_restored() {
    let env = TestEnvironment::new();
    env.config(NO_INSTRUCTIONS);
    let prompt = env.read("PROMPT.md");
    env.agent.call(1).script("rm PROMPT.md\n");
    env.agent.call(2).script("touch done\n").out(PROMISE);
    env.run().expect(0).says("restored");
    assert_eq!(env.read("PROMPT.md"), prompt);
    assert_eq!(env.agent.stdin(2), prompt.as_bytes());
}

#[test]
fn a_completed_prompt_stays_so_after_another_one() {
    let env = TestEnvironment::new();
    env.agent.default_call().script("touch done\n").out(PROMISE);
    let first = env.read("PROMPT.md");
    env.run().expect(0);
    let run = env.status()["run"].as_str().unwrap().to_owned();
    env.write("PROMPT.md", "Something else.\n");
    env.run().expect(0).says("the prompt changed since completion");
    env.write("PROMPT.md", &first);
    env.run().expect(0).says("already completed").says(&run);
    assert_eq!(env.agent.calls(), 2);
    env.write("PROMPT.md", "A third.\n");
    env.run().expect(0).says("the prompt changed since completion");
    assert_eq!(env.agent.calls(), 3);
}

#[test]
fn an_unfinished_run_that_goes_on_with_another_prompt_says_so() {
    let env = TestEnvironment::new();
    env.config("[limits]\nmax_iterations = 1\n");
    env.run().expect(1);
    env.write("PROMPT.md", "Something else.\n");
    let looked = env.ralph(&["doctor", "--set", "limits.max_iterations=2"]).expect(0);
    looked.says("warn  run").says("PROMPT.md asks for something else than when run");
    let ended = env.ralph(&["run", "--max-iterations", "2"]).expect(1);
    ended.says("PROMPT.md asks for something else than when run").says("`run --restart`");
    let again = env.ralph(&["run", "--max-iterations", "3"]).expect(1);
    assert!(!again.stderr.contains("something else"), "{}", again.stderr);
    let (first, second) = (env.agent.stdin(1), env.agent.stdin(2));
    assert!(first != second && String::from_utf8_lossy(&second).contains("Something else."));
}

/// As after a change of branches: what an agent made of the prompt is the same task, what a person made of it is not.
#[test]
fn a_run_is_complete_for_the_last_task_that_a_person_gave_it() {
    let env = TestEnvironment::new();
    env.config("[limits]\nmax_iterations = 1\n");
    let first = env.read("PROMPT.md");
    env.agent.call(1).script("echo noted >> PROMPT.md\n");
    env.agent.default_call().script("echo noted >> PROMPT.md; touch done\n").out(PROMISE);
    env.run().expect(1);
    env.write("PROMPT.md", "Something else.\n");
    env.ralph(&["run", "--max-iterations", "2"]).expect(0);
    env.write("PROMPT.md", "Something else.\n");
    env.run().expect(0).says("already completed");
    env.write("PROMPT.md", &first);
    env.run().expect(0).says("the prompt changed since completion");
    assert_eq!(env.agent.calls(), 3);
}

/// What an earlier run has completed is not paid again beside a later one that is not done; an agent cannot have its run
/// counted as such a one.
#[test]
fn what_was_completed_before_stays_complete_beside_an_unfinished_run() {
    let env = TestEnvironment::new();
    env.config("[limits]\nmax_iterations = 1\n");
    let first = env.read("PROMPT.md");
    env.agent.call(1).script("touch done\n").out(PROMISE);
    env.agent.call(2).script("").out("hm\n");
    let restore = format!("rm -f done; printf %s '{}' > PROMPT.md\n", first.replace('\'', "'\\''"));
    env.agent.default_call().script(&restore).out("hm\n");
    env.run().expect(0);
    let completed = env.status()["run"].clone();
    env.write("PROMPT.md", "Something else.\n");
    env.run().expect(1).says("the prompt changed since completion");
    let unfinished = env.status()["run"].clone();
    env.write("PROMPT.md", &first);
    for _ in 0..2 {
        let again = env.ralph(&["run", "--max-iterations", "2"]).expect(0);
        again.says("already completed").says(completed.as_str().unwrap());
    }
    assert_eq!((env.agent.calls(), &env.status()["run"]), (2, &unfinished));
    env.write("PROMPT.md", "Something else.\n");
    env.ralph(&["run", "--max-iterations", "2"]).expect(1).says("resumed");
    assert_eq!(env.read("PROMPT.md"), first);
    env.ralph(&["run", "--max-iterations", "3"]).expect(1).says("resumed");
    assert_eq!((env.agent.calls(), &env.status()["run"]), (4, &unfinished));
}

/// Neither a run of its own prompt nor one that was to do the task once more gives way to what was completed before.
#[test]
fn what_was_completed_before_stands_for_no_run_that_was_begun_since() {
    let env = TestEnvironment::new();
    env.config("[limits]\nmax_iterations = 1\n");
    let first = env.read("PROMPT.md");
    env.agent.call(1).script("touch done\n").out(PROMISE);
    env.agent.default_call().script("rm -f done\n").out("hm\n");
    env.run().expect(0);
    env.ralph(&["run", "-p", "Quite another thing."]).expect(1);
    env.ralph(&["limits", "--max-iterations", "2"]).expect(0);
    env.run().expect(1).says("resumed");
    assert_eq!(env.agent.calls(), 3);
    env.ralph(&["run", "--restart"]).expect(1);
    env.write("PROMPT.md", "Something else.\n");
    env.ralph(&["run", "--max-iterations", "2"]).expect(1).says("resumed");
    env.write("PROMPT.md", &first);
    env.ralph(&["run", "--max-iterations", "3"]).expect(1).says("resumed");
    assert_eq!(env.agent.calls(), 6);
}

#[test]
fn what_was_claimed_of_another_task_is_not_validated() {
    let env = TestEnvironment::new();
    env.config("[limits]\nmax_iterations = 1\n");
    env.agent.default_call().out(PROMISE);
    env.run().expect(1).says("rejected");
    env.write("done", "");
    let first = env.read("PROMPT.md");
    env.write("PROMPT.md", "Something else.\n");
    env.run().expect(1).says("max_iterations");
    env.write("PROMPT.md", &first);
    env.run().expect(1).says("max_iterations");
    assert_eq!(env.agent.calls(), 1);
}

#[test]
fn an_edited_prompt_is_read_again_or_restored_as_configured() {
    let edit = "echo more >> PROMPT.md; echo $n > x\n";
    let env = TestEnvironment::new();
    env.config(NO_INSTRUCTIONS);
    env.agent.call(1).script(edit);
    env.agent.call(2).script("touch done\n").out(PROMISE);
    env.run().expect(0);
    assert!(env.agent.stdin(2).ends_with(b"more\n"));

    let env = TestEnvironment::new();
    let agent = env.agent.program();
    env.raw_config(&format!(
        "[run]\ndelay = \"0s\"\nprompt_editable = false\n[agent]\nadapter = \"command\"\n\
         unmetered = true\n[agent.config]\nprogram = [\"{}\"]\n[[validator]]\nkind = \"command\"\n\
         program = [\"test\", \"-e\", \"done\"]\n",
        agent.display()
    ));
    env.agent.call(1).script(edit);
    env.agent.call(2).script("touch done\n").out(PROMISE);
    env.run().expect(0).says("prompt_editable");
    assert!(!env.agent.stdin(2).ends_with(b"more\n"));
}

#[test]
fn a_run_that_a_task_on_the_command_line_set_aside_goes_on_afterwards() {
    let env = TestEnvironment::new();
    env.config("[limits]\nmax_iterations = 1\n");
    env.agent.call(1).out("hm\n");
    env.agent.call(2).script("touch done\n").out(PROMISE);
    env.agent.default_call().script("rm -f done\n").out("hm\n");
    env.run().expect(1);
    let first = env.status()["run"].as_str().unwrap().to_owned();
    env.ralph(&["run", "-p", "Quite another thing."]).expect(0).says("is kept as it is");
    env.ralph(&["doctor"]).expect(1).says("no agent would be started");
    let again = env.ralph(&["run", "--max-iterations", "2"]).expect(1);
    again.says(&format!("run {first} has this task and is resumed"));
    assert_eq!((env.agent.calls(), env.status()["run"].as_str().unwrap()), (3, first.as_str()));
    // Of another task in the file it is not.
    env.ralph(&["run", "-p", "Quite another thing."]).expect(0).says("already completed");
    env.write("PROMPT.md", "Something else.\n");
    env.ralph(&["run", "--max-iterations", "3"]).expect(1);
    assert_eq!(env.agent.calls(), 4);
}
