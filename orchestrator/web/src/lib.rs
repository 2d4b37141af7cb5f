//! The web page and the HTTP interface that show runs, and control them where that is allowed.
//! Knows HTTP, who may ask and the page; it knows neither journals nor how runs are decided: what it serves comes
//! from a [`RunSource`].

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
