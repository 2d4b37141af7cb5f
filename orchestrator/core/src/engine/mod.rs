//! The driver of a run.
//!
//! [`open`] checks a configuration, takes the lock and finds out whether there is a run to go on
//! with; [`Session::drive`] performs the effects of the [`machine`](crate::machine) until the run
//! ends. Nothing in here knows a particular agent, detector or validator, or a terminal.

mod allowance;
mod clock;
mod drivers;
mod environment;
mod error;
mod feedback;
mod files;
mod held;
mod inspect;
mod iterate;
mod judge;
mod look;
mod notice;
mod open;
mod pace;
mod phrases;
mod plan;
mod prices;
mod prompt;
mod redact;
mod rest;
mod scratch;
mod session;
mod sink;
mod transcript;
mod validate;
mod watching;

pub use error::EngineError;
pub use notice::{Notice, Observer};
pub use open::{Opened, Request, open};
pub use plan::{Driver, Judges, build_context, plain_environment, state_layout};
pub use session::{DryRun, Finished, Session, StopRequests};
