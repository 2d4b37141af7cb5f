//! The records of a run as server-sent events whose ids are their numbers.

use std::convert::Infallible;
use std::time::Duration;

use axum::response::sse::{Event, KeepAlive, Sse};
use axum::response::{IntoResponse as _, Response};
use futures_util::stream;
use serde_json::json;
use tokio::sync::mpsc::{self, Sender};

use crate::source::{RecordEvent, RecordStream, SourceError};

/// How often a run that has nothing new is read again.
const POLL: Duration = Duration::from_millis(200);
/// How often a client hears of a server that has nothing new.
const HEARTBEAT: Duration = Duration::from_secs(15);
/// Events that wait for a slow client; then the run is not read any further for it.
const MOST_WAITING: usize = 64;

/// Answers with the records of a run until the client leaves.
///
/// # Errors
/// There is no thread for it.
pub(crate) fn respond(records: Box<dyn RecordStream>) -> Result<Response, SourceError> {
    let (sender, receiver) = mpsc::channel(MOST_WAITING);
    let thread = std::thread::Builder::new().name("events".to_owned());
    thread
        .spawn(move || send_all(records, &sender))
        .map_err(|error| SourceError::Failed(format!("no thread: {error}")))?;
    let events = stream::unfold(receiver, async |mut receiver: mpsc::Receiver<Event>| {
        Some((Ok::<_, Infallible>(receiver.recv().await?), receiver))
    });
    Ok(Sse::new(events).keep_alive(KeepAlive::new().interval(HEARTBEAT)).into_response())
}

fn send_all(mut records: Box<dyn RecordStream>, sender: &Sender<Event>) {
    while !sender.is_closed() {
        let mut has_news = false;
        let read = records.read(&mut |record| {
            has_news = true;
            // A client that has left is noticed above.
            drop(sender.blocking_send(event(&record)));
        });
        if let Err(error) = read {
            let data = json!({ "error": error.to_string() }).to_string();
            drop(sender.blocking_send(Event::default().event("problem").data(data)));
            return;
        }
        if !has_news {
            std::thread::sleep(POLL);
        }
    }
}

fn event(record: &RecordEvent) -> Event {
    let data = json!({ "record": record.record, "lines": record.lines });
    Event::default().id(record.seq.to_string()).data(data.to_string())
}
