//! Recreates a workspace from its template for a new run. Nothing is deleted, since a person may have made
//! some of it: the old workspace is moved aside.

use std::fs::File;
use std::path::{Path, PathBuf};

use jiff::Timestamp;
use ralph_orchestrator_config::LoadedConfig;
use ralph_orchestrator_store::{Disk, Layout, TemplateOrigin, TrustStore, lock_workspace};
use ralph_orchestrator_workspace::{WorkspaceHandle, create_from_template};
use rustix::fs::{CWD, RenameFlags, renameat_with};
use rustix::io::Errno;

use super::error::EngineError;
use super::location::{folder_pin, follow_to_folder};

/// How many names are tried for the old workspace.
const NAMES: usize = 100;

/// A workspace that may be recreated.
pub(super) struct Renewal<'a> {
    pub(super) loaded: &'a LoadedConfig,
    pub(super) workspace: &'a Path,
    pub(super) layout: &'a Layout,
    pub(super) disk: &'a Disk,
    /// The folder of all states.
    pub(super) states: PathBuf,
    pub(super) say: &'a (dyn Fn(&str) + Sync),
}

impl Renewal<'_> {
    /// Warns, before a new run, that the workspace is there already and what to do if it should come from the
    /// template: an earlier run may have left it, whose state is gone.
    pub(super) fn warn_of_other_origin(&self) {
        let Some(template) = &self.loaded.config.run.template else { return };
        if self.workspace.is_dir() && !self.is_recorded() {
            (self.say)(&format!(
                "warning: the workspace {} exists and is not recorded as a copy of its template {}; it is used \
                 as it is. To begin with the template, remove the workspace, then use `run --restart`",
                self.workspace.display(),
                template.display()
            ));
        }
    }

    /// Returns whether the state records that this very folder was made from the template.
    fn is_recorded(&self) -> bool {
        let Ok(held) = WorkspaceHandle::open(self.workspace) else { return true };
        TemplateOrigin::read(self.layout)
            .is_some_and(|origin| origin.is_of(self.workspace, &held.folder(), folder_pin(&held)))
    }

    /// Returns whether the workspace is to be recreated. Prints why not, if the configuration has a template.
    pub(super) fn is_due(&self) -> bool {
        let run = &self.loaded.config.run;
        if run.template.is_none() || !self.workspace.is_dir() {
            return false;
        }
        let Some(reason) = self.reason_against() else { return true };
        let workspace = self.workspace.display();
        (self.say)(&format!(
            "the workspace {workspace} is used as it is, and not made from its template: {reason}"
        ));
        false
    }

    /// Returns why the workspace is left as it is.
    fn reason_against(&self) -> Option<String> {
        let run = &self.loaded.config.run;
        if run.workspace.is_symlink() {
            return Some("it is a symbolic link".into());
        }
        let template = run.template.as_deref().and_then(|template| template.canonicalize().ok());
        let inside = |path: Option<PathBuf>| path.filter(|path| path.starts_with(self.workspace));
        if let Some(path) = inside(template).or_else(|| inside(self.loaded.configuration())) {
            return Some(format!("{} lies in it", path.display()));
        }
        (!self.is_recorded()).then(|| {
            "it is not recorded as a copy of it. To begin with the template, remove the workspace, then use \
             `run --restart`"
                .into()
        })
    }

    /// Moves the workspace aside and recreates it, if it is not in use.
    pub(super) fn perform(&self) -> Result<(), EngineError> {
        let failed = |what: String| EngineError::Workspace(what);
        let Some(template) = &self.loaded.config.run.template else { return Ok(()) };
        let trust = TrustStore::new(&self.states, self.disk.clone());
        let template = &follow_to_folder(&trust, template)?;
        let held = WorkspaceHandle::open(self.workspace)?;
        let occupied = lock_workspace(self.disk, held.folder(), &self.states)?;
        let (from, template_path) = (self.workspace.display(), template.display());
        let aside = self
            .move_aside()
            .map_err(|error| failed(format!("workspace {from}: cannot be moved aside: {error}")))?;
        (self.say)(&format!(
            "the workspace {from} is made anew from its template {template_path}; the old one is kept \
             as {}",
            aside.display()
        ));
        if let Err(error) = create_from_template(template, self.workspace) {
            let back = renameat_with(CWD, &aside, CWD, self.workspace, RenameFlags::NOREPLACE);
            let kept = if back.is_ok() { from.to_string() } else { aside.display().to_string() };
            return Err(failed(format!("{error}; the old workspace is {kept}")));
        }
        drop(occupied);
        Ok(())
    }

    /// Moves it to an unused name beside it, which is returned.
    fn move_aside(&self) -> std::io::Result<PathBuf> {
        let time = Timestamp::now().strftime("%Y%m%dT%H%M%SZ").to_string();
        let mut name = self.workspace.file_name().unwrap_or_default().to_owned();
        name.push(format!(".{time}"));
        for number in 1..=NAMES {
            let mut name = name.clone();
            if number > 1 {
                name.push(format!("-{number}"));
            }
            let aside = self.workspace.with_file_name(name);
            match rename_new(self.workspace, &aside) {
                Ok(()) => return Ok(aside),
                Err(Errno::EXIST | Errno::NOTEMPTY) => {}
                Err(error) => return Err(error.into()),
            }
        }
        Err(Errno::EXIST.into())
    }
}

/// Renames to an unused path.
fn rename_new(from: &Path, to: &Path) -> Result<(), Errno> {
    match renameat_with(CWD, from, CWD, to, RenameFlags::NOREPLACE) {
        // Not every file system knows that; of a folder none loses more than an empty one.
        Err(Errno::INVAL | Errno::NOSYS | Errno::OPNOTSUPP) => {
            if to.symlink_metadata().is_ok() {
                return Err(Errno::EXIST);
            }
            rustix::fs::rename(from, to)
        }
        done => done,
    }
}

/// Records that this folder came from the template.
pub(super) fn record_origin(
    template: &Path,
    held: &WorkspaceHandle,
    disk: &Disk,
    layout: &Layout,
) -> Result<(), EngineError> {
    let folder: &File = &held.folder();
    let origin = TemplateOrigin::new(template, held.path(), folder, folder_pin(held));
    let origin = origin.map_err(|error| {
        EngineError::Workspace(format!("workspace {}: {error}", held.path().display()))
    })?;
    Ok(origin.write(disk, layout)?)
}
