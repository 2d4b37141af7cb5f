//! The lock files of package managers, and what installs what they name.

/// A lock file, and what installs what it names.
pub(super) struct LockFile {
    pub(super) name: &'static str,
    /// What only the lock file of this manager's version has in it.
    pub(super) mark: &'static str,
    /// In which people write what is to be installed.
    pub(super) manifest: &'static str,
    /// Installs what the lock file names and leaves that file as it is.
    pub(super) install: &'static [&'static str],
    /// The folder of the project that it installs into.
    pub(super) folder: &'static str,
}

/// Where packages of Node.js are installed.
pub(super) const NODE_MODULES: &str = "node_modules";
const VENV: &str = ".venv";

/// The first that is there counts for its folder.
pub(super) const LOCK_FILES: &[LockFile] = &[
    lock_file("pnpm-lock.yaml", "package.json", &["pnpm", "install", FROZEN], NODE_MODULES),
    LockFile {
        mark: "__metadata:",
        ..lock_file("yarn.lock", "package.json", &["yarn", "install", "--immutable"], NODE_MODULES)
    },
    lock_file("yarn.lock", "package.json", &["yarn", "install", FROZEN], NODE_MODULES),
    lock_file("bun.lock", "package.json", &["bun", "install", FROZEN], NODE_MODULES),
    lock_file("bun.lockb", "package.json", &["bun", "install", FROZEN], NODE_MODULES),
    lock_file("package-lock.json", "package.json", &["npm", "ci"], NODE_MODULES),
    lock_file("npm-shrinkwrap.json", "package.json", &["npm", "ci"], NODE_MODULES),
    // Extras that were installed by hand stay.
    lock_file("uv.lock", "pyproject.toml", &["uv", "sync", "--frozen", "--inexact"], VENV),
    lock_file("poetry.lock", "pyproject.toml", &["poetry", "install", "--no-interaction"], VENV),
    lock_file("pdm.lock", "pyproject.toml", &["pdm", "install", FROZEN], VENV),
    lock_file("Pipfile.lock", "Pipfile", &["pipenv", "sync", "--dev"], VENV),
    // Locks nothing, and what is installed already stays as it is.
    lock_file(
        "requirements.txt",
        "requirements.txt",
        &[".venv/bin/python", "-m", "pip", "install", "-r", "requirements.txt"],
        VENV,
    ),
    lock_file("Gemfile.lock", "Gemfile", &["bundle", "install"], "vendor/bundle"),
    lock_file(
        "composer.lock",
        "composer.json",
        &["composer", "install", "--no-interaction"],
        "vendor",
    ),
    lock_file("mix.lock", "mix.exs", &["mix", "deps.get"], "deps"),
];

const FROZEN: &str = "--frozen-lockfile";

const fn lock_file(
    name: &'static str,
    manifest: &'static str,
    install: &'static [&'static str],
    folder: &'static str,
) -> LockFile {
    LockFile { name, mark: "", manifest, install, folder }
}
