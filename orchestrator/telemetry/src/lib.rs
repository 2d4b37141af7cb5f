//! Traces of runs in the form of OpenTelemetry, derived from journals and transcripts.
//!
//! The ids of spans come from the run and the numbers of its records, so an export that is repeated, or made after a
//! crash, has the same ids. Names and attributes are those of the semantic conventions for generative AI; what those
//! have no name for begins with `ralph.`.
//! Knows neither files nor networks nor how a run is decided.

mod otlp;
mod span;
mod trace;

pub use otlp::RequestSize;
pub use span::Span;
pub use trace::{Trace, TraceBuilder};
