//! Controls under attack: what is put into the inbox to blind the run, and what comes at the wrong moment.

use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt as _;

use rustix::process::Signal;

use super::inbox::inbox;
use super::{Moment, Scene};
use crate::environment::{Running, eventually};

/// More names than are read of an inbox at a time.
const MANY: usize = 600;

#[test]
fn files_that_cannot_be_removed_do_not_keep_messages_from_the_run() {
    let mut scene = Scene::at(Moment::InAnIteration);
    let folder = inbox(&scene);
    let running = scene.running.as_ref().unwrap();
    running.signal(Signal::STOP);
    for number in 0..MANY {
        fs::create_dir_all(folder.join(format!("{number:04}.json/sub"))).unwrap();
        fs::write(folder.join(format!("~{number:04}.tmp")), "").unwrap();
    }
    scene.env.ralph(&["steer", "look at the parser"]).expect(0).says("does not take messages");
    scene.running.as_ref().unwrap().signal(Signal::CONT);
    eventually("the message is taken", || scene.controls().len() == 1);
    scene.env.ralph(&["steer", "and at the lexer"]).expect(0).says("queued: this goes");
    scene.release();
    scene.ends(0);
    let prompt = scene.prompt(2);
    assert!(
        prompt.contains("look at the parser") && prompt.contains("and at the lexer"),
        "{prompt}"
    );
    let warnings = scene.env.records("warning");
    assert!((1..=9).contains(&warnings.len()), "{}", warnings.len());
}

#[test]
fn a_pipe_holds_nothing_up_and_a_name_that_is_no_text_goes() {
    let mut scene = Scene::at(Moment::InAnIteration);
    let folder = inbox(&scene);
    fs::rename(scene.env.fifo("pipe"), folder.join("pipe.json")).unwrap();
    let odd = folder.join(OsStr::from_bytes(b"odd\xff.json"));
    fs::write(&odd, "x").unwrap();
    scene.env.ralph(&["steer", "look at the parser"]).expect(0).says("queued: this goes");
    eventually("both are gone", || fs::read_dir(&folder).unwrap().count() == 0);
    scene.release();
    scene.ends(0);
    assert!(scene.prompt(2).contains("look at the parser"));
}

#[test]
fn a_text_that_no_message_holds_is_refused_where_it_is_typed() {
    // Each becomes six bytes in the message.
    let text = "\u{1}".repeat(100_000);
    for moment in [Moment::InAnIteration, Moment::AfterAKill] {
        let mut scene = Scene::at(moment);
        scene.env.ralph(&["steer", &text]).expect(64).says("the text is too long");
        scene.env.ralph(&["answer", &text]).expect(64).says("the text is too long");
        assert!(scene.controls().is_empty());
        if scene.running.is_some() {
            scene.release();
            scene.ends(0);
        }
    }
}

#[test]
fn terminals_at_once_without_an_active_run_lose_and_repeat_nothing() {
    let scene = Scene::at(Moment::AfterAKill);
    let texts: Vec<String> = (0..8).map(|n| format!("text {n}")).collect();
    let mut commands: Vec<Running> =
        texts.iter().map(|text| scene.env.start(&["steer", text])).collect();
    commands.extend((0..4).map(|_| scene.env.start(&["pause"])));
    commands.iter_mut().for_each(|command| {
        command.wait().expect(0);
    });
    let controls = scene.controls();
    let mut given: Vec<&str> =
        controls.iter().filter_map(|record| record["control"]["text"].as_str()).collect();
    given.sort_unstable();
    assert_eq!(given, texts);
    let pauses = controls.iter().filter(|record| record["control"]["type"] == "pause");
    assert_eq!(pauses.clone().count(), 4);
    assert_eq!(pauses.filter(|record| record["refused"].is_null()).count(), 1);
    assert_eq!(fs::read_dir(inbox(&scene)).unwrap().count(), 0);
}

#[test]
fn a_pause_survives_a_kill_but_is_none_of_a_new_run() {
    let mut scene = Scene::at(Moment::InAPause);
    let mut running = scene.running.take().unwrap();
    running.signal(Signal::KILL);
    running.wait();
    let mut again = scene.env.start(&["run", "--json"]);
    again.prints("\"event\":\"pause_began\"");
    assert_eq!(scene.env.agent.calls(), 1, "no iteration begins");
    again.signal(Signal::KILL);
    again.wait();
    scene.env.ralph(&["run", "--restart"]).expect(0);
    assert_eq!(scene.env.status()["pause"], serde_json::Value::Null);
}

#[test]
fn a_pause_that_was_ended_while_nobody_held_the_run_does_not_begin() {
    let mut scene = Scene::at(Moment::InAPause);
    let mut running = scene.running.take().unwrap();
    running.signal(Signal::KILL);
    running.wait();
    scene.env.ralph(&["resume"]).expect(0).says("the pause is over").says("run` resumes");
    scene.env.run().expect(0);
    assert_eq!(scene.env.agent.calls(), 2);
}
