//! A run on disk: journal, latch, key and lock, outside the workspace.
//!
//! ```text
//! lock                 held by an OS lock on the open file
//! agents.lock          held as long as any process of an agent may live
//! owner.json           the workspace and the configuration that it belongs to
//! template.json        the workspace that was made from a template, if one was
//! key                  32 random bytes, 0600; keys the chain of the journal and the latch
//! latch                the run in question and how far its completion has come
//! runs/<run>/journal.jsonl
//! runs/<run>/config.toml
//! runs/<run>/iterations/0001/{prompt.md,transcript.jsonl,stderr.log}
//! runs/<run>/evidence/<digest>
//! ```
//!
//! The journal is the truth; the latch names the run and pins how long its journal is at least, so
//! that neither can be cut, edited or swapped without being noticed. While a run goes on, memory is
//! the master: whatever is changed or deleted from outside is written again.

mod bundle;
mod chain;
mod copy;
mod disk;
mod error;
mod files;
mod journal;
mod kept;
mod key;
mod latch;
mod layout;
mod lock;
mod occupancy;
mod origin;
mod orphans;
mod owner;
mod runs;
mod settling;
mod stamp;
mod store;

pub use disk::{Disk, Fate, Faults, Operation};
pub(crate) use disk::{File, private_flags, read_regular};
pub use error::StateError;
pub use files::keep_evidence;
pub use journal::{Entry, FORMAT_VERSION, Journal, Torn, read};
pub use key::Key;
pub use latch::LatchFile;
pub use layout::Layout;
pub use lock::{Holder, Lock};
pub use occupancy::occupy_workspace;
pub use origin::Origin;
pub use orphans::OrphanReport;
pub use owner::{Owner, StateDir, record_elsewhere, state_dirs, state_dirs_of};
pub use runs::{StoredRun, list_runs, read_run};
pub use store::{Found, Store, peek, peek_completed, reset};
