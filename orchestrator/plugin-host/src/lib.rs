//! Loads plugins and talks to them.
//!
//! A plugin provides agents, detectors and validators: a library or a program, named by the operator.
//! A [`Carrier`] moves frames to and from it.

mod carrier;

pub use carrier::{Carrier, Gone, Inbound, QUEUE};
