//! What can be said of the command before a run.

use std::path::{Path, PathBuf};

use ralph_orchestrator_contract::{Setup, SetupProblem};
use ralph_orchestrator_safe_fs::normalize_lexically;
use ralph_orchestrator_supervisor::find_program;
use ralph_orchestrator_text::escape_line;

use crate::config::Config;
use crate::display::typed;
use crate::files::Reach;
use crate::invocation::Invocations;
use crate::paths::CommandPaths;
use crate::program::{Lookup, Program};
use crate::reserved::glob;
use crate::{python, reserved, script, shell, shell_option};

/// Names in the folders of `PATH` that are compared with one that was not found.
const MOST_NAMES: usize = 20_000;

/// Everything in the set-up that the user should know of.
pub(crate) fn problems(
    config: &Config,
    program: &Program,
    lookup: &Lookup,
    setup: Setup<'_>,
) -> Vec<SetupProblem> {
    if config.program == crate::PLACEHOLDER {
        let message = "this check is still to be written: put the command that proves the work done \
                       here, such as [\"cargo\", \"test\"]";
        return vec![SetupProblem {
            key: vec!["program".into()],
            message: message.into(),
            is_fatal: true,
        }];
    }
    if let Some((index, message, is_fatal)) = shell::find_problem(config) {
        return vec![SetupProblem { key: key(index), message, is_fatal }];
    }
    let command = Command { config, setup };
    let name = config.program.first().map_or("", String::as_str);
    let mut problems = Vec::new();
    problems.extend(match program {
        Program::Pinned(Err(message)) => {
            let similar =
                similar(name, &lookup.path).map(|name| format!("; did you mean `{name}`?"));
            let message = format!("{message}{}", similar.unwrap_or_default());
            Some(SetupProblem { key: key(0), message, is_fatal: true })
        }
        Program::Pinned(Ok(path)) => command.unprotected(0, path),
        Program::Path(path) => command.program(name, path, &lookup.base),
    });
    problems.extend(command.script());
    problems.extend(command.scripts_behind());
    problems.extend(command.taken_in());
    problems.extend(command.unread());
    problems
}

pub(crate) fn key(index: usize) -> Vec<String> {
    vec!["program".to_owned(), index.to_string()]
}

struct Command<'a> {
    config: &'a Config,
    setup: Setup<'a>,
}

impl Command<'_> {
    /// A program that is given by its path.
    fn program(&self, name: &str, path: &Path, base: &Path) -> Option<SetupProblem> {
        // It has a slash, so it is looked for nowhere else.
        match find_program(name, "", base) {
            Ok(_) => self.unprotected(0, path),
            Err(error) => {
                let inside = self.in_workspace(path).is_some();
                let message = if inside { self.to_be_made(0, path) } else { error.to_string() };
                Some(SetupProblem { key: key(0), message, is_fatal: !inside })
            }
        }
    }

    /// A script that is given to an interpreter. Whether it has to be there, only the interpreter
    /// knows: its absence stops nothing.
    fn script(&self) -> Option<SetupProblem> {
        let index = script::find(&self.config.program)?;
        // Before the workspace is made, nothing can be said of it.
        let workspace = self.setup.workspace.canonicalize().ok()?;
        let cwd = workspace.join(self.config.folder());
        let path = cwd.join(self.config.program.get(index)?);
        if path.exists() {
            return self.unprotected(index, &path);
        }
        Some(SetupProblem {
            key: key(index),
            message: self.to_be_made(index, &path),
            is_fatal: false,
        })
    }

    /// Scripts that an interpreter is given behind other programs.
    fn scripts_behind(&self) -> Vec<SetupProblem> {
        let Ok(workspace) = self.setup.workspace.canonicalize() else { return Vec::new() };
        let first = script::find(&self.config.program);
        let mut given = CommandPaths::new(self.config, &workspace).given;
        given.retain(|(index, path)| Some(*index) != first && path.exists());
        given.dedup_by(|(_, one), (_, other)| one == other);
        given.iter().filter_map(|(index, path)| self.unprotected(*index, path)).collect()
    }

    /// What Python would find in the workspace instead of its own, and what other files take in.
    fn taken_in(&self) -> Vec<SetupProblem> {
        let Ok(workspace) = self.setup.workspace.canonicalize() else { return Vec::new() };
        let reach = Reach::new(self.config, &workspace);
        let exists = |path: &PathBuf| path.exists();
        let modules = reserved::python_paths(&reach);
        let inside = modules.iter().filter_map(|path| reserved::path_inside(&workspace, path));
        let module = inside.map(|path| workspace.join(path)).find(exists);
        let named = reach.named.iter().map(|path| workspace.join(path)).filter(exists);
        let name = python::module(&self.config.program);
        let index = self.config.program.iter().position(|word| Some(word.as_str()) == name);
        let paths = module.into_iter().chain(named);
        paths.filter_map(|path| self.unprotected(index.unwrap_or(0), &path)).collect()
    }

    /// Lines that can be read only by a shell, beside which nothing is reserved.
    fn unread(&self) -> Option<SetupProblem> {
        let invocations = Invocations::from_config(self.config, self.setup.workspace);
        let mut unread = invocations.unread.iter();
        let name = unread.find_map(|line| reserved::find_program(line))?;
        let message = format!(
            "what `{}` runs could not be read to its end, so no file names are reserved beside `{}`: the \
             agent can create files that it takes for its own. Use programs, `cd FOLDER`, `&&`, `;` and \
             pipes only, or give the folder as `cwd`",
            typed(&self.config.program),
            escape_line(name)
        );
        let index = shell_option::find(&self.config.program).unwrap_or(0);
        Some(SetupProblem { key: key(index), message, is_fatal: false })
    }

    fn to_be_made(&self, index: usize, path: &Path) -> String {
        let what = if index == 0 { "program" } else { "script" };
        let wrong = if path.exists() { "is not executable" } else { "does not exist yet" };
        format!(
            "the {what} `{}` of `{}` {wrong}. If the agent is meant to write it, the agent decides \
             what proves its work; otherwise write it and protect it",
            escape_line(&normalize_lexically(path).to_string_lossy()),
            typed(&self.config.program)
        )
    }

    /// What the agent can change without being found out.
    fn unprotected(&self, index: usize, path: &Path) -> Option<SetupProblem> {
        let inside = self.in_workspace(path)?;
        if (self.setup.is_protected)(&inside) {
            return None;
        }
        let message = format!(
            "`{}` runs {}, which lies in the workspace and is not protected: the agent can change \
             what checks its work. Add protect = [{}]",
            typed(&self.config.program),
            escape_line(&inside.to_string_lossy()),
            serde_json::Value::from(glob(&inside))
        );
        Some(SetupProblem { key: key(index), message, is_fatal: false })
    }

    /// The path relative to the workspace if it, or what it leads to, lies in there.
    fn in_workspace(&self, path: &Path) -> Option<PathBuf> {
        let workspace = self.setup.workspace;
        let plain = normalize_lexically(path);
        let real_folder = plain.parent().and_then(|folder| folder.canonicalize().ok());
        let real_path = real_folder.and_then(|folder| Some(folder.join(plain.file_name()?)));
        let candidates = [Some(plain.clone()), real_path, plain.canonicalize().ok()];
        candidates
            .iter()
            .flatten()
            .find_map(|path| path.strip_prefix(workspace).ok().map(Path::to_owned))
    }
}

/// The name in the folders of `path` that is most like this one, if one is like it at all.
pub(crate) fn similar(name: &str, path: &str) -> Option<String> {
    let folders = std::env::split_paths(path).filter(|folder| folder.is_absolute());
    let names = folders
        .filter_map(|folder| folder.read_dir().ok())
        .flatten()
        .filter_map(|entry| entry.ok()?.file_name().into_string().ok())
        .take(MOST_NAMES);
    names
        .filter(|other| other.len().abs_diff(name.len()) <= 2)
        .map(|other| (strsim::damerau_levenshtein(name, &other), other))
        .filter(|(distance, _)| distance * 3 <= name.chars().count())
        .min()
        .map(|(_, other)| other)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn globs_match_one_path_only() {
        assert_eq!(glob(Path::new("a b/[x]{1}*?.sh")), r"a b/\[x\]\{1\}\*\?.sh");
    }

    #[test]
    fn names_that_were_meant_are_found() {
        let folder = tempfile::TempDir::new().unwrap();
        for name in ["cargo", "cargo-fmt", "make"] {
            std::fs::write(folder.path().join(name), "").unwrap();
        }
        let path = format!("/nowhere:.:{}", folder.path().display());
        assert_eq!(similar("cargp", &path).as_deref(), Some("cargo"));
        assert_eq!(similar("mkae", &path).as_deref(), Some("make"));
        assert_eq!(similar("pytest", &path), None);
        assert_eq!(similar("m", &path), None);
    }
}
