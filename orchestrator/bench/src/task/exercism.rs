//! Loads practice exercises in Exercism's layout.

use std::collections::BTreeMap;
use std::fs::File;
use std::path::{Path, PathBuf};

use ralph_orchestrator_safe_fs::FileFingerprint;
use serde::Deserialize;

use super::model::{
    EnvironmentSource, FileCopy, Oracle, Step, Task, TaskDescription, TaskForm, Verification,
    VerifierSettings,
};
use super::problem::{Problem, TextLocation, TreeError};
use super::settings::{AgentSettings, EnvironmentSettings, RewardStrategy};
use super::text_file::{read_text, read_text_if_exists};
use super::tree::{Selection, TreeSink, is_plain_file, walk_tree};

/// The file that makes a folder an exercise.
pub(super) const EXERCISE_FILE: &str = ".meta/config.json";
/// Where an exercise is worked on.
const WORKDIR: &str = "/app";
const MAX_TEXT: usize = 4 << 20;

#[derive(Deserialize)]
struct ExerciseFile {
    files: ExerciseFiles,
    #[serde(default)]
    blurb: String,
    #[serde(default)]
    authors: Vec<String>,
    #[serde(default)]
    source: Option<String>,
}

#[derive(Deserialize)]
struct ExerciseFiles {
    solution: Vec<PathBuf>,
    test: Vec<PathBuf>,
    #[serde(default, alias = "exemplar")]
    example: Vec<PathBuf>,
    #[serde(default)]
    editor: Vec<PathBuf>,
}

/// Loads the exercise in this folder, whose path is absolute and without links.
///
/// # Errors
/// Returns everything that is wrong with it.
pub(super) fn load_exercism(folder: &Path, digest: String) -> Result<Task, Vec<Problem>> {
    let path = folder.join(EXERCISE_FILE);
    let problem = |error: TreeError| vec![Problem::new(folder, error.to_string())];
    let text = read_text(&path, MAX_TEXT).map_err(problem)?;
    let exercise: ExerciseFile = serde_json::from_str(&text).map_err(|error| {
        let mut location = TextLocation::from_line(&path, error.line());
        location.column = Some(error.column());
        vec![Problem { location, message: error.to_string() }]
    })?;
    let mut problems = check_files(folder, &path, &exercise.files);
    let instruction = read_instruction(folder, &exercise.files).map_err(problem)?;
    if instruction.is_none() {
        let path = folder.join(".docs/instructions.md");
        problems.push(Problem::new(&path, "is missing: write there what has to be done"));
    }
    if !problems.is_empty() {
        return Err(problems);
    }
    let files = starting_files(folder, &exercise.files).map_err(problem)?;
    let name = folder.file_name().unwrap_or_default().to_string_lossy().into_owned();
    let step = Step {
        name: None,
        instruction,
        agent: AgentSettings::default(),
        verifier: VerifierSettings::default(),
        verification: find_tests(folder, &exercise.files),
        oracle: find_example(folder, &exercise.files),
        min_reward: None,
        healthcheck: None,
        artifacts: Vec::new(),
        workdir_files: None,
        prior_trajectory: None,
    };
    Ok(Task {
        name,
        form: TaskForm::Exercism,
        folder: folder.to_owned(),
        digest,
        about: TaskDescription {
            description: exercise.blurb,
            authors: exercise.authors.into_iter().map(|author| (author, None)).collect(),
            origin: exercise.source,
            ..TaskDescription::default()
        },
        source: EnvironmentSource::Files(files),
        environment: EnvironmentSettings {
            workdir: Some(WORKDIR.to_owned()),
            ..EnvironmentSettings::default()
        },
        solution_env: BTreeMap::new(),
        steps: vec![step],
        reward_strategy: RewardStrategy::default(),
        warnings: Vec::new(),
    })
}

/// Returns what is wrong with the lists of files.
fn check_files(folder: &Path, config: &Path, files: &ExerciseFiles) -> Vec<Problem> {
    let mut problems = Vec::new();
    for (key, list) in [("solution", &files.solution), ("test", &files.test)] {
        if list.is_empty() {
            let message = format!("`files.{key}` is empty: name at least one file");
            problems.push(Problem::new(config, message));
        }
    }
    let all = [&files.solution, &files.test, &files.example, &files.editor];
    for path in all.into_iter().flatten() {
        let is_inner =
            path.components().all(|part| matches!(part, std::path::Component::Normal(_)));
        let message = if is_inner {
            match is_plain_file(&folder.join(path)) {
                Ok(true) => continue,
                Ok(false) => format!("`files` names {}, which is not there", path.display()),
                Err(error) => error.to_string(),
            }
        } else {
            format!("`files` names {}: write a path below the exercise", path.display())
        };
        problems.push(Problem::new(config, message));
    }
    problems
}

/// Returns the instructions, what the track appends to them, and which files are to be edited.
fn read_instruction(folder: &Path, files: &ExerciseFiles) -> Result<Option<String>, TreeError> {
    let docs = folder.join(".docs");
    let introduction = read_text_if_exists(&docs.join("introduction.md"), MAX_TEXT)?;
    let instructions = read_text_if_exists(&docs.join("instructions.md"), MAX_TEXT)?;
    let append = read_text_if_exists(&docs.join("instructions.append.md"), MAX_TEXT)?;
    let Some(instructions) = instructions else { return Ok(None) };
    let names: Vec<String> = files.solution.iter().map(|path| path.display().to_string()).collect();
    let edit = format!(
        "Edit {} in the current directory. Tests that you do not see decide.",
        names.join(", ")
    );
    let parts = introduction.into_iter().chain([instructions]).chain(append).chain([edit]);
    let parts: Vec<String> = parts.map(|part| part.trim().to_owned()).collect();
    Ok(Some(parts.join("\n\n") + "\n"))
}

/// Returns what the agent begins with: all files but the tests and those about the exercise.
fn starting_files(folder: &Path, files: &ExerciseFiles) -> Result<Vec<FileCopy>, TreeError> {
    let mut list = FileList { folder, tests: &files.test, found: Vec::new() };
    walk_tree(folder, &mut list)?;
    Ok(list.found)
}

struct FileList<'f> {
    folder: &'f Path,
    tests: &'f [PathBuf],
    found: Vec<FileCopy>,
}

impl TreeSink for FileList<'_> {
    fn select(&mut self, path: &Path, _is_folder: bool) -> Selection {
        let is_about = [".meta", ".docs", ".approaches", ".articles"]
            .iter()
            .any(|name| path == Path::new(name));
        let is_test = self.tests.iter().any(|test| test == path);
        if is_about || is_test { Selection::Skip } else { Selection::Take }
    }

    fn visit_folder(&mut self, _path: &Path, _mode: u32) -> Result<(), TreeError> {
        Ok(())
    }

    fn visit_file(
        &mut self,
        path: &Path,
        _file: File,
        _found: &FileFingerprint,
    ) -> Result<(), TreeError> {
        self.found.push(FileCopy { source: self.folder.join(path), target: path.to_owned() });
        Ok(())
    }

    fn visit_link(&mut self, path: &Path, _target: &Path) -> Result<(), TreeError> {
        Err(TreeError::Link { path: self.folder.join(path) })
    }
}

/// Returns the tests, and the command that runs them by the ending of their names.
fn find_tests(folder: &Path, files: &ExerciseFiles) -> Verification {
    let names: Vec<String> = files.test.iter().map(|path| path.display().to_string()).collect();
    let ending = files.test.first().and_then(|path| path.extension()?.to_str()).unwrap_or_default();
    let mut env = BTreeMap::new();
    let words: &[&str] = match ending {
        "py" => &["python3", "-m", "pytest", "-q", "-p", "no:cacheprovider"],
        "bats" => {
            env.insert("BATS_RUN_SKIPPED".to_owned(), "true".to_owned());
            &["bats"]
        }
        "rs" => &["cargo", "test", "--offline", "--", "--include-ignored"],
        "go" => &["go", "test", "./..."],
        "rb" => &["ruby"],
        _ => &[],
    };
    let takes_names = matches!(ending, "py" | "bats" | "rb");
    let mut program: Vec<String> = words.iter().map(|word| (*word).to_owned()).collect();
    if takes_names {
        program.extend(names);
    }
    let to_copy = |path: &PathBuf| FileCopy { source: folder.join(path), target: path.clone() };
    let files = files.test.iter().chain(&files.editor).map(to_copy).collect();
    Verification::Command { files, program, env }
}

/// Returns the example as the solution: each of its files for the first file of the same ending that is left.
fn find_example(folder: &Path, files: &ExerciseFiles) -> Option<Oracle> {
    let mut left: Vec<&PathBuf> = files.solution.iter().collect();
    let mut copies = Vec::new();
    for example in &files.example {
        let at = left.iter().position(|target| target.extension() == example.extension());
        // An example may bring more files than the solution has; these come beside it.
        let target = match at {
            Some(at) => left.remove(at).clone(),
            None => PathBuf::from(example.file_name()?),
        };
        copies.push(FileCopy { source: folder.join(example), target });
    }
    (!copies.is_empty()).then_some(Oracle::Files(copies))
}
