//! What the standard library and rustix do not offer as safe calls.

#![allow(unsafe_code)]

use std::ffi::{CStr, CString};
use std::fs::File;
use std::io;
use std::mem::MaybeUninit;
use std::os::fd::{AsRawFd as _, BorrowedFd, FromRawFd as _, OwnedFd, RawFd};
use std::os::unix::ffi::OsStrExt as _;
use std::ptr;
use std::sync::atomic::{AtomicI32, Ordering};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::{Errno, fcntl_dupfd_cloexec};
use rustix::mount::MountAttrFlags;
use rustix::net::{AddressFamily, SocketType, sockopt};
use rustix::process::{Pid, Signal};
use rustix::stdio::dup2_stdin;
use rustix::thread::UnshareFlags;

use crate::wire::{Job, Status};

/// Takes the socket that is standard input, and leaves the null device in its place.
pub(super) fn take_stdin_socket() -> io::Result<OwnedFd> {
    let stdin = io::stdin();
    if sockopt::socket_type(&stdin)? != SocketType::SEQPACKET {
        return Err(Errno::NOTSOCK.into());
    }
    let socket = fcntl_dupfd_cloexec(&stdin, libc::STDERR_FILENO + 1)?;
    dup2_stdin(File::open("/dev/null")?)?;
    Ok(socket)
}

/// Marks every file descriptor but the three standard ones close-on-exec, whoever opened it.
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

/// Forks this process; returns `None` in the child.
///
/// To be called with a single thread only: then the child has no restrictions.
pub(super) fn fork() -> io::Result<Option<Pid>> {
    // SAFETY: without other threads nothing of the memory is in the middle of a change.
    match unsafe { libc::fork() } {
        -1 => Err(io::Error::last_os_error()),
        pid => Ok(Pid::from_raw(pid)),
    }
}

/// Forks this process as its sibling, which shares its root and its working folder; returns `None` in the
/// sibling.
///
/// To be called as [`fork`].
pub(super) fn fork_sibling() -> io::Result<Option<Pid>> {
    let flags = libc::CLONE_PARENT | libc::CLONE_FS | libc::SIGCHLD;
    let none: libc::c_long = 0;
    // SAFETY: without a stack of its own it goes on with a copy of this one. The C library does not know of the
    // fork; of what it caches only the thread's id is wrong, which nothing in this program uses.
    let pid = unsafe {
        libc::syscall(libc::SYS_clone, libc::c_long::from(flags), none, none, none, none)
    };
    match i32::try_from(pid) {
        Ok(-1) | Err(_) => Err(io::Error::last_os_error()),
        Ok(pid) => Ok(Pid::from_raw(pid)),
    }
}

/// Ends this process at once.
pub(super) fn exit(code: u8) -> ! {
    // SAFETY: nothing of the program runs any more.
    unsafe { libc::_exit(i32::from(code)) }
}

/// Moves this process, and for pids its children, to new namespaces.
pub(super) fn unshare(namespaces: UnshareFlags) -> io::Result<()> {
    // SAFETY: without other threads none observes the change.
    Ok(unsafe { rustix::thread::unshare_unsafe(namespaces) }?)
}

/// Closes every file descriptor but the three standard ones and these.
pub(super) fn close_all_but(these: &[RawFd]) -> io::Result<()> {
    let mut bounds: Vec<u32> = these.iter().filter_map(|fd| u32::try_from(*fd).ok()).collect();
    bounds.sort_unstable();
    let mut first = 3_u32;
    for kept in bounds.into_iter().chain([u32::MAX]) {
        // SAFETY: this process uses none of them any more, nor does it drop one.
        if first < kept && unsafe { libc::syscall(libc::SYS_close_range, first, kept - 1, 0) } == -1
        {
            return Err(io::Error::last_os_error());
        }
        first = kept.saturating_add(1);
    }
    Ok(())
}

/// Sets attributes of a mount, and of those beneath it if `recursive`.
pub(super) fn set_mount_attributes(
    mount: &OwnedFd,
    attributes: MountAttrFlags,
    recursive: bool,
) -> io::Result<()> {
    let mut flags = libc::c_long::from(libc::AT_EMPTY_PATH);
    if recursive {
        flags |= libc::c_long::from(libc::AT_RECURSIVE);
    }
    let attributes = libc::mount_attr {
        attr_set: u64::from(attributes.bits()),
        attr_clr: 0,
        propagation: 0,
        userns_fd: 0,
    };
    let (mount, size) = (libc::c_long::from(mount.as_raw_fd()), size_of::<libc::mount_attr>());
    // SAFETY: the path and the attributes outlive the call, which only reads them.
    let done = unsafe {
        libc::syscall(
            libc::SYS_mount_setattr,
            mount,
            c"".as_ptr(),
            flags,
            ptr::from_ref(&attributes),
            size,
        )
    };
    if done == -1 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

/// Raises the loopback interface of this network namespace.
pub(super) fn raise_loopback() -> io::Result<()> {
    let socket = rustix::net::socket(AddressFamily::INET, SocketType::DGRAM, None)?;
    // SAFETY: all zeroes are a valid request.
    let mut request: libc::ifreq = unsafe { MaybeUninit::zeroed().assume_init() };
    for (to, from) in request.ifr_name.iter_mut().zip(c"lo".to_bytes()) {
        *to = libc::c_char::from_ne_bytes([*from]);
    }
    request.ifr_ifru.ifru_flags = libc::c_short::try_from(libc::IFF_UP).unwrap_or_default();
    // SAFETY: the request outlives the call, which reads the name and the flags.
    let done = unsafe { libc::ioctl(socket.as_raw_fd(), libc::SIOCSIFFLAGS, &raw const request) };
    if done == -1 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

/// Returns the kernel's Landlock ABI level.
pub(crate) fn landlock_level() -> io::Result<u32> {
    let (nothing, version) = (ptr::null::<libc::c_void>(), 1);
    // SAFETY: with this flag the call reads no memory, makes nothing, and only answers a number.
    let level = unsafe { libc::syscall(libc::SYS_landlock_create_ruleset, nothing, 0, version) };
    u32::try_from(level).map_err(|_| io::Error::last_os_error())
}

/// The capabilities by which root reads the environment of processes that it may not trace.
const TRACING: [libc::c_ulong; 3] = [CAP_SYS_PTRACE, CAP_SYS_ADMIN, CAP_PERFMON];
const CAP_SYS_PTRACE: libc::c_ulong = 19;
const CAP_SYS_ADMIN: libc::c_ulong = 21;
const CAP_PERFMON: libc::c_ulong = 38;
/// As the call takes it.
const PR_CAP_AMBIENT_LOWER: libc::c_ulong = 3;

/// Gives up for good, from the next exec on, what `/proc` shows to root in spite of Landlock.
fn drop_tracing() {
    let no: libc::c_ulong = 0;
    for capability in TRACING {
        // SAFETY: both calls take numbers only. They fail for whoever has no capabilities, and older kernels do not
        // know all of them: nothing is left to give up then.
        unsafe {
            libc::prctl(libc::PR_CAP_AMBIENT, PR_CAP_AMBIENT_LOWER, capability, no, no);
            libc::prctl(libc::PR_CAPBSET_DROP, capability, no, no, no);
        }
    }
}

/// Confines this thread and its descendants permanently.
fn confine(ruleset: RawFd) -> io::Result<()> {
    drop_tracing();
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

/// The stack of a process between its start and its exec, in bytes: a few calls deep.
const CHILD_STACK: usize = 64 * 1024;
/// What runs a script whose first line does not say what does, as `execvp` does it.
const SHELL: &CStr = c"/bin/sh";

/// The process whose child a leader becomes, and with which the kernel kills it.
#[derive(Clone, Copy)]
pub(super) enum Parent<'a> {
    /// This process, whose pid this is.
    Caller(Pid),
    /// The parent of this process, by a pidfd: in another pid namespace it has no pid.
    Sibling(BorrowedFd<'a>),
}

/// Starts the leader, in a session and a group of its own, which the kernel kills when its parent dies. A
/// ruleset confines it, and not this process, which has to signal and to look.
///
/// The new process borrows the memory of this one, which stands still until then, as `posix_spawn` does
/// it: to copy its page tables and to share its pages would take longer than all the rest.
pub(super) fn start(job: &Job, parent: Parent<'_>, sandbox: Option<&OwnedFd>) -> io::Result<Pid> {
    let image = Image::new(job)?;
    let (argv, script, env) = (image.argv(), image.script(), image.env());
    let leader = Leader {
        program: &image.program,
        argv: argv.as_ptr(),
        script: script.as_ptr(),
        env: env.as_ptr(),
        parent,
        ruleset: sandbox.map(std::os::fd::AsRawFd::as_raw_fd),
        errno: AtomicI32::new(0),
    };
    let mut stack = vec![MaybeUninit::<u128>::uninit(); CHILD_STACK / size_of::<u128>()];
    let related = match parent {
        Parent::Caller(_) => 0,
        Parent::Sibling(_) => libc::CLONE_PARENT,
    };
    let flags = libc::CLONE_VM | libc::CLONE_VFORK | libc::SIGCHLD | related;
    // SAFETY: the stack grows down from its end, which is aligned, and is large enough for `become_leader`.
    // That function only makes system calls, and touches no memory but its stack, errno and what `leader`
    // refers to; all of that outlives it, since this thread, the only one, stands still until it has
    // called exec or exit. All signals are blocked, and none has a handler that could run meanwhile.
    let pid = unsafe {
        let top = stack.as_mut_ptr().add(stack.len()).cast();
        libc::clone(become_leader, top, flags, ptr::from_ref(&leader).cast_mut().cast())
    };
    let pid = match pid {
        -1 => return Err(io::Error::last_os_error()),
        pid => Pid::from_raw(pid).ok_or(Errno::RANGE)?,
    };
    match leader.errno.load(Ordering::Relaxed) {
        0 => Ok(pid),
        errno => {
            // It has exited without having been anything; nothing else waits for it. A sibling is waited for
            // by its parent.
            let _ = rustix::process::waitpid(Some(pid), rustix::process::WaitOptions::empty());
            Err(io::Error::from_raw_os_error(errno))
        }
    }
}

/// The words that the kernel is given.
struct Image {
    program: CString,
    args: Vec<CString>,
    env: Vec<CString>,
}

impl Image {
    fn new(job: &Job) -> io::Result<Self> {
        let word = |bytes: &[u8]| CString::new(bytes).map_err(io::Error::from);
        let env = job.env.iter().map(|(name, value)| {
            word(&[name.as_bytes(), b"=".as_slice(), value.as_bytes()].concat())
        });
        Ok(Self {
            program: word(job.program.as_bytes())?,
            args: job.args.iter().map(|arg| word(arg.as_bytes())).collect::<io::Result<_>>()?,
            env: env.collect::<io::Result<_>>()?,
        })
    }

    fn argv(&self) -> Vec<*const libc::c_char> {
        pointers(std::iter::once(&*self.program).chain(self.args.iter().map(|arg| &**arg)))
    }

    /// The same for a shell that runs it.
    fn script(&self) -> Vec<*const libc::c_char> {
        let words = [SHELL, &self.program];
        pointers(words.into_iter().chain(self.args.iter().map(|arg| &**arg)))
    }

    fn env(&self) -> Vec<*const libc::c_char> {
        pointers(self.env.iter().map(|variable| &**variable))
    }
}

/// Ends with a null.
fn pointers<'a>(words: impl Iterator<Item = &'a CStr>) -> Vec<*const libc::c_char> {
    words.map(CStr::as_ptr).chain([ptr::null()]).collect()
}

/// What the new process needs to become the leader.
struct Leader<'a> {
    program: &'a CStr,
    argv: *const *const libc::c_char,
    script: *const *const libc::c_char,
    env: *const *const libc::c_char,
    parent: Parent<'a>,
    ruleset: Option<RawFd>,
    /// Why it could not.
    errno: AtomicI32,
}

/// What the new process does. Returns only if it fails, and has exited then.
extern "C" fn become_leader(leader: *mut libc::c_void) -> libc::c_int {
    // SAFETY: `start` hands over a `Leader` that outlives this.
    let leader = unsafe { &*leader.cast::<Leader<'_>>().cast_const() };
    let error = match prepare(leader.parent, leader.ruleset) {
        Ok(()) => exec(leader),
        Err(error) => error,
    };
    leader.errno.store(error.raw_os_error().unwrap_or(libc::EINVAL), Ordering::Relaxed);
    libc::EXIT_FAILURE
}

fn prepare(parent: Parent<'_>, ruleset: Option<RawFd>) -> io::Result<()> {
    // Without a terminal nothing in the tree can wait for a key, nor be stopped by one.
    rustix::process::setsid()?;
    rustix::process::set_parent_process_death_signal(Some(Signal::KILL))?;
    let alive = match parent {
        Parent::Caller(own) => rustix::process::getppid() == Some(own),
        Parent::Sibling(handle) => !has_ended(handle)?,
    };
    if !alive {
        // The parent died before the kernel was asked.
        return Err(Errno::SRCH.into());
    }
    ruleset.map_or(Ok(()), confine)?;
    let mut none = MaybeUninit::uninit();
    // SAFETY: sigemptyset initialises the set before it is read.
    unsafe {
        libc::sigemptyset(none.as_mut_ptr());
        libc::sigprocmask(libc::SIG_SETMASK, none.as_ptr(), ptr::null_mut());
    }
    Ok(())
}

/// Whether the process of a pidfd has ended.
pub(super) fn has_ended(process: BorrowedFd<'_>) -> io::Result<bool> {
    let mut fds = [PollFd::from_borrowed_fd(process, PollFlags::IN)];
    Ok(poll(&mut fds, Some(&Timespec { tv_sec: 0, tv_nsec: 0 }))? > 0)
}

/// Returns why it failed, if it returns.
fn exec(leader: &Leader<'_>) -> io::Error {
    // SAFETY: the words end with a NUL each, and the lists of them with a null; all outlive the calls.
    unsafe {
        libc::execve(leader.program.as_ptr(), leader.argv, leader.env);
        if *libc::__errno_location() == libc::ENOEXEC {
            libc::execve(SHELL.as_ptr(), leader.script, leader.env);
        }
    }
    io::Error::last_os_error()
}

/// Returns a child that ended, and leaves it a zombie: its pid is not reused before it is reaped. `None` if
/// no child has ended; [`Errno::CHILD`] if there is no child.
pub(super) fn peek_exited_child() -> Result<Option<(Pid, Status)>, Errno> {
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
