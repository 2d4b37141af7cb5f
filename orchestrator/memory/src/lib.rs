//! Writes, splits, merges and rotates the entries of progress files and of the file of failures.
//! Must not know files, clocks, runs or agents: bytes and times in, bytes and text out.
//!
//! A progress file is a preamble and entries; an entry begins with its heading and ends before
//! the next one. Nothing here ever changes an entry that exists.

mod entries;
mod errors;
mod merge;
mod rotate;
mod session;
mod summary;
mod text;
mod view;

pub use entries::{EntryFormat, EntryList, append_entry, has_heading, split_entries};
pub use errors::{ErrorEntry, tail_entries};
pub use merge::{Merged, merge};
pub use rotate::{Rotation, finish_rotation, rotate};
pub use session::{Action, MarkdownEntry, SessionEntry, highest_session, session_id};
pub use summary::{HandoffNotes, Summary};
pub use text::last_lines;
pub use view::{ViewBounds, bounded_view};
