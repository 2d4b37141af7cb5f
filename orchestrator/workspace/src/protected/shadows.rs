//! Files that Python takes instead of protected ones because of their names: who imports `helper` gets
//! `helper/__init__.py` or `helper.so` rather than `helper.py`, and who imports `tests.helper` looks into the folder
//! `tests` only as long as there is neither `tests.py` beside it nor `tests/__init__.py` in it.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};

/// Whether what lies at `path` would be taken instead of a file for which `is_source` is true.
pub(super) fn shadows(path: &Path, is_source: impl Fn(&Path) -> bool) -> bool {
    let (Some(name), Some(extension)) = (text(path.file_name()), text(path.extension())) else {
        return false;
    };
    match extension {
        "py" | "pyc" | "so" if name.starts_with("__init__.") => {
            path.parent().is_some_and(|folder| shadows_as_folder(folder, is_source))
        }
        "so" => is_source(&path.with_file_name(format!("{}.py", module(name)))),
        _ => false,
    }
}

/// Whether a folder, as a package, would be taken instead of such a file.
pub(super) fn shadows_as_folder(folder: &Path, is_source: impl Fn(&Path) -> bool) -> bool {
    text(folder.file_name())
        .is_some_and(|name| is_source(&folder.with_file_name(format!("{name}.py"))))
}

/// Returns the folder whose modules Python would not find any more, or would find elsewhere, with a module at this
/// path: `tests` for `tests.py`, and for `tests/__init__.py`.
pub fn shadowed_folder(path: &Path) -> Option<PathBuf> {
    let (name, extension) = (text(path.file_name())?, text(path.extension())?);
    if !matches!(extension, "py" | "pyc" | "so") {
        return None;
    }
    match module(name) {
        "" => None,
        "__init__" => {
            path.parent().filter(|folder| !folder.as_os_str().is_empty()).map(Path::to_owned)
        }
        module => Some(path.with_file_name(module)),
    }
}

/// Returns the name of a module in that of its file. The rest of it may say for which Python it was built.
fn module(name: &str) -> &str {
    name.split_once('.').map_or(name, |(module, _)| module)
}

fn text(name: Option<&OsStr>) -> Option<&str> {
    name.and_then(OsStr::to_str)
}
