//! The git repository a workspace belongs to, as far as its files tell. Git itself is not run.

mod attributes;
mod index;
mod repository;
mod settings;
#[cfg(test)]
pub(super) mod tests;

pub(super) use attributes::Attributes;
pub use attributes::Conversion;
pub use index::IndexMark;
pub(super) use index::{IndexError, Tracked};
pub(super) use repository::Repository;
pub use repository::{common_git_folder, find_untracked, has_commit};
pub use settings::GitEnvironment;
pub(super) use settings::Settings;
