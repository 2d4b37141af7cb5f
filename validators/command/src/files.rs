//! What the files of the workspace name that a command runs: scripts of shells, recipes of make and scripts
//! of npm are read for the programs on their lines, and for the files that they take in.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use ralph_orchestrator_safe_fs::{SymlinkPolicy, normalize_lexically, read_file};

use crate::config::Config;
use crate::invocation::{Invocation, Invocations};
use crate::make::{CommandLine, Makefile};
use crate::program_name::bare;
use crate::script;
use crate::shell_option::SHELLS;

/// How many files are read, so that they can name each other in a circle.
const MAX_FILES: usize = 32;
/// How many targets of make are compared with its rules.
const MAX_TARGETS: usize = 64;
/// How many folders are listed to find one without files.
const MAX_LISTED: usize = 64;
/// The most bytes of one that are read.
const MAX_BYTES: usize = 256 * 1024;
/// Those that make reads by itself, the first that is there.
const MAKEFILES: [&str; 3] = ["GNUmakefile", "makefile", "Makefile"];

/// What a command runs, directly and by the files of the workspace.
#[derive(Debug, Default)]
pub(crate) struct Reach {
    pub(crate) known: Vec<Invocation>,
    /// Files that others take in, such as a `Makefile` by `include`: relative to the workspace.
    pub(crate) named: Vec<PathBuf>,
    /// Targets of make that a file of their name would shadow: relative to the workspace.
    pub(crate) targets: Vec<PathBuf>,
    /// Files that were read to find all this, absolute: the command runs them.
    pub(crate) read: Vec<PathBuf>,
}

impl Reach {
    /// Follows the command of a validator. What cannot be read is left out.
    pub(crate) fn new(config: &Config, workspace: &Path) -> Self {
        let known = Invocations::from_config(config, workspace).known;
        let mut reach = Self { known, ..Self::default() };
        let mut reader = FileReader { workspace, read: Vec::new(), makefiles: BTreeMap::new() };
        let mut next = 0;
        while let Some(invocation) = reach.known.get(next).cloned() {
            next += 1;
            reach.follow(&invocation, &mut reader);
        }
        reach.read = reader.read;
        reach.named.sort();
        reach.named.dedup();
        reach
    }

    /// Returns the targets of make in whose place folders are that hold no file. They hold nothing that counts
    /// as work, so no comparison of paths notices them.
    pub(crate) fn find_empty_folders(&self, workspace: &Path) -> Vec<PathBuf> {
        let mut left = MAX_LISTED;
        let mut found = self.targets.clone();
        found.retain(|target| {
            let path = workspace.join(target);
            let is_folder = path.symlink_metadata().is_ok_and(|found| found.is_dir());
            is_folder && has_no_file(&path, &mut left)
        });
        found
    }

    fn follow(&mut self, invocation: &Invocation, reader: &mut FileReader<'_>) {
        let words = &invocation.words;
        let Some(program) = words.first() else { return };
        let name = if program == "." { "source" } else { bare(program) };
        match name {
            "make" | "gmake" => self.follow_make(invocation, reader),
            "npm" | "pnpm" | "yarn" | "bun" => {
                let Some(text) = reader.read(&invocation.folder.join("package.json")) else {
                    return;
                };
                for line in scripts(words, &text) {
                    self.add_lines(&line, &invocation.folder, reader);
                }
            }
            "source" => {
                let Some(file) = words.get(1).filter(|file| !is_left_out(file)) else { return };
                self.add_named(&invocation.folder, file, reader.workspace);
                self.follow_script(file, &invocation.folder, reader);
            }
            name if SHELLS.contains(&name) => {
                let script = script::find(words).and_then(|index| words.get(index));
                script
                    .into_iter()
                    .for_each(|file| self.follow_script(file, &invocation.folder, reader));
            }
            _ if program.contains('/') => self.follow_script(program, &invocation.folder, reader),
            _ => {}
        }
    }

    fn follow_script(&mut self, file: &str, folder: &Path, reader: &mut FileReader<'_>) {
        let Some(text) = reader.read(&folder.join(file)) else { return };
        let is_other = text.strip_prefix("#!").is_some_and(|rest| {
            let first = rest.lines().next().unwrap_or_default();
            !first.split(['/', ' ']).any(|word| SHELLS.contains(&word))
        });
        if !is_other {
            self.add_lines(&text, folder, reader);
        }
    }

    fn follow_make(&mut self, invocation: &Invocation, reader: &mut FileReader<'_>) {
        let folder = &invocation.folder;
        let key = (folder.clone(), CommandLine::parse(&invocation.words).file);
        let is_new = !reader.makefiles.contains_key(&key);
        if is_new {
            let text = match &key.1 {
                Some(file) => reader.read(&folder.join(file)),
                None => MAKEFILES.iter().find_map(|name| reader.read(&folder.join(name))),
            };
            reader.makefiles.insert(key.clone(), Makefile::parse(&text.unwrap_or_default()));
        }
        let Some(makefile) = reader.makefiles.get(&key) else { return };
        if self.targets.len() < MAX_TARGETS {
            let targets = makefile.find_shadowable(&invocation.words).into_iter();
            self.targets.extend(targets.map(|target| folder.join(target)));
        }
        if is_new {
            for file in &makefile.included {
                self.add_named(folder, file, reader.workspace);
            }
            // Each line of a recipe has a shell of its own.
            for line in &makefile.recipes {
                self.add_lines(line, folder, reader);
            }
        }
    }

    fn add_lines(&mut self, text: &str, folder: &Path, reader: &FileReader<'_>) {
        let found = Invocations::from_text(text, reader.workspace, folder).known;
        self.known.extend(found);
    }

    fn add_named(&mut self, folder: &Path, file: &str, workspace: &Path) {
        let path = normalize_lexically(&workspace.join(folder).join(file));
        self.named.extend(path.strip_prefix(workspace).map(Path::to_owned));
    }
}

/// Whether a file that a script takes in is only known when it runs, or belongs to a virtual environment,
/// which the agent may make.
fn is_left_out(file: &str) -> bool {
    file.contains('$') || file.ends_with("/bin/activate")
}

/// Whether there is nothing but folders in a folder, as far as `left` more of them are listed.
fn has_no_file(folder: &Path, left: &mut usize) -> bool {
    let Some(fewer) = left.checked_sub(1) else { return false };
    *left = fewer;
    let Ok(mut entries) = std::fs::read_dir(folder) else { return false };
    entries.all(|entry| {
        let folder = entry.ok().filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir()));
        folder.is_some_and(|folder| has_no_file(&folder.path(), left))
    })
}

/// Reads files in the workspace and beside it, each once.
struct FileReader<'a> {
    workspace: &'a Path,
    read: Vec<PathBuf>,
    /// By the folder where make runs, and the name that it is given.
    makefiles: BTreeMap<(PathBuf, Option<String>), Makefile>,
}

impl FileReader<'_> {
    fn read(&mut self, path: &Path) -> Option<String> {
        let path = normalize_lexically(&self.workspace.join(path));
        if self.read.len() >= MAX_FILES || self.read.contains(&path) {
            return None;
        }
        let bytes = read_file(&path, MAX_BYTES, SymlinkPolicy::Follow).ok()?;
        let text = String::from_utf8(bytes).ok().filter(|text| !text.contains('\0'))?;
        self.read.push(path);
        Some(text)
    }
}

/// The lines that npm and the like run for a command: the script of its name, and those before and after.
fn scripts(words: &[String], package: &str) -> Vec<String> {
    let mut names = words.iter().skip(1).map(String::as_str).filter(|word| !word.starts_with('-'));
    let name = match names.find(|word| !word.contains('/')) {
        Some("run" | "run-script") => names.next(),
        Some("t" | "tst") => Some("test"),
        name => name,
    };
    let (Some(name), Ok(package)) = (name, serde_json::from_str::<serde_json::Value>(package))
    else {
        return Vec::new();
    };
    let names = [format!("pre{name}"), name.to_owned(), format!("post{name}")];
    let lines = names.iter().filter_map(|name| package.get("scripts")?.get(name)?.as_str());
    lines.map(str::to_owned).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    /// What is run, each with its folder before it, and what is named.
    fn of(program: &Value, files: &[(&str, &str)]) -> (Vec<String>, Vec<PathBuf>) {
        let workspace = tempfile::TempDir::new().unwrap();
        for (path, text) in files {
            let path = workspace.path().join(path);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, text).unwrap();
        }
        let config = Config::parse(json!({ "program": program })).unwrap();
        let reach = Reach::new(&config, workspace.path());
        let text = |one: &Invocation| format!("{}: {}", one.folder.display(), one.words.join(" "));
        (reach.known.iter().map(text).collect(), reach.named)
    }

    #[test]
    fn reads_what_the_recipes_of_make_run() {
        let makefile = "PY ?= python3\n-include config.mk sub/*.mk\ninclude $(X).mk\n\
            test: x\n\t@cd a && $(PY) -m unittest -v \\\n\t  && echo $$?\n\t-$(MAKE) -C sub t\nx: ; p\n";
        let files = [("Makefile", makefile), ("sub/Makefile", "t:\n\tq\nsinclude b.mk\n")];
        let (found, named) = of(&json!(["make", "test"]), &files);
        let expected = [
            ": make test",
            "a: python3 -m unittest -v",
            "a: echo $?",
            "sub: make -C sub t",
            ": p",
            "sub: q",
        ];
        assert_eq!(found, expected);
        assert_eq!(named, [Path::new("config.mk"), Path::new("sub/b.mk")]);
        let (found, named) =
            of(&json!(["make", "-f", "m", "test"]), &[("m", "t:\n\tq\n"), files[0]]);
        assert_eq!((found, named), (vec![": make -f m test".into(), ": q".into()], vec![]));
    }

    #[test]
    fn finds_targets_of_make_wherever_it_runs() {
        let workspace = tempfile::TempDir::new().unwrap();
        let makefile =
            "lint test:\n\t./$@.sh\n\n.PHONY: lint\nunit e2e:\n\tp\nsub:\n\t$(MAKE) -C sub unit\n";
        std::fs::create_dir(workspace.path().join("sub")).unwrap();
        std::fs::write(workspace.path().join("Makefile"), makefile).unwrap();
        std::fs::write(workspace.path().join("sub/Makefile"), "unit:\n\tp\n").unwrap();
        for (program, targets) in [
            (json!(["make", "unit", "e2e"]), &["unit", "e2e", "sub/unit"][..]),
            (
                json!(["sh", "-c", "make unit && timeout 5 make A=b e2e"]),
                &["unit", "sub/unit", "e2e"],
            ),
            (json!(["env", "make", "-C", "sub"]), &["sub/unit"]),
            (json!(["make", "lint", "test"]), &["sub/unit"]),
        ] {
            let config = Config::parse(json!({ "program": program })).unwrap();
            let mut found = Reach::new(&config, workspace.path()).targets;
            let mut targets: Vec<PathBuf> = targets.iter().map(PathBuf::from).collect();
            found.sort();
            targets.sort();
            assert_eq!(found, targets, "{program}");
        }
    }

    #[test]
    fn reads_what_scripts_run_and_take_in() {
        let script = "#!/usr/bin/env bash\nset -e\n. .venv/bin/activate\n. lib/assert.sh\nsource \"$X\"\ncd a; p\n";
        let files = [("ci/t.sh", script), ("lib/assert.sh", ". ci/t.sh\nq\n")];
        for program in [json!(["./ci/t.sh"]), json!(["sh", "-e", "ci/t.sh"])] {
            let (found, named) = of(&program, &files);
            assert!(
                found.contains(&"a: p".to_owned()) && found.contains(&": q".to_owned()),
                "{found:?}"
            );
            assert_eq!(named, [Path::new("ci/t.sh"), Path::new("lib/assert.sh")]);
        }
        let other = [("t", "#!/usr/bin/python3\np\n"), ("u", "\u{0}")];
        assert_eq!(of(&json!(["sh", "-c", "./t; ./u; ./v"]), &other).0.len(), 3);
    }

    #[test]
    fn reads_the_scripts_of_npm() {
        let package = r#"{"scripts": {"pretest": "a", "test": "cd x && b", "other": "c"}}"#;
        let files = [("package.json", package)];
        let (found, _) = of(&json!(["npm", "test"]), &files);
        assert_eq!(found, [": npm test", ": a", "x: b"]);
        assert_eq!(of(&json!(["npm", "run", "-s", "other"]), &files).0[1..], [": c"]);
        assert_eq!(of(&json!(["npm", "ci"]), &files).0, [": npm ci"]);
        assert_eq!(of(&json!(["npm", "test"]), &[("package.json", "[")]).0, [": npm test"]);
    }
}
