//! Starting process trees.

use std::ffi::{OsStr, OsString};
use std::fmt;
use std::fs::File;
use std::io;
use std::os::fd::{AsRawFd as _, OwnedFd, RawFd};
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::time::Duration;

use command_fds::CommandFdExt as _;
use tokio::io::AsyncWriteExt as _;
use tokio::process::{Child, ChildStdin};
use tokio::sync::mpsc;
use tokio::time::timeout;

use crate::control::Control;
use crate::error::SpawnError;
use crate::input::Input;
use crate::kill_switch::KillSwitch;
use crate::process::Process;
use crate::sandbox::{self, Sandbox};
use crate::shim::FIRST_ARGUMENT;
use crate::spec::Spec;
use crate::wire::{Job, Report};

/// How long a shim may take until its leader runs. It is a matter of milliseconds, unless the program
/// comes from a file system that has gone.
const START: Duration = Duration::from_secs(30);

/// Starts process trees, each under a shim of its own. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Supervisor {
    shim: PathBuf,
    /// What the shim is called in lists of processes.
    name: Option<OsString>,
    leading_args: Vec<OsString>,
    guard: Option<Arc<File>>,
    switch: Option<KillSwitch>,
    sandbox: Option<MakeSandbox>,
}

/// Says what the process that is about to start may do.
#[derive(Clone)]
struct MakeSandbox(Arc<dyn Fn() -> io::Result<Sandbox> + Send + Sync>);

impl fmt::Debug for MakeSandbox {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("MakeSandbox")
    }
}

impl Supervisor {
    /// With another program as the shim; `leading_args` come before the shim's own arguments.
    #[must_use]
    pub fn new(shim: PathBuf, leading_args: Vec<OsString>) -> Self {
        Self { shim, name: None, leading_args, guard: None, switch: None, sandbox: None }
    }

    /// With the running program as the shim, whatever has become of its file meanwhile. Its `main`
    /// must call [`shim::intercept`](crate::shim::intercept) first.
    #[must_use]
    pub fn this_binary() -> Self {
        let mut this = Self::new("/proc/self/exe".into(), vec![FIRST_ARGUMENT.into()]);
        this.name = std::env::args_os().next();
        this
    }

    /// Has each shim hold this file open until its tree is gone: a `flock` on it then tells a later
    /// orchestrator that a tree of an earlier one is still there. Whoever unlocks the file explicitly
    /// unlocks it for the shims, too; it is closing that does not.
    #[must_use]
    pub fn with_guard(mut self, guard: Arc<File>) -> Self {
        self.guard = Some(guard);
        self
    }

    /// Lets this switch kill all that is started.
    #[must_use]
    pub fn with_kill_switch(mut self, switch: KillSwitch) -> Self {
        self.switch = Some(switch);
        self
    }

    /// Confines whatever is started from now on. `sandbox` is asked at each start, on a thread that may
    /// wait for the disk; if it fails, nothing is started.
    #[must_use]
    pub fn with_sandbox(
        mut self,
        sandbox: impl Fn() -> io::Result<Sandbox> + Send + Sync + 'static,
    ) -> Self {
        self.sandbox = Some(MakeSandbox(Arc::new(sandbox)));
        self
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

    async fn begin(&self, mut spec: Spec, stdin: Stdin) -> Result<Process, SpawnError> {
        spec.program = spec.cwd.join(&spec.program);
        check_cwd(&spec)?;
        let (mut control, theirs) =
            Control::new(self.switch.as_ref()).map_err(|e| self.no_shim(&spec, &e))?;
        let ruleset = self.ruleset(&spec).await?;
        let piped = !matches!(stdin, Stdin::Null);
        let mut shim = self.start_shim(&spec, piped, theirs, ruleset)?;
        let leader = match timeout(START, control.next()).await {
            Ok(Some(Report::Started { pid })) => pid,
            Ok(Some(Report::SpawnFailed { errno })) => {
                let _ = shim.wait().await;
                return Err(SpawnError::from_errno(errno, &spec));
            }
            Ok(Some(Report::Broken { reason })) => return Err(self.bad_shim(&spec, reason)),
            Ok(_) => {
                let reason = "it ended without a word: it is no shim, or was killed";
                return Err(self.bad_shim(&spec, reason.to_owned()));
            }
            Err(_) => {
                let reason = format!("it did not start the program within {} s", START.as_secs());
                return Err(self.bad_shim(&spec, reason));
            }
        };
        let more = if let Stdin::Open(more) = stdin { Some(more) } else { None };
        let stdin = shim.stdin.take().map(|pipe| tokio::spawn(feed(pipe, spec.stdin, more)));
        Ok(Process::new(leader, control, shim, stdin))
    }

    /// What confines the process, if anything does.
    async fn ruleset(&self, spec: &Spec) -> Result<Option<OwnedFd>, SpawnError> {
        let Some(MakeSandbox(make)) = self.sandbox.clone() else { return Ok(None) };
        let (program, tmp) = (spec.program.clone(), spec.env.get("TMPDIR").cloned());
        let made = tokio::task::spawn_blocking(move || {
            sandbox::of_process(make()?, &program, tmp.as_deref()).ruleset()
        });
        made.await.map_err(io::Error::other).flatten().map(Some).map_err(|e| SpawnError::Sandbox {
            program: spec.program.clone(),
            reason: e.to_string(),
        })
    }

    #[allow(clippy::disallowed_methods)] // This is the place that spawns.
    fn start_shim(
        &self,
        spec: &Spec,
        piped: bool,
        control: OwnedFd,
        ruleset: Option<OwnedFd>,
    ) -> Result<Child, SpawnError> {
        let guard = self.guard.as_ref().map(|file| file.try_clone()).transpose();
        let guard: Option<OwnedFd> = guard.map_err(|e| self.no_shim(spec, &e))?.map(OwnedFd::from);
        let job = Job {
            control: control.as_raw_fd(),
            guard: guard.as_ref().map(|fd| -> RawFd { fd.as_raw_fd() }),
            sandbox: ruleset.as_ref().map(|fd| -> RawFd { fd.as_raw_fd() }),
            grace: spec.grace,
            program: spec.program.clone().into_os_string(),
            args: spec.args.clone(),
        };
        let mut command = Command::new(&self.shim);
        if let Some(name) = &self.name {
            command.arg0(name);
        }
        command
            .args(&self.leading_args)
            .args(job.into_args())
            .env_clear()
            .envs(&spec.env)
            .current_dir(&spec.cwd)
            // A Ctrl-C at the terminal is the orchestrator's to translate.
            .process_group(0)
            .stdin(if piped { Stdio::piped() } else { Stdio::null() })
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            // They keep their numbers, so that none can hit one that is already in use.
            .preserved_fds([control].into_iter().chain(guard).chain(ruleset).collect());
        // The command owns the shim's end of the socket: it must not outlive this function, or the
        // shim's end would never be seen.
        let mut command = tokio::process::Command::from(command);
        command.spawn().map_err(|e| match check_cwd(spec) {
            Ok(()) => self.no_shim(spec, &e),
            Err(cwd) => cwd,
        })
    }

    /// The shim could not be started; most causes would keep the program from it as well.
    fn no_shim(&self, spec: &Spec, e: &io::Error) -> SpawnError {
        SpawnError::of_anything(e, spec).unwrap_or_else(|| self.bad_shim(spec, e.to_string()))
    }

    fn bad_shim(&self, spec: &Spec, reason: String) -> SpawnError {
        SpawnError::Shim { program: spec.program.clone(), shim: self.shim.clone(), reason }
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
async fn feed(mut pipe: ChildStdin, bytes: Vec<u8>, more: Option<mpsc::Receiver<Vec<u8>>>) {
    let mut well = pipe.write_all(&bytes).await.is_ok();
    let Some(mut more) = more else { return };
    // What nobody reads any more is thrown away.
    while let Some(bytes) = more.recv().await {
        well = well && pipe.write_all(&bytes).await.is_ok();
    }
}
