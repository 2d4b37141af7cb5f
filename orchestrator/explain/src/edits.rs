//! Compares two versions of a text by lines.

use std::collections::HashMap;
use std::ops::Range;

use serde::{Deserialize, Serialize};
use similar::{Algorithm, capture_diff_slices};

/// More lines are not compared: all of them are one edit. The time grows with the square.
const MAX_COMPARED: usize = 10_000;
/// A pure insertion and a pure deletion so many lines apart are one edit: a comparison splits what was moved or
/// rewritten, and one half alone is a text that nobody has written.
const MAX_APART: usize = 6;

/// Lines of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LineRange {
    /// How many lines are before the range.
    pub start: usize,
    /// How many lines are in it.
    pub count: usize,
}

impl LineRange {
    /// Returns the number of lines up to the end of the range.
    #[must_use]
    pub fn end(self) -> usize {
        self.start.saturating_add(self.count)
    }
}

impl From<Range<usize>> for LineRange {
    fn from(range: Range<usize>) -> Self {
        Self { start: range.start, count: range.len() }
    }
}

/// Lines of the base, and those that are in their place in the work.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct LineEdit {
    pub(crate) base: LineRange,
    pub(crate) work: LineRange,
}

/// Splits a text into lines with their ends, so that the lines together are the text.
pub(crate) fn split_lines(text: &[u8]) -> Vec<&[u8]> {
    text.split_inclusive(|byte| *byte == b'\n').collect()
}

/// Finds the edits that make the work from the base, in order.
pub(crate) fn find_edits(base: &[&[u8]], work: &[&[u8]]) -> Vec<LineEdit> {
    let prefix = base.iter().zip(work).take_while(|(old, new)| old == new).count();
    let rest = |lines: &[&[u8]]| lines.len().saturating_sub(prefix);
    let most = rest(base).min(rest(work));
    let ends = base.iter().rev().zip(work.iter().rev());
    let suffix = ends.take(most).take_while(|(old, new)| old == new).count();
    let middle = |lines: &[&[u8]]| prefix..lines.len().saturating_sub(suffix);
    let (old, new) = (middle(base), middle(work));
    if old.is_empty() && new.is_empty() {
        return Vec::new();
    }
    if old.len().saturating_add(new.len()) > MAX_COMPARED {
        return vec![LineEdit { base: old.into(), work: new.into() }];
    }
    let mut numbers = HashMap::new();
    let old = number_lines(&mut numbers, base.get(old).unwrap_or_default());
    let new = number_lines(&mut numbers, work.get(new).unwrap_or_default());
    let mut edits: Vec<LineEdit> = Vec::new();
    for op in capture_diff_slices(Algorithm::Patience, &old, &new) {
        if matches!(op, similar::DiffOp::Equal { .. }) {
            continue;
        }
        let place = |range: Range<usize>| LineRange {
            start: range.start.saturating_add(prefix),
            count: range.len(),
        };
        let edit = LineEdit { base: place(op.old_range()), work: place(op.new_range()) };
        match edits.last_mut().filter(|last| lines_between(last, &edit) == 0) {
            Some(last) => *last = join(last, &edit),
            None => edits.push(edit),
        }
    }
    join_moved(&split_blocks(base, work, &edits))
}

/// Splits edits that end with a new block of code: a comparison takes `fix` and a function that was added after it as
/// one edit where the blank lines between them can be those after the function as well.
fn split_blocks(base: &[&[u8]], work: &[&[u8]], edits: &[LineEdit]) -> Vec<LineEdit> {
    let mut split = Vec::new();
    for (number, edit) in edits.iter().enumerate() {
        let next = edits.get(number.saturating_add(1)).map_or(base.len(), |next| next.base.start);
        let unchanged = base.get(edit.base.end()..next).unwrap_or_default();
        let edited = work.get(edit.work.start..edit.work.end()).unwrap_or_default();
        let (first, added) = edited.split_at(edit.base.count.min(edited.len()));
        let shared = added.iter().zip(unchanged).take_while(|(line, after)| line == after).count();
        let begins = added.iter().find(|line| !line.trim_ascii().is_empty());
        let is_block =
            first.last().zip(begins).is_some_and(|(last, line)| indent(line) < indent(last));
        if is_block && shared > 0 && shared < unchanged.len() {
            let start = edit.work.start.saturating_add(edit.base.count);
            split.push(LineEdit {
                base: edit.base,
                work: LineRange { start: edit.work.start, count: edit.base.count },
            });
            split.push(LineEdit {
                base: LineRange { start: edit.base.end().saturating_add(shared), count: 0 },
                work: LineRange { start: start.saturating_add(shared), count: added.len() },
            });
        } else {
            split.push(*edit);
        }
    }
    split
}

fn indent(line: &[u8]) -> usize {
    line.len().saturating_sub(line.trim_ascii_start().len())
}

/// Gives equal lines equal numbers.
fn number_lines<'a>(numbers: &mut HashMap<&'a [u8], usize>, lines: &[&'a [u8]]) -> Vec<usize> {
    let mut number = |line| {
        let next = numbers.len();
        *numbers.entry(line).or_insert(next)
    };
    lines.iter().map(|line| number(*line)).collect()
}

fn lines_between(first: &LineEdit, second: &LineEdit) -> usize {
    second.base.start.saturating_sub(first.base.end())
}

fn join(first: &LineEdit, second: &LineEdit) -> LineEdit {
    let range = |from: LineRange, to: LineRange| (from.start..to.end()).into();
    LineEdit { base: range(first.base, second.base), work: range(first.work, second.work) }
}

/// Returns how many lines are between a pure insertion and a pure deletion that are one edit.
fn lines_apart(first: Option<&LineEdit>, second: Option<&LineEdit>) -> Option<usize> {
    let (first, second) = (first?, second?);
    let is_pair = |insertion: &LineEdit, deletion: &LineEdit| {
        insertion.base.count == 0 && deletion.work.count == 0
    };
    let between = lines_between(first, second);
    ((is_pair(first, second) || is_pair(second, first)) && between <= MAX_APART).then_some(between)
}

/// Joins each pure insertion and pure deletion that are near each other, the nearest ones first.
fn join_moved(edits: &[LineEdit]) -> Vec<LineEdit> {
    let mut joined = Vec::new();
    let mut at = 0;
    while let Some(edit) = edits.get(at) {
        let (second, third) = (edits.get(at.saturating_add(1)), edits.get(at.saturating_add(2)));
        let apart = lines_apart(Some(edit), second);
        let is_nearest = apart
            .is_some_and(|apart| lines_apart(second, third).is_none_or(|other| other >= apart));
        match second.filter(|_| is_nearest) {
            Some(second) => {
                joined.push(join(edit, second));
                at = at.saturating_add(2);
            }
            None => {
                joined.push(*edit);
                at = at.saturating_add(1);
            }
        }
    }
    joined
}
