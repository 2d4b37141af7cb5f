//! The JSON files of other tools, as data.

use crate::order::ItemOrder;

/// How a file stores an item's status.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum StatusField {
    /// A word in the field `status`.
    Word,
    /// The flag `passes`.
    Passes,
    /// The flags `passes` and `in_progress`.
    PassesAndInProgress,
}

/// The priority of an item that has none.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum DefaultPriority {
    Zero,
    /// The item's number in the file, from 1.
    Number,
}

/// How new items are numbered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum IdStyle {
    /// From the title.
    Slug,
    /// `US-001`, `US-002`, …
    Story,
    /// 1, 2, …, as numbers. An item without an id has its number in the file.
    Number,
}

/// One tool's names for the fields of an item. Of several names, the first that an item has
/// counts, and new items get the first.
#[derive(Debug)]
pub(super) struct Dialect {
    /// The key of the array of items; `None` if the document is that array.
    pub(super) items_key: Option<&'static str>,
    pub(super) order: ItemOrder,
    pub(super) title: &'static str,
    pub(super) criteria: &'static [&'static str],
    pub(super) dependencies: &'static [&'static str],
    pub(super) notes: &'static str,
    pub(super) status: StatusField,
    pub(super) priority: DefaultPriority,
    pub(super) ids: IdStyle,
    /// Whether title and id may be missing.
    pub(super) unnamed: bool,
    /// Whether the description may be missing.
    pub(super) undescribed: bool,
    /// Whether new items get a field `notes` with an empty text.
    pub(super) empty_notes: bool,
}

/// feature-list.json.
pub(super) static FEATURE_LIST: Dialect = Dialect {
    items_key: Some("features"),
    order: ItemOrder::InProgressThenHighest,
    title: "name",
    criteria: &["acceptance_criteria"],
    dependencies: &["depends_on"],
    notes: "implementation_notes",
    status: StatusField::Word,
    priority: DefaultPriority::Zero,
    ids: IdStyle::Slug,
    unnamed: false,
    undescribed: false,
    empty_notes: false,
};

/// prd.json.
pub(super) static PRD: Dialect = Dialect {
    items_key: Some("userStories"),
    order: ItemOrder::Lowest,
    title: "title",
    criteria: &["acceptanceCriteria"],
    dependencies: &["dependencies", "dependsOn", "depends_on"],
    notes: "notes",
    status: StatusField::Passes,
    priority: DefaultPriority::Number,
    ids: IdStyle::Story,
    unnamed: false,
    undescribed: true,
    empty_notes: true,
};

/// feature_list.json, which came before features.db.
pub(super) static FEATURE_ARRAY: Dialect = Dialect {
    items_key: None,
    order: ItemOrder::LowestThenId,
    title: "name",
    criteria: &["steps"],
    dependencies: &["dependencies", "depends_on"],
    notes: "notes",
    status: StatusField::PassesAndInProgress,
    priority: DefaultPriority::Number,
    ids: IdStyle::Number,
    unnamed: true,
    undescribed: false,
    empty_notes: false,
};

impl Dialect {
    /// Returns whether an agent may change this field of an item.
    pub(super) fn is_open(&self, key: &str) -> bool {
        key == self.notes
            || match self.status {
                StatusField::Word => key == "status",
                StatusField::Passes => key == "passes",
                StatusField::PassesAndInProgress => key == "passes" || key == "in_progress",
            }
    }
}
