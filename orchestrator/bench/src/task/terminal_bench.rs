//! Loads tasks of Terminal-Bench 1: `task.yaml` with the instruction, `Dockerfile`, `docker-compose.yaml`, `run-tests.sh`,
//! `tests/` and `solution.sh`. Its harness reads the results of the tests from what they print.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde::Deserialize;
use serde::de::IgnoredAny;

use super::dockerfile::Dockerfile;
use super::model::{
    EnvironmentSource, FileCopy, Oracle, RewardSource, Step, Task, TaskDescription, TaskForm,
    Verification, VerifierSettings,
};
use super::problem::{Problem, TextLocation, TreeError};
use super::settings::{AgentSettings, EnvironmentSettings, RewardStrategy};
use super::text_file::read_text;
use super::tree::{is_plain_file, is_plain_folder};

/// The file that makes a folder a task of this form.
pub(super) const TASK_FILE: &str = "task.yaml";
const TESTS: &str = "tests";
const TEST_SCRIPT: &str = "run-tests.sh";
const SOLUTION_SCRIPT: &str = "solution.sh";
const MAX_TEXT: usize = 4 << 20;
/// What reads results, of which only this is known.
const PARSER: &str = "pytest";
/// Its harness's own variables, for which it has no other values.
const TEST_DIR: &str = "T_BENCH_TEST_DIR";
const IN_TESTS: &str = "/tests";

#[derive(Deserialize)]
struct TaskFile {
    instruction: String,
    #[serde(default)]
    author_name: Option<String>,
    #[serde(default)]
    author_email: Option<String>,
    #[serde(default)]
    difficulty: Option<String>,
    #[serde(default)]
    category: Option<String>,
    #[serde(default)]
    tags: Vec<String>,
    #[serde(default = "default_parser")]
    parser_name: String,
    #[serde(default = "default_agent_timeout")]
    max_agent_timeout_sec: f64,
    #[serde(default = "default_test_timeout")]
    max_test_timeout_sec: f64,
    #[serde(default)]
    run_tests_in_same_shell: bool,
}

fn default_parser() -> String {
    PARSER.to_owned()
}

const fn default_agent_timeout() -> f64 {
    360.0
}

const fn default_test_timeout() -> f64 {
    60.0
}

/// Loads the task in this folder, whose path is absolute and without links.
///
/// # Errors
/// Returns everything that is wrong with it.
pub(super) fn load_terminal_bench(folder: &Path, digest: String) -> Result<Task, Vec<Problem>> {
    let path = folder.join(TASK_FILE);
    let file: TaskFile = read_yaml(&path).map_err(|problem| vec![problem])?;
    let mut problems = check_settings(&path, &file);
    let found =
        find_files(folder).map_err(|error| vec![Problem::new(folder, error.to_string())])?;
    if found.script.is_none() {
        let message = "is missing: it runs the tests";
        problems.push(Problem::new(&folder.join(TEST_SCRIPT), message));
    }
    let source = find_source(folder).map_err(|problem| vec![problem])?;
    let timeouts = [file.max_agent_timeout_sec, file.max_test_timeout_sec].map(to_time);
    let ([Some(of_agent), Some(of_tests)], Some(script), true) =
        (timeouts, found.script, problems.is_empty())
    else {
        return Err(problems);
    };
    let to_tests = |value: &str| (("TEST_DIR".to_owned()), value.to_owned());
    let step = Step {
        name: None,
        instruction: Some(file.instruction),
        agent: AgentSettings { timeout: Some(of_agent), ..AgentSettings::default() },
        verifier: VerifierSettings {
            timeout: of_tests,
            env: BTreeMap::from([to_tests(IN_TESTS)]),
            ..VerifierSettings::default()
        },
        verification: Verification::Script {
            folders: found.tests.into_iter().collect(),
            files: vec![script],
            script: PathBuf::from(TEST_SCRIPT),
            reward: RewardSource::PytestSummary,
        },
        oracle: found.oracle,
        min_reward: None,
        healthcheck: None,
        artifacts: Vec::new(),
        workdir_files: None,
        prior_trajectory: None,
    };
    let metadata = [("difficulty", file.difficulty), ("category", file.category)];
    let metadata = metadata.into_iter().filter_map(|(key, value)| Some((key.to_owned(), value?)));
    Ok(Task {
        name: folder.file_name().unwrap_or_default().to_string_lossy().into_owned(),
        form: TaskForm::TerminalBench,
        folder: folder.to_owned(),
        digest,
        about: TaskDescription {
            authors: file.author_name.map(|name| (name, file.author_email)).into_iter().collect(),
            keywords: file.tags,
            metadata: metadata.map(|(key, value)| (key, value.into())).collect(),
            ..TaskDescription::default()
        },
        source,
        environment: EnvironmentSettings::default(),
        solution_env: BTreeMap::new(),
        steps: vec![step],
        reward_strategy: RewardStrategy::default(),
        warnings: Vec::new(),
    })
}

fn read_yaml<T: for<'de> Deserialize<'de>>(path: &Path) -> Result<T, Problem> {
    let text = read_text(path, MAX_TEXT).map_err(|error| Problem::new(path, error.to_string()))?;
    serde_saphyr::from_str(&text).map_err(|error| {
        let place = error.location().map(|at| (at.line(), at.column()));
        let location = place.map_or_else(
            || TextLocation::from_file(path),
            |(line, column)| TextLocation {
                column: usize::try_from(column).ok(),
                ..TextLocation::from_line(path, usize::try_from(line).unwrap_or(1))
            },
        );
        Problem { location, message: error.without_snippet().to_string() }
    })
}

/// Returns what of its settings is wrong, or cannot be honoured so that its reward would be another.
fn check_settings(path: &Path, file: &TaskFile) -> Vec<Problem> {
    let mut problems = Vec::new();
    if file.parser_name != PARSER {
        let message = format!(
            "`parser_name` is \"{}\", and only the results of \"{PARSER}\" can be read",
            file.parser_name
        );
        problems.push(Problem::new(path, message));
    }
    if file.run_tests_in_same_shell {
        let message =
            "`run_tests_in_same_shell` is true, and the shells of agents do not outlive them";
        problems.push(Problem::new(path, message));
    }
    let times = [
        ("max_agent_timeout_sec", file.max_agent_timeout_sec),
        ("max_test_timeout_sec", file.max_test_timeout_sec),
    ];
    for (key, seconds) in times {
        if to_time(seconds).is_none() {
            let message = format!("`{key}` is {seconds}, expected seconds above 0");
            problems.push(Problem::new(path, message));
        }
    }
    problems
}

fn to_time(seconds: f64) -> Option<Duration> {
    Duration::try_from_secs_f64(seconds).ok().filter(|time| !time.is_zero())
}

struct FoundFiles {
    tests: Option<PathBuf>,
    script: Option<FileCopy>,
    oracle: Option<Oracle>,
}

fn find_files(folder: &Path) -> Result<FoundFiles, TreeError> {
    let (tests, script) = (folder.join(TESTS), folder.join(TEST_SCRIPT));
    let has_solution = is_plain_file(&folder.join(SOLUTION_SCRIPT))?;
    Ok(FoundFiles {
        tests: is_plain_folder(&tests)?.then_some(tests),
        script: is_plain_file(&script)?
            .then(|| FileCopy { source: script, target: PathBuf::from(TEST_SCRIPT) }),
        oracle: has_solution.then(|| Oracle::Script {
            folder: folder.to_owned(),
            script: PathBuf::from(SOLUTION_SCRIPT),
        }),
    })
}

#[derive(Deserialize)]
struct ComposeFile {
    services: BTreeMap<String, Service>,
}

/// A service, as most tasks have one: built from the Dockerfile, and kept alive for the harness.
#[derive(Deserialize)]
struct Service {
    #[serde(default)]
    build: Option<Build>,
    #[serde(default)]
    environment: Option<Variables>,
    #[serde(default)]
    volumes: Vec<String>,
    #[serde(flatten)]
    others: BTreeMap<String, IgnoredAny>,
}

#[derive(Deserialize)]
#[serde(untagged)]
enum Build {
    Context(String),
    Parts {
        #[serde(default)]
        context: Option<String>,
        #[serde(default)]
        dockerfile: Option<String>,
        #[serde(flatten)]
        others: BTreeMap<String, IgnoredAny>,
    },
}

#[derive(Deserialize)]
#[serde(untagged)]
enum Variables {
    List(Vec<String>),
    Table(BTreeMap<String, String>),
}

impl Service {
    /// Returns the Dockerfile of a service that asks for nothing more than one.
    fn find_dockerfile(&self) -> Option<&str> {
        /// What the harness fills in, or nothing depends on.
        const HARMLESS: [&str; 5] =
            ["image", "container_name", "command", "init", "stop_grace_period"];
        let is_test_dir = |value: &str| value.trim_matches(['$', '{', '}']) == TEST_DIR;
        let has_own_variables = match &self.environment {
            None => false,
            Some(Variables::List(list)) => !list.iter().all(|entry| {
                entry
                    .split_once('=')
                    .is_some_and(|(name, value)| name == "TEST_DIR" && is_test_dir(value))
            }),
            Some(Variables::Table(table)) => {
                !table.iter().all(|(name, value)| name == "TEST_DIR" && is_test_dir(value))
            }
        };
        let is_usual = self.others.keys().all(|key| HARMLESS.contains(&key.as_str()))
            && self.volumes.iter().all(|volume| volume.starts_with("${T_BENCH_"))
            && !has_own_variables;
        let is_here = |context: &str| matches!(context, "." | "./");
        match &self.build {
            _ if !is_usual => None,
            Some(Build::Context(context)) if is_here(context) => Some("Dockerfile"),
            Some(Build::Parts { context, dockerfile, others })
                if others.is_empty() && context.as_deref().is_none_or(is_here) =>
            {
                Some(dockerfile.as_deref().unwrap_or("Dockerfile"))
            }
            _ => None,
        }
    }
}

/// Returns what the environment is made from: the Dockerfile, unless the Compose file asks for more.
fn find_source(folder: &Path) -> Result<EnvironmentSource, Problem> {
    let failed = |error: TreeError| Problem::new(folder, error.to_string());
    let mut name = "Dockerfile".to_owned();
    for compose in ["docker-compose.yaml", "docker-compose.yml"].map(|name| folder.join(name)) {
        if !is_plain_file(&compose).map_err(failed)? {
            continue;
        }
        let file: ComposeFile = read_yaml(&compose)?;
        let mut services = file.services.values();
        let dockerfile = services.next().and_then(Service::find_dockerfile);
        match dockerfile.filter(|_| file.services.len() == 1) {
            Some(found) => found.clone_into(&mut name),
            None => return Ok(EnvironmentSource::Compose(compose)),
        }
    }
    let path = folder.join(name);
    if !is_plain_file(&path).map_err(failed)? {
        return Ok(EnvironmentSource::Nothing(path));
    }
    Ok(EnvironmentSource::Dockerfile(Box::new(Dockerfile::read(&path).map_err(failed)?)))
}
