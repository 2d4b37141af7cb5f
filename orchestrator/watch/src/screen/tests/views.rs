//! What the view shows, as snapshots, and what keys ask for.

use ratatui::style::Color;

use super::*;

fn snapshot(name: &str, text: &str) {
    let mut settings = insta::Settings::clone_current();
    settings.set_snapshot_path("../../snapshots");
    settings.set_prepend_module_to_snapshot(false);
    settings.set_omit_expression(true);
    settings.bind(|| insta::assert_snapshot!(name, text));
}

#[test]
fn a_run_at_work_on_every_screen() {
    for (width, height) in [(80, 24), (200, 50), (40, 24), (100, 12), (20, 6)] {
        snapshot(&format!("at_work_{width}x{height}"), &Viewer::at_work(width, height).text());
    }
}

#[test]
fn the_runs_alone_on_a_narrow_screen() {
    snapshot("runs_40x12", &Viewer::at_work(40, 12).press(&[Key::Left]).text());
}

#[test]
fn dialogs_and_pages() {
    let mut shown = Vec::new();
    let mut show = |what: &str, viewer: &mut Viewer| {
        shown.push(format!("== {what}\n{}\n", viewer.text()));
    };
    let mut viewer = Viewer::at_work(80, 24);
    viewer.press(&[Key::Char('s')]).type_in("look at the parser first");
    show("steer", &mut viewer);
    let mut viewer = Viewer::at_work(80, 24);
    viewer.press(&[Key::Char('l'), Key::Down, Key::Down, Key::ClearLine]).type_in("80");
    show("limits", &mut viewer);
    show("limits, asking", viewer.press(&[Key::Enter]));
    show("stop", Viewer::at_work(80, 24).press(&[Key::Char('x')]));
    show("verdicts", Viewer::at_work(80, 24).press(&[Key::Char('v')]));
    show("help", Viewer::at_work(80, 24).press(&[Key::Char('?')]));
    show("search", Viewer::at_work(80, 24).press(&[Key::Char('/')]).type_in("numb"));
    show("help at 40 columns", Viewer::at_work(40, 24).press(&[Key::Char('?')]));
    show("limits at 40 columns", Viewer::at_work(40, 24).press(&[Key::Char('l')]));
    snapshot("dialogs", &shown.join("\n"));
}

#[test]
fn a_question_and_its_answer() {
    let mut viewer = Viewer::at_work(80, 24);
    let question = "Which rounding do you want for the tax: half up, or half to even?".to_owned();
    let facts = RunFacts {
        phase: Phase::NeedsHuman,
        activity: format!("needs human: {question}"),
        activity_tone: Tone::Warning,
        question: Some(question),
        ..facts()
    };
    viewer.update(Update::Facts { key: key(0), facts: Some(Box::new(facts)) });
    viewer.press(&[Key::Char('a')]).type_in("half to even");
    snapshot("answer", &viewer.text());
    viewer.press(&[Key::Enter]);
    let control = RequestedControl::Answer("half to even".to_owned());
    assert_eq!(viewer.requests, [control_of(control)]);
}

fn control_of(control: RequestedControl) -> Request {
    Request::Control { key: key(0), run: "run-0".to_owned(), control }
}

#[test]
fn without_runs_it_says_how_to_start_one() {
    let mut viewer = Viewer::new(80, 8);
    assert!(viewer.text().contains("reading the runs"));
    viewer.update(Update::Runs(Vec::new()));
    assert!(viewer.text().contains("no run of this user yet"), "{}", viewer.text());
    for key in "saplxdvf/?j".chars() {
        viewer.press(&[Key::Char(key), Key::Enter, Key::Escape, Key::Escape]);
    }
    assert!(viewer.requests.is_empty(), "{:?}", viewer.requests);
    assert_eq!(viewer.press(&[Key::Char('q')]).requests, [Request::Quit]);
}

#[test]
fn without_colours_nothing_has_one() {
    let mut viewer = Viewer::at_work(80, 24);
    let is_plain = |buffer: &Buffer| {
        buffer.content().iter().all(|cell| (cell.fg, cell.bg) == (Color::Reset, Color::Reset))
    };
    assert!(is_plain(&viewer.buffer(Theme { has_colour: false })));
    assert!(!is_plain(&viewer.buffer(COLOURS)));
}

#[test]
fn limits_and_stops_ask_first() {
    let mut viewer = Viewer::at_work(80, 24);
    viewer.press(&[Key::Char('x'), Key::Char('n'), Key::Char('x'), Key::Escape]);
    viewer.press(&[Key::Char('x'), Key::Enter]);
    assert!(viewer.requests.is_empty(), "{:?}", viewer.requests);
    viewer.press(&[Key::Char('x'), Key::Char('y')]);
    assert_eq!(viewer.requests, [control_of(RequestedControl::Stop)]);
    viewer.requests.clear();
    viewer.press(&[Key::Char('l'), Key::Enter]);
    viewer.press(&[Key::Char('l'), Key::Char('5'), Key::Enter, Key::Char('n'), Key::Escape]);
    viewer.press(&[Key::Char('l')]).type_in("x");
    assert!(viewer.press(&[Key::Enter]).text().contains("expected a number or none"));
    assert!(viewer.requests.is_empty(), "{:?}", viewer.requests);
    viewer.press(&[Key::Backspace, Key::Up, Key::ClearLine]).type_in("7000");
    assert!(viewer.press(&[Key::Enter]).text().contains("Change tokens from none to 7000?"));
    viewer.press(&[Key::Char('y')]);
    let limits = vec![None, None, None, Some("7000".to_owned())];
    assert_eq!(viewer.requests, [control_of(RequestedControl::Limits(limits))]);
}

#[test]
fn the_pause_key_ends_a_pause() {
    let mut viewer = Viewer::at_work(80, 24);
    viewer.press(&[Key::Char('p')]);
    let facts = RunFacts { is_pause_requested: true, ..facts() };
    viewer.update(Update::Facts { key: key(0), facts: Some(Box::new(facts)) });
    viewer.press(&[Key::Char('p')]);
    assert_eq!(
        viewer.requests,
        [control_of(RequestedControl::Pause), control_of(RequestedControl::Resume)]
    );
    viewer.update(Update::Outcome(Ok("the pause is over".to_owned())));
    assert!(viewer.text().contains(" the pause is over\n"), "{}", viewer.text());
    viewer.update(Update::Outcome(Err("it is complete".to_owned())));
    viewer.update(Update::Outcome(Ok("guidance is recorded".to_owned())));
    assert!(viewer.text().contains(" error: it is complete\n"), "{}", viewer.text());
    assert!(!viewer.press(&[Key::Escape]).text().contains("it is complete"));
}

#[test]
fn a_control_is_for_the_run_that_was_shown_when_it_was_begun() {
    let mut viewer = Viewer::at_work(80, 24);
    viewer.press(&[Key::Char('s')]).type_in("x");
    let mut others = runs();
    others.remove(0);
    viewer.update(Update::Runs(others));
    viewer.press(&[Key::Enter]);
    let control = RequestedControl::Steer("x".to_owned());
    assert_eq!(viewer.requests, [Request::Choose { key: key(1) }, control_of(control)]);
}

#[test]
fn a_run_stays_chosen_wherever_it_is_listed() {
    let mut viewer = Viewer::at_work(80, 24);
    viewer.press(&[Key::Left, Key::Char('j'), Key::Char('j')]);
    assert_eq!(viewer.requests.last(), Some(&Request::Choose { key: key(2) }));
    let count = viewer.requests.len();
    let mut others = runs();
    others.reverse();
    viewer.update(Update::Runs(others));
    assert_eq!(viewer.requests.len(), count, "{:?}", viewer.requests);
    assert!(viewer.text().contains("▸? docs"), "{}", viewer.text());
    // What comes late of the run before is not shown.
    viewer.update(story(0..40, true));
    assert!(viewer.story().iter().all(|line| !line.contains("02:00")));
}

#[test]
fn iterations_have_transcripts_and_changes() {
    let mut viewer = Viewer::at_work(80, 24);
    viewer.press(&[Key::Char('d'), Key::Escape]);
    viewer.press(&[Key::BackTab, Key::Up, Key::Up, Key::Char('d'), Key::Escape, Key::Enter]);
    let run = || "run-0".to_owned();
    assert_eq!(
        viewer.requests,
        [
            Request::Diff { key: key(0), run: run(), iteration: None },
            Request::Diff { key: key(0), run: run(), iteration: Some(5) },
            Request::Transcript { key: key(0), run: run(), iteration: 5 },
        ]
    );
    assert!(viewer.text().contains("reading"));
    let lines = vec![StoryLine { text: "[Bash] ls".to_owned(), tone: Tone::Heading }];
    viewer.update(Update::Text { title: "iteration 5".to_owned(), lines });
    assert!(viewer.text().contains("[Bash] ls"));
    // A page that was closed does not come back.
    viewer.press(&[Key::Char('q')]);
    viewer.update(Update::Text { title: "late".to_owned(), lines: Vec::new() });
    assert!(!viewer.text().contains("late") && viewer.text().contains(" story "));
}

#[test]
fn following_ends_when_one_scrolls_up_and_begins_with_a_key() {
    let mut viewer = Viewer::at_work(80, 24);
    assert!(viewer.text().contains("story following"), "{}", viewer.text());
    viewer.press(&[Key::PageUp]);
    let before = viewer.story();
    viewer.update(story(40..60, false));
    assert_eq!(viewer.story(), before);
    assert!(viewer.text().contains("20 newer; f follows"), "{}", viewer.text());
    // The message covers some lines, and moves none.
    viewer.update(Update::Outcome(Ok("the limits are set".to_owned())));
    let after = viewer.story();
    assert_eq!(after[..after.len() - 1], before[..before.len() - 1]);
    viewer.press(&[Key::Escape, Key::Char('f')]);
    assert!(viewer.text().contains("02:00:59"), "{}", viewer.text());
    viewer.press(&[Key::Char('f')]);
    viewer.update(story(60..70, false));
    assert!(viewer.text().contains("10 newer") && viewer.text().contains("02:00:59"));
    viewer.press(&[Key::End]);
    assert!(viewer.text().contains("02:01:09"));
}

#[test]
fn a_search_shows_what_it_finds() {
    let mut viewer = Viewer::at_work(80, 24);
    viewer.press(&[Key::Char('/')]).type_in("number 7").press(&[Key::Enter]);
    let story = viewer.story();
    assert!(story.iter().any(|line| line.contains("number 7")), "{story:?}");
    viewer.update(super::story(40..50, false));
    assert_eq!(viewer.story(), story);
    viewer.press(&[Key::Char('/')]).type_in("nowhere").press(&[Key::Enter]);
    assert!(viewer.text().contains("not found: nowhere"));
}
