//! Runs the scenarios.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use ralph_orchestrator_contract::{
    AgentError, CancelReason, CancelSignal, ClaimKind, ErrorClass, Event, EventSink,
    NeverCancelled, Report, Tokens, Usage, ValidationPreview, async_trait,
};

use crate::fixture::{Behaviour, FIRST, Fixture, LAST, Subject};
use crate::{BusyTool, Options, RecordingSink, Scenario, SubjectFuture};

const SAID: &str = "All is well: ünïcödé \u{1f980}.";
const PROMPT: &[u8] = b"Do it.";
/// What is claimed.
const CLAIM: &str = "Everything is written, and the tests pass.";
/// What is noted.
const NOTE: &str = "The parser is done; go on with the printer.";
/// Why the claim would be rejected.
const REASON: &str = "tests/parser.rs fails";
/// No event is larger, in bytes, however much is printed.
const EVENT_MAX: usize = 16 * 1024 * 1024;
/// What is printed in a flood may not be held all at once.
const GROWTH_MAX: u64 = 256 * 1024;
/// How long an agent may take until it waits for something.
const SLOW: Duration = Duration::from_secs(60);

type CheckResult = Result<(), String>;
type Make<'a> = &'a dyn Fn(&Fixture) -> SubjectFuture;

/// Why a scenario was not passed.
#[derive(Debug)]
pub(super) enum NotPassed {
    /// What is wrong.
    Failed(String),
    /// What the adapter does not say that it can.
    Unsupported(String),
}

impl From<String> for NotPassed {
    fn from(why: String) -> Self {
        Self::Failed(why)
    }
}

/// Runs a scenario, and returns the adapter's name.
pub(super) async fn run_scenario(
    scenario: Scenario,
    options: &Options,
    make: Make<'_>,
) -> Result<String, NotPassed> {
    let fixture = Fixture::new(behaviour(scenario));
    let subject = make(&fixture).await?;
    let name = subject.agent().describe().name;
    if let Some(missing) = missing_capability(scenario, &subject) {
        return Err(NotPassed::Unsupported(format!("it does not promise `{missing}`")));
    }
    match scenario {
        Scenario::Check => check(&fixture, &subject).await,
        Scenario::Start => start(&fixture, &subject).await,
        Scenario::TreeEnd | Scenario::BadOutput => {
            said_after(&ended(&fixture, &subject, PROMPT, &RecordingSink::new()).await?)
        }
        Scenario::Order => order(&fixture, &subject).await,
        Scenario::LongPrompt => long_prompt(&fixture, &subject, options.prompt_max).await,
        Scenario::BadPrompt => bad_prompt(&fixture, &subject).await,
        Scenario::Flood => flood(&fixture, &subject).await,
        Scenario::CancelBefore => cancel_before(&fixture, &subject).await,
        Scenario::CancelAtFirstEvent => {
            cancel_at_first_event(CancelReason::Signal, &fixture, &subject).await
        }
        Scenario::HandOff => cancel_at_first_event(CancelReason::Handoff, &fixture, &subject).await,
        Scenario::Deadline | Scenario::CancelInMessage => slow(&fixture, &subject).await,
        Scenario::CancelInTool | Scenario::Drop => {
            let tool = BusyTool::new();
            let tool = if options.supervised { tool } else { tool.hiding_nothing() };
            in_tool(make, tool, scenario == Scenario::Drop).await
        }
        Scenario::Usage => usage(&fixture, &subject).await,
        Scenario::Context => context(&fixture, &subject).await,
        Scenario::ClaimByTool | Scenario::Preview | Scenario::Note => {
            call_own_tool(scenario, &fixture, &subject).await?;
            Ok(())
        }
        Scenario::RateLimited
        | Scenario::Unauthenticated
        | Scenario::InvalidRequest
        | Scenario::ProviderFails => refused(scenario, &fixture, &subject).await,
    }
    .and_then(|()| fixture.check_no_processes())?;
    Ok(name)
}

fn behaviour(scenario: Scenario) -> Behaviour {
    let runs =
        |command: &str| Behaviour::Command { command: command.to_owned(), text: SAID.to_owned() };
    match scenario {
        Scenario::Check
        | Scenario::Start
        | Scenario::LongPrompt
        | Scenario::BadPrompt
        | Scenario::CancelBefore => Behaviour::Message { text: SAID.to_owned() },
        Scenario::Order | Scenario::Usage | Scenario::Context => runs("echo from the tool"),
        Scenario::BadOutput => runs("printf 'a\\377\\376\\000b\\n\\033[31m\\303'"),
        Scenario::Flood => runs("head -c 67108864 /dev/zero | tr '\\000' x"),
        Scenario::TreeEnd => runs("setsid sleep 1000 </dev/null >/dev/null 2>&1 & echo begun"),
        // Their command needs a place of its own.
        Scenario::CancelInTool
        | Scenario::Drop
        | Scenario::CancelAtFirstEvent
        | Scenario::HandOff
        | Scenario::Deadline => Behaviour::Hang,
        Scenario::ClaimByTool | Scenario::Preview => {
            Behaviour::Claim { claim: CLAIM.to_owned(), text: SAID.to_owned() }
        }
        Scenario::Note => Behaviour::Note { note: NOTE.to_owned(), text: SAID.to_owned() },
        Scenario::CancelInMessage => Behaviour::StallInMessage,
        Scenario::RateLimited => Behaviour::HttpError { status: 429 },
        Scenario::Unauthenticated => Behaviour::HttpError { status: 401 },
        Scenario::InvalidRequest => Behaviour::HttpError { status: 400 },
        Scenario::ProviderFails => Behaviour::HttpError { status: 500 },
    }
}

/// Returns the capability without which a scenario makes no sense, if the adapter does not promise it.
fn missing_capability(scenario: Scenario, subject: &Subject) -> Option<&'static str> {
    let can = subject.agent().describe().capabilities;
    match scenario {
        Scenario::Context if !can.context => Some("context"),
        Scenario::Preview if !can.in_session_validation => Some("in_session_validation"),
        _ => None,
    }
}

/// Runs to the end, after which nothing may be left.
async fn ended(
    fixture: &Fixture,
    subject: &Subject,
    prompt: &[u8],
    sink: &dyn EventSink,
) -> Result<Result<Report, AgentError>, String> {
    let result = subject.agent().run(fixture.task(subject, prompt.to_vec()), sink).await;
    fixture.check_no_processes()?;
    Ok(result)
}

fn said(result: &Result<Report, AgentError>) -> CheckResult {
    let report = result.as_ref().map_err(|error| format!("it failed: {error}"))?;
    let text = report.final_text.as_deref().map(str::trim_end);
    match text {
        Some(SAID) => Ok(()),
        Some(text) => Err(format!("expected the final text {SAID:?}, got {:?}", end_of(text))),
        None => Err(format!("expected the final text {SAID:?}, got none")),
    }
}

/// Returns as much of the end of a text as a line can show.
fn end_of(text: &str) -> String {
    let start = text.ceil_char_boundary(text.len().saturating_sub(120));
    let end = text.get(start..).unwrap_or(text);
    if start > 0 { format!("…{end}") } else { end.to_owned() }
}

/// Returns with which text a run came to a good end, for messages.
fn text_of(report: &Report) -> String {
    match &report.final_text {
        Some(text) => format!(" with the final text {:?}", end_of(text)),
        None => " without a final text".to_owned(),
    }
}

/// It has ended as it was asked to.
fn cancelled(
    sink: &RecordingSink,
    result: Result<Result<Report, AgentError>, String>,
) -> CheckResult {
    match result? {
        // It was killed: the agent itself did not react.
        Err(error) if error.message.contains("did not end within") => Err(error.message),
        Err(error) if error.class == ErrorClass::Cancelled => claims_nothing(sink, &error),
        Err(error) => Err(format!("its error is {}: {error}", error.class.word())),
        Ok(report) => Err(format!("it went on to a good end{}", text_of(&report))),
    }
}

/// A failure says nothing that counts but whose session it was.
fn claims_nothing(sink: &RecordingSink, error: &AgentError) -> CheckResult {
    let session = sink.events().iter().find_map(|event| match event {
        Event::Session { id, .. } => Some(id.clone()),
        _ => None,
    });
    let (report, class) = (&error.report, error.class.word());
    if let Some(text) = &report.final_text {
        let text = end_of(text);
        return Err(format!("the report of a `{class}` run has a `final_text`: {text:?}"));
    }
    match (&session, &report.session) {
        (Some(announced), None) => Err(format!(
            "the report of a `{class}` run lacks `session`: it announced `{announced}`"
        )),
        (Some(announced), Some(named)) if named != announced => Err(format!(
            "the report of a `{class}` run has the session `{named}`: it announced `{announced}`"
        )),
        _ => Ok(()),
    }
}

async fn cancel_at_first_event(
    reason: CancelReason,
    fixture: &Fixture,
    subject: &Subject,
) -> CheckResult {
    let sink = RecordingSink::cancelling_at(|_| true).with_reason(reason);
    cancelled(&sink, ended(fixture, subject, PROMPT, &sink).await)
}

async fn cancel_before(fixture: &Fixture, subject: &Subject) -> CheckResult {
    let sink = RecordingSink::new();
    sink.cancel(CancelReason::Signal);
    cancelled(&sink, ended(fixture, subject, PROMPT, &sink).await)?;
    match fixture.server.main_requests().len() {
        0 => Ok(()),
        count => Err(format!("it asked the model {count} times")),
    }
}

async fn check(fixture: &Fixture, subject: &Subject) -> CheckResult {
    let env = fixture.env(subject);
    let before = fixture.files();
    let mut reported = BTreeSet::new();
    for _ in 0..2 {
        reported.insert(subject.agent().check(&env).await.map_err(|error| error.to_string())?);
    }
    if reported.len() != 1 || reported.first().is_none_or(String::is_empty) {
        let reported: Vec<_> = reported.iter().map(|text| format!("`{text}`")).collect();
        let reported = reported.join(", then ");
        return Err(format!("its `check` finds nothing, or not the same twice: {reported}"));
    }
    if subject.agent().describe() != subject.agent().describe() {
        return Err("it does not describe itself always the same".to_owned());
    }
    if !fixture.server.main_requests().is_empty() {
        return Err("it asked the model".to_owned());
    }
    if fixture.files() != before {
        return Err(format!("it changed the workspace: {}", fixture.files().join(", ")));
    }
    fixture.wait_for_no_processes().await
}

async fn order(fixture: &Fixture, subject: &Subject) -> CheckResult {
    let sink = RecordingSink::new();
    said_after(&ended(fixture, subject, PROMPT, &sink).await?)?;
    let events = sink.events();
    let (mut session, mut began) = (None, None);
    let (mut called, mut answered) = (BTreeSet::new(), BTreeSet::new());
    for event in events.iter() {
        match event {
            // Agents without sessions tell of none.
            Event::Session { id, .. } => {
                if let (None, Some(event)) = (session, began) {
                    let event = serde_json::to_string(event).unwrap_or_default();
                    return Err(format!("before the event `session` came {event}"));
                }
                if session.replace(id).is_some_and(|before| before != id) {
                    return Err("two sessions began".to_owned());
                }
            }
            Event::ToolCall { id, .. } if !called.insert(id) => {
                return Err(format!("the call {id} was told of twice"));
            }
            Event::Text { .. } | Event::ToolCall { .. } => began = Some(event),
            Event::ToolResult { id, .. } if !called.contains(id) || !answered.insert(id) => {
                return Err(format!("a result without its call, or twice: {id}"));
            }
            _ => {}
        }
    }
    if called != answered {
        let missing: Vec<&str> = called.difference(&answered).map(|id| id.as_str()).collect();
        return Err(format!("without a `tool_result`: {}", missing.join(", ")));
    }
    if has_told(&events, SAID) { Ok(()) } else { Err("its text was not told".to_owned()) }
}

/// Whether a message of the agent ends with this text: pieces of one message follow each other, with nothing but what the agent
/// did not say between them.
fn has_told(events: &[Event], said: &str) -> bool {
    let mut message = String::new();
    events.iter().any(|event| {
        match event {
            Event::Text { text } => message.push_str(text),
            Event::ToolCall { .. } | Event::ToolResult { .. } => message.clear(),
            _ => {}
        }
        message.trim_end().ends_with(said)
    })
}

/// Returns tokens and cost in words.
fn figures(usage: &Usage) -> String {
    let tokens = usage.tokens.map(|tokens| {
        let Tokens { input, output, cache_read, cache_write } = tokens;
        format!("{input} input, {output} output, {cache_read} cache_read, {cache_write} cache_write tokens")
    });
    let cost = usage.cost.map(|cost| cost.to_string());
    let all: Vec<String> = tokens.into_iter().chain(cost).collect();
    if all.is_empty() { "no usage".to_owned() } else { all.join(" and ") }
}

async fn start(fixture: &Fixture, subject: &Subject) -> CheckResult {
    let sink = RecordingSink::new();
    said(&ended(fixture, subject, PROMPT, &sink).await?)?;
    grown(&sink).map(drop)
}

/// Returns the last figures; fails if one is less than it was.
fn grown(sink: &RecordingSink) -> Result<Usage, String> {
    let mut last = Usage::default();
    for usage in sink.usages() {
        // A figure that is not told is what it was.
        let fell = usage.tokens.is_some() && usage.tokens != last.max(usage).tokens
            || usage.cost.is_some_and(|cost| Some(cost) < last.cost);
        if fell {
            let (before, after) = (figures(&last), figures(&usage));
            return Err(format!(
                "its `usage` fell, but is the sum since the iteration began: {before}, then {after}"
            ));
        }
        last = last.max(usage);
    }
    Ok(last)
}

async fn usage(fixture: &Fixture, subject: &Subject) -> CheckResult {
    let sink = RecordingSink::new();
    let result = ended(fixture, subject, PROMPT, &sink).await?;
    said_after(&result)?;
    let report = result.map_err(|error| error.to_string())?;
    let last = grown(&sink)?;
    let can = subject.agent().describe().capabilities;
    let reported = figures(&report.usage);
    if can.tokens && report.usage.tokens != Some(FIRST + LAST) {
        let served = Usage { tokens: Some(FIRST + LAST), ..Usage::default() };
        return Err(format!("it reports {reported}, but the model served {}", figures(&served)));
    }
    if last.max(report.usage) != report.usage {
        let sums = figures(&last);
        return Err(format!("its report has {reported}, less than its events: {sums}"));
    }
    Ok(())
}

async fn context(fixture: &Fixture, subject: &Subject) -> CheckResult {
    let sink = RecordingSink::new();
    said_after(&ended(fixture, subject, PROMPT, &sink).await?)?;
    let events = sink.events();
    let last = events.iter().rev().find_map(|event| match event {
        Event::Context { used, window } => Some((*used, *window)),
        _ => None,
    });
    let Some((used, window)) = last else {
        return Err("it reports no `context`".to_owned());
    };
    if used == 0 || used > LAST.total() || window.is_some_and(|window| window < used) {
        return Err(format!(
            "it reports {used} of {window:?} tokens in its context, but the last request had {}",
            LAST.total()
        ));
    }
    Ok(())
}

/// Has the model call a tool of the orchestrator, and looks for what it is for among the events.
async fn call_own_tool(
    scenario: Scenario,
    fixture: &Fixture,
    subject: &Subject,
) -> Result<(), NotPassed> {
    let previews = match scenario {
        Scenario::Preview => {
            vec![Some(ValidationPreview::Rejected { reasons: vec![REASON.to_owned()] })]
        }
        _ => vec![Some(ValidationPreview::Accepted)],
    };
    let sink = RecordingSink::with_previews(previews);
    let result = ended(fixture, subject, PROMPT, &sink).await?;
    let tool = if scenario == Scenario::Note { "note" } else { "claim_complete" };
    let requests = fixture.server.main_requests();
    if requests.first().is_some_and(|request| request.offered_as(tool).is_none()) {
        return Err(NotPassed::Unsupported(format!("it offers its model no tool `{tool}`")));
    }
    said_after(&result)?;
    let events = sink.events();
    let is_reported = events.iter().any(|event| match event {
        Event::Note { text } => scenario == Scenario::Note && text == NOTE,
        Event::Claim { kind: ClaimKind::Complete, text } => {
            scenario != Scenario::Note && text == CLAIM
        }
        _ => false,
    });
    if !is_reported {
        let event = if scenario == Scenario::Note { "note" } else { "claim" };
        return Err(NotPassed::Failed(format!(
            "it reports no `{event}` with the text of the call"
        )));
    }
    if scenario == Scenario::Preview && sink.preview_requests().is_empty() {
        let why = "it requests no preview of the claim, though it promises `in_session_validation`";
        return Err(NotPassed::Failed(why.to_owned()));
    }
    // The model is told why its claim would be rejected.
    let is_given = || requests.iter().any(|request| request.body.to_string().contains(REASON));
    if scenario == Scenario::Preview && !requests.is_empty() && !is_given() {
        return Err(NotPassed::Failed(
            "its model is not told why the claim is rejected".to_owned(),
        ));
    }
    Ok(())
}

async fn long_prompt(fixture: &Fixture, subject: &Subject, bytes: usize) -> CheckResult {
    let line = "{x} $HOME {{y}} \"quoted\" `ticks` ünïcödé \u{1f980}\\n ";
    let end = "and this is the very end";
    let prompt = line.repeat(bytes.saturating_sub(end.len()) / line.len()) + end;
    said(&ended(fixture, subject, prompt.as_bytes(), &RecordingSink::new()).await?)?;
    // Who asks no model was not seen to read it, but has come to its end.
    let requests = fixture.server.main_requests();
    let Some(request) = requests.first() else { return Ok(()) };
    if holds(&request.body, &prompt) {
        Ok(())
    } else {
        Err("the prompt did not arrive as it is".to_owned())
    }
}

/// Whether a text in it, wherever, has this one in it.
fn holds(value: &serde_json::Value, wanted: &str) -> bool {
    match value {
        serde_json::Value::String(text) => text.contains(wanted),
        serde_json::Value::Array(values) => values.iter().any(|value| holds(value, wanted)),
        serde_json::Value::Object(values) => values.values().any(|value| holds(value, wanted)),
        _ => false,
    }
}

async fn bad_prompt(fixture: &Fixture, subject: &Subject) -> CheckResult {
    match ended(fixture, subject, b"Do \xff\xfe it.", &RecordingSink::new()).await? {
        Err(error) if error.class != ErrorClass::InvalidRequest => {
            Err(format!("its error is {}: {error}", error.class.word()))
        }
        _ => Ok(()),
    }
}

/// Keeps nothing but the size of the largest event.
#[derive(Default)]
struct Largest(AtomicUsize);

#[async_trait]
impl CancelSignal for Largest {
    async fn cancelled(&self) -> CancelReason {
        NeverCancelled.cancelled().await
    }
}

#[async_trait]
impl EventSink for Largest {
    async fn emit(&self, event: Event) {
        let size = serde_json::to_vec(&event).map_or(usize::MAX, |bytes| bytes.len());
        self.0.fetch_max(size, Ordering::Relaxed);
    }
}

async fn flood(fixture: &Fixture, subject: &Subject) -> CheckResult {
    let (largest, before) = (Largest::default(), memory());
    let result = ended(fixture, subject, PROMPT, &largest).await?;
    let grown = memory().saturating_sub(before);
    said_after(&result)?;
    let largest = largest.0.into_inner();
    if largest > EVENT_MAX {
        return Err(format!("an event has {largest} bytes"));
    }
    if grown > GROWTH_MAX {
        return Err(format!("memory grew by {grown} KiB"));
    }
    Ok(())
}

/// An agent whose tool's output is its own text may end its text so.
fn said_after(result: &Result<Report, AgentError>) -> CheckResult {
    let report = result.as_ref().map_err(|error| format!("it failed: {error}"))?;
    let text = report.final_text.as_deref().unwrap_or_default().trim_end();
    if text.ends_with(SAID) {
        Ok(())
    } else {
        Err(format!("expected a final text that ends with {SAID:?}, got {:?}", end_of(text)))
    }
}

/// What the process holds, in KiB.
fn memory() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    line.and_then(|line| line.split_whitespace().next()?.parse().ok()).unwrap_or(0)
}

/// Ends it once it waits, or has begun to say something.
async fn slow(fixture: &Fixture, subject: &Subject) -> CheckResult {
    let sink = RecordingSink::new();
    let cancel = async {
        let server = Arc::clone(&fixture.server);
        let stalled =
            tokio::task::spawn_blocking(move || server.wait_for_stalled(1, Duration::from_secs(5)));
        let waits = stalled.await.unwrap_or(false);
        if !waits && !fixture.server.requests().is_empty() {
            // It asks its model, and is only slow.
            let server = Arc::clone(&fixture.server);
            let again = tokio::task::spawn_blocking(move || server.wait_for_stalled(1, SLOW));
            let _ = again.await;
        }
        sink.cancel(CancelReason::Timeout);
    };
    let (result, ()) = tokio::join!(ended(fixture, subject, PROMPT, &sink), cancel);
    if let Ok(Err(error)) = &result
        && !error.message.contains(CancelReason::Timeout.because())
    {
        return Err(format!("it does not say why: {error}"));
    }
    cancelled(&sink, result)
}

/// Ends it while its tool runs: one that has started processes in sessions of their own.
async fn in_tool(make: Make<'_>, mut tool: BusyTool, drop_it: bool) -> CheckResult {
    let fixture =
        Fixture::new(Behaviour::Command { command: tool.command(), text: SAID.to_owned() });
    let subject = make(&fixture).await?;
    let sink = RecordingSink::new();
    let mut ran = false;
    let up = async { ran = tokio::time::timeout(SLOW, tool.up()).await.is_ok() };
    if drop_it {
        let task = fixture.task(&subject, PROMPT.to_vec());
        tokio::select! {
            result = subject.agent().run(task, &sink) => {
                return Err(match result {
                    Ok(report) => format!("it ended before its tool was up{}", text_of(&report)),
                    Err(error) => format!("it ended before its tool was up: {error}"),
                });
            }
            () = up => {}
        }
        fixture.wait_for_no_processes().await?;
        // One of them is not to be told by its environment.
        let gone = async {
            while !tool.is_gone() {
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
        };
        let _ = tokio::time::timeout(SLOW, gone).await;
    } else {
        let cancel = async {
            up.await;
            sink.cancel(CancelReason::Signal);
        };
        let whole = ended(&fixture, &subject, PROMPT, &sink);
        tokio::pin!(whole);
        // Who is done without the tool is not waited for.
        let result = tokio::select! {
            result = &mut whole => result,
            () = cancel => whole.await,
        };
        cancelled(&sink, result)?;
    }
    match (ran, tool.is_gone()) {
        (true, true) => Ok(()),
        (true, false) => Err("something that the tool has started is left".to_owned()),
        (false, _) => Err("the tool never ran".to_owned()),
    }
}

async fn refused(scenario: Scenario, fixture: &Fixture, subject: &Subject) -> CheckResult {
    let sink = RecordingSink::new();
    let error = match ended(fixture, subject, PROMPT, &sink).await? {
        Err(error) => error,
        Ok(report) => return Err(format!("it came to a good end{}", text_of(&report))),
    };
    let fits = match scenario {
        Scenario::RateLimited => matches!(error.class, ErrorClass::RateLimited { .. }),
        Scenario::Unauthenticated => error.class == ErrorClass::Unauthenticated,
        Scenario::InvalidRequest => error.class == ErrorClass::InvalidRequest,
        _ => matches!(error.class, ErrorClass::Overloaded | ErrorClass::Crashed),
    };
    if !fits {
        return Err(format!("its error is {}: {error}", error.class.word()));
    }
    claims_nothing(&sink, &error)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pieces_of_one_message_are_one_text() {
        let text = |text: &str| Event::Text { text: text.to_owned() };
        let call =
            Event::ToolCall { id: "1".into(), name: "t".into(), input: serde_json::Value::Null };
        let stderr = Event::Stderr { text: "x".to_owned() };
        for (events, expected) in [
            (vec![text("a word")], true),
            (vec![text("a "), stderr, text("wo"), text("rd\n")], true),
            (vec![text("before"), call.clone(), text("wor"), text("d")], true),
            (vec![text("wo"), call, text("rd")], false),
            (vec![text("wo")], false),
            (vec![], false),
        ] {
            assert_eq!(has_told(&events, "word"), expected, "{events:?}");
        }
    }
}
