//! What is answered at each event.

use serde_json::{Value, json};

use super::{TestSession, environment};
use crate::environment::TestEnvironment;

const GOAL: &str = "write done.txt";

#[test]
fn a_session_that_stops_too_early_gets_the_reasons_and_does_the_work() {
    let env = environment();
    let armed = env.ralph(&["hook", "arm", GOAL]).expect(0);
    armed.says("`sh check.sh` exits 0").says("no hooks are installed");
    let session = TestSession::new(&env, "one");
    let answer = session.start();
    let context = answer["hookSpecificOutput"]["additionalContext"].as_str().unwrap();
    assert!(context.contains(GOAL), "{context}");
    assert_eq!(session.prompt("please"), Value::Null, "it is given once");
    let reason = session.blocked("All done!");
    assert!(reason.contains(GOAL) && reason.contains("done.txt is missing"), "{reason}");
    env.ralph(&["hook", "status"]).expect(0).says("blocked 1 time of 20").says("session one");
    env.ralph(&["why"]).expect(0).says("go on in the session");
    env.write("done.txt", "");
    assert!(session.let_go("Now it is.").contains("proved"));
    let status = env.status();
    assert_eq!(status["latch"]["state"], "completed");
    assert_eq!(status["latch"]["rejections"], 1);
    // What is proved is not asked for again.
    assert_eq!(session.stop("bye"), Value::Null);
    env.ralph(&["hook", "status"]).expect(0).says("no session of this workspace is armed");
}

#[test]
fn what_is_protected_counts_from_the_moment_of_arming() {
    let env = environment();
    env.ralph(&["hook", "arm", GOAL]).expect(0);
    let session = TestSession::new(&env, "one");
    let check = env.read("check.sh");
    env.write("check.sh", "exit 0\n");
    let reason = session.blocked("done");
    assert!(reason.contains("check.sh (modified)"), "{reason}");
    env.write("check.sh", check).write("done.txt", "");
    assert!(session.let_go("done").contains("proved"));
}

#[test]
fn a_session_without_a_goal_is_checked_from_its_first_claim_on() {
    let env = environment();
    env.write("PROMPT.md", "# Task\n\nWrite done.txt.\n");
    let session = TestSession::new(&env, "one");
    assert_eq!(session.start(), Value::Null);
    let check = env.read("check.sh");
    env.write("check.sh", "exit 0\n");
    assert_eq!(session.stop("I have looked at the files."), Value::Null);
    let claim = "<promise>COMPLETE: all is done</promise>";
    let reason = session.blocked(claim);
    assert!(reason.contains("check.sh (modified)"), "since the session began: {reason}");
    // It cannot end by claiming nothing any more, nor by saying that it is over.
    session.ask("SessionEnd", &json!({}));
    env.write("check.sh", check);
    assert!(session.blocked("I give up.").contains("done.txt is missing"));
    env.write("done.txt", "");
    assert!(session.let_go("There.").contains("proved"));
    assert!(!env.has_state(), "the run of the workspace is another one");
}

#[test]
fn a_question_of_the_person_is_never_blocked_and_no_way_out() {
    let env = environment();
    env.ralph(&["hook", "arm", GOAL]).expect(0);
    let session = TestSession::new(&env, "one");
    session.prompt("What does check.sh do?");
    assert_eq!(session.stop("It looks for a file."), Value::Null);
    // The agent's own question is none of the person's, and work is no answer.
    env.write("other.txt", "");
    session.blocked("Done. Anything else?");
    session.prompt("What now?");
    session.blocked("<promise>COMPLETE: done</promise>");
    session.prompt("Go on.");
    session.blocked("Shall I?");
}

#[test]
fn an_agent_that_needs_the_person_is_let_go_and_checked_after_the_answer() {
    let env = environment();
    env.ralph(&["hook", "arm", GOAL]).expect(0);
    let session = TestSession::new(&env, "one");
    let shown = session.let_go("Hm.\n\n<promise>NEEDS_HUMAN: which file?</promise>");
    assert!(shown.contains("which file?") && shown.contains("not proved"), "{shown}");
    session.prompt("done.txt");
    session.blocked("Ah.");
    env.write("done.txt", "");
    assert!(session.let_go("Now.").contains("proved"));
    assert_eq!(env.records("answered")[0]["text"], "done.txt");
}

#[test]
fn what_runs_in_the_background_is_not_finished() {
    let env = environment();
    env.write("done.txt", "");
    env.ralph(&["hook", "arm", GOAL]).expect(0).says("accept now, before any work");
    let session = TestSession::new(&env, "one");
    let task =
        json!([{ "id": "b1", "type": "shell", "status": "running", "command": "make watch" }]);
    let answer = session.ask("Stop", &json!({ "background_tasks": task }));
    assert!(answer["reason"].as_str().unwrap().contains("make watch"), "{answer}");
    let task = json!([{ "id": "b1", "status": "completed" }]);
    let answer = session.ask("Stop", &json!({ "background_tasks": task }));
    assert!(answer["systemMessage"].as_str().unwrap().contains("proved"), "{answer}");
    // Without a goal as well.
    std::fs::remove_file(env.path("done.txt")).unwrap();
    let session = TestSession::new(&env, "two");
    session.start();
    let claim = "<promise>COMPLETE: done</promise>";
    let answer = session.ask("Stop", &json!({ "cwd": "/", "last_assistant_message": claim }));
    assert_eq!(answer["decision"], "block", "{answer}");
}

#[test]
fn another_session_in_the_same_folder_is_left_alone() {
    let env = environment();
    env.ralph(&["hook", "arm", GOAL]).expect(0);
    let session = TestSession::new(&env, "one");
    session.start();
    session.blocked("done");
    // The agent of both is the process of this test, so that the other is a session after this one; a third one of
    // another process is simulated by what is stored.
    let record = session_record(&env);
    let mut stored: Value = serde_json::from_slice(&std::fs::read(&record).unwrap()).unwrap();
    stored["session"]["process"] = json!({ "pid": 1, "started": started(1) });
    std::fs::write(&record, stored.to_string()).unwrap();
    assert_eq!(TestSession::new(&env, "two").stop("done"), Value::Null);
    session.blocked("done");
    // Once that process is gone, the goal is that of whoever works there next.
    stored["session"]["process"]["started"] = json!(u64::MAX);
    std::fs::write(&record, stored.to_string()).unwrap();
    TestSession::new(&env, "two").blocked("done");
}

/// One process may have several sessions: here it is that of this test.
#[test]
fn sessions_of_one_process_in_two_workspaces_are_two() {
    let env = environment();
    let other = env.root().join("other");
    std::fs::create_dir(&other).unwrap();
    for file in ["ralph.toml", "check.sh", "PROMPT.md"] {
        std::fs::copy(env.path(file), other.join(file)).unwrap();
    }
    let claim = "<promise>COMPLETE: done</promise>";
    for has_goal in [true, false] {
        let [first, second] = ["first", "second"].map(|id| format!("{id} {has_goal}"));
        let [first, second] = [&first, &second].map(|id| TestSession::new(&env, id));
        let arm = |workspace: &std::path::Path| {
            if has_goal {
                let file = workspace.join("ralph.toml");
                env.ralph(&["-c", file.to_str().unwrap(), "hook", "arm", GOAL]).expect(0);
            }
        };
        arm(&env.workspace());
        first.start();
        first.blocked(claim);
        arm(&other);
        std::fs::write(other.join("done.txt"), "").unwrap();
        second.ask("SessionStart", &json!({ "source": "startup", "cwd": other }));
        let answer = second.ask("Stop", &json!({ "last_assistant_message": claim, "cwd": other }));
        assert!(
            answer["systemMessage"].as_str().unwrap_or_default().contains("proved"),
            "{answer}"
        );
        first.blocked("done");
        env.write("done.txt", "");
        assert!(first.let_go("done").contains("proved"));
        std::fs::remove_file(env.path("done.txt")).unwrap();
        std::fs::remove_file(other.join("done.txt")).unwrap();
    }
}

/// When a process was started, in clock ticks.
fn started(pid: u32) -> u64 {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap();
    stat.rsplit_once(')').unwrap().1.split_whitespace().nth(19).unwrap().parse().unwrap()
}

/// The file of the armed session.
pub(super) fn session_record(env: &TestEnvironment) -> std::path::PathBuf {
    let folder = env.root().join("home/.local/state/ralph-orchestrator/sessions");
    let mut files = std::fs::read_dir(&folder)
        .unwrap_or_else(|error| panic!("{}: {error}", folder.display()))
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.extension().is_some_and(|end| end == "json"));
    let file = files.next().expect("a record");
    assert_eq!(files.next(), None);
    file
}

#[test]
fn a_session_that_has_gone_to_another_folder_is_checked_all_the_same() {
    let env = environment();
    env.ralph(&["hook", "arm", GOAL]).expect(0);
    let session = TestSession::new(&env, "one");
    session.prompt("go");
    let answer = session.ask("Stop", &json!({ "cwd": "/", "last_assistant_message": "done" }));
    assert_eq!(answer["decision"], "block", "{answer}");
    env.write("done.txt", "");
    let answer = session.ask("Stop", &json!({ "cwd": "/nonexistent" }));
    assert!(answer["systemMessage"].as_str().unwrap().contains("proved"), "{answer}");
}

#[test]
fn a_goal_that_is_set_in_the_middle_of_a_session_is_that_of_the_session() {
    let env = environment();
    env.write("PROMPT.md", "# Task\n\nWrite done.txt.\n");
    let session = TestSession::new(&env, "one");
    session.start();
    assert_eq!(session.stop("looked around"), Value::Null);
    env.ralph(&["hook", "arm", "another goal"]).expect(0);
    let context = session.prompt("go on").to_string();
    assert!(context.contains("another goal"), "{context}");
    assert!(session.blocked("done").contains("another goal"));
    // After a claim as well.
    env.write("done.txt", "");
    assert!(session.let_go("done").contains("proved"));
    std::fs::remove_file(env.path("done.txt")).unwrap();
    session.start();
    session.blocked("<promise>COMPLETE: done</promise>");
    env.ralph(&["hook", "arm", "a third one"]).expect(0);
    assert!(session.blocked("done").contains("a third one"));
}

#[test]
fn a_goal_that_was_reached_can_be_set_again() {
    let env = environment();
    env.ralph(&["hook", "arm", GOAL]).expect(0);
    let session = TestSession::new(&env, "one");
    env.write("done.txt", "");
    assert!(session.let_go("done").contains("proved"));
    std::fs::remove_file(env.path("done.txt")).unwrap();
    env.ralph(&["hook", "arm", GOAL]).expect(0).says("armed");
    session.blocked("done");
    env.write("done.txt", "");
    assert!(session.let_go("done").contains("proved"));
}

#[test]
fn blocks_are_limited() {
    let env = environment();
    env.ralph(&["hook", "arm", GOAL, "--max-blocks", "5"]).expect(0);
    let session = TestSession::new(&env, "one");
    // The same work is rejected more often than a run would bear.
    (0..5).for_each(|_| drop(session.blocked("a")));
    let shown = session.let_go("b");
    assert!(shown.contains("NOT proved") && shown.contains("blocked 5 times"), "{shown}");
    assert_eq!(env.status()["latch"]["state"], "claimed");
    assert_eq!(session.stop("c"), Value::Null, "it is checked no longer");
}

#[test]
fn the_time_of_a_goal_is_limited() {
    let env = environment();
    env.raw_config(&format!("{}[limits]\nmax_runtime = \"1h\"\n", super::CONFIG));
    env.ralph(&["hook", "arm", GOAL]).expect(0);
    let record = session_record(&env);
    let mut stored: Value = serde_json::from_slice(&std::fs::read(&record).unwrap()).unwrap();
    stored["until"] = json!("2026-01-01T00:00:00Z");
    std::fs::write(&record, stored.to_string()).unwrap();
    let shown = TestSession::new(&env, "one").let_go("a");
    assert!(shown.contains("limits.max_runtime"), "{shown}");
}

#[test]
fn the_cost_of_the_session_is_that_of_the_run() {
    let env = environment();
    env.raw_config(&format!("{}[limits]\nmax_cost_usd = 1\n", super::CONFIG));
    env.ralph(&["hook", "arm", GOAL]).expect(0);
    let session = TestSession::new(&env, "one");
    let transcript = env.path("transcript.jsonl");
    let line = |id: &str, output: u64| {
        let usage = json!({ "input_tokens": 10, "output_tokens": output });
        let message = json!({ "id": id, "model": "claude-opus-4-1-20250805", "usage": usage });
        format!("{}\n", json!({ "type": "assistant", "message": message }))
    };
    // What was spent before the session had a goal is not the goal's.
    std::fs::write(&transcript, line("before", 1_000_000)).unwrap();
    session.ask("UserPromptSubmit", &json!({ "prompt": "go", "transcript_path": transcript }));
    std::fs::write(&transcript, line("before", 1_000_000) + &line("a", 100)).unwrap();
    let stop = |message: &str| {
        session.ask(
            "Stop",
            &json!({ "last_assistant_message": message, "transcript_path": transcript }),
        )
    };
    assert_eq!(stop("x")["decision"], "block");
    let cost = env.status()["cost_usd"].as_f64().unwrap();
    assert!(cost > 0.0 && cost < 0.1, "{cost}");
    // What a stop has used that was not checked is charged to the next one.
    let config = env.read("ralph.toml");
    env.write("ralph.toml", "broken");
    let all = line("before", 1_000_000) + &line("a", 100) + &line("b", 1_000_000);
    std::fs::write(&transcript, &all).unwrap();
    assert_eq!(stop("unchecked")["decision"], "block");
    env.write("ralph.toml", config);
    std::fs::write(&transcript, all).unwrap();
    let shown = stop("y");
    assert!(shown["systemMessage"].as_str().unwrap().contains("max_cost_usd"), "{shown}");
}

#[test]
fn guidance_from_another_terminal_reaches_the_session() {
    let env = environment();
    env.ralph(&["hook", "arm", GOAL]).expect(0);
    let session = TestSession::new(&env, "one");
    env.ralph(&["steer", "use touch"]).expect(0).says("when it stops next");
    let reason = session.blocked("done");
    assert!(reason.contains("Guidance from a human:\n- use touch"), "{reason}");
    let reason = session.blocked("done");
    assert!(!reason.contains("use touch"), "once: {reason}");
}

/// A workspace whose agent is a script that does the work in its second iteration.
fn with_an_agent() -> TestEnvironment {
    let env = TestEnvironment::new();
    env.raw_config(
        "[run]\ndelay = \"0s\"\n[agent]\nadapter = \"command\"\nunmetered = true\n[agent.config]\n\
         program = [\"@AGENT@\"]\n[[validator]]\nkind = \"command\"\nname = \"tests\"\n\
         program = [\"test\", \"-e\", \"done\"]\n",
    );
    env.agent.call(1).out("not yet\n");
    env.agent.default_call().script("touch done\n").out("<promise>COMPLETE: made it</promise>\n");
    env
}

#[test]
fn a_session_that_was_disarmed_leaves_the_run_before_it_to_be_resumed() {
    let env = with_an_agent();
    env.ralph(&["run", "--once"]).expect(0);
    let run = env.status()["run"].clone();
    env.ralph(&["hook", "arm", "another goal"]).expect(0);
    assert_ne!(env.status()["run"], run);
    env.ralph(&["hook", "disarm"]).expect(0);
    env.run().expect(0).says("is resumed").says("of a session that was checked, is kept as it is");
    assert_eq!(env.status()["run"], run);
    assert_eq!(env.agent.calls(), 2);
    let prompt = String::from_utf8(env.agent.stdin(2)).unwrap();
    assert!(!prompt.contains("another goal"), "{prompt}");
}

#[test]
fn a_run_after_a_session_that_was_proved_is_a_run_of_its_own() {
    let env = with_an_agent();
    env.ralph(&["hook", "arm", GOAL]).expect(0);
    env.write("done", "");
    assert!(TestSession::new(&env, "one").let_go("done").contains("proved"));
    let run = env.status()["run"].clone();
    // The session's goal is not the prompt of this configuration.
    env.run().expect(0);
    assert_ne!(env.status()["run"], run);
    assert_eq!(env.agent.calls(), 2);
}
