//! The plugin's side of a session, scripted by the test.

use std::sync::Arc;
use std::time::Duration;

use ralph_orchestrator_contract::{BuildContext, Description, Event};
use ralph_orchestrator_plugin_host::{
    CallHandle, INBOUND_QUEUE, Inbound, Session, Transport, TransportClosed,
};
use ralph_orchestrator_plugin_protocol::{
    Decoded, EventSent, HostFrame, ItemKind, Method, Opened, PROTOCOL, PluginFrame, PluginHello,
    Provided, Task, decode, encode,
};
use serde_json::Value;
use tokio::sync::mpsc;
use tokio::time::timeout;

/// Longer than anything takes.
pub(crate) const LONG: Duration = Duration::from_secs(60);

struct Wire {
    sent: mpsc::UnboundedSender<Vec<u8>>,
}

impl Transport for Wire {
    fn send(&self, frame: Vec<u8>) -> Result<(), TransportClosed> {
        self.sent.send(frame).map_err(|_| TransportClosed("it takes no frames any more".into()))
    }
}

/// The plugin's ends.
pub(crate) struct Plugin {
    pub(crate) from_host: mpsc::UnboundedReceiver<Vec<u8>>,
    pub(crate) to_host: mpsc::Sender<Inbound>,
}

/// A transport whose other end is in the test's hands.
pub(crate) fn transport() -> (Arc<dyn Transport>, mpsc::Receiver<Inbound>, Plugin) {
    let (sent, from_host) = mpsc::unbounded_channel();
    let (to_host, inbound) = mpsc::channel(INBOUND_QUEUE);
    (Arc::new(Wire { sent }), inbound, Plugin { from_host, to_host })
}

impl Plugin {
    pub(crate) async fn say(&self, frame: &PluginFrame) {
        self.bytes(encode(frame).unwrap()).await;
    }

    pub(crate) async fn bytes(&self, bytes: impl Into<Vec<u8>>) {
        self.inbound(Inbound::Frame(bytes.into())).await;
    }

    pub(crate) async fn inbound(&self, inbound: Inbound) {
        // The host may have given up.
        drop(self.to_host.send(inbound).await);
    }

    pub(crate) async fn hears(&mut self) -> HostFrame {
        let bytes = timeout(LONG, self.from_host.recv()).await.unwrap().unwrap();
        match decode(&bytes).unwrap() {
            Decoded::Known(frame) => frame,
            other => panic!("{other:?}"),
        }
    }

    pub(crate) async fn hello(&mut self, features: &[&str]) {
        let HostFrame::Hello(hello) = self.hears().await else { panic!() };
        assert_eq!((hello.protocol, hello.window), (1, 64));
        self.say(&PluginFrame::Hello(PluginHello {
            protocol: PROTOCOL,
            name: "bot".into(),
            version: "1.2".into(),
            sdk: None,
            features: features.iter().map(|one| (*one).to_owned()).collect(),
            provides: Vec::new(),
        }))
        .await;
    }

    pub(crate) async fn event(&self, call: u64, text: &str) {
        let event = Event::Text { text: text.into() };
        self.say(&PluginFrame::Event(EventSent { call, event })).await;
    }

    /// Waits for the next call and gives its number.
    pub(crate) async fn called(&mut self) -> u64 {
        match self.hears().await {
            HostFrame::Call(call) => call.call,
            other => panic!("{other:?}"),
        }
    }
}

/// A session after both hellos.
pub(crate) async fn session(features: &[&str]) -> (Session, Plugin) {
    let (transport, inbound, mut plugin) = transport();
    let (session, ()) = tokio::join!(Session::start(transport, inbound), plugin.hello(features));
    (session.unwrap(), plugin)
}

/// The same with an agent.
pub(crate) async fn agent(features: &[&str]) -> (Session, u64, Plugin) {
    let (session, mut plugin) = session(features).await;
    let context = context();
    let opens = session.open(ItemKind::Agent, None, Value::Null, &context);
    let answers = async {
        let HostFrame::Open(open) = plugin.hears().await else { panic!() };
        let provided = Provided::Agent(Description::default());
        plugin.say(&PluginFrame::Opened(Opened { instance: open.instance, provided })).await;
    };
    let (opened, ()) = tokio::join!(opens, answers);
    let (instance, _) = opened.unwrap();
    (session, instance, plugin)
}

/// And with a call of `run`.
pub(crate) async fn run(features: &[&str]) -> (Session, CallHandle, u64, Plugin) {
    let (session, instance, mut plugin) = agent(features).await;
    let running = session.call(instance, task()).await.unwrap();
    let call = plugin.called().await;
    (session, running, call, plugin)
}

pub(crate) fn context() -> BuildContext {
    BuildContext {
        config_dir: "/c".into(),
        workspace: "/w".into(),
        prompt_dir: "/c".into(),
        path: "/bin".into(),
    }
}

pub(crate) fn task() -> Method {
    Method::Run {
        task: Task {
            run: "r".into(),
            number: 1,
            prompt: Some("do it".into()),
            prompt_base64: None,
            workspace: "/w".into(),
            env: std::collections::BTreeMap::new(),
            budget: ralph_orchestrator_contract::Budget::default(),
            scratch: "/s".into(),
        },
    }
}
