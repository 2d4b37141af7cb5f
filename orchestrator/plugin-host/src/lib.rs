//! Loads plugins and talks to them.
//!
//! A plugin provides agents, detectors and validators: a library or a program, named by the operator.
//! A [`Carrier`] moves frames to and from it; a [`Session`] is a conversation over one.

mod actor;
mod carrier;
mod log;
mod running;
mod session;
mod talk;
mod violation;

pub use carrier::{Carrier, Gone, Inbound, QUEUE};
pub use running::{Running, Told};
pub use session::{Broken, HELLO, OPENED, OpenError, Session};
pub use talk::Outcome;
pub use violation::Violation;
