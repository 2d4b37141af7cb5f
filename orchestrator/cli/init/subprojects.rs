//! Test systems in the direct subfolders, as monorepos have them. They are proposed as comments: only the user
//! knows which of them the task is about.

use std::path::Path;

use ralph_orchestrator_assembly::error::CommandError;

use super::check::ProposedCheck;
use super::protect::{self, FOLDERS, FOREIGN};
use super::systems::{self, TestSystem};

/// Most subfolders that are proposed.
const MOST: usize = 8;

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

/// Checks of subfolders, each with the name of its folder.
#[derive(Default)]
pub(crate) struct Subprojects(Vec<(String, ProposedCheck)>);

impl Subprojects {
    /// Finds the systems of subfolders that the folder itself does not have: `cargo test` at the top runs the
    /// tests of its members too.
    pub(crate) fn find(folder: &Path, top: &[ProposedCheck]) -> Self {
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
                    *path = format!("{}/{path}", protect::escape(&name));
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
    pub(crate) fn toml(&self) -> Result<String, CommandError> {
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
    pub(crate) fn describe(&self, lines: &mut Vec<String>) {
        for (folder, check) in &self.0 {
            lines.push(format!(
                "  {folder}/ has tests: `{}` is in ralph.toml as a comment",
                check.system.program.join(" ")
            ));
        }
    }
}
