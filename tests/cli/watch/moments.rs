//! Every key that controls a run, wherever the view shows another one. `controls::moments` has all moments: the way from
//! the inbox on is the same.

use serde_json::Value;

use super::keys::recorded;
use super::watch;
use crate::controls::{Moment, Scene};
use crate::environment::eventually;
use crate::tmux::Tmux;

/// The kinds of what the view has sent, once there are as many.
#[track_caller]
fn kinds(scene: &Scene, count: usize) -> Vec<Value> {
    eventually("the control is recorded", || recorded(&scene.env).len() == count);
    let kind = |record: &Value| match &record["control"]["type"] {
        Value::Null => record["kind"].clone(),
        kind => kind.clone(),
    };
    recorded(&scene.env).iter().map(kind).collect()
}

fn shown(scene: &Scene) -> Tmux {
    let tmux = watch(&scene.env, 100, 30);
    tmux.until("the run", |text| text.contains("run started with") && text.contains("[q]"));
    tmux
}

/// All but the stop, which ends what the others are for, and then the stop.
fn all_at(moment: Moment) {
    let mut scene = Scene::at(moment);
    let tmux = shown(&scene);
    tmux.press(&["s", "look at the parser", "Enter"]);
    assert_eq!(kinds(&scene, 1), ["steer"]);
    tmux.press(&["a", "use the other one", "Enter"]);
    assert_eq!(kinds(&scene, 2)[1], "answered");
    tmux.press(&["l", "C-u", "7", "Enter", "y"]);
    assert_eq!(kinds(&scene, 3)[2], "limits");
    if moment == Moment::InAPause {
        tmux.until("what the key does", |text| text.contains("[p] resume"));
        tmux.press(&["p"]);
        assert_eq!(kinds(&scene, 4)[3], "resume");
        scene.ends(0);
        let prompt = scene.prompt(2);
        assert!(prompt.contains("the parser") && prompt.contains("the other one"), "{prompt}");
        return;
    }
    tmux.until("what the key does", |text| text.contains("[p]ause"));
    tmux.press(&["p"]);
    assert_eq!(kinds(&scene, 4)[3], "pause");
    tmux.until("what the key does", |text| text.contains("[p] resume"));
    tmux.press(&["p"]);
    assert_eq!(kinds(&scene, 5)[4], "resume");
    let refused: Vec<Value> =
        recorded(&scene.env).into_iter().filter(|record| !record["refused"].is_null()).collect();
    assert!(refused.is_empty(), "{refused:?}");
    let status = scene.env.status();
    assert_eq!(status["limits"]["max_iterations"], 7, "{status}");
    assert_eq!(status["guidance"].as_array().unwrap().len(), 2, "{status}");
    assert!(status["pause"].is_null(), "{status}");
    let is_active = scene.running.is_some();
    tmux.press(&["x", "y"]);
    if is_active {
        scene.ends(143);
        assert_eq!(kinds(&scene, 6)[5], "stop");
    } else {
        // Whoever has just written a control may have held the run when it was looked at.
        tmux.until("a refusal", |text| text.contains("no run is active"));
    }
}

#[test]
fn in_an_iteration() {
    all_at(Moment::InAnIteration);
}

#[test]
fn in_a_pause() {
    all_at(Moment::InAPause);
}

#[test]
fn after_a_kill() {
    all_at(Moment::AfterAKill);
}

#[test]
fn when_complete() {
    let scene = Scene::at(Moment::WhenComplete);
    let tmux = shown(&scene);
    for keys in [
        &["s", "more", "Enter"][..],
        &["a", "more", "Enter"],
        &["p"],
        &["l", "C-u", "7", "Enter", "y"],
    ] {
        tmux.press(keys);
        tmux.until("a refusal", |text| text.contains("is complete"));
        tmux.press(&["Escape"]);
        tmux.until("no message", |text| !text.contains("is complete"));
    }
    assert!(recorded(&scene.env).is_empty());
    assert_eq!(scene.env.status()["phase"], "completed");
}

#[test]
fn before_the_first_run() {
    let scene = Scene::at(Moment::BeforeTheFirstRun);
    let tmux = watch(&scene.env, 100, 30);
    tmux.until("the view", |text| text.contains("[q]"));
    tmux.press(&["s", "a", "p", "l", "x", "?"]);
    tmux.until("the keys", |text| text.contains("end the view"));
    assert!(!scene.env.has_state());
}
