//! The driver of a run.
//!
//! [`open`] checks a configuration, takes the lock and finds out whether there is a run to go on
//! with; [`Session::drive`] performs the effects of the [`machine`](crate::machine) until the run
//! ends. Nothing in here knows a particular agent, detector or validator, or a terminal.

mod allowance;
mod announce;
mod bytecode;
mod changes;
mod clock;
mod drivers;
mod environment;
mod error;
mod execution;
mod existing;
mod feedback;
mod files;
mod fingerprint;
mod globs;
mod held;
mod idle;
mod inputs;
mod inspect;
mod instructions;
mod iterate;
mod judge;
mod look;
mod notice;
mod observe;
mod open;
mod pace;
mod phrases;
mod pinned;
mod place;
mod plan;
mod prices;
mod processes;
mod prompt;
mod protection;
mod redact;
mod relocated;
mod renew;
mod rest;
mod scratch;
mod session;
mod setup;
mod sink;
mod survivors;
mod trace;
mod transcript;
mod validate;
mod watching;

pub use error::EngineError;
pub use notice::{Notice, Observer};
pub use open::{Opened, Request, find_completed, open};
pub use plan::{Driver, Judges, build_context, plain_environment, state_layout, verify_owner};
pub use processes::{NoProcesses, Processes};
pub use redact::Redactor;
pub use session::{DryRun, Finished, Session, StopRequests};
pub use setup::{SetupFinding, SetupReport};
