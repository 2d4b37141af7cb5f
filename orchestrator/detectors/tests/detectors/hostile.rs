//! Texts made to cost time: it has to grow with their length, never with its square.

use std::time::Duration;

use ralph_orchestrator_detectors::{marker, promise};
use rustix::time::{ClockId, clock_gettime};
use serde_json::json;

use crate::{context, input, inspect};

/// Builds a text of about `n` pieces.
type Make = fn(usize) -> String;

const TEXTS: &[(&str, Make)] = &[
    ("one line", |n| "a".repeat(10 * n)),
    ("fences", |n| "```\n".repeat(n)),
    ("both fences", |n| "~~~\n```\n".repeat(n)),
    ("quotes, lazily continued", |n| format!("{}a\n{}", ">".repeat(n), "b\n".repeat(n))),
    ("spaced quotes", |n| format!("{}a\n{}", "> ".repeat(n), "b\n".repeat(n))),
    ("lists", |n| format!("{}a\n{}", "- ".repeat(n), "\n".repeat(n))),
    ("quote in lists", |n| format!("{}> a\n{}", "- ".repeat(n), "b\n".repeat(n))),
    ("numbered quotes", |n| format!("{}a\n{}", "1. > ".repeat(n), "b\n".repeat(n))),
    ("backticks", |n| "` `` ".repeat(n)),
    ("comments", |n| "a <!-- ".repeat(n)),
    ("pre", |n| "<pre>".repeat(n)),
    ("emphasis", |n| "*a _b **c ".repeat(n)),
    ("brackets", |n| "[".repeat(n)),
    ("markers in code", |n| format!("```\n{}", "TASK_COMPLETE\n".repeat(n))),
    ("near misses", |n| "## TASK_COMPLETE\n".repeat(n)),
    ("markers", |n| "TASK_COMPLETE\n".repeat(n)),
    ("emphasised", |n| format!("{}TASK_COMPLETE\n", "*".repeat(300)).repeat(n / 100)),
    ("escapes", |n| "\u{1b}]".repeat(n)),
    ("opening tags", |n| "<promise>".repeat(n)),
    ("claims on one line", |n| "<promise>COMPLETE: a</promise>".repeat(n)),
    ("claims after white space", |n| {
        format!("{}{}", " ".repeat(10 * n), "<promise>COMPLETE: a</promise>".repeat(n))
    }),
    ("claims, then signs", |n| "<promise>COMPLETE: a</promise>!!!!\n".repeat(n)),
    ("a far closing tag", |n| format!("{}{}</promise>", "<promise>", "\n".repeat(n))),
];

fn time(make: Make, n: usize) -> Duration {
    let marker = marker::build(json!({}), &context()).unwrap();
    let promise = promise::build(json!({}), &context()).unwrap();
    let text = make(n);
    let began = processor_time();
    inspect(&*marker, input(Some(&text), None));
    let _rest = crate::strip(&*marker, &text);
    inspect(&*promise, input(None, Some(&text)));
    processor_time() - began
}

/// What this thread has used: other load on the machine does not count.
fn processor_time() -> Duration {
    Duration::try_from(clock_gettime(ClockId::ThreadCPUTime)).unwrap()
}

#[test]
fn time_grows_with_the_text_and_not_with_its_square() {
    for (name, make) in TEXTS {
        // What is quadratic needs more than this on a fast machine with nothing else to do; what is
        // linear, a fraction of it on a slow one.
        let taken = time(*make, 50_000);
        assert!(taken < Duration::from_secs(10), "{name}: {taken:?}");
    }
}
