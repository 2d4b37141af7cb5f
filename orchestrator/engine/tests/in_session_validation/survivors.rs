//! Processes of the agent that could not be ended: what they may still change is not validated.

use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use ralph_orchestrator_contract::{
    CancelSignal, EventSink, Iteration, Survivor, ValidationContext, Verdict,
};
use ralph_orchestrator_engine::{Processes, StopRequest};
use ralph_orchestrator_machine::{Latch, Record, StopReason};
use tokio::sync::{Notify, watch};

use super::play::{After, Play, Stage, run, run_with};

/// A process of the test's own that stands for one that nobody can end.
struct Deaf(Mutex<Child>);

#[allow(clippy::disallowed_methods)]
impl Deaf {
    fn start() -> Arc<Self> {
        let mut command = Command::new("/bin/sleep");
        let child = command.arg("1000").stdin(Stdio::null()).spawn().unwrap();
        Arc::new(Self(Mutex::new(child)))
    }

    fn survivor(&self) -> Survivor {
        let pid = i32::try_from(self.0.lock().unwrap().id()).unwrap();
        Survivor { name: "sleep".into(), pid, started: started(pid).unwrap() }
    }

    fn end(&self) {
        let mut child = self.0.lock().unwrap();
        child.kill().unwrap();
        child.wait().unwrap();
    }
}

impl Drop for Deaf {
    fn drop(&mut self) {
        self.end();
    }
}

/// When a process was started, if it is there and no zombie.
fn started(pid: i32) -> Option<u64> {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    let fields: Vec<&str> = stat.rsplit_once(')')?.1.split_whitespace().collect();
    (fields[0] != "Z").then(|| fields[19].parse().unwrap())
}

/// Looks for them, and kills nobody.
struct Powerless {
    asked: Arc<Notify>,
    /// When it says the iteration began.
    now: u64,
}

#[async_trait]
impl Processes for Powerless {
    fn clock_ticks(&self) -> u64 {
        self.now
    }

    fn of_iteration(&self, _run: &str, _iteration: u64) -> Vec<Survivor> {
        Vec::new()
    }

    fn end(&self, _run: &str, _iteration: u64, survivors: Vec<Survivor>) -> Vec<Survivor> {
        self.asked.notify_one();
        survivors.into_iter().filter(|one| started(one.pid) == Some(one.started)).collect()
    }

    fn are_busy(&self, _run: &str, _iteration: u64, _window: Duration) -> bool {
        false
    }

    async fn check_layers(&self, _storage: &Path, _folder: &Path) -> Result<(), String> {
        Err("it starts no process".to_owned())
    }
}

/// Claims at once, and leaves a process behind in its first iteration.
struct Outlived {
    deaf: Arc<Deaf>,
    asked: Arc<Notify>,
    now: u64,
}

impl Outlived {
    fn new() -> Self {
        Self { deaf: Deaf::start(), asked: Arc::default(), now: 0 }
    }
}

#[async_trait]
impl Play for Outlived {
    async fn work(&self, stage: &Stage, _task: Iteration, events: &dyn EventSink) {
        stage.write("done", "1\n");
        stage.claim(events).await;
    }

    fn survived(&self, iteration: u64) -> Vec<Survivor> {
        if iteration == 1 { vec![self.deaf.survivor()] } else { Vec::new() }
    }

    fn processes(&self) -> Arc<dyn Processes> {
        Arc::new(Powerless { asked: Arc::clone(&self.asked), now: self.now })
    }

    async fn validate(
        &self,
        stage: &Stage,
        _context: ValidationContext<'_>,
        _cancel: &dyn CancelSignal,
    ) -> Verdict {
        let survivor = self.deaf.survivor_if_alive();
        stage.say(if survivor { "validated beside it" } else { "validated alone" });
        stage.verdict()
    }
}

impl Deaf {
    fn survivor_if_alive(&self) -> bool {
        started(i32::try_from(self.0.lock().unwrap().id()).unwrap()).is_some()
    }
}

fn journalled(after: &After) -> Vec<Survivor> {
    let survived = after.records.iter().filter_map(|record| match record {
        Record::IterationEnded { survived, .. } => Some(survived.clone()),
        _ => None,
    });
    survived.flatten().collect()
}

#[tokio::test]
async fn the_work_is_validated_only_when_they_have_gone() {
    let play = Outlived::new();
    let (deaf, asked) = (Arc::clone(&play.deaf), Arc::clone(&play.asked));
    let survivor = deaf.survivor();
    let ends = async {
        // It is looked for more than once before it ends.
        for _ in 0..3 {
            asked.notified().await;
        }
        deaf.end();
    };
    let (after, ()) = tokio::join!(run(play, ""), ends);
    assert_eq!(after.said, ["validated alone"]);
    assert_eq!(after.finished.reason, StopReason::Completed);
    assert_eq!(journalled(&after), std::slice::from_ref(&survivor));
    let named = format!("could not be ended: {survivor}");
    assert!(
        after.shown.iter().filter(|text| text.contains(&named)).count() >= 2,
        "{:?}",
        after.shown
    );
}

#[tokio::test]
async fn one_that_never_goes_stops_the_run_and_is_named() {
    let play = Outlived::new();
    let survivor = play.deaf.survivor();
    let after = run(play, "max_runtime = \"2s\"\n").await;
    assert_eq!(after.said, [""; 0], "nothing was validated");
    assert_eq!(after.finished.reason, StopReason::NeedsHuman);
    assert!(after.finished.message.contains(&survivor.to_string()), "{}", after.finished.message);
    assert!(matches!(after.finished.state.latch, Latch::Claimed { .. }), "the claim is kept");
}

#[tokio::test]
async fn a_signal_ends_the_wait() {
    let play = Outlived::new();
    let asked = Arc::clone(&play.asked);
    let (ask, asks) = watch::channel(StopRequest::default());
    let signal = async {
        asked.notified().await;
        ask.send_replace(StopRequest { times: 1, is_hangup: false });
    };
    let (after, ()) = tokio::join!(run_with(play, "", asks), signal);
    assert_eq!((after.finished.reason, after.said.len()), (StopReason::Interrupted, 0));
}

#[tokio::test]
async fn one_that_is_older_than_the_iteration_is_named_and_not_waited_for() {
    let play = Outlived::new();
    let survivor = play.deaf.survivor();
    let play = Outlived { now: survivor.started + 1, ..play };
    let after = run(play, "").await;
    assert_eq!(after.said, ["validated beside it"]);
    assert_eq!(after.finished.reason, StopReason::Completed);
    assert_eq!(journalled(&after), []);
    let named = format!("older than the iteration, and is not waited for: {survivor}");
    assert!(after.shown.iter().any(|text| text.contains(&named)), "{:?}", after.shown);
}

/// One whose process has gone when it is looked for, and whose pid another one has.
struct Reused(Outlived);

#[async_trait]
impl Play for Reused {
    async fn work(&self, stage: &Stage, task: Iteration, events: &dyn EventSink) {
        self.0.work(stage, task, events).await;
    }

    fn survived(&self, _iteration: u64) -> Vec<Survivor> {
        let survivor = self.0.deaf.survivor();
        vec![Survivor { started: survivor.started - 1, ..survivor }]
    }

    fn processes(&self) -> Arc<dyn Processes> {
        self.0.processes()
    }
}

#[tokio::test]
async fn who_only_has_the_same_pid_is_not_waited_for() {
    let after = run(Reused(Outlived::new()), "").await;
    assert_eq!(after.finished.reason, StopReason::Completed);
}
