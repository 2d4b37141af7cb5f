//! Loads Harbor task directories, of the schema 1.0 to 1.4.

mod environment;
mod layout;
mod network;
mod verifier;

use std::path::Path;

use super::model::{
    EnvironmentSource, Step, Task, TaskDescription, TaskForm, VerifierEnvironment, VerifierSettings,
};
use super::problem::{Problem, TreeError};
use super::settings::{
    AgentSettings, Artifact, DEFAULT_VERIFIER_TIMEOUT, EnvironmentSettings, RewardStrategy,
};
use super::text_file::{read_text, read_text_if_exists};
use super::toml_table::{TableReader, TomlText};
use super::tree::{is_plain_file, is_plain_folder};
use environment::{EnvironmentTable, require_string, take_environment};
use layout::{find_oracle, find_script, strip_canary};
use verifier::{StepTable, VerifierTable, take_agent, take_artifacts, take_steps, take_verifier};

/// The file that makes a folder a Harbor task.
pub(super) const TASK_FILE: &str = "task.toml";
/// Bytes of `task.toml`, and of an instruction.
const MAX_TEXT: usize = 4 << 20;
/// The versions of the schema that are known.
const VERSIONS: [&str; 5] = ["1.0", "1.1", "1.2", "1.3", "1.4"];

/// Loads the task in this folder, whose path is absolute and without links.
///
/// # Errors
/// Returns everything that is wrong with it.
pub(super) fn load_harbor(folder: &Path, digest: String) -> Result<Task, Vec<Problem>> {
    let file = folder.join(TASK_FILE);
    let text = read_text(&file, MAX_TEXT).map_err(|error| vec![to_problem(&error, &file)])?;
    let mut toml = TomlText::new(&file, &text);
    let Some(mut top) = toml.parse() else { return Err(toml.errors) };
    let document = Document::take(&mut toml, &mut top);
    top.finish(&mut toml);
    let metadata =
        text.parse().ok().and_then(|mut table: toml::Table| match table.remove("metadata") {
            Some(toml::Value::Table(metadata)) => Some(metadata),
            _ => None,
        });
    let mut errors = std::mem::take(&mut toml.errors);
    let warnings = std::mem::take(&mut toml.warnings);
    let mut assembly = Assembly { folder, document, errors: &mut errors, warnings };
    let task = assembly.assemble(metadata.unwrap_or_default(), digest);
    if errors.is_empty() {
        task.map_err(|error| vec![to_problem(&error, folder)])
    } else {
        Err(errors)
    }
}

/// Returns the problem that an error is, at the path that it names.
fn to_problem(error: &TreeError, _folder: &Path) -> Problem {
    let (path, message) = match error {
        TreeError::UnsafeLink { path, .. }
        | TreeError::Link { path }
        | TreeError::SpecialFile { path }
        | TreeError::TooLarge { path, .. }
        | TreeError::Io { path, .. } => (path, error.to_string()),
    };
    // The message begins with the path, which the problem's location says already.
    let prefix = format!("{}: ", path.display());
    let message = message.strip_prefix(&prefix).unwrap_or(&message).to_owned();
    Problem::new(path, message)
}

/// `task.toml`, as it is written.
struct Document {
    about: TaskDescription,
    name: Option<String>,
    agent: AgentSettings,
    verifier: VerifierTable,
    environment: EnvironmentTable,
    solution_env: std::collections::BTreeMap<String, String>,
    artifacts: Vec<Artifact>,
    strategy: Option<RewardStrategy>,
    steps: Vec<StepTable>,
}

impl Document {
    fn take(text: &mut TomlText<'_>, top: &mut TableReader<'_>) -> Self {
        let mut about = TaskDescription {
            schema_version: take_version(text, top),
            origin: top.take_plain_string(text, "source"),
            ..TaskDescription::default()
        };
        let name =
            top.take_table(text, "task").and_then(|table| take_package(text, table, &mut about));
        let strategies = [("mean", RewardStrategy::Mean), ("final", RewardStrategy::Final)];
        let environment = top.take_table(text, "environment");
        let environment = environment.map_or_else(
            || EnvironmentTable { settings: EnvironmentSettings::default(), names_os: false },
            |table| take_environment(text, table),
        );
        let solution = top.take_table(text, "solution");
        let solution_env = solution.map(|mut table| {
            let env = table.take_string_map(text, "env");
            table.finish(text);
            env
        });
        // What is below it is free.
        let _ = top.take_table(text, "metadata");
        Self {
            about,
            name,
            agent: take_agent(text, top),
            verifier: take_verifier(text, top),
            environment,
            solution_env: solution_env.unwrap_or_default(),
            artifacts: take_artifacts(text, top),
            strategy: top.take_word(text, "multi_step_reward_strategy", &strategies),
            steps: take_steps(text, top),
        }
    }
}

/// Takes the version of the schema, by its name or its older one.
fn take_version(text: &mut TomlText<'_>, top: &mut TableReader<'_>) -> Option<String> {
    let old = top.take_string(text, "version");
    let version = top.take_string(text, "schema_version").or(old)?;
    if !VERSIONS.contains(&version.get_ref().as_str()) {
        let message = format!(
            "the version {} of the schema is not known, and what is new in it has no effect; known are {}",
            version.get_ref(),
            VERSIONS.join(", ")
        );
        text.warn(&version.span(), message);
    }
    Some(version.into_inner())
}

/// Takes `[task]`, and returns the name.
fn take_package(
    text: &mut TomlText<'_>,
    mut table: TableReader<'_>,
    about: &mut TaskDescription,
) -> Option<String> {
    let span = table.span();
    let name = require_string(text, &mut table, "name");
    about.version = table.take_plain_string(text, "version");
    about.description = table.take_plain_string(text, "description").unwrap_or_default();
    about.keywords = table.take_plain_strings(text, "keywords");
    for mut author in table.take_tables(text, "authors") {
        let name = require_string(text, &mut author, "name").unwrap_or_default();
        about.authors.push((name, author.take_plain_string(text, "email")));
        author.finish(text);
    }
    table.finish(text);
    let is_part = |part: &str| {
        part.starts_with(|c: char| c.is_ascii_alphanumeric())
            && part.chars().all(|c| c.is_ascii_alphanumeric() || "._-".contains(c))
    };
    let name = name?;
    let is_name = name.split_once('/').is_some_and(|(org, name)| is_part(org) && is_part(name));
    if !is_name || name.contains("..") {
        let message = format!(
            "`task.name` is \"{name}\", expected org/name of letters, digits, `-`, `_` and `.`, each beginning with a \
             letter or digit"
        );
        text.error(&span, message);
    }
    Some(name)
}

/// Puts the document and the files of the folder together.
struct Assembly<'a> {
    folder: &'a Path,
    document: Document,
    errors: &'a mut Vec<Problem>,
    warnings: Vec<Problem>,
}

impl Assembly<'_> {
    fn assemble(&mut self, metadata: toml::Table, digest: String) -> Result<Task, TreeError> {
        let folder = self.folder;
        let environment = self.document.environment.settings.clone();
        let source = find_source(&folder.join("environment"), environment.docker_image.as_deref())?;
        let tables = std::mem::take(&mut self.document.steps);
        let mut steps = Vec::new();
        if tables.is_empty() {
            steps.push(self.make_single_step(&source)?);
        }
        for table in tables {
            steps.push(self.make_named_step(table, &source)?);
        }
        if is_plain_file(&folder.join(".harborignore"))? {
            let path = folder.join(".harborignore");
            self.warnings.push(Problem::new(
                &path,
                "has no effect: all files of tests/ and solution/ are copied",
            ));
        }
        if self.document.strategy.is_some() && steps.iter().all(|step| step.name.is_none()) {
            let message = "`multi_step_reward_strategy` has no effect on a task without [[steps]]";
            self.warnings.push(Problem::new(&folder.join(TASK_FILE), message));
        }
        let mut about = std::mem::take(&mut self.document.about);
        about.metadata = metadata;
        let folder_name = folder.file_name().unwrap_or_default().to_string_lossy().into_owned();
        Ok(Task {
            name: self.document.name.take().unwrap_or(folder_name),
            form: TaskForm::Harbor,
            folder: folder.to_owned(),
            digest,
            about,
            source,
            environment,
            solution_env: std::mem::take(&mut self.document.solution_env),
            steps,
            reward_strategy: self.document.strategy.unwrap_or_default(),
            warnings: std::mem::take(&mut self.warnings),
        })
    }

    fn add_error(&mut self, path: &Path, message: impl Into<String>) {
        self.errors.push(Problem::new(path, message));
    }

    /// Returns the instruction beside the other files of a task or step.
    fn read_instruction(&mut self, folder: &Path) -> Result<Option<String>, TreeError> {
        let path = folder.join("instruction.md");
        let text = read_text_if_exists(&path, MAX_TEXT)?;
        if text.is_none() {
            self.add_error(&path, "is missing: write there what the agent has to do");
        }
        Ok(text.map(|text| strip_canary(&text)))
    }

    fn make_single_step(&mut self, source: &EnvironmentSource) -> Result<Step, TreeError> {
        let folder = self.folder;
        let table = std::mem::take(&mut self.document.verifier);
        let is_separate = table.mode().unwrap_or(false);
        let environment = match is_separate {
            true => Some(
                self.find_verifier_environment(&[(table.environment.as_ref(), folder)], source)?,
            ),
            false => None,
        };
        let has_bundled_tests = environment.as_ref().is_some_and(|env| env.has_bundled_tests);
        let folders = [folder.join("tests")];
        let trajectory = folder.join("trajectory.json");
        Ok(Step {
            name: None,
            instruction: self.read_instruction(folder)?,
            agent: self.document.agent.clone(),
            verification: find_script(&folders, has_bundled_tests, self.errors)?,
            verifier: VerifierSettings {
                timeout: table.timeout.unwrap_or(DEFAULT_VERIFIER_TIMEOUT),
                env: table.env,
                user: table.user,
                network: table.network,
                environment,
                collect: table.collect,
            },
            oracle: find_oracle(&[folder.join("solution")])?,
            min_reward: None,
            healthcheck: None,
            artifacts: self.document.artifacts.clone(),
            workdir_files: None,
            prior_trajectory: is_plain_file(&trajectory)?.then_some(trajectory),
        })
    }

    fn make_named_step(
        &mut self,
        table: StepTable,
        source: &EnvironmentSource,
    ) -> Result<Step, TreeError> {
        let folder = self.folder.join("steps").join(&table.name);
        if !is_plain_folder(&folder)? {
            self.add_error(
                &folder,
                format!("is missing: the step \"{}\" needs its files there", table.name),
            );
        }
        let own = table.verifier;
        let task = std::mem::take(&mut self.document.verifier);
        let is_separate = own.mode().or(task.mode()).unwrap_or(false);
        let tables = [
            (own.environment.as_ref(), folder.as_path()),
            (task.environment.as_ref(), self.folder),
        ];
        let environment = match is_separate {
            true => Some(self.find_verifier_environment(&tables, source)?),
            false => None,
        };
        let has_bundled_tests = environment.as_ref().is_some_and(|env| env.has_bundled_tests);
        let folders = [self.folder.join("tests"), folder.join("tests")];
        let workdir = folder.join("workdir");
        let trajectory = folder.join("trajectory.json");
        let mut env = task.env.clone();
        env.extend(own.env);
        let step = Step {
            instruction: self.read_instruction(&folder)?,
            agent: AgentSettings {
                timeout: table.agent.timeout.or(self.document.agent.timeout),
                user: table.agent.user.or_else(|| self.document.agent.user.clone()),
                network: table.agent.network.or_else(|| self.document.agent.network.clone()),
            },
            verification: find_script(&folders, has_bundled_tests, self.errors)?,
            verifier: VerifierSettings {
                timeout: own.timeout.or(task.timeout).unwrap_or(DEFAULT_VERIFIER_TIMEOUT),
                env,
                user: own.user.or_else(|| task.user.clone()),
                network: own.network.or_else(|| task.network.clone()),
                environment,
                collect: [task.collect.clone(), own.collect].concat(),
            },
            oracle: find_oracle(&[folder.join("solution"), self.folder.join("solution")])?,
            min_reward: table.min_reward,
            healthcheck: table.healthcheck,
            artifacts: [self.document.artifacts.clone(), table.artifacts].concat(),
            workdir_files: is_plain_folder(&workdir)?.then_some(workdir),
            prior_trajectory: is_plain_file(&trajectory)?.then_some(trajectory),
            name: Some(table.name),
        };
        self.document.verifier = task;
        Ok(step)
    }

    /// Returns the environment of a separate verifier: the first that a table gives an image, or whose folder of tests
    /// has a Dockerfile, else another copy of the agent's. The first table that is there says what it asks for.
    fn find_verifier_environment(
        &self,
        tables: &[(Option<&EnvironmentTable>, &Path)],
        agent_source: &EnvironmentSource,
    ) -> Result<VerifierEnvironment, TreeError> {
        let table = tables.iter().find_map(|(table, _)| *table);
        let mut settings = table.map_or_else(
            || self.document.environment.settings.clone(),
            |table| table.settings.clone(),
        );
        if table.is_some_and(|table| !table.names_os) {
            settings.os = self.document.environment.settings.os;
        }
        for (table, folder) in tables {
            let image = table.and_then(|table| table.settings.docker_image.as_deref());
            let source = find_source(&folder.join("tests"), image)?;
            if !matches!(source, EnvironmentSource::Nothing(_)) {
                return Ok(VerifierEnvironment { settings, source, has_bundled_tests: true });
            }
        }
        Ok(VerifierEnvironment { settings, source: agent_source.clone(), has_bundled_tests: false })
    }
}

/// Returns what the files of a folder make an environment from.
fn find_source(folder: &Path, image: Option<&str>) -> Result<EnvironmentSource, TreeError> {
    if !is_plain_folder(folder)? {
        let nothing = || EnvironmentSource::Nothing(folder.to_owned());
        return Ok(image.map_or_else(nothing, |image| EnvironmentSource::Image(image.to_owned())));
    }
    for name in ["docker-compose.yaml", "docker-compose.yml"] {
        let compose = folder.join(name);
        if is_plain_file(&compose)? {
            return Ok(EnvironmentSource::Compose(compose));
        }
    }
    let path = folder.join("Dockerfile");
    if is_plain_file(&path)? {
        let dockerfile = super::dockerfile::Dockerfile::read(&path)?;
        return Ok(EnvironmentSource::Dockerfile(Box::new(dockerfile)));
    }
    Ok(image.map_or_else(
        || EnvironmentSource::Nothing(folder.to_owned()),
        |image| EnvironmentSource::Image(image.to_owned()),
    ))
}
