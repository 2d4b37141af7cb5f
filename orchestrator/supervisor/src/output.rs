//! Running a process tree to its end, with its output captured.

use std::future::Future;
use std::pin::pin;

use crate::capture::{Capture, CaptureLimit, Captured};
use crate::error::SpawnError;
use crate::exit::Exit;
use crate::procfs;
use crate::spec::{Spec, Stop};
use crate::streams::Stream;
use crate::supervisor::Supervisor;

/// How a process tree ended, and what it printed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Output {
    /// How it ended.
    pub exit: Exit,
    /// Its standard output.
    pub stdout: Captured,
    /// Its standard error.
    pub stderr: Captured,
    /// Whether it was ended because `stop` resolved, before its leader ended by itself.
    pub stopped: bool,
    /// The command lines of what its leader was running when it was stopped, parents first.
    pub running: Vec<String>,
}

impl Supervisor {
    /// Runs a process tree until it is gone, and keeps of each of its streams what `limit` allows.
    /// When `stop` resolves first, the tree is ended as by [`Stop::Terminate`]. When the future is
    /// dropped, the tree is ended too.
    ///
    /// # Errors
    /// When the process cannot be started.
    pub async fn output(
        &self,
        spec: Spec,
        limit: CaptureLimit,
        stop: impl Future<Output = ()>,
    ) -> Result<Output, SpawnError> {
        self.output_within(spec, [limit, limit], stop).await
    }

    /// The same, with a limit for standard output and one for standard error.
    ///
    /// # Errors
    /// When the process cannot be started.
    pub async fn output_within(
        &self,
        spec: Spec,
        [stdout, stderr]: [CaptureLimit; 2],
        stop: impl Future<Output = ()>,
    ) -> Result<Output, SpawnError> {
        let mut process = self.spawn(spec).await?;
        let (mut stdout, mut stderr) = (Capture::new(stdout), Capture::new(stderr));
        let mut stop = pin!(stop);
        let mut asked = false;
        let mut running = Vec::new();
        loop {
            let chunk = tokio::select! {
                chunk = process.next() => chunk,
                () = &mut stop, if !asked => {
                    asked = true;
                    running = process.id().map(command_lines_below).unwrap_or_default();
                    process.stop(Stop::Terminate);
                    continue;
                }
            };
            match chunk {
                Some(chunk) if chunk.stream == Stream::Stdout => stdout.push(&chunk.bytes),
                Some(chunk) => stderr.push(&chunk.bytes),
                None => break,
            }
        }
        // A process may close its output and go on.
        let exit = loop {
            tokio::select! {
                exit = process.wait() => break exit,
                () = &mut stop, if !asked => {
                    asked = true;
                    running = process.id().map(command_lines_below).unwrap_or_default();
                    process.stop(Stop::Terminate);
                }
            }
        };
        let stopped = exit.stopped;
        Ok(Output { exit, stdout: stdout.finish(), stderr: stderr.finish(), stopped, running })
    }
}

/// Returns the command lines of a process's descendants, parents first.
fn command_lines_below(leader: u32) -> Vec<String> {
    let leader = i32::try_from(leader).unwrap_or_default();
    let below = procfs::descendants(leader);
    below.iter().filter_map(|process| procfs::command_line(process.pid)).collect()
}
