//! kill -9 after the host has done what it was asked for, and before that is recorded.

use rustix::process::Signal;
use serde_json::json;

use super::{HOSTS, Tracker, issue};
use crate::environment::eventually;

#[test]
fn killed_after_any_step_at_the_host_each_item_has_one_comment_and_its_labels() {
    for (kind, program) in HOSTS {
        let steps = match program {
            "gh" => ["issue list", "label create", "issue edit", "issue comment"],
            _ => ["issue list", "label create", "issue update", "issue note"],
        };
        for step in steps {
            let issues = [issue(1, "One", "Do.", &["ralph"]), issue(2, "Two", "Do.", &["ralph"])];
            let tracker = Tracker::new(kind, &issues, "");
            tracker.change(|host| host["hold"] = json!(step));
            let mut running = tracker.env.start(&["run"]);
            let held = tracker.env.root().join("held");
            eventually("the step", || held.exists());
            running.signal(Signal::KILL);
            running.wait();
            tracker.env.run().expect(0);
            for number in [1, 2] {
                assert_eq!(tracker.labels(number), ["ralph", "ralph:done"], "{step}");
                assert_eq!(tracker.comments(number).len(), 1, "{step}");
            }
            assert_eq!(tracker.worked(), ["1", "2"], "{step}");
        }
    }
}

#[test]
fn killed_when_the_issue_has_the_label_of_its_end_it_loses_that_of_its_beginning() {
    let tracker = Tracker::new("github", &[issue(1, "One", "Do.", &["ralph"])], "");
    tracker.change(|host| host["hold"] = json!("issue comment"));
    let mut running = tracker.env.start(&["run"]);
    let held = tracker.env.root().join("held");
    eventually("the step", || held.exists());
    running.signal(Signal::KILL);
    running.wait();
    // As a program leaves it that adds and removes labels by requests of their own.
    tracker.change(|host| {
        host["issues"][0]["labels"] = json!(["ralph", "ralph:in-progress", "ralph:done"]);
    });
    tracker.env.run().expect(0);
    assert_eq!(tracker.labels(1), ["ralph", "ralph:done"]);
    assert_eq!((tracker.comments(1).len(), tracker.worked().len()), (1, 1));
}
