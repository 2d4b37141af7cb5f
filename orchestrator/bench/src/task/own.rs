//! Loads tasks of the project's own form: folders with `ralph.toml`.

use std::collections::BTreeMap;
use std::path::Path;

use super::deciding_files::find_deciding_files;
use super::model::{
    EnvironmentSource, Oracle, Step, Task, TaskDescription, TaskForm, Verification,
    VerifierSettings,
};
use super::problem::{Problem, TreeError};
use super::settings::{AgentSettings, EnvironmentSettings, RewardStrategy};
use super::text_file::read_text;
use super::toml_table::TomlText;
use super::tree::find_plain;

/// The file that makes a folder a task of this form.
pub(super) const CONFIG_FILE: &str = "ralph.toml";
/// The folder with a task's solution, which no trial's environment has.
pub const SOLUTION_FOLDER: &str = "solution";
/// The script in it that makes the work what it has to be. It is run in the workspace.
pub const SOLUTION_SCRIPT: &str = "solve.sh";
const MAX_TEXT: usize = 4 << 20;

/// Loads the task in this folder, whose path is absolute and without links. What its configuration says is read by
/// those who run it; here it only has to be TOML with a validator.
///
/// # Errors
/// Returns everything that is wrong with it.
pub(super) fn load_own(folder: &Path, digest: String) -> Result<Task, Vec<Problem>> {
    let path = folder.join(CONFIG_FILE);
    let text = read_text(&path, MAX_TEXT)
        .map_err(|error| vec![Problem::new(folder, error.to_string())])?;
    let mut toml = TomlText::new(&path, &text);
    let Some(mut top) = toml.parse() else { return Err(toml.errors) };
    let span = top.span();
    let has_preset = top.take("preset").is_some();
    if top.take("validator").is_none() && !has_preset {
        toml.error(&span, "there is no [[validator]]: validators decide about a task of this form");
    }
    if !toml.errors.is_empty() {
        return Err(toml.errors);
    }
    let oracle =
        find_oracle(folder).map_err(|error| vec![Problem::new(folder, error.to_string())])?;
    let files = find_deciding_files(folder, &text.parse().unwrap_or_default())
        .map_err(|error| vec![Problem::new(folder, error.to_string())])?;
    let name = folder.file_name().unwrap_or_default().to_string_lossy().into_owned();
    let step = Step {
        name: None,
        instruction: None,
        agent: AgentSettings::default(),
        verifier: VerifierSettings::default(),
        verification: Verification::Validators { files },
        oracle,
        min_reward: None,
        healthcheck: None,
        artifacts: Vec::new(),
        workdir_files: None,
        prior_trajectory: None,
    };
    Ok(Task {
        name,
        form: TaskForm::Own,
        folder: folder.to_owned(),
        digest,
        about: TaskDescription::default(),
        source: EnvironmentSource::Configuration(path),
        environment: EnvironmentSettings::default(),
        solution_env: BTreeMap::new(),
        steps: vec![step],
        reward_strategy: RewardStrategy::default(),
        warnings: Vec::new(),
    })
}

/// Returns the solution of a task, if it has one.
fn find_oracle(folder: &Path) -> Result<Option<Oracle>, TreeError> {
    let (folder, script) = (folder.join(SOLUTION_FOLDER), Path::new(SOLUTION_SCRIPT));
    let is_there = find_plain(&folder.join(script))?.is_some();
    Ok(is_there.then(|| Oracle::Script { folder, script: script.to_owned() }))
}
