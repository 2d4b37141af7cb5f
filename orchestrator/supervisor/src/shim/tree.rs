//! The process tree under the shim, from the leader's start until nothing is left of it.

use std::collections::HashSet;
use std::os::fd::{AsFd as _, OwnedFd};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::process::{
    Pid, PidfdFlags, Signal, WaitOptions, kill_process, kill_process_group, pidfd_open,
    pidfd_send_signal, waitpid,
};

use super::ladder::{Act, Ladder};
use super::link::{Heard, Link};
use super::sys;
use crate::procfs::{self, Stat};
use crate::spec::{Grace, Stop};
use crate::survivor::Survivor;
use crate::wire::{Report, Status};

/// How many names a report lists at most.
const NAMES: usize = 32;
/// How many processes that live on it lists at most.
const SURVIVORS: usize = 1024;

pub(super) struct Tree<'a> {
    own: Pid,
    leader: Pid,
    link: &'a mut Link,
    ladder: Ladder,
    leader_ended: bool,
    /// The leader's pid, and so its group's id, may belong to somebody else by now.
    leader_reaped: bool,
    /// The orchestrator asked to stop it.
    asked: bool,
    /// SIGKILL was sent to the leader.
    killed: bool,
    /// The group got its SIGTERM, and these processes theirs. One is enough: a second one makes some
    /// programs leave their cleaning up.
    group_told: bool,
    told: HashSet<(i32, u64)>,
    left_behind: Vec<String>,
    survived: Vec<Survivor>,
}

impl<'a> Tree<'a> {
    pub(super) fn new(own: Pid, leader: Pid, grace: Grace, link: &'a mut Link) -> Self {
        Self {
            own,
            leader,
            link,
            ladder: Ladder::new(grace),
            leader_ended: false,
            leader_reaped: false,
            asked: false,
            killed: false,
            group_told: false,
            told: HashSet::new(),
            left_behind: Vec::new(),
            survived: Vec::new(),
        }
    }

    /// Returns when no descendant is left, or when those that are cannot be ended: then false.
    pub(super) fn watch(mut self, signals: &OwnedFd) -> bool {
        while !self.reap() {
            match self.ladder.due(Instant::now()) {
                Some(Act::GiveUp) => {
                    self.survived = self.rest().into_iter().map(Survivor::from).collect();
                    self.survived.truncate(SURVIVORS);
                    break;
                }
                Some(act) => self.perform(act),
                None => self.wait(signals),
            }
        }
        let (left_behind, survived) = (self.left_behind, self.survived);
        let ended = survived.is_empty();
        self.link.send(&Report::Gone { left_behind, survived });
        ended
    }

    /// Reaps who ended, and tells whether nobody is left.
    fn reap(&mut self) -> bool {
        loop {
            match sys::peek() {
                Ok(Some((pid, status))) => {
                    if pid == self.leader {
                        self.leader_ended(status);
                    }
                    // It is a zombie, so this cannot wait; were it to fail, the next look would find
                    // the same one again.
                    let _ = waitpid(Some(pid), WaitOptions::NOHANG);
                    self.leader_reaped |= pid == self.leader;
                }
                Ok(None) => return false,
                Err(Errno::INTR) => {}
                Err(_) => return true,
            }
        }
    }

    /// Goes on while the leader is a zombie: its group's id still means its group.
    fn leader_ended(&mut self, status: Status) {
        self.leader_ended = true;
        // What its descendants left is this process's child by now.
        let alone = procfs::only_child(self.leader.as_raw_pid());
        if !self.asked && !alone {
            self.left_behind = names(&self.rest());
        }
        let (stopped, killed) = (self.asked, self.killed);
        self.link.send(&Report::LeaderEnded { status, stopped, killed });
        if alone {
            return;
        }
        if let Some(act) = self.ladder.leader_ended(Instant::now()) {
            self.perform(act);
        }
    }

    fn perform(&mut self, act: Act) {
        match act {
            Act::Interrupt => {
                self.signal_group(Signal::INT);
                self.signal_group(Signal::CONT);
            }
            Act::Terminate => self.terminate(),
            Act::Kill => self.kill(),
            Act::GiveUp => {}
        }
    }

    fn terminate(&mut self) {
        let rest = self.rest();
        let tell_group = !self.group_told;
        if tell_group {
            self.group_told = true;
            self.signal_group(Signal::TERM);
            // A stopped process acts on a signal only when it is continued.
            self.signal_group(Signal::CONT);
        }
        for process in rest {
            let by_group = tell_group && process.group == self.leader.as_raw_pid();
            if self.told.insert((process.pid, process.started)) && !by_group {
                signal(&process, Signal::TERM);
                signal(&process, Signal::CONT);
            }
        }
    }

    fn kill(&mut self) {
        let rest = self.rest();
        if !self.leader_ended {
            self.killed = true;
        } else if self.asked && self.left_behind.is_empty() {
            self.left_behind = names(&rest);
        }
        self.signal_group(Signal::KILL);
        for process in rest {
            signal(&process, Signal::KILL);
        }
    }

    /// Signals the leader's group. That it may be empty by now is no error.
    fn signal_group(&self, signal: Signal) {
        if !self.leader_reaped {
            let _ = kill_process_group(self.leader, signal);
        }
    }

    /// The living descendants, without the leader, who is always reached by its group.
    fn rest(&self) -> Vec<Stat> {
        let mut all = procfs::descendants(self.own.as_raw_pid());
        all.retain(|p| !p.zombie && p.pid != self.leader.as_raw_pid());
        all
    }

    /// Waits for an order, a signal, or the next step.
    fn wait(&mut self, signals: &OwnedFd) {
        let timeout = self.ladder.idle(Instant::now()).map(round_up);
        let mut fds = vec![PollFd::new(signals, PollFlags::IN)];
        fds.extend(self.link.to_poll().map(|fd| PollFd::from_borrowed_fd(fd, PollFlags::IN)));
        // An interrupted or failed poll is like one that found nothing: the loop looks at everything
        // anyway.
        let _ = poll(&mut fds, timeout.as_ref());
        drop(fds);
        let mut stop = told_by_signal(signals);
        match self.link.hear() {
            Some(Heard::Order(order)) => {
                self.asked |= !self.leader_ended;
                stop = stop.max(Some(order));
            }
            Some(Heard::End) => stop = stop.max(Some(Stop::Terminate)),
            None => {}
        }
        if let Some(act) = stop.and_then(|stop| self.ladder.ask(stop, Instant::now())) {
            self.perform(act);
        }
    }
}

/// Empties the signalfd. SIGCHLD only wakes; SIGTERM or SIGINT means that somebody outside wants this
/// process to end, which it does by ending its tree.
fn told_by_signal(signals: &OwnedFd) -> Option<Stop> {
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

/// Signals the very process that was found, never one that got its pid since.
pub(crate) fn signal(process: &Stat, signal: Signal) {
    let Some(pid) = Pid::from_raw(process.pid) else { return };
    let handle = pidfd_open(pid, PidfdFlags::empty());
    if procfs::stat(process.pid).is_none_or(|now| now.started != process.started) {
        return;
    }
    // It may end at any time, or belong to another user; who is left is seen afterwards.
    let _ = match handle {
        Ok(handle) => pidfd_send_signal(&handle, signal),
        // Out of descriptors, or an old kernel: the pid was right a moment ago.
        Err(_) => kill_process(pid, signal),
    };
}

fn names(processes: &[Stat]) -> Vec<String> {
    let mut names: Vec<String> = processes.iter().map(|p| p.name.clone()).collect();
    names.sort();
    if names.len() > NAMES {
        let more = names.len() - NAMES;
        names.truncate(NAMES);
        names.push(format!("and {more} more"));
    }
    names
}

/// So that a poll does not return a moment too early, and is called again for nothing.
fn round_up(duration: Duration) -> Timespec {
    let millis = duration.as_millis().saturating_add(1);
    let seconds = i64::try_from(millis / 1000).unwrap_or(i64::MAX);
    let nanos = i64::try_from(millis % 1000).unwrap_or(0) * 1_000_000;
    Timespec { tv_sec: seconds, tv_nsec: nanos }
}
