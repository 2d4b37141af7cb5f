//! Scenarios with the orchestrator's own tools: an adapter whose model calls one reports what it is for.

use ralph_orchestrator_contract::{ClaimKind, Event, ValidationPreview};

use crate::fixture::{Fixture, Subject};
use crate::scenarios::{NotPassed, PROMPT, ended, said_after};
use crate::{RecordingSink, Scenario};

/// What is claimed.
pub(super) const CLAIM: &str = "Everything is written, and the tests pass.";
/// What is noted.
pub(super) const NOTE: &str = "The parser is done; go on with the printer.";
/// Why the claim would be rejected.
const REASON: &str = "tests/parser.rs fails";

/// Has the model call a tool, and looks for what it is for among the events.
pub(super) async fn call(
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
