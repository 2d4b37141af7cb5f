//! Processes of git, under the supervisor.

use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::mpsc;
use std::time::Duration;

use ralph_orchestrator_git::{GitExit, GitOutput, GitRequest, MAX_STDERR, RunGit};
use ralph_orchestrator_supervisor::{CaptureLimit, Ending, Grace, Spec, Supervisor, find_program};
use tokio::runtime::Handle;
use tokio::sync::watch;

use crate::render::text::one_line;

/// How many of the processes that git was running when it was ended are named, and how much of each.
const MOST_NAMED: usize = 3;
const LONGEST_NAMED: usize = 100;

/// Starts git under the supervisor, so that it ends with the orchestrator.
///
/// [`run_git`](RunGit::run_git) blocks its thread, which must not be that of the runtime.
pub(crate) struct SupervisedGit {
    program: PathBuf,
    supervisor: Supervisor,
    runtime: Handle,
    /// While it is true, processes are ended and none is started.
    cancelled: watch::Receiver<bool>,
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
        let cancelled = watch::channel(false).1;
        Ok(Self { program, supervisor, runtime, cancelled })
    }

    /// Ends what runs, and starts nothing, while this is true.
    pub(crate) fn cancelled_by(self, cancelled: watch::Receiver<bool>) -> Self {
        Self { cancelled, ..self }
    }
}

impl RunGit for SupervisedGit {
    fn run_git(&self, request: &GitRequest) -> io::Result<GitOutput> {
        if *self.cancelled.borrow() {
            return Err(io::Error::new(io::ErrorKind::Interrupted, "not started"));
        }
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
