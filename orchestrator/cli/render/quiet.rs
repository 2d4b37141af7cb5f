//! `run --quiet`: one line at the end.

use ralph_orchestrator_engine::{RunEvent, RunObserver};
use ralph_orchestrator_machine::StopReason;
use ralph_orchestrator_terminal::activity::Activity;
use ralph_orchestrator_terminal::output;
use ralph_orchestrator_text::one_line;

/// Prints how the run ended, and nothing else.
pub(crate) struct QuietReporter;

impl RunObserver for QuietReporter {
    fn on_event(&self, _: &str, notice: &RunEvent) {
        Activity::update(notice);
        let RunEvent::RunFinished { stop_reason, message, validated, iterations, .. } = notice
        else {
            return;
        };
        let plural = if *iterations == 1 { "" } else { "s" };
        let line = match stop_reason {
            StopReason::Completed => {
                let how = if *validated { "" } else { " WITHOUT validation" };
                format!("completed{how} after {iterations} iteration{plural}")
            }
            reason => format!("stopped ({}): {}", reason.word(), one_line(message, 200)),
        };
        output::result(&line);
    }
}
