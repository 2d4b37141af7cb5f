//! What a view is tried with: layers that hide something of one another.

use std::os::fd::AsFd as _;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};
use std::{fs, io};

use ralph_orchestrator_safe_fs::{create_whiteout, open_folder, remove_layer, set_opaque};

use super::{Overlay, View, ViewError};
use crate::spec::Spec;
use crate::step::StepSubject;

/// Uses everything that an overlay is for, and says what does not work.
const SCRIPT: &str = "[ ! -e hidden ] || { echo a whiteout hides nothing >&2; exit 1; }
[ ! -e opaque/below ] || { echo an opaque folder hides nothing >&2; exit 1; }
rm -r removed && mkdir removed && echo > removed/new && rm -r changed && echo > changed && [ ! -e removed/below ]";

/// An overlay over a folder, with scratch layers that are removed with this.
pub(crate) struct Probe {
    scratch: PathBuf,
    /// What the layers hold is beneath a name that the folder does not have.
    name: String,
    folder: PathBuf,
}

impl Probe {
    /// Creates the layers in `storage`, to be tried over `folder`.
    pub(crate) fn new(storage: &Path, folder: &Path) -> Result<Self, ViewError> {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let count = COUNT.fetch_add(1, Ordering::Relaxed);
        let name = format!(".ralph-probe-{}-{count}", std::process::id());
        let real =
            |path: &Path| path.canonicalize().map_err(|error| path_error("open", path, &error));
        let (storage, folder) = (real(storage)?, real(folder)?);
        let scratch = storage.join(&name);
        // Only an earlier process with this number can have left it.
        let _ = remove_layer(&scratch);
        let probe = Self { scratch, name, folder };
        let create = |path: &Path| {
            fs::create_dir_all(path).map_err(|error| path_error("create", path, &error))
        };
        for layer in ["above", "upper", "work"] {
            create(&probe.scratch.join(layer))?;
        }
        for below in ["hidden", "opaque/below", "removed/below", "changed/below"] {
            create(&probe.scratch.join("below").join(&probe.name).join(below))?;
        }
        let above = probe.scratch.join("above").join(&probe.name);
        create(&above.join("opaque"))?;
        let hide = || {
            create_whiteout(open_folder(&above)?.as_fd(), b"hidden")?;
            set_opaque(open_folder(&above.join("opaque"))?.as_fd())
        };
        hide().map_err(|errno| {
            let step = format!("make a layer that hides something in `{}`", above.display());
            ViewError::set_up(step, StepSubject::Kernel, errno.raw_os_error())
        })?;
        Ok(probe)
    }

    pub(crate) fn view(&self) -> View {
        let layer = |name: &str| self.scratch.join(name);
        let overlay = Overlay {
            target: self.folder.clone(),
            layers: vec![layer("above"), layer("below"), self.folder.clone()],
            upper: layer("upper"),
            work: layer("work"),
        };
        View { overlays: vec![overlay], mounts: Vec::new() }
    }

    pub(crate) fn spec(&self) -> Spec {
        Spec {
            program: "/bin/sh".into(),
            args: vec!["-c".into(), SCRIPT.into()],
            cwd: self.folder.join(&self.name),
            env: [("PATH".to_owned(), "/usr/bin:/bin".to_owned())].into(),
            ..Spec::default()
        }
    }

    /// Returns the error of a program that has failed and said this.
    pub(crate) fn failure(&self, said: &str) -> ViewError {
        let said = said.trim();
        let error = if said.is_empty() { "what it hides is seen" } else { said };
        let step = format!(
            "use an overlay over `{}` with the upper folder `{}`",
            self.folder.display(),
            self.scratch.join("upper").display()
        );
        ViewError::unusable(step, io::Error::other(error.to_owned()))
    }
}

impl Drop for Probe {
    fn drop(&mut self) {
        // What is left is small, and the next one with its name removes it.
        let _ = remove_layer(&self.scratch);
    }
}

fn path_error(what: &str, path: &Path, error: &io::Error) -> ViewError {
    let step = format!("{what} `{}`", path.display());
    ViewError::set_up(step, StepSubject::Path, error.raw_os_error().unwrap_or(libc::EINVAL))
}
