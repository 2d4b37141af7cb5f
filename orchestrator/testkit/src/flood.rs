//! Agents and other programs that print without an end: whoever reads them must give way, or nothing else
//! of the same task is looked at.

use std::future::Future;
use std::pin::pin;
use std::sync::mpsc;
use std::time::{Duration, Instant};

/// How often something else has to have its turn.
const TURNS: u32 = 20;
/// After this it is held never to have it again.
const PATIENCE: Duration = Duration::from_secs(30);

/// Begins `make`'s future, which must not end by itself, and checks that timers of the same task are
/// looked at beside it, although it is always polled first.
///
/// # Panics
/// If they are not, or if the future ends.
pub fn assert_gives_way<F: Future>(what: &str, make: impl FnOnce() -> F + Send + 'static) {
    let (done_tx, done_rx) = mpsc::channel();
    // A thread of its own: what does not give way cannot be stopped.
    std::thread::spawn(move || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        runtime.expect("there is room for a runtime").block_on(async {
            let began = Instant::now();
            let mut work = pin!(make());
            let others = async {
                for _ in 0..TURNS {
                    tokio::time::sleep(Duration::from_millis(10)).await;
                }
            };
            let had = tokio::select! {
                biased;
                _ = &mut work => None,
                () = others => Some(began.elapsed()),
            };
            // The test may have given up.
            let _ = done_tx.send(had);
        });
    });
    match done_rx.recv_timeout(PATIENCE) {
        Ok(Some(_)) => {}
        Ok(None) => panic!("{what}: it ended"),
        Err(_) => panic!("{what}: nothing else had its turn within {PATIENCE:?}"),
    }
}
