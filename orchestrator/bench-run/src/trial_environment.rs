//! What a trial's processes see: the files of the task, and of this machine what they need.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};
use std::{fs, io};

use ralph_orchestrator_bench::task::{
    EnvironmentSettings, Healthcheck, IsolationKind, Mount as StagedMount, NetworkPolicy,
    StagedEnvironment, Task,
};
use ralph_orchestrator_bench::trial::{Cause, Fault};
use ralph_orchestrator_config::Isolation;
use ralph_orchestrator_supervisor::{
    CaptureLimit, Ending, Grace, Mount, MountAccess, Network, Root, RootUser, Spec, Supervisor,
    Wrapper, find_program,
};

use super::container::Container;
use super::faults::fault;
use super::file_lock::sleep_unless_killed;
use super::job_setup::JobSetup;
use crate::isolation::IsolationRow;

/// What is kept of what a command of a task prints, in bytes.
const OUTPUT: CaptureLimit = CaptureLimit { head: 1 << 20, tail: 1 << 20 };
/// The search path if the environment names none.
const SYSTEM_PATH: &str = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";
/// How long the script `setup.sh` of a step may take.
const SETUP_TIMEOUT: Duration = Duration::from_secs(600);
/// Finds a program in the search path of a container.
const FIND_PROGRAM: &str = r#"command -v "$1" >/dev/null"#;
/// How long that may take.
pub(super) const PROBE_TIMEOUT: Duration = Duration::from_secs(120);
/// Where the logs of agent, verifier and artifacts are.
pub(super) const LOGS: &str = "/logs";
/// Where the verifier's tests come to, once the agent has ended.
pub(super) const TESTS: &str = "/tests";
/// Where a task's own solution is, for the agent that performs it.
pub(super) const SOLUTION: &str = "/solution";
/// The kind of fault of a command of a task that cannot be started.
pub(super) const COMMAND_ERROR: &str = "CommandError";
/// The kind of fault of a container that ended or cannot be started.
const CONTAINER_ERROR: &str = "ContainerError";
/// The home folder if the environment names none.
const HOME: &str = "/root";

/// What an environment is made of.
struct Folders<'a> {
    dir: &'a Path,
    staged: &'a StagedEnvironment,
    home: &'a str,
    path: &'a str,
}

/// The environment of one attempt.
#[derive(Clone)]
pub(super) struct TrialEnvironment {
    pub(super) isolation: Isolation,
    /// The folder of the attempt.
    pub(super) dir: PathBuf,
    /// The work directory on this machine.
    pub(super) workspace: PathBuf,
    /// Environment variables that the task sets.
    pub(super) env: BTreeMap<String, String>,
    /// The home folder, as processes see it.
    pub(super) home: String,
    /// What of this machine is shown beside the system.
    shared: Vec<Mount>,
    /// Where programs are searched on this machine.
    path: String,
    mounts: Vec<Mount>,
    network: Network,
    /// What makes its root, if it is not the shim.
    bubblewrap: Option<PathBuf>,
    /// The container that its processes run in, if it is one.
    container: Option<Arc<Container>>,
    /// Starts the commands of the task.
    supervisor: Supervisor,
}

impl TrialEnvironment {
    /// Returns the environment of a staged task. Its processes come from the fork server of `supervisor`, that of the job,
    /// but from shims of their own: none has run anything of another trial.
    ///
    /// # Errors
    /// A folder cannot be made.
    pub(super) fn create(
        task: &Task,
        staged: &StagedEnvironment,
        dir: &Path,
        job: &JobSetup,
        supervisor: &Supervisor,
    ) -> io::Result<Self> {
        let home = job.vars.get("HOME").filter(|home| home.starts_with('/'));
        let shared = job.shared_mounts();
        let isolation = job.loaded.config.bench.isolation;
        let set = &job.loaded.config.env.set;
        let path = set.get("PATH").or_else(|| job.vars.get("PATH"));
        let folders = Folders {
            dir,
            staged,
            home: home.map_or(HOME, String::as_str),
            path: path.map_or(SYSTEM_PATH, String::as_str),
        };
        let mut environment =
            Self::new(&folders, &task.environment.network, shared, isolation, supervisor)?;
        if IsolationRow::of(isolation).needs_bubblewrap {
            let bwrap = job.find_bubblewrap().map_err(|error| io::Error::other(error.summary()))?;
            environment.bubblewrap = Some(bwrap);
        }
        Ok(environment)
    }

    /// Returns the environment of a container that was made for these files.
    pub(super) fn from_container(
        container: Container,
        staged: &StagedEnvironment,
        dir: &Path,
        isolation: Isolation,
        supervisor: &Supervisor,
    ) -> Self {
        Self {
            isolation,
            dir: dir.to_owned(),
            workspace: staged.host_path(".").unwrap_or_else(|| staged.root.clone()),
            env: staged.env.clone(),
            home: HOME.to_owned(),
            shared: Vec::new(),
            path: container.path().to_owned(),
            mounts: Vec::new(),
            // Its container has the network that it has.
            network: Network::Host,
            bubblewrap: None,
            container: Some(Arc::new(container)),
            supervisor: supervisor.with_own_shims(),
        }
    }

    fn new(
        folders: &Folders<'_>,
        network: &NetworkPolicy,
        shared: Vec<Mount>,
        isolation: Isolation,
        supervisor: &Supervisor,
    ) -> io::Result<Self> {
        let Folders { dir, staged, home, path } = folders;
        let mounts = match IsolationRow::of(isolation).kind {
            // Its processes see the machine as it is.
            IsolationKind::None | IsolationKind::Container => Vec::new(),
            IsolationKind::Namespace => make_mounts(folders, &shared)?,
        };
        Ok(Self {
            isolation,
            dir: dir.to_path_buf(),
            // Where no folder of the task is, as in `/`, the path is that of the environment.
            workspace: staged.host_path(".").unwrap_or_else(|| PathBuf::from(&staged.workdir)),
            env: staged.env.clone(),
            home: (*home).to_owned(),
            shared,
            path: (*path).to_owned(),
            mounts,
            network: network_of(network),
            bubblewrap: None,
            container: None,
            supervisor: supervisor.with_own_shims(),
        })
    }

    /// Returns what starts the processes of a run in this environment; `extra` is mounted for them alone. They hold the
    /// locks of that run, so each run has its own.
    pub(super) fn supervisor_of_run(&self, extra: &[Mount]) -> Supervisor {
        self.with_root(self.supervisor.with_own_shims(), extra)
    }

    fn with_root(&self, supervisor: Supervisor, extra: &[Mount]) -> Supervisor {
        if let Some(container) = &self.container {
            return supervisor.with_wrapper(Arc::clone(container) as Arc<dyn Wrapper>);
        }
        if !self.has_root() {
            return supervisor;
        }
        let mounts = [self.mounts.clone(), extra.to_vec()].concat();
        let mut system = Root::default().system;
        // A folder of the task takes the place of the machine's.
        system.retain(|folder| !mounts.iter().any(|mount| mount.target == *folder));
        let root = Root {
            system,
            mounts,
            // Its temporary folders are the same for agent and verifier.
            tmpfs: Vec::new(),
            network: self.network,
            user: RootUser::Root,
            ..Root::default()
        };
        let supervisor = supervisor.with_root(move || Ok(root.clone()));
        match &self.bubblewrap {
            Some(bwrap) => supervisor.with_bubblewrap(bwrap.clone()),
            None => supervisor,
        }
    }

    /// Returns the environment of a verifier that has one of its own.
    ///
    /// # Errors
    /// A folder cannot be made.
    pub(super) fn for_verifier(
        &self,
        dir: &Path,
        staged: &StagedEnvironment,
        settings: &EnvironmentSettings,
    ) -> io::Result<Self> {
        let folders = Folders { dir, staged, home: &self.home, path: &self.path };
        // What the agent could write to would carry more than artifacts.
        let is_read_only = |mount: &&Mount| mount.access == MountAccess::ReadOnly;
        let shared = self.shared.iter().filter(is_read_only).cloned().collect();
        let environment =
            Self::new(&folders, &settings.network, shared, self.isolation, &self.supervisor)?;
        Ok(Self { bubblewrap: self.bubblewrap.clone(), ..environment })
    }

    /// Whether its processes have a file system of their own.
    pub(super) fn has_root(&self) -> bool {
        IsolationRow::of(self.isolation).has_root()
    }

    /// Returns the container that its processes run in, if it is one.
    pub(super) fn container(&self) -> Option<&Container> {
        self.container.as_deref()
    }

    /// Returns the fault of a container that did not stay as it was made: what its processes did says nothing.
    pub(super) fn find_defect(&self) -> Option<Fault> {
        let defect = self.container()?.find_defect()?;
        Some(fault(Cause::Sandbox, CONTAINER_ERROR, defect))
    }

    /// Removes what no folder of the attempt has. Returns what is still there, for people.
    pub(super) async fn remove(&self) -> Option<String> {
        self.container()?.remove().await.err()
    }

    /// Whether the start of a program that does not exist in it looks like one that failed.
    pub(super) fn hides_missing_programs(&self) -> bool {
        IsolationRow::of(self.isolation).needs_bubblewrap || self.container.is_some()
    }

    /// Whether its processes can start a program that has this path on the machine.
    pub(super) async fn sees(&self, program: &Path) -> bool {
        let Some(container) = self.container() else { return self.shows(program) };
        let program = container.program_inside(program).display().to_string();
        let words = ["sh", "-c", FIND_PROGRAM, "sh", &program].map(str::to_owned);
        let env = BTreeMap::from([("PATH".to_owned(), container.path().to_owned())]);
        // What is wrong with the container itself is the fault of the agent's start.
        self.run(&words, &env, PROBE_TIMEOUT, &[]).await.map_or(true, |end| end.is_success)
    }

    /// Whether its processes can see what has this path on the machine.
    fn shows(&self, path: &Path) -> bool {
        let system = Root::default().system;
        let folders = system.iter().chain(self.mounts.iter().map(|mount| &mount.source));
        let folders: Vec<PathBuf> = folders
            .flat_map(|folder| [Some(folder.clone()), folder.canonicalize().ok()])
            .flatten()
            .collect();
        let is_seen = |path: &Path| folders.iter().any(|folder| path.starts_with(folder));
        is_seen(path) && path.canonicalize().is_ok_and(|real| is_seen(&real))
    }

    /// Returns the same environment with the network that one of its processes asks for, if it asks for another.
    pub(super) fn with_network(&self, policy: Option<&NetworkPolicy>) -> Self {
        let network = policy.map_or(self.network, network_of);
        Self { network, ..self.clone() }
    }

    /// Returns the same environment with another folder as its work directory.
    pub(super) fn with_workspace(&self, folder: &Path) -> Self {
        let moved = |mount: &Mount| {
            let is_work = mount.source == self.workspace;
            let source = if is_work { folder.to_owned() } else { mount.source.clone() };
            Mount { source, ..mount.clone() }
        };
        Self {
            workspace: folder.to_owned(),
            mounts: self.mounts.iter().map(moved).collect(),
            ..self.clone()
        }
    }

    /// Returns the search path of an agent: what the task sets, then the part of the orchestrator's that it sees.
    pub(super) fn agent_path(&self, of_task: Option<&String>) -> String {
        let own = self.visible_path(|_| true);
        if self.container.is_some() {
            return of_task.cloned().unwrap_or(own);
        }
        extend_path(of_task, &own)
    }

    /// Returns the part of it that an agent cannot write to: programs of the verifier come from there.
    fn trusted_path(&self) -> String {
        self.visible_path(|mount| mount.access == MountAccess::ReadOnly)
    }

    fn visible_path(&self, is_taken: impl Fn(&Mount) -> bool) -> String {
        if !self.has_root() || self.container.is_some() {
            return self.path.clone();
        }
        let system = Root::default().system;
        let is_visible = |folder: &&str| {
            let folder = Path::new(folder);
            system.iter().any(|system| folder.starts_with(system))
                || innermost(folder, &self.mounts).is_some_and(&is_taken)
        };
        self.path.split(':').filter(is_visible).collect::<Vec<_>>().join(":")
    }

    /// Returns the path, as the processes see it, of a folder that this environment has at `target`.
    pub(super) fn inside(&self, target: &str, host: &Path) -> PathBuf {
        if self.has_root() { PathBuf::from(target) } else { host.to_owned() }
    }
}

/// How a command of a task ended.
pub(super) struct CommandEnd {
    /// It exited with 0.
    pub(super) is_success: bool,
    /// It was ended because its time was over.
    pub(super) is_timed_out: bool,
    /// Its exit status is that by which shells and `env` report a program that is missing or cannot be executed.
    pub(super) is_missing_program: bool,
    /// How it ended, in words.
    pub(super) status: String,
    /// What it printed.
    pub(super) output: String,
}

impl TrialEnvironment {
    /// Runs a command of the task in the work directory. `extra` is mounted for it alone.
    ///
    /// # Errors
    /// It cannot be started.
    pub(super) async fn run(
        &self,
        words: &[String],
        env: &BTreeMap<String, String>,
        timeout: Duration,
        extra: &[Mount],
    ) -> Result<CommandEnd, Fault> {
        let failed = |message: String| fault(Cause::Sandbox, COMMAND_ERROR, message);
        let (name, args) = words.split_first().ok_or_else(|| {
            fault(Cause::Verifier, COMMAND_ERROR, "no command is known for these tests".to_owned())
        })?;
        let mut all = self.env.clone();
        all.extend(env.clone());
        let program = match self.container() {
            // Programs, and where they are searched, are those of its image.
            Some(container) => {
                if !extra.is_empty() {
                    container.show(extra).map_err(|error| failed(error.to_string()))?;
                }
                PathBuf::from(name)
            }
            None => {
                all.insert("PATH".to_owned(), extend_path(all.get("PATH"), &self.trusted_path()));
                all.entry("HOME".to_owned()).or_insert_with(|| self.home.clone());
                let path = all.get("PATH").cloned().unwrap_or_default();
                find_program(name, &path, &self.workspace)
                    .map_err(|error| failed(error.to_string()))?
            }
        };
        let spec = Spec {
            program,
            args: args.iter().map(Into::into).collect(),
            cwd: self.workspace.clone(),
            env: all,
            stdin: Vec::new(),
            grace: Grace::default(),
        };
        let stop = tokio::time::sleep(timeout);
        let supervisor = self.with_root(self.supervisor.clone(), extra);
        let output = supervisor.output(spec, OUTPUT, stop).await;
        if let Some(fault) = self.find_defect() {
            return Err(fault);
        }
        let output = output.map_err(|error| failed(error.to_string()))?;
        Ok(CommandEnd {
            is_success: output.exit.ending == Ending::Exited(0),
            is_timed_out: output.stopped,
            is_missing_program: matches!(output.exit.ending, Ending::Exited(126 | 127)),
            status: output.exit.ending.to_string(),
            output: [output.stdout.text(), output.stderr.text()].concat(),
        })
    }

    /// Runs the script `setup.sh` that a step put into the work directory.
    ///
    /// # Errors
    /// It fails.
    pub(super) async fn run_setup(&self) -> Result<(), Fault> {
        let words = ["bash", "./setup.sh"].map(str::to_owned);
        let end = self.run(&words, &BTreeMap::new(), SETUP_TIMEOUT, &[]).await?;
        if end.is_success {
            return Ok(());
        }
        let message = format!("setup.sh of the step failed: {}", end.output.trim());
        Err(fault(Cause::Sandbox, "SetupError", message))
    }

    /// Runs a health check until it succeeds.
    ///
    /// # Errors
    /// It fails too often.
    pub(super) async fn wait_until_healthy(&self, check: &Healthcheck) -> Result<(), Fault> {
        let words = ["sh", "-c", &check.command].map(str::to_owned);
        let began = Instant::now();
        let mut failures = 0;
        loop {
            let end = self.run(&words, &BTreeMap::new(), check.timeout, &[]).await?;
            if end.is_success {
                return Ok(());
            }
            let is_starting = began.elapsed() < check.start_period;
            if !is_starting {
                failures += 1;
            }
            if failures >= check.retries.max(1) {
                let message = format!("the health check failed: {}", end.output.trim());
                return Err(fault(Cause::Sandbox, "HealthcheckError", message));
            }
            let pause = if is_starting { check.start_interval } else { check.interval };
            sleep_unless_killed(pause, &self.supervisor).await?;
        }
    }
}

/// Adds the folder of logs to the folders of a task.
///
/// # Errors
/// It cannot be made.
pub(super) fn add_logs(staged: &mut StagedEnvironment, dir: &Path) -> io::Result<()> {
    let folder = dir.join("logs");
    for name in ["agent", "verifier", "artifacts"] {
        fs::create_dir_all(folder.join(name))?;
    }
    staged.mounts.push(StagedMount { path: LOGS.to_owned(), folder });
    Ok(())
}

const fn network_of(policy: &NetworkPolicy) -> Network {
    match policy {
        NetworkPolicy::NoNetwork => Network::None,
        NetworkPolicy::Public | NetworkPolicy::Allowlist(_) => Network::Host,
    }
}

/// Returns the search path that a task sets, and after it what of this machine's is not in it: a task knows where the
/// programs of its image are, not where this machine has them.
fn extend_path(of_task: Option<&String>, own: &str) -> String {
    let Some(of_task) = of_task.filter(|path| !path.is_empty()) else { return own.to_owned() };
    let first: Vec<&str> = of_task.split(':').collect();
    let rest = own.split(':').filter(|folder| !folder.is_empty() && !first.contains(folder));
    first.iter().copied().chain(rest).collect::<Vec<_>>().join(":")
}

/// Returns the mount that a path of the environment lies in.
fn innermost<'a>(path: &Path, mounts: &'a [Mount]) -> Option<&'a Mount> {
    let enclosing = mounts.iter().filter(|mount| path.starts_with(&mount.target));
    enclosing.max_by_key(|mount| mount.target.components().count())
}

/// Makes the folders of an environment, and the places in them where others are mounted. Returns what is mounted where.
///
/// # Errors
/// A folder cannot be made.
fn make_mounts(folders: &Folders<'_>, shared: &[Mount]) -> io::Result<Vec<Mount>> {
    let Folders { dir, staged, home, .. } = folders;
    let mut mounts = Vec::new();
    let access = MountAccess::Writable;
    for (name, target) in [("tmp", "/tmp"), ("var-tmp", "/var/tmp"), ("home", *home)] {
        let source = dir.join("environment").join(name);
        fs::create_dir_all(&source)?;
        make_mount_point(Path::new(target), true, &mounts)?;
        mounts.push(Mount { source, target: target.into(), access });
    }
    for mount in &staged.mounts {
        let (source, target) = (mount.folder.clone(), PathBuf::from(&mount.path));
        // The task's own folder takes the place of an empty one.
        mounts.retain(|other: &Mount| other.target != target);
        make_mount_point(&target, true, &mounts)?;
        mounts.push(Mount { source, target, access });
    }
    for mount in shared {
        make_mount_point(&mount.target, mount.source.is_dir(), &mounts)?;
    }
    mounts.extend(shared.iter().cloned());
    Ok(mounts)
}

/// Makes the place where something is mounted within another mount.
fn make_mount_point(path: &Path, is_dir: bool, mounts: &[Mount]) -> io::Result<()> {
    let within = innermost(path, mounts).and_then(|mount| {
        let rest = path.strip_prefix(&mount.target).ok()?;
        Some(mount.source.join(rest))
    });
    let Some(place) = within.filter(|place| !place.exists()) else { return Ok(()) };
    if is_dir {
        return fs::create_dir_all(place);
    }
    if let Some(parent) = place.parent() {
        fs::create_dir_all(parent)?;
    }
    fs::write(place, "")
}
