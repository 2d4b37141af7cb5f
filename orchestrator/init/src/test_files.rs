//! The files of tests in a folder, known by their names.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

/// Most folder entries that are read.
const MOST_ENTRIES: usize = 50_000;
/// Folders within folders.
const DEEPEST: usize = 8;

/// Folders of tests, wherever they are.
pub(crate) const FOLDERS: [&str; 5] = ["tests", "test", "spec", "__tests__", "Tests"];
/// Files of tests, wherever they are: globs for names.
const FILES: [&str; 27] = [
    "*_test.go",
    "test_*.py",
    "*_test.py",
    "conftest.py",
    "*_test.rb",
    "*_spec.rb",
    "*.test.js",
    "*.test.jsx",
    "*.test.ts",
    "*.test.tsx",
    "*.test.mjs",
    "*.test.cjs",
    "*.spec.js",
    "*.spec.jsx",
    "*.spec.ts",
    "*.spec.tsx",
    "*.spec.mjs",
    "*.spec.cjs",
    "*_test.dart",
    "tests.py",
    "*_test.js",
    "*_test.ts",
    "*_test.cc",
    "*_test.cpp",
    "*Tests.cs",
    "*Test.php",
    "*Tests.swift",
];
/// Folders of what others wrote or programs made. What lies in them comes and goes.
pub(crate) const FOREIGN: [&str; 10] = [
    "node_modules",
    "vendor",
    "target",
    "dist",
    "build",
    "out",
    "venv",
    "__pycache__",
    "site-packages",
    "bower_components",
];

/// Returns globs for the tests in a folder, as few as possible, none of which matches what others wrote.
pub(crate) fn find_globs(folder: &Path) -> Vec<String> {
    let mut tests = TestFiles::default();
    tests.walk(folder, Path::new(""), 0);
    tests.globs()
}

/// Tests in Python, as paths.
pub(crate) fn python_tests(folder: &Path) -> Vec<String> {
    let is_test = |path: &Path| {
        let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
        name == "conftest.py"
            || name == "tests.py"
            || matches("test_*.py", name)
            || matches("*_test.py", name)
    };
    files(folder).into_iter().filter(|path| is_test(path)).filter_map(text).collect()
}

/// Whether there are tests that the test runners of Node.js and Bun find by themselves.
pub(crate) fn has_script_tests(folder: &Path) -> bool {
    files(folder).iter().any(|path| {
        let end = path.extension().and_then(|end| end.to_str()).unwrap_or_default();
        let stem = path.file_stem().and_then(|stem| stem.to_str()).unwrap_or_default();
        let in_folder = path.parent().is_some_and(|at| at.iter().any(|part| part == "test"));
        ["js", "mjs", "cjs", "ts"].contains(&end)
            && (in_folder
                || stem == "test"
                || stem.starts_with("test-")
                || [".test", "-test", "_test"].iter().any(|mark| stem.ends_with(mark)))
    })
}

fn text(path: PathBuf) -> Option<String> {
    path.into_os_string().into_string().ok()
}

/// Returns the project's own files, sorted; at most [`MOST_ENTRIES`] entries are read.
pub(crate) fn files(folder: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    let mut open = vec![(PathBuf::new(), 0)];
    let mut seen = 0;
    while let Some((at, depth)) = open.pop() {
        for entry in folder.join(&at).read_dir().into_iter().flatten().flatten() {
            seen += 1;
            let (Ok(name), Ok(kind)) = (entry.file_name().into_string(), entry.file_type()) else {
                continue;
            };
            if seen > MOST_ENTRIES || name.starts_with('.') {
                continue;
            }
            if kind.is_file() {
                found.push(at.join(name));
            } else if kind.is_dir() && depth < DEEPEST && !FOREIGN.contains(&name.as_str()) {
                open.push((at.join(name), depth + 1));
            }
        }
    }
    found.sort();
    found
}

/// Test files that were found: for each folder, the globs below it.
#[derive(Default)]
struct TestFiles {
    found: BTreeMap<PathBuf, BTreeSet<String>>,
    /// Folders right in the top folder that hold what others wrote somewhere.
    mixed: BTreeSet<PathBuf>,
    seen: usize,
}

impl TestFiles {
    fn walk(&mut self, top: &Path, at: &Path, depth: usize) {
        let Ok(entries) = top.join(at).read_dir() else { return };
        let mut names: Vec<_> = entries
            .filter_map(|entry| {
                let entry = entry.ok()?;
                Some((entry.file_name().into_string().ok()?, entry.file_type().ok()?))
            })
            .collect();
        names.sort_unstable_by(|(a, _), (b, _)| a.cmp(b));
        for (name, kind) in names {
            self.seen += 1;
            if self.seen > MOST_ENTRIES || name.starts_with('.') {
                continue;
            }
            if kind.is_dir() {
                self.enter(top, &at.join(&name), &name, depth);
            } else if kind.is_file()
                && let Some(glob) = FILES.iter().find(|glob| matches(glob, &name))
            {
                self.found.entry(at.to_owned()).or_default().insert((*glob).to_owned());
            }
        }
    }

    fn enter(&mut self, top: &Path, path: &Path, name: &str, depth: usize) {
        if FOREIGN.contains(&name) {
            self.mixed
                .extend(path.components().next().map(|first| PathBuf::from(first.as_os_str())));
        } else if FOLDERS.contains(&name) {
            let is_empty = top.join(path).read_dir().is_ok_and(|mut found| found.next().is_none());
            if !is_empty {
                let parent = path.parent().unwrap_or(Path::new("")).to_owned();
                self.found.entry(parent).or_default().insert(format!("{name}/**"));
            }
        } else if depth < DEEPEST {
            self.walk(top, path, depth + 1);
        }
    }

    /// As few globs as possible, none of which matches what others wrote.
    fn globs(&self) -> Vec<String> {
        let mut globs = BTreeSet::new();
        for (folder, below) in &self.found {
            let first = folder.components().next().map(|first| PathBuf::from(first.as_os_str()));
            let prefix = match first {
                None => String::new(),
                Some(first) if self.mixed.contains(&first) => {
                    format!("{}/", escape(&folder.to_string_lossy()))
                }
                Some(first) => format!("{}/**/", escape(&first.to_string_lossy())),
            };
            globs.extend(below.iter().map(|glob| format!("{prefix}{glob}")));
        }
        globs.into_iter().collect()
    }
}

/// Whether a file is one of tests, by its path.
pub(crate) fn is_test(path: &Path) -> bool {
    let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
    is_in_test_folder(path) || FILES.iter().any(|glob| matches(glob, name))
}

/// Whether a path lies in a folder of tests.
pub(crate) fn is_in_test_folder(path: &Path) -> bool {
    let above = path.parent().into_iter().flat_map(Path::iter);
    above.into_iter().any(|part| FOLDERS.iter().any(|folder| part == *folder))
}

/// Whether a name matches a glob with at most one star.
pub(crate) fn matches(glob: &str, name: &str) -> bool {
    match glob.split_once('*') {
        None => glob == name,
        Some((start, end)) => {
            name.len() > start.len() + end.len() && name.starts_with(start) && name.ends_with(end)
        }
    }
}

/// A path as a glob that matches nothing else.
pub(crate) fn escape(path: &str) -> String {
    path.chars().fold(String::new(), |mut glob, c| {
        if matches!(c, '*' | '?' | '[' | ']' | '{' | '}' | '\\') {
            glob.push('\\');
        }
        glob.push(c);
        glob
    })
}
