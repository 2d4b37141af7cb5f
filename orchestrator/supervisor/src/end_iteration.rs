//! Ends the processes of an iteration from outside.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use rustix::process::Signal;

use crate::orphans::processes_with_marks;
use crate::procfs;
use crate::shim::signal;
use crate::survivor::Survivor;

/// A killed process is gone in milliseconds, unless the machine is busy.
const KILL_TIME: Duration = Duration::from_secs(1);
const INTERVAL: Duration = Duration::from_millis(5);

/// Sends SIGKILL to the processes of this iteration, see [`iteration_processes`](crate::iteration_processes), and
/// returns those that still live a second later, and those of `survivors` that live. They may be gone a moment
/// later: call it again. Blocks until those that it kills are gone, for a second at most.
///
/// Who is named as a survivor by somebody else, such as a plugin, is only looked for, and not killed.
#[must_use]
pub fn end_iteration(run: &str, iteration: u64, survivors: Vec<Survivor>) -> Vec<Survivor> {
    let until = Instant::now() + KILL_TIME;
    let mut found = processes_with_marks(run, iteration);
    while !found.is_empty() && Instant::now() < until {
        for process in &found {
            signal(process, Signal::KILL);
        }
        std::thread::sleep(INTERVAL);
        found = processes_with_marks(run, iteration);
    }
    let lives = |survivor: &Survivor| {
        procfs::stat(survivor.pid).is_some_and(|now| now.started == survivor.started && !now.zombie)
    };
    let mut all: BTreeSet<Survivor> = found.into_iter().map(Survivor::from).collect();
    all.extend(survivors.into_iter().filter(lives));
    all.into_iter().collect()
}

#[cfg(test)]
#[allow(clippy::disallowed_methods)]
mod tests {
    use std::process::{Child, Command};

    use super::*;

    fn pid(child: &Child) -> i32 {
        i32::try_from(child.id()).unwrap()
    }

    #[test]
    fn ends_who_belongs_to_the_iteration_and_only_looks_for_who_was_named() {
        let run = format!("survivor-{}", std::process::id());
        let sleep = || Command::new("/bin/sleep");
        let marks = [("RALPH_RUN_ID", run.as_str()), ("RALPH_ITERATION", "2")];
        let mut mine = sleep().arg("1000").envs(marks).spawn().unwrap();
        let mut named = sleep().arg("1000").env_clear().spawn().unwrap();
        // Between fork and exec a process has its parent's environment.
        while processes_with_marks(&run, 2).is_empty() {
            std::thread::yield_now();
        }
        let survivor = Survivor::from(procfs::stat(pid(&named)).unwrap());
        let earlier = Survivor { started: survivor.started - 1, ..survivor.clone() };
        // Who was killed is gone, and who had that pid before.
        let left = end_iteration(&run, 2, vec![survivor.clone(), earlier]);
        assert_eq!(left, std::slice::from_ref(&survivor));
        assert!(mine.try_wait().unwrap().is_some());
        assert!(named.try_wait().unwrap().is_none());
        let again = end_iteration(&run, 2, vec![survivor.clone()]);
        assert_eq!(again, std::slice::from_ref(&survivor));
        named.kill().unwrap();
        // Not waited for: a zombie lives no more.
        while procfs::stat(survivor.pid).is_some_and(|process| !process.zombie) {
            std::thread::yield_now();
        }
        assert_eq!(end_iteration(&run, 2, vec![survivor]), []);
        named.wait().unwrap();
    }
}
