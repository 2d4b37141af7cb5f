//! Paths that would change what a command does by being there: programs believe what lies where they
//! run, and an agent can put it there.
//!
//! Nearly all are plain paths, so that looking for them costs nothing.

use std::path::{Path, PathBuf};

use ralph_orchestrator_safe_fs::normalize_lexically;

use crate::config::Config;
use crate::files::Reach;
use crate::invocation::Invocation;
use crate::program_name::{bare, commands};
use crate::python;

/// What programs read, and would do something else for. It matters only to those who protect something.
struct Settings {
    programs: &'static [&'static str],
    files: &'static [&'static str],
    /// Whether they are looked for in the folders above, too, up to the workspace.
    upward: bool,
    /// What matters in the folders above only: where the command runs, it is part of the work.
    above: &'static [&'static str],
}

const SETTINGS: [Settings; 13] = [
    Settings {
        programs: &["pytest", "py.test"],
        files: &[
            "conftest.py",
            "pytest.ini",
            ".pytest.ini",
            "pytest.toml",
            ".pytest.toml",
            "tox.ini",
            "setup.cfg",
        ],
        upward: true,
        above: &["pyproject.toml"],
    },
    Settings {
        programs: &["cargo"],
        files: &[".cargo/config", ".cargo/config.toml", "rust-toolchain", "rust-toolchain.toml"],
        upward: true,
        above: &["Cargo.toml"],
    },
    Settings { programs: &["go"], files: &["vendor", "go.work"], upward: true, above: &[] },
    Settings {
        programs: &["npm", "npx", "pnpm", "yarn", "bun", "bunx"],
        files: &[
            ".npmrc",
            ".pnpmfile.cjs",
            ".yarnrc",
            ".yarnrc.yml",
            "bunfig.toml",
            "jest.config.cjs",
            "jest.config.js",
            "jest.config.json",
            "jest.config.mjs",
            "jest.config.ts",
            "vitest.config.cjs",
            "vitest.config.cts",
            "vitest.config.js",
            "vitest.config.mjs",
            "vitest.config.mts",
            "vitest.config.ts",
            "vitest.workspace.js",
            "vitest.workspace.json",
            "vitest.workspace.ts",
            ".mocharc.cjs",
            ".mocharc.js",
            ".mocharc.json",
            ".mocharc.jsonc",
            ".mocharc.yaml",
            ".mocharc.yml",
            "ava.config.cjs",
            "ava.config.js",
            "ava.config.mjs",
            "playwright.config.js",
            "playwright.config.ts",
        ],
        upward: true,
        above: &["package.json", "pnpm-workspace.yaml"],
    },
    Settings {
        programs: &["make", "gmake"],
        files: &["GNUmakefile", "makefile", "Makefile"],
        upward: false,
        above: &[],
    },
    Settings { programs: &["mvn", "mvnw"], files: &[".mvn"], upward: true, above: &["pom.xml"] },
    Settings { programs: &["sbt"], files: &[".sbtopts", ".jvmopts"], upward: false, above: &[] },
    Settings {
        programs: &["rspec", "rake", "rails"],
        files: &[".rspec", ".rspec-local"],
        upward: false,
        above: &[],
    },
    Settings {
        programs: &["dotnet"],
        files: &["Directory.Build.props", "Directory.Build.targets", ".runsettings", "global.json"],
        upward: true,
        above: &[],
    },
    Settings {
        programs: &["deno"],
        files: &["deno.json", "deno.jsonc"],
        upward: true,
        above: &["package.json"],
    },
    Settings {
        programs: &["phpunit", "composer"],
        files: &["phpunit.xml"],
        upward: false,
        above: &[],
    },
    Settings { programs: &["tox"], files: &["tox.toml"], upward: true, above: &["pyproject.toml"] },
    Settings {
        programs: &["jest", "vitest", "mocha", "ava", "playwright", "node"],
        files: &[],
        upward: true,
        above: &["package.json"],
    },
];

/// Where pytest finds plug-ins in a folder that Python searches.
const PLUGINS: [&str; 2] = ["*.dist-info", "*.egg-info/entry_points.txt"];

/// The paths of one command, relative to the workspace.
pub(crate) struct Reserved {
    paths: Vec<PathBuf>,
    /// Folders in which [`PLUGINS`] must not appear.
    plugins: Vec<PathBuf>,
}

impl Reserved {
    pub(crate) fn new(config: &Config, workspace: &Path) -> Self {
        let reach = Reach::new(config, workspace);
        let mut reserved = Self { paths: python_paths(&reach), plugins: Vec::new() };
        reserved.paths.extend(reach.targets);
        for invocation in &reach.known {
            reserved.plugins.extend(python::plugin_folders(invocation));
            if !config.protect.is_empty() {
                reserved.add_settings(invocation);
            }
        }
        if !config.protect.is_empty() {
            reserved.paths.extend(reach.named);
        }
        for paths in [&mut reserved.paths, &mut reserved.plugins] {
            *paths = paths.iter().filter_map(|path| path_inside(workspace, path)).collect();
            paths.sort();
            paths.dedup();
        }
        reserved
    }

    fn add_settings(&mut self, invocation: &Invocation) {
        let folder = &invocation.folder;
        for command in commands(&invocation.words) {
            let program = command.first().map(|word| bare(word));
            let names = [program, python::module_of(command)];
            let is_known = |known: &&Settings| {
                names.iter().flatten().any(|name| known.programs.contains(name))
            };
            for known in SETTINGS.iter().filter(is_known) {
                let above = || folder.ancestors().skip(1);
                let folders =
                    std::iter::once(folder.as_path()).chain(above().take_while(|_| known.upward));
                self.paths.extend(join_all(folders, known.files));
                self.paths.extend(join_all(above(), known.above));
            }
        }
    }

    /// Returns them as globs.
    pub(crate) fn globs(&self) -> Vec<String> {
        let plain = self.paths.iter().map(|path| glob(path));
        let plugins = self.plugins.iter().flat_map(|folder| {
            PLUGINS.map(|name| match glob(folder) {
                folder if folder.is_empty() => name.to_owned(),
                folder => format!("{folder}/{name}"),
            })
        });
        plain.chain(plugins).collect()
    }

    /// Returns whether a path is one of them, or lies in one.
    pub(crate) fn contains(&self, path: &Path) -> bool {
        let is_plugin = |folder: &PathBuf| {
            let beneath = path.strip_prefix(folder).ok();
            let first = beneath.and_then(|path| path.iter().next()).map(Path::new);
            let extension = first.and_then(Path::extension);
            extension.is_some_and(|end| end == "dist-info" || end == "egg-info")
        };
        self.paths.iter().any(|reserved| path.starts_with(reserved))
            || self.plugins.iter().any(is_plugin)
    }
}

/// Returns the path relative to the workspace, by its text and without `..`; `None` if it leads out, where nothing
/// is reserved.
pub(crate) fn path_inside(workspace: &Path, path: &Path) -> Option<PathBuf> {
    let path = normalize_lexically(&workspace.join(path));
    path.strip_prefix(workspace).ok().map(Path::to_owned)
}

fn join_all<'a>(
    folders: impl Iterator<Item = &'a Path>,
    files: &'static [&'static str],
) -> impl Iterator<Item = PathBuf> {
    folders.flat_map(|folder| files.iter().map(|file| folder.join(file)))
}

/// Those of them that Python would take for modules.
pub(crate) fn python_paths(reach: &Reach) -> Vec<PathBuf> {
    reach.known.iter().flat_map(python::paths).collect()
}

/// Whether text names a program beside which something would be reserved.
pub(crate) fn find_program(text: &str) -> Option<&str> {
    let is_letter = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '.');
    text.split(|c| !is_letter(c)).find(|word| {
        let name = bare(word);
        python::is_python(name) || SETTINGS.iter().any(|known| known.programs.contains(&name))
    })
}

/// Returns a glob that matches this path only.
pub(crate) fn glob(path: &Path) -> String {
    let mut glob = String::new();
    for c in path.to_string_lossy().chars() {
        if matches!(c, '*' | '?' | '[' | ']' | '{' | '}' | '\\') {
            glob.push('\\');
        }
        glob.push(c);
    }
    glob
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    fn reserved(table: Value) -> Reserved {
        Reserved::new(&Config::parse(table).unwrap(), Path::new("/w"))
    }

    fn of(program: &[&str], protect: &[&str]) -> Vec<String> {
        reserved(json!({"program": program, "protect": protect, "cwd": "app"})).globs()
    }

    #[test]
    fn reserves_where_python_would_find_the_module_it_runs() {
        let paths = of(&["python3", "-m", "my.check"], &[]);
        for path in [
            "app/my",
            "app/my.py",
            "app/my.pyc",
            "app/my.abi3.so",
            "app/argparse.py",
            "app/_heapq.py",
            "app/_opcode/__init__.py",
            "app/org/__init__.pyc",
        ] {
            assert!(paths.iter().any(|reserved| reserved == path), "{path}: {paths:?}");
        }
        assert!(!paths.iter().any(|path| path.contains("pluggy")), "{paths:?}");
        let script = of(&["python3", "ci/check.py"], &[]);
        assert!(script.contains(&"app/ci/argparse.py".to_owned()), "{script:?}");
        assert!(of(&["python3", "/ci/check.py"], &[]).is_empty());
        // A folder alone hides nothing, and what is built in cannot be hidden.
        for path in ["app/argparse", "app/sys.py"] {
            assert!(!paths.iter().any(|reserved| reserved == path), "{path}");
        }
    }

    #[test]
    fn reserves_in_every_folder_that_python_searches() {
        let line = "PYTHONPATH=src python3 -m unittest discover -s lib -t top -v";
        let paths = of(&["sh", "-c", line], &[]);
        for folder in ["app", "app/src", "app/lib", "app/top"] {
            assert!(paths.contains(&format!("{folder}/heapq.py")), "{folder}: {paths:?}");
        }
    }

    /// What is reserved follows from the command: nobody wrote it, so it is never a mistake of the configuration.
    #[test]
    fn reserves_only_inside_the_workspace_however_a_folder_is_written() {
        let heapq = |program: &[&str]| {
            let mut paths = of(program, &["t"]);
            assert!(
                paths.iter().all(|path| !path.starts_with('/') && !path.contains("..")),
                "{program:?}: {paths:?}"
            );
            paths.retain(|path| path.ends_with("heapq.py") && !path.ends_with("_heapq.py"));
            paths
        };
        for (folder, inside) in [
            ("../tests", Some("tests/heapq.py")),
            ("../../tests", None),
            ("./tests/../tests/", Some("app/tests/heapq.py")),
            ("..", Some("heapq.py")),
            ("../..", None),
            ("../../w/tests", Some("tests/heapq.py")),
            ("/w/tests/", Some("tests/heapq.py")),
            ("/elsewhere/tests", None),
            ("~/tests", Some("app/~/tests/heapq.py")),
            ("my tests", Some("app/my tests/heapq.py")),
            ("täst", Some("app/täst/heapq.py")),
        ] {
            for option in ["-s", "-t"] {
                let found = heapq(&["python3", "-m", "unittest", "discover", option, folder]);
                let expected: std::collections::BTreeSet<_> =
                    inside.into_iter().chain(["app/heapq.py"]).map(str::to_owned).collect();
                assert_eq!(
                    found.into_iter().collect::<std::collections::BTreeSet<_>>(),
                    expected,
                    "{folder}"
                );
            }
        }
        assert_eq!(heapq(&["python3", "../ci/check.py"]), ["ci/heapq.py"]);
        assert_eq!(heapq(&["python3", "/w/ci/check.py"]), ["ci/heapq.py"]);
        assert_eq!(heapq(&["python3", "../../check.py"]), <[&str; 0]>::default());
        assert!(
            of(&["make", "../x", "-f", "../Makefile"], &["t"])
                .iter()
                .all(|path| !path.contains(".."))
        );
    }

    #[test]
    fn reserves_behind_wrappers_and_lines_in_the_folder_of_each_command() {
        for (program, path) in [
            (json!(["timeout", "60", "python3", "-m", "unittest"]), "unittest.py"),
            (json!(["env", "-C", "b", "python3", "-m", "unittest"]), "b/unittest.py"),
            (json!(["sh", "-c", "python3 -m unittest -v && true"]), "unittest.py"),
            (json!(["sh", "-c", "A=1 python3 -m unittest"]), "unittest.py"),
            (json!(["sh", "-c", "cd b && python3 -m unittest 2>&1 | tee o"]), "b/unittest.py"),
            (json!(["sh", "-c", "cd . && npm test"]), ".npmrc"),
            (json!(["make", "-C", "sub", "test"]), "sub/GNUmakefile"),
            (json!(["make", "-Csub"]), "sub/GNUmakefile"),
            (json!(["bash", "-c", "cd sub && make test"]), "sub/GNUmakefile"),
        ] {
            let globs = reserved(json!({"program": program, "protect": ["t"]})).globs();
            assert!(globs.iter().any(|glob| glob == path), "{program}: {globs:?}");
        }
    }

    #[test]
    fn reserves_settings_only_for_those_who_protect_something() {
        assert_eq!(
            of(&["make", "test"], &["Makefile"]),
            ["app/GNUmakefile", "app/Makefile", "app/makefile"]
        );
        assert!(of(&["make", "test"], &[]).is_empty());
        assert!(
            of(&["uv", "run", "pytest"], &["tests/**"]).contains(&"app/conftest.py".to_owned())
        );
        assert!(of(&["python3", "-m", "pytest"], &["t"]).contains(&"app/conftest.py".to_owned()));
        assert!(of(&["pytest", "cargo"], &["t"]).iter().all(|path| !path.contains("cargo")));
    }

    #[test]
    fn reserves_settings_in_every_folder_up_to_the_workspace() {
        for (program, name, also_here) in [
            ("cargo", ".cargo/config.toml", true),
            ("cargo", "rust-toolchain", true),
            ("cargo", "Cargo.toml", false),
            ("pytest", "pytest.ini", true),
            ("pytest", "conftest.py", true),
            ("pytest", "pyproject.toml", false),
            ("npm", ".npmrc", true),
            ("npm", "package.json", false),
        ] {
            let table = json!({"program": [program], "protect": ["t"], "cwd": "a/b"});
            let globs = reserved(table).globs();
            let has = |path: String| globs.contains(&path);
            assert!(has(name.to_owned()) && has(format!("a/{name}")), "{name}: {globs:?}");
            assert_eq!(has(format!("a/b/{name}")), also_here, "{name}: {globs:?}");
        }
    }

    #[test]
    fn reserves_plugins_of_pytest_where_python_searches() {
        let found = reserved(json!({"program": ["python3", "-m", "pytest"], "cwd": "a[1]"}));
        assert!(found.globs().contains(&r"a\[1\]/*.dist-info".to_owned()));
        for (path, is_reserved) in [
            ("a[1]/x.dist-info/entry_points.txt", true),
            ("a[1]/x.egg-info/entry_points.txt", true),
            ("a[1]/json.py", true),
            ("x.dist-info/entry_points.txt", false),
            ("a[1]/src/x.dist-info", false),
        ] {
            assert_eq!(found.contains(Path::new(path)), is_reserved, "{path}");
        }
        let line = ["sh", "-c", "PYTHONPATH=. pytest"];
        assert!(of(&line, &[]).contains(&"app/*.dist-info".to_owned()));
        assert!(of(&["pytest"], &[]).is_empty());
    }

    #[test]
    fn finds_programs_in_text_that_cannot_be_read() {
        assert_eq!(find_program("x=$(/usr/bin/python3.12 -m unittest)"), Some("python3.12"));
        assert_eq!(find_program("for d in *; do (cd $d; make); done"), Some("make"));
        assert_eq!(find_program("test \"$(wc -l < a)\" -gt 3; remake"), None);
    }
}
