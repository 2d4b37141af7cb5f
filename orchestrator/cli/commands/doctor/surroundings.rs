//! What a run depends on and the configuration does not say: the repository, the environment, the disk.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use ralph_orchestrator_assembly::context::Context;
use ralph_orchestrator_init::is_in_repository;
use ralph_orchestrator_text::shorten_home;

/// Less free space than this is a warning.
const LOW: u64 = 1024 * 1024 * 1024;
/// What the names of the orchestrator's own variables begin with.
const PREFIX: &str = "RALPH_";
/// Those that are no configuration.
const OWN: [&str; 7] = [
    "RALPH_RUN_ID",
    "RALPH_ITERATION",
    "RALPH_ITEM",
    "RALPH_ITEM_FILE",
    "RALPH_LOG",
    "RALPH_TRUST",
    "RALPH_PLUGIN_ATTACH",
];

/// Warns if changes of the agent could not be undone.
pub(super) fn repository(workspace: &Path) -> Option<String> {
    if !workspace.exists() || is_in_repository(workspace) {
        return None;
    }
    Some(format!(
        "{} is not in a git repository: what the agent changes or deletes cannot be undone (`git init`)",
        workspace.display()
    ))
}

/// Names variables that look like ours and are not.
pub(super) fn foreign_variables(vars: &BTreeMap<String, String>) -> Option<String> {
    let foreign: Vec<&str> =
        vars.keys().map(String::as_str).filter(|name| is_foreign(name)).collect();
    (!foreign.is_empty()).then(|| {
        format!(
            "{} {} not configuration of ralph-orchestrator and {} no effect",
            foreign.join(", "),
            if foreign.len() == 1 { "is" } else { "are" },
            if foreign.len() == 1 { "has" } else { "have" }
        )
    })
}

fn is_foreign(name: &str) -> bool {
    name.starts_with(PREFIX)
        && !name.contains("__")
        && !name.starts_with("RALPH_ORCHESTRATOR_")
        && !OWN.contains(&name)
}

/// The free space for the state and the workspace: a warning if it is low.
pub(super) fn disk(context: &Context) -> Result<String, String> {
    let mut places = vec![context.state_home()];
    places.extend(context.loaded.config.state.dir.clone());
    places.push(context.loaded.config.run.workspace.clone());
    let free = places.iter().filter_map(|place| Some((free(place)?, place)));
    let Some((free, place)) = free.min_by_key(|(free, _)| *free) else {
        return Ok("free space is unknown".to_owned());
    };
    let text = format!("{} free at {}", amount(free), shorten_home(place));
    if is_low(free) { Err(format!("only {text}: free disk space")) } else { Ok(text) }
}

const fn is_low(free: u64) -> bool {
    free < LOW
}

/// The free space where a path is, or will be.
fn free(path: &Path) -> Option<u64> {
    let there = path.ancestors().map(PathBuf::from).find(|at| at.exists())?;
    let stat = rustix::fs::statvfs(&there).ok()?;
    Some(stat.f_bavail.saturating_mul(stat.f_frsize))
}

fn amount(bytes: u64) -> String {
    let mib = bytes / (1024 * 1024);
    if mib >= 10 * 1024 { format!("{} GiB", mib / 1024) } else { format!("{mib} MiB") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn variables_of_others_are_distinguished_from_our_own() {
        for name in ["RALPH_CONFIG", "RALPH_VERBOSE", "RALPH_DIAGNOSTICS"] {
            assert!(is_foreign(name), "{name}");
        }
        for name in [
            "RALPH_LIMITS__MAX_COST_USD",
            "RALPH_RUN_ID",
            "RALPH_ITERATION",
            "RALPH_LOG",
            "RALPH_ORCHESTRATOR_X",
            "PATH",
        ] {
            assert!(!is_foreign(name), "{name}");
        }
    }

    #[test]
    fn less_than_a_gibibyte_is_low() {
        assert!(is_low(LOW - 1) && !is_low(LOW));
        assert_eq!((amount(3 << 20), amount(12 << 30)), ("3 MiB".into(), "12 GiB".into()));
    }

    #[test]
    fn the_free_space_of_a_folder_that_is_still_to_be_made_is_that_of_its_parent() {
        let folder = tempfile::tempdir().unwrap();
        assert!(free(&folder.path().join("a/b/c")).is_some());
    }
}
