//! The files of a container that are on this machine, and what it shows of it.

use std::path::{Path, PathBuf};
use std::{fs, io};

use ralph_orchestrator_bench::job::TASK_SETUP_ERROR;
use ralph_orchestrator_bench::task::{
    EnvironmentSource, Mount as StagedMount, StagedEnvironment, resolve_env,
};
use ralph_orchestrator_bench::trial::{Cause, Fault};
use ralph_orchestrator_supervisor::{Mount, MountAccess};

use super::super::faults::fault;
use super::super::snapshots::copy_tree;
use super::super::trial_environment::{LOGS, SOLUTION, TESTS};
use super::command_line::CreateOrder;
use super::engine::Image;
use super::environment::{ContainerSetup, JobContainers, to_environment_fault};
use super::running::Container;

/// What a container shows at some times only: the name in its folder, and the path in the container.
const PLACES: [(&str, &str); 2] = [("tests", TESTS), ("solution", SOLUTION)];
/// The search path of an image that names none.
const IMAGE_PATH: &str = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";
/// Folders that are an image's own.
const SYSTEM_FOLDERS: [&str; 13] = [
    "/bin", "/boot", "/dev", "/etc", "/lib", "/lib32", "/lib64", "/libx32", "/proc", "/run",
    "/sbin", "/sys", "/usr",
];
/// The most that is copied of tests and solutions.
const MAX_BYTES: u64 = 64 << 30;
const MAX_DEPTH: usize = 128;

impl JobContainers {
    /// Copies what the image has in its work directory, and in other folders that are to be on this machine: so the work is
    /// observed as it grows, and stays.
    pub(super) async fn copy_files(
        &self,
        setup: &ContainerSetup<'_>,
        image: &Image,
        staged: &mut StagedEnvironment,
    ) -> Result<(), Fault> {
        let name = format!("{}-files", setup.name);
        let order = CreateOrder { name: name.clone(), ..self.order(setup, image) };
        self.engine.create(&order).await?;
        for folder in &setup.shown {
            if staged.host_path(folder).is_none() && !is_of_system(folder) {
                let mount = StagedMount {
                    path: folder.clone(),
                    folder: staged.root.join(folder.trim_start_matches('/')),
                };
                staged.mounts.push(mount);
            }
        }
        let mut copied = Ok(());
        for mount in &staged.mounts {
            fs::create_dir_all(&mount.folder).map_err(to_environment_fault)?;
            let from = format!("{}/.", mount.path.trim_end_matches('/'));
            let timeout = setup.settings.build_timeout;
            // An image need not have the folder.
            copied = copied
                .and(self.engine.copy_out(&name, &from, &mount.folder, timeout).await.map(drop));
        }
        let removed = self.engine.remove(&name).await;
        copied.and(removed).map_err(Fault::from)
    }
}

impl ContainerSetup<'_> {
    /// Returns what identifies everything that the image is made from.
    pub(super) fn digest(&self) -> String {
        let mut hasher = blake3::Hasher::new();
        hasher.update(self.task.digest.as_bytes());
        if let EnvironmentSource::Dockerfile(dockerfile) = self.source {
            let path = dockerfile.path.strip_prefix(&self.task.folder);
            hasher.update(path.unwrap_or(&dockerfile.path).as_os_str().as_encoded_bytes());
        }
        hasher.finalize().to_hex().to_string()
    }

    /// Returns the environment without its files.
    pub(super) fn describe(&self, image: &Image) -> Result<StagedEnvironment, Fault> {
        let named = self.settings.workdir.clone().filter(|folder| !folder.is_empty());
        let workdir = named.unwrap_or_else(|| image.workdir.clone());
        let is_reserved = ["/", LOGS, TESTS, SOLUTION].iter().any(|reserved| {
            let path = Path::new(&workdir);
            path == Path::new(reserved) || (*reserved != "/" && path.starts_with(reserved))
        });
        if is_reserved || !workdir.starts_with('/') {
            let message = format!(
                "the work directory {workdir:?} of the image {} cannot be shown by a folder of this machine: add a \
                 WORKDIR line such as /app, or `workdir` to [environment]",
                image.name
            );
            return Err(fault(Cause::Sandbox, TASK_SETUP_ERROR, message));
        }
        let root = self.dir.join("environment/root");
        let folder = root.join(workdir.trim_start_matches('/'));
        fs::create_dir_all(&folder).map_err(to_environment_fault)?;
        let env = resolve_env(&self.settings.env, self.vars);
        let env = env.map_err(|error| {
            fault(Cause::Sandbox, "EnvironmentVariableError", error.to_string())
        })?;
        let mounts = vec![StagedMount { path: workdir.clone(), folder }];
        Ok(StagedEnvironment::with_mounts(root, mounts, workdir, env))
    }

    /// Returns what of this machine the container shows, and makes the folders of it.
    pub(super) fn list_mounts(
        &self,
        staged: &StagedEnvironment,
        folders: &Path,
    ) -> io::Result<Vec<Mount>> {
        let access = MountAccess::Writable;
        let mut mounts = Vec::new();
        for mount in &staged.mounts {
            let target = PathBuf::from(&mount.path);
            mounts.push(Mount { source: mount.folder.clone(), target, access });
        }
        for (name, target) in PLACES {
            if target == TESTS && self.has_bundled_tests {
                continue;
            }
            let source = folders.join(name);
            fs::create_dir_all(&source)?;
            mounts.push(Mount { source, target: target.into(), access });
        }
        mounts.extend(self.shared.iter().cloned());
        Ok(mounts)
    }

    /// Returns the search path of the image, and after it the folders of this machine's that the container shows.
    pub(super) fn search_path(&self, image: &Image) -> String {
        let of_image = image.path.as_deref().unwrap_or(IMAGE_PATH);
        let own = self.vars.get("PATH").map(String::as_str).unwrap_or_default();
        let is_shared = |folder: &&str| {
            self.shared.iter().any(|mount| Path::new(folder).starts_with(&mount.target))
        };
        let shown = own.split(':').filter(is_shared);
        std::iter::once(of_image).chain(shown).collect::<Vec<_>>().join(":")
    }
}

impl Container {
    /// Returns the folder in which decoys, tests and solution are put.
    pub fn folders(&self) -> &Path {
        &self.folders
    }

    /// Shows these folders in the container, and nothing in their place if there are none.
    ///
    /// # Errors
    /// A file cannot be copied or removed.
    pub fn show(&self, shown: &[Mount]) -> io::Result<()> {
        for (name, target) in PLACES {
            let folder = self.folders.join(name);
            if !folder.is_dir() {
                continue;
            }
            let wanted = shown.iter().find(|mount| mount.target == Path::new(target));
            if wanted.is_some_and(|mount| mount.source == folder) {
                continue;
            }
            empty_folder(&folder)?;
            if let Some(mount) = wanted {
                copy_tree(&mount.source, &folder, MAX_DEPTH, &mut { MAX_BYTES })?;
            }
        }
        Ok(())
    }
}

/// Whether a folder is an image's own, or one that a trial puts its files into.
fn is_of_system(folder: &str) -> bool {
    SYSTEM_FOLDERS.contains(&folder) || [LOGS, TESTS, SOLUTION].contains(&folder)
}

/// Removes everything in a folder, which a container shows.
fn empty_folder(folder: &Path) -> io::Result<()> {
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        if entry.file_type()?.is_dir() {
            fs::remove_dir_all(entry.path())?;
        } else {
            fs::remove_file(entry.path())?;
        }
    }
    Ok(())
}
