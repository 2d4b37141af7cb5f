//! Finding the forms of secrets in text, and what a cut has left of them.

use std::fmt;
use std::ops::Range;

use aho_corasick::{AhoCorasick, MatchKind};
use memchr::memchr_iter;

use super::canonical::{self, Canonical, WIDEST_GAP};
use super::filter::Filter;
use super::forms::{self, Form};

/// Of longer forms, parts are found wherever they stand.
const LONG: usize = 128;
/// Such parts have so many bytes at least, ...
const PART: usize = 64;
/// ... of which so many begin at each multiple of it: one of them is whole in every part.
const PART_SEED: usize = 16;
const PART_STEP: usize = PART - PART_SEED;
/// What is left of a secret at a quotation mark has so many bytes at least: it is an end of text
/// more often than a cut.
const QUOTED: usize = 8;

/// What the ends of a text are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Edges {
    /// Text may have been cut off before it, and before its lines.
    pub(super) start: bool,
    /// Text may have been cut off after it.
    pub(super) end: bool,
}

impl Edges {
    /// Of a text of its own.
    pub(super) const OPEN: Self = Self { start: true, end: true };
}

/// What a seed is of its form.
#[derive(Clone, Copy, Debug)]
enum Seed {
    Begin,
    End,
    /// From this byte on.
    Part(usize),
}

/// Finds secrets. A short look at a text tells whether there could be any.
pub(super) struct Finder {
    forms: Vec<Form>,
    filter: Filter,
    /// The beginnings and ends of all forms.
    seeds: AhoCorasick,
    /// What the seeds are, by their numbers.
    origins: Vec<(usize, Seed)>,
    whole: AhoCorasick,
}

impl fmt::Debug for Finder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Finder({} forms)", self.forms.len())
    }
}

impl Finder {
    /// `None` if there are no secrets.
    pub(super) fn new<'a>(values: impl Iterator<Item = &'a str>) -> Option<Self> {
        let forms = forms::of_all(values);
        if forms.is_empty() {
            return None;
        }
        let (mut seeds, mut origins) = (Vec::new(), Vec::new());
        for (number, form) in forms.iter().enumerate() {
            let mut add = |part: Option<&[u8]>, seed| {
                if let Some(part) = part {
                    seeds.push(part.to_vec());
                    origins.push((number, seed));
                }
            };
            let bytes = form.bytes.as_slice();
            add(bytes.get(..form.seed), Seed::Begin);
            if form.has_parts {
                add(bytes.get(bytes.len() - form.seed..), Seed::End);
                if bytes.len() > LONG {
                    for at in (0..bytes.len()).step_by(PART_STEP) {
                        add(bytes.get(at..at + PART_SEED), Seed::Part(at));
                    }
                }
            }
        }
        let build = |patterns: Vec<Vec<u8>>| {
            AhoCorasick::builder().match_kind(MatchKind::Standard).build(patterns).ok()
        };
        let whole = build(forms.iter().map(|form| form.bytes.clone()).collect())?;
        let filter = Filter::new(&seeds);
        Some(Self { filter, seeds: build(seeds)?, origins, whole, forms })
    }

    /// How many bytes the longest form has.
    pub(super) fn longest(&self) -> usize {
        self.forms.iter().map(|form| form.bytes.len()).max().unwrap_or(0)
    }

    /// Where secrets stand: in order, none within another.
    pub(super) fn find(&self, text: &str, edges: Edges) -> Vec<Range<usize>> {
        let mut found = Vec::new();
        if self.is_worth_it(&canonical::bytes(text)) {
            self.search(text, &Canonical::new(text), edges, &mut found);
        }
        // As it stands too: an escape before a secret may have taken its first character.
        if canonical::has_escapes(text) && self.is_worth_it(text.as_bytes()) {
            self.search(text, &Canonical::verbatim(text), edges, &mut found);
        }
        joined(found)
    }

    fn is_worth_it(&self, bytes: &[u8]) -> bool {
        self.filter.may_match(bytes) && self.seeds.is_match(bytes)
    }

    fn search(
        &self,
        text: &str,
        canonical: &Canonical<'_>,
        edges: Edges,
        found: &mut Vec<Range<usize>>,
    ) {
        let bytes = canonical.bytes.as_ref();
        let mut add = |part: Range<usize>| {
            let source = canonical.source(&part);
            found.push(text.floor_char_boundary(source.start)..text.ceil_char_boundary(source.end));
        };
        for whole in self.whole.find_overlapping_iter(bytes) {
            add(whole.range());
        }
        for seed in self.seeds.find_overlapping_iter(bytes) {
            let Some(&(form, kind)) = self.origins.get(seed.pattern().as_usize()) else { continue };
            let Some(form) = self.forms.get(form).filter(|form| form.has_parts) else { continue };
            let form = form.bytes.as_slice();
            let at = match kind {
                Seed::Begin => 0,
                Seed::End => form.len() - seed.len(),
                Seed::Part(at) => at,
            };
            let before = common_end(bytes.get(..seed.start()), form.get(..at));
            let after = common_begin(bytes.get(seed.end()..), form.get(at + seed.len()..));
            let part = seed.start() - before..seed.end() + after;
            let source = canonical.source(&part);
            let is_left = match kind {
                Seed::Begin => is_cut_after(text, source.end, edges, part.len()),
                Seed::End => edges.start && is_cut_before(text, source.start, part.len()),
                Seed::Part(_) => part.len() >= PART,
            };
            if is_left {
                add(part);
            }
        }
    }

    /// Where a form may have begun of which the rest is still to come, if it has so many bytes at
    /// least; the text's length if nowhere.
    pub(super) fn open(&self, text: &str, least: usize) -> usize {
        // Nothing that begins further ahead can still be open.
        let from = text.len().saturating_sub(self.longest().saturating_mul(WIDEST_GAP));
        let (begin, end) = text.split_at(text.floor_char_boundary(from));
        // White space says nothing once a line's end has come after it.
        let ended = end.trim_ascii_end();
        let wrapped = (ended.len() < end.len()).then(|| Canonical::new(ended));
        let forms = [Canonical::new(end), Canonical::verbatim(end)].into_iter().chain(wrapped);
        let open = forms.map(|form| match self.open_end(&form.bytes) {
            open if open < least => end.len(),
            open => form.source(&(form.bytes.len() - open..form.bytes.len())).start,
        });
        let open = open.min().unwrap_or(end.len());
        begin.len() + end.floor_char_boundary(open)
    }

    fn open_end(&self, bytes: &[u8]) -> usize {
        let open = |form: &Form| {
            let first = form.bytes.first()?;
            let from = bytes.len().saturating_sub(form.bytes.len() - 1);
            let tail = bytes.get(from..)?;
            let begins =
                |at: &usize| tail.get(*at..).is_some_and(|end| form.bytes.starts_with(end));
            memchr_iter(*first, tail).find(begins).map(|at| tail.len() - at)
        };
        self.forms.iter().filter_map(open).max().unwrap_or(0)
    }
}

/// In order, with those that overlap made one.
fn joined(mut found: Vec<Range<usize>>) -> Vec<Range<usize>> {
    found.sort_unstable_by_key(|range| (range.start, range.end));
    let mut joined: Vec<Range<usize>> = Vec::with_capacity(found.len());
    for range in found {
        match joined.last_mut() {
            Some(last) if range.start < last.end => last.end = last.end.max(range.end),
            _ => joined.push(range),
        }
    }
    joined
}

fn common_begin(one: Option<&[u8]>, other: Option<&[u8]>) -> usize {
    let pairs = one.unwrap_or_default().iter().zip(other.unwrap_or_default());
    pairs.take_while(|(one, other)| one == other).count()
}

fn common_end(one: Option<&[u8]>, other: Option<&[u8]>) -> usize {
    let pairs = one.unwrap_or_default().iter().rev().zip(other.unwrap_or_default().iter().rev());
    pairs.take_while(|(one, other)| one == other).count()
}

/// Whether text may have been cut off here: at the text's end, a line's end, or what stands for it.
fn is_cut_after(text: &str, at: usize, edges: Edges, len: usize) -> bool {
    let rest = text.get(at..).unwrap_or_default();
    if rest.is_empty() {
        return edges.end;
    }
    let plain = rest.trim_start_matches('\\');
    let escaped = plain.len() < rest.len() && plain.starts_with(['n', 'r']);
    let quoted = len >= QUOTED && plain.starts_with('"');
    escaped || quoted || rest.starts_with(['\n', '\r', '…']) || rest.starts_with("...")
}

/// Whether text may have been cut off before this.
fn is_cut_before(text: &str, at: usize, len: usize) -> bool {
    let before = text.get(..at).unwrap_or_default().trim_end_matches([' ', '\t']);
    let escaped = before.strip_suffix(['n', 'r']).is_some_and(|before| before.ends_with('\\'));
    let quoted = len >= QUOTED && before.ends_with('"');
    before.is_empty()
        || escaped
        || quoted
        || before.ends_with(['\n', '\r', '…'])
        || before.ends_with("...")
}
