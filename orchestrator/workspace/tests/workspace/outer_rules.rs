//! Ignore rules outside of the workspace: where git reads them, and that no agent changes what they say.

use std::path::PathBuf;
use std::sync::Arc;

use ralph_orchestrator_workspace::{GitEnvironment, PinnedPaths, TreeHasher};

use crate::support::{Workspace, git};

/// A repository whose user's home is the folder around it, with these files; `~` is that folder.
struct Home {
    ws: Workspace,
}

impl Home {
    fn new(files: &[(&str, &str)]) -> Self {
        let home = Self { ws: Workspace::with_git() };
        for file in ["a", "b", "c", "d/a"] {
            home.ws.write(file, "x");
        }
        for (file, text) in files {
            home.write(file, text);
        }
        home
    }

    fn write(&self, file: &str, text: &str) {
        let path = self.ws.beside(file);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        let home = self.ws.beside("");
        std::fs::write(path, text.replace("HOME", home.to_str().unwrap())).unwrap();
    }

    fn environment(&self) -> GitEnvironment {
        let home = self.ws.beside("");
        let config_folder = home.join(".config/git");
        let files =
            vec![self.ws.beside("system"), config_folder.join("config"), home.join(".gitconfig")];
        GitEnvironment { home: Some(home), config_folder: Some(config_folder), files }
    }

    fn hasher(&self) -> TreeHasher {
        self.ws.hasher().in_environment(self.environment())
    }

    fn counted(&self) -> Vec<String> {
        names(&mut self.hasher())
    }

    #[allow(clippy::disallowed_methods)]
    fn counted_by_git(&self) -> Vec<String> {
        let output = std::process::Command::new("git")
            .args(["ls-files", "--cached", "--others", "--exclude-standard"])
            .current_dir(self.ws.root())
            .env_clear()
            .env("PATH", std::env::var_os("PATH").unwrap_or_default())
            .env("HOME", self.ws.beside(""))
            .env("GIT_CONFIG_SYSTEM", self.ws.beside("system"))
            .output()
            .unwrap();
        assert!(output.status.success(), "{output:?}");
        let mut names: Vec<String> =
            String::from_utf8(output.stdout).unwrap().lines().map(str::to_owned).collect();
        names.sort();
        names
    }
}

fn names(hasher: &mut TreeHasher) -> Vec<String> {
    let snapshot = hasher.snapshot().unwrap();
    snapshot.paths().map(|path| path.to_str().unwrap().to_owned()).collect()
}

#[test]
fn a_users_own_rules_are_read_where_git_reads_them() {
    let own = "[core]\n\texcludesFile = HOME/own\n";
    let cases: &[&[(&str, &str)]] = &[
        &[(".config/git/ignore", "a\n")],
        &[(".config/git/ignore", "/a\n")],
        &[(".config/git/ignore", "a\n"), ("ws/.git/info/exclude", "!a\n")],
        &[(".config/git/ignore", "a\n"), ("ws/.gitignore", "!/a\n")],
        &[("system", own), ("own", "b\n")],
        &[(".gitconfig", own), ("own", "b\n"), (".config/git/ignore", "a\n")],
        &[(".gitconfig", "# x\n[Core]\n  ExcludesFile=\"~/ow\"n ; y\n"), ("own", "b\n")],
        &[(".gitconfig", "[core] excludesfile = ~/o\\\nwn  \n[user]\n"), ("own", "b\n")],
        &[
            (".gitconfig", "[user]\nname = x\n[core \"sub\"]\nexcludesFile = ~/own\n"),
            ("own", "b\n"),
        ],
        &[(".gitconfig", "[core]\nexcludesFile =\n"), (".config/git/ignore", "a\n")],
        &[
            (".config/git/config", own),
            ("own", "b\n"),
            (".gitconfig", "[core]\nexcludesFile=~/c\n"),
            ("c", "c\n"),
        ],
        &[("ws/.git/config", "[core]\nbare = false\nexcludesFile = rules\n"), ("ws/rules", "c\n")],
        &[(".gitconfig", "[include]\npath = more\n"), ("more", own), ("own", "b\n")],
        &[
            (".gitconfig", "[include]\npath = ~/more\n[core]\nexcludesFile=~/c\n"),
            ("more", own),
            ("c", "c\n"),
        ],
        &[
            (".gitconfig", "[includeIf \"gitdir:~/\"]\npath = more\n"),
            ("more", own),
            ("own", "b\n"),
        ],
        &[
            (".gitconfig", "[includeIf \"gitdir:~/other/\"]\npath = more\n"),
            ("more", own),
            ("own", "b\n"),
        ],
    ];
    for files in cases {
        let home = Home::new(files);
        assert_eq!(home.counted(), home.counted_by_git(), "{files:?}");
        assert!(home.hasher().rule_notes().is_empty());
    }
}

#[test]
fn rules_that_are_not_read_are_named() {
    let more = ("more", "[core]\nexcludesFile = ~/own\n");
    let home = Home::new(&[(".gitconfig", "[includeIf \"onbranch:x\"]\npath = more\n"), more]);
    let mut hasher = home.hasher();
    hasher.digest().unwrap();
    let notes = hasher.rule_notes();
    assert!(matches!(notes, [note] if note.contains("onbranch:x")), "{notes:?}");
    // One that includes itself comes to an end, and so does one that is no configuration.
    for text in ["[include]\npath = .gitconfig\n", "[core\n", "[core]\nexcludesFile = \"x\n"] {
        home.write(".gitconfig", text);
        assert_eq!(home.counted().len(), 4);
    }
}

/// A hasher for what counts now, with the rules as they are now.
fn pinned(hasher: &mut TreeHasher) -> Arc<PinnedPaths> {
    let snapshot = hasher.snapshot().unwrap();
    let paths: PinnedPaths = snapshot.paths().collect();
    Arc::new(paths.with_outer_rules(Some(hasher.outer_rules().clone())))
}

#[test]
fn what_was_ignored_at_the_start_or_is_now_does_not_count_if_it_is_new() {
    let home = Home::new(&[(".config/git/ignore", "old\n")]);
    let pins = pinned(&mut home.hasher());
    let counted = || {
        let mut hasher = home.hasher();
        hasher.pin(Arc::clone(&pins));
        names(&mut hasher)
    };
    home.ws.write("old", "x").write("new", "x").write("work", "x");
    assert_eq!(counted(), ["a", "b", "c", "d/a", "new", "work"]);
    home.write(".config/git/ignore", "new\na\n");
    assert_eq!(counted(), ["a", "b", "c", "d/a", "work"], "what counted at the start still does");
    std::fs::remove_dir_all(home.ws.path(".git")).unwrap();
    assert_eq!(counted(), ["a", "b", "c", "d/a", "new", "work"]);
}

#[test]
fn the_repository_is_the_one_of_the_start() {
    let outer = Workspace::with_git();
    outer.write(".gitignore", "build/\n").write("pkg/f", "x");
    let pkg = outer.path("pkg");
    let hasher = || TreeHasher::new(pkg.clone(), Vec::new());
    let pins = pinned(&mut hasher());
    assert_eq!(pins.repository_top(&pkg), Some(outer.root()));
    let counted = || {
        let mut hasher = hasher();
        hasher.pin(Arc::clone(&pins));
        names(&mut hasher)
    };
    outer.write("pkg/build/x", "x");
    assert_eq!(counted(), ["f"]);
    git(&pkg, &["init", "-q"]);
    assert_eq!(counted(), ["f"]);
    git(&pkg, &["add", "-f", "build/x"]);
    assert_eq!(counted(), ["f"], "of another repository");
    std::fs::remove_dir_all(pkg.join(".git")).unwrap();
    outer.write(".gitignore", "\n");
    assert_eq!(counted(), ["f"]);
    // Elsewhere nothing is known of it.
    assert_eq!(pins.repository_top(&PathBuf::from("/elsewhere")), None);
}
