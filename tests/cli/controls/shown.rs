//! What a run shows of its controls.

use super::{Moment, Scene};

#[test]
fn the_run_itself_says_what_was_asked_of_it() {
    let mut scene = Scene::at(Moment::AfterAKill);
    let env = &scene.env;
    env.ralph(&["pause"]).expect(0);
    let mut running = env.start(&["run"]);
    running.says("paused by ");
    env.ralph(&["steer", "look at the parser"]).expect(0);
    running.says("guidance by ");
    env.ralph(&["limits", "--max-cost", "7", "--max-runtime", "none"]).expect(0);
    running.says("max_runtime none, max_cost_usd $7");
    env.ralph(&["resume"]).expect(0);
    running.says("pause ended by ");
    running.wait().expect(0);
    let log = env.ralph(&["log"]).expect(0);
    log.says("pause requested by ").says("paused").says("limits changed by ");
    scene.running = None;
}

#[test]
fn status_says_what_a_run_does() {
    for (moment, doing) in [
        (Moment::InAnIteration, "running: iteration 1 (pid "),
        (Moment::InAValidation, "running: checking the work of iteration 1 (pid "),
        (Moment::InADelay, "running: after iteration 1 (pid "),
    ] {
        Scene::at(moment).env.ralph(&["status"]).expect(0).says(doing);
    }
}

#[test]
fn events_name_the_control_and_its_sender() {
    let mut scene = Scene::at(Moment::InAPause);
    scene.env.ralph(&["resume"]).expect(0);
    scene.env.ralph(&["steer", ""]).expect(64).says("the text is empty");
    let ended = scene.running.take().unwrap().wait().expect(0);
    let events = ended.events();
    let controls: Vec<_> =
        events.iter().filter(|event| event["event"] == "control_received").collect();
    let types: Vec<_> = controls.iter().map(|event| &event["control"]["type"]).collect();
    assert_eq!(types, ["pause", "resume"]);
    assert!(controls.iter().all(|event| event["origin"]["user"].is_string()));
}
