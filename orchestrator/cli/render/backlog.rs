//! Reports the work on a backlog, beside its runs.

use ralph_orchestrator_assembly::backlog_view::usage_text;
use ralph_orchestrator_backlog::SetAside;
use ralph_orchestrator_driver::{BacklogEvent, BacklogObserver, NOTHING_TO_WORK_ON};
use ralph_orchestrator_machine::StopReason;
use ralph_orchestrator_terminal::output;
use ralph_orchestrator_text::{count, one_line};

use super::json::print_event;

/// Prints each event as one JSON object on stdout.
pub(crate) struct JsonBacklogReporter {
    /// The exit status of an interruption, should there be one.
    pub(crate) interrupted: std::sync::Arc<std::sync::atomic::AtomicU8>,
}

impl BacklogObserver for JsonBacklogReporter {
    fn on_backlog_event(&self, event: &BacklogEvent) {
        let end = match event {
            BacklogEvent::BacklogFinished { stop_reason, ended_well, .. } => {
                Some((*stop_reason, *ended_well))
            }
            _ => None,
        };
        print_event(None, event, end, &self.interrupted);
    }
}

/// Prints lines for people.
pub(crate) struct HumanBacklogReporter;

impl BacklogObserver for HumanBacklogReporter {
    fn on_backlog_event(&self, event: &BacklogEvent) {
        match event {
            BacklogEvent::ItemStarted { item, title, resumed, items, .. } => {
                let verb = if *resumed { "resuming" } else { "starting" };
                let title = one_line(title, 120);
                output::info(&format!(
                    "backlog {items}: {verb} item {}: {title}",
                    one_line(item, 80)
                ));
            }
            BacklogEvent::ItemFinished { item, stop_reason, usage, set_aside, items, .. } => {
                let how = match (stop_reason, set_aside) {
                    (StopReason::Completed, _) => "is complete",
                    (_, Some(SetAside::Blocked(_))) => "is blocked",
                    (_, Some(SetAside::Skipped)) => "is skipped",
                    (_, None) => "is not complete",
                };
                let why = match set_aside {
                    Some(SetAside::Blocked(why)) => format!(": {}", one_line(why, 300)),
                    Some(SetAside::Skipped) | None => String::new(),
                };
                output::info(&format!(
                    "backlog {items}: item {} {how} ({}){why}",
                    one_line(item, 80),
                    usage_text(usage)
                ));
            }
            BacklogEvent::ItemMerged { item, commit, .. } => {
                let commit = commit.get(..12).unwrap_or(commit);
                output::info(&format!(
                    "backlog: item {} is merged as {commit}",
                    one_line(item, 80)
                ));
            }
            BacklogEvent::ItemSentBack { item, reason, .. } => print_sent_back(item, reason),
            BacklogEvent::BacklogWarning { message } => {
                output::report(&format!("warning: {}", one_line(message, 400)));
            }
            BacklogEvent::BacklogFinished { stop_reason, message, items, waiting, .. } => {
                let word = stop_reason.word();
                output::result(&if *stop_reason == StopReason::Completed {
                    format!("backlog {items}: completed: {}", one_line(message, 400))
                } else if message.starts_with(NOTHING_TO_WORK_ON) {
                    // Its items follow.
                    let number = u64::try_from(waiting.len()).unwrap_or(u64::MAX);
                    let waiting = count(number, "item");
                    format!(
                        "backlog {items}: stopped ({word}): {NOTHING_TO_WORK_ON}, {waiting} not complete"
                    )
                } else {
                    format!("backlog {items}: stopped ({word}): {}", one_line(message, 400))
                });
                for placement in waiting {
                    output::result(&format!("  {}", one_line(&placement.to_string(), 400)));
                }
            }
        }
    }
}

fn print_sent_back(item: &str, reason: &str) {
    let (item, reason) = (one_line(item, 80), one_line(reason, 300));
    output::info(&format!(
        "backlog: item {item} is not complete with what was merged meanwhile, and goes on: {reason}"
    ));
}
