//! Artifacts of a container that are in no folder of this machine, and where those of a verifier come to.

use std::fs;
use std::path::{Component, Path};
use std::time::Duration;

use ralph_orchestrator_bench::task::{
    Artifact, MAIN_SERVICE, Mount as StagedMount, StagedEnvironment,
};
use ralph_orchestrator_bench::trial::{Cause, Fault};
use ralph_orchestrator_safe_fs::normalize_lexically;

use super::super::faults::fault;
use super::running::Container;

/// The folder of an attempt with what was copied out of its container.
const COPIED: &str = "environment/copied";
/// The longest that a copy may take.
const COPY_TIME: Duration = Duration::from_secs(600);

impl Container {
    /// Returns the files of the environment with those artifacts that only the container has. What is not there is left
    /// out.
    ///
    /// # Errors
    /// The engine does not do its work.
    pub async fn copy_artifacts_out(
        &self,
        artifacts: &[Artifact],
        staged: &StagedEnvironment,
        name: &str,
    ) -> Result<StagedEnvironment, Fault> {
        let mut staged = staged.clone();
        let root = self.folders.with_file_name(COPIED).join(name);
        for artifact in artifacts.iter().filter(|artifact| is_of_main(artifact)) {
            let path = absolute(&staged, &artifact.source);
            let Some(parent) = Path::new(&path).parent() else { continue };
            if staged.host_path(&path).is_some() {
                continue;
            }
            let into = root.join(parent.strip_prefix("/").unwrap_or(parent));
            fs::create_dir_all(&into).map_err(|error| {
                fault(Cause::Infrastructure, "EnvironmentError", error.to_string())
            })?;
            let copied = self.engine.copy_out(&self.name, &path, &into, COPY_TIME).await;
            let Some(file) = Path::new(&path).file_name() else { continue };
            if copied? {
                staged.mounts.push(StagedMount { folder: into.join(file), path });
            }
        }
        Ok(staged)
    }
}

/// Returns the folders of an environment that artifacts come into and no mount has, such as `/data`.
pub fn find_folders(artifacts: &[Artifact], workdir: &str) -> Vec<String> {
    let mut folders = Vec::new();
    for artifact in artifacts.iter().filter(|artifact| is_of_main(artifact)) {
        let path = normalize_lexically(&Path::new("/").join(workdir).join(&artifact.source));
        let first = path.components().find_map(|part| match part {
            Component::Normal(name) => Some(format!("/{}", name.to_string_lossy())),
            _ => None,
        });
        folders.extend(first.filter(|folder| !folders.contains(folder)));
    }
    folders
}

fn is_of_main(artifact: &Artifact) -> bool {
    artifact.service.as_deref().is_none_or(|service| service == MAIN_SERVICE)
}

fn absolute(staged: &StagedEnvironment, path: &str) -> String {
    let path = Path::new("/").join(&staged.workdir).join(path);
    normalize_lexically(&path).to_string_lossy().into_owned()
}
