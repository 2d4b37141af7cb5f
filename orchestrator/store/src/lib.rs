//! A run on disk: journal, latch, key and lock, outside the workspace.
//!
//! ```text
//! lock                 held by an OS lock on the open file
//! agents.lock          held as long as any process of an agent may live
//! owner.json           the workspace and the configuration that it belongs to
//! template.json        the workspace that was made from a template, if one was
//! inbox/<id>.json      controls on their way to whoever holds the run
//! deletion.json        what is being deleted, until it is
//! key                  32 random bytes, 0600; keys the chain of the journal and the latch
//! latch                the run in question and how far its completion has come
//! rollbacks.json       commits with what was there before rollbacks, and a rollback that goes on
//! runs/<run>/journal.jsonl
//! runs/<run>/heartbeat the runtime between two records, for a start that is killed
//! runs/<run>/config.toml, config.sealed (with its secrets)
//! runs/<run>/iterations/0001/{prompt.md,transcript.jsonl,stderr.log}
//! runs/<run>/evidence/<digest>
//! memory/{state.json,before-…,phase-…,archive-…}  what iterations left in words
//! series/{journal.jsonl,lock,…}  of runs that together make one work
//! ```
//!
//! The journal is authoritative; the latch names the run and pins the least length of its journal, so
//! that neither can be truncated, edited or swapped unnoticed. During a run the state in memory is
//! authoritative: whatever is changed or deleted from outside is written again.

mod atomic_files;
mod background_sync;
mod bundle;
mod deletion;
mod disk;
mod error;
mod guarded_file;
mod heartbeat;
mod holder;
mod inbox;
mod journal;
mod journal_fold;
mod key;
mod latch;
mod layout;
mod lock;
mod memory_files;
mod mirror;
mod orphans;
mod owner;
mod prune;
mod rollbacks;
mod run_config;
mod run_reader;
mod runs;
mod sealed;
mod series;
mod signed_line;
mod signed_object;
mod spending;
mod state_store;
mod stopped_supervisors;
mod stored_run;
mod template_origin;
mod trust;
mod workspace_lock;
mod worktrees;

pub use atomic_files::store_evidence;
pub use disk::{Disk, FaultAction, FaultInjector, FileOperation};
pub use disk::{File, private_open_flags};
pub use error::StateError;
pub use heartbeat::Heartbeat;
pub use holder::{Holder, Work};
pub use inbox::{InboxContents, InboxReader};
pub use inbox::{fits_in_message, is_control_waiting, send_control, withdraw_control};
pub use journal::{FORMAT_VERSION, Journal, JournalEntry, JournalRecord, TornLine, read_journal};
pub use key::Key;
pub use latch::LatchFile;
pub use layout::Layout;
pub use lock::Lock;
pub use memory_files::MemoryFiles;
pub use orphans::OrphanReport;
pub use owner::{
    Owner, StateDir, identity_from, identity_of, record_elsewhere, state_dirs, state_dirs_of,
};
pub use prune::{EndedRun, ended_runs, remove_ended_runs};
pub use rollbacks::{PendingRollback, Rollbacks};
pub use run_config::read_run_config;
pub use run_reader::RunReader;
pub use runs::{LoadedRun, list_runs, read_run};
pub use series::{Series, SeriesFiles, SeriesLock, read_series};
pub use signed_object::read_signed_object;
pub use spending::{Charge, ReservedAmount, Spending, SpendingEntry, SpendingLedger, UsedAmount};
pub use state_store::{Store, read_completed_run, read_current_run, reset};
pub use stored_run::StoredRun;
pub use template_origin::TemplateOrigin;
pub use trust::{AcceptedFile, AcceptedVersion, AgentWork, TrustStore};
pub use workspace_lock::lock_workspace;
pub use worktrees::{WorktreeLock, WorktreePaths, WorktreeRecord, list_worktrees};
