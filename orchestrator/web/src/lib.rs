//! Serves the web page and the HTTP interface that show runs, and control them where that is allowed.
//! Must not know journals or how runs are decided: what it serves comes from a [`RunSource`].
//!
//! `access` decides who is let in, `api` has the paths, `events` the server-sent events, `page` what the page may load.

mod access;
mod answers;
mod api;
mod events;
mod page;
mod server;
mod source;

pub use access::{Access, AccessError, Secret};
pub use server::{ServeError, serve};
pub use source::{
    Connection, IterationPart, RecordEvent, RecordStream, RunSource, SourceError, StartAt,
};
