//! A backlog is a list of items with dependencies that a driver works through, one after the
//! other. This crate reads such lists in the formats of several tools, checks and orders them,
//! writes statuses and notes without touching anything else, and takes back what an agent changes
//! beside these.
//!
//! [`open_backlog`] returns a [`Backlog`], [`open_backlog_of`] one of a format that is not built in;
//! [`Backlog::load`] returns a [`BacklogSnapshot`], whose
//! methods select the next item and explain the choice. [`Backlog::guard`] compares two versions.
//!
//! The crate must not know runs, agents or the engine: who works on an item, and when it is
//! completed, is decided elsewhere.

mod backlog;
mod check;
mod error;
mod expected;
mod file;
mod format_backlog;
mod guard;
mod item;
mod json;
mod kind;
mod open;
mod order;
mod plan_md;
#[cfg(feature = "sqlite")]
mod sqlite;
mod text;
mod text_backlog;
mod text_format;

pub use self::backlog::{Backlog, BacklogPlace};
pub use self::error::{BacklogDefect, BacklogError, DefectKind};
pub use self::file::{BacklogFile, MAX_BYTES};
pub use self::format_backlog::open_backlog_of;
pub use self::guard::{AgentCompletions, GuardFinding, GuardReport, GuardRules, TrustedEdit};
pub use self::item::{
    BacklogItem, BacklogSnapshot, ItemCounts, ItemStatus, NewItem, SetAside, TextLocation,
    UnreadLine,
};
pub use self::kind::BacklogKind;
pub use self::open::open_backlog;
pub use self::order::{ItemOrder, ItemPlacement, NextItem, PendingDependency, PlacementReason};
