//! A conversation with a plugin, from hello to close.

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use plugin_protocol::{
    Close, HostFrame, ItemKind, Method, PluginHello, Provided, WINDOW, encode, feature,
};
use ralph_orchestrator_contract::{BuildContext, BuildError};
use serde_json::Value;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc, oneshot};
use tokio::task::JoinHandle;
use tokio::time::timeout;

use crate::actor;
use crate::carrier::{Carrier, Inbound};
use crate::running::{Running, Told};
use crate::talk::Talk;

/// How long a plugin may take to say hello.
pub const HELLO: Duration = Duration::from_secs(10);
/// How long a plugin may take to build an instance.
pub const OPENED: Duration = Duration::from_secs(30);
/// So much of the end of the standard error goes into messages, in bytes.
const TAIL: usize = 2 * 1024;
/// Lines that were printed before the first call, for that one.
const EARLY: usize = 64;
/// What waits for the one who called: events that there is credit for, a question, the end, and as
/// much again for messages.
pub(crate) const WAITING: usize = 2 * WINDOW as usize + 2;

/// The conversation cannot go on; says why.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct Broken(pub String);

/// An instance could not be built.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum OpenError {
    /// The plugin refuses its table.
    #[error(transparent)]
    Refused(#[from] BuildError),
    /// The conversation broke.
    #[error(transparent)]
    Broken(#[from] Broken),
}

/// What the session and those who use it have in common.
pub(crate) struct Shared {
    pub(crate) carrier: Arc<dyn Carrier>,
    state: Mutex<State>,
}

/// All that changes.
#[derive(Default)]
pub(crate) struct State {
    pub(crate) talk: Talk,
    pub(crate) greeting: Option<oneshot::Sender<PluginHello>>,
    pub(crate) openings: BTreeMap<u64, oneshot::Sender<Result<Provided, BuildError>>>,
    /// Those who wait for the answers to calls.
    pub(crate) lines: BTreeMap<u64, mpsc::Sender<Told>>,
    /// Of which those are of `run`, which is told everything.
    pub(crate) runs: Vec<u64>,
    pub(crate) early: VecDeque<Told>,
    broken: Option<Broken>,
    tail: String,
}

impl State {
    /// Keeps the end of what was printed and logged.
    pub(crate) fn printed(&mut self, line: &str) {
        self.tail.push_str(line);
        self.tail.push('\n');
        if self.tail.len() > TAIL {
            let surplus = self.tail.ceil_char_boundary(self.tail.len() - TAIL);
            // Where it was cut has to be seen: what stands there may be the rest of a secret.
            self.tail.replace_range(..surplus, "…");
        }
    }

    /// The one who is told what belongs to no call.
    pub(crate) fn first_run(&self) -> Option<mpsc::Sender<Told>> {
        self.runs.first().and_then(|run| self.lines.get(run)).cloned()
    }

    /// Keeps what is told before anybody is there to hear it.
    pub(crate) fn early(&mut self, told: Told) {
        if self.early.len() < EARLY {
            self.early.push_back(told);
        }
    }
}

impl Shared {
    pub(crate) fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Sends a frame; what cannot be sent breaks the conversation.
    pub(crate) fn send(&self, frame: &HostFrame) -> Result<(), Broken> {
        let bytes = encode(frame).map_err(|error| Broken(error.to_string()))?;
        self.carrier.send(bytes).map_err(|gone| {
            self.give_up(&gone.0);
            Broken(gone.0)
        })
    }

    /// Nothing goes on any more: everybody who waits is told why. The first reason stays.
    pub(crate) fn give_up(&self, reason: &str) {
        let mut state = self.state();
        let why = with_tail(reason, &state.tail);
        state.broken.get_or_insert(Broken(why));
        state.openings.clear();
        state.lines.clear();
        state.runs.clear();
        state.greeting = None;
    }

    /// Why nothing goes on any more.
    pub(crate) fn broken(&self) -> Option<Broken> {
        self.state().broken.clone()
    }

    /// The same, where it is known that nothing goes on.
    pub(crate) fn why(&self) -> Broken {
        self.broken().unwrap_or_else(|| Broken("the conversation with it was ended".to_owned()))
    }
}

fn with_tail(reason: &str, tail: &str) -> String {
    match tail.trim() {
        "" => reason.to_owned(),
        tail => format!("{reason}; its standard error: {tail}"),
    }
}

/// A conversation with a plugin. When it is dropped, nothing is read from the carrier any more.
pub struct Session {
    shared: Arc<Shared>,
    hello: PluginHello,
    /// One call at a time, for those who give no credit.
    turns: Option<Arc<Semaphore>>,
    _reading: Reading,
}

/// Reads what comes, until it is dropped.
struct Reading {
    shared: Arc<Shared>,
    actor: JoinHandle<()>,
}

impl Drop for Reading {
    fn drop(&mut self) {
        self.actor.abort();
        self.shared.give_up("the conversation with it was ended");
    }
}

impl Session {
    /// Says hello, and waits until the plugin has done so. Needs a runtime of tokio, on which it goes
    /// on to read what comes.
    ///
    /// # Errors
    /// The plugin does not say hello within [`HELLO`], or not as it should.
    pub async fn begin(
        carrier: Arc<dyn Carrier>,
        inbound: mpsc::Receiver<Inbound>,
    ) -> Result<Self, Broken> {
        let shared = Arc::new(Shared { carrier, state: Mutex::default() });
        let (greeting, greeted) = oneshot::channel();
        shared.state().greeting = Some(greeting);
        let actor = tokio::spawn(actor::run(Arc::clone(&shared), inbound));
        let reading = Reading { shared: Arc::clone(&shared), actor };
        shared.send(&HostFrame::Hello(Talk::hello()))?;
        let Ok(greeted) = timeout(HELLO, greeted).await else {
            shared.give_up(&format!("it did not say hello within {} s", HELLO.as_secs()));
            return Err(shared.why());
        };
        let hello = greeted.map_err(|_| shared.why())?;
        let credit = shared.state().talk.agreed(feature::CREDIT);
        let turns = (!credit).then(|| Arc::new(Semaphore::new(1)));
        Ok(Self { shared, hello, turns, _reading: reading })
    }

    /// What the plugin said of itself.
    #[must_use]
    pub const fn hello(&self) -> &PluginHello {
        &self.hello
    }

    /// Why nothing goes on any more, if that is so.
    #[must_use]
    pub fn broken(&self) -> Option<Broken> {
        self.shared.broken()
    }

    /// Breaks the conversation, for this reason.
    pub fn give_up(&self, reason: &str) {
        self.shared.give_up(reason);
    }

    /// Builds an instance: the item of that kind and name, or the only one of that kind.
    ///
    /// # Errors
    /// The plugin refuses the table, does not answer within [`OPENED`], or the conversation broke.
    pub async fn open(
        &self,
        kind: ItemKind,
        name: Option<&str>,
        config: Value,
        context: &BuildContext,
    ) -> Result<(u64, Provided), OpenError> {
        let (answer, answered) = oneshot::channel();
        let open = {
            let mut state = self.shared.state();
            if let Some(broken) = &state.broken {
                return Err(broken.clone().into());
            }
            let open = state.talk.open(kind, name, config, context);
            state.openings.insert(open.instance, answer);
            open
        };
        let instance = open.instance;
        if let Err(broken) = self.shared.send(&HostFrame::Open(open)) {
            let mut state = self.shared.state();
            state.talk.not_opened(instance);
            state.openings.remove(&instance);
            return Err(broken.into());
        }
        match timeout(OPENED, answered).await {
            Ok(Ok(result)) => Ok((instance, result?)),
            Ok(Err(_)) => Err(self.shared.why().into()),
            Err(_) => {
                let seconds = OPENED.as_secs();
                self.give_up(&format!("it did not answer `open` within {seconds} s"));
                Err(self.shared.why().into())
            }
        }
    }

    /// Begins a call. A plugin that gives no credit has one at a time: then this waits for its turn.
    ///
    /// # Errors
    /// The conversation broke, or the call cannot be said in a frame.
    pub async fn call(&self, instance: u64, method: Method) -> Result<Running, Broken> {
        let turn = self.turn().await;
        let (line, told) = mpsc::channel(WAITING);
        let runs = matches!(method, Method::Run { .. });
        let call = {
            let mut state = self.shared.state();
            if let Some(broken) = &state.broken {
                return Err(broken.clone());
            }
            let call = state.talk.call(instance, method);
            if runs {
                for early in std::mem::take(&mut state.early) {
                    // There is room for all of them.
                    drop(line.try_send(early));
                }
                state.runs.push(call.call);
            }
            state.lines.insert(call.call, line);
            call
        };
        let number = call.call;
        if let Err(broken) = self.shared.send(&HostFrame::Call(call)) {
            let mut state = self.shared.state();
            state.talk.not_called(number);
            state.lines.remove(&number);
            state.runs.retain(|run| *run != number);
            return Err(broken);
        }
        Ok(Running::new(Arc::clone(&self.shared), number, told, turn))
    }

    async fn turn(&self) -> Option<OwnedSemaphorePermit> {
        let turns = self.turns.clone()?;
        turns.acquire_owned().await.ok()
    }

    /// Tells the plugin that the conversation is over.
    pub fn close(&self) {
        // One that is gone needs not to be told.
        drop(self.shared.send(&HostFrame::Close(Close {})));
    }
}
