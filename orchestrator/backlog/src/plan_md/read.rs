//! Finds the checkboxes of a Markdown plan.

use std::collections::{HashMap, HashSet};
use std::ops::Range;

use pulldown_cmark::{Event, OffsetIter, Options, Parser, Tag, TagEnd};

use crate::item::{BacklogItem, ItemStatus};
use crate::order::ItemOrder;
use crate::text::{Locator, slugify};
use crate::text_format::Document;

/// What a nested list entry with a note begins with.
pub(super) const NOTE_PREFIX: &str = "Note: ";

/// What edits need to know of a plan.
#[derive(Debug)]
pub(crate) struct PlanLayout {
    pub(super) entries: Vec<PlanEntry>,
}

/// The parts of one item's source.
#[derive(Clone, Debug, Default)]
pub(super) struct PlanEntry {
    /// The item, without the blank lines after it.
    pub(super) span: Range<usize>,
    /// `[ ]` or `[x]`.
    pub(super) checkbox: Range<usize>,
    /// The nested entries that are notes.
    pub(super) notes: Vec<Range<usize>>,
    /// The checkboxes of nested entries.
    pub(super) nested_boxes: Vec<Range<usize>>,
    is_checked: bool,
    title: String,
    children: Vec<Range<usize>>,
}

pub(super) fn read_plan(text: &str) -> Document<PlanLayout> {
    let entries = PlanScanner::new(text).scan();
    let mut locator = Locator::new(text);
    let mut ids = IdAllocator::default();
    let mut items = Vec::with_capacity(entries.len());
    for entry in &entries {
        let nested: Vec<(bool, String)> =
            entry.children.iter().map(|child| read_child(text, child)).collect();
        let pick = |is_note: bool| {
            let matching = nested.iter().filter(|(note, _)| *note == is_note);
            matching.map(|(_, text)| text.clone()).collect()
        };
        let body = text.get(entry.checkbox.end..entry.span.end).unwrap_or_default();
        items.push(BacklogItem {
            id: ids.allocate(&slugify(&entry.title)),
            title: entry.title.clone(),
            description: describe(text, entry, body),
            status: if entry.is_checked { ItemStatus::Completed } else { ItemStatus::Pending },
            priority: 0,
            criteria: pick(false),
            dependencies: Vec::new(),
            notes: pick(true),
            verify: None,
            location: Some(locator.locate(entry.span.start)),
        });
    }
    let spans = entries.iter().map(|entry| entry.span.clone()).collect();
    Document { items, spans, order: ItemOrder::File, layout: PlanLayout { entries } }
}

/// Returns what an item's source has beside its title and its nested lists.
fn describe(text: &str, entry: &PlanEntry, body: &str) -> String {
    let end = entry.children.first().map_or(entry.span.end, |child| child.start);
    let before = text.get(entry.checkbox.end..end).unwrap_or(body).trim();
    let rest = before.split_once('\n').map_or("", |(_, rest)| rest);
    rest.trim().to_owned()
}

/// Returns whether a nested entry is a note, and its text on one line.
fn read_child(text: &str, span: &Range<usize>) -> (bool, String) {
    let source = collapse_whitespace(text.get(span.clone()).unwrap_or_default());
    let content = strip_marker(&source);
    match content.strip_prefix(NOTE_PREFIX) {
        Some(note) => (true, note.to_owned()),
        None => {
            let boxes = ["[ ] ", "[x] ", "[X] "];
            let criterion = boxes.iter().find_map(|prefix| content.strip_prefix(prefix));
            (false, criterion.unwrap_or(content).to_owned())
        }
    }
}

pub(super) fn collapse_whitespace(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

fn strip_marker(source: &str) -> &str {
    let (marker, rest) = source.split_once(' ').unwrap_or((source, ""));
    let number = marker.trim_end_matches(['.', ')']);
    let is_number = number.len() < marker.len() && number.bytes().all(|b| b.is_ascii_digit());
    if matches!(marker, "-" | "*" | "+") || is_number { rest } else { source }
}

/// Gives equal titles ids of their own, in file order.
#[derive(Default)]
struct IdAllocator {
    taken: HashSet<String>,
    next: HashMap<String, u64>,
}

impl IdAllocator {
    fn allocate(&mut self, base: &str) -> String {
        if self.taken.insert(base.to_owned()) {
            return base.to_owned();
        }
        let number = self.next.entry(base.to_owned()).or_insert(2);
        loop {
            let id = format!("{base}-{number}");
            *number += 1;
            if self.taken.insert(id.clone()) {
                return id;
            }
        }
    }
}

/// Collects the items that are checkboxes of lists at the top level.
struct PlanScanner<'a> {
    text: &'a str,
    /// The length of a byte order mark, which the parser would take for text.
    base: usize,
    events: OffsetIter<'a>,
    /// How many lists are open.
    lists: usize,
    /// How many other containers are open: a list in a quotation is none of the plan's.
    containers: usize,
    current: Option<PlanEntry>,
    has_checkbox: bool,
    is_title_open: bool,
    entries: Vec<PlanEntry>,
}

impl<'a> PlanScanner<'a> {
    fn new(text: &'a str) -> Self {
        let options = Options::ENABLE_TASKLISTS | Options::ENABLE_YAML_STYLE_METADATA_BLOCKS;
        let body = text.strip_prefix('\u{feff}').unwrap_or(text);
        Self {
            text,
            base: text.len() - body.len(),
            events: Parser::new_ext(body, options).into_offset_iter(),
            lists: 0,
            containers: 0,
            current: None,
            has_checkbox: false,
            is_title_open: false,
            entries: Vec::new(),
        }
    }

    fn scan(mut self) -> Vec<PlanEntry> {
        while let Some((event, range)) = self.events.next() {
            let range = range.start + self.base..range.end + self.base;
            match event {
                Event::Start(tag) => self.enter(&tag, range),
                Event::End(tag) => self.leave(tag),
                Event::TaskListMarker(is_checked) => self.mark(is_checked, range),
                Event::Text(text) | Event::Code(text) if self.is_title_open => {
                    if let Some(entry) = &mut self.current {
                        entry.title.push_str(&text);
                    }
                }
                Event::SoftBreak | Event::HardBreak if self.is_title_open => {
                    if let Some(entry) = &mut self.current {
                        entry.title.push(' ');
                    }
                }
                _ => {}
            }
        }
        self.entries
    }

    fn enter(&mut self, tag: &Tag<'_>, range: Range<usize>) {
        match tag {
            Tag::List(_) => {
                self.lists += 1;
                self.is_title_open = false;
            }
            Tag::Item if self.lists == 1 && self.containers == 0 => {
                self.has_checkbox = false;
                let span = trim_end(self.text, range);
                self.current = Some(PlanEntry { span, ..PlanEntry::default() });
            }
            Tag::Item => {
                if self.lists == 2
                    && self.containers == 0
                    && let Some(entry) = &mut self.current
                {
                    entry.children.push(trim_end(self.text, range));
                }
            }
            Tag::BlockQuote(_) => {
                self.containers += 1;
                self.is_title_open = false;
            }
            Tag::Paragraph | Tag::CodeBlock(_) | Tag::HtmlBlock | Tag::Heading { .. } => {
                self.is_title_open = false;
            }
            _ => {}
        }
    }

    fn leave(&mut self, tag: TagEnd) {
        match tag {
            TagEnd::List(_) => self.lists = self.lists.saturating_sub(1),
            TagEnd::BlockQuote(_) => self.containers = self.containers.saturating_sub(1),
            TagEnd::Paragraph => self.is_title_open = false,
            TagEnd::Item if self.lists == 1 && self.containers == 0 => self.finish_item(),
            _ => {}
        }
    }

    fn mark(&mut self, is_checked: bool, range: Range<usize>) {
        let Some(entry) = &mut self.current else { return };
        if self.lists == 1 && self.containers == 0 {
            entry.is_checked = is_checked;
            entry.checkbox = range;
            self.has_checkbox = true;
            self.is_title_open = true;
        } else {
            entry.nested_boxes.push(range);
        }
    }

    fn finish_item(&mut self) {
        self.is_title_open = false;
        let Some(mut entry) = self.current.take() else { return };
        entry.title = collapse_whitespace(&entry.title);
        if !self.has_checkbox || entry.title.is_empty() {
            return;
        }
        let children = entry.children.iter();
        entry.notes = children.filter(|child| read_child(self.text, child).0).cloned().collect();
        self.entries.push(entry);
    }
}

fn trim_end(text: &str, range: Range<usize>) -> Range<usize> {
    let length = text.get(range.clone()).unwrap_or_default().trim_end().len();
    range.start..range.start + length
}
