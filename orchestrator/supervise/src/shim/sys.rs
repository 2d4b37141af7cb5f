//! What the standard library and rustix do not offer as safe calls.

#![allow(unsafe_code)]

use std::io;
use std::mem::MaybeUninit;
use std::os::fd::{FromRawFd as _, OwnedFd, RawFd};
use std::os::unix::process::CommandExt as _;
use std::process::Command;
use std::ptr;

use rustix::io::Errno;
use rustix::process::{Pid, Signal};

use crate::wire::{Job, Status};

/// Takes an inherited file descriptor, named by the arguments.
pub(super) fn take_fd(fd: RawFd) -> io::Result<OwnedFd> {
    // SAFETY: F_GETFD takes any number, and fails for one that is not open.
    if fd <= libc::STDERR_FILENO || unsafe { libc::fcntl(fd, libc::F_GETFD) } == -1 {
        return Err(Errno::BADF.into());
    }
    // SAFETY: it is open, and whoever started this process gave it away for this use alone: nothing
    // else ran before that could own it.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

/// Keeps from the leader every file descriptor but the three standard ones, whoever left it open.
pub(super) fn close_all_on_exec() -> io::Result<()> {
    for entry in std::fs::read_dir("/proc/self/fd")? {
        let name = entry?.file_name();
        let Some(fd) = name.to_str().and_then(|name| name.parse::<RawFd>().ok()) else { continue };
        if fd > libc::STDERR_FILENO {
            // SAFETY: changes a flag that only exec looks at, and fails for a number that is not open.
            unsafe { libc::fcntl(fd, libc::F_SETFD, libc::FD_CLOEXEC) };
        }
    }
    Ok(())
}

/// Forgets what was inherited about signals (an ignored SIGCHLD would hide endings, and the leader
/// would ignore what is ignored here), blocks them all, and returns a signalfd for those that matter.
pub(super) fn take_over_signals(those: &[libc::c_int]) -> io::Result<OwnedFd> {
    for signal in 1..=libc::SIGRTMAX() {
        // SAFETY: the default action needs no handler; those that cannot be changed only fail.
        unsafe { libc::signal(signal, libc::SIG_DFL) };
    }
    let mut all = MaybeUninit::uninit();
    let mut wanted = MaybeUninit::uninit();
    // SAFETY: sigfillset and sigemptyset initialise the sets before anything reads them, and cannot
    // fail; all pointers are valid for the calls.
    let fd = unsafe {
        libc::sigfillset(all.as_mut_ptr());
        libc::sigprocmask(libc::SIG_SETMASK, all.as_ptr(), ptr::null_mut());
        libc::sigemptyset(wanted.as_mut_ptr());
        for signal in those {
            libc::sigaddset(wanted.as_mut_ptr(), *signal);
        }
        libc::signalfd(-1, wanted.as_ptr(), libc::SFD_CLOEXEC | libc::SFD_NONBLOCK)
    };
    if fd == -1 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: it was just made, and nobody else knows it.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

/// Splits this process in two: `None` in the new one.
///
/// To be called with a single thread only: then the new process may do whatever this one may.
pub(super) fn fork() -> io::Result<Option<Pid>> {
    // SAFETY: without other threads nothing of the memory is in the middle of a change.
    match unsafe { libc::fork() } {
        -1 => Err(io::Error::last_os_error()),
        pid => Ok(Pid::from_raw(pid)),
    }
}

/// The level of the kernel's Landlock.
pub(crate) fn landlock_level() -> io::Result<u32> {
    let (nothing, version) = (ptr::null::<libc::c_void>(), 1);
    // SAFETY: with this flag the call reads no memory, makes nothing, and only answers a number.
    let level = unsafe { libc::syscall(libc::SYS_landlock_create_ruleset, nothing, 0, version) };
    u32::try_from(level).map_err(|_| io::Error::last_os_error())
}

/// Confines this thread, and whatever it will start, for good.
fn confine(ruleset: RawFd) -> io::Result<()> {
    // SAFETY: both calls take numbers only; those of the first are all zero but for the flag itself.
    let done = unsafe {
        let (no, yes): (libc::c_ulong, libc::c_ulong) = (0, 1);
        libc::prctl(libc::PR_SET_NO_NEW_PRIVS, yes, no, no, no) == 0
            && libc::syscall(libc::SYS_landlock_restrict_self, ruleset, 0) == 0
    };
    // The number stands for itself: an exec never fails with it.
    if done { Ok(()) } else { Err(io::Error::from_raw_os_error(NOT_CONFINED)) }
}

/// The errno of a leader that was not started because it could not be confined.
pub(crate) const NOT_CONFINED: i32 = libc::EOPNOTSUPP;

/// Starts the leader, in a session and a group of its own, which the kernel kills when this process
/// (`own`) dies. A ruleset confines it, and not this process, which has to signal and to look.
#[allow(clippy::disallowed_methods)] // This is the place that spawns.
pub(super) fn start(job: &Job, own: Pid, sandbox: Option<&OwnedFd>) -> io::Result<Pid> {
    let ruleset = sandbox.map(std::os::fd::AsRawFd::as_raw_fd);
    let mut command = Command::new(&job.program);
    command.args(&job.args).env_clear();
    command.envs(job.env.iter().map(|(name, value)| (name, value)));
    let before_exec = move || {
        // Without a terminal nothing in the tree can wait for a key, nor be stopped by one.
        rustix::process::setsid()?;
        rustix::process::set_parent_process_death_signal(Some(Signal::KILL))?;
        if rustix::process::getppid() != Some(own) {
            // The parent died before the kernel was asked.
            return Err(Errno::SRCH.into());
        }
        let mut none = MaybeUninit::uninit();
        // SAFETY: sigemptyset initialises the set before it is read.
        unsafe {
            libc::sigemptyset(none.as_mut_ptr());
            libc::sigprocmask(libc::SIG_SETMASK, none.as_ptr(), ptr::null_mut());
        }
        ruleset.map_or(Ok(()), confine)
    };
    // SAFETY: the closure only makes system calls and allocates nothing.
    let child = unsafe { command.pre_exec(before_exec) }.spawn()?;
    let pid = i32::try_from(child.id()).ok().and_then(Pid::from_raw);
    pid.ok_or_else(|| Errno::RANGE.into())
}

/// A child that ended, which stays a zombie: its pid is not given out again before it is reaped.
/// `None` if no child has ended; [`Errno::CHILD`] if there is no child.
pub(super) fn peek() -> Result<Option<(Pid, Status)>, Errno> {
    let mut info = MaybeUninit::<libc::siginfo_t>::zeroed();
    let options = libc::WEXITED | libc::WNOHANG | libc::WNOWAIT;
    // SAFETY: the pointer is valid for the call.
    if unsafe { libc::waitid(libc::P_ALL, 0, info.as_mut_ptr(), options) } == -1 {
        return Err(Errno::from_io_error(&io::Error::last_os_error()).unwrap_or(Errno::INVAL));
    }
    // SAFETY: all zeroes are a valid siginfo_t, and waitid, which succeeded, writes valid ones; the
    // fields of a child are the ones it fills.
    let (info, pid, status) = unsafe {
        let info = info.assume_init();
        (info, info.si_pid(), info.si_status())
    };
    let status = match info.si_code {
        libc::CLD_EXITED => Status::Exited(status),
        code => Status::Signaled { signal: status, core: code == libc::CLD_DUMPED },
    };
    Ok(Pid::from_raw(pid).map(|pid| (pid, status)))
}
