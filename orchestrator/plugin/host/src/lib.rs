//! Loads plugins and talks to them.
//!
//! A plugin provides agents, detectors and validators: a library or a program, named by the operator.
//! A [`Carrier`] moves frames to and from it; a [`Session`] is a conversation over one.

mod actor;
mod agent;
mod carrier;
mod copy;
mod detector;
mod error;
mod flaw;
mod inside;
mod inspect;
mod library;
mod linking;
mod log;
mod manifest;
mod plugin;
mod process;
mod program;
mod running;
mod serve;
mod session;
mod talk;
mod validator;
mod violation;

pub use carrier::{Carrier, Gone, Inbound, QUEUE};
pub use copy::{Checked, PrivateCopy, check};
pub use error::{LibraryError, Refusal};
pub use flaw::{Flaw, Flaws};
pub use inside::LibraryCarrier;
pub use inspect::{Header, inspect};
pub use library::{Loaded, load};
pub use manifest::Manifest;
pub use plugin::{HOST_COMMAND, Isolation, Plugin};
pub use program::ProgramError;
pub use running::{Running, Told};
pub use serve::{ServeError, serve};
pub use session::{Broken, HELLO, OPENED, OpenError, Session};
pub use talk::Outcome;
pub use violation::Violation;
