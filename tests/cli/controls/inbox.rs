//! The inbox: what is obeyed, and what is not.

use std::fs::{self, File};
use std::io::Write as _;
use std::os::unix::fs::symlink;
use std::path::PathBuf;
use std::process::Command;

use rustix::process::Signal;
use serde_json::Value;

use super::{Moment, Scene};
use crate::environment::eventually;

pub(super) fn inbox(scene: &Scene) -> PathBuf {
    let inbox = scene.env.state().join("inbox");
    fs::create_dir_all(&inbox).unwrap();
    inbox
}

/// The names in the inbox.
fn names(scene: &Scene) -> Vec<String> {
    let entries = fs::read_dir(inbox(scene)).unwrap();
    let mut names: Vec<String> =
        entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names
}

/// A message that the run has not taken, since it is stopped.
fn waiting_message(scene: &Scene, command: &[&str]) -> (String, String) {
    let running = scene.running.as_ref().unwrap();
    running.signal(Signal::STOP);
    let mut sender = scene.env.start(command);
    eventually("a message", || names(scene).iter().any(|name| name.ends_with(".json")));
    sender.signal(Signal::KILL);
    sender.wait();
    let name = names(scene).into_iter().find(|name| name.ends_with(".json")).unwrap();
    let text = fs::read_to_string(inbox(scene).join(&name)).unwrap();
    (name, text)
}

fn is_empty(scene: &Scene) -> bool {
    names(scene).is_empty()
}

#[test]
fn a_message_without_the_key_is_discarded_and_named() {
    let mut scene = Scene::at(Moment::InAnIteration);
    let (name, text) = waiting_message(&scene, &["limits", "--max-cost", "90"]);
    let id = name.trim_end_matches(".json");
    let raised = text.replace("90", "99");
    assert_ne!(raised, text);
    let folder = inbox(&scene);
    fs::write(folder.join(&name), raised).unwrap();
    let other = "0198c0de-0000-7000-8000-000000000000";
    // Signed, but under a name that is not its own.
    fs::write(folder.join(format!("{other}.json")), &text).unwrap();
    fs::write(folder.join("torn.json"), text.split_at(text.len() / 2).0).unwrap();
    fs::write(folder.join("large.json"), vec![b'x'; 1 << 20]).unwrap();
    fs::write(folder.join("note.txt"), "hello").unwrap();
    let outside = scene.env.path("outside");
    fs::write(&outside, &text).unwrap();
    symlink(&outside, folder.join("link.json")).unwrap();
    fs::create_dir(folder.join("folder.json")).unwrap();
    scene.running.as_ref().unwrap().signal(Signal::CONT);
    eventually("everything is discarded", || is_empty(&scene));
    scene.release();
    scene.ends(0);
    assert!(scene.controls().is_empty(), "{id}: {:?}", scene.controls());
    assert!(outside.exists(), "no link is followed");
    let warnings: Vec<String> = scene
        .env
        .records("warning")
        .iter()
        .map(|record| record["message"].as_str().unwrap().to_owned())
        .collect();
    for (name, why) in [
        (name.as_str(), "not signed"),
        (other, "its name is not"),
        ("torn.json", "not"),
        ("large.json", "larger"),
        ("note.txt", "its name is not"),
        ("link.json", "it is a link"),
        ("folder.json", "not a regular file"),
    ] {
        let is_named = |warning: &String| warning.contains(name) && warning.contains(why);
        assert!(warnings.iter().any(is_named), "{name}, {why}: {warnings:#?}");
    }
}

#[test]
fn a_message_for_another_run_is_not_obeyed() {
    let mut scene = Scene::at(Moment::InAnIteration);
    let (name, text) = waiting_message(&scene, &["steer", "for the first run"]);
    let running = scene.running.as_mut().unwrap();
    running.signal(Signal::KILL);
    running.wait();
    fs::remove_file(inbox(&scene).join(&name)).unwrap();
    scene.env.agent.call(2).out("nothing\n").rc(1);
    scene.env.ralph(&["run", "--restart", "--once"]);
    fs::write(inbox(&scene).join(&name), text).unwrap();
    scene.env.run().expect(0);
    let warnings = scene.env.records("warning");
    let is_named = |record: &Value| {
        let message = record["message"].as_str().unwrap();
        message.contains(&name) && message.contains("it is for the run ")
    };
    assert!(warnings.iter().any(is_named), "{warnings:?}");
    assert!(scene.controls().is_empty());
    assert!(is_empty(&scene));
}

#[test]
fn a_message_that_was_left_is_taken_once_at_the_next_start() {
    let mut scene = Scene::at(Moment::InAnIteration);
    let (name, text) = waiting_message(&scene, &["steer", "look at the parser"]);
    let running = scene.running.as_mut().unwrap();
    running.signal(Signal::KILL);
    running.wait();
    scene.env.ralph(&["run", "--once"]);
    assert!(scene.prompt(2).contains("look at the parser"), "{}", scene.prompt(2));
    assert!(is_empty(&scene));
    assert_eq!(scene.controls().len(), 1);
    let _ = (name, text);
}

#[test]
fn a_message_that_is_delivered_again_after_a_kill_changes_nothing() {
    let mut scene = Scene::at(Moment::InAnIteration);
    let (name, text) = waiting_message(&scene, &["pause"]);
    let running = scene.running.as_ref().unwrap();
    running.signal(Signal::CONT);
    eventually("it is taken", || is_empty(&scene));
    scene.env.ralph(&["resume"]).expect(0);
    let running = scene.running.as_mut().unwrap();
    running.signal(Signal::KILL);
    running.wait();
    // As if the orchestrator had been killed between the record and the removal.
    fs::write(inbox(&scene).join(&name), text).unwrap();
    scene.env.run().expect(0);
    assert!(is_empty(&scene));
    assert_eq!(scene.controls().len(), 2);
    assert_eq!(scene.env.status()["pause"], Value::Null);
}

#[test]
fn a_stop_that_came_too_late_does_not_stop_the_next_start() {
    let mut scene = Scene::at(Moment::InAnIteration);
    let running = scene.running.as_mut().unwrap();
    running.signal(Signal::KILL);
    running.wait();
    // As if it had been killed between the request and its receipt: another process holds its lock meanwhile.
    let mut other = Command::new("sleep").arg("1000").spawn().unwrap();
    let mut lock = File::options().write(true).open(scene.env.state().join("lock")).unwrap();
    lock.lock().unwrap();
    lock.set_len(0).unwrap();
    write!(lock, "{{\"pid\":{},\"started\":null}}", other.id()).unwrap();
    scene.env.ralph(&["stop", "--no-wait"]).expect(0);
    other.wait().unwrap();
    drop(lock);
    assert!(!is_empty(&scene));
    scene.env.run().expect(0);
    assert!(is_empty(&scene));
    assert!(scene.controls().is_empty());
}

#[test]
fn a_link_in_the_place_of_the_inbox_leads_nowhere() {
    let mut scene = Scene::at(Moment::InAnIteration);
    let folder = inbox(&scene);
    scene.env.write("precious/file.json", "mine");
    fs::remove_dir(&folder).unwrap();
    symlink(scene.env.path("precious"), &folder).unwrap();
    scene.env.ralph(&["steer", "look at the parser"]).expect(0).says("queued: this goes");
    scene.release();
    scene.ends(0);
    assert_eq!(scene.env.read("precious/file.json"), "mine");
    assert!(scene.prompt(2).contains("look at the parser"));
}
