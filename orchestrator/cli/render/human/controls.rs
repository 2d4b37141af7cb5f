//! Prints what people ask of the run.

use ralph_orchestrator_engine::RunEvent;
use ralph_orchestrator_machine::Control;
use ralph_orchestrator_story::words::{control, describe_guidance};
use ralph_orchestrator_text::one_line;

use super::{HumanReporter, ReporterState, YELLOW};
use crate::render::live::LiveActivity;

impl HumanReporter {
    pub(super) fn control(&self, state: &mut ReporterState, notice: &RunEvent) {
        match notice {
            RunEvent::ControlReceived { origin, control: received, refused, .. } => {
                let text = control(origin, received, refused.as_deref());
                self.line(state, YELLOW, &format!("  {text}"), "");
                match received {
                    _ if refused.is_some() => {}
                    Control::Resume => state.live.begin(LiveActivity::Nothing),
                    Control::Limits(changes) => state.live.set_limits(changes),
                    _ => {}
                }
            }
            RunEvent::GuidanceDelivered { ids, .. } => {
                let text = format!("  {}", describe_guidance(ids.len()));
                self.line(state, YELLOW, &text, "");
            }
            RunEvent::PauseBegan { origin, .. } => {
                let user = one_line(&origin.user, 40);
                let text = format!("  paused by {user}; `resume` ends the pause");
                self.line(state, YELLOW, &text, "");
                state.live.begin(LiveActivity::Paused(user));
            }
            _ => {}
        }
        self.refresh(state);
    }
}
