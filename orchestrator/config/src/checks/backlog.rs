//! Checks of `[backlog]`.

use std::path::{Component, Path};

use super::is_name;
use crate::backlog_table::BacklogTable;
use crate::diagnostics::Diagnostics;
use crate::model::{BacklogConfig, BacklogTracker, DetectorConfig, ITEM, VERIFY};

/// The detector of what an agent sets to completed.
const DETECTOR: &str = "backlog";

/// Checks the table; `None` if the file has none.
pub(super) fn check(
    table: BacklogTable,
    detectors: &[DetectorConfig],
    diagnostics: &mut Diagnostics<'_>,
) -> Option<BacklogConfig> {
    if table.is_empty() && !diagnostics.is_given(&["backlog"]) {
        check_detectors(detectors, diagnostics);
        return None;
    }
    let is_broken = |key: &str| diagnostics.is_broken(&["backlog", key]);
    let (kind_broken, path_broken) = (is_broken("kind"), is_broken("path"));
    let kind = table.kind.unwrap_or_default();
    if kind.is_empty() && !kind_broken && !diagnostics.is_given(&["backlog", "kind"]) {
        diagnostics.add(&["backlog"], "`kind` is missing, such as `kind = \"json\"`");
    } else if !is_name(&kind) && !kind_broken {
        let message = format!("expected the name of a format, found {kind:?}");
        diagnostics.add(&["backlog", "kind"], message);
    }
    // Whether there has to be one is for the format to say.
    if let Some(path) = table.path.as_ref().filter(|path| !path_broken && !is_inside(path)) {
        let message = format!(
            "expected the path of a file inside the workspace, relative to it, found {:?}",
            path.display().to_string()
        );
        diagnostics.add(&["backlog", "path"], message);
    }
    let is_no_program =
        |program: &String| program.is_empty() || program.contains(ITEM) || program.contains(VERIFY);
    if table.check.first().is_some_and(is_no_program) {
        let message = format!("expected a program, such as [\"./accept.sh\", \"{ITEM}\"]");
        diagnostics.add(&["backlog", "check"], message);
    }
    Some(BacklogConfig {
        kind,
        path: table.path,
        tracker: BacklogTracker {
            repository: table.repository,
            label: table.label,
            labels: table.labels,
        },
        order: table.order,
        agent_completions: table.agent_completions,
        max_item_iterations: table.max_item_iterations,
        max_item_cost_usd: table.max_item_cost_usd,
        check: table.check,
    })
}

/// Refuses the detector that looks at an item where there are none.
fn check_detectors(detectors: &[DetectorConfig], diagnostics: &mut Diagnostics<'_>) {
    if detectors.iter().any(|detector| detector.name == DETECTOR) {
        let message = format!(
            "the detector {DETECTOR:?} finds the item that an agent sets to completed, and there is no [backlog]"
        );
        diagnostics.add(&["completion", "detectors"], message);
    }
}

/// Whether a path names a file inside the workspace, relative to it.
pub(super) fn is_inside(path: &Path) -> bool {
    let is_plain = |part: Component<'_>| matches!(part, Component::Normal(_) | Component::CurDir);
    path.file_name().is_some() && path.components().all(is_plain)
}
