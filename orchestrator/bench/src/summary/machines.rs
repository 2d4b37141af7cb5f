//! On which machines the trials were performed, and whether columns had the same ones.

use std::collections::BTreeMap;

use super::attempts::Trial;
use super::types::{ColumnSummary, UsedMachine};
use crate::host::Machine;
use crate::statistics::compute_mean;

/// Returns each machine with what it performed, by name.
pub(super) fn collect(trials: &[Trial<'_>]) -> Vec<UsedMachine> {
    let mut found: BTreeMap<&Machine, (BTreeMap<String, u64>, Vec<f64>)> = BTreeMap::new();
    for record in trials.iter().map(Trial::last) {
        let Some(machine) = &record.machine else { continue };
        let (columns, contention) = found.entry(machine).or_default();
        let count = columns.entry(record.key.column.to_string()).or_default();
        *count = count.saturating_add(1);
        contention.extend(record.contention);
    }
    let used = |(machine, (trials, contention)): (&Machine, (_, Vec<f64>))| UsedMachine {
        machine: machine.clone(),
        trials,
        contention: compute_mean(&contention),
    };
    found.into_iter().map(used).collect()
}

/// Says which columns were performed on other kinds of machines than the first one, with which they are compared.
pub(super) fn describe_different(
    columns: &[ColumnSummary],
    machines: &[UsedMachine],
) -> Vec<String> {
    let of = |column: &ColumnSummary| -> Vec<&Machine> {
        let name = column.column.to_string();
        let used = machines.iter().filter(|used| used.trials.contains_key(&name));
        used.map(|used| &used.machine).collect()
    };
    let Some((first, others)) = columns.split_first() else { return Vec::new() };
    let all_like = |some: &[&Machine], others: &[&Machine]| {
        some.iter().all(|machine| others.iter().any(|other| machine.is_like(other)))
    };
    let its = of(first);
    let describe = |column: &ColumnSummary| {
        let theirs = of(column);
        let is_known = !its.is_empty() && !theirs.is_empty();
        (is_known && !(all_like(&its, &theirs) && all_like(&theirs, &its))).then(|| {
            format!(
                "{} and {} were performed on different kinds of machines: times differ, and with them what time limits allowed",
                first.column, column.column
            )
        })
    };
    others.iter().filter_map(describe).collect()
}
