//! Files that Python takes instead of a protected one because of their names: who imports `helper` gets
//! `helper/__init__.py` or `helper.so` rather than `helper.py`.

use std::ffi::OsStr;
use std::path::Path;

/// Whether what lies at `path` would be taken instead of a file for which `is_source` is true.
pub(super) fn shadows(path: &Path, is_source: impl Fn(&Path) -> bool) -> bool {
    let (Some(name), Some(extension)) = (text(path.file_name()), text(path.extension())) else {
        return false;
    };
    match extension {
        "py" | "pyc" | "so" if name.starts_with("__init__.") => {
            path.parent().is_some_and(|folder| shadows_as_folder(folder, is_source))
        }
        "so" => {
            // The rest of its name is for which Python it was built.
            let module = name.split_once('.').map_or(name, |(module, _)| module);
            is_source(&path.with_file_name(format!("{module}.py")))
        }
        _ => false,
    }
}

/// Whether a folder, as a package, would be taken instead of such a file.
pub(super) fn shadows_as_folder(folder: &Path, is_source: impl Fn(&Path) -> bool) -> bool {
    text(folder.file_name())
        .is_some_and(|name| is_source(&folder.with_file_name(format!("{name}.py"))))
}

fn text(name: Option<&OsStr>) -> Option<&str> {
    name.and_then(OsStr::to_str)
}
