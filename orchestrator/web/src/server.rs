//! Accepts connections, each within bounds.

use std::sync::Arc;
use std::time::Duration;

use axum::{Extension, Router};
use hyper::server::conn::http1;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;

use crate::access::Access;
use crate::api;
use crate::source::{Connection, RunSource};

/// Connections at a time; one more waits until another has ended.
const MOST_CONNECTIONS: usize = 128;
/// How long a client may take to send the head of a request.
const HEAD_TIMEOUT: Duration = Duration::from_secs(10);
/// The largest head of a request, in bytes.
const LARGEST_HEAD: usize = 32 * 1024;
/// How long no connection is accepted after one could not be, such as for lack of file descriptors.
const PAUSE: Duration = Duration::from_millis(100);

/// The server cannot go on.
#[derive(Debug, thiserror::Error)]
pub enum ServeError {
    /// The listener is of no use.
    #[error("cannot accept connections: {0}")]
    Listener(#[from] std::io::Error),
}

/// Serves until the program ends. Controls are refused unless `allows_control`.
///
/// # Errors
/// The listener cannot be used.
pub async fn serve(
    listener: std::net::TcpListener,
    access: Access,
    allows_control: bool,
    source: Arc<dyn RunSource>,
) -> Result<(), ServeError> {
    listener.set_nonblocking(true)?;
    let listener = TcpListener::from_std(listener)?;
    let router = api::router(access, allows_control, source);
    let slots = Arc::new(Semaphore::new(MOST_CONNECTIONS));
    loop {
        let Ok(slot) = slots.clone().acquire_owned().await else { return Ok(()) };
        let Ok((stream, client)) = listener.accept().await else {
            tokio::time::sleep(PAUSE).await;
            continue;
        };
        let Ok(server) = stream.local_addr() else { continue };
        let router = router.clone().layer(Extension(Connection { client, server }));
        tokio::spawn(async move {
            serve_connection(stream, router).await;
            drop(slot);
        });
    }
}

async fn serve_connection(stream: TcpStream, router: Router) {
    let served = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(HEAD_TIMEOUT)
        .max_buf_size(LARGEST_HEAD)
        .serve_connection(TokioIo::new(stream), TowerToHyperService::new(router));
    // A client that leaves or sends nonsense is of no concern to the others.
    drop(served.await);
}
