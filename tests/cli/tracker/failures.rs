//! Hosts that are not reached, and programs that are not there.

use rustix::process::Signal;
use serde_json::json;

use super::{HOSTS, Tracker, issue};

fn one_issue(kind: &str) -> Tracker {
    Tracker::new(kind, &[issue(1, "One", "Do.", &["ralph"])], "")
}

#[test]
fn a_failure_of_the_network_and_a_rate_limit_are_waited_for_at_every_step() {
    for (kind, program) in HOSTS {
        let steps = match program {
            "gh" => ["issue list", "label create", "issue edit", "issue comment"],
            _ => ["issue list", "label create", "issue update", "issue note"],
        };
        let tracker = one_issue(kind);
        tracker.change(|host| {
            for (n, step) in steps.iter().enumerate() {
                let message = match n % 2 {
                    0 => "error connecting to the host: dial tcp: connection refused",
                    _ => "HTTP 403: API rate limit exceeded",
                };
                host["fail"][step] = json!({"times": 2, "message": message});
            }
        });
        tracker.env.run().expect(0).says("cannot be reached").says("limits how often");
        assert_eq!(tracker.labels(1), ["ralph", "ralph:done"]);
        assert_eq!(tracker.comments(1).len(), 1);
        assert_eq!(tracker.worked(), ["1"]);
    }
}

#[test]
fn a_failure_that_waiting_does_not_mend_says_what_to_do_and_the_next_start_goes_on() {
    let table = [
        (4, "To get started with GitHub CLI, please run:  gh auth login", "run `gh auth login`"),
        (
            1,
            "GraphQL: Could not resolve to a Repository with the name 'a/b'.",
            "check `repository`",
        ),
        (1, "GraphQL: Resource not accessible by integration", "`gh issue edit` failed"),
    ];
    for (status, message, says) in table {
        let tracker = one_issue("github");
        // When the work is done already.
        tracker.env.agent.call(1).script(&format!(
            "{}python3 - <<END\nimport json\npath = '{}'\ndata = json.load(open(path))\n\
             data['fail'] = {{'issue edit': {{'times': 1, 'status': {status}, 'message': \"{message}\"}}}}\n\
             json.dump(data, open(path, 'w'))\nEND\n",
            crate::backlog::WORK,
            tracker.data.display()
        )).out(crate::backlog::CLAIM);
        let ended = tracker.env.run();
        assert_eq!(ended.code, Some(69), "{}", ended.stderr);
        ended.says(says);
        tracker.env.run().expect(0);
        assert_eq!(tracker.labels(1), ["ralph", "ralph:done"], "{message}");
        assert_eq!((tracker.comments(1).len(), tracker.worked().len()), (1, 1), "{message}");
    }
}

#[test]
fn a_missing_program_is_named() {
    for (kind, program) in HOSTS {
        let mut tracker = one_issue(kind);
        std::fs::remove_file(tracker.env.root().join("programs").join(program)).unwrap();
        if std::process::Command::new("which").arg(program).output().unwrap().status.success() {
            tracker.env.var("PATH", "/nonexistent");
        }
        let says = format!("{program} is not installed");
        tracker.env.run().expect(69).says(&says).says("auth login");
    }
}

#[test]
fn a_request_to_stop_ends_the_wait() {
    let tracker = one_issue("github");
    tracker.change(|host| {
        let message = "error connecting to api.github.com";
        host["fail"]["issue list"] = json!({"times": 1_000_000, "message": message});
    });
    let mut running = tracker.env.start(&["run"]);
    running.says("cannot be reached");
    running.signal(Signal::TERM);
    let ended = running.wait();
    assert_eq!(ended.code, Some(69), "{}", ended.stderr);
    assert!(tracker.worked().is_empty());
}

#[test]
fn no_wait_is_longer_than_all_runs_may_take() {
    let tracker = one_issue("github");
    tracker.change(|host| {
        let message = "error connecting to api.github.com";
        host["fail"]["issue edit"] = json!({"times": 1_000_000, "message": message});
    });
    let ended = tracker.env.ralph(&["run", "--max-runtime", "2s"]);
    ended.expect(69).says("limits.max_runtime is over").says("cannot be reached");
    assert!(tracker.worked().is_empty());
}
