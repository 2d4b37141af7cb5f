//! A question of the agent: who answers it, and what becomes of question and answer.

use std::fs::File;
use std::io::{Read as _, Write as _};
use std::os::fd::OwnedFd;

use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};

use crate::environment::TestEnvironment;

const DONE: &str = "<promise>COMPLETE: made it</promise>\n";

/// An agent that asks in its first call, and does the work in the next.
fn asking() -> TestEnvironment {
    let env = TestEnvironment::new();
    env.agent.call(1).out("<promise>NEEDS_HUMAN: which colour shall it be?</promise>\n");
    env.agent.default_call().script("touch done\n").out(DONE);
    env
}

fn prompt(env: &TestEnvironment, call: usize) -> String {
    String::from_utf8(env.agent.stdin(call)).unwrap()
}

#[test]
fn the_next_prompt_holds_question_and_answer() {
    let env = asking();
    env.run().expect(2).says("which colour").says("`ralph-orchestrator answer \"…\"`");
    env.ralph(&["answer", "blue,\nplease"]).expect(0).says("which colour shall it be?");
    env.run().expect(0);
    let prompt = prompt(&env, 2);
    let question = prompt.find("which colour shall it be?").unwrap();
    let answer = prompt.find("blue,\n  please").unwrap();
    let task = prompt.find("# Task").unwrap();
    assert!(question < answer && answer < task, "{prompt}");
}

#[test]
fn an_answer_is_given_until_an_iteration_has_ended_well() {
    let env = asking();
    env.run().expect(2);
    env.ralph(&["answer", "blue"]).expect(0);
    env.agent.call(2).rc(1);
    env.run().expect(0);
    for call in [2, 3] {
        let prompt = prompt(&env, call);
        assert!(prompt.contains("which colour") && prompt.contains("blue"), "{call}: {prompt}");
    }
    // What was read well is not told again.
    let env = asking();
    env.run().expect(2);
    env.ralph(&["answer", "blue"]).expect(0);
    env.agent.call(2).out("thanks\n");
    env.run().expect(0);
    assert!(!prompt(&env, 3).contains("blue"));
}

#[test]
fn run_with_an_open_question_starts_no_agent_without_a_terminal() {
    let env = asking();
    env.run().expect(2);
    for _ in 0..2 {
        let ended = env.run().expect(2);
        ended.says("which colour shall it be?").says("ralph-orchestrator answer");
    }
    let events = env.ralph(&["run", "--json"]).expect(2).events();
    assert_eq!(events.last().unwrap()["stop_reason"], "needs_human");
    assert_eq!(env.agent.calls(), 1);
    assert_eq!(env.status()["phase"], "needs_human");
    env.ralph(&["answer", "blue"]).expect(0);
    env.run().expect(0);
}

#[test]
fn an_open_question_does_not_keep_proved_work_from_completing() {
    let env = TestEnvironment::new();
    env.agent.call(1).out(
        "<promise>COMPLETE: made it</promise>\n\n<promise>NEEDS_HUMAN: which colour?</promise>\n",
    );
    env.run().expect(2);
    env.write("done", "");
    env.run().expect(0);
    assert_eq!(env.agent.calls(), 1);
}

/// Runs on a terminal where a person types this once the question is there. Exit status and screen.
fn on_terminal(env: &TestEnvironment, typed: &str) -> (Option<i32>, String) {
    let main = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY).unwrap();
    grantpt(&main).unwrap();
    unlockpt(&main).unwrap();
    let name = ptsname(&main, Vec::new()).unwrap().into_string().unwrap();
    let side = || {
        let side = File::options().read(true).write(true).open(&name).unwrap();
        OwnedFd::from(side)
    };
    let mut command = env.command(&["run"]);
    command.stdin(side()).stdout(side()).stderr(side());
    let mut child = command.spawn().unwrap();
    drop(command);
    let mut main = File::from(main);
    let (mut shown, mut piece, mut answered) = (Vec::new(), [0; 4096], false);
    while let Ok(count @ 1..) = main.read(&mut piece) {
        shown.extend_from_slice(&piece[..count]);
        if !answered && String::from_utf8_lossy(&shown).contains("answer: ") {
            main.write_all(typed.as_bytes()).unwrap();
            answered = true;
        }
    }
    (child.wait().unwrap().code(), String::from_utf8_lossy(&shown).into_owned())
}

#[test]
fn run_asks_on_a_terminal() {
    let env = asking();
    env.run().expect(2);
    let (code, shown) = on_terminal(&env, "blue\n");
    assert_eq!(code, Some(0), "{shown}");
    assert!(shown.contains("which colour shall it be?"), "{shown}");
    let prompt = prompt(&env, 2);
    assert!(prompt.contains("which colour") && prompt.contains("blue"), "{prompt}");
    assert_eq!(env.records("answered")[0]["text"], "blue");
}

#[test]
fn no_answer_on_a_terminal_costs_nothing() {
    let env = asking();
    env.run().expect(2);
    // An empty line, and the end of the input.
    for typed in ["\n", "\u{4}"] {
        let (code, shown) = on_terminal(&env, typed);
        assert_eq!(code, Some(2), "{shown}");
    }
    assert_eq!(env.agent.calls(), 1);
    assert!(env.records("answered").is_empty());
}

#[test]
fn an_answer_to_no_question_is_guidance_and_says_so() {
    let env = TestEnvironment::new();
    env.agent.call(1).out("hm\n");
    env.agent.default_call().script("touch done\n").out(DONE);
    env.ralph(&["answer", "anybody?"]).expect(64).says("no run in this workspace yet");
    env.ralph(&["run", "--max-iterations", "1"]).expect(1);
    let ended = env.ralph(&["answer", "use the left one"]).expect(0);
    ended.says("no question is open").says("guidance");
    env.run().expect(0);
    let prompt = prompt(&env, 2);
    assert!(prompt.contains("Guidance from a human:\n- use the left one\n"), "{prompt}");
    assert!(!prompt.contains("asked"), "{prompt}");
    env.ralph(&["answer", "  \n"]).expect(64).says("the answer is empty");
    env.ralph(&["answer", "late"]).expect(64).says("complete");
}

#[test]
fn a_second_answer_is_guidance_beside_the_first() {
    let env = asking();
    env.run().expect(2);
    env.ralph(&["answer", "blue"]).expect(0);
    env.ralph(&["answer", "dark blue"]).expect(0).says("guidance");
    env.run().expect(0);
    let prompt = prompt(&env, 2);
    assert!(prompt.contains("- blue\n") && prompt.contains("- dark blue\n"), "{prompt}");
}

#[test]
fn an_answered_question_is_no_longer_shown_as_open() {
    let env = asking();
    env.run().expect(2);
    assert_eq!(env.status()["phase"], "needs_human");
    env.ralph(&["answer", "blue"]).expect(0);
    let status = env.ralph(&["status"]).expect(0).stdout;
    assert!(status.starts_with("stopped: the question is answered"), "{status}");
    assert!(!status.contains("which colour"), "{status}");
    assert_eq!(env.status()["phase"], "stopped");
    let why = env.ralph(&["why"]).expect(0).stdout;
    assert!(why.starts_with("stopped: the question is answered"), "{why}");
    assert!(why.contains("`ralph-orchestrator run` resumes"), "{why}");
    env.ralph(&["runs"]).expect(0).says("answered");
    env.run().expect(0);
    assert_eq!(env.status()["phase"], "completed");
}
