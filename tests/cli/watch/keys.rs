//! What the keys do to a run.

use serde_json::Value;

use super::watch;
use crate::controls::{Moment, Scene};
use crate::environment::TestEnvironment;
use crate::tmux::Tmux;

/// A run whose agent works, and a view of it.
fn at_work() -> (Scene, Tmux) {
    let scene = Scene::at(Moment::InAnIteration);
    let tmux = watch(&scene.env, 100, 30);
    tmux.until("the run", |text| text.contains("RUNNING") && text.contains("[q]"));
    (scene, tmux)
}

/// The controls of the journal that came from the view.
pub(super) fn recorded(env: &TestEnvironment) -> Vec<Value> {
    let journal = env.journal();
    journal.into_iter().filter(|entry| entry["origin"]["program"] == "watch").collect()
}

#[test]
fn guidance_reaches_the_agent() {
    let (mut scene, tmux) = at_work();
    tmux.press(&["s", "look at the", " parser", "Enter"]);
    tmux.until("the outcome", |text| {
        text.contains("queued: this goes to the top of the next prompt")
            && text.contains("guidance by ")
    });
    assert_eq!(recorded(&scene.env)[0]["control"]["text"], "look at the parser");
    // What is not sent by Enter is not sent.
    tmux.press(&["s", "never", "Escape"]);
    scene.release();
    scene.ends(0);
    assert!(scene.prompt(2).contains("look at the parser"), "{}", scene.prompt(2));
    tmux.until("the end", |text| text.contains("COMPLETED"));
    assert_eq!(recorded(&scene.env).len(), 1);
}

#[test]
fn a_pause_begins_and_ends() {
    let (mut scene, tmux) = at_work();
    tmux.press(&["p"]);
    tmux.until("the outcome", |text| {
        text.contains("pausing after iteration 1") && text.contains("[p] resume")
    });
    scene.release();
    tmux.until("the pause", |text| text.contains("PAUSED") && text.contains("p ends the pause"));
    tmux.press(&["p"]);
    tmux.until("its end", |text| text.contains("the pause is over"));
    scene.ends(0);
    let kinds: Vec<Value> =
        recorded(&scene.env).iter().map(|record| record["control"]["type"].clone()).collect();
    assert_eq!(kinds, ["pause", "resume"]);
}

#[test]
fn limits_change_once_one_has_agreed() {
    let (mut scene, tmux) = at_work();
    // No, a mistake, and then yes.
    tmux.press(&["l", "C-u", "7", "Enter", "n", "Escape"]);
    tmux.press(&["l", "Down", "Down", "C-u", "much", "Enter"]);
    tmux.until("the mistake", |text| text.contains("expected a number of dollars"));
    tmux.press(&["C-u", "80", "Enter"]);
    tmux.until("the question", |text| text.contains("Change cost from 50 to 80?"));
    assert!(recorded(&scene.env).is_empty());
    tmux.press(&["y"]);
    tmux.until("the limit", |text| text.contains("the limits are set") && text.contains(" of $80"));
    let status = scene.env.status();
    assert_eq!(status["limits"]["max_cost_usd"], 80.0, "{status}");
    assert_eq!(status["limits"]["max_iterations"], 100, "{status}");
    scene.release();
    scene.ends(0);
}

#[test]
fn a_stop_ends_the_run_once_one_has_agreed() {
    let (mut scene, tmux) = at_work();
    tmux.press(&["x"]);
    tmux.until("the question", |text| text.contains("Stop the run of w?"));
    tmux.press(&["n"]);
    tmux.until("no question", |text| !text.contains("Stop the run of w?"));
    assert!(recorded(&scene.env).is_empty());
    tmux.press(&["x", "y"]);
    scene.ends(143);
    tmux.until("its end", |text| text.contains("INTERRUPTED"));
    assert_eq!(recorded(&scene.env)[0]["control"]["type"], "stop");
    tmux.press(&["x"]);
    tmux.until("a refusal", |text| text.contains("error: no run is active"));
}

#[test]
fn a_question_is_shown_and_answered() {
    let env = TestEnvironment::new();
    env.agent.call(1).out("<promise>NEEDS_HUMAN: which colour shall it be?</promise>\n");
    env.agent.default_call().script("touch done\n").out("<promise>COMPLETE: it</promise>\n");
    env.run().expect(2);
    let tmux = watch(&env, 80, 24);
    tmux.until("the question", |text| text.contains("NEEDS HUMAN"));
    tmux.press(&["a"]);
    tmux.until("the question", |text| text.contains("│ w asks:"));
    tmux.press(&["blue", "Enter"]);
    tmux.until("the outcome", |text| text.contains("answered the question"));
    env.run().expect(0);
    let prompt = String::from_utf8(env.agent.stdin(2)).unwrap();
    assert!(prompt.contains("which colour") && prompt.contains("blue"), "{prompt}");
    tmux.until("the end", |text| text.contains("COMPLETED"));
    // What a complete run refuses is said.
    tmux.press(&["s", "more", "Enter"]);
    tmux.until("a refusal", |text| text.contains("is complete"));
}
