//! Notes from one iteration to the next, and how full a context is.

use async_trait::async_trait;
use ralph_orchestrator_contract::{Event, EventSink, Iteration};
use ralph_orchestrator_machine::{ContextUsage, StopReason};

use super::world::{Play, Stage, run};

/// Leaves a note in each iteration, and is done in the third.
struct Writer;

#[async_trait]
impl Play for Writer {
    async fn work(&self, stage: &Stage, task: Iteration, events: &dyn EventSink) {
        stage.say(String::from_utf8(task.prompt).unwrap());
        events.emit(Event::Context { used: task.number * 50_000, window: Some(200_000) }).await;
        if task.number == 3 {
            stage.write("done", "1\n");
            return stage.claim(events).await;
        }
        stage.write("half", &task.number.to_string());
        let text = format!("note {} with s3cret-value\nand a second line", task.number);
        events.emit(Event::Note { text }).await;
    }
}

#[tokio::test]
async fn the_next_prompt_begins_with_the_notes_of_the_iteration_before() {
    let after = run(Writer, "").await;
    let reported = |number: u64| {
        format!(
            "Notes from the previous iteration:\n- note {number} with ***\n  and a second \
             line\n\n---\n\n# Task\n"
        )
    };
    assert_eq!(after.said, ["# Task\n".to_owned(), reported(1), reported(2)]);
    assert_eq!(after.finished.reason, StopReason::Completed);
    let state = &after.finished.state;
    assert_eq!(state.agent.context, Some(ContextUsage { used: 150_000, window: Some(200_000) }));
    assert!(state.notes.is_empty(), "the last one left none");
}
