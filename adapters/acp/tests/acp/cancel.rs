//! Iterations that the orchestrator ends, in every phase; the rig sees to it that nothing is left.

use std::time::Duration;

use orchestrator::contract::{CancelReason, ErrorClass, Event};
use ralph_orchestrator_testkit::model_server::{Fault, Reply, Script, Turn};

use crate::rig::{Real, Rig, Sink};

const PATIENCE: Duration = Duration::from_secs(60);

#[tokio::test]
async fn before_it_began() {
    let rig = Real::Claude.rig(Script::new().forever(Turn::text("too late")));
    let sink = Sink::new();
    sink.cancel(CancelReason::Timeout);
    let error = rig.run(Real::Claude.config(), &sink).await.unwrap_err();
    assert_eq!(error.class, ErrorClass::Cancelled, "{error}");
    assert!(rig.server.requests().is_empty() && sink.events().is_empty());
}

#[tokio::test]
async fn as_soon_as_it_says_something() {
    for real in Real::ALL {
        let rig = real.rig(Script::new().forever(Turn::text("x")));
        let there = |event: &Event| matches!(event, Event::Raw { .. });
        let error = rig.run(real.config(), &Sink::cancelling_at(there)).await.unwrap_err();
        assert_eq!(error.class, ErrorClass::Cancelled, "{error}");
    }
}

#[tokio::test]
async fn while_the_model_says_nothing_or_half_a_message() {
    for real in Real::ALL {
        for reply in [Reply::Hang, Turn::text("slow words").fault(Fault::Stall).into()] {
            let rig = real.rig(Script::new().forever(reply));
            let sink = Sink::new();
            let cancel = async {
                rig.stalled().await;
                sink.cancel(CancelReason::Idle);
            };
            let (result, ()) = tokio::join!(rig.run(real.config(), &sink), cancel);
            let error = result.unwrap_err();
            assert_eq!(error.class, ErrorClass::Cancelled, "{real:?}: {error}");
            assert!(error.message.contains("limits.idle_timeout"), "{error}");
            assert!(error.report.exit.is_some() && error.report.session.is_some());
            // It was asked in its own words.
            let told =
                |e: &Event| matches!(e, Event::Raw { line } if line.contains("\"cancelled\""));
            assert!(sink.events().iter().any(told), "{real:?}: {:?}", sink.events());
        }
    }
}

#[tokio::test]
async fn while_a_tool_runs() {
    for real in Real::ALL {
        let rig = Rig::new(Script::new());
        let fifo = rig.folder().join("fifo");
        rustix::fs::mkfifoat(rustix::fs::CWD, &fifo, 0o600.into()).unwrap();
        // Two that go on: one in the tool's own session, one in a further session.
        let command =
            format!("setsid sleep 1000 & echo up > '{}'; sleep 1000", fifo.to_str().unwrap());
        let rig = real.settle(rig.scripted(Script::new().forever(Turn::shell(&command))));
        let sink = Sink::new();
        let up = tokio::task::spawn_blocking(move || std::fs::read_to_string(fifo));
        let cancel = async {
            let up = tokio::time::timeout(PATIENCE, up).await.expect("the tool never ran");
            assert_eq!(up.unwrap().unwrap(), "up\n");
            sink.cancel(CancelReason::Signal);
        };
        let (result, ()) = tokio::join!(rig.run(real.config(), &sink), cancel);
        let error = result.unwrap_err();
        assert_eq!(error.class, ErrorClass::Cancelled, "{real:?}: {error}");
    }
}

#[tokio::test]
async fn by_dropping_the_future() {
    for real in Real::ALL {
        let rig = real.rig(Script::new().forever(Reply::Hang));
        let sink = Sink::new();
        let agent = rig.agent(real.config());
        tokio::select! {
            result = agent.run(rig.task("Do it."), &sink) => panic!("it ended: {result:?}"),
            () = rig.stalled() => {}
        }
        rig.wait_until_nothing_is_left(PATIENCE).await;
    }
}
