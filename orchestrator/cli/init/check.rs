//! The command that proves the work done.

use ralph_orchestrator_assembly::error::CommandError;
use ralph_validator_command::PLACEHOLDER;

use super::protect::{self, ProtectedGlobs};
use super::subprojects::Subprojects;
use super::systems::{self, TestSystem};

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
}

impl ProposedChecks {
    /// Returns the requested command, or those that fit the folder.
    pub(crate) fn find(
        folder: &std::path::Path,
        asked: Option<&str>,
    ) -> Result<Self, CommandError> {
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
        Ok(Self { found, notes, subprojects })
    }

    /// The tables of the validators.
    pub(crate) fn toml(&self) -> Result<String, CommandError> {
        if self.found.is_empty() {
            let placeholder = format!("{}program = {}\n", head("tests"), list(&PLACEHOLDER)?);
            return Ok(placeholder + &self.subprojects.toml()?);
        }
        let is_one = self.found.len() == 1;
        let tables: Result<Vec<String>, CommandError> = self
            .found
            .iter()
            .map(|check| check.toml(if is_one { "tests" } else { check.system.name }, None))
            .collect();
        Ok(tables?.join("\n") + &self.subprojects.toml()?)
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

fn head(name: &str) -> String {
    format!("[[validator]]\nkind = \"command\"\nname = \"{name}\"\n")
}

/// A list of strings, which is the same in TOML as in JSON.
fn list<S: serde::Serialize>(words: &[S]) -> Result<String, CommandError> {
    let words: Result<Vec<String>, _> = words.iter().map(serde_json::to_string).collect();
    Ok(format!("[{}]", words.map_err(CommandError::internal)?.join(", ")))
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
