//! Requests to stop a run.

use tokio::sync::watch;

/// How often the run was asked to stop: once is an orderly stop, twice a quick one.
pub type StopRequests = watch::Receiver<u32>;

/// Resolves once the run was asked to stop `times` times.
pub(super) async fn stop_requested(stop: &mut StopRequests, times: u32) {
    if stop.wait_for(|count| *count >= times).await.is_err() {
        // Nobody is left who could ask.
        std::future::pending::<()>().await;
    }
}
