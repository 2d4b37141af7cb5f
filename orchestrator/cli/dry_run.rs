//! `run --dry-run`: what would run. It leaves the state directory as it was.

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::fs;
use std::path::Path;

use ralph_orchestrator_config::{LoadedConfig, duration_text};
use ralph_orchestrator_core::engine::{Session, SetupPlan};
use ralph_orchestrator_core::store::Layout;

use crate::git::RunPlace;
use crate::output;
use crate::render::text::{EVIDENCE_ONLY, escape};

/// Deletes, when it is dropped, what a dry run put into the state directory: its lock and key.
pub(crate) struct DryRunTraces {
    layout: Layout,
    /// What was there before; `None` if the directory itself was not.
    before: Option<BTreeSet<OsString>>,
}

impl DryRunTraces {
    pub(crate) fn new(layout: Layout) -> Self {
        let before = layout.root().is_dir().then(|| entries(layout.root()));
        Self { layout, before }
    }
}

impl Drop for DryRunTraces {
    /// What cannot be deleted is in nobody's way.
    fn drop(&mut self) {
        let root = self.layout.root();
        // A workspace that was made from its template is still to be renewed by `--restart`.
        let kept = self.layout.origin();
        let kept = kept.is_file().then(|| kept.file_name().map(OsString::from)).flatten();
        let known = self.before.iter().flatten().chain(&kept).collect::<BTreeSet<_>>();
        for name in entries(root).iter().filter(|name| !known.contains(name)) {
            let path = root.join(name);
            // All that a dry run leaves in the folder of a series is its lock.
            let _ = fs::remove_file(path.join("lock"));
            let _ = fs::remove_file(&path).or_else(|_| fs::remove_dir(&path));
        }
        if self.before.is_none() && kept.is_none() {
            let _ = fs::remove_dir(root);
        }
    }
}

fn entries(folder: &Path) -> BTreeSet<OsString> {
    let entries = folder.read_dir().into_iter().flatten().flatten();
    entries.map(|entry| entry.file_name()).collect()
}

/// Shows what would run.
pub(crate) fn show(session: &Session, place: &RunPlace, json: bool) {
    let (plan, loaded) = (session.plan(), &place.context.loaded);
    if json {
        let mut object = serde_json::to_value(&plan).unwrap_or_default();
        if let Some(object) = object.as_object_mut().filter(|_| loaded.config.git.worktree) {
            object.insert("worktree".to_owned(), place.object());
        }
        return output::json(&object);
    }
    output::result(&format!("would run {} in {}", plan.agent, plan.workspace.display()));
    if let Some(worktree) = place.describe() {
        output::result(&format!("  worktree    {worktree}"));
    }
    if !plan.fallback.is_empty() {
        output::result(&format!("  fallback    {}", plan.fallback.join(", ")));
    }
    output::result(&format!("  program     {}", plan.program.as_deref().unwrap_or("none")));
    if let Some(setup) = &plan.setup {
        output::result(&format!("  setup       {}", setup_text(setup)));
    }
    output::result(&format!("  detectors   {}", plan.detectors.join(", ")));
    for demand in &plan.validators {
        output::result(&format!("  validator   {demand}"));
    }
    if !plan.validation_required {
        output::result("  validator   NONE: the agent's claim is trusted");
    } else if plan.evidence_only {
        output::result(&format!("  completion  {EVIDENCE_ONLY}"));
    }
    output::result(&format!("  limits      {}", limits(loaded)));
    output::result(&format!("  environment {}", plan.env.join(" ")));
    output::result(&format!("  state       {}", plan.state_dir.display()));
    if let Some(instructions) = &plan.instructions {
        output::result(&format!("  after prompt {}", instructions.trim()));
    }
    output::result(&format!("  next        iteration {}", plan.next_iteration));
}

/// The setup, and that it is skipped until the file that it runs is made.
pub(crate) fn setup_text(setup: &SetupPlan) -> String {
    match &setup.missing {
        Some(file) => format!(
            "`{}`; skipped until {} exists, which is still to be made",
            setup.command,
            escape(&file.display().to_string())
        ),
        None => format!("`{}` before each iteration", setup.command),
    }
}

/// The limits that end most runs.
fn limits(loaded: &LoadedConfig) -> String {
    let limits = &loaded.config.limits;
    let none = || "no limit".to_owned();
    let iterations = limits.max_iterations.map_or_else(none, |most| most.to_string());
    let cost = limits.max_cost_usd.map_or_else(none, |most| most.to_string());
    let runtime = limits.max_runtime.map_or_else(none, duration_text);
    format!("iterations {iterations}, cost {cost}, runtime {runtime}")
}
