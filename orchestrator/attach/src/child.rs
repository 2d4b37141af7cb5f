//! A check runs in a process of its own: whatever becomes of it, the hook has an answer.

use std::time::Duration;

use ralph_orchestrator_assembly::block_on::block_on;
use ralph_orchestrator_assembly::error::CommandError;
use ralph_orchestrator_assembly::user_folders;
use ralph_orchestrator_supervisor::{CaptureLimit, Grace, Spec, Supervisor};
use ralph_orchestrator_text::duration;

use super::check::{CheckOutcome, CheckRequest};

/// Returns the outcome of a check, or why there is none.
pub(crate) fn check(request: &CheckRequest, most: Duration) -> Result<CheckOutcome, String> {
    block_on(async { Ok(run(request, most).await) }).map_err(|error| error.summary())?
}

async fn run(request: &CheckRequest, most: Duration) -> Result<CheckOutcome, String> {
    let spec = spec(request).map_err(|error| error.summary())?;
    let output = Supervisor::this_binary()
        .output(spec, CaptureLimit::default(), tokio::time::sleep(most))
        .await
        .map_err(|error| format!("the check cannot start: {error}"))?;
    if output.stopped {
        let most = duration(u64::try_from(most.as_millis()).unwrap_or(u64::MAX));
        return Err(format!("the checks have not ended within {most}"));
    }
    let outcome: Result<Result<CheckOutcome, String>, _> =
        serde_json::from_str(&output.stdout.text());
    match outcome {
        Ok(outcome) if output.exit.ending.is_success() => outcome,
        _ => Err(format!("the check ended with {} and without an answer", output.exit.ending)),
    }
}

fn spec(request: &CheckRequest) -> Result<Spec, CommandError> {
    Ok(Spec {
        // The shim that starts it is this program as well.
        program: "/proc/self/exe".into(),
        args: ["hook", "check"].map(Into::into).to_vec(),
        cwd: request.record.workspace.clone(),
        env: user_folders::variables(),
        stdin: serde_json::to_vec(request).map_err(CommandError::internal)?,
        grace: Grace::default(),
    })
}
