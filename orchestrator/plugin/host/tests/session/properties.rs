//! Whatever comes, in whatever order: every call has one outcome.

use proptest::prelude::*;
use ralph_orchestrator_contract::{Event, Report};
use ralph_orchestrator_plugin_host::{CallEvent, CallOutcome, Inbound};
use ralph_orchestrator_plugin_protocol::{
    Answer, Done, EventSent, LogLevel, LogLine, PluginFrame, Pong, PreviewRequest, encode,
};

use crate::plugin::{LONG, agent, task};

fn frame(frame: &PluginFrame) -> Inbound {
    Inbound::Frame(encode(frame).unwrap())
}

fn any_inbound() -> impl Strategy<Value = Inbound> {
    let event = |call| PluginFrame::Event(EventSent { call, event: Event::Unknown });
    let done = |call| PluginFrame::Done(Done { call, answer: Answer::Report(Report::default()) });
    let log = LogLine {
        level: LogLevel::Info,
        target: String::new(),
        message: "m".into(),
        fields: serde_json::Map::new(),
        spans: Vec::new(),
    };
    prop_oneof![
        40 => (1..4_u64).prop_map(move |call| frame(&event(call))),
        3 => (1..4_u64).prop_map(move |call| frame(&done(call))),
        4 => (1..4_u64, 0..2_u64).prop_map(|(call, request)| {
            frame(&PluginFrame::Preview(PreviewRequest { call, request, final_text: None }))
        }),
        3 => Just(frame(&PluginFrame::Pong(Pong { n: 0 }))),
        5 => Just(frame(&PluginFrame::Log(log))),
        5 => Just(Inbound::Stderr("line".into())),
        1 => prop::collection::vec(any::<u8>(), 0..20).prop_map(Inbound::Frame),
        1 => Just(Inbound::TooLong { bytes: 1 }),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn every_call_has_exactly_one_outcome(
        news in prop::collection::vec(any_inbound(), 0..200),
        credit in any::<bool>(),
    ) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let ended = runtime.block_on(async {
            let features: &[&str] = if credit { &["credit"] } else { &[] };
            let (session, instance, mut plugin) = agent(features).await;
            // Those without credit have one call at a time.
            let calls = if credit { 3 } else { 1 };
            let mut running = Vec::new();
            for _ in 0..calls {
                running.push(session.call(instance, task()).await.unwrap());
                plugin.called().await;
            }
            let sends = async move {
                for one in news {
                    plugin.inbound(one).await;
                }
                plugin.inbound(Inbound::Ended("exit 0".into())).await;
            };
            let mut takes: Vec<_> = running
                .into_iter()
                .map(|mut running| tokio::spawn(async move {
                    loop {
                        if let CallEvent::Ended(outcome) = running.next_event().await {
                            return matches!(outcome, CallOutcome::Done(_) | CallOutcome::SessionClosed(_));
                        }
                    }
                }))
                .collect();
            sends.await;
            let mut ended = 0;
            for take in takes.drain(..) {
                ended += u32::from(tokio::time::timeout(LONG, take).await.unwrap().unwrap());
            }
            // All calls may have been answered before the end is heard of.
            let closed = async {
                while session.closed().is_none() {
                    tokio::task::yield_now().await;
                }
            };
            tokio::time::timeout(LONG, closed).await.unwrap();
            (ended, calls)
        });
        prop_assert_eq!(ended.0, ended.1);
    }
}
