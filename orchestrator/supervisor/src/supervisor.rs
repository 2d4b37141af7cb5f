//! Starting process trees.

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::future::pending;
use std::os::fd::{AsFd as _, OwnedFd};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};
use std::time::Duration;
use std::{fmt, io};

use rustix::fs::{Mode, OFlags};
use rustix::pipe::{PipeFlags, pipe_with};
use rustix::process::Signal;
use tokio::io::AsyncWriteExt as _;
use tokio::net::unix::pipe::{Receiver, Sender};
use tokio::sync::mpsc;
use tokio::time::error::Elapsed;
use tokio::time::{Instant, sleep, timeout};
use tracing::debug;

use crate::adoption::Adoption;
use crate::capture::CaptureLimit;
use crate::control::Control;
use crate::error::SpawnError;
use crate::exit::Ending;
use crate::fork_server::{ForkServer, IdleShim, IdleShims};
use crate::input::Input;
use crate::kill_switch::KillSwitch;
use crate::orphans::{end_tree, marks};
use crate::process::{Process, ShimReturn, Tree};
use crate::procfs;
use crate::root::make::MakeRoot;
use crate::root::plan::RootPlan;
use crate::root::{Root, RootError};
use crate::ruleset::ruleset;
use crate::sandbox::{self, Sandbox};
use crate::shim::FIRST_ARGUMENT;
use crate::spec::Spec;
use crate::streams::Streams;
use crate::view::plan::ViewPlan;
use crate::view::probe::Probe;
use crate::view::{View, ViewError};
use crate::wire::{FileSystem, Job, Report};
use crate::wrapper::{Lease, Wrapper};

/// How long a shim may take until its leader runs. It is a matter of milliseconds, unless the program
/// comes from a file system that has gone.
const START: Duration = Duration::from_secs(30);

/// Between two checks of whether a shim that has not reported yet is stopped.
const WAKE_INTERVAL: Duration = Duration::from_millis(100);

/// How long a killed process may take from closing its files to its end.
const DYING: Duration = Duration::from_millis(50);

/// Starts process trees, each under a shim of its own. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Supervisor {
    fork_server: Arc<ForkServer>,
    idle: Arc<IdleShims>,
    /// Shared by all clones, and set at most once.
    guard: Arc<OnceLock<Arc<File>>>,
    pub(crate) switch: Option<KillSwitch>,
    sandbox: Option<MakeSandbox>,
    root: Option<MakeRoot>,
    /// The program `bwrap`, if that makes the roots.
    bubblewrap: Option<PathBuf>,
    view: Option<Arc<View>>,
    /// What each view has read-only.
    sealed: Arc<[PathBuf]>,
    wrapper: Option<Arc<dyn Wrapper>>,
}

/// Creates the sandbox of a process that is about to start.
#[derive(Clone)]
struct MakeSandbox(Arc<dyn Fn() -> io::Result<Sandbox> + Send + Sync>);

impl fmt::Debug for MakeSandbox {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("MakeSandbox")
    }
}

impl Supervisor {
    /// Returns whether all trees were killed at once, so that what is started now is killed, too.
    #[must_use]
    pub fn is_killed(&self) -> bool {
        self.switch.as_ref().is_some_and(KillSwitch::is_pulled)
    }

    /// Creates a supervisor whose fork server is another program, which is started with these arguments.
    #[must_use]
    pub fn new(program: PathBuf, args: Vec<OsString>) -> Self {
        Self::with(Arc::new(ForkServer::new(program, None, args)), Arc::default())
    }

    /// Creates a supervisor whose fork server is the running program, even if its file was replaced. Its
    /// `main` must call [`shim::intercept`](crate::shim::intercept) first. All these supervisors share one
    /// fork server, and its idle shims.
    #[must_use]
    pub fn this_binary() -> Self {
        static SHARED: OnceLock<(Arc<ForkServer>, Arc<IdleShims>)> = OnceLock::new();
        let (fork_server, idle) = SHARED.get_or_init(|| {
            let name = std::env::args_os().next();
            let program = "/proc/self/exe".into();
            let server = ForkServer::new(program, name, vec![FIRST_ARGUMENT.into()]);
            (Arc::new(server), Arc::default())
        });
        Self::with(Arc::clone(fork_server), Arc::clone(idle))
    }

    /// Creates a supervisor with the same fork server and kill switch, but with shims of its own and without a guard: one
    /// of its shims never runs a job of another supervisor, and its idle shims end with its last clone and its last
    /// process.
    #[must_use]
    pub fn with_own_shims(&self) -> Self {
        let fresh = Self::with(Arc::clone(&self.fork_server), Arc::default());
        Self { switch: self.switch.clone(), ..fresh }
    }

    fn with(fork_server: Arc<ForkServer>, idle: Arc<IdleShims>) -> Self {
        Self {
            fork_server,
            idle,
            guard: Arc::default(),
            switch: None,
            sandbox: None,
            root: None,
            bubblewrap: None,
            view: None,
            sealed: Arc::default(),
            wrapper: None,
        }
    }

    /// Starts the fork server and, with a guard, a first shim ahead of time. Failures are reported by the first spawn.
    pub fn prepare(&self) {
        if self.guard.get().is_none() {
            return self.fork_server.start();
        }
        // Its shim holds the guard.
        if let Ok((ours, theirs)) = UnixStream::pair()
            && self.fork_server.fork(&theirs.into(), self.guard.get().map(Arc::as_ref)).is_ok()
        {
            let guard = self.guard.get().cloned();
            self.idle.recycle(IdleShim { control: ours, guard, keepers: None });
        }
    }

    /// Makes each shim hold this file open until its tree is gone: a `flock` on it then tells a later
    /// orchestrator that a tree of an earlier one still exists. Unlocking the file explicitly unlocks it for
    /// the shims, too; closing it does not.
    #[must_use]
    pub fn with_guard(mut self, guard: Arc<File>) -> Self {
        self.guard = Arc::new(guard.into());
        self
    }

    /// Does the same for this supervisor and all its clones, from now on. A guard that is set already
    /// stays.
    pub fn set_guard(&self, guard: Arc<File>) {
        drop(self.guard.set(guard));
    }

    /// Connects a kill switch to all trees.
    #[must_use]
    pub fn with_kill_switch(mut self, switch: KillSwitch) -> Self {
        self.switch = Some(switch);
        self
    }

    /// Confines all trees. `sandbox` is called at each start, on a thread that may block; if it fails, nothing
    /// is started.
    #[must_use]
    pub fn with_sandbox(
        mut self,
        sandbox: impl Fn() -> io::Result<Sandbox> + Send + Sync + 'static,
    ) -> Self {
        self.sandbox = Some(MakeSandbox(Arc::new(sandbox)));
        self
    }

    /// Gives each tree a root of its own, in which it sees nothing of the host but what the root lists. `root` is
    /// called at each start, on a thread that may block; if it fails, nothing is started. Cannot be combined
    /// with [`with_sandbox`](Self::with_sandbox).
    ///
    /// [`Spec::cwd`], [`Spec::program`] and the folder in the variable `TMPDIR` may be paths in the root, or paths
    /// of the host at or beneath the source of a mount: see [`Root::path_inside`]. Arguments and other
    /// variables are passed as they are.
    #[must_use]
    pub fn with_root(
        mut self,
        root: impl Fn() -> io::Result<Root> + Send + Sync + 'static,
    ) -> Self {
        self.root = Some(MakeRoot(Arc::new(root)));
        self
    }

    /// Has `bwrap`, the program of bubblewrap, make the roots instead of the shim. A folder or program that does not exist
    /// in a root is then reported by `bwrap` on standard error, with exit status 1.
    #[must_use]
    pub fn with_bubblewrap(mut self, program: PathBuf) -> Self {
        self.bubblewrap = Some(program);
        self
    }

    /// Gives each tree a view: the host's file system with other contents at some places. [`Spec::cwd`], which must be
    /// absolute, and [`Spec::program`] are paths in it, and a sandbox holds for what is seen there. Cannot be combined
    /// with [`with_root`](Self::with_root) and [`with_wrapper`](Self::with_wrapper).
    #[must_use]
    pub fn with_view(mut self, view: View) -> Self {
        let is_around =
            |path: &PathBuf| view.overlays.iter().any(|overlay| overlay.target.starts_with(path));
        let sealed: Vec<PathBuf> =
            self.sealed.iter().filter(|path| !is_around(path)).cloned().collect();
        self.view = Some(Arc::new(view.with_read_only(sealed)));
        self
    }

    /// Has each view that is given from now on show these folders read-only, see [`View::with_read_only`], but for those in which
    /// one of its overlays lies.
    #[must_use]
    pub fn with_sealed(mut self, paths: impl Into<Arc<[PathBuf]>>) -> Self {
        self.sealed = paths.into();
        self
    }

    /// Has `wrapper` start each process elsewhere. What is supervised is the program that it starts on this machine.
    #[must_use]
    pub fn with_wrapper(mut self, wrapper: Arc<dyn Wrapper>) -> Self {
        self.wrapper = Some(wrapper);
        self
    }

    /// Whether each tree gets a root of its own.
    #[must_use]
    pub const fn has_root(&self) -> bool {
        self.root.is_some()
    }

    /// Checks that processes can have a root of their own here, by starting one in it that does nothing.
    ///
    /// # Errors
    /// The step that failed, and what to do: see [`RootError::SetUp`].
    pub async fn check_root_support(&self) -> Result<(), SpawnError> {
        let probe = Self { sandbox: None, ..self.clone() }.with_root(|| Ok(Root::default()));
        let spec = Spec {
            program: "/bin/sh".into(),
            args: vec!["-c".into(), ":".into()],
            cwd: "/".into(),
            ..Spec::default()
        };
        let program = spec.program.clone();
        let ended = probe.output(spec, CaptureLimit::default(), pending()).await?;
        if ended.exit.ending == Ending::Exited(0) {
            return Ok(());
        }
        // What `bwrap` cannot make, it says itself.
        let message = ended.stderr.text();
        let reason = RootError::Resolve(io::Error::other(message.trim().to_owned()));
        Err(SpawnError::Root { program, reason })
    }

    /// Checks that processes can have a view here with an overlay over `folder`, whose layers lie in `storage`, by starting
    /// one that uses it. `folder` itself is not changed.
    ///
    /// # Errors
    /// What cannot be done, and what to do: see [`ViewError::is_unsupported`].
    pub async fn check_view_support(
        &self,
        storage: &Path,
        folder: &Path,
    ) -> Result<(), SpawnError> {
        let (storage, folder) = (storage.to_owned(), folder.to_owned());
        let made = tokio::task::spawn_blocking(move || Probe::new(&storage, &folder));
        let failed = |reason| SpawnError::View { program: "/bin/sh".into(), reason };
        let probe = made
            .await
            .map_err(|e| SpawnError::Other { program: "/bin/sh".into(), source: e.into() })?
            .map_err(failed)?;
        let supervisor = Self { sandbox: None, ..self.clone() }.with_view(probe.view());
        let ended = supervisor.output(probe.spec(), CaptureLimit::default(), pending()).await?;
        if ended.exit.ending == Ending::Exited(0) {
            return Ok(());
        }
        Err(failed(probe.failure(&ended.stderr.text())))
    }

    /// Starts a process, in a session of its own, and returns when it runs. When the future is
    /// dropped, whatever it has started is ended.
    ///
    /// # Errors
    /// When the process cannot be started: see [`SpawnError`].
    pub async fn spawn(&self, spec: Spec) -> Result<Process, SpawnError> {
        let stdin = if spec.stdin.is_empty() { Stdin::Null } else { Stdin::Fixed };
        self.begin(spec, stdin).await
    }

    /// The same, with a standard input that stays open after [`Spec::stdin`] until the [`Input`] is
    /// dropped.
    ///
    /// # Errors
    /// As [`spawn`](Self::spawn).
    pub async fn spawn_with_input(&self, spec: Spec) -> Result<(Process, Input), SpawnError> {
        let (input, more) = Input::new();
        let process = self.begin(spec, Stdin::Open(more)).await?;
        Ok((process, input))
    }

    async fn begin(&self, spec: Spec, stdin: Stdin) -> Result<Process, SpawnError> {
        let Some(wrapper) = &self.wrapper else {
            return self.begin_here(spec, stdin, Lease::default()).await;
        };
        let program = spec.program.clone();
        let wrapped = wrapper.wrap(spec).await;
        let spec = wrapped.map_err(|reason| SpawnError::Wrapper { program, reason })?;
        // If it does not start, dropping the lease releases it.
        self.begin_here(spec, stdin, Lease::new(Arc::clone(wrapper))).await
    }

    async fn begin_here(
        &self,
        mut spec: Spec,
        stdin: Stdin,
        lease: Lease,
    ) -> Result<Process, SpawnError> {
        spec.program = spec.cwd.join(&spec.program);
        let file_system = self.plan_file_system(&mut spec).await?;
        if file_system.is_none() {
            check_cwd(&spec)?;
        }
        let job = Job::encode(&spec, file_system.as_ref())
            .ok_or_else(|| SpawnError::Nul { program: spec.program.clone() })?;
        let ruleset = match file_system {
            Some(_) => None,
            None => self.ruleset(&spec).await?,
        };
        let since = procfs::now();
        let (pipes, given) = pipes(&stdin).map_err(|e| self.no_shim(&spec, &e))?;
        let (mut control, report) = self
            .send_job(&job, &given, ruleset.as_ref(), since)
            .await
            .map_err(|e| self.no_shim(&spec, &e))?;
        // Whoever holds them keeps them open.
        drop((given, ruleset));
        let leader = match report {
            Ok(Some(Report::Started { pid, shim })) => {
                control.set_shim(shim);
                pid
            }
            Ok(Some(
                failure @ (Report::SpawnFailed { .. }
                | Report::ProgramFailed { .. }
                | Report::SandboxFailed { .. }
                | Report::SetUpFailed { .. }),
            )) => {
                self.shim_return().recycle(&mut control);
                return Err(start_error(failure, file_system.as_ref(), &spec));
            }
            Ok(Some(Report::Broken { reason })) => return Err(self.bad_shim(&spec, reason)),
            Ok(_) => {
                end_unreported(&control, since).await;
                let reason = "it exited before reporting";
                return Err(self.bad_shim(&spec, reason.to_owned()));
            }
            Err(_) => {
                self.fork_server.signal_stopped(Signal::KILL);
                end_unreported(&control, since).await;
                let reason = format!("it did not start the program within {} s", START.as_secs());
                return Err(self.bad_shim(&spec, reason));
            }
        };
        debug!(pid = leader, program = %spec.program.display(), "process started");
        let more = if let Stdin::Open(more) = stdin { Some(more) } else { None };
        let marks = marks(&spec.env);
        let stdin = pipes.stdin.map(|pipe| tokio::spawn(feed(pipe, spec.stdin, more)));
        let process = Process::new(
            Tree { leader, marks, grace: spec.grace, since },
            control,
            self.shim_return(),
            pipes.streams,
            stdin,
        );
        Ok(process.with_lease(lease))
    }

    fn shim_return(&self) -> ShimReturn {
        ShimReturn { idle: Arc::clone(&self.idle), guard: self.guard.get().cloned() }
    }

    /// Plans the file system of the process, if the shim makes one. Translates the paths of `spec` to those in a root.
    async fn plan_file_system(&self, spec: &mut Spec) -> Result<Option<FileSystem>, SpawnError> {
        match (&self.root, &self.view) {
            (None, None) => Ok(None),
            (Some(make), None) => {
                Ok(self.plan_root(make.clone(), spec).await?.map(FileSystem::Root))
            }
            (None, Some(view)) => {
                Ok(Some(FileSystem::View(self.plan_view(Arc::clone(view), spec).await?)))
            }
            (Some(_), Some(_)) => {
                Err(no_view(spec, ViewError::Combined { with: "a root of its own" }))
            }
        }
    }

    /// Plans the root of the process; returns nothing if `bwrap` makes it.
    async fn plan_root(
        &self,
        make: MakeRoot,
        spec: &mut Spec,
    ) -> Result<Option<RootPlan>, SpawnError> {
        if self.sandbox.is_some() {
            return Err(no_root(spec, RootError::WithSandbox));
        }
        let mut planned = spec.clone();
        let bubblewrap = self.bubblewrap.clone();
        let plan = tokio::task::spawn_blocking(move || {
            let plan = match bubblewrap {
                Some(bwrap) => make.wrap(&bwrap, &mut planned).map(|()| None)?,
                None => Some(make.plan(&mut planned)?),
            };
            Ok((plan, planned))
        });
        let plan = plan.await.map_err(|e| RootError::Resolve(io::Error::other(e))).flatten();
        let (plan, planned) = plan.map_err(|reason| no_root(spec, reason))?;
        *spec = planned;
        Ok(plan)
    }

    async fn plan_view(&self, view: Arc<View>, spec: &Spec) -> Result<ViewPlan, SpawnError> {
        if self.wrapper.is_some() {
            return Err(no_view(spec, ViewError::Combined { with: "a wrapper" }));
        }
        if !spec.cwd.is_absolute() {
            return Err(no_view(spec, ViewError::BadPath { path: spec.cwd.clone() }));
        }
        let (make, spec) = (self.sandbox.clone(), spec.clone());
        let program = spec.program.clone();
        let planned = tokio::task::spawn_blocking(move || {
            let sandbox = make.map(|MakeSandbox(make)| make()).transpose();
            let sandbox = sandbox.map_err(|error| no_sandbox(&spec, error.to_string()))?;
            ViewPlan::new(&view, sandbox).map_err(|reason| no_view(&spec, reason))
        });
        let failed = |source| SpawnError::Other { program, source: io::Error::other(source) };
        planned.await.map_err(failed).flatten()
    }

    /// What confines the process, if anything does.
    async fn ruleset(&self, spec: &Spec) -> Result<Option<OwnedFd>, SpawnError> {
        let Some(MakeSandbox(make)) = self.sandbox.clone() else { return Ok(None) };
        let (program, tmp) = (spec.program.clone(), spec.env.get("TMPDIR").cloned());
        let made = tokio::task::spawn_blocking(move || {
            ruleset(&sandbox::for_process(make()?, &program, tmp.as_deref()))
        });
        let made = made.await.map_err(io::Error::other).flatten();
        made.map(Some).map_err(|error| no_sandbox(spec, error.to_string()))
    }

    /// Sends the job to an idle shim or a new one. Returns its first report: `None` if it is gone, an error
    /// on timeout.
    async fn send_job(
        &self,
        job: &[u8],
        streams: &[OwnedFd; 3],
        ruleset: Option<&OwnedFd>,
        since: u64,
    ) -> io::Result<(Control, Result<Option<Report>, Elapsed>)> {
        let streams = streams.each_ref().map(OwnedFd::as_fd);
        let ruleset = ruleset.map(OwnedFd::as_fd);
        let switch = self.switch.as_ref();
        if let Some(idle) = self.idle.take(self.guard.get()) {
            let mut control = Control::over_idle(idle)?;
            control.begin(job, streams, ruleset, switch).await?;
            let report = self.first_report(&mut control).await;
            // One that was killed while it waited has not done it; one that was killed now has taken
            // its leader with it.
            if !matches!(report, Ok(None)) {
                return Ok((control, report));
            }
            end_unreported(&control, since).await;
        }
        let (mut control, theirs) = Control::new()?;
        self.fork_server.fork(&theirs, self.guard.get().map(Arc::as_ref))?;
        drop(theirs);
        control.begin(job, streams, ruleset, switch).await?;
        let report = self.first_report(&mut control).await;
        Ok((control, report))
    }

    /// Waits for the first report, `START` at most. The program that a shim starts, or another that runs already, may stop
    /// it before.
    async fn first_report(&self, control: &mut Control) -> Result<Option<Report>, Elapsed> {
        let until = Instant::now() + START;
        loop {
            let report = timeout(WAKE_INTERVAL, control.next()).await;
            if report.is_ok() || Instant::now() >= until {
                return report;
            }
            match control.keepers() {
                Some(keepers) => keepers.wake(),
                None => self.fork_server.signal_stopped(Signal::CONT),
            }
        }
    }

    /// The shim could not be started; most causes would keep the program from it as well.
    fn no_shim(&self, spec: &Spec, e: &io::Error) -> SpawnError {
        SpawnError::of_anything(e, spec).unwrap_or_else(|| self.bad_shim(spec, e.to_string()))
    }

    fn bad_shim(&self, spec: &Spec, reason: String) -> SpawnError {
        let shim = self.fork_server.program().to_owned();
        SpawnError::Shim { program: spec.program.clone(), shim, reason }
    }
}

/// Ends what a leader has left whose shim was killed or stopped before it could report the start.
async fn end_unreported(control: &Control, since: u64) {
    match control.keepers() {
        Some(keepers) => keepers.end_stopped(),
        // A shim that is not known yet closes its socket shortly before its children have another parent.
        None => sleep(DYING).await,
    }
    let adoption = Adoption::new(control.keepers(), since);
    // It scans all processes, repeatedly.
    drop(tokio::task::spawn_blocking(move || end_tree(None, &[], &adoption)).await);
}

/// Our ends of a process's standard streams.
struct Pipes {
    stdin: Option<Sender>,
    streams: Streams,
}

/// New streams, and the process's ends of them.
fn pipes(stdin: &Stdin) -> io::Result<(Pipes, [OwnedFd; 3])> {
    let (stdin, writer) = if matches!(stdin, Stdin::Null) {
        let null = rustix::fs::open("/dev/null", OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty());
        (null?, None)
    } else {
        let (reader, writer) = pipe_with(PipeFlags::CLOEXEC)?;
        (reader, Some(Sender::from_owned_fd(writer)?))
    };
    let (from_stdout, stdout) = pipe_with(PipeFlags::CLOEXEC)?;
    let (from_stderr, stderr) = pipe_with(PipeFlags::CLOEXEC)?;
    let from_stdout = Receiver::from_owned_fd(from_stdout)?;
    let from_stderr = Receiver::from_owned_fd(from_stderr)?;
    let streams = Streams::new(from_stdout, from_stderr);
    Ok((Pipes { stdin: writer, streams }, [stdin, stdout, stderr]))
}

fn no_root(spec: &Spec, reason: RootError) -> SpawnError {
    SpawnError::Root { program: spec.program.clone(), reason }
}

fn no_view(spec: &Spec, reason: ViewError) -> SpawnError {
    SpawnError::View { program: spec.program.clone(), reason }
}

fn no_sandbox(spec: &Spec, reason: String) -> SpawnError {
    SpawnError::Sandbox { program: spec.program.clone(), reason }
}

/// Returns the error that a shim reports which has started nothing.
fn start_error(report: Report, file_system: Option<&FileSystem>, spec: &Spec) -> SpawnError {
    match (report, file_system) {
        (Report::ProgramFailed { fault, errno }, _) => SpawnError::from_file(fault, errno, spec),
        (Report::SandboxFailed { reason }, _) => no_sandbox(spec, reason),
        (Report::SetUpFailed { step, subject, errno }, Some(FileSystem::View(_))) => {
            no_view(spec, ViewError::set_up(step, subject, errno))
        }
        (Report::SetUpFailed { step, subject, errno }, _) => {
            no_root(spec, RootError::set_up(step, subject, errno))
        }
        (Report::SpawnFailed { errno }, Some(FileSystem::Root(_))) => {
            SpawnError::inside_root(errno, spec)
        }
        (Report::SpawnFailed { errno }, Some(FileSystem::View(_))) => {
            SpawnError::from_start(errno, spec)
        }
        (Report::SpawnFailed { errno }, None) => {
            check_cwd(spec).err().unwrap_or_else(|| SpawnError::from_errno(errno, spec))
        }
        _ => SpawnError::from_start(libc::EPROTO, spec),
    }
}

fn check_cwd(spec: &Spec) -> Result<(), SpawnError> {
    let error = |reason: String| SpawnError::Cwd {
        program: spec.program.clone(),
        cwd: spec.cwd.clone(),
        reason,
    };
    let cwd: &Path =
        if spec.cwd.as_os_str() == OsStr::new("") { Path::new(".") } else { &spec.cwd };
    match std::fs::metadata(cwd) {
        Ok(meta) if !meta.is_dir() => Err(error("it is no folder".to_owned())),
        Ok(_) => rustix::fs::access(cwd, rustix::fs::Access::EXEC_OK)
            .map_err(|e| error(io::Error::from(e).to_string())),
        Err(e) if e.kind() == io::ErrorKind::NotFound => Err(error("there is none".to_owned())),
        Err(e) => Err(error(e.to_string())),
    }
}

/// What a process reads.
enum Stdin {
    Null,
    /// [`Spec::stdin`].
    Fixed,
    /// The same, and then whatever comes here.
    Open(mpsc::Receiver<Vec<u8>>),
}

/// Writes what the process shall read. That it closes its end or ends before is no error: many
/// programs read only what they need.
async fn feed(mut pipe: Sender, bytes: Vec<u8>, more: Option<mpsc::Receiver<Vec<u8>>>) {
    let mut well = pipe.write_all(&bytes).await.is_ok();
    let Some(mut more) = more else { return };
    // What nobody reads any more is thrown away.
    while let Some(bytes) = more.recv().await {
        well = well && pipe.write_all(&bytes).await.is_ok();
    }
}
