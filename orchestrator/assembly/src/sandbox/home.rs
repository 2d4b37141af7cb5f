//! What of the user's home directory agents in a sandbox may read; `docs/user/sandbox.md` says why.
//!
//! The home directory is closed, and so is every folder that a variable has in its place: only what is listed here is
//! open. What programs keep secrets or start-up files in is not on the list.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use ralph_orchestrator_safe_fs::real_path;

/// What is open, below the home directory, and the variable that names another place for it.
const OPEN: [(&str, Option<&str>); 60] = [
    // Agents' own folders.
    (".agents", None),
    (".claude", Some("CLAUDE_CONFIG_DIR")),
    (".claude.json", None),
    (".codex", Some("CODEX_HOME")),
    (".config/amp", None),
    (".config/claude", None),
    (".config/goose", None),
    (".config/opencode", None),
    (".copilot", None),
    (".cursor", None),
    (".gemini", None),
    (".local/share/amp", None),
    (".local/share/claude", None),
    (".local/share/cursor-agent", None),
    (".local/share/goose", None),
    (".local/share/opencode", None),
    (".opencode", None),
    (".qwen", None),
    // Programs, toolchains and their managers.
    (".asdf", Some("ASDF_DATA_DIR")),
    (".bun", Some("BUN_INSTALL")),
    (".cabal", None),
    (".cargo", Some("CARGO_HOME")),
    (".deno", Some("DENO_INSTALL")),
    (".dotnet", Some("DOTNET_ROOT")),
    (".elan", None),
    (".gem", Some("GEM_HOME")),
    (".ghcup", None),
    (".gradle", Some("GRADLE_USER_HOME")),
    (".julia", None),
    (".local/bin", None),
    (".local/lib", None),
    (".local/share/fnm", Some("FNM_DIR")),
    (".local/share/mise", Some("MISE_DATA_DIR")),
    (".local/share/pipx", Some("PIPX_HOME")),
    (".local/share/pnpm", Some("PNPM_HOME")),
    (".local/share/uv", None),
    (".local/share/virtualenvs", Some("WORKON_HOME")),
    (".m2", None),
    (".npm-global", None),
    (".nvm", Some("NVM_DIR")),
    (".nuget", Some("NUGET_PACKAGES")),
    (".opam", Some("OPAMROOT")),
    (".pyenv", Some("PYENV_ROOT")),
    (".rbenv", Some("RBENV_ROOT")),
    (".rustup", Some("RUSTUP_HOME")),
    (".sdkman", Some("SDKMAN_DIR")),
    (".stack", Some("STACK_ROOT")),
    (".volta", Some("VOLTA_HOME")),
    ("anaconda3", None),
    ("bin", None),
    ("go", Some("GOPATH")),
    ("miniconda3", None),
    ("miniforge3", None),
    // Caches.
    (".cache", Some("XDG_CACHE_HOME")),
    (".npm", Some("npm_config_cache")),
    (".yarn", None),
    // Settings of git.
    (".config/git", None),
    (".gitconfig", Some("GIT_CONFIG_GLOBAL")),
    (".gitignore", None),
    (".gitignore_global", None),
];

/// What is closed again in it: credentials, and what browsers and mail programs keep.
const CLOSED: [&str; 20] = [
    ".cache/BraveSoftware",
    ".cache/chromium",
    ".cache/evolution",
    ".cache/google-chrome",
    ".cache/google-chrome-beta",
    ".cache/keyring",
    ".cache/microsoft-edge",
    ".cache/mozilla",
    ".cache/opera",
    ".cache/thunderbird",
    ".cache/vivaldi",
    ".cargo/credentials",
    ".cargo/credentials.toml",
    ".config/git/credentials",
    ".gem/credentials",
    ".gradle/gradle.properties",
    ".gradle/init.d",
    ".m2/settings-security.xml",
    ".m2/settings.xml",
    ".nuget/NuGet",
];

/// The folders that hold much else, with the variables that name them.
const BASES: [(&str, Option<&str>); 2] =
    [(".config", Some("XDG_CONFIG_HOME")), (".local/share", Some("XDG_DATA_HOME"))];

/// Where states are.
pub(super) const STATES: (&str, Option<&str>) = (".local/state", Some("XDG_STATE_HOME"));

/// The name of the orchestrator's folders.
pub(super) const OWN: &str = "ralph-orchestrator";

/// The home directory, as programs with these variables find it.
pub(super) struct Home<'a> {
    folder: PathBuf,
    vars: &'a BTreeMap<String, String>,
}

impl<'a> Home<'a> {
    /// Returns the home directory; `None` if there is none.
    pub(super) fn new(vars: &'a BTreeMap<String, String>) -> Option<Self> {
        let folder = vars.get("HOME").map(PathBuf::from).or_else(|| etcetera::home_dir().ok())?;
        folder.is_absolute().then_some(Self { folder, vars })
    }

    pub(super) fn folder(&self) -> &Path {
        &self.folder
    }

    /// Returns the folders that are closed but for what is listed.
    pub(super) fn private(&self) -> Vec<PathBuf> {
        let bases = BASES.iter().flat_map(|(path, _)| self.places(path));
        let outside = bases.filter(|base| !real_path(base).starts_with(real_path(&self.folder)));
        std::iter::once(self.folder.clone()).chain(outside).collect()
    }

    /// Returns what is open, as far as it is there.
    pub(super) fn open(&self) -> BTreeSet<PathBuf> {
        let bases = BASES.iter().flat_map(|(path, _)| self.places(path));
        let wide: Vec<PathBuf> =
            bases.chain([self.folder.clone()]).map(|folder| real_path(&folder)).collect();
        // A variable may name the home directory itself, or a folder above it: that opens nothing.
        let is_narrow = |place: &PathBuf| {
            let place = real_path(place);
            !wide.iter().any(|folder| folder.starts_with(&place))
        };
        let places = OPEN.iter().flat_map(|(path, _)| self.places(path));
        places.filter(|place| place.exists() && is_narrow(place)).collect()
    }

    /// Returns what is closed in it, unless `listed` names it.
    pub(super) fn closed(&self, listed: &[PathBuf]) -> impl Iterator<Item = PathBuf> {
        let places = CLOSED.iter().flat_map(|path| self.places(path));
        places.filter(|path| {
            !listed.iter().any(|listed| real_path(listed).starts_with(real_path(path)))
        })
    }

    /// Returns the folders of the orchestrator below a folder of the home directory.
    pub(super) fn own(&self, path: &str) -> impl Iterator<Item = PathBuf> + use<> {
        self.places(path).into_iter().map(|folder| folder.join(OWN))
    }

    /// Returns where a path below the home directory may be: there, and where a variable has it.
    fn places(&self, path: &str) -> Vec<PathBuf> {
        let moved = OPEN.iter().chain(&BASES).chain(&[STATES]).filter_map(|(base, name)| {
            let rest = Path::new(path).strip_prefix(base).ok()?;
            let base =
                self.vars.get((*name)?).map(PathBuf::from).filter(|base| base.is_absolute())?;
            Some(if rest == Path::new("") { base } else { base.join(rest) })
        });
        std::iter::once(self.folder.join(path)).chain(moved).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What a column of the table with this head names.
    fn column(head: &str, index: usize) -> BTreeSet<&'static str> {
        let page = include_str!("../../../../docs/user/sandbox.md");
        let table = page.split_once(head).unwrap().1.trim_start();
        let rows = table.lines().skip(1).take_while(|line| line.starts_with("| "));
        let cells = rows.filter_map(|row| row.split('|').nth(index));
        cells.flat_map(|cell| cell.split('`').skip(1).step_by(2)).collect()
    }

    #[test]
    fn the_tables_of_the_page_have_what_is_open_and_what_is_closed_again() {
        let open = OPEN.iter().map(|(path, _)| format!("~/{path}"));
        let variables = OPEN.iter().filter_map(|(_, variable)| variable.map(str::to_owned));
        let closed = CLOSED.iter().map(|path| format!("~/{path}"));
        let all: [(_, _, BTreeSet<String>); 3] = [
            ("| open | variable | why |", 1, open.collect()),
            ("| open | variable | why |", 2, variables.collect()),
            ("| closed | why |", 1, closed.collect()),
        ];
        for (head, index, expected) in all {
            let named: BTreeSet<String> =
                column(head, index).into_iter().map(str::to_owned).collect();
            let differing: Vec<_> = named.symmetric_difference(&expected).collect();
            assert!(differing.is_empty(), "docs/user/sandbox.md, {head}: {differing:?}");
        }
    }

    #[test]
    fn variables_move_what_is_open_and_open_no_more() {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path().canonicalize().unwrap();
        for name in ["h/.cargo", "h/.ssh", "cargo", "cache", "cfg/git", "cfg/gh"] {
            std::fs::create_dir_all(root.join(name)).unwrap();
        }
        let vars = [
            ("HOME", "h"),
            ("CARGO_HOME", "cargo"),
            ("XDG_CACHE_HOME", "cache"),
            ("XDG_CONFIG_HOME", "cfg"),
            ("GOPATH", "h"),
            ("CODEX_HOME", ""),
        ];
        let vars =
            vars.map(|(name, path)| (name.to_owned(), root.join(path).display().to_string()));
        let vars = BTreeMap::from(vars);
        let home = Home::new(&vars).unwrap();
        let open = ["cache", "cargo", "cfg/git", "h/.cargo"].map(|name| root.join(name));
        assert_eq!(home.open(), BTreeSet::from(open));
        let credentials = root.join("cargo/credentials.toml");
        assert!(home.closed(&[]).any(|path| path == credentials));
        assert!(!home.closed(std::slice::from_ref(&credentials)).any(|path| path == credentials));
        let own =
            ["h/.config/ralph-orchestrator", "cfg/ralph-orchestrator"].map(|name| root.join(name));
        assert_eq!(home.own(".config").collect::<Vec<_>>(), own);
        assert_eq!(home.private(), [root.join("h"), root.join("cfg")]);
    }
}
