//! What the run and its iterations changed.

use ralph_orchestrator_assembly::context::Context;
use ralph_orchestrator_assembly::error::CommandError;
use ralph_orchestrator_assembly::git::blocking;
use ralph_orchestrator_assembly::git::open_stored_run;
use ralph_orchestrator_story::diff;
use ralph_orchestrator_story::run_summary::IterationSummary;
use ralph_orchestrator_story::selected_run::SelectedRun;
use ralph_orchestrator_text::{count, len};
use serde::Serialize;

/// Bytes of the patch of the whole run, and of an iteration.
const LONGEST_WHOLE: usize = 256 * 1024;
const LONGEST_ONE: usize = 64 * 1024;
/// Iterations whose patch is shown, the newest that changed something.
const MOST_PATCHES: usize = 20;

/// The patches, or why there are none.
#[derive(Debug, Default, Serialize)]
pub(super) struct Patches {
    list: Vec<Patch>,
    left_out: usize,
    problem: Option<String>,
}

#[derive(Debug, Serialize)]
struct Patch {
    title: String,
    lines: Vec<Line>,
    is_truncated: bool,
}

#[derive(Debug, Serialize)]
struct Line {
    /// "good", "bad" or nothing.
    class: &'static str,
    text: String,
}

impl Patches {
    pub(super) async fn read(
        selected: &SelectedRun,
        iterations: &[&IterationSummary],
        context: &Context,
    ) -> Self {
        let changed = iterations.iter().filter(|one| {
            one.iteration > 0 && one.changes.as_ref().is_some_and(|changes| !changes.is_empty())
        });
        let mut changed: Vec<u64> = changed.map(|one| one.iteration).collect();
        let left_out = changed.len().saturating_sub(MOST_PATCHES);
        changed.drain(..left_out);
        match Self::compare(selected, changed, context).await {
            Ok(list) => Self { list, left_out, problem: None },
            Err(error) => Self { problem: Some(error.summary()), ..Self::default() },
        }
    }

    async fn compare(
        selected: &SelectedRun,
        changed: Vec<u64>,
        context: &Context,
    ) -> Result<Vec<Patch>, CommandError> {
        let found = selected.found.clone();
        let stored = open_stored_run(
            &selected.layout,
            found,
            context.loaded.config.run.workspace.clone(),
            (context.agent_places(), None),
            &context.vars,
        );
        let stored = stored.await?;
        let last = selected.found.state.saves.iteration;
        let compare = move || {
            let whole = last.filter(|last| *last > 1).map(|last| (vec![0, last], LONGEST_WHOLE));
            let each = changed.into_iter().rev().map(|one| (vec![one], LONGEST_ONE));
            let pairs = whole.into_iter().chain(each);
            // What was stored of a part of them is shown.
            let compared = pairs.filter_map(|(pair, longest)| {
                let patch = diff::compare(&stored, &pair, longest).ok()?;
                (!patch.2.files.is_empty()).then(|| Patch::new(&patch))
            });
            compared.collect()
        };
        blocking(compare).await
    }
}

impl Patch {
    fn new((from, to, diff): &(u64, u64, ralph_orchestrator_git::Diff)) -> Self {
        let files = count(len(&diff.files), "file");
        let title = match *from == to.saturating_sub(1) {
            true => format!("iteration {to}: {files}"),
            false => format!("the whole run, to iteration {to}: {files}"),
        };
        let text = String::from_utf8_lossy(&diff.patch);
        let lines = text.lines().map(|line| Line { class: class(line), text: line.to_owned() });
        Self { title, lines: lines.collect(), is_truncated: diff.is_patch_truncated }
    }
}

fn class(line: &str) -> &'static str {
    match line.as_bytes().first() {
        Some(b'+') if !line.starts_with("+++ ") => "good",
        Some(b'-') if !line.starts_with("--- ") => "bad",
        _ => "",
    }
}
