//! `[handoff]`: an iteration ends in good order before its context is full.

use ralph_orchestrator_contract::Tokens;
use ralph_orchestrator_testkit::model_server::{ModelServer, Script, Turn};
use rustix::process::Signal;

use crate::backlog;
use crate::environment::{TestEnvironment, eventually, of_run};
use crate::git::{committed, git};
use crate::real::Real;

/// A real agent whose first turn fills three quarters of its context and then waits for ever.
fn hands_off(real: Real) {
    let pipe = tempfile::TempDir::new().unwrap();
    let gate = pipe.path().join("gate");
    assert!(std::process::Command::new("mkfifo").arg(&gate).status().unwrap().success());
    let work = format!("echo half > work.txt; cat '{}'", gate.display());
    let full = Tokens { input: 150_000, output: 10, ..Tokens::default() };
    let server = ModelServer::scripted(
        Script::new()
            .then(Turn::shell(&work).usage(full))
            .then(Turn::shell("touch done"))
            .then(Turn::text("Done.\n\n<promise>COMPLETE: it is done</promise>")),
    );
    let env = real.environment(
        &server,
        "[[validator]]\nkind = \"command\"\nprogram = [\"test\", \"-e\", \"done\"]\n\
         [handoff]\nat = 0.7\n",
    );
    env.run().expect(0).says("iteration 1 handed off");
    let status = env.status();
    assert_eq!((status["iterations"].as_u64(), status["failures"].as_u64()), (Some(2), Some(0)));
    let notes = env.records("note");
    assert!(notes[0]["text"].as_str().unwrap().contains("75.0 % of its context"), "{notes:?}");
}

#[test]
fn claude_is_handed_off_at_the_share_of_its_context() {
    hands_off(Real::ClaudeCli);
}

#[test]
fn an_agent_without_a_context_is_handed_off_after_its_time() {
    let env = committed("handoff");
    env.config("[git]\ncommit = \"handoff\"\n[handoff]\nat = 0.7\nafter = \"1s\"\n");
    let gate = env.fifo("gate");
    env.agent.call(1).script(&format!("echo half > work.txt; cat '{}'\n", gate.display()));
    env.agent.call(2).script("touch done\n").out("<promise>COMPLETE: made it</promise>\n");
    // Never written to: the agent waits until it is ended.
    let hold = std::fs::OpenOptions::new().read(true).write(true).open(&gate).unwrap();
    let ended = env.run().expect(0);
    drop(hold);
    ended.says("iteration 1 handed off");
    assert_eq!(env.status()["failures"], 0);
    let ends = env.records("iteration_ended");
    assert_eq!(ends[0]["outcome"]["reason"], "handoff");
    let notes = env.records("note");
    assert_eq!(notes.len(), 1);
    assert!(notes[0]["text"].as_str().unwrap().starts_with("Hand-off: iteration 1 was ended"));
    let prompt = String::from_utf8(env.agent.stdin(2)).unwrap();
    assert!(prompt.contains("Hand-off: iteration 1 was ended"), "{prompt}");
    let commits = git(&env, &["log", "--format=%s", "main"]);
    assert_eq!(commits, "wip: Add work.txt - iteration 1 handoff\nfirst");
    let kinds: Vec<String> =
        env.journal().iter().map(|record| record["kind"].as_str().unwrap().to_owned()).collect();
    let at = |kind: &str| kinds.iter().position(|other| other == kind).unwrap();
    let saved = kinds.iter().enumerate().filter(|(_, kind)| *kind == "saved").nth(1).unwrap().0;
    assert!(at("cancelling") < at("iteration_ended") && at("iteration_ended") < saved);
    assert!(saved < at("note"), "commit, then note: {kinds:?}");
}

#[test]
fn the_doctor_says_which_bound_applies() {
    let env = TestEnvironment::new();
    assert!(!env.ralph(&["doctor"]).stdout.contains("handoff"));
    env.config("[handoff]\nat = 0.7\n");
    env.ralph(&["doctor"]).says("does not report its context").says("handoff.after");
    env.config("[handoff]\nat = 0.7\nafter = \"20m\"\n");
    env.ralph(&["doctor"]).says("after 20m");
    for wrong in ["1.5", "0", "0.0", "1", "\"never\""] {
        env.config(&format!("[handoff]\nat = {wrong}\n"));
        let checked = env.ralph(&["config", "check"]).expect(78);
        checked
            .says("handoff.at")
            .says("above 0 and below 1")
            .says("\"none\" turns this limit off");
    }
    env.config("[handoff]\nat = \"none\"\nafter = \"20m\"\n");
    env.ralph(&["doctor"]).says("after 20m");
    env.config("");
    env.ralph(&["config", "show"]).expect(0).says("handoff.at = \"none\"");
}

/// Hands off the first iteration, and kills the orchestrator at the record of this kind.
fn killed_at(kind: &str) {
    let env = committed("handoff");
    env.config("[git]\ncommit = \"handoff\"\n[handoff]\nafter = \"1s\"\n");
    let gate = env.fifo("gate");
    let hold = std::fs::OpenOptions::new().read(true).write(true).open(&gate).unwrap();
    env.agent.call(1).script(&format!("echo half > work.txt; cat '{}'\n", gate.display()));
    env.agent.call(2).script("touch done\n").out("<promise>COMPLETE: made it</promise>\n");
    let mut running = env.start(&["run"]);
    let wanted = format!("\"kind\":\"{kind}\",\"iteration\":1");
    let wanted = if kind == "cancelling" { "\"kind\":\"cancelling\"".to_owned() } else { wanted };
    eventually("the record", || {
        env.has_state()
            && std::fs::read_dir(env.state().join("runs"))
                .is_ok_and(|mut runs| runs.next().is_some())
            && std::fs::read_to_string(env.journal_path()).is_ok_and(|text| text.contains(&wanted))
    });
    running.signal(Signal::KILL);
    running.wait();
    env.run().expect(0);
    drop(hold);
    let ends = env.records("iteration_ended");
    let is_handed_off = ends[0]["outcome"]["reason"] == "handoff";
    assert!(is_handed_off || kind == "cancelling", "{kind}: {ends:?}");
    let expected = usize::from(is_handed_off);
    assert_eq!(env.records("note").len(), expected, "notes after a kill at {kind}");
    let commits = git(&env, &["log", "--format=%s", "main"]);
    assert_eq!(commits.matches("iteration 1 handoff").count(), expected, "{kind}: {commits}");
    assert!(of_run(&env.root()).is_empty(), "{kind}");
}

#[test]
fn kill_9_at_each_step_finishes_the_hand_off_once() {
    for kind in ["cancelling", "iteration_ended", "observed", "saved", "note"] {
        killed_at(kind);
    }
}

/// Hands off the first iteration of the item of a backlog.
fn of_an_item() -> (TestEnvironment, std::fs::File) {
    let env = backlog::environment("json", "feature-list.json", "[handoff]\nafter = \"1s\"\n");
    env.write("feature-list.json", backlog::feature_list(&[backlog::feature("a", 1, &[])]));
    let gate = env.fifo("gate");
    let hold = std::fs::OpenOptions::new().read(true).write(true).open(&gate).unwrap();
    env.agent.call(1).script(&format!("echo half > work.txt; cat '{}'\n", gate.display()));
    (env, hold)
}

/// The notes at the only item.
fn notes(env: &TestEnvironment) -> Vec<String> {
    let list: serde_json::Value = serde_json::from_str(&env.read("feature-list.json")).unwrap();
    let notes = list["features"][0]["implementation_notes"].as_array().cloned();
    let texts = notes.unwrap_or_default().into_iter();
    texts.map(|note| note.as_str().unwrap().to_owned()).collect()
}

#[test]
fn the_item_of_a_backlog_gets_a_note_and_stays_in_progress() {
    let (env, hold) = of_an_item();
    let before = env.read("feature-list.json");
    env.ralph(&["run", "--once"]);
    drop(hold);
    let notes = notes(&env);
    assert_eq!(notes.len(), 1, "{notes:?}");
    let run = env.status()["run"].as_str().unwrap().to_owned();
    assert!(notes[0].starts_with("Hand-off: iteration 1 was ended"), "{notes:?}");
    assert!(notes[0].ends_with(&format!("(run {run}, iteration 1)")), "{notes:?}");
    assert_eq!(backlog::statuses(&env), [("a".to_owned(), "in_progress".to_owned())]);
    // Everything else is as it was, byte for byte.
    let after = env.read("feature-list.json").replace("in_progress", "pending");
    let (begin, rest) = after.split_once(",\n      \"implementation_notes\": [").unwrap();
    let (_, end) = rest.split_once(']').unwrap();
    assert_eq!(format!("{begin}{end}"), before);
    env.run().expect(0);
    let given = String::from_utf8(env.agent.stdin(2)).unwrap();
    assert!(given.contains("Notes from earlier sessions:\n- Hand-off: iteration 1"), "{given}");
}

#[test]
fn kill_9_at_each_step_leaves_one_note_at_the_item() {
    for kind in ["iteration_ended", "observed", "note"] {
        let (env, hold) = of_an_item();
        let mut running = env.start(&["run"]);
        let wanted = format!("\"kind\":\"{kind}\",\"iteration\":1");
        eventually("the record", || {
            env.has_state()
                && std::fs::read_dir(env.state().join("runs"))
                    .is_ok_and(|mut runs| runs.next().is_some())
                && std::fs::read_to_string(env.journal_path())
                    .is_ok_and(|text| text.contains(&wanted))
        });
        running.signal(Signal::KILL);
        running.wait();
        env.run().expect(0);
        drop(hold);
        let notes = notes(&env);
        assert_eq!(notes.len(), 1, "{kind}: {notes:?}");
        assert_eq!(backlog::statuses(&env), [("a".to_owned(), "completed".to_owned())]);
    }
}
