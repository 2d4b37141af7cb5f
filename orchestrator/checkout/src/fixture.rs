//! A workspace with files, beside a folder for what is kept of it.

use std::fs;
use std::path::PathBuf;

use crate::checkout::{Checkout, CheckoutSource};

pub(crate) struct Place {
    _temp: tempfile::TempDir,
    pub(crate) workspace: PathBuf,
    pub(crate) storage: PathBuf,
}

impl Place {
    pub(crate) fn new(files: &[&str]) -> Self {
        let temp = tempfile::tempdir().unwrap();
        let root = temp.path().canonicalize().unwrap();
        let place = Self { workspace: root.join("w"), storage: root.join("state/c"), _temp: temp };
        for file in files {
            place.write(file, "base");
        }
        place
    }

    pub(crate) fn path(&self, file: &str) -> PathBuf {
        self.workspace.join(file)
    }

    pub(crate) fn write(&self, file: &str, text: &str) {
        let path = self.path(file);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }

    pub(crate) fn source(&self) -> CheckoutSource {
        let git = [".git", "../.git"].map(|name| self.path(name));
        let git = git.into_iter().find_map(|git| git.canonicalize().ok());
        let shown = vec!["proof".into(), "TASK".into()];
        CheckoutSource {
            workspace: self.workspace.clone(),
            git,
            shown,
            made: vec!["proof".into()],
            hidden: Vec::new(),
        }
    }

    pub(crate) fn begin(&self) -> Checkout {
        Checkout::begin(self.source(), &self.storage).unwrap()
    }
}
