//! The process tree under the shim, from the leader's start until it is gone.

use std::collections::HashSet;
use std::os::fd::{AsFd as _, OwnedFd};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::process::{
    Pid, PidfdFlags, Signal, WaitOptions, kill_process, kill_process_group, pidfd_open,
    pidfd_send_signal, waitpid,
};

use super::control_socket::{ControlMessage, ControlSocket};
use super::escalation::{StopAction, StopEscalation};
use super::sys;
use super::transient::remove_transient;
use crate::procfs::{self, Stat};
use crate::shim::namespace_init::NamespaceInit;
use crate::spec::{Grace, Stop};
use crate::survivor::Survivor;
use crate::wire::{Report, Status};

/// The number of names in a report.
const MAX_NAMES: usize = 32;
/// The number of survivors in a report.
const MAX_SURVIVORS: usize = 1024;

pub(super) struct ProcessTree<'a> {
    own: Pid,
    leader: Pid,
    /// Pid 1 of the tree's own root or view, until it is reaped.
    init: Option<Pid>,
    /// Closed when init shall exit after the last process inside.
    init_lifeline: Option<OwnedFd>,
    socket: &'a mut ControlSocket,
    escalation: StopEscalation,
    leader_ended: bool,
    /// The leader's pid, and so its group's id, may have been reused.
    leader_reaped: bool,
    /// The orchestrator requested a stop.
    stop_requested: bool,
    /// SIGKILL was sent to the leader.
    killed: bool,
    /// Whether the group, and which processes, got SIGTERM. It is sent once: a second one makes some
    /// programs abort their cleanup.
    group_terminated: bool,
    terminated: HashSet<(i32, u64)>,
    left_behind: Vec<String>,
    survived: Vec<Survivor>,
}

impl<'a> ProcessTree<'a> {
    pub(super) fn new(
        own: Pid,
        leader: Pid,
        init: Option<NamespaceInit>,
        grace: Grace,
        socket: &'a mut ControlSocket,
    ) -> Self {
        Self {
            own,
            leader,
            init: init.as_ref().map(|init| init.pid),
            init_lifeline: init.map(|init| init.lifeline),
            socket,
            escalation: StopEscalation::new(grace),
            leader_ended: false,
            leader_reaped: false,
            stop_requested: false,
            killed: false,
            group_terminated: false,
            terminated: HashSet::new(),
            left_behind: Vec::new(),
            survived: Vec::new(),
        }
    }

    /// Waits until no descendant is left. Returns false if some cannot be ended.
    pub(super) fn supervise(mut self, signals: &OwnedFd) -> bool {
        while !self.reap() {
            match self.escalation.due(Instant::now()) {
                Some(StopAction::GiveUp) => {
                    self.survived = self.remaining().into_iter().map(Survivor::from).collect();
                    self.survived.truncate(MAX_SURVIVORS);
                    break;
                }
                Some(action) => self.perform(action),
                None => self.wait(signals),
            }
        }
        let (left_behind, survived) = (self.left_behind, self.survived);
        let ended = survived.is_empty();
        self.socket.send(&Report::Gone { left_behind, survived });
        ended
    }

    /// Reaps children that ended. Returns whether none is left.
    fn reap(&mut self) -> bool {
        loop {
            match sys::peek_exited_child() {
                Ok(Some((pid, status))) => {
                    if pid == self.leader {
                        self.leader_ended(status);
                    }
                    // It is a zombie, so this does not wait; on failure it is found again.
                    let _ = waitpid(Some(pid), WaitOptions::NOHANG);
                    self.leader_reaped |= pid == self.leader;
                    self.init.take_if(|init| *init == pid);
                }
                Ok(None) => return false,
                Err(Errno::INTR) => {}
                Err(_) => return true,
            }
        }
    }

    /// Handles the end of the leader while it is a zombie, so that its group's id is not reused.
    fn leader_ended(&mut self, status: Status) {
        self.leader_ended = true;
        // Its orphans are this process's children by now.
        let alone = match &self.init {
            None => procfs::only_child(self.leader.as_raw_pid()),
            Some(_) => self.remaining().is_empty(),
        };
        let mut finishes = false;
        if !self.stop_requested && !alone {
            let mut remaining = self.remaining();
            finishes = remove_transient(&mut remaining) && remaining.is_empty();
            self.left_behind = names(&remaining);
        }
        let (stopped, killed) = (self.stop_requested, self.killed);
        // It is sent with the report of the tree's end, if that is the next thing to happen.
        self.socket.queue(&Report::LeaderEnded { status, stopped, killed });
        drop(self.init_lifeline.take());
        if alone {
            self.kill_init();
            return;
        }
        let now = Instant::now();
        let action = match finishes {
            true => self.escalation.finish(now),
            false => self.escalation.leader_ended(now),
        };
        if let Some(action) = action {
            self.perform(action);
        }
    }

    fn perform(&mut self, action: StopAction) {
        match action {
            StopAction::Interrupt => {
                self.signal_group(Signal::INT);
                self.signal_group(Signal::CONT);
            }
            StopAction::Terminate => self.terminate(),
            StopAction::Kill => self.kill(),
            StopAction::GiveUp => {}
        }
    }

    fn terminate(&mut self) {
        let remaining = self.remaining();
        let signal_group = !self.group_terminated;
        if signal_group {
            self.group_terminated = true;
            self.signal_group(Signal::TERM);
            // A stopped process acts on a signal only when it is continued.
            self.signal_group(Signal::CONT);
        }
        for process in remaining {
            let by_group = signal_group && process.group == self.leader.as_raw_pid();
            if self.terminated.insert((process.pid, process.started)) && !by_group {
                signal(&process, Signal::TERM);
                signal(&process, Signal::CONT);
            }
        }
    }

    fn kill(&mut self) {
        if !self.leader_ended {
            self.killed = true;
            // The kernel is faster than any scan, even where processes are forked all the time.
            self.kill_init();
        }
        let remaining = self.remaining();
        if self.leader_ended && self.stop_requested && self.left_behind.is_empty() {
            self.left_behind = names(&remaining);
        }
        self.signal_group(Signal::KILL);
        self.kill_init();
        for process in remaining {
            signal(&process, Signal::KILL);
        }
    }

    /// Kills pid 1 of the tree's own root or view, and so, by the kernel, everything inside.
    fn kill_init(&self) {
        if let Some(init) = self.init {
            let _ = kill_process(init, Signal::KILL);
        }
    }

    /// Signals the leader's group, which may be empty by now.
    fn signal_group(&self, signal: Signal) {
        if !self.leader_reaped {
            let _ = kill_process_group(self.leader, signal);
        }
    }

    /// Returns the living descendants without the leader, which is signalled by its group, and without init, which
    /// ends by itself.
    fn remaining(&self) -> Vec<Stat> {
        let apart = [Some(self.leader), self.init].map(|pid| pid.map(Pid::as_raw_pid));
        let mut all = procfs::descendants(self.own.as_raw_pid());
        all.retain(|p| !p.zombie && !apart.contains(&Some(p.pid)));
        all
    }

    /// Waits for a message, a signal, or the next action.
    fn wait(&mut self, signals: &OwnedFd) {
        self.socket.flush();
        let timeout = self.escalation.time_to_next(Instant::now()).map(round_up);
        let mut fds = vec![PollFd::new(signals, PollFlags::IN)];
        fds.extend(self.socket.poll_fd().map(|fd| PollFd::from_borrowed_fd(fd, PollFlags::IN)));
        // An interrupted or failed poll is harmless: everything is checked anyway.
        let _ = poll(&mut fds, timeout.as_ref());
        drop(fds);
        let mut stop = stop_by_signal(signals);
        match self.socket.receive_message() {
            Some(ControlMessage::Stop(requested)) => {
                self.stop_requested |= !self.leader_ended;
                stop = stop.max(Some(requested));
            }
            Some(ControlMessage::Closed) => stop = stop.max(Some(Stop::Terminate)),
            None => {}
        }
        if let Some(action) = stop.and_then(|stop| self.escalation.request(stop, Instant::now())) {
            self.perform(action);
        }
    }
}

/// Drains the signalfd. SIGCHLD only wakes; SIGTERM or SIGINT asks this process to end, which it does by
/// ending its tree.
fn stop_by_signal(signals: &OwnedFd) -> Option<Stop> {
    let mut stop = None;
    // One signalfd_siginfo at a time; its first field is the signal's number.
    let mut info = [0_u8; size_of::<libc::signalfd_siginfo>()];
    while let Ok(1..) = rustix::io::read(signals.as_fd(), &mut info) {
        let number = info.first_chunk().map(|bytes| i32::from_ne_bytes(*bytes));
        if number != Some(libc::SIGCHLD) {
            stop = Some(Stop::Terminate);
        }
    }
    stop
}

/// Signals exactly this process, never another one that got its pid since.
pub(crate) fn signal(process: &Stat, signal: Signal) {
    let Some(pid) = Pid::from_raw(process.pid) else { return };
    let handle = pidfd_open(pid, PidfdFlags::empty());
    if procfs::stat(process.pid).is_none_or(|now| now.started != process.started) {
        return;
    }
    // It may end at any time, or belong to another user; survivors are found afterwards.
    let _ = match handle {
        Ok(handle) => pidfd_send_signal(&handle, signal),
        // Out of descriptors, or an old kernel: the pid was right a moment ago.
        Err(_) => kill_process(pid, signal),
    };
}

/// Names processes by their command lines, for whoever started them to recognise.
fn names(processes: &[Stat]) -> Vec<String> {
    let name =
        |process: &Stat| procfs::command_line(process.pid).unwrap_or_else(|| process.name.clone());
    let mut names: Vec<String> = processes.iter().map(name).collect();
    names.sort();
    if names.len() > MAX_NAMES {
        let more = names.len() - MAX_NAMES;
        names.truncate(MAX_NAMES);
        names.push(format!("and {more} more"));
    }
    names
}

/// Rounds up, so that a poll does not return too early.
fn round_up(duration: Duration) -> Timespec {
    let millis = duration.as_millis().saturating_add(1);
    let seconds = i64::try_from(millis / 1000).unwrap_or(i64::MAX);
    let nanos = i64::try_from(millis % 1000).unwrap_or(0) * 1_000_000;
    Timespec { tv_sec: seconds, tv_nsec: nanos }
}
