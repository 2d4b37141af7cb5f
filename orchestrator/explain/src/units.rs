//! Groups parts that are left out together.

use std::collections::{BTreeMap, BTreeSet};

use crate::inert::is_comment;
use crate::patch::{FileEvent, PartRegion, PartSet, Patch, PatchFile, PatchPart};
use crate::words::{collect_words, file_stem};

/// Returns the parts as sets that cannot be divided: a file and a folder of the same name exclude each other, and so
/// do their parts.
pub(crate) fn find_units(patch: &Patch<'_>) -> Vec<PartSet> {
    let paths: BTreeSet<&str> = patch.files.iter().map(|file| file.path).collect();
    let mut bound: BTreeMap<&str, PartSet> = BTreeMap::new();
    for (number, part) in patch.parts.iter().enumerate() {
        let Some(file) = patch.files.get(part.file) else { continue };
        let mut parents = file.path.match_indices('/').filter_map(|(at, _)| file.path.get(..at));
        let top = parents.find(|parent| paths.contains(parent)).unwrap_or(file.path);
        bound.entry(top).or_default().insert(number);
    }
    let has_folder = |top: &str, parts: &PartSet| {
        parts.iter().filter_map(|part| patch.part(*part)).any(|(_, file)| file.path != top)
    };
    let mut units = Vec::new();
    for (top, parts) in bound {
        if has_folder(top, &parts) {
            units.push(parts);
        } else {
            units.extend(parts.into_iter().map(|part| PartSet::from([part])));
        }
    }
    units.sort();
    units
}

/// The words that a part brings or takes away.
#[derive(Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct PartWords {
    words: BTreeSet<(bool, Vec<u8>)>,
}

impl PartWords {
    /// Returns whether two parts bring, or take away, the same word.
    pub(crate) fn has_common(&self, other: &Self) -> bool {
        !self.words.is_disjoint(&other.words)
    }
}

/// Collects the identifiers of each part that the base has nowhere, and those that the work has nowhere.
pub(crate) fn collect_part_words(patch: &Patch<'_>) -> Vec<PartWords> {
    let known = |is_work: bool| -> BTreeSet<Vec<u8>> {
        let words = patch.files.iter().flat_map(|file| {
            let region = PartRegion::File { event: FileEvent::Replaced };
            let (base, work) = file.changed_lines(region);
            let (lines, exists) = match is_work {
                true => (work, file.work.is_some()),
                false => (base, file.base.is_some()),
            };
            let stem = exists.then(|| file_stem(file.path).as_bytes());
            lines.into_iter().chain(stem).flat_map(collect_words).map(<[u8]>::to_vec)
        });
        words.collect()
    };
    let (base, work) = (known(false), known(true));
    let of_part = |part: &PatchPart, file: &PatchFile<'_>| {
        let (removed, added) = file.changed_lines(part.region);
        let is_file = |wanted| part.region == PartRegion::File { event: wanted };
        let stem = file_stem(file.path).as_bytes();
        let added_stem = is_file(FileEvent::Added).then_some(stem);
        let removed_stem = is_file(FileEvent::Deleted).then_some(stem);
        let collect = |lines: Vec<&[u8]>, stem: Option<&[u8]>, other: &BTreeSet<Vec<u8>>| {
            let lines = lines.into_iter().filter(|line| !is_comment(file.path, line));
            let words = lines.chain(stem).flat_map(collect_words);
            let words = words.filter(|word| !other.contains(*word));
            words.map(<[u8]>::to_vec).collect::<Vec<_>>()
        };
        let added = collect(added, added_stem, &base).into_iter().map(|word| (true, word));
        let removed = collect(removed, removed_stem, &work).into_iter().map(|word| (false, word));
        PartWords { words: added.chain(removed).collect() }
    };
    let parts = patch.parts.iter().map(|part| match patch.files.get(part.file) {
        Some(file) => of_part(part, file),
        None => PartWords::default(),
    });
    parts.collect()
}

/// Groups units that share such a word, or are a file that was moved; only groups of two and more.
pub(crate) fn find_clusters(
    patch: &Patch<'_>,
    units: &[PartSet],
    words: &[PartWords],
) -> Vec<Vec<PartSet>> {
    let mut clusters: Vec<Vec<PartSet>> = Vec::new();
    for unit in units {
        let belongs = |cluster: &[PartSet]| {
            let others = cluster.iter().flatten();
            let mut pairs = others.flat_map(|other| unit.iter().map(move |part| (*part, *other)));
            pairs.any(|(part, other)| belong_together(patch, words, part, other))
        };
        let (joined, rest): (Vec<_>, Vec<_>) =
            clusters.into_iter().partition(|cluster| belongs(cluster.as_slice()));
        clusters = rest;
        let mut cluster: Vec<PartSet> = joined.into_iter().flatten().collect();
        cluster.push(unit.clone());
        cluster.sort();
        clusters.push(cluster);
    }
    clusters.retain(|cluster| cluster.len() > 1);
    clusters.sort();
    clusters
}

fn belong_together(patch: &Patch<'_>, words: &[PartWords], part: usize, other: usize) -> bool {
    let share_word = words.get(part).zip(words.get(other)).is_some_and(|(a, b)| a.has_common(b));
    let is_moved = |from: usize, to: usize| {
        let (from, to) = (patch.part(from), patch.part(to));
        from.zip(to).is_some_and(|((_, from), (_, to))| {
            from.work.is_none() && to.base.is_none() && from.base == to.work
        })
    };
    share_word || is_moved(part, other) || is_moved(other, part)
}
