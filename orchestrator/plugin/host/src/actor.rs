//! Reads what comes from a plugin and tells it to those who wait for it.

use std::ops::ControlFlow;
use std::sync::Arc;
use std::time::Duration;

use plugin_protocol::{Decoded, HostFrame, Ping, PluginFrame, Provided, decode, feature};
use ralph_orchestrator_contract::BuildError;
use tokio::sync::mpsc;
use tokio::time::{Instant, Interval, MissedTickBehavior, interval_at};

use crate::carrier::{Inbound, QUEUE};
use crate::running::Told;
use crate::session::Shared;
use crate::talk::News;
use crate::violation::Violation;

/// How often a plugin is asked whether it is still there.
const PING: Duration = Duration::from_secs(5);
/// After so many questions without any frame from it, it is held to be hung: 30 s. Counted by
/// questions, so that a standstill of the host counts for nothing.
const UNANSWERED: u32 = 6;

/// The conversation comes to its end, for this reason.
type Flow = ControlFlow<String>;

pub(crate) async fn run(shared: Arc<Shared>, mut inbound: mpsc::Receiver<Inbound>) {
    let mut heart = Heart::new();
    // All that is there is taken at once: whoever waits for room is woken once for all of it, and not
    // for every frame.
    let mut news = Vec::with_capacity(QUEUE);
    let reason = loop {
        let flow = tokio::select! {
            biased;
            count = inbound.recv_many(&mut news, QUEUE) => {
                heart.beats();
                took_all(&shared, news.drain(..), count).await
            }
            () = heart.tick() => heart.ask(&shared),
        };
        if let ControlFlow::Break(reason) = flow {
            break reason;
        }
    };
    shared.give_up(&reason);
    // Whoever fills the channel learns that nobody reads it any more.
}

async fn took_all(shared: &Shared, all: impl Iterator<Item = Inbound>, count: usize) -> Flow {
    if count == 0 {
        return Flow::Break("it is gone".to_owned());
    }
    for news in all {
        took(shared, news).await?;
    }
    Flow::Continue(())
}

/// Whether the plugin is still there.
struct Heart {
    ticks: Interval,
    asked: u64,
    unanswered: u32,
}

impl Heart {
    fn new() -> Self {
        let mut ticks = interval_at(Instant::now() + PING, PING);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        Self { ticks, asked: 0, unanswered: 0 }
    }

    async fn tick(&mut self) {
        self.ticks.tick().await;
    }

    const fn beats(&mut self) {
        self.unanswered = 0;
    }

    fn ask(&mut self, shared: &Shared) -> Flow {
        let state = shared.state();
        let wanted = state.talk.is_busy() && state.talk.agreed(feature::PING);
        drop(state);
        if !wanted {
            self.unanswered = 0;
            return Flow::Continue(());
        }
        if self.unanswered == UNANSWERED {
            let seconds = PING.as_secs() * u64::from(UNANSWERED);
            return Flow::Break(format!(
                "it hangs: it sent nothing for {seconds} s, no `pong` either"
            ));
        }
        self.unanswered += 1;
        self.asked += 1;
        match shared.send(&HostFrame::Ping(Ping { n: self.asked })) {
            Ok(()) => Flow::Continue(()),
            Err(broken) => Flow::Break(broken.0),
        }
    }
}

async fn took(shared: &Shared, news: Inbound) -> Flow {
    let violation = match news {
        Inbound::Ended(how) => return Flow::Break(how),
        Inbound::Stderr(line) => {
            shared.state().printed(&line);
            return beside(shared, Told::Stderr(line)).await;
        }
        Inbound::TooLong { bytes } => Violation::TooLong { bytes },
        Inbound::Frame(bytes) => match decode::<PluginFrame>(&bytes) {
            Ok(Decoded::Unknown(_)) => return Flow::Continue(()),
            Ok(Decoded::Known(frame)) => {
                let news = shared.state().talk.take(frame);
                match news {
                    Ok(news) => return heard(shared, news).await,
                    Err(violation) => violation,
                }
            }
            Err(error) => error.into(),
        },
    };
    if violation.is_late() && shared.carrier.lasts() {
        shared.state().printed(&format!("ignored: it {violation}"));
        return Flow::Continue(());
    }
    Flow::Break(format!("it broke the protocol: it {violation}"))
}

async fn heard(shared: &Shared, news: News) -> Flow {
    match news {
        News::Hello(hello) => {
            let greeting = shared.state().greeting.take();
            // Nobody waits for it any more if it came too late.
            if let Some(greeting) = greeting {
                drop(greeting.send(hello));
            }
        }
        News::Opened { instance, result } => opened(shared, instance, result),
        News::Event { call, event } => tell(shared, call, Told::Event(event)).await,
        News::Judge { call, ask, final_text } => {
            tell(shared, call, Told::Judge { ask, final_text }).await;
        }
        News::Ended { call, outcome } => {
            tell(shared, call, Told::Ended(outcome)).await;
            let mut state = shared.state();
            state.lines.remove(&call);
            state.runs.retain(|run| *run != call);
        }
        News::Log(line) => {
            crate::log::trace(&line);
            shared.state().printed(&crate::log::text(&line));
            return beside(shared, Told::Log(line)).await;
        }
        News::Pong => {}
    }
    Flow::Continue(())
}

fn opened(shared: &Shared, instance: u64, result: Result<Provided, BuildError>) {
    let waiting = shared.state().openings.remove(&instance);
    if let Some(waiting) = waiting {
        drop(waiting.send(result));
    }
}

/// Tells the one who called. Who no longer listens has given the call up.
async fn tell(shared: &Shared, call: u64, told: Told) {
    let line = shared.state().lines.get(&call).cloned();
    if let Some(line) = line {
        drop(line.send(told).await);
    }
}

/// Tells what belongs to no call: to every agent at work, or later to the first. Where several work
/// side by side, nobody waits for a slow one, and messages that it has no room for are dropped.
async fn beside(shared: &Shared, told: Told) -> Flow {
    let lasts = shared.carrier.lasts();
    let Some(line) = shared.state().first_run() else {
        shared.state().early(told);
        return Flow::Continue(());
    };
    if !lasts {
        drop(line.send(told).await);
    } else if line.capacity() > crate::session::WAITING / 2 {
        drop(line.try_send(told));
    }
    Flow::Continue(())
}
