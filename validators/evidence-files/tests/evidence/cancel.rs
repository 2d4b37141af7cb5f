use std::io::Write as _;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::Poll;

use ralph_orchestrator_contract::{CancelReason, CancelSignal, Verdict, async_trait};
use serde_json::json;

use crate::{Place, gradient};

/// Does something each time it is asked, and fires at the `at`-th time.
struct Asked<F> {
    times: AtomicUsize,
    at: usize,
    each: F,
}

#[async_trait]
impl<F: Fn(usize) + Send + Sync> CancelSignal for Asked<F> {
    async fn cancelled(&self) -> CancelReason {
        std::future::poll_fn(|_| {
            let times = self.times.fetch_add(1, Ordering::Relaxed) + 1;
            (self.each)(times);
            if times >= self.at { Poll::Ready(CancelReason::Timeout) } else { Poll::Pending }
        })
        .await
    }
}

fn asked<F: Fn(usize) + Send + Sync>(at: usize, each: F) -> Asked<F> {
    Asked { times: AtomicUsize::new(0), at, each }
}

#[test]
fn the_end_may_be_called_at_any_step() {
    let place = Place::new();
    place
        .write_three()
        .write("large.png", gradient(1200, 1200))
        .write("big.txt", "x".repeat(7 << 20));
    let counter = asked(usize::MAX, |_| {});
    assert!(place.verdict_unless(json!({}), &counter).is_accepted());
    let steps = counter.times.into_inner();
    assert!(steps > 15, "only {steps} looks at the clock");
    for at in 1..=steps {
        let verdict = place.verdict_unless(json!({}), &asked(at, |_| {}));
        let Verdict::Error { message } = verdict else { panic!("{at}: {verdict:?}") };
        assert!(message.contains("ended early: its time was up"), "{message}");
    }
}

#[test]
fn a_search_for_reports_can_be_ended_between_lines() {
    let place = Place::new();
    place.write("lines.txt", "0 failed, 1 passed in 0.01s\n".repeat(40_000));
    let steps = |config| {
        let counter = asked(usize::MAX, |_| {});
        assert!(place.verdict_unless(config, &counter).is_accepted());
        counter.times.into_inner()
    };
    let without = steps(json!({"min_files": 1, "reports_failure": "allow"}));
    let with = steps(json!({"min_files": 1}));
    assert!(with > without + 15, "{with} looks at the clock instead of {without}");
    let verdict = place.verdict_unless(json!({"min_files": 1}), &asked(with - 2, |_| {}));
    assert!(matches!(verdict, Verdict::Error { .. }), "{verdict:?}");
}

#[test]
fn a_file_that_is_written_meanwhile_does_not_count() {
    let place = Place::new();
    place.write("a.txt", "x".repeat(3 << 20));
    let path = place.path("a.txt");
    let append = |_| {
        let mut file = std::fs::File::options().append(true).open(&path).unwrap();
        file.write_all(b"more").unwrap();
    };
    let verdict = place.verdict_unless(json!({"min_files": 1}), &asked(usize::MAX, append));
    let Verdict::Rejected { reasons } = verdict else { panic!("{verdict:?}") };
    assert!(reasons[1].contains("was written to while it was read"), "{reasons:?}");
}

#[test]
fn what_is_swapped_for_a_link_is_not_followed() {
    let place = Place::new();
    place.write("a.txt", "proof").write("b.txt", "proof of b").write("c/d.txt", "proof of d");
    let outside = place.root.path().join("outside");
    std::fs::create_dir(&outside).unwrap();
    std::fs::write(outside.join("d.txt"), "not yours").unwrap();
    // The names are known by then, the files not yet opened.
    let swap = |times| {
        if times == 1 {
            std::fs::remove_file(place.path("b.txt")).unwrap();
            std::os::unix::fs::symlink(outside.join("d.txt"), place.path("b.txt")).unwrap();
            std::fs::remove_dir_all(place.path("c")).unwrap();
            std::os::unix::fs::symlink(&outside, place.path("c")).unwrap();
        }
    };
    let verdict = place.verdict_unless(json!({}), &asked(usize::MAX, swap));
    let Verdict::Rejected { reasons } = verdict else { panic!("{verdict:?}") };
    assert!(reasons[0].starts_with("only 1 of 3"), "{reasons:?}");
    assert!(reasons[1..].iter().all(|why| why.contains("is a link")), "{reasons:?}");
}

#[test]
fn what_vanishes_is_reported() {
    let place = Place::new();
    place.write("a.txt", "proof").write("b.txt", "proof of b");
    let remove = |times| {
        if times == 1 {
            std::fs::remove_file(place.path("b.txt")).unwrap();
        }
    };
    let verdict = place.verdict_unless(json!({}), &asked(usize::MAX, remove));
    let Verdict::Rejected { reasons } = verdict else { panic!("{verdict:?}") };
    assert!(reasons[1].contains("`b.txt` was gone"), "{reasons:?}");
}
