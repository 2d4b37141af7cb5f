//! The work as a clean checkout would have it, in layers over the workspace, so that a check runs in no tree that the agent
//! owns. Must not know runs, agents, or how the layers are mounted.
//!
//! When a run begins, an [`Inventory`] records what is in the workspace. For a validation, [`Checkout::prepare`] compares
//! the workspace with it and makes the layers of an overlay:
//!
//! | layer, top first | holds |
//! |---|---|
//! | `upper` | what the checks of this validation write |
//! | `work` | what counts as work and is not as it was at the start, with new time stamps; whiteouts of what is gone |
//! | `base` | what the checks wrote before any agent worked, frozen by [`Checkout::keep`]; not where it is [`Cold`] |
//! | `setup` | what the setup made before that, frozen by [`Checkout::keep`] |
//! | `before` | what ignored files held that the first checks wrote to, kept by [`Checkout::keep`] |
//! | `repository` | git's own files as they were at the start, but its objects |
//! | `hidden` | whiteouts of what does not count as work and is new, or not as it was |
//! | the workspace | everything else |
//!
//! `hidden` lies below what is kept: an agent's build folder must not hide the trusted one of the same name.
//!
//! [`Checkout::prepare_variant`] makes the same with other contents of some files, as to find out what made a check green:
//! [`Checkout::find_changed_work`] returns what they held when the run began, as far as [`Checkout::keep_start`] kept it.
//!
//! Whether a file is as it was is told by its inode, size, mode and times; the time of the last change of an inode cannot be
//! set. One that does not count as work and was written anew is told by its [content](ContentDigests), too. Work that was
//! written anew with the same content gets a new time stamp, and no more.
//!
//! [`Cold`]: Visibility::Cold

mod checkout;
mod content_digests;
mod difference;
mod error;
#[cfg(test)]
mod fixture;
mod git_files;
mod inventory;
mod kept_layers;
mod layers;
mod repository;
mod start_copies;
mod variants;
mod work_content;

pub use checkout::{Checkout, CheckoutSource, PreparedCheckout, StartRecord, Visibility};
pub use content_digests::ContentDigests;
pub use error::CheckoutError;
pub use inventory::Inventory;
pub use kept_layers::{KeptLayer, KeptRecord};
pub use variants::{ChangedWork, Variant};
pub use work_content::{ChangedFile, WorkContent, WorkState};
