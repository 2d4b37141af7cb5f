//! Runs plugins: libraries and programs, named in the configuration, that provide agents, detectors,
//! validators and formats of backlogs.
//! Knows neither the engine nor any adapter.
//!
//! A plugin always runs in a process of its own. A [`Transport`] sends frames to it; a [`Session`] runs
//! the protocol over one.

mod actor;
mod agent;
mod attached;
mod backlog;
mod call;
mod call_event;
mod call_watch;
mod detector;
mod error;
mod frame_trace;
mod host_process;
mod inspect;
mod library;
mod library_cache;
mod library_defect;
mod link_check;
mod log;
mod manifest;
mod plugin;
mod process;
mod program;
mod protocol_state;
mod remarks;
mod session;
mod session_state;
mod table_schema;
mod transport;
mod validator;
mod violation;

pub use call::CallHandle;
pub use call_event::{CallEvent, CallOutcome};
pub use error::{LibraryError, LibraryErrorKind};
pub use frame_trace::{FrameTrace, TracedMessage};
pub use host_process::{HostProcessError, run_host_process};
pub use inspect::{LibraryHeader, inspect};
pub use library::{LoadedLibrary, load};
pub use library_cache::{CheckedLibrary, PrivateCopy, check};
pub use library_defect::{LibraryDefect, LibraryDefects};
pub use manifest::Manifest;
pub use plugin::{HOST_COMMAND, Plugin};
pub use program::ProgramError;
pub use remarks::PluginRemarks;
pub use session::{HELLO_TIMEOUT, OPEN_TIMEOUT, OpenError, Session};
pub use session_state::SessionClosed;
pub use transport::{INBOUND_QUEUE, Inbound, Transport, TransportClosed};
pub use violation::Violation;
