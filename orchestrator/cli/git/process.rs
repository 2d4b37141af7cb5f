//! Processes of git, under the supervisor.

use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::mpsc;

use ralph_orchestrator_git::{GitExit, GitOutput, GitRequest, MAX_STDERR, RunGit};
use ralph_orchestrator_supervisor::{CaptureLimit, Ending, Grace, Spec, Supervisor, find_program};
use tokio::runtime::Handle;

/// Starts git under the supervisor, so that it ends with the orchestrator.
///
/// [`run_git`](RunGit::run_git) blocks its thread, which must not be that of the runtime.
pub(crate) struct SupervisedGit {
    program: PathBuf,
    supervisor: Supervisor,
    runtime: Handle,
}

impl SupervisedGit {
    /// Finds git in `PATH`, once: what is put there later is not used.
    pub(crate) fn find(
        supervisor: Supervisor,
        vars: &BTreeMap<String, String>,
        runtime: Handle,
    ) -> Result<Self, String> {
        let path = vars.get("PATH").map(String::as_str).unwrap_or_default();
        let program =
            find_program("git", path, Path::new("/")).map_err(|error| error.to_string())?;
        Ok(Self { program, supervisor, runtime })
    }
}

impl RunGit for SupervisedGit {
    fn run_git(&self, request: &GitRequest) -> io::Result<GitOutput> {
        let text = |value: &std::ffi::OsString| value.clone().into_string().ok();
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
        let (supervisor, timeout) = (self.supervisor.clone(), request.timeout);
        let (sender, receiver) = mpsc::sync_channel(1);
        // Not waited for by its handle: when the runtime ends, the task and with it the sender is dropped.
        self.runtime.spawn(async move {
            let timeout = tokio::time::sleep(timeout);
            drop(sender.send(supervisor.output_within(spec, limits, timeout).await));
        });
        let output = receiver
            .recv()
            .map_err(|_| io::Error::new(io::ErrorKind::Interrupted, "the orchestrator ends"))?
            .map_err(io::Error::other)?;
        if output.stopped {
            return Err(io::Error::new(io::ErrorKind::TimedOut, "it did not exit in time"));
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
