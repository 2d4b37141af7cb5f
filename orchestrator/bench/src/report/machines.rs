//! The machines of a job in words.

use ralph_orchestrator_text::escape_line;

use crate::report::figures::{format_percent, format_things};
use crate::summary::{JobSummary, UsedMachine};

/// The most that are named: where each worker has a container of its own, there are many.
const MOST: usize = 20;

/// Returns a line for each machine, such as "node1 (AMD EPYC, 8 processors): a 20 trials, b 19 trials; processors contended 3 %".
pub(super) fn describe_machines(summary: &JobSummary) -> Vec<String> {
    let machines = &summary.machines;
    let mut lines: Vec<String> = machines.iter().take(MOST).map(describe).collect();
    let more = u64::try_from(machines.len().saturating_sub(MOST)).unwrap_or(u64::MAX);
    if more > 0 {
        lines.push(format!("and {}", format_things(more, "other machine")));
    }
    lines
}

fn describe(used: &UsedMachine) -> String {
    let machine = &used.machine;
    let model = (!machine.model.is_empty()).then(|| escape_line(&machine.model));
    let parts = model.into_iter().chain([format_things(machine.processors, "processor")]);
    let trials = used.trials.iter().map(|(column, count)| {
        format!("{} {}", escape_line(column), format_things(*count, "trial"))
    });
    let contended =
        used.contention.map(|share| format!("; processors contended {}", format_percent(share)));
    format!(
        "{} ({}): {}{}",
        escape_line(&machine.name),
        parts.collect::<Vec<_>>().join(", "),
        trials.collect::<Vec<_>>().join(", "),
        contended.unwrap_or_default()
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::samples;

    #[test]
    fn each_machine_has_a_line_up_to_a_number() {
        let mut summary = samples::sample_summary();
        let first = "node1 (Some CPU, 8 processors): claude-cli 48 trials, codex 47 trials; processors contended 3.1 %";
        assert_eq!(describe_machines(&summary), [first]);
        summary.machines = vec![summary.machines[0].clone(); MOST + 2];
        let lines = describe_machines(&summary);
        assert_eq!(lines.len(), MOST + 1);
        assert_eq!(lines[MOST], "and 2 other machines");
    }
}
