//! Finds the files of a task of the own form that decide about the work.

use std::collections::BTreeSet;
use std::fs::File;
use std::path::{Component, Path, PathBuf};

use globset::{GlobBuilder, GlobSet, GlobSetBuilder};
use ralph_orchestrator_safe_fs::FileFingerprint;
use toml::{Table, Value};

use super::problem::TreeError;
use super::tree::{TreeSink, is_plain_file, walk_tree};

/// The keys of validators with globs of what must be as it was.
const PROTECTING: [&str; 2] = ["protect", "paths"];
/// Programs whose first argument, options aside, is the script that is run.
const SHELLS: [&str; 4] = ["sh", "bash", "dash", "zsh"];

/// Returns the files, relative to the folder of the task, that its validators protect, and the scripts that they run. A
/// program that a script or an interpreter is given may be the work itself, and is left out unless it is protected.
pub(super) fn find_deciding_files(
    folder: &Path,
    config: &Table,
) -> Result<Vec<PathBuf>, TreeError> {
    let workspace = config.get("run").and_then(|run| run.get("workspace")).and_then(Value::as_str);
    let Some(workspace) = plain(Path::new(workspace.unwrap_or("."))) else {
        // It is outside of the task, where nothing of the task is.
        return Ok(Vec::new());
    };
    let validators = config.get("validator").and_then(Value::as_array);
    let mut files = BTreeSet::new();
    let mut globs = Vec::new();
    for validator in validators.into_iter().flatten() {
        let texts = |key: &str| {
            let values = validator.get(key).and_then(Value::as_array);
            values.into_iter().flatten().filter_map(Value::as_str)
        };
        globs.extend(PROTECTING.into_iter().flat_map(texts));
        let program: Vec<&str> = texts("program").collect();
        let within = validator.get("cwd").and_then(Value::as_str).unwrap_or(".");
        let script = find_script(&program);
        if let Some(path) = script.and_then(|script| plain(&workspace.join(within).join(script)))
            && is_plain_file(&folder.join(&path))?
        {
            files.insert(path);
        }
    }
    let top = folder.join(&workspace);
    if !globs.is_empty() && top.is_dir() {
        let mut matched = Matches { globs: compile(&globs), found: Vec::new() };
        walk_tree(&top, &mut matched)?;
        files.extend(matched.found.into_iter().map(|path| workspace.join(path)));
    }
    Ok(files.into_iter().collect())
}

/// Returns the script that a program of a validator is.
fn find_script<'p>(program: &[&'p str]) -> Option<&'p str> {
    let (name, args) = program.split_first()?;
    let shell = Path::new(name).file_name().and_then(|name| name.to_str());
    if shell.is_some_and(|shell| SHELLS.contains(&shell)) {
        // Of `sh -c TEXT` there is no script.
        return args.first().copied().filter(|word| !word.starts_with('-'));
    }
    name.contains('/').then_some(*name)
}

/// Returns a relative path without `.`; none if it leads out of its folder.
fn plain(path: &Path) -> Option<PathBuf> {
    let mut plain = PathBuf::new();
    for part in path.components() {
        match part {
            Component::Normal(name) => plain.push(name),
            Component::CurDir => {}
            Component::ParentDir if plain.pop() => {}
            Component::ParentDir | Component::RootDir | Component::Prefix(_) => return None,
        }
    }
    Some(plain)
}

/// Returns globs as validators have them: one that matches a folder stands for all beneath it. One that is malformed is
/// reported where the configuration is read.
fn compile(globs: &[&str]) -> GlobSet {
    let mut set = GlobSetBuilder::new();
    for glob in globs {
        let glob = glob.trim_start_matches("./").trim_end_matches('/');
        for text in [glob.to_owned(), format!("{glob}/**")] {
            if let Ok(glob) = GlobBuilder::new(&text).literal_separator(true).build() {
                set.add(glob);
            }
        }
    }
    set.build().unwrap_or_default()
}

struct Matches {
    globs: GlobSet,
    found: Vec<PathBuf>,
}

impl Matches {
    fn add(&mut self, path: &Path) {
        if self.globs.is_match(path) {
            self.found.push(path.to_owned());
        }
    }
}

impl TreeSink for Matches {
    fn visit_folder(&mut self, _path: &Path, _mode: u32) -> Result<(), TreeError> {
        Ok(())
    }

    fn visit_file(&mut self, path: &Path, _: File, _: &FileFingerprint) -> Result<(), TreeError> {
        self.add(path);
        Ok(())
    }

    fn visit_link(&mut self, _path: &Path, _target: &Path) -> Result<(), TreeError> {
        // What it leads to is a file of its own, or outside.
        Ok(())
    }

    fn refuse(&mut self, _error: TreeError) -> Result<(), TreeError> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn find(config: &str) -> Vec<String> {
        let temp = tempfile::tempdir().unwrap();
        let folder = temp.path().canonicalize().unwrap();
        for file in ["check.sh", "work.py", "tests/a.py", "tests/deep/b.py", "w/check.sh", "w/x"] {
            std::fs::create_dir_all(folder.join(file).parent().unwrap()).unwrap();
            std::fs::write(folder.join(file), "x").unwrap();
        }
        let found = find_deciding_files(&folder, &config.parse().unwrap()).unwrap();
        found.iter().map(|path| path.display().to_string()).collect()
    }

    fn validator(keys: &str) -> String {
        format!("[[validator]]\nkind = \"command\"\n{keys}\n")
    }

    #[test]
    fn scripts_and_what_is_protected_decide() {
        for (keys, expected) in [
            ("program = [\"sh\", \"./check.sh\"]", &["check.sh"][..]),
            ("program = [\"./check.sh\", \"work.py\"]", &["check.sh"]),
            ("program = [\"/bin/bash\", \"-c\", \"./check.sh\"]", &[]),
            ("program = [\"python3\", \"work.py\"]", &[]),
            ("program = [\"sh\", \"../check.sh\"]", &[]),
            ("program = [\"sh\", \"/etc/passwd\"]", &[]),
            ("program = [\"sh\", \"gone.sh\"]", &[]),
            ("program = [\"sh\"]", &[]),
            ("program = [\"sh\", \"check.sh\"]\ncwd = \"w\"", &["w/check.sh"]),
            ("protect = [\"tests\"]", &["tests/a.py", "tests/deep/b.py"]),
            ("protect = [\"*.sh\", \"./tests/*\"]", &["check.sh", "tests/a.py", "tests/deep/b.py"]),
            ("protect = [\"tests/[\"]", &[]),
            ("paths = [\"**/b.py\"]", &["tests/deep/b.py"]),
        ] {
            assert_eq!(find(&validator(keys)), expected, "{keys}");
        }
        assert!(find("preset = \"x\"").is_empty());
    }

    #[test]
    fn paths_are_relative_to_the_workspace_of_the_task() {
        let keys = validator("program = [\"./check.sh\"]\nprotect = [\"x\"]");
        assert_eq!(find(&format!("[run]\nworkspace = \"./w\"\n{keys}")), ["w/check.sh", "w/x"]);
        assert!(find(&format!("[run]\nworkspace = \"..\"\n{keys}")).is_empty());
        assert!(find(&format!("[run]\nworkspace = \"none\"\n{keys}")).is_empty());
    }
}
