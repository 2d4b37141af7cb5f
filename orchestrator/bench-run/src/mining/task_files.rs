//! The folder of a mined task, in Harbor's form.

use std::path::{Path, PathBuf};
use std::{fs, io};

use ralph_orchestrator_assembly::error::CommandError;
use ralph_orchestrator_git::{GitError, HistoryReader, ObjectId, RepoPath};
use toml::{Table, Value};

use super::changes::CommitParts;
use super::prompt::TaskPrompt;
use super::scripts::{BROUGHT, VerifierCommands, WORKDIR, write_solution};

/// Characters of the subject in the name of a task.
const LONGEST_SUBJECT: usize = 40;
/// Digits of the base's id in it: that is known to whoever works on the task, and no other commit of the walk has it.
const BASE_DIGITS: usize = 8;
/// Seconds that an agent has, a verifier, and RUN lines.
const TIMES: [(&str, &str, i64); 3] = [
    ("agent", "timeout_sec", 1800),
    ("verifier", "timeout_sec", 600),
    ("environment", "build_timeout_sec", 1800),
];

/// A task in the making.
pub struct MinedTask<'a> {
    /// Reads the repository.
    pub reader: &'a HistoryReader,
    /// The tree that an agent gets.
    pub base: &'a ObjectId,
    /// The commit.
    pub fix: &'a ObjectId,
    /// What it changes.
    pub parts: &'a CommitParts,
    /// The folder, which exists.
    pub folder: &'a Path,
}

/// Returns the name of a task.
#[must_use]
pub fn name_task(prompt: &TaskPrompt, base: &ObjectId) -> String {
    let mut slug = String::new();
    for c in prompt.subject().chars() {
        if c.is_ascii_alphanumeric() {
            slug.push(c.to_ascii_lowercase());
        } else if !slug.is_empty() && !slug.ends_with('-') {
            slug.push('-');
        }
    }
    slug.truncate(LONGEST_SUBJECT);
    let slug = match slug.trim_end_matches('-') {
        "" => "task",
        slug => slug,
    };
    format!("{slug}-{}", base.as_str().get(..BASE_DIGITS).unwrap_or_default())
}

impl MinedTask<'_> {
    fn environment(&self) -> PathBuf {
        self.folder.join("environment")
    }

    /// Returns the git directory of the copied history. It is not called `.git`, so that tasks can be kept in a repository.
    #[must_use]
    pub fn git_dir(&self) -> PathBuf {
        self.environment().join("git")
    }

    /// Writes what the agent gets: the tree before the commit, and the history up to it.
    ///
    /// # Errors
    /// Git fails, or a file cannot be written.
    pub fn write_base(&self) -> Result<(), GitError> {
        let tree = self.environment().join("tree");
        create(&tree)?;
        self.reader.write_history(self.base, &self.git_dir())?;
        self.reader.write_files(self.base, None, &tree)
    }

    /// Writes the tests and the solution, each with its script.
    ///
    /// # Errors
    /// Git fails, or a file cannot be written.
    pub fn write_commit(&self, commands: &VerifierCommands) -> Result<(), GitError> {
        let CommitParts { tests, removed_tests, work, removed_work } = self.parts;
        let verifier = commands.write_verifier(removed_tests);
        self.write_part("tests", tests, ("test.sh", verifier))?;
        self.write_part("solution", work, ("solve.sh", write_solution(removed_work)))
    }

    fn write_part(
        &self,
        name: &str,
        paths: &[RepoPath],
        (script, text): (&str, String),
    ) -> Result<(), GitError> {
        let folder = self.folder.join(name);
        let files = folder.join(BROUGHT);
        create(&files)?;
        if !paths.is_empty() {
            self.reader.write_files(self.fix, Some(paths), &files)?;
        }
        write(&folder.join(script), &text)
    }

    /// Writes the instruction and the settings.
    ///
    /// # Errors
    /// A file cannot be written.
    pub fn write_settings(
        &self,
        prompt: &TaskPrompt,
        commands: &VerifierCommands,
        setup: Option<&str>,
    ) -> Result<(), CommandError> {
        let mut dockerfile = format!(
            "FROM {}\nWORKDIR {WORKDIR}\nCOPY tree/ {WORKDIR}/\nCOPY git/ {WORKDIR}/.git/\n",
            commands.image()
        );
        if let Some(setup) = setup {
            dockerfile.push_str(&format!("RUN {setup}\n"));
        }
        let name = self.folder.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let text = |value: &str| Value::String(value.to_owned());
        let mut settings = Table::new();
        settings.insert("schema_version".to_owned(), text("1.4"));
        let task = [("name".to_owned(), text(&format!("mined/{name}")))];
        settings.insert("task".to_owned(), Value::Table(task.into_iter().collect()));
        let metadata = [("commit", self.fix), ("base", self.base)];
        let metadata = metadata.map(|(key, id)| (key.to_owned(), text(id.as_str())));
        settings.insert("metadata".to_owned(), Value::Table(metadata.into_iter().collect()));
        for (table, key, seconds) in TIMES {
            let values = [(key.to_owned(), Value::Integer(seconds))];
            settings.insert(table.to_owned(), Value::Table(values.into_iter().collect()));
        }
        let settings = toml::to_string(&settings).map_err(CommandError::internal)?;
        for (path, text) in [
            ("environment/Dockerfile", dockerfile),
            ("instruction.md", prompt.instruction()),
            ("task.toml", settings),
        ] {
            write(&self.folder.join(path), &text)?;
        }
        Ok(())
    }
}

fn create(folder: &Path) -> Result<(), GitError> {
    fs::create_dir_all(folder).map_err(|error| to_error(folder, error))
}

fn write(path: &Path, text: &str) -> Result<(), GitError> {
    fs::write(path, text).map_err(|error| to_error(path, error))
}

fn to_error(path: &Path, source: io::Error) -> GitError {
    GitError::Io { path: path.to_owned(), source }
}

#[cfg(test)]
mod tests {
    use super::super::issues::IssueTexts;
    use super::*;

    #[test]
    fn a_task_is_named_after_what_it_asks_for_and_where_it_begins() {
        let base = ObjectId::parse(&"0123456789".repeat(4)).unwrap();
        for (subject, name) in [
            ("Fix `parse(x)`: empty", "fix-parse-x-empty-01234567"),
            ("Überall äö", "berall-01234567"),
            ("...", "task-01234567"),
            ("a", "a-01234567"),
        ] {
            let prompt = TaskPrompt::from_message(subject, &[], &IssueTexts::default()).unwrap();
            assert_eq!(name_task(&prompt, &base), name);
        }
        let long =
            TaskPrompt::from_message(&"ab ".repeat(99), &[], &IssueTexts::default()).unwrap();
        assert!(name_task(&long, &base).len() <= LONGEST_SUBJECT + 1 + BASE_DIGITS);
    }
}
