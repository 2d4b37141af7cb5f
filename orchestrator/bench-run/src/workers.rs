//! Threads that perform trials, so that what one trial waits for, such as a sync of its journal, does not hold up the
//! others.

use std::cell::RefCell;
use std::thread::{Builder, Scope};
use std::time::Duration;

use async_trait::async_trait;
use ralph_orchestrator_bench::job::{LedgerEntry, StartedTrial, TrialOrder, TrialRunner};
use ralph_orchestrator_bench::trial::TrialRecord;
use ralph_orchestrator_contract::Usd;
use tokio::runtime;
use tokio::sync::{mpsc, oneshot};

use super::runner::Runner;

/// Bytes of a thread's stack: as many as the main thread has, which performs runs elsewhere.
const STACK: usize = 8 << 20;

/// What an attempt came to.
type Ended = (TrialRecord, Vec<LedgerEntry>);

/// An attempt to be performed, and where it is sent what came of it.
struct Assignment {
    order: TrialOrder,
    ended: oneshot::Sender<Ended>,
}

/// Performs each attempt on a thread: one that has nothing to do, or a new one. They end when this is dropped.
pub struct Workers<'scope, 'env> {
    scope: &'scope Scope<'scope, 'env>,
    runner: &'env Runner<'env>,
    idle: RefCell<Vec<mpsc::UnboundedSender<Assignment>>>,
}

impl<'scope, 'env> Workers<'scope, 'env> {
    /// Returns workers that perform trials on threads of this scope.
    pub fn new(scope: &'scope Scope<'scope, 'env>, runner: &'env Runner<'env>) -> Self {
        Self { scope, runner, idle: RefCell::default() }
    }

    /// Returns the sender of a thread that has nothing to do.
    fn take(&self) -> std::io::Result<mpsc::UnboundedSender<Assignment>> {
        let idle = self.idle.borrow_mut().pop();
        idle.map_or_else(|| self.start(), Ok)
    }

    /// Starts a thread, with a runtime of its own.
    fn start(&self) -> std::io::Result<mpsc::UnboundedSender<Assignment>> {
        let runtime = runtime::Builder::new_current_thread().enable_all().build()?;
        let (sender, mut assignments) = mpsc::unbounded_channel::<Assignment>();
        let runner = self.runner;
        let work = move || {
            runtime.block_on(async {
                while let Some(Assignment { order, mut ended }) = assignments.recv().await {
                    let end = tokio::select! {
                        end = Box::pin(runner.run(order)) => end,
                        // The job was given up: dropping the attempt ends what it has started.
                        () = ended.closed() => continue,
                    };
                    drop(ended.send(end));
                }
            });
        };
        let thread = Builder::new().name("trial".to_owned()).stack_size(STACK);
        thread.spawn_scoped(self.scope, work)?;
        Ok(sender)
    }
}

#[async_trait(?Send)]
impl TrialRunner for Workers<'_, '_> {
    async fn run(&self, order: TrialOrder) -> Ended {
        // Without a further thread, on this one.
        let Ok(worker) = self.take() else { return Box::pin(self.runner.run(order)).await };
        let (key, attempt, dir) = (order.key.clone(), order.attempt, order.dir.clone());
        let (name, usual_cost) = (order.name.clone(), order.usual_cost);
        let (ended, end) = oneshot::channel();
        // One that cannot be sent is dropped, and with it the sender of its end.
        drop(worker.send(Assignment { order, ended }));
        let Ok(end) = end.await else {
            return self.recover(&StartedTrial { key, attempt, dir }, &name, usual_cost).await;
        };
        self.idle.borrow_mut().push(worker);
        end
    }

    async fn recover(&self, started: &StartedTrial, name: &str, usual_cost: Option<Usd>) -> Ended {
        self.runner.recover(started, name, usual_cost).await
    }
    async fn idle(&self, time: Duration) {
        self.runner.idle(time).await;
    }
}
