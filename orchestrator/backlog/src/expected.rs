//! What a text has to read as after edits, and where it does not.

use ralph_orchestrator_contract::{BacklogEdit, BacklogItem, ItemStatus, NewItem};

/// An item as it has to be read after edits.
pub(crate) struct ExpectedItem {
    item: BacklogItem,
    /// Its notes were written: a format may break their lines in its own way.
    has_new_notes: bool,
    /// The item that was added, if it was.
    added: Option<NewItem>,
}

/// Returns the items as they have to be read after these edits.
pub(crate) fn apply_to_items(items: &[BacklogItem], edits: &[BacklogEdit]) -> Vec<ExpectedItem> {
    let unchanged =
        |item: &BacklogItem| ExpectedItem { item: item.clone(), has_new_notes: false, added: None };
    let mut expected: Vec<ExpectedItem> = items.iter().map(unchanged).collect();
    for edit in edits {
        match edit {
            BacklogEdit::SetStatus { id, status } => {
                if let Some(expected) = find(&mut expected, id) {
                    expected.item.status = *status;
                }
            }
            BacklogEdit::SetNotes { id, notes } => {
                if let Some(expected) = find(&mut expected, id) {
                    expected.item.notes.clone_from(notes);
                    expected.has_new_notes = true;
                }
            }
            BacklogEdit::Add { item } => expected.push(expect_new(item)),
        }
    }
    expected
}

fn find<'a>(expected: &'a mut [ExpectedItem], id: &str) -> Option<&'a mut ExpectedItem> {
    expected.iter_mut().find(|expected| expected.item.id == id)
}

fn expect_new(new: &NewItem) -> ExpectedItem {
    let item = BacklogItem {
        id: new.id.clone().unwrap_or_default(),
        title: new.title.clone(),
        description: new.description.clone(),
        status: ItemStatus::Pending,
        priority: new.priority.unwrap_or_default(),
        criteria: new.criteria.clone(),
        dependencies: new.dependencies.clone(),
        notes: Vec::new(),
        verify: None,
        location: None,
    };
    ExpectedItem { item, has_new_notes: false, added: Some(new.clone()) }
}

/// Returns the first difference in words, if there is one.
pub(crate) fn find_difference(expected: &[ExpectedItem], found: &[BacklogItem]) -> Option<String> {
    let pairs = expected.iter().zip(found);
    let differs = |(expected, found): (&ExpectedItem, &BacklogItem)| {
        let field = expected.differing_field(found)?;
        Some(format!("`{field}` of item `{}` reads differently", found.id))
    };
    let difference = pairs.into_iter().find_map(differs);
    difference.or_else(|| match (expected.len(), found.len()) {
        (expected, found) if expected == found => None,
        (expected, found) => Some(format!("it has {found} items instead of {expected}")),
    })
}

impl ExpectedItem {
    fn differing_field(&self, found: &BacklogItem) -> Option<&'static str> {
        let item = &self.item;
        if let Some(new) = &self.added {
            let is_free = new.id.is_none();
            return differing(&[
                ("id", is_free || item.id == found.id),
                ("title", words(&item.title) == words(&found.title)),
                ("description", words(&item.description) == words(&found.description)),
                ("status", item.status == found.status),
                ("priority", new.priority.is_none() || item.priority == found.priority),
                ("criteria", lists(&item.criteria) == lists(&found.criteria)),
                ("dependencies", item.dependencies == found.dependencies),
            ]);
        }
        let are_same_notes = item.notes == found.notes
            || (self.has_new_notes
                && words(&item.notes.join(" ")) == words(&found.notes.join(" ")));
        differing(&[
            ("id", item.id == found.id),
            ("title", item.title == found.title),
            ("description", item.description == found.description),
            ("status", item.status == found.status),
            ("priority", item.priority == found.priority),
            ("criteria", item.criteria == found.criteria),
            ("dependencies", item.dependencies == found.dependencies),
            ("notes", are_same_notes),
        ])
    }
}

fn differing(fields: &[(&'static str, bool)]) -> Option<&'static str> {
    fields.iter().find(|(_, is_same)| !is_same).map(|(field, _)| *field)
}

fn words(text: &str) -> Vec<&str> {
    text.split_whitespace().collect()
}

fn lists(texts: &[String]) -> Vec<Vec<&str>> {
    texts.iter().map(|text| words(text)).collect()
}
