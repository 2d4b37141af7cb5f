//! Signals that request a stop of the run.

use std::io::IsTerminal as _;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU8, Ordering};
use std::time::Duration;

use ralph_orchestrator_assembly::error::exit;
use ralph_orchestrator_engine::{StopRequest, StopRequests};
use ralph_orchestrator_supervisor::KillSwitch;
use tokio::runtime::{Builder, Runtime};
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::watch;

use crate::activity::Activity;
use crate::output;

/// At the third request there is nothing more to wait for.
const EXIT_AT_ONCE: u32 = 3;
/// How long after the first request a job ends what it has started: as long as the steps of ending an agent take.
const JOB_GRACE: Duration = Duration::from_secs(10);

/// The stop requests received so far.
pub struct Signals {
    /// The exit status of the first of them; without any, that of a stop that was requested by a control.
    pub status: Arc<AtomicU8>,
    /// Pulled at the second: to be given to every supervisor.
    pub switch: KillSwitch,
    requests: StopRequests,
    running: Arc<AtomicBool>,
    is_job: Arc<AtomicBool>,
}

impl Signals {
    /// Returns the stop requests, for what waits for them while the run is at work.
    pub fn watch_requests(&self) -> StopRequests {
        self.requests.clone()
    }

    /// Marks the run as started and returns its stop requests. Until then a signal just ends the program.
    pub fn stop_requests(&self) -> StopRequests {
        self.running.store(true, Ordering::SeqCst);
        self.requests.clone()
    }

    /// The same for a job. Its agents end by themselves after a request; whatever else it runs then, such as a
    /// verifier, a RUN line or the build of an image, has some seconds to end before it is killed.
    pub fn job_stop_requests(&self) -> StopRequests {
        self.is_job.store(true, Ordering::SeqCst);
        self.stop_requests()
    }
}

/// Receives SIGINT, SIGTERM and SIGHUP in a thread of its own, so that they are handled whatever the
/// rest of the program waits for: a lock, a slow disk, an agent that does not end.
pub fn listen() -> std::io::Result<Signals> {
    let (sender, requests) = watch::channel(StopRequest::default());
    let signals = Signals {
        status: Arc::new(AtomicU8::new(exit::TERMINATED)),
        switch: KillSwitch::default(),
        requests,
        running: Arc::new(AtomicBool::new(false)),
        is_job: Arc::new(AtomicBool::new(false)),
    };
    let runtime = Builder::new_current_thread().enable_all().build()?;
    let mut stop_signals = StopSignals::catch(&runtime)?;
    let (first, switch) = (Arc::clone(&signals.status), signals.switch.clone());
    let (running, is_job) = (Arc::clone(&signals.running), Arc::clone(&signals.is_job));
    let listener = move || {
        loop {
            let (status, is_hangup) = runtime.block_on(stop_signals.next());
            let request = *sender.borrow();
            let count = request.times.saturating_add(1);
            if count == 1 {
                first.store(status, Ordering::Relaxed);
            } else {
                switch.pull();
            }
            if !running.load(Ordering::SeqCst) || count >= EXIT_AT_ONCE {
                switch.pull();
                std::process::exit(i32::from(first.load(Ordering::Relaxed)));
            }
            // First of all: to say it must not keep anything from happening.
            let is_hangup = request.is_hangup || is_hangup && count == 1;
            sender.send_replace(StopRequest { times: count, is_hangup });
            output::shorten_drain();
            let is_job = is_job.load(Ordering::SeqCst);
            if is_job && count == 1 {
                let switch = switch.clone();
                let killer = move || {
                    std::thread::sleep(JOB_GRACE);
                    switch.pull();
                };
                // Without a thread, the next request kills.
                drop(std::thread::Builder::new().name("job end".to_owned()).spawn(killer));
            }
            let what =
                if is_job { job_message(count) } else { run_message(count, Activity::now()) };
            output::info(&stop_message(count, what));
        }
    };
    std::thread::Builder::new().name("signals".to_owned()).spawn(listener)?;
    Ok(signals)
}

/// The signal that ends a command which has something to put in order first.
#[derive(Clone)]
pub struct EndSignal(watch::Receiver<u8>);

impl EndSignal {
    /// Returns the exit status of the signal; `None` as long as there was none.
    pub fn status(&self) -> Option<u8> {
        Some(*self.0.borrow()).filter(|status| *status > 0)
    }

    /// Waits for the signal.
    pub async fn wait(&self) {
        // Where nobody can send it any more, it never comes.
        if self.0.clone().wait_for(|status| *status > 0).await.is_err() {
            std::future::pending::<()>().await;
        }
    }
}

/// Receives the same signals for a command that has no run. The second of them ends the program at once.
pub fn listen_for_end() -> std::io::Result<EndSignal> {
    let (sender, received) = watch::channel(0);
    let runtime = Builder::new_current_thread().enable_all().build()?;
    let mut stop_signals = StopSignals::catch(&runtime)?;
    let listener = move || {
        let (status, _) = runtime.block_on(stop_signals.next());
        sender.send_replace(status);
        std::process::exit(i32::from(runtime.block_on(stop_signals.next()).0));
    };
    std::thread::Builder::new().name("signals".to_owned()).spawn(listener)?;
    Ok(EndSignal(received))
}

/// Returns what a request to stop a run leads to.
const fn run_message(count: u32, activity: Activity) -> &'static str {
    if count == 1 { activity.stopping() } else { activity.killing() }
}

/// Returns what a request to stop a job leads to.
const fn job_message(count: u32) -> &'static str {
    if count == 1 {
        "stopping: what runs has 10 s to end, and its trials are left to be performed"
    } else {
        "killing what runs at once"
    }
}

/// Returns what a request to stop leads to, and what the next one would.
fn stop_message(count: u32, what: &str) -> String {
    let again = if std::io::stderr().is_terminal() { "press Ctrl-C again" } else { "signal again" };
    match count {
        1 => format!("{what} ({again} to kill what runs)"),
        _ => format!("{what} ({again} to exit without waiting)"),
    }
}

struct StopSignals {
    interrupt: Signal,
    terminate: Signal,
    hangup: Option<Signal>,
}

impl StopSignals {
    fn catch(runtime: &Runtime) -> std::io::Result<Self> {
        let _entered = runtime.enter();
        // A limit on the size of files is an error of the write then, and not the end of the program without a word.
        drop(signal(SignalKind::from_raw(rustix::process::Signal::XFSZ.as_raw()))?);
        Ok(Self {
            interrupt: signal(SignalKind::interrupt())?,
            terminate: signal(SignalKind::terminate())?,
            // Whoever started this with it ignored, such as `nohup`, wants it to go on.
            hangup: match is_ignored(SignalKind::hangup()) {
                true => None,
                false => Some(signal(SignalKind::hangup())?),
            },
        })
    }

    /// The exit status of the next signal, and whether that says that the terminal went away.
    async fn next(&mut self) -> (u8, bool) {
        tokio::select! {
            _ = self.interrupt.recv() => (exit::INTERRUPTED, false),
            _ = self.terminate.recv() => (exit::TERMINATED, false),
            () = hangup_received(self.hangup.as_mut()) => (exit::TERMINATED, true),
        }
    }
}

async fn hangup_received(hangup: Option<&mut Signal>) {
    match hangup {
        Some(hangup) => drop(hangup.recv().await),
        None => std::future::pending().await,
    }
}

/// Whether a signal is ignored by this process; not if the system does not tell.
fn is_ignored(kind: SignalKind) -> bool {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let bit = u32::try_from(kind.as_raw_value()).ok().and_then(|number| number.checked_sub(1));
    ignores(&status).zip(bit).is_some_and(|(mask, bit)| mask.checked_shr(bit).unwrap_or(0) & 1 == 1)
}

/// The mask of ignored signals.
fn ignores(status: &str) -> Option<u64> {
    let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:"))?;
    u64::from_str_radix(mask.trim(), 16).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_mask_of_ignored_signals_is_read() {
        assert_eq!(ignores("Name:\tx\nSigIgn:\t0000000000001001\nSigCgt:\t00\n"), Some(0x1001));
        assert_eq!(ignores("Name:\tx\n"), None);
        assert!(is_ignored(SignalKind::pipe()), "the standard library ignores it");
        assert!(!is_ignored(SignalKind::user_defined2()));
    }
}
