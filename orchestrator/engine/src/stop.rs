//! What asks a run to stop.

use ralph_orchestrator_machine::Input;
use tokio::sync::watch;

/// Requests to stop a run.
pub type StopRequests = watch::Receiver<StopRequest>;

/// How a run was asked to stop.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct StopRequest {
    /// How often: once is an orderly stop, twice a quick one.
    pub times: u32,
    /// It was first because the terminal went away.
    pub is_hangup: bool,
}

/// Returns what the machine is told, if the run was asked to stop.
pub(super) fn stop_input(stop: &StopRequests) -> Option<Input> {
    let request = *stop.borrow();
    let input = if request.is_hangup { Input::Hangup } else { Input::Signal };
    (request.times > 0).then_some(input)
}

/// Resolves once the run was asked to stop `times` times.
pub(super) async fn stop_requested(stop: &mut StopRequests, times: u32) {
    if stop.wait_for(|request| request.times >= times).await.is_err() {
        // Nobody is left who could ask.
        std::future::pending::<()>().await;
    }
}
