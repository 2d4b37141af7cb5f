//! The sandbox of agents: `[sandbox]` of the configuration, and the paths that every sandbox grants or hides.

use std::io;
use std::path::{Path, PathBuf};

use ralph_orchestrator_config::{Config, SandboxMode, SandboxWorkspace};
use ralph_orchestrator_core::engine::states_dir;
use ralph_orchestrator_core::workspace::{Baseline, ProtectedPaths};
use ralph_orchestrator_supervisor::{LandlockLevel, Sandbox};

use crate::context::{Context, user_file};
use crate::error::CommandError;

/// What every agent may read and execute: the system's own folders, as far as they are there.
const SYSTEM: [&str; 17] = [
    "/bin", "/dev", "/etc", "/gnu", "/lib", "/lib32", "/lib64", "/libx32", "/nix", "/opt", "/proc",
    "/run", "/sbin", "/snap", "/sys", "/usr", "/var",
];
/// What every agent may write: devices that keep nothing.
const DEVICES: [&str; 8] = [
    "/dev/full",
    "/dev/null",
    "/dev/ptmx",
    "/dev/pts",
    "/dev/random",
    "/dev/tty",
    "/dev/urandom",
    "/dev/zero",
];

/// The sandbox of a configuration, but for the globs that its validators protect.
#[derive(Clone)]
pub(crate) struct SandboxPolicy {
    workspace: PathBuf,
    /// What lies in the workspace can be written, whatever it is.
    is_open: bool,
    config_file: PathBuf,
    sandbox: Sandbox,
}

impl SandboxPolicy {
    /// Returns the sandbox of the configuration; `None` with `mode = "off"`.
    ///
    /// # Errors
    /// The kernel cannot do it, or a path in it makes no sense.
    pub(crate) fn from_context(context: &Context) -> Result<Option<Self>, CommandError> {
        let config = &context.loaded.config;
        if config.sandbox.mode == SandboxMode::Off {
            return Ok(None);
        }
        LandlockLevel::from_kernel().map_err(|error| {
            CommandError::unavailable(format!("`[sandbox] mode = \"landlock\"`: {error}"))
                .hinted("nothing was started; `mode = \"off\"` runs agents without a sandbox")
        })?;
        let sandbox = sandbox(context, hidden(context)?);
        check(config, &sandbox.hide)?;
        Ok(Some(Self {
            workspace: config.run.workspace.clone(),
            is_open: config.sandbox.workspace == SandboxWorkspace::Open,
            config_file: context.file.clone(),
            sandbox,
        }))
    }

    /// Adds files that agents may read and execute.
    pub(crate) fn with_readable(mut self, files: impl IntoIterator<Item = PathBuf>) -> Self {
        self.sandbox.read.extend(files);
        self
    }

    /// Takes away the right to write in the workspace, for commands that only report what happens.
    pub(crate) fn without_workspace(mut self) -> Self {
        let mut write = std::mem::take(&mut self.sandbox.write);
        write.retain(|path| !self.is_inside(path));
        self.sandbox.write = write;
        self.sandbox.read.push(self.workspace.clone());
        self
    }

    /// Returns the sandbox with what these globs protect in the workspace at present.
    pub(crate) fn resolve(&self, globs: &[String]) -> io::Result<Sandbox> {
        let mut sandbox = self.sandbox.clone();
        if self.is_open {
            // Landlock cannot keep a file from being written in a folder in which files can be created.
            sandbox.keep.retain(|path| !self.is_inside(path));
            return Ok(sandbox);
        }
        if !self.workspace.exists() {
            // Still to be made from its template: nothing in it can be written.
            return Ok(sandbox);
        }
        let protected = Baseline::take(&self.workspace, globs).map_err(io::Error::other)?;
        let named = ProtectedPaths::new(globs).map_err(io::Error::other)?;
        let paths = protected.paths().filter(|path| named.contains(path));
        sandbox.keep.extend(paths.map(|path| self.workspace.join(path)));
        Ok(sandbox)
    }

    fn is_inside(&self, path: &Path) -> bool {
        let real = |path: &Path| path.canonicalize().unwrap_or_else(|_| path.to_owned());
        real(path).starts_with(real(&self.workspace))
    }

    /// Returns a warning of folders in which nothing can be created, or of a writable configuration.
    pub(crate) fn warning(&self, globs: &[String]) -> Option<String> {
        if self.is_open {
            let file = &self.config_file;
            return self.is_inside(file).then(|| {
                format!(
                    "sandbox: the agent can write {}, which lies in the workspace; a change takes effect \
                     only in a new run, and is reported (docs/user/sandbox.md)",
                    file.display()
                )
            });
        }
        let closed = self.resolve(globs).and_then(|sandbox| sandbox.closed_folders()).ok()?;
        let workspace = self.workspace.canonicalize().ok()?;
        let mut inside = closed.iter().filter(|folder| folder.starts_with(&workspace));
        let first = inside.next()?.display();
        let more = inside.count();
        let others = if more == 0 { String::new() } else { format!(" and {more} others") };
        Some(format!(
            "sandbox: the agent cannot create, remove or rename anything directly in {first}{others}, \
             because something protected lies there: `sandbox.workspace = \"open\"` allows it \
             (docs/user/sandbox.md)"
        ))
    }
}

fn sandbox(context: &Context, hide: Vec<PathBuf>) -> Sandbox {
    let config = &context.loaded.config;
    let home = context.vars.get("HOME").map(PathBuf::from);
    let listed = &config.sandbox;
    let read = SYSTEM.map(PathBuf::from).into_iter();
    let read = read.chain(home.filter(|home| home.is_absolute()));
    let read = read.chain([context.loaded.dir().to_owned()]).chain(listed.read.clone());
    let write = DEVICES.map(PathBuf::from).into_iter();
    let write = write.chain([config.run.workspace.clone()]).chain(listed.write.clone());
    let mut keep = vec![context.file.clone()];
    keep.extend(user_file(&context.vars));
    if !config.run.prompt_editable {
        keep.extend(config.run.prompt.clone());
    }
    Sandbox { read: read.collect(), write: write.collect(), keep, hide }
}

/// Returns what no agent in a sandbox sees: the state of all runs.
fn hidden(context: &Context) -> Result<Vec<PathBuf>, CommandError> {
    Ok(vec![context.layout()?.root().to_owned(), states_dir(&context.state_home())])
}

/// Refuses paths that make no sense, whatever the kernel of this machine can do.
pub(crate) fn check_paths(context: &Context) -> Result<(), CommandError> {
    match context.loaded.config.sandbox.mode {
        SandboxMode::Off => Ok(()),
        SandboxMode::Landlock => check(&context.loaded.config, &hidden(context)?),
    }
}

/// Refuses what would be granted nothing: what is not there, and what lies in the state.
fn check(config: &Config, hide: &[PathBuf]) -> Result<(), CommandError> {
    let listed = [("read", &config.sandbox.read), ("write", &config.sandbox.write)];
    for (key, path) in listed.iter().flat_map(|(key, list)| list.iter().map(move |p| (*key, p))) {
        let real = path.canonicalize().map_err(|error| {
            let message = format!("sandbox.{key}: {}: {error}", path.display());
            CommandError::config(message).hinted("create it, or remove it from the list")
        })?;
        not_hidden(&format!("sandbox.{key}"), &real, hide)?;
    }
    let workspace = &config.run.workspace;
    let real = workspace.canonicalize().unwrap_or_else(|_| workspace.clone());
    not_hidden("run.workspace", &real, hide)
}

fn not_hidden(key: &str, path: &Path, hide: &[PathBuf]) -> Result<(), CommandError> {
    let real = |hidden: &PathBuf| hidden.canonicalize().unwrap_or_else(|_| hidden.clone());
    match hide.iter().map(real).find(|hidden| path.starts_with(hidden)) {
        Some(hidden) => Err(CommandError::config(format!(
            "{key}: {} lies in the state directory {}, which no agent in a sandbox can reach",
            path.display(),
            hidden.display()
        ))),
        None => Ok(()),
    }
}

/// What `doctor` says of the kernel and the configuration.
pub(crate) fn report(context: &Context) -> Result<String, String> {
    let kernel = LandlockLevel::from_kernel();
    if context.loaded.config.sandbox.mode == SandboxMode::Off {
        return Ok(match kernel {
            Ok(level) => format!("off; the kernel offers {}", text(level)),
            Err(error) => format!("off; {error}"),
        });
    }
    SandboxPolicy::from_context(context).map_err(|error| error.render(false, None))?;
    kernel.map(|level| format!("on, by {}", text(level))).map_err(|error| error.to_string())
}

fn text(level: LandlockLevel) -> String {
    let signals = if level.confines_signals() { "and signals" } else { "but not signals" };
    format!("Landlock level {}, which confines files {signals}", level.number())
}
