//! Processes of git, under the supervisor.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::{OsStr, OsString};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::mpsc;
use std::time::Duration;

use ralph_orchestrator_engine::{ScratchDir, plain_environment, states_dir};
use ralph_orchestrator_git::{GitExit, GitOutput, GitRequest, MAX_STDERR, RunGit};
use ralph_orchestrator_supervisor::{
    CaptureLimit, Ending, Grace, Spec, Supervisor, find_program, path_outside,
};
use ralph_orchestrator_text::one_line;
use tokio::runtime::Handle;
use tokio::sync::watch;

use crate::context::Context;
use crate::error::CommandError;
use crate::orphans::RUN_ID;
use crate::sandbox::SandboxPolicy;

/// How many of the processes that git was running when it was ended are named, and how much of each.
const MOST_NAMED: usize = 3;
const LONGEST_NAMED: usize = 100;

/// Starts git under the supervisor, so that it ends with the orchestrator.
///
/// [`run_git`](RunGit::run_git) blocks its thread, which must not be that of the runtime.
pub struct SupervisedGit {
    program: PathBuf,
    /// Where agents can put programs.
    places: Vec<PathBuf>,
    supervisor: Supervisor,
    runtime: Handle,
    /// While it is true, processes are ended and none is started.
    cancelled: watch::Receiver<bool>,
    confinement: Option<Confinement>,
    protects: Vec<String>,
}

/// How programs that a repository names are confined: as the agent is.
#[derive(Clone)]
pub struct Confinement {
    policy: SandboxPolicy,
    /// The variables that agents are given.
    variables: BTreeSet<String>,
    /// Where it is kept what repositories were before agents worked in them.
    kept: PathBuf,
}

impl Confinement {
    /// Returns how the hooks and filters of a configuration's commits are confined; `None` without a sandbox.
    pub fn new(policy: Option<&SandboxPolicy>, context: &Context) -> Option<Self> {
        let policy = policy?.clone();
        let variables = plain_environment(&context.loaded, &context.vars).into_keys().collect();
        Some(Self { policy, variables, kept: kept_folder(context) })
    }

    /// Returns where it is kept what repositories were before agents worked in them.
    pub fn kept(&self) -> &Path {
        &self.kept
    }

    /// Whether a variable is handed on.
    fn passes(&self, name: &str) -> bool {
        name.starts_with("GIT_") || name == RUN_ID || self.variables.contains(name)
    }
}

/// Returns the folder in which it is kept what repositories were before agents worked in them: beside what else was
/// accepted, where no agent in a sandbox reaches.
pub fn kept_folder(context: &Context) -> PathBuf {
    states_dir(&context.state_home()).join(".trust")
}

impl SupervisedGit {
    /// Finds git in `PATH`, once: what is put there later is not used, and nothing in the places where agents can put
    /// programs.
    pub fn find(
        supervisor: Supervisor,
        vars: &BTreeMap<String, String>,
        places: &[PathBuf],
        runtime: Handle,
    ) -> Result<Self, String> {
        let path = vars.get("PATH").map(String::as_str).unwrap_or_default();
        let program = find_program("git", &path_outside(path, places), Path::new("/"))
            .map_err(|error| error.to_string())?;
        let cancelled = watch::channel(false).1;
        Ok(Self {
            program,
            places: places.to_owned(),
            supervisor,
            runtime,
            cancelled,
            confinement: None,
            protects: Vec::new(),
        })
    }

    /// Confines what runs programs that a repository names. `protects` is what validators protect.
    pub fn confined(self, confinement: Option<Confinement>, protects: Vec<String>) -> Self {
        Self { confinement, protects, ..self }
    }

    /// Ends what runs, and starts nothing, while this is true.
    pub fn cancelled_by(self, cancelled: watch::Receiver<bool>) -> Self {
        Self { cancelled, ..self }
    }
}

impl RunGit for SupervisedGit {
    fn confines(&self) -> bool {
        self.confinement.is_some()
    }

    fn run_git(&self, request: &GitRequest) -> io::Result<GitOutput> {
        if *self.cancelled.borrow() {
            return Err(io::Error::new(io::ErrorKind::Interrupted, "not started"));
        }
        let (Some(confinement), Some(folders)) = (&self.confinement, &request.confined_to) else {
            let mut request = request.clone();
            // Hooks find what they find under the user's own git; what git starts by itself is no agent's.
            if request.confined_to.is_none()
                && let Some(path) = request.environment.get_mut(OsStr::new("PATH"))
            {
                let outside = path_outside(&path.to_string_lossy(), &self.places);
                *path = outside.into();
            }
            return self.run_by(self.supervisor.clone(), &request);
        };
        let mut scratch = ScratchDir::default();
        let run = request.environment.get(OsStr::new(RUN_ID));
        let run = run.map(|run| run.to_string_lossy().into_owned()).unwrap_or_default();
        // The one folder outside the workspace that is its own.
        let folder = scratch.fresh(&run).map_err(io::Error::other)?;
        let mut request = request.clone();
        request.environment.retain(|name, _| confinement.passes(&name.to_string_lossy()));
        request.environment.insert("TMPDIR".into(), folder.into());
        let (policy, protects) = (confinement.policy.clone(), self.protects.clone());
        let folders = folders.clone();
        let supervisor = self.supervisor.clone().with_sandbox(move || {
            let mut sandbox = policy.resolve(&protects)?;
            sandbox.write.extend(folders.clone());
            Ok(sandbox)
        });
        self.run_by(supervisor, &request)
    }
}

impl SupervisedGit {
    fn run_by(&self, supervisor: Supervisor, request: &GitRequest) -> io::Result<GitOutput> {
        let text = |value: &OsString| value.clone().into_string().ok();
        let environment = request.environment.iter();
        let spec = Spec {
            program: self.program.clone(),
            args: request.arguments.clone(),
            cwd: request.directory.clone(),
            env: environment
                .filter_map(|(name, value)| Some((text(name)?, text(value)?)))
                .collect(),
            stdin: request.stdin.clone(),
            grace: Grace::default(),
        };
        let limits = [request.max_output, MAX_STDERR].map(|head| CaptureLimit { head, tail: 0 });
        let timeout = request.timeout;
        let mut cancelled = self.cancelled.clone();
        let (sender, receiver) = mpsc::sync_channel(1);
        // Not waited for by its handle: when the runtime ends, the task and with it the sender is dropped.
        self.runtime.spawn(async move {
            let end = async {
                tokio::select! {
                    () = tokio::time::sleep(timeout) => {}
                    // An error is that nobody is left to cancel it.
                    Ok(_) = cancelled.wait_for(|cancelled| *cancelled) => {}
                }
            };
            drop(sender.send(supervisor.output_within(spec, limits, end).await));
        });
        let output = receiver
            .recv()
            .map_err(|_| io::Error::new(io::ErrorKind::Interrupted, "the orchestrator ends"))?
            .map_err(io::Error::other)?;
        if output.stopped {
            let message = describe_end(&output.running, timeout, *self.cancelled.borrow());
            return Err(io::Error::new(io::ErrorKind::TimedOut, message));
        }
        let exit = match output.exit.ending {
            Ending::Exited(code) => GitExit::Status(code),
            Ending::Signaled { signal, .. } => GitExit::Signal(signal),
            Ending::Lost => return Err(io::Error::other("how it ended is not known")),
        };
        let is_truncated = output.stdout.cut > 0;
        Ok(GitOutput { exit, stdout: output.stdout.head, is_truncated, stderr: output.stderr.head })
    }
}

/// Says what git was running when it was ended, as far as it is known: a hook or filter, and what that runs.
fn describe_end(running: &[String], timeout: Duration, is_cancelled: bool) -> String {
    let named = running.iter().take(MOST_NAMED);
    let named: Vec<String> =
        named.map(|line| format!("`{}`", one_line(line, LONGEST_NAMED))).collect();
    let end = match is_cancelled {
        true => "ended".to_owned(),
        false => format!("ended after {} s", timeout.as_secs()),
    };
    match named.as_slice() {
        [] => end,
        named => format!("{end} while it ran {}", named.join(", ")),
    }
}

/// Returns the environment of git.
pub fn environment(vars: &BTreeMap<String, String>) -> BTreeMap<OsString, OsString> {
    vars.iter().map(|(name, value)| (name.into(), value.into())).collect()
}

/// Runs what starts git on a thread of its own, as [`SupervisedGit`] requires.
pub async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> T + Send + 'static,
) -> Result<T, CommandError> {
    tokio::task::spawn_blocking(work).await.map_err(CommandError::internal)
}
