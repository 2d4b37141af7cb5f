//! Shows the parts as hunks with their verdicts, so that a page can grey what no check notices.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::content::WorkFile;
use crate::explanation::{ExplainedPart, Explanation};
use crate::patch::{PartRegion, Patch, PatchFile};

/// Lines shown before and after a hunk.
const CONTEXT: usize = 3;
/// More lines of a part are not shown.
const MAX_LINES: usize = 2_000;

/// What a line of a patch is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum PatchLineKind {
    /// In base and work.
    Context,
    /// Only in the base.
    Removed,
    /// Only in the work.
    Added,
}

/// One line of a patch.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PatchLine {
    /// What it is.
    pub kind: PatchLineKind,
    /// Its text without the line's end; bytes that are not UTF-8 are replaced.
    pub text: String,
}

/// A part with the lines that show it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PatchHunk {
    /// The part and what is known about it.
    #[serde(flatten)]
    pub part: ExplainedPart,
    /// The lines; none for a file that has no text, and for a mode.
    pub lines: Vec<PatchLine>,
    /// Whether more lines exist than are shown.
    pub is_cut: bool,
}

/// Returns the parts of an explanation with their lines.
#[must_use]
pub fn view_patch(files: &BTreeMap<String, WorkFile>, explanation: &Explanation) -> Vec<PatchHunk> {
    let patch = Patch::from_files(files);
    let parts = explanation.parts.iter().enumerate();
    let hunks = parts.filter_map(|(number, part)| {
        let (_, file) = patch.part(number).filter(|(_, file)| file.path == part.path)?;
        let mut lines = view_lines(file, part.region);
        let is_cut = lines.len() > MAX_LINES;
        lines.truncate(MAX_LINES);
        Some(PatchHunk { part: part.clone(), lines, is_cut })
    });
    hunks.collect()
}

fn view_lines(file: &PatchFile<'_>, region: PartRegion) -> Vec<PatchLine> {
    let (removed, added) = file.changed_lines(region);
    let (mut before, mut after): (&[&[u8]], &[&[u8]]) = (&[], &[]);
    if let PartRegion::Hunk { base, .. } = region {
        let lines = &file.base_lines;
        before = lines.get(base.start.saturating_sub(CONTEXT)..base.start).unwrap_or_default();
        let end = base.end().saturating_add(CONTEXT).min(lines.len());
        after = lines.get(base.end()..end).unwrap_or_default();
    }
    let lines = [
        (PatchLineKind::Context, before),
        (PatchLineKind::Removed, &removed),
        (PatchLineKind::Added, &added),
        (PatchLineKind::Context, after),
    ];
    let line = |kind, line: &&[u8]| {
        let text = String::from_utf8_lossy(line);
        PatchLine { kind, text: text.trim_end_matches(['\n', '\r']).to_owned() }
    };
    lines.iter().flat_map(|(kind, lines)| lines.iter().map(|text| line(*kind, text))).collect()
}
