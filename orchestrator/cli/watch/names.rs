//! Short names of runs that tell them apart.

use std::collections::HashMap;

use ralph_orchestrator_story::listing::ListedRun;
use ralph_orchestrator_text::one_line;

/// Characters of a name.
const LONGEST: usize = 200;

/// Returns the last part of each workspace with its task; the whole path where several have the same.
pub(super) fn short_names(runs: &[&ListedRun]) -> Vec<String> {
    let mut times: HashMap<&str, usize> = HashMap::new();
    for run in runs {
        *times.entry(&run.short_name).or_default() += 1;
    }
    let is_unique = |run: &&&ListedRun| times.get(run.short_name.as_str()) == Some(&1);
    let name = |run: &&ListedRun| {
        let own = Some(run).filter(is_unique).map(|run| &run.short_name);
        one_line(own.unwrap_or(&run.name), LONGEST)
    };
    runs.iter().map(name).collect()
}
