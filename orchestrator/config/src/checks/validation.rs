//! Checks of where checks are run.

use std::path::{Component, PathBuf};

use super::backlog::is_inside;
use crate::diagnostics::Diagnostics;
use crate::model::Validation;

pub(super) fn check(validation: &mut Validation, diagnostics: &mut Diagnostics<'_>) {
    let Validation { setup_inputs, setup_outputs, link, .. } = validation;
    let lists = [("setup_inputs", setup_inputs), ("setup_outputs", setup_outputs), ("link", link)];
    for (key, paths) in lists {
        for (index, path) in paths.iter_mut().enumerate() {
            if !is_inside(path) {
                let message = format!(
                    "expected a path inside the workspace, relative to it, found {:?}",
                    path.display().to_string()
                );
                diagnostics.add(&["validation", key, &index.to_string()], message);
            }
            // Without what means nothing, as paths in the workspace are compared.
            let named = path.components().filter(|part| *part != Component::CurDir);
            *path = named.collect::<PathBuf>();
        }
    }
}
