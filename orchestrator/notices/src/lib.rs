//! Sends notices about a run to people and programs that do not watch it.
//! Must not know how a run is decided, terminals, or where a configuration lies.
//!
//! A notice is derived from one record of the journal, so it has the same id, `run:seq`, however often it is derived.
//! Each receiver is sent what it asked for, in order, until it has answered; what it has answered is written down
//! beside the journal, so that a restart sends the rest. The run never waits for any of it.

mod backlog_progress;
mod deliveries;
mod lane;
mod message;
mod notice;
mod notifier;
mod receiver;
mod retries;
mod signature;
mod transport;

pub use backlog_progress::{BacklogProgress, ProgressCache};
pub use deliveries::ScriptPins;
pub use notice::Notice;
pub use notifier::{Notifier, NotifierSetup, Undelivered, accept_scripts, find_changed_script};
pub use receiver::{Receiver, Target};
pub use retries::{Retries, Retry};
pub use transport::{Delivery, SendError, SupervisedTransport, Transport, UserProgram};
