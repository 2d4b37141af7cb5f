//! The sandbox of agents: `[sandbox]` of the configuration, and the paths that every sandbox grants or hides.

mod home;

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::path::{Path, PathBuf};

use ralph_orchestrator_config::{SandboxMode, SandboxWorkspace};
use ralph_orchestrator_engine::{find_work_folders, states_dir};
use ralph_orchestrator_safe_fs::{SymlinkPolicy, read_file, real_path};
use ralph_orchestrator_supervisor::{LandlockLevel, Sandbox, find_program};
use ralph_orchestrator_workspace::{Baseline, ProtectedPaths};
use serde_json::{Value, json};

use crate::context::Context;
use crate::error::CommandError;
use crate::schema::agent_defaults;
use crate::serving;
use crate::trust::links::refuse_link;
use crate::user_folders::{cache_home, config_home, user_file};

use home::Home;

/// What every agent may read and execute: the system's own folders, as far as they are there.
const SYSTEM: [&str; 18] = [
    "/bin",
    "/dev",
    "/etc",
    "/gnu",
    "/home/linuxbrew",
    "/lib",
    "/lib32",
    "/lib64",
    "/libx32",
    "/nix",
    "/opt",
    "/proc",
    "/run",
    "/sbin",
    "/snap",
    "/sys",
    "/usr",
    "/var",
];
/// What is closed in it: sockets and files of what users run, such as agents of keys.
const SESSIONS: &str = "/run/user";
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

/// The longest file that names a repository, in bytes.
const LONGEST_POINTER: usize = 64 * 1024;

/// The sandbox of a configuration, but for the globs that its validators protect.
#[derive(Clone)]
pub struct SandboxPolicy {
    workspace: PathBuf,
    /// What lies in the workspace can be written, whatever it is.
    is_open: bool,
    config_file: PathBuf,
    cache_home: PathBuf,
    home: Option<PathBuf>,
    sandbox: Sandbox,
    /// Where its paths led when the run began.
    real_paths: BTreeMap<PathBuf, PathBuf>,
    /// Listed paths that open nothing, since an agent can have made a link of them.
    redirected: Vec<PathBuf>,
}

/// What `[sandbox]` lists.
struct Listed {
    read: Vec<PathBuf>,
    write: Vec<PathBuf>,
    /// What of both leads through a link that an agent can have made.
    redirected: Vec<PathBuf>,
    /// Where agents of this configuration can write.
    places: Sandbox,
}

impl Listed {
    fn new(context: &Context, home: Option<&Home<'_>>) -> Self {
        let config = &context.loaded.config;
        // In the workspace that a worktree is a copy of, another agent works.
        let workspaces = [&config.run.workspace, context.loaded.configured_workspace()];
        let write = workspaces.into_iter().map(real_path);
        let places = Sandbox {
            write: write.chain(config.sandbox.write.iter().cloned()).collect(),
            private: private_folders(home),
            ..Sandbox::default()
        };
        let split = |paths: &[PathBuf]| -> (Vec<PathBuf>, Vec<PathBuf>) {
            paths.iter().cloned().partition(|path| !places.can_redirect(path))
        };
        let (read, mut redirected) = split(&config.sandbox.read);
        let (write, more) = split(&config.sandbox.write);
        redirected.extend(more);
        Self { read, write, redirected, places }
    }
}

impl SandboxPolicy {
    /// Returns the sandbox of the configuration; `None` with `mode = "off"`.
    ///
    /// # Errors
    /// The kernel cannot do it, or a path in it makes no sense.
    pub fn from_context(context: &Context) -> Result<Option<Self>, CommandError> {
        let config = &context.loaded.config;
        if config.sandbox.mode == SandboxMode::Off {
            return Ok(None);
        }
        LandlockLevel::from_kernel().map_err(|error| {
            CommandError::unavailable(format!("`[sandbox] mode = \"landlock\"`: {error}"))
                .hinted("nothing was started; `mode = \"off\"` runs agents without a sandbox")
        })?;
        check(context)?;
        let vars = agent_vars(context);
        let home = Home::new(&vars);
        let listed = Listed::new(context, home.as_ref());
        let sandbox = sandbox(context, home.as_ref(), &listed)?;
        let paths = sandbox.read.iter().chain(&sandbox.write);
        Ok(Some(Self {
            real_paths: paths.map(|path| (path.clone(), real_path(path))).collect(),
            redirected: listed.redirected,
            sandbox,
            home: home.map(|home| home.folder().to_owned()),
            workspace: config.run.workspace.clone(),
            is_open: config.sandbox.workspace == SandboxWorkspace::Open,
            config_file: context.file.clone(),
            cache_home: cache_home(&context.vars),
        }))
    }

    /// Adds files that agents may read and execute.
    pub fn with_readable(mut self, files: impl IntoIterator<Item = PathBuf>) -> Self {
        self.sandbox.read.extend(files);
        self
    }

    /// Takes away the right to write in the workspace, for commands that only report what happens.
    pub fn without_workspace(mut self) -> Self {
        let mut write = std::mem::take(&mut self.sandbox.write);
        write.retain(|path| !self.is_inside(path));
        self.sandbox.write = write;
        self.sandbox.read.push(self.workspace.clone());
        self
    }

    /// Returns the sandbox with what these globs protect in the workspace at present.
    pub fn resolve(&self, globs: &[String]) -> io::Result<Sandbox> {
        let mut sandbox = self.sandbox.clone();
        // An agent of this run can have put a link there since.
        let is_same = |path: &PathBuf| {
            self.real_paths.get(path).is_none_or(|before| *before == real_path(path))
        };
        sandbox.read.retain(is_same);
        sandbox.write.retain(is_same);
        sandbox.ports = serving::ports(&self.cache_home);
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
        real_path(path).starts_with(real_path(&self.workspace))
    }

    /// Returns warnings of a writable configuration, and of folders in which nothing can be created.
    pub fn warnings(&self, globs: &[String]) -> Vec<String> {
        let mut warnings = Vec::new();
        if self.is_open && self.is_inside(&self.config_file) {
            warnings.push(format!(
                "sandbox: the agent can write {}, which lies in the workspace; a change takes effect \
                 only in a new run, and is reported (docs/user/sandbox.md)",
                self.config_file.display()
            ));
        }
        warnings.extend(self.redirected.iter().map(|path| {
            format!(
                "sandbox: {} is not opened: a link leads there from a folder in which an agent can make one; put what \
                 it leads to in the list instead, if you made that link (docs/user/sandbox.md)",
                path.display()
            )
        }));
        let closed = self.resolve(globs).and_then(|sandbox| sandbox.closed_folders());
        let (inside, outside): (Vec<_>, Vec<_>) =
            closed.unwrap_or_default().into_iter().partition(|folder| self.is_inside(folder));
        let advice = if self.is_open {
            "something that is kept from agents lies there"
        } else {
            "something protected lies there: `sandbox.workspace = \"open\"` allows it"
        };
        warnings.extend(closed_warning(&inside, advice));
        warnings.extend(closed_warning(&outside, "something that is kept from agents lies there"));
        warnings
    }

    /// Returns what agents may read and write of the home directory, for people.
    pub fn describe_home(&self) -> String {
        let list = |paths: &[PathBuf]| {
            let names = self.names_in_home(paths).join(", ");
            if names.is_empty() { "nothing".to_owned() } else { names }
        };
        let (read, write) = (list(&self.sandbox.read), list(&self.sandbox.write));
        format!("of the home directory it reads {read}, and writes {write}")
    }

    /// Returns the same for JSON.
    pub fn home_object(&self) -> Value {
        let (read, write) = (&self.sandbox.read, &self.sandbox.write);
        json!({"home": {"read": self.names_in_home(read), "write": self.names_in_home(write)}})
    }

    fn names_in_home(&self, paths: &[PathBuf]) -> Vec<String> {
        let below =
            |path: &PathBuf| path.strip_prefix(self.home.as_ref()?).ok().map(Path::to_owned);
        let names = paths.iter().filter_map(below).map(|path| path.display().to_string());
        Vec::from_iter(names.collect::<BTreeSet<_>>())
    }
}

/// Returns a warning of folders in which nothing can be created, and why.
fn closed_warning(folders: &[PathBuf], why: &str) -> Option<String> {
    let (first, more) = folders.split_first()?;
    let others = match more {
        [] => String::new(),
        [_] => " and one other folder".to_owned(),
        more => format!(" and {} other folders", more.len()),
    };
    Some(format!(
        "sandbox: the agent cannot create, remove or rename anything directly in {}{others}, because {why} \
         (docs/user/sandbox.md)",
        first.display()
    ))
}

fn sandbox(
    context: &Context,
    home: Option<&Home<'_>>,
    listed: &Listed,
) -> Result<Sandbox, CommandError> {
    let config = &context.loaded.config;
    let mut hide = hidden(context, home)?;
    let mut keep = vec![context.file.clone()];
    let read: Vec<PathBuf> = SYSTEM.map(PathBuf::from).into();
    if let Some(home) = home {
        hide.extend(home.closed(&[&listed.read[..], &listed.write].concat()));
        keep.extend(home.own(".cache"));
    }
    keep.extend(Some(user_file(&context.vars)).filter(|file| file.exists()));
    if !config.run.prompt_editable {
        keep.extend(config.run.prompt.clone());
    }
    let write = DEVICES.map(PathBuf::from).into_iter().chain([real_path(&config.run.workspace)]);
    let write = write.chain(listed.write.clone()).collect();
    let private = private_folders(home);
    let mut sandbox = Sandbox { read, write, keep, hide, private, ports: BTreeSet::new() };
    let is_private =
        |folder: &PathBuf| sandbox.private.iter().any(|own| real_path(own) == real_path(folder));
    let folders = repositories(&config.run.workspace).into_iter();
    let folders =
        folders.chain([context.loaded.dir().to_owned()]).filter(|folder| !is_private(folder));
    // Agents start this program as the server of the orchestrator's own tools.
    let own_program = std::env::current_exe().ok();
    let files = config.run.prompt.iter().cloned().chain(own_program).chain([context.file.clone()]);
    sandbox.read.extend(folders.chain(files));
    // An agent that can put a link there must not open by it what it likes.
    let is_safe = |path: &PathBuf| !sandbox.can_replace(path) && !listed.places.can_redirect(path);
    let of_home = home.map(Home::open).into_iter().flatten();
    let named = of_home.chain(named_files(context)).filter(is_safe).collect::<Vec<_>>();
    let read: Vec<PathBuf> = sandbox.read.iter().filter(|path| is_safe(path)).cloned().collect();
    verify_links(context, named.iter().chain(&listed.read).chain(&listed.write))?;
    sandbox.read = [read, named, listed.read.clone()].concat();
    Ok(sandbox)
}

/// Refuses paths that lead over a link which agents of another run could have made: what they are kept from would be
/// opened to the agents of this one.
fn verify_links<'a>(
    context: &Context,
    paths: impl Iterator<Item = &'a PathBuf>,
) -> Result<(), CommandError> {
    let store = context.trust_store();
    for path in paths {
        store.follow_links(path)?.map_err(|stopping| refuse_link(&stopping))?;
    }
    programs_in_path(context).try_for_each(|program| match store.follow_links(&program)? {
        Ok(_) => Ok(()),
        Err(stopping) => Err(refuse_link(&stopping)),
    })
}

/// Returns the folders that a listed folder above them does not open.
fn private_folders(home: Option<&Home<'_>>) -> Vec<PathBuf> {
    let of_home = home.map(Home::private).unwrap_or_default();
    std::iter::once(PathBuf::from(SESSIONS)).chain(of_home).collect()
}

/// Returns the variables of the agent, as far as they say where its folders are.
fn agent_vars(context: &Context) -> BTreeMap<String, String> {
    let set = &context.loaded.config.env.set;
    let all = context.vars.iter().chain(set);
    all.map(|(name, value)| (name.clone(), value.clone())).collect()
}

/// Returns the files that the tables of agents name: programs, scripts, settings.
fn named_files(context: &Context) -> Vec<PathBuf> {
    let config = &context.loaded.config;
    let mut files = Vec::new();
    for agent in std::iter::once(&config.agent).chain(config.agents.values()) {
        files.extend(agent.inputs.iter().map(|path| context.loaded.agent_dir().join(path)));
        let mut values = vec![&agent.config];
        while let Some(value) = values.pop() {
            match value {
                Value::String(text) => files.push(context.loaded.dir().join(text)),
                Value::Array(list) => values.extend(list),
                Value::Object(table) => values.extend(table.values()),
                _ => {}
            }
        }
    }
    files.retain(|file| file.is_file());
    files
}

/// Returns the programs of agents that are found in `PATH`.
fn programs_in_path(context: &Context) -> impl Iterator<Item = PathBuf> {
    let config = &context.loaded.config;
    let path = context.vars.get("PATH").map(String::as_str).unwrap_or_default();
    let programs = std::iter::once(&config.agent).chain(config.agents.values()).map(|agent| {
        let default = || {
            let mut defaults = agent_defaults(&context.compiled_in, &agent.adapter).into_iter();
            defaults.find(|(key, _)| key == "program").map(|(_, value)| value)
        };
        agent.config.get("program").cloned().or_else(default).unwrap_or_default()
    });
    programs.filter_map(move |program| {
        let name = program.get(0).unwrap_or(&program).as_str()?.to_owned();
        let is_bare = !name.contains('/');
        find_program(&name, path, context.loaded.dir()).ok().filter(|_| is_bare)
    })
}

/// Returns the repositories that the workspace is part of, and that of a worktree of git.
fn repositories(workspace: &Path) -> Vec<PathBuf> {
    let Ok(workspace) = workspace.canonicalize() else { return Vec::new() };
    let mut found = Vec::new();
    for top in workspace.ancestors().filter(|folder| folder.join(".git").exists()) {
        found.push(top.to_owned());
        found.extend(repository_of_worktree(top));
    }
    found
}

/// Returns the folder of the repository that a worktree belongs to, if that knows of it: what an agent writes into `.git`
/// opens nothing.
fn repository_of_worktree(top: &Path) -> Option<PathBuf> {
    let link = top.join(".git");
    let text = read_pointer(&link)?;
    let folder = Path::new(text.strip_prefix("gitdir:")?.trim()).canonicalize().ok()?;
    let back = read_pointer(&folder.join("gitdir"))?;
    let worktrees = folder.parent().filter(|worktrees| worktrees.ends_with("worktrees"))?;
    let knows_it = Path::new(back.trim()).canonicalize().is_ok_and(|back| back == link);
    worktrees.parent().filter(|_| knows_it).map(Path::to_owned)
}

/// Reads a file that holds a path; nothing else that an agent can have put in its place.
fn read_pointer(file: &Path) -> Option<String> {
    String::from_utf8(read_file(file, LONGEST_POINTER, SymlinkPolicy::Follow).ok()?).ok()
}

/// Returns what no agent in a sandbox sees: the state of all runs, and the orchestrator's own settings and keys.
fn hidden(context: &Context, home: Option<&Home<'_>>) -> Result<Vec<PathBuf>, CommandError> {
    let mut hidden = vec![context.layout()?.root().to_owned(), states_dir(&context.state_home())];
    hidden.push(config_home(&context.vars).join(home::OWN));
    hidden.extend(
        home.into_iter().flat_map(|home| home.own(home::STATES.0).chain(home.own(".config"))),
    );
    Ok(hidden)
}

/// Refuses paths that make no sense, whatever the kernel of this machine can do.
pub fn check_paths(context: &Context) -> Result<(), CommandError> {
    match context.loaded.config.sandbox.mode {
        SandboxMode::Off => Ok(()),
        SandboxMode::Landlock => check(context),
    }
}

/// Refuses what would be granted nothing: what is not there, and what is hidden. Refuses a workspace that has the home
/// directory in it as well.
fn check(context: &Context) -> Result<(), CommandError> {
    let (config, vars) = (&context.loaded.config, agent_vars(context));
    let home = Home::new(&vars);
    let hide = hidden(context, home.as_ref())?;
    // What an agent can have made a link of opens nothing, wherever it leads.
    let Listed { read, write, .. } = Listed::new(context, home.as_ref());
    let listed = [("read", &read), ("write", &write)];
    for (key, path) in listed.iter().flat_map(|(key, list)| list.iter().map(move |p| (*key, p))) {
        let real = path.canonicalize().map_err(|error| {
            let message = format!("sandbox.{key}: {}: {error}", path.display());
            CommandError::config(message).hinted("create it, or remove it from the list")
        })?;
        not_hidden(&format!("sandbox.{key}"), &real, &hide)?;
    }
    let workspace = real_path(&config.run.workspace);
    not_hidden("run.workspace", &workspace, &hide)?;
    verify_state_dir(context)?;
    let Some(home) = home.map(|home| real_path(home.folder())) else { return Ok(()) };
    let is_listed = write.iter().any(|path| home.starts_with(real_path(path)));
    if home.starts_with(&workspace) && !is_listed {
        let message = format!(
            "run.workspace: the home directory {} lies in {}, and a sandbox closes it",
            home.display(),
            workspace.display()
        );
        return Err(CommandError::config(message).hinted(
            "use a folder in it as the workspace, or list the home directory in `sandbox.write`, which opens all of it",
        ));
    }
    Ok(())
}

/// Refuses a state directory that agents of other runs can write, whose sandbox does not close it.
fn verify_state_dir(context: &Context) -> Result<(), CommandError> {
    let Some(dir) = &context.loaded.config.state.dir else { return Ok(()) };
    let own = find_work_folders(&context.loaded);
    let store = context.trust_store();
    let Some(place) = store.known_folders_around(dir).find(|place| !own.contains(place)) else {
        return Ok(());
    };
    let (dir, place) = (dir.display(), place.display());
    let message =
        format!("state.dir: {dir} lies in {place}, where agents of another run have worked");
    Err(CommandError::config(message).hinted("name a folder where no agent works"))
}

fn not_hidden(key: &str, path: &Path, hide: &[PathBuf]) -> Result<(), CommandError> {
    match hide.iter().map(|hidden| real_path(hidden)).find(|hidden| path.starts_with(hidden)) {
        Some(hidden) => Err(CommandError::config(format!(
            "{key}: {} lies in {}, a state directory or the folder of the orchestrator's own settings and keys, which \
             no agent in a sandbox can reach",
            path.display(),
            hidden.display()
        ))),
        None => Ok(()),
    }
}

/// What `doctor` says of the kernel and the configuration.
pub fn report(context: &Context) -> Result<String, String> {
    let kernel = LandlockLevel::from_kernel();
    if context.loaded.config.sandbox.mode == SandboxMode::Off {
        return Ok(match kernel {
            Ok(level) => format!("off; the kernel offers {}", text(level)),
            Err(error) => format!("off; {error}"),
        });
    }
    let policy = SandboxPolicy::from_context(context).map_err(|error| error.render(false, None))?;
    let home = policy.map(|policy| format!("; {}", policy.describe_home())).unwrap_or_default();
    kernel.map(|level| format!("on, by {}{home}", text(level))).map_err(|error| error.to_string())
}

fn text(level: LandlockLevel) -> String {
    let signals = if level.confines_signals() { "and signals" } else { "but not signals" };
    format!("Landlock level {}, which confines files {signals}", level.number())
}
