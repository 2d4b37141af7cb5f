//! Draws the live line again every second, and as soon as the terminal has another size.

use std::sync::{Arc, PoisonError};
use std::time::Duration;

use tokio::runtime::Builder;
use tokio::signal::unix::{SignalKind, signal};
use tokio::time::timeout;

use super::HumanReporter;

const EVERY: Duration = Duration::from_secs(1);

/// Starts the thread that redraws the line for as long as the reporter exists. Without it the line is drawn only
/// on events.
pub(super) fn start(reporter: &Arc<HumanReporter>) {
    let watched = Arc::downgrade(reporter);
    let work = move || {
        let Ok(runtime) = Builder::new_current_thread().enable_all().build() else { return };
        runtime.block_on(async {
            let Ok(mut resized) = signal(SignalKind::window_change()) else { return };
            while let Some(reporter) = watched.upgrade() {
                reporter.draw(&mut reporter.state.lock().unwrap_or_else(PoisonError::into_inner));
                drop(reporter);
                // That it was neither is the usual case.
                drop(timeout(EVERY, resized.recv()).await);
            }
        });
    };
    drop(std::thread::Builder::new().name("live".to_owned()).spawn(work));
}
