//! Every control through the interface that the page uses: to a run that works, that was killed, and that is complete.
//! `controls::moments` has all moments: the way from the inbox on is the same.

use std::thread;

use serde_json::Value;

use super::Server;
use crate::controls::{Moment, Scene};

/// The controls but `stop`, which would end what the others are for.
const CONTROLS: [(&str, &str); 6] = [
    ("steer", r#"{"text": "look at the parser"}"#),
    ("answer", r#"{"text": "use the other one"}"#),
    ("limits", r#"{"max_iterations": 7}"#),
    ("pause", "{}"),
    ("resume", "{}"),
    ("pause", r#"{"now": false}"#),
];

/// The controls of the journal with their senders.
fn recorded(scene: &Scene) -> Vec<Value> {
    let journal = scene.env.journal();
    journal.into_iter().filter(|entry| entry["origin"]["program"] == "web page").collect()
}

fn all_at(moment: Moment) {
    let scene = Scene::at(moment);
    // Between the end of a pause and the next one the run must not complete.
    scene.env.agent.call(2).script("sleep 1000\n");
    let server = Server::start(&scene.env, &["--control"]);
    let run = server.run();
    for (number, (control, body)) in CONTROLS.iter().enumerate() {
        let path = format!("/api/runs/{run}/{control}");
        let first = server.post(&path, &format!("key {number}"), body);
        let is_refused = moment == Moment::WhenComplete;
        let text = first.body.clone();
        let first = first.expect(if is_refused { 409 } else { 200 });
        assert!(!is_refused || text.contains("is complete"), "{text}");
        // Sent again, it changes nothing and is answered alike.
        let again = server.post(&path, &format!("key {number}"), body);
        assert_eq!((again.status, again.body), (first.status, first.body));
    }
    if moment == Moment::WhenComplete {
        assert!(recorded(&scene).is_empty());
        return;
    }
    assert_eq!(recorded(&scene).len(), CONTROLS.len(), "{:?}", recorded(&scene));
    // A key that is taken for something else is no mistake that goes by unseen.
    let other = server.post(&format!("/api/runs/{run}/steer"), "key 0", r#"{"text": "other"}"#);
    assert!(other.expect(409).body.contains("take a new one"));
    // Not even a server that knows nothing of the first time lets a key take effect twice.
    let other = Server::start(&scene.env, &["--control"]);
    other.post(&format!("/api/runs/{run}/steer"), "key 0", CONTROLS[0].1).expect(200);
    assert_eq!(recorded(&scene).len(), CONTROLS.len());
    let status = server.get(&format!("/api/runs/{run}")).expect(200).json();
    assert_eq!(status["limits"]["max_iterations"], 7, "{status}");
    assert_eq!(status["guidance"].as_array().unwrap().len(), 2, "{status}");
    assert!(!status["pause"].is_null(), "{status}");
}

#[test]
fn in_an_iteration() {
    all_at(Moment::InAnIteration);
}

#[test]
fn after_a_kill() {
    all_at(Moment::AfterAKill);
}

#[test]
fn when_complete() {
    all_at(Moment::WhenComplete);
}

#[test]
fn before_the_first_run_there_is_nothing_to_control() {
    let scene = Scene::at(Moment::BeforeTheFirstRun);
    let server = Server::start(&scene.env, &["--control"]);
    assert_eq!(server.get("/api/runs").expect(200).json()["runs"].as_array().unwrap().len(), 0);
    server.post("/api/runs/none/steer", "k", r#"{"text": "x"}"#).expect(404);
    assert!(!scene.env.has_state());
}

#[test]
fn a_stop_ends_the_run_and_says_who_asked() {
    let mut scene = Scene::at(Moment::InAnIteration);
    let server = Server::start(&scene.env, &["--control"]);
    let path = format!("/api/runs/{}/stop", server.run());
    let first = server.post(&path, "k", "{}").expect(200);
    assert!(first.body.contains("stop requested"), "{first:?}");
    assert_eq!(server.post(&path, "k", "{}").expect(200).body, first.body);
    scene.ends(143);
    assert_eq!(scene.env.status()["phase"], "interrupted");
    assert_eq!(recorded(&scene).len(), 1, "{:?}", scene.env.journal());
}

#[test]
fn without_leave_nothing_is_controlled() {
    let scene = Scene::at(Moment::InAnIteration);
    let server = Server::start(&scene.env, &[]);
    let run = server.run();
    for (control, body) in CONTROLS.iter().chain(&[("stop", "{}")]) {
        let answer = server.post(&format!("/api/runs/{run}/{control}"), "k", body).expect(403);
        assert!(answer.body.contains("serve --control"), "{answer:?}");
    }
    assert!(recorded(&scene).is_empty());
}

#[test]
fn many_tabs_steer_at_once() {
    let scene = Scene::at(Moment::InAnIteration);
    let server = Server::start(&scene.env, &["--control"]);
    let path = format!("/api/runs/{}/steer", server.run());
    thread::scope(|scope| {
        for tab in 0..8 {
            let (server, path) = (&server, &path);
            // Each guidance arrives twice, as from a browser that tries again.
            for _ in 0..2 {
                scope.spawn(move || {
                    let body = format!(r#"{{"text": "from tab {tab}"}}"#);
                    server.post(path, &format!("tab {tab}"), &body).expect(200);
                });
            }
        }
    });
    let mut texts: Vec<String> =
        recorded(&scene).iter().map(|record| record["control"]["text"].to_string()).collect();
    texts.sort();
    texts.dedup();
    assert_eq!((texts.len(), recorded(&scene).len()), (8, 8), "{texts:?}");
}
