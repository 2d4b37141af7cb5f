//! Whatever a plugin does to its process, only its call fails.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

use ralph_orchestrator_contract::{
    Agent, CancelReason, CancelSignal, ErrorClass, Event, EventSink, NeverCancelled, Verdict,
    async_trait,
};
use ralph_orchestrator_plugin_host::PrivateCopy;
use ralph_orchestrator_testkit::RecordingSink;
use ralph_orchestrator_testkit::flood::assert_gives_way;
use serde_json::json;
use tokio::task::JoinSet;

use crate::built::{MISBEHAVING, OLD};
use crate::harness::PluginHarness;

fn harness() -> PluginHarness {
    PluginHarness::new(MISBEHAVING.copy())
}

#[tokio::test]
async fn its_deaths_fail_the_iteration_with_the_reason_and_the_next_works() {
    let harness = harness();
    let agent = harness.agent().await;
    for (prompt, expected) in [
        ("abort", vec!["signal 6"]),
        ("exit 0", vec!["exit 0"]),
        ("exit 42", vec!["exit 42"]),
        ("segv", vec!["signal 11 (SIGSEGV)", "(a stack overflow looks the same)"]),
        // The handler that says so belongs to the host's copy of the standard library.
        ("overflow", vec!["signal 11"]),
        ("double-panic", vec!["signal 6", "first of two panics", "and again while unwinding"]),
        ("panic", vec!["it panicked at src/bad.rs:", "deliberate panic in run"]),
        ("panic-in-drop", vec!["it panicked at src/bad.rs:", "deliberate panic in drop"]),
    ] {
        let failure = harness.failure(&*agent, prompt).await;
        assert!(failure.starts_with("crashed: "), "{prompt}: {failure}");
        for part in expected {
            assert!(failure.contains(part), "{prompt}: no `{part}` in {failure}");
        }
        assert_eq!(harness.said(&*agent, "echo on").await, "on", "after {prompt}");
    }
    harness.nothing_is_left().await;
}

#[tokio::test]
async fn what_does_not_end_is_ended() {
    let harness = harness();
    let agent = harness.agent().await;
    for prompt in ["endless", "block", "ignore-cancel"] {
        let armed = |event: &Event| matches!(event, Event::Text { text } if text == "armed");
        let sink = RecordingSink::cancelling_at(armed);
        let error = harness.run_with(&*agent, prompt, &sink).await.unwrap_err();
        assert_eq!(error.class, ErrorClass::Cancelled, "{prompt}: {error}");
        // One that blocks its thread cannot be aborted by the SDK.
        let ignored = "it did not end within 5 s of being cancelled and was killed";
        let is_blocked = prompt != "ignore-cancel";
        assert_eq!(error.message.contains(ignored), is_blocked, "{prompt}: {error}");
        assert_eq!(sink.has_warning(ignored), is_blocked, "{prompt}");
        harness.nothing_is_left().await;
    }
    assert_eq!(harness.said(&*agent, "echo on").await, "on");
}

#[tokio::test]
async fn fifty_at_once_lose_no_event_and_no_exit_status() {
    let harness = Arc::new(PluginHarness::new(MISBEHAVING.copy()));
    let agent: Arc<dyn Agent> = harness.agent().await.into();
    let mut runs = JoinSet::new();
    for number in 0..50_u32 {
        let (harness, agent) = (Arc::clone(&harness), Arc::clone(&agent));
        runs.spawn(async move {
            let script = format!("shell seq {number} $(({number} + 99)); exit {number}");
            let sink = RecordingSink::new();
            let report = harness.run_with(&*agent, &script, &sink).await.unwrap();
            assert_eq!(report.exit, Some(format!("exit status: {number}")));
            let texts: Vec<_> = (number..number + 100).map(|n| n.to_string()).collect();
            let seen: Vec<_> = sink.events().iter().filter_map(text_of).collect();
            assert_eq!(seen, texts);
        });
    }
    runs.join_all().await;
}

fn text_of(event: &Event) -> Option<String> {
    match event {
        Event::Text { text } => Some(text.clone()),
        _ => None,
    }
}

#[tokio::test]
async fn what_it_prints_is_no_frame() {
    let harness = harness();
    let agent = harness.agent().await;
    let sink = RecordingSink::new();
    let report = harness.run_with(&*agent, "print", &sink).await.unwrap();
    // The child's standard input is empty, so that it has not eaten the host's frames.
    assert_eq!(report.final_text.as_deref(), Some("child: exit status: 0"));
    let printed: Vec<_> = sink
        .events()
        .iter()
        .filter_map(|event| match event {
            Event::Stderr { text } => Some(text.clone()),
            _ => None,
        })
        .collect();
    assert!(printed.iter().any(|line| line == "a stray print"), "{printed:?}");
    assert!(printed.iter().any(|line| line == "from a child"), "{printed:?}");
}

#[tokio::test]
async fn what_it_prints_after_its_report_is_an_event_too() {
    let harness = harness();
    let agent = harness.try_agent(json!({"drop": "print"})).await.unwrap();
    let sink = RecordingSink::new();
    harness.run_with(&*agent, "echo on", &sink).await.unwrap();
    let is_late =
        |event: &Event| matches!(event, Event::Stderr { text } if text == "printed at the end");
    assert!(sink.events().iter().any(is_late), "{:?}", sink.events());
}

#[tokio::test]
async fn what_it_leaves_behind_is_ended_and_reported() {
    let harness = harness();
    let agent = harness.agent().await;
    let report = harness.run(&*agent, "leak").await.unwrap();
    assert!(report.left_behind.iter().any(|name| name.contains("sleep")), "{report:?}");
    let pid = report.final_text.unwrap();
    assert!(!Path::new("/proc").join(pid).exists());
    harness.nothing_is_left().await;
}

#[tokio::test]
async fn panics_before_any_run_are_mistakes_of_the_configuration() {
    let harness = PluginHarness::new(MISBEHAVING.copy());
    for create in ["panic", "panic-in-describe"] {
        let Err(error) = harness.try_agent(json!({"create": create})).await else { panic!() };
        assert!(error.contains("the plugin panicked: deliberate panic in"), "{error}");
    }
    let Err(error) = harness.try_agent(json!({"create": "refuse"})).await else { panic!() };
    assert_eq!(error, "refused on purpose");
    // One that panics when it is dropped at the end has done its work by then.
    let agent = harness.try_agent(json!({"drop": "panic"})).await.unwrap();
    assert_eq!(harness.said(&*agent, "echo on").await, "on");
}

#[tokio::test]
async fn panics_that_nobody_else_reports_are_warnings() {
    let harness = harness();
    let agent = harness.agent().await;
    for (prompt, text) in [
        ("panic-in-task", "panicked: deliberate panic in a task"),
        ("panic-in-thread", "panicked: deliberate panic on a thread of its own"),
    ] {
        let sink = RecordingSink::new();
        let report = harness.run_with(&*agent, prompt, &sink).await.unwrap();
        assert_eq!(report.final_text.as_deref(), Some("survived: true"));
        let warned = sink.events().iter().any(|event| {
            let Event::Warning { message } = event else { return false };
            message.contains(text) && message.contains("location=\"src/bad.rs:")
        });
        assert!(warned, "{prompt}: {:?}", sink.events());
    }
}

#[tokio::test]
async fn it_gets_the_environment_of_the_iteration_and_no_other() {
    let harness = harness();
    let agent = harness.agent().await;
    let said = harness.said(&*agent, "env").await;
    let mut names: Vec<_> = said.lines().filter_map(|line| line.split('=').next()).collect();
    names.sort_unstable();
    assert_eq!(names, ["PATH", "RALPH_ITERATION", "RALPH_RUN_ID", "RALPH_TEST_MARK"]);
}

/// Checks that the basics work with this library.
async fn works(copy: &PrivateCopy) {
    let harness = PluginHarness::new(copy);
    let agent = harness.agent().await;
    for (prompt, expected) in
        [("echo hello", "hello"), ("threads", "30"), ("timers", "in time: false")]
    {
        assert_eq!(harness.said(&*agent, prompt).await, expected);
    }
    let sink = RecordingSink::new();
    let report = harness.run_with(&*agent, "shell echo one; echo two; exit 3", &sink).await;
    assert_eq!(report.unwrap().exit.as_deref(), Some("exit status: 3"));
    let texts = ["one", "two"].map(|text| Event::Text { text: text.into() });
    let seen = sink.events().clone();
    assert!(texts.iter().all(|text| seen.contains(text)), "{seen:?}");
}

#[tokio::test]
async fn processes_timers_and_threads_work() {
    works(MISBEHAVING.copy()).await;
}

#[tokio::test]
async fn a_plugin_of_another_compiler_with_an_old_tokio_works() {
    let manifest = &OLD.copy().header().manifest;
    assert!(manifest.rustc.as_ref().unwrap().contains("nightly"), "{manifest:?}");
    assert_eq!((manifest.name.as_str(), manifest.version.as_str()), ("misbehaving-old", "9.9.9"));
    works(OLD.copy()).await;
}

#[tokio::test]
async fn a_validator_that_panics_accepts_nothing_and_the_next_works() {
    let harness = PluginHarness::new(MISBEHAVING.copy());
    let validator = harness.validator().await;
    assert_eq!(validator.describe().demands, "nothing");
    let verdict = harness.verdict(&*validator, "panic", &NeverCancelled).await;
    let Verdict::Error { message } = verdict else { panic!("{verdict:?}") };
    assert!(message.contains("deliberate panic in validate"), "{message}");
    let verdict = harness.verdict(&*validator, "all is well", &NeverCancelled).await;
    let Verdict::Accepted { summary, .. } = verdict else { panic!("{verdict:?}") };
    assert_eq!(summary, "all is well");
    let sink = RecordingSink::new();
    sink.cancel(CancelReason::Timeout);
    let verdict = harness.verdict(&*validator, "wait", &sink).await;
    assert!(!verdict.is_accepted(), "{verdict:?}");
}

/// Counts, and keeps nothing.
#[derive(Default)]
struct Counter(AtomicU64);

#[async_trait]
impl CancelSignal for Counter {
    async fn cancelled(&self) -> CancelReason {
        std::future::pending().await
    }
}

#[async_trait]
impl EventSink for Counter {
    async fn emit(&self, event: Event) {
        if matches!(event, Event::Text { .. }) {
            self.0.fetch_add(1, Ordering::Relaxed);
        }
    }
}

/// The most memory that this process ever had, in kibibytes.
fn peak() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap();
    line.trim().trim_end_matches(" kB").parse().unwrap()
}

#[tokio::test]
#[allow(clippy::print_stderr, reason = "for whoever asks for more events")]
async fn a_flood_stays_within_bounds() {
    // Ten million are RALPH_TEST_FLOOD=10000000, and take minutes.
    let count = std::env::var("RALPH_TEST_FLOOD").map_or(50_000, |count| count.parse().unwrap());
    let harness = PluginHarness::new(MISBEHAVING.copy());
    let agent = harness.agent().await;
    let counter = Counter::default();
    let (before, start) = (peak(), Instant::now());
    let flood = agent.run(harness.task(&format!("flood {count}")), &counter).await.unwrap();
    let (grown, took) = (peak() - before, start.elapsed());
    assert_eq!(flood.final_text.as_deref(), Some(&*count.to_string()));
    assert_eq!(counter.0.load(Ordering::Relaxed), count);
    // Other tests of this process run beside it.
    assert!(grown < 256 * 1024, "{grown} KiB more for {count} events");
    eprintln!("{count} events in {took:?}, {grown} KiB more at the peak");
}

#[test]
fn a_flood_of_events_and_of_output_gives_way() {
    for prompt in ["flood 1000000000", "shell yes"] {
        assert_gives_way(prompt, move || async move {
            let harness = PluginHarness::new(MISBEHAVING.copy());
            let agent = harness.agent().await;
            drop(agent.run(harness.task(prompt), &NoSink).await);
        });
    }
}

/// Takes everything at once and keeps nothing.
struct NoSink;

#[async_trait]
impl CancelSignal for NoSink {
    async fn cancelled(&self) -> CancelReason {
        NeverCancelled.cancelled().await
    }
}

#[async_trait]
impl EventSink for NoSink {
    async fn emit(&self, _event: Event) {}
}
