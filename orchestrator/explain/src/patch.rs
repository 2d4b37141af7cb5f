//! Divides the work into parts, and puts variants together from them.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};

use crate::content::{FileContent, FileRole, WorkFile};
use crate::edits::{LineEdit, LineRange, find_edits, split_lines};
use crate::variant::PatchVariant;

/// A larger file is one part.
const MAX_BYTES: usize = 8 << 20;

/// Parts by their numbers.
pub(crate) type PartSet = BTreeSet<usize>;

/// What happened to a file that is one part.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FileEvent {
    /// The work added it.
    Added,
    /// The work deleted it.
    Deleted,
    /// It cannot be compared by lines: it is binary, a link, or too large.
    Replaced,
}

/// Which part of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum PartRegion {
    /// All of it.
    File {
        /// What happened to it.
        event: FileEvent,
    },
    /// Whether it can be executed.
    Mode,
    /// Lines.
    Hunk {
        /// Lines before the work.
        base: LineRange,
        /// Lines in their place.
        work: LineRange,
    },
}

/// A part by its file.
#[derive(Clone, Debug)]
pub(crate) struct PatchPart {
    pub(crate) file: usize,
    pub(crate) region: PartRegion,
}

/// A changed file.
#[derive(Debug)]
pub(crate) struct PatchFile<'a> {
    pub(crate) path: &'a str,
    pub(crate) role: FileRole,
    pub(crate) base: Option<&'a FileContent>,
    pub(crate) work: Option<&'a FileContent>,
    pub(crate) base_lines: Vec<&'a [u8]>,
    pub(crate) work_lines: Vec<&'a [u8]>,
}

/// The work as a list of parts.
#[derive(Debug)]
pub(crate) struct Patch<'a> {
    pub(crate) files: Vec<PatchFile<'a>>,
    pub(crate) parts: Vec<PatchPart>,
}

impl<'a> Patch<'a> {
    pub(crate) fn from_files(files: &'a BTreeMap<String, WorkFile>) -> Self {
        let mut patch = Self { files: Vec::new(), parts: Vec::new() };
        for (path, file) in files.iter().filter(|(_, file)| file.base != file.work) {
            patch.add_file(path, file);
        }
        patch
    }

    fn add_file(&mut self, path: &'a str, file: &'a WorkFile) {
        let number = self.files.len();
        let (base, work) = (file.base.as_ref(), file.work.as_ref());
        let mut entry = PatchFile {
            path,
            role: file.role,
            base,
            work,
            base_lines: Vec::new(),
            work_lines: Vec::new(),
        };
        let regions = match (text_of(base), text_of(work)) {
            (Some((old, old_mode)), Some((new, new_mode))) => {
                entry.base_lines = split_lines(old);
                entry.work_lines = split_lines(new);
                let mut regions = Vec::new();
                if old_mode != new_mode {
                    regions.push(PartRegion::Mode);
                }
                let edits = find_edits(&entry.base_lines, &entry.work_lines);
                let hunk = |edit: LineEdit| PartRegion::Hunk { base: edit.base, work: edit.work };
                regions.extend(edits.into_iter().map(hunk));
                regions
            }
            _ => {
                let event = match (base, work) {
                    (None, _) => FileEvent::Added,
                    (_, None) => FileEvent::Deleted,
                    _ => FileEvent::Replaced,
                };
                vec![PartRegion::File { event }]
            }
        };
        self.files.push(entry);
        let parts = regions.into_iter().map(|region| PatchPart { file: number, region });
        self.parts.extend(parts);
    }

    /// Returns a part with its file.
    pub(crate) fn part(&self, number: usize) -> Option<(&PatchPart, &PatchFile<'a>)> {
        let part = self.parts.get(number)?;
        Some((part, self.files.get(part.file)?))
    }

    /// Returns the numbers of the parts for which `is_wanted` holds.
    pub(crate) fn select(&self, is_wanted: impl Fn(&PatchPart, &PatchFile<'a>) -> bool) -> PartSet {
        let is_selected =
            |number: &usize| self.part(*number).is_some_and(|(part, file)| is_wanted(part, file));
        (0..self.parts.len()).filter(is_selected).collect()
    }

    /// Puts the work together without some parts.
    pub(crate) fn compose(&self, left_out: &PartSet) -> PatchVariant {
        let mut regions: Vec<Vec<(PartRegion, bool)>> = vec![Vec::new(); self.files.len()];
        for (number, part) in self.parts.iter().enumerate() {
            if let Some(regions) = regions.get_mut(part.file) {
                regions.push((part.region, left_out.contains(&number)));
            }
        }
        let files = self.files.iter().zip(&regions);
        let files = files.map(|(file, regions)| (file.path.to_owned(), file.compose(regions)));
        PatchVariant { files: files.collect() }
    }
}

impl PatchFile<'_> {
    /// Puts the file together from its parts, each with whether it is left out.
    fn compose(&self, regions: &[(PartRegion, bool)]) -> Option<FileContent> {
        let pick = |is_left_out| if is_left_out { self.base } else { self.work };
        if regions.iter().all(|(_, is_left_out)| !is_left_out) {
            return self.work.cloned();
        }
        let mut mode = self.work;
        let mut bytes = Vec::new();
        let mut at = 0;
        for (region, is_left_out) in regions {
            match region {
                PartRegion::File { .. } => return pick(*is_left_out).cloned(),
                PartRegion::Mode => mode = pick(*is_left_out),
                PartRegion::Hunk { base, work } => {
                    push_lines(&mut bytes, &self.base_lines, at..base.start);
                    match is_left_out {
                        true => push_lines(&mut bytes, &self.base_lines, base.start..base.end()),
                        false => push_lines(&mut bytes, &self.work_lines, work.start..work.end()),
                    }
                    at = base.end();
                }
            }
        }
        push_lines(&mut bytes, &self.base_lines, at..self.base_lines.len());
        let is_executable = matches!(mode, Some(FileContent::Regular { is_executable: true, .. }));
        Some(FileContent::Regular { bytes: bytes.into(), is_executable })
    }

    /// Returns the lines that a region removes and adds.
    pub(crate) fn changed_lines(&self, region: PartRegion) -> (Vec<&[u8]>, Vec<&[u8]>) {
        match region {
            PartRegion::Mode => (Vec::new(), Vec::new()),
            PartRegion::File { .. } => {
                let split = |content| text_of(content).map(|(text, _)| split_lines(text));
                (split(self.base).unwrap_or_default(), split(self.work).unwrap_or_default())
            }
            PartRegion::Hunk { base, work } => (
                self.base_lines.get(base.start..base.end()).unwrap_or_default().to_vec(),
                self.work_lines.get(work.start..work.end()).unwrap_or_default().to_vec(),
            ),
        }
    }
}

fn push_lines(bytes: &mut Vec<u8>, lines: &[&[u8]], range: std::ops::Range<usize>) {
    for line in lines.get(range).unwrap_or_default() {
        bytes.extend_from_slice(line);
    }
}

/// Returns the bytes of a text with its mode; none for binary files, links, and files that are too large.
fn text_of(content: Option<&FileContent>) -> Option<(&[u8], bool)> {
    match content? {
        FileContent::Regular { bytes, is_executable }
            if bytes.len() <= MAX_BYTES && !bytes.contains(&0) =>
        {
            Some((bytes, *is_executable))
        }
        FileContent::Regular { .. } | FileContent::Link { .. } => None,
    }
}
