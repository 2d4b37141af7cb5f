//! Runs `git` as a plain child process in a process group of its own.

use std::io::{self, Read, Write as _};
use std::os::fd::AsFd as _;
use std::os::unix::process::{CommandExt as _, ExitStatusExt as _};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Pid, PidfdFlags, Signal, kill_process_group, pidfd_open};

use crate::run_git::{GitExit, GitOutput, GitRequest, MAX_STDERR, RunGit};

/// Runs `git` with the standard library alone, without a supervisor.
///
/// When `git` exits or its time is over, its process group is killed. Processes that left the group
/// by a session of their own live on.
#[derive(Debug, Clone)]
pub struct SystemGit {
    program: PathBuf,
}

impl SystemGit {
    /// Uses the program at this path.
    pub fn new(program: impl Into<PathBuf>) -> Self {
        Self { program: program.into() }
    }

    /// Finds `git` in `PATH`, once: what is put into `PATH` later is not used.
    ///
    /// # Errors
    ///
    /// Fails with [`io::ErrorKind::NotFound`] if there is none.
    pub fn find() -> io::Result<Self> {
        which::which("git").map(Self::new).map_err(|error| {
            io::Error::new(io::ErrorKind::NotFound, format!("git: {error}; install git"))
        })
    }

    /// Returns the program's path.
    pub fn program(&self) -> &Path {
        &self.program
    }
}

impl RunGit for SystemGit {
    fn run_git(&self, request: &GitRequest) -> io::Result<GitOutput> {
        #[expect(clippy::disallowed_methods, reason = "the implementation without a supervisor")]
        let mut command = Command::new(&self.program);
        let mut child = command
            .args(&request.arguments)
            .current_dir(&request.directory)
            .env_clear()
            .envs(&request.environment)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .process_group(0)
            .spawn()?;
        let pid = i32::try_from(child.id()).ok().and_then(Pid::from_raw);
        let outcome = converse(&mut child, pid, request);
        if let Some(pid) = pid {
            // The group may be empty already.
            let _ = kill_process_group(pid, Signal::KILL);
        }
        let status = child.wait()?;
        let (stdout, stderr) = outcome?;
        let exit = match (status.code(), status.signal()) {
            (Some(code), _) => GitExit::Status(code),
            (None, signal) => GitExit::Signal(signal.unwrap_or_default()),
        };
        Ok(GitOutput {
            exit,
            stdout: stdout.bytes,
            is_truncated: stdout.is_truncated,
            stderr: stderr.bytes,
        })
    }
}

/// One output stream, and what is collected of it.
struct Collected<R> {
    reader: Option<R>,
    bytes: Vec<u8>,
    limit: usize,
    is_truncated: bool,
}

impl<R: Read> Collected<R> {
    fn new(reader: Option<R>, limit: usize) -> Self {
        Self { reader, bytes: Vec::new(), limit, is_truncated: false }
    }

    /// Reads what is there, once; at the end of file the reader is dropped.
    fn read_available(&mut self) -> io::Result<()> {
        let Some(reader) = self.reader.as_mut() else { return Ok(()) };
        let mut buffer = [0; 64 * 1024];
        match reader.read(&mut buffer) {
            Ok(0) => self.reader = None,
            Ok(read) => {
                let room = self.limit.saturating_sub(self.bytes.len());
                self.is_truncated |= read > room;
                self.bytes.extend(buffer.iter().take(read.min(room)));
            }
            Err(error) if is_temporary(&error) => {}
            Err(error) => return Err(error),
        }
        Ok(())
    }
}

fn is_temporary(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted)
}

type Outputs = (Collected<std::process::ChildStdout>, Collected<std::process::ChildStderr>);

/// Serves all three streams until the process has exited and its output has ended.
///
/// Output that a background process of a hook holds open does not delay the end: once the leader has
/// exited, its group is killed, and what is in the pipes then is read without waiting.
fn converse(child: &mut Child, pid: Option<Pid>, request: &GitRequest) -> io::Result<Outputs> {
    let pid = pid.ok_or_else(|| io::Error::other("git has no process id"))?;
    let exit = pidfd_open(pid, PidfdFlags::empty())?;
    let deadline = Instant::now().checked_add(request.timeout);
    let mut stdin = child.stdin.take();
    let mut unwritten = request.stdin.as_slice();
    let mut stdout = Collected::new(child.stdout.take(), request.max_output);
    let mut stderr = Collected::new(child.stderr.take(), MAX_STDERR);
    set_nonblocking(stdin.as_ref(), stdout.reader.as_ref(), stderr.reader.as_ref())?;
    loop {
        if unwritten.is_empty() {
            stdin = None;
        }
        let ready = wait_for(stdin.as_ref(), &stdout, &stderr, &exit, deadline)?;
        if ready.stdin {
            write_some(&mut stdin, &mut unwritten)?;
        }
        if ready.stdout {
            stdout.read_available()?;
        }
        if ready.stderr {
            stderr.read_available()?;
        }
        if ready.exit && !ready.stdout && !ready.stderr {
            return Ok((stdout, stderr));
        }
    }
}

fn set_nonblocking(
    stdin: Option<&ChildStdin>,
    stdout: Option<&std::process::ChildStdout>,
    stderr: Option<&std::process::ChildStderr>,
) -> io::Result<()> {
    let streams = [
        stdin.map(std::os::fd::AsFd::as_fd),
        stdout.map(std::os::fd::AsFd::as_fd),
        stderr.map(std::os::fd::AsFd::as_fd),
    ];
    for stream in streams.into_iter().flatten() {
        rustix::io::ioctl_fionbio(stream, true)?;
    }
    Ok(())
}

fn write_some(stdin: &mut Option<ChildStdin>, unwritten: &mut &[u8]) -> io::Result<()> {
    let Some(pipe) = stdin.as_mut() else { return Ok(()) };
    match pipe.write(unwritten) {
        Ok(written) => *unwritten = unwritten.get(written..).unwrap_or_default(),
        Err(error) if is_temporary(&error) => {}
        // It exits without reading all; its status says why.
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => *unwritten = &[],
        Err(error) => return Err(error),
    }
    Ok(())
}

#[derive(Default)]
struct Ready {
    stdin: bool,
    stdout: bool,
    stderr: bool,
    exit: bool,
}

fn wait_for(
    stdin: Option<&ChildStdin>,
    stdout: &Collected<std::process::ChildStdout>,
    stderr: &Collected<std::process::ChildStderr>,
    exit: &impl std::os::fd::AsFd,
    deadline: Option<Instant>,
) -> io::Result<Ready> {
    let mut fds = vec![PollFd::new(exit, PollFlags::IN)];
    if let Some(stdin) = stdin {
        fds.push(PollFd::from_borrowed_fd(stdin.as_fd(), PollFlags::OUT));
    }
    if let Some(reader) = &stdout.reader {
        fds.push(PollFd::from_borrowed_fd(reader.as_fd(), PollFlags::IN));
    }
    if let Some(reader) = &stderr.reader {
        fds.push(PollFd::from_borrowed_fd(reader.as_fd(), PollFlags::IN));
    }
    let remaining = deadline
        .map_or(Duration::from_secs(3600), |at| at.saturating_duration_since(Instant::now()));
    let late = || io::Error::new(io::ErrorKind::TimedOut, "git did not exit in time");
    if remaining.is_zero() {
        return Err(late());
    }
    let timeout = Timespec::try_from(remaining).map_err(io::Error::other)?;
    match poll(&mut fds, Some(&timeout)) {
        Ok(0) => return Err(late()),
        Ok(_) => {}
        Err(rustix::io::Errno::INTR) => return Ok(Ready::default()),
        Err(error) => return Err(error.into()),
    }
    let mut returned = fds.iter().map(|fd| !fd.revents().is_empty());
    let exit = returned.next().unwrap_or_default();
    let stdin = stdin.is_some() && returned.next().unwrap_or_default();
    let stdout = stdout.reader.is_some() && returned.next().unwrap_or_default();
    let stderr = stderr.reader.is_some() && returned.next().unwrap_or_default();
    Ok(Ready { stdin, stdout, stderr, exit })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeMap;

    fn run(script: &str, stdin: Vec<u8>, max_output: usize, timeout: u64) -> io::Result<GitOutput> {
        SystemGit::new("/bin/sh").run_git(&GitRequest {
            arguments: vec!["-c".into(), script.into()],
            directory: "/".into(),
            environment: BTreeMap::from([("PATH".into(), "/usr/bin:/bin".into())]),
            stdin,
            max_output,
            timeout: Duration::from_secs(timeout),
            confined_to: None,
        })
    }

    #[test]
    fn passes_more_input_than_a_pipe_holds_while_reading_output() {
        let input = vec![b'x'; 3_000_000];
        let output = run("cat; echo err >&2; exit 3", input.clone(), 10_000_000, 60).unwrap();
        assert_eq!(output.exit, GitExit::Status(3));
        assert!(output.stdout == input && !output.is_truncated);
        assert_eq!(output.stderr, b"err\n");
    }

    #[test]
    fn bounds_what_is_collected_and_reads_the_rest() {
        let output = run("head -c 5000000 /dev/zero; kill -9 $$", vec![], 1000, 60).unwrap();
        assert_eq!((output.stdout.len(), output.is_truncated), (1000, true));
        assert_eq!(output.exit, GitExit::Signal(9));
    }

    #[test]
    fn ends_a_process_that_does_not_exit() {
        let error = run("read never < /dev/zero; sleep 1000", vec![], 10, 0).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::TimedOut);
    }

    #[test]
    fn returns_although_a_background_process_holds_the_output_open() {
        let output = run("sleep 1000 & echo done", vec![], 100, 60).unwrap();
        assert_eq!(output.stdout, b"done\n");
    }

    #[test]
    fn reports_a_program_that_is_missing() {
        let request = GitRequest {
            arguments: vec![],
            directory: "/".into(),
            environment: BTreeMap::new(),
            stdin: vec![],
            max_output: 0,
            timeout: Duration::ZERO,
            confined_to: None,
        };
        let error = SystemGit::new("/nonexistent/git").run_git(&request).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::NotFound);
    }
}
