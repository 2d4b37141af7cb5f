//! Loads tasks of the project's own form: folders with `ralph.toml`.

use std::collections::BTreeMap;
use std::path::Path;

use super::model::{
    EnvironmentSource, Step, Task, TaskDescription, TaskForm, Verification, VerifierSettings,
};
use super::problem::Problem;
use super::settings::{AgentSettings, EnvironmentSettings, RewardStrategy};
use super::text_file::read_text;
use super::toml_table::TomlText;

/// The file that makes a folder a task of this form.
pub(super) const CONFIG_FILE: &str = "ralph.toml";
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
    let name = folder.file_name().unwrap_or_default().to_string_lossy().into_owned();
    let step = Step {
        name: None,
        instruction: None,
        agent: AgentSettings::default(),
        verifier: VerifierSettings::default(),
        verification: Verification::Validators,
        oracle: None,
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
