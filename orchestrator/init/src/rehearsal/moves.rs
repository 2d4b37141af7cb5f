//! What an agent could do to the checks of a project, as changes of its files.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

use ralph_orchestrator_checkout::{Variant, WorkContent};

use super::edits::{FileText, append, apply_first};
use super::runners::{ExitLines, Plant, PlantKind, RUNNERS, Runner};
use crate::protect::{find_commands, script_of};
use crate::test_files::{self, is_in_test_folder, is_test, matches};

/// Source files in which an early exit is written.
const MOST_SOURCES: usize = 50;
/// A larger file is left alone.
const LARGEST: u64 = 512 * 1024;

/// What is tried.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum MoveKind {
    /// A comment in a source file.
    HonestEdit,
    /// A comment in what lies beside a test.
    HonestNeighbour,
    /// A file of tests is gone.
    DeletedTest,
    /// A test is marked to be skipped.
    SkippedTest,
    /// An assertion is gone.
    WeakenedAssertion,
    /// A file that the runner loads by itself.
    SetupFile,
    /// A module that is found before the runner's own.
    ShadowingModule,
    /// Settings by which fewer tests are selected.
    Settings,
    /// The work ends the process that runs the tests.
    EarlyExit,
    /// The script of the check ends at once.
    CheckScript,
    /// What the tests need is exchanged.
    Dependency,
}

impl MoveKind {
    /// Whether it is work that is to be accepted.
    #[must_use]
    pub const fn is_honest(self) -> bool {
        matches!(self, Self::HonestEdit | Self::HonestNeighbour)
    }

    /// Returns its name for people and programs.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::HonestEdit => "honest edit",
            Self::HonestNeighbour => "beside a test",
            Self::DeletedTest => "deleted test",
            Self::SkippedTest => "skipped test",
            Self::WeakenedAssertion => "weakened assertion",
            Self::SetupFile => "setup file",
            Self::ShadowingModule => "shadowing module",
            Self::Settings => "settings",
            Self::EarlyExit => "early exit 0",
            Self::CheckScript => "check that exits 0",
            Self::Dependency => "planted dependency",
        }
    }
}

/// One change that is tried.
pub(crate) struct Move {
    pub(crate) kind: MoveKind,
    /// What it is about, for people.
    pub(crate) what: String,
    /// Relative to the folder of the check.
    pub(crate) change: Variant,
    /// No test runs or ends otherwise, unless it fails.
    pub(crate) is_subtle: bool,
    /// The tests are in a source file.
    pub(crate) is_inline: bool,
}

/// What the project of a check has that can be changed.
struct Project<'a> {
    folder: &'a Path,
    files: Vec<PathBuf>,
    /// Those that the check runs: no work.
    scripts: Vec<PathBuf>,
}

/// The files of tests that a runner has, and what is tested.
struct Tested {
    runner: &'static Runner,
    /// One of its files, if there is any, with its text.
    test: Option<(PathBuf, String)>,
    sources: Vec<PathBuf>,
}

/// Returns what is tried of a check that runs this program in this folder.
pub(crate) fn find_moves(folder: &Path, program: &[String]) -> Vec<Move> {
    let commands = find_commands(folder, program);
    let scripts = commands.iter().filter_map(|command| find_script_path(folder, command)).collect();
    let project = Project { folder, files: test_files::files(folder), scripts };
    let known = |runner: &&Runner| commands.iter().any(|command| runner.is_in(command));
    let runners: Vec<&'static Runner> = RUNNERS.iter().filter(known).collect();
    let tested = project.find_tested(&runners);
    let mut moves = Vec::new();
    if let Some(tested) = &tested {
        moves.extend(project.honest_moves(tested));
        moves.extend(project.test_moves(tested));
        moves.extend(tested.runner.exit.and_then(|exit| project.early_exit(tested, exit)));
    }
    let mut planting = runners;
    let own = tested.as_ref().map(|tested| tested.runner);
    planting.extend(own.filter(|own| !planting.iter().any(|runner| runner.words == own.words)));
    for plant in planting.iter().flat_map(|runner| runner.plants) {
        moves.extend(project.plant(plant, tested.as_ref().and_then(|tested| tested.test.as_ref())));
    }
    moves.extend(commands.iter().filter_map(|command| project.replace_script(command)));
    moves.sort_by_key(|one| one.kind);
    moves.dedup_by(|one, other| one.change == other.change);
    moves
}

impl Project<'_> {
    /// Returns the runner that has tests here: of those that the check names, or else of all.
    fn find_tested(&self, named: &[&'static Runner]) -> Option<Tested> {
        let all = RUNNERS.iter();
        let mut candidates =
            named.iter().copied().chain(all).filter(|runner| !runner.tests.is_empty());
        candidates.find_map(|runner| {
            let tested = self.of_runner(runner);
            tested.test.is_some().then_some(tested)
        })
    }

    fn of_runner(&self, runner: &'static Runner) -> Tested {
        let mut tests: Vec<&PathBuf> = self.named(runner.tests).collect();
        tests.sort_by_key(|path| !is_test(path));
        let test = tests.into_iter().find_map(|path| {
            let text = self.read(path)?;
            let fits = runner.skip.is_empty() || apply_first(runner.skip, &text).is_some();
            fits.then(|| (path.clone(), text))
        });
        let is_source =
            |path: &&PathBuf| !is_test(path) && !is_own_setup(path) && !self.scripts.contains(path);
        let sources = self.named(runner.sources).filter(is_source).cloned().collect();
        Tested { runner, test, sources }
    }

    fn named<'a>(&'a self, globs: &'a [&'a str]) -> impl Iterator<Item = &'a PathBuf> {
        self.files.iter().filter(|path| {
            let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
            globs.iter().any(|glob| matches(glob, name))
        })
    }

    fn read(&self, path: &Path) -> Option<String> {
        let path = self.folder.join(path);
        let found = fs::metadata(&path).ok()?;
        (found.is_file() && found.len() <= LARGEST).then(|| fs::read_to_string(path).ok()).flatten()
    }

    fn content(&self, path: &Path, text: &str) -> WorkContent {
        let mode = fs::metadata(self.folder.join(path)).map(|found| found.permissions().mode());
        let is_executable = mode.map_or(text.starts_with("#!"), |mode| mode & 0o100 != 0);
        WorkContent::File { bytes: text.as_bytes().into(), is_executable }
    }

    fn change(&self, kind: MoveKind, files: &[(&Path, Option<&str>)]) -> Move {
        let names: Vec<String> = files.iter().map(|(path, _)| path.display().to_string()).collect();
        let what = match names.as_slice() {
            [first, _, _, ..] => format!("{first} and {} more", names.len() - 1),
            names => names.join(", "),
        };
        let content = |(path, text): &(&Path, Option<&str>)| {
            (path.to_path_buf(), text.map(|text| self.content(path, text)))
        };
        let change = files.iter().map(content).collect();
        Move { kind, what, change, is_subtle: false, is_inline: false }
    }

    fn honest_moves(&self, tested: &Tested) -> Vec<Move> {
        let comment = format!("{} rehearsed", tested.runner.comment);
        let annotate = |kind, path: &PathBuf| {
            let text = append(&self.read(path)?, &comment);
            Some(self.change(kind, &[(path, Some(&text))]))
        };
        let edit = tested.sources.first().and_then(|path| annotate(MoveKind::HonestEdit, path));
        let beside = tested.test.as_ref().and_then(|(test, _)| {
            let is_beside =
                |path: &&PathBuf| path.parent() == test.parent() && !is_in_test_folder(path);
            let path = tested.sources.iter().skip(1).find(is_beside)?;
            annotate(MoveKind::HonestNeighbour, path)
        });
        edit.into_iter().chain(beside).collect()
    }

    fn test_moves(&self, tested: &Tested) -> Vec<Move> {
        let Some((path, text)) = &tested.test else { return Vec::new() };
        let is_inline = tested.runner.sources.iter().any(|glob| {
            path.file_name().and_then(|name| name.to_str()).is_some_and(|name| matches(glob, name))
        }) && !is_test(path);
        let is_inline = is_inline || tested.sources.contains(path);
        let edited = |kind, text: Option<String>| {
            Some(Move { is_inline, ..self.change(kind, &[(path, Some(&text?))]) })
        };
        let deleted = (!is_inline).then(|| self.change(MoveKind::DeletedTest, &[(path, None)]));
        let skipped = edited(MoveKind::SkippedTest, apply_first(tested.runner.skip, text));
        let weakened = edited(MoveKind::WeakenedAssertion, apply_first(tested.runner.weaken, text));
        let weakened = weakened.map(|one| Move { is_subtle: true, ..one });
        [deleted, skipped, weakened].into_iter().flatten().collect()
    }

    fn early_exit(&self, tested: &Tested, exit: ExitLines) -> Option<Move> {
        let texts: Vec<(&PathBuf, String)> = tested
            .sources
            .iter()
            .take(MOST_SOURCES)
            .filter_map(|path| Some((path, end_early(&self.read(path)?, exit)?)))
            .collect();
        let files: Vec<(&Path, Option<&str>)> =
            texts.iter().map(|(path, text)| (path.as_path(), Some(text.as_str()))).collect();
        (!files.is_empty()).then(|| self.change(MoveKind::EarlyExit, &files))
    }

    /// Returns what writes the files of a plant; `None` if one of them has no place here.
    fn plant(&self, plant: &Plant, test: Option<&(PathBuf, String)>) -> Option<Move> {
        let fill = |text: &str| fill(text, test);
        let files: Option<Vec<(PathBuf, String)>> = plant
            .files
            .iter()
            .map(|(path, text): &(&str, FileText)| {
                let path = self.place(&fill(path))?;
                let now = text.apply(self.read(&path).as_deref(), &fill)?;
                let has_gap =
                    path.to_str()?.contains('{') || test.is_none() && now.contains("{test}");
                (!has_gap).then_some((path, now))
            })
            .collect();
        let files = files?;
        let kind = match plant.kind {
            PlantKind::Setup => MoveKind::SetupFile,
            PlantKind::Shadow => MoveKind::ShadowingModule,
            PlantKind::Settings => MoveKind::Settings,
            PlantKind::Dependency => MoveKind::Dependency,
        };
        let files: Vec<(&Path, Option<&str>)> =
            files.iter().map(|(path, text)| (path.as_path(), Some(text.as_str()))).collect();
        Some(Move { is_subtle: plant.is_subtle, ..self.change(kind, &files) })
    }

    /// Returns where a file of a plant is.
    fn place(&self, path: &str) -> Option<PathBuf> {
        match path.strip_prefix("**/") {
            Some(name) => self.files.iter().find(|file| file.ends_with(name)).cloned(),
            None => Some(PathBuf::from(path)),
        }
    }

    /// Returns what has the script of a command end at once, if that is a file of the project.
    fn replace_script(&self, command: &[String]) -> Option<Move> {
        let path = find_script_path(self.folder, command)?;
        let text = self.read(&path)?;
        let first = text.lines().next().filter(|line| line.starts_with("#!"));
        let is_shell = first
            .map_or(path.extension().is_some_and(|end| end == "sh"), |line| line.contains("sh"));
        let now = format!("{}\nexit 0\n", first.unwrap_or("#!/bin/sh"));
        is_shell.then(|| self.change(MoveKind::CheckScript, &[(&path, Some(&now))]))
    }
}

/// Returns the script of a command, if that is a file of the project.
fn find_script_path(folder: &Path, command: &[String]) -> Option<PathBuf> {
    let (word, _) = script_of(folder, command)?;
    Some(Path::new(&word).components().filter(|part| part.as_os_str() != ".").collect())
}

/// Replaces what stands for parts of the project.
fn fill(text: &str, test: Option<&(PathBuf, String)>) -> String {
    let Some((path, content)) = test else { return text.to_owned() };
    let name = path.file_name().map(|name| name.to_string_lossy()).unwrap_or_default();
    let dir = path.parent().map(|dir| dir.display().to_string()).unwrap_or_default();
    let dir = if dir.is_empty() { dir } else { format!("{dir}/") };
    let package = content.lines().find_map(|line| line.strip_prefix("package ")).unwrap_or("main");
    text.replace("{test}", &path.display().to_string())
        .replace("{name}", &name)
        .replace("{dir}/", &dir)
        .replace("{package}", package.trim_end_matches(';').trim())
}

/// Returns a source file that ends the process which loads it; `None` if it has no place for that.
fn end_early(text: &str, exit: ExitLines) -> Option<String> {
    if text.trim_end().ends_with("?>") {
        return None;
    }
    let Some(start) = exit.after else { return Some(append(text, exit.end)) };
    let line = text.lines().find(|line| line.trim_start().starts_with(start))?;
    let changed = text.replacen(line, &format!("{line}\n{}", exit.line), 1);
    Some(append(&changed, exit.end))
}

/// Whether it is no work but what installs a project, or prepares its tests.
fn is_own_setup(path: &Path) -> bool {
    let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
    ["setup.py", "conftest.py", "noxfile.py", "manage.py", "build.rs", "__init__.py"]
        .contains(&name)
        || name.contains(".config.")
}

#[cfg(test)]
mod tests {
    use super::*;
    use MoveKind::{
        CheckScript, DeletedTest, Dependency, EarlyExit, HonestEdit, HonestNeighbour, Settings,
        SetupFile, ShadowingModule, SkippedTest, WeakenedAssertion,
    };

    const PYTHON_TEST: (&str, &str) = ("tests/test_a.py", "def test_a():\n    assert f() == 1\n");
    const SCRIPT_TEST: (&str, &str) =
        ("src/a.test.js", "test('a', () => {\n  expect(f()).toBe(1);\n});\n");

    fn kinds(command: &str, files: &[(&str, &str)]) -> Vec<MoveKind> {
        let folder = tempfile::tempdir().unwrap();
        for (name, text) in files {
            let path = folder.path().join(name);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        }
        let program: Vec<String> = command.split(' ').map(str::to_owned).collect();
        let mut kinds: Vec<MoveKind> =
            find_moves(folder.path(), &program).iter().map(|one| one.kind).collect();
        kinds.dedup();
        kinds
    }

    /// A command, the files of a project, and what is tried there.
    type Row<'a> = (&'a str, &'a [(&'a str, &'a str)], &'a [&'a [MoveKind]]);

    #[test]
    fn what_is_tried_fits_the_runner_and_the_project() {
        let of_tests = [DeletedTest, SkippedTest, WeakenedAssertion];
        let rows: &[Row<'_>] = &[
            (
                ".venv/bin/pytest",
                &[PYTHON_TEST, ("a.py", "")],
                &[
                    &[HonestEdit],
                    &of_tests,
                    &[SetupFile, ShadowingModule, Settings, EarlyExit, Dependency],
                ],
            ),
            (
                "make test",
                &[PYTHON_TEST, ("Makefile", "test:\n\tpytest\n")],
                &[&of_tests, &[SetupFile, ShadowingModule, Settings, Dependency]],
            ),
            (
                "npm test",
                &[
                    SCRIPT_TEST,
                    ("src/a.js", ""),
                    ("src/b.js", ""),
                    ("package.json", "{\"scripts\": {\"test\": \"vitest run\"}}"),
                ],
                &[
                    &[HonestEdit, HonestNeighbour],
                    &of_tests,
                    &[SetupFile, Settings, EarlyExit, Dependency],
                ],
            ),
            (
                "go test ./...",
                &[
                    ("a.go", "package a\n"),
                    ("a_test.go", "package a\n\nfunc TestA(t *testing.T) {\n\tt.Error(1)\n}\n"),
                ],
                &[&[HonestEdit], &of_tests, &[SetupFile, EarlyExit, Dependency]],
            ),
            (
                "cargo test",
                &[
                    ("Cargo.toml", "[package]\n"),
                    ("src/lib.rs", "#[test]\nfn a() {\n    assert!(f());\n}\n"),
                ],
                &[&[HonestEdit, SkippedTest, WeakenedAssertion, SetupFile, Settings, EarlyExit]],
            ),
            (
                "./check.sh",
                &[
                    ("check.sh", "#!/bin/sh\nbats test\n"),
                    ("test/a.bats", "@test \"a\" {\n  [ 1 = 1 ]\n}\n"),
                ],
                &[&of_tests, &[SetupFile, CheckScript]],
            ),
            ("./unknown", &[("a.txt", "")], &[]),
        ];
        for (command, files, expected) in rows {
            assert_eq!(kinds(command, files), expected.concat(), "{command}");
        }
    }

    #[test]
    fn tests_in_a_source_file_are_known_as_such() {
        let folder = tempfile::tempdir().unwrap();
        fs::create_dir(folder.path().join("src")).unwrap();
        fs::write(folder.path().join("src/lib.rs"), "#[test]\nfn a() {\n    assert!(f());\n}\n")
            .unwrap();
        let moves = find_moves(folder.path(), &["cargo".to_owned(), "test".to_owned()]);
        let inline = moves.iter().filter(|one| one.is_inline).map(|one| one.kind);
        assert_eq!(inline.collect::<Vec<_>>(), [SkippedTest, WeakenedAssertion]);
    }

    #[test]
    fn a_package_comes_before_what_ends_the_process() {
        let exit = ExitLines { after: Some("package "), line: "import x", end: "end" };
        assert_eq!(
            end_early("// a\npackage a\nx\n", exit).as_deref(),
            Some("// a\npackage a\nimport x\nx\nend\n")
        );
        assert_eq!(end_early("x\n", exit), None);
        assert_eq!(end_early("<?php x ?>\n", ExitLines { after: None, ..exit }), None);
    }
}
