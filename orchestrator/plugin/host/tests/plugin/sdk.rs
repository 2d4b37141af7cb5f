//! The SDK: what a plugin's code may do in a session.

use std::sync::Arc;
use std::time::Duration;

use ralph_orchestrator_contract::{BacklogEdit, CancelReason, FormatError, NewItem};
use ralph_orchestrator_plugin_host::{CallOutcome, OpenError};
use ralph_orchestrator_plugin_protocol::{
    Answer, EditedBacklog, InspectInput, ItemKind, LogLevel, Method, Provided,
};
use serde_json::json;
use tokio::task::JoinSet;
use tokio::time::timeout;

use crate::built::MISBEHAVING;
use crate::session::{LONG, agent, armed, listen, open, run, start, task};

#[tokio::test]
async fn it_describes_itself_and_does_what_it_is_asked() {
    let session = start(MISBEHAVING.copy()).await;
    let hello = session.hello();
    assert_eq!((hello.name.as_str(), hello.version.as_str()), ("misbehaving", "0.1.0"));
    let kinds: Vec<_> = hello.provides.iter().map(|item| (item.kind, &*item.summary)).collect();
    let expected = [
        (ItemKind::Agent, "Does what its prompt says."),
        (ItemKind::Detector, "Finds nothing."),
        (ItemKind::Validator, "Accepts every claim."),
        (ItemKind::Backlog, "Has an item in each line."),
    ];
    assert_eq!(kinds, expected);
    assert_eq!(MISBEHAVING.copy().header().manifest.provides, hello.provides);

    let (instance, provided) = open(&session, ItemKind::Agent, json!({})).await.unwrap();
    let Provided::Agent(description) = provided else { panic!("{provided:?}") };
    assert_eq!(description.summary, "configured in /where/ralph.toml/is");
    assert_eq!(run(&session, instance, "echo hello you").await.said(), "hello you");
    assert_eq!(run(&session, instance, "task").await.said(), "r-1 7 \"/w\"");
    assert_eq!(run(&session, instance, "timers").await.texts, ["0", "1", "2", "3", "4"]);
    assert_eq!(run(&session, instance, "threads").await.said(), "30");
    let shell = run(&session, instance, "shell echo one; echo two; exit 3").await;
    assert_eq!(shell.texts, ["one", "two"]);
    assert_eq!(shell.report().exit.as_deref(), Some("exit status: 3"));
}

#[tokio::test]
async fn a_mistake_in_its_table_is_named_by_its_key() {
    let session = start(MISBEHAVING.copy()).await;
    let refused = |error| match error {
        OpenError::Refused(error) => error,
        other => panic!("{other}"),
    };
    let unknown = open(&session, ItemKind::Agent, json!({"creat": 1})).await.unwrap_err();
    assert_eq!(refused(unknown).unknown_key.as_deref(), Some("creat"));
    let wrong = open(&session, ItemKind::Agent, json!({"create": 1})).await.unwrap_err();
    assert_eq!(refused(wrong).key, ["create"]);
    let own = open(&session, ItemKind::Agent, json!({"create": "refuse"})).await.unwrap_err();
    let own = refused(own);
    assert_eq!((own.key, own.message), (vec!["create".to_owned()], "refused on purpose".into()));
    let nobody =
        session.open(ItemKind::Agent, Some("x"), json!({}), &crate::session::context()).await;
    let nobody = refused(nobody.unwrap_err()).message;
    assert_eq!(nobody, "the plugin misbehaving has no agent `x`; those it has: `bad`");
    agent(&session).await;
}

#[tokio::test]
async fn panics_while_it_is_built_are_refusals() {
    let session = start(MISBEHAVING.copy()).await;
    for (create, expected) in [
        ("panic", "the plugin panicked: deliberate panic in create (at src/lib.rs:"),
        ("panic-in-describe", "the plugin panicked: deliberate panic in describe (at src/lib.rs:"),
    ] {
        let error = open(&session, ItemKind::Agent, json!({"create": create})).await.unwrap_err();
        assert!(error.to_string().contains(expected), "{error}");
    }
    let instance = agent(&session).await;
    assert_eq!(run(&session, instance, "echo on").await.said(), "on");
}

#[tokio::test]
async fn panics_in_a_run_fail_that_run_only() {
    let session = start(MISBEHAVING.copy()).await;
    let instance = agent(&session).await;
    for (prompt, text) in [
        ("panic", "deliberate panic in run"),
        ("panic-after-waiting", "deliberate panic after waiting"),
        ("panic-in-drop", "deliberate panic in drop"),
        ("panic-with-a-number", "a panic without a message"),
    ] {
        let failure = run(&session, instance, prompt).await.failure();
        assert!(failure.starts_with("it panicked at src/bad.rs:"), "{prompt}: {failure}");
        assert!(failure.ends_with(text), "{prompt}: {failure}");
        assert_eq!(run(&session, instance, "echo on").await.said(), "on", "after {prompt}");
    }
}

#[tokio::test]
async fn panics_of_detectors_and_validators_fail_the_call() {
    let session = start(MISBEHAVING.copy()).await;
    let (detector, provided) = open(&session, ItemKind::Detector, json!({})).await.unwrap();
    let Provided::Detector(description) = provided else { panic!("{provided:?}") };
    assert!(description.observes);
    let inspect = |prompt: &str| Method::Inspect {
        input: InspectInput {
            workspace: "/w".into(),
            prompt_path: None,
            prompt: Some(prompt.into()),
            final_text: None,
            given: None,
        },
    };
    let mut call = session.call(detector, inspect("panic")).await.unwrap();
    let outcome = timeout(LONG, call.outcome()).await.unwrap();
    assert!(matches!(outcome, CallOutcome::Panicked { message } if message.contains("in inspect")));
    let mut call = session.call(detector, inspect("fine")).await.unwrap();
    let outcome = timeout(LONG, call.outcome()).await.unwrap();
    assert!(matches!(outcome, CallOutcome::Done(Answer::Findings(_))));
}

#[tokio::test]
async fn what_it_says_goes_to_the_log_with_fields_and_spans() {
    let session = start(MISBEHAVING.copy()).await;
    let instance = agent(&session).await;
    let all = run(&session, instance, "log").await;
    let [line] = all.logs.as_slice() else { panic!("{:?}", all.logs) };
    assert_eq!((line.level, line.message.as_str()), (LogLevel::Warn, "something odd"));
    assert_eq!(line.target, "misbehaving::good");
    assert_eq!(json!(line.fields), json!({"answer": 42, "ratio": 0.5, "good": true}));
    let spans: Vec<_> = line.spans.iter().map(|span| (&*span.name, json!(span.fields))).collect();
    assert_eq!(spans, [("outer", json!({"number": 1, "later": "recorded"}))]);
}

#[tokio::test]
async fn it_can_ask_what_would_become_of_its_work() {
    let session = start(MISBEHAVING.copy()).await;
    let instance = agent(&session).await;
    let all = run(&session, instance, "preview what I say").await;
    let no = |what: &str| format!("Rejected {{ reasons: [\"no, {what}\"] }}");
    let expected = format!("{} {}", no("Some(\\\"what I say\\\")"), no("None"));
    assert_eq!(all.said(), expected);
    // Also when the first answer is not waited for: the host wants one question at a time.
    let all = run(&session, instance, "forget-a-question").await;
    assert_eq!(all.said(), no("Some(\\\"second\\\")"));
}

#[tokio::test]
async fn a_run_that_listens_ends_when_it_is_cancelled() {
    let session = start(MISBEHAVING.copy()).await;
    let instance = agent(&session).await;
    let running = armed(&session, instance, "wait").await;
    running.cancel(CancelReason::MaxCost, LONG);
    let failure = listen(running).await.failure();
    assert_eq!(failure, "cancelled: limits.max_cost_usd was reached");
}

#[tokio::test]
async fn a_run_that_does_not_listen_is_aborted_within_its_grace() {
    let session = start(MISBEHAVING.copy()).await;
    let instance = agent(&session).await;
    for (prompt, expected) in [
        ("ignore-cancel", "cancelled: it did not end after cancellation and was aborted"),
        ("panic-when-aborted", "it panicked: deliberate panic when aborted"),
    ] {
        let running = armed(&session, instance, prompt).await;
        running.cancel(CancelReason::Timeout, Duration::from_millis(50));
        assert_eq!(listen(running).await.failure(), expected);
    }
    assert_eq!(run(&session, instance, "echo on").await.said(), "on");
}

#[tokio::test]
async fn threads_that_never_come_back_hold_up_nobody_else() {
    let session = start(MISBEHAVING.copy()).await;
    let instance = agent(&session).await;
    let stuck = armed(&session, instance, "block").await;
    stuck.cancel(CancelReason::Timeout, Duration::from_millis(50));
    // One of two workers is gone for good; the other goes on.
    assert_eq!(run(&session, instance, "echo on").await.said(), "on");
    drop(stuck);
    assert_eq!(run(&session, instance, "echo and on").await.said(), "and on");
}

#[tokio::test]
async fn a_flood_waits_for_those_who_read_it() {
    let session = start(MISBEHAVING.copy()).await;
    let instance = agent(&session).await;
    let all = run(&session, instance, "flood 20000").await;
    assert_eq!(all.said(), "20000");
    assert!(all.texts.iter().map(String::as_str).eq((0..20_000).map(|n| n.to_string())));
}

#[tokio::test]
async fn fifty_at_once_lose_no_event_and_no_exit_status() {
    let session = start(MISBEHAVING.copy()).await;
    let instance = agent(&session).await;
    let session = Arc::new(session);
    let mut runs = JoinSet::new();
    for number in 0..50 {
        let script = format!("shell seq {number} $(({number} + 99)); exit {number}");
        let session = Arc::clone(&session);
        runs.spawn(async move { (number, run(&session, instance, &script).await) });
    }
    for (number, all) in runs.join_all().await {
        let expected = (number..number + 100).map(|line: u32| line.to_string());
        assert!(all.texts.iter().cloned().eq(expected), "{number}: {:?}", all.texts);
        assert_eq!(all.report().exit.as_deref(), Some(&*format!("exit status: {number}")));
    }
}

#[tokio::test]
async fn an_ordinary_error_arrives_with_its_class_and_report() {
    let session = start(MISBEHAVING.copy()).await;
    let instance = agent(&session).await;
    let all = run(&session, instance, "error").await;
    let Some(CallOutcome::Failed(error)) = all.outcome else { panic!("{:?}", all.outcome) };
    assert_eq!(error.class.word(), "billing");
    assert_eq!(error.report.session.as_deref(), Some("s-1"));
}

#[tokio::test]
async fn a_prompt_that_is_no_text_arrives_byte_for_byte() {
    let session = start(MISBEHAVING.copy()).await;
    let instance = agent(&session).await;
    let Method::Run { mut task } = task("") else { panic!() };
    let (_, base64) = (task.prompt.take(), "Ynl0ZXMg/w==");
    task.prompt_base64 = Some(base64.into());
    let all = listen(session.call(instance, Method::Run { task }).await.unwrap()).await;
    assert_eq!(all.said(), "[98, 121, 116, 101, 115, 32, 255]");
}

#[tokio::test]
async fn a_call_of_what_is_not_there_fails() {
    let session = start(MISBEHAVING.copy()).await;
    assert_eq!(
        run(&session, 99, "echo").await.failure(),
        "invalid_request: there is no instance 99"
    );
    let (detector, _) = open(&session, ItemKind::Detector, json!({})).await.unwrap();
    assert_eq!(
        run(&session, detector, "echo").await.failure(),
        "invalid_request: a plugin's detector has no method `run`"
    );
}

#[tokio::test]
async fn a_format_of_backlogs_reads_and_edits_texts() {
    let session = start(MISBEHAVING.copy()).await;
    let (format, provided) = open(&session, ItemKind::Backlog, json!({})).await.unwrap();
    let Provided::Backlog(description) = provided else { panic!("{provided:?}") };
    assert_eq!(description.example, "one\n");
    let outcome = async |method| {
        let mut call = session.call(format, method).await.unwrap();
        timeout(LONG, call.outcome()).await.unwrap()
    };
    let read = async |text: &str| match outcome(Method::ReadBacklog { text: text.into() }).await {
        CallOutcome::Done(Answer::Backlog(read)) => read.into_items(),
        CallOutcome::Failed(error) => Err(FormatError::Failed(error.message)),
        CallOutcome::Panicked { message } => Err(FormatError::Failed(message)),
        other => panic!("{other:?}"),
    };
    let ids = |items: Vec<ralph_orchestrator_contract::BacklogItem>| -> Vec<String> {
        items.into_iter().map(|item| item.id).collect()
    };
    assert_eq!(ids(read("one\ntwo\n").await.unwrap()), ["one", "two"]);
    let defects = read("defect").await.unwrap_err();
    assert!(matches!(&defects, FormatError::Defects(all) if all[0].message == "it is wrong"));
    for (text, says) in [("panic", "deliberate panic in read"), ("no defect", "0 defects")] {
        let error = read(text).await.unwrap_err();
        assert!(matches!(&error, FormatError::Failed(why) if why.contains(says)), "{error:?}");
    }
    let edit =
        async |edit| outcome(Method::EditBacklog { text: "one\n".into(), edits: vec![edit] }).await;
    let item = NewItem { title: "two".into(), ..NewItem::default() };
    let edited = edit(BacklogEdit::Add { item }).await;
    let CallOutcome::Done(Answer::Edited(edited)) = edited else { panic!("{edited:?}") };
    assert_eq!(edited, EditedBacklog::Text("one\ntwo\n".into()));
    let id = || "one".to_owned();
    let refused = edit(BacklogEdit::SetNotes { id: id(), notes: Vec::new() }).await;
    let CallOutcome::Done(Answer::Edited(refused)) = refused else { panic!("{refused:?}") };
    assert_eq!(refused.into_text(), Err(FormatError::NotStorable("notes".into())));
    let status = ralph_orchestrator_contract::ItemStatus::Completed;
    let failed = edit(BacklogEdit::SetStatus { id: id(), status }).await;
    let CallOutcome::Failed(error) = failed else { panic!("{failed:?}") };
    assert_eq!(error.message, "it can only add");
}
