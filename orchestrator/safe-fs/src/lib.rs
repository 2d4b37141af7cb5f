//! Reads, writes and walks files where an agent may put a link, a pipe or a device at any moment.
//! Must not know workspaces or runs.
//!
//! No function follows a link unless its documentation says so, none waits for the other end of a pipe,
//! and every read and list is bounded. Folders are held open while they are walked, so nothing can be
//! swapped under the walker.

mod copy;
mod fingerprint;
mod list;
mod openat;
#[cfg(target_os = "linux")]
mod overlay;
mod path_text;
mod paths;
mod read;
mod replace;
mod walk;
mod write;

pub use copy::{copy_data, copy_sparse, find_data};
pub use fingerprint::{FileFingerprint, boot_clock, boot_id, wall_clock};
pub use list::{DirEntryName, DirLister};
pub use openat::{
    list_flags, open_file, open_file_at, open_folder, open_folder_nofollow, open_no_symlinks,
    open_or_create_subfolder, open_subfolder, path_flags, read_flags, read_link_at,
};
#[cfg(target_os = "linux")]
pub use overlay::{create_whiteout, has_overlay_mark, is_opaque, remove_layer, set_opaque};
pub use path_text::{escape, unescape};
pub use paths::{
    StoppingLink, follow_links, leads_into, normalize_lexically, path_bytes, real_path,
};
pub use read::{ReadError, SymlinkPolicy, open_regular, read_bounded, read_file, read_if_exists};
pub use replace::{create_folders, move_aside, remove_entry, replace_file};
pub use walk::{DirVisitor, SkipReason, Subfolder, walk};
pub use write::write_file;
