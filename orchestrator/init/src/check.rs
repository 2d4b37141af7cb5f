//! The commands that prove the work done, here and in subfolders.

use std::path::Path;

use ralph_orchestrator_assembly::error::CommandError;
use ralph_validator_command::PLACEHOLDER;

use super::protect::{self, ProtectedGlobs};
use super::systems::dependencies::DependencySetup;
use super::systems::{self, TestSystem};
use super::test_files::{self, FOLDERS, FOREIGN};
use super::toml_list::list;

/// Most subfolders that are proposed.
const MOST: usize = 8;

/// A validator that is to be written, with what it relies on.
pub(crate) struct ProposedCheck {
    pub(crate) system: TestSystem,
    pub(crate) protected: ProtectedGlobs,
}

/// What proves the work.
pub(crate) struct ProposedChecks {
    pub(crate) found: Vec<ProposedCheck>,
    /// Why something that looks like a test is not one of them.
    pub(crate) notes: Vec<String>,
    subprojects: Subprojects,
    dependencies: DependencySetup,
}

impl ProposedChecks {
    /// Returns the requested command, or those that fit the folder.
    pub(crate) fn find(folder: &Path, asked: Option<&str>) -> Result<Self, CommandError> {
        let (systems, notes) = match asked {
            Some(command) => (vec![TestSystem::asked(words(command)?)], Vec::new()),
            None => systems::find(folder),
        };
        let protect = |system: TestSystem| {
            let mut protected = protect::find(folder, &system.program);
            protected.add(folder, system.definitions);
            ProposedCheck { protected, system }
        };
        let found: Vec<ProposedCheck> = systems.into_iter().map(protect).collect();
        let subprojects = match asked {
            Some(_) => Subprojects::default(),
            None => Subprojects::find(folder, &found),
        };
        let dependencies = DependencySetup::find(folder);
        Ok(Self { found, notes, subprojects, dependencies })
    }

    /// The tables of the validators.
    pub(crate) fn toml(&self) -> Result<String, CommandError> {
        if self.found.is_empty() {
            let placeholder = format!("{}program = {}\n", head("tests"), list(&PLACEHOLDER)?);
            return Ok(placeholder + &self.subprojects.toml()? + &self.dependencies.toml()?);
        }
        let is_one = self.found.len() == 1;
        let tables: Result<Vec<String>, CommandError> = self
            .found
            .iter()
            .map(|check| check.toml(if is_one { "tests" } else { check.system.name }, None))
            .collect();
        Ok(tables?.join("\n") + &self.subprojects.toml()? + &self.dependencies.toml()?)
    }

    /// Returns the lines that describe them to the user.
    pub(crate) fn lines(&self) -> Vec<String> {
        let mut lines = Vec::new();
        if self.found.is_empty() {
            lines.push("  NO test command was found".to_owned());
        }
        if self.found.len() > 1 {
            let names: Vec<&str> = self.found.iter().map(|check| check.system.name).collect();
            lines.push(format!(
                "  {} checks, all of which must pass: {}",
                names.len(),
                names.join(", ")
            ));
        }
        self.found.iter().for_each(|check| check.describe(&mut lines));
        if let Some(first) = self.found.first() {
            first.protected.describe(&mut lines);
        }
        self.subprojects.describe(&mut lines);
        self.dependencies.describe(&mut lines);
        lines.extend(self.notes.iter().map(|note| format!("  {note}")));
        lines
    }

    /// What running them leaves behind, as lines of a `.gitignore`.
    pub(crate) fn artefacts(&self) -> Vec<&'static str> {
        let mut all: Vec<&str> =
            self.found.iter().flat_map(|check| check.system.artefacts.iter().copied()).collect();
        all.sort_unstable();
        all.dedup();
        all
    }
}

impl ProposedCheck {
    /// Returns the table of its validator, which runs in this folder of the workspace.
    pub(crate) fn toml(&self, name: &str, folder: Option<&str>) -> Result<String, CommandError> {
        let mut toml = format!("{}program = {}\n", head(name), list(&self.system.program)?);
        if let Some(folder) = folder {
            toml.push_str(&format!("cwd = {}\n", list(&[folder])?.trim_matches(['[', ']'])));
        }
        match self.system.must_match.as_slice() {
            [] => {}
            patterns => {
                toml.push_str(
                    "# At least one test must pass: a run without tests proves nothing.\n",
                );
                // Literal strings: no pattern has a quote in it.
                let quoted: Vec<String> = patterns.iter().map(|text| format!("'{text}'")).collect();
                let text = quoted.join(", ");
                toml.push_str(&match patterns {
                    [_] => format!("must_match = {text}\n"),
                    _ => format!("must_match = [{text}]\n"),
                });
            }
        }
        if !self.protected.globs.is_empty() {
            toml.push_str("# The agent must not change these. Remove from this list what the agent has to edit.\n");
            toml.push_str(&format!("protect = {}\n", list(&self.protected.globs)?));
        }
        for file in &self.system.open {
            toml.push_str(&format!(
                "# {file} is used by the check too, but the agent may have to change it: protect it if \
                 not.\n"
            ));
        }
        toml.push_str("timeout = \"10m\"\n");
        Ok(toml)
    }

    fn describe(&self, lines: &mut Vec<String>) {
        let TestSystem { program, because, must_match, open, .. } = &self.system;
        let because = because.as_ref().map_or(String::new(), |file| format!(" ({file})"));
        lines.push(format!("  completion is proved by `{}`{because}", program.join(" ")));
        if must_match.is_empty() {
            lines.push(
                "    its exit status alone decides: add `must_match` if it says how many tests passed"
                    .to_owned(),
            );
        }
        lines.extend(
            open.iter().map(|file| format!("    {file} is used by the check and is not protected")),
        );
    }
}

/// Checks of the direct subfolders, as monorepos have them, each with the name of its folder. They are proposed as
/// comments: only the user knows which of them the task is about.
#[derive(Default)]
struct Subprojects(Vec<(String, ProposedCheck)>);

impl Subprojects {
    /// Finds the systems of subfolders that the folder itself does not have: `cargo test` at the top runs the
    /// tests of its members too.
    fn find(folder: &Path, top: &[ProposedCheck]) -> Self {
        if top.iter().any(|check| check.system.is_task) {
            return Self::default();
        }
        let entries = folder.read_dir().into_iter().flatten().flatten();
        let mut names: Vec<String> = entries
            .filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir()))
            .filter_map(|entry| entry.file_name().into_string().ok())
            .filter(|name| !name.starts_with('.') && !is_no_project(name))
            .collect();
        names.sort_unstable();
        let mut found = Vec::new();
        for name in names {
            let (systems, _) = systems::find(&folder.join(&name));
            let is_new = |system: &TestSystem| {
                !top.iter().any(|check| language(check.system.name) == language(system.name))
            };
            for mut system in systems.into_iter().filter(is_new) {
                let mut protected = protect::find(&folder.join(&name), &system.program);
                protected.add(&folder.join(&name), system.definitions);
                for path in protected.globs.iter_mut().chain(&mut system.open) {
                    *path = format!("{}/{path}", test_files::escape(&name));
                }
                // Programs are looked for from the folder of `ralph.toml`, wherever they run.
                if let Some(program) = system.program.first_mut().filter(|p| p.starts_with("./")) {
                    program.insert_str(2, &format!("{name}/"));
                }
                found.push((name.clone(), ProposedCheck { system, protected }));
            }
        }
        found.truncate(MOST);
        Self(found)
    }

    /// Returns the tables of their validators as comments.
    fn toml(&self) -> Result<String, CommandError> {
        if self.0.is_empty() {
            return Ok(String::new());
        }
        let mut toml = "\n# Found in subfolders. Uncomment those that prove the work.\n".to_owned();
        for (folder, check) in &self.0 {
            let table = check.toml(&format!("{folder}-{}", check.system.name), Some(folder))?;
            toml.push_str("#\n");
            for line in table.lines() {
                toml.push_str(&format!("# {line}\n"));
            }
        }
        Ok(toml)
    }

    /// Describes them to the user.
    fn describe(&self, lines: &mut Vec<String>) {
        for (folder, check) in &self.0 {
            lines.push(format!(
                "  {folder}/ has tests: `{}` is in ralph.toml as a comment",
                check.system.program.join(" ")
            ));
        }
    }
}

fn is_no_project(folder: &str) -> bool {
    FOREIGN.contains(&folder) || FOLDERS.contains(&folder)
}

/// Returns what the tests of a system are written in, where it has several.
fn language(system: &'static str) -> &'static str {
    match system {
        "django" | "nox" | "pytest" | "tox" | "unittest" => "python",
        other => other,
    }
}

fn head(name: &str) -> String {
    format!("[[validator]]\nkind = \"command\"\nname = \"{name}\"\n")
}

/// A command in words; there is no shell that could read anything else.
fn words(command: &str) -> Result<Vec<String>, CommandError> {
    if command.contains(['"', '\'', '|', '&', ';', '>', '<', '$']) {
        return Err(CommandError::user(format!("`{command}` needs a shell"))
            .hinted("put it into a script and name the script"));
    }
    let words: Vec<String> = command.split_whitespace().map(str::to_owned).collect();
    if words.is_empty() {
        return Err(CommandError::user("the test command is empty"));
    }
    Ok(words)
}
