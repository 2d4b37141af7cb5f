//! What a task wants of the machine at most, and whether its trials get no more.

use std::collections::BTreeMap;

use ralph_orchestrator_bench::task::EnvironmentSettings;
use ralph_orchestrator_bench::trial::ResourceCeiling;

/// The keys of a task that are ceilings.
pub(super) const CPUS: &str = "cpus";
pub(super) const MEMORY_MB: &str = "memory_mb";
const STORAGE_MB: &str = "storage_mb";

/// Returns the ceilings of an environment, by their keys. `enforced` are the keys that its processes cannot exceed.
pub(super) fn list_ceilings(
    settings: &EnvironmentSettings,
    enforced: &[&str],
) -> BTreeMap<String, ResourceCeiling> {
    let number = |number: u64| f64::from(u32::try_from(number).unwrap_or(u32::MAX));
    let wanted = [
        (CPUS, settings.cpus),
        (MEMORY_MB, settings.memory_mb.map(number)),
        (STORAGE_MB, settings.storage_mb.map(number)),
    ];
    let ceiling = |(key, amount): (&str, Option<f64>)| {
        let enforced = enforced.contains(&key);
        Some((key.to_owned(), ResourceCeiling { amount: amount?, enforced }))
    };
    wanted.into_iter().filter_map(ceiling).collect()
}
