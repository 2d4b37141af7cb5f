//! Conformance tests for formats of backlogs.

use ralph_orchestrator_contract::{
    BacklogEdit, BacklogFormat, BacklogItem, FormatDescription, FormatError, ItemStatus, NewItem,
};
use serde_json::Value;

use crate::detectors_validators::{
    BuildItem, CheckResult, ItemFixture, ItemReport, odd, same, unknown_key,
};

/// An odd text has at most so many characters: each line may be an item.
const MOST_ODD: usize = 16 * 1024;

/// Examines a format of backlogs that is built from `table`; prints nothing.
pub async fn check_backlog_format(
    place: &ItemFixture,
    table: &Value,
    make: BuildItem<'_, dyn BacklogFormat>,
) -> ItemReport {
    let mut report = ItemReport::new("a format", place);
    let making = make(table.clone(), &place.context);
    let Some(built) = report.open(making).await else { return report };
    let format = &*built;
    report.ask("unknown key", unknown_key(make, place, table)).await;
    let description = format.describe();
    report.ask("description", async { check_description(&description) }).await;
    report.ask("example", async { read(format, &description.example).map(drop) }).await;
    report.ask("same twice", async { check_repeated(format, &description.example) }).await;
    report.ask("add", async { check_add(format, &description.example) }).await;
    report.ask("statuses", async { check_statuses(format, &description) }).await;
    report.ask("notes", async { check_notes(format, &description.example) }).await;
    report.ask("odd texts", async { check_odd_texts(format) }).await;
    drop(built);
    report.ask("no process is left", place.check_no_processes()).await;
    report
}

fn check_description(description: &FormatDescription) -> CheckResult {
    for status in [ItemStatus::Pending, ItemStatus::Completed] {
        if !description.statuses.contains(&status) {
            return Err(format!("it cannot hold the status {status}, which every format needs"));
        }
    }
    if description.example.trim().is_empty() {
        return Err("its example is empty".to_owned());
    }
    Ok(())
}

fn read(format: &dyn BacklogFormat, text: &str) -> Result<Vec<BacklogItem>, String> {
    let items = format.read(text).map_err(|error| describe(&error))?;
    match items.iter().find(|item| item.id.trim().is_empty()) {
        Some(item) => Err(format!("the item {:?} has no id", item.title)),
        None if items.is_empty() => Err("its example has no items".to_owned()),
        None => Ok(items),
    }
}

fn describe(error: &FormatError) -> String {
    match error {
        FormatError::Defects(defects) => {
            let messages = defects.iter().map(|defect| defect.message.as_str());
            format!("its example is invalid: {}", messages.collect::<Vec<_>>().join("; "))
        }
        other => other.to_string(),
    }
}

fn check_repeated(format: &dyn BacklogFormat, text: &str) -> CheckResult {
    same(&read(format, text)?, &read(format, text)?)
}

fn check_add(format: &dyn BacklogFormat, text: &str) -> CheckResult {
    let before = read(format, text)?;
    let item = NewItem { title: "Conformance".to_owned(), ..NewItem::default() };
    let after = edit(format, text, BacklogEdit::Add { item })?;
    let Some((added, others)) = after.split_last() else {
        return Err("no item is left".to_owned());
    };
    if added.title != "Conformance" || added.status != ItemStatus::Pending {
        return Err(format!("the last item is {:?}, {}", added.title, added.status));
    }
    compare_items(&before, others)
}

/// Sets each status that it can hold, and the former one again.
fn check_statuses(format: &dyn BacklogFormat, description: &FormatDescription) -> CheckResult {
    let text = &description.example;
    let before = read(format, text)?;
    let Some(first) = before.first() else { return Ok(()) };
    for status in description.statuses.iter().copied() {
        let id = first.id.clone();
        let after = edit(format, text, BacklogEdit::SetStatus { id, status })?;
        let mut expected = before.clone();
        expected.iter_mut().take(1).for_each(|item| item.status = status);
        compare_items(&expected, &after)?;
    }
    Ok(())
}

fn check_notes(format: &dyn BacklogFormat, text: &str) -> CheckResult {
    let before = read(format, text)?;
    let Some(first) = before.first() else { return Ok(()) };
    let edits =
        [BacklogEdit::SetNotes { id: first.id.clone(), notes: vec!["conformance".to_owned()] }];
    let edited = match format.edit(text, &edits) {
        Ok(edited) => edited,
        Err(FormatError::NotStorable(_)) => return Ok(()),
        Err(error) => return Err(describe(&error)),
    };
    let after = read(format, &edited)?;
    let mut expected = before.clone();
    expected.iter_mut().take(1).for_each(|item| item.notes = vec!["conformance".to_owned()]);
    compare_items(&expected, &after)
}

/// Whatever an agent leaves in the file is read, or called invalid.
fn check_odd_texts(format: &dyn BacklogFormat) -> CheckResult {
    for text in odd() {
        let text: String = text.chars().take(MOST_ODD).collect();
        match format.read(&text) {
            Ok(_) | Err(FormatError::Defects(_)) => {}
            Err(error) => return Err(error.to_string()),
        }
    }
    Ok(())
}

fn edit(
    format: &dyn BacklogFormat,
    text: &str,
    edit: BacklogEdit,
) -> Result<Vec<BacklogItem>, String> {
    let edited = format.edit(text, &[edit]).map_err(|error| describe(&error))?;
    read(format, &edited)
}

/// Compares items wherever they are in the file.
fn compare_items(expected: &[BacklogItem], found: &[BacklogItem]) -> CheckResult {
    let placeless = |items: &[BacklogItem]| -> Vec<BacklogItem> {
        items.iter().map(|item| BacklogItem { location: None, ..item.clone() }).collect()
    };
    same(&placeless(expected), &placeless(found))
}
