//! What has to work.

use std::process::Stdio;
use std::task::Poll;
use std::time::Duration;

use ralph_orchestrator_plugin_sdk::{AgentError, ErrorClass, Event, EventSink, Iteration, Report};
use tokio::io::{AsyncBufReadExt as _, BufReader};
use tokio::process::Command;

pub fn said(text: &str) -> Report {
    Report { final_text: Some(text.to_owned()), ..Report::default() }
}

pub async fn say(events: &dyn EventSink, text: &str) {
    events.emit(Event::Text { text: text.to_owned() }).await;
}

pub async fn run(
    what: &str,
    more: &str,
    task: &Iteration,
    events: &dyn EventSink,
) -> Result<Option<Report>, AgentError> {
    Ok(Some(match what {
        "echo" => said(more),
        "env" => {
            let env: Vec<_> =
                std::env::vars().map(|(key, value)| format!("{key}={value}")).collect();
            said(&env.join("\n"))
        }
        "task" => said(&format!("{} {} {:?}", task.run, task.number, task.workspace)),
        "bytes" => said(&format!("{:?}", task.prompt)),
        "wait" => {
            say(events, "armed").await;
            let reason = events.cancelled().await;
            return Err(AgentError::new(ErrorClass::Cancelled, reason.because()));
        }
        "preview" => {
            let first = events.preview(Some(more)).await;
            let second = events.preview(None).await;
            said(&format!("{first:?} {second:?}"))
        }
        "forget-a-question" => {
            // Whoever asked has gone before the answer comes: it is polled once and dropped.
            let mut asked = events.preview(Some("first"));
            std::future::poll_fn(|context| Poll::Ready(asked.as_mut().poll(context).is_pending()))
                .await;
            drop(asked);
            said(&format!("{:?}", events.preview(Some("second")).await))
        }
        "log" => {
            log().await;
            said("logged")
        }
        "shell" => shell(more, events).await?,
        "timers" => timers(events).await,
        "threads" => threads(),
        _ => return Ok(None),
    }))
}

async fn log() {
    use tracing::Instrument as _;
    tracing::debug!("nobody wants to hear this");
    let span = tracing::info_span!("outer", number = 1, later = tracing::field::Empty);
    span.record("later", "recorded");
    async {
        tracing::warn!(answer = 42, ratio = 0.5, good = true, "something {}", "odd");
    }
    .instrument(span)
    .await;
}

/// Runs `sh -c`, line by line.
async fn shell(script: &str, events: &dyn EventSink) -> Result<Report, AgentError> {
    let failed = |error: std::io::Error| AgentError::new(ErrorClass::Crashed, error.to_string());
    let mut command = Command::new("sh");
    command.arg("-c").arg(script).stdout(Stdio::piped()).kill_on_drop(true);
    let mut child = command.spawn().map_err(failed)?;
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    while let Some(line) = lines.next_line().await.map_err(failed)? {
        say(events, &line).await;
    }
    let status = child.wait().await.map_err(failed)?;
    Ok(Report { exit: Some(status.to_string()), ..said("done") })
}

async fn timers(events: &dyn EventSink) -> Report {
    let mut ticks = tokio::time::interval(Duration::from_millis(5));
    for number in 0..5 {
        ticks.tick().await;
        say(events, &number.to_string()).await;
    }
    let late = tokio::time::timeout(Duration::from_millis(5), std::future::pending::<()>()).await;
    said(&format!("in time: {}", late.is_ok()))
}

fn threads() -> Report {
    let sum = std::thread::scope(|scope| {
        let threads: Vec<_> = (1..=4_u64).map(|n| scope.spawn(move || n * n)).collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).sum::<u64>()
    });
    said(&sum.to_string())
}
