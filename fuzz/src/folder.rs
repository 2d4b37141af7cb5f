//! A folder per thread: making one for each input would take longer than the check.

use std::cell::RefCell;
use std::path::Path;

use tempfile::TempDir;

thread_local! {
    static FOLDER: RefCell<Option<TempDir>> = const { RefCell::new(None) };
}

/// Calls `check` with a folder that holds what earlier checks left there.
pub(crate) fn with<T>(check: impl FnOnce(&Path) -> T) -> T {
    FOLDER.with_borrow_mut(|folder| {
        let folder = folder.get_or_insert_with(|| tempfile::tempdir().expect("a temporary folder"));
        check(folder.path())
    })
}

/// Calls `check` with the path of an empty folder.
pub(crate) fn with_empty<T>(check: impl FnOnce(&Path) -> T) -> T {
    with(|folder| {
        let empty = folder.join("empty");
        if empty.exists() {
            std::fs::remove_dir_all(&empty).expect("the folder of the check before can be removed");
        }
        std::fs::create_dir(&empty).expect("a folder");
        check(&empty)
    })
}
