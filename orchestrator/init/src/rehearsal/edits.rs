//! Changes of text that an agent could make.

use serde_json::Value;

/// A change of a file of tests, at the first statement that it fits.
#[derive(Clone, Copy, Debug)]
pub(super) struct TestEdit {
    /// What the line begins with, but for its indentation.
    start: &'static str,
    change: LineChange,
}

#[derive(Clone, Copy, Debug)]
enum LineChange {
    /// A line of the same indentation before it.
    Before(&'static str),
    /// A line with a deeper indentation after it.
    After(&'static str),
    /// What replaces the start.
    Start(&'static str),
    /// What replaces a statement that is one line.
    Statement(&'static str),
}

pub(super) const fn before(start: &'static str, line: &'static str) -> TestEdit {
    TestEdit { start, change: LineChange::Before(line) }
}

pub(super) const fn after(start: &'static str, line: &'static str) -> TestEdit {
    TestEdit { start, change: LineChange::After(line) }
}

pub(super) const fn rename(start: &'static str, now: &'static str) -> TestEdit {
    TestEdit { start, change: LineChange::Start(now) }
}

pub(super) const fn replace(start: &'static str, now: &'static str) -> TestEdit {
    TestEdit { start, change: LineChange::Statement(now) }
}

/// Returns a text after the first of these edits that fits it.
pub(super) fn apply_first(edits: &[TestEdit], text: &str) -> Option<String> {
    edits.iter().find_map(|edit| edit.apply(text))
}

impl TestEdit {
    fn apply(&self, text: &str) -> Option<String> {
        let lines: Vec<&str> = text.split_inclusive('\n').collect();
        let is_statement = matches!(self.change, LineChange::Statement(_));
        let fits = |line: &&str| {
            line.trim_start().starts_with(self.start) && (!is_statement || is_whole(line))
        };
        let at = lines.iter().position(fits)?;
        let line = lines.get(at)?.trim_end_matches('\n');
        let (indent, rest) = line.split_at(line.len() - line.trim_start().len());
        let replaced = match self.change {
            LineChange::Before(new) => format!("{indent}{new}\n{line}"),
            LineChange::After(new) => format!("{line}\n{indent}    {new}"),
            LineChange::Start(now) => {
                format!("{indent}{now}{}", rest.strip_prefix(self.start).unwrap_or(rest))
            }
            LineChange::Statement(now) => format!("{indent}{now}"),
        };
        let (head, tail) = (lines.get(..at)?.concat(), lines.get(at + 1..)?.concat());
        Some(format!("{head}{replaced}\n{tail}"))
    }
}

/// Whether a statement ends with its line.
fn is_whole(line: &str) -> bool {
    let count = |c: char| line.matches(c).count();
    let is_continued = line.trim_end().ends_with([',', '\\', '{', '(', '[']);
    !is_continued
        && [('(', ')'), ('[', ']'), ('{', '}')]
            .iter()
            .all(|(open, close)| count(*open) == count(*close))
}

/// What a file holds afterwards.
#[derive(Clone, Copy, Debug)]
pub(super) enum FileText {
    /// This, whatever it held.
    Whole(&'static str),
    /// What it held, if it was there, and this.
    Added(&'static str),
    /// The same, only where it was there.
    Extended(&'static str),
    /// A line in a section that begins with a heading, instead of one with the same key.
    Setting(&'static str, &'static str),
    /// A value of a JSON object, by the keys that lead to it.
    Json(&'static [&'static str], &'static str),
}

impl FileText {
    /// Returns what a file holds after the change; `None` if it has no place there. `fill` replaces what stands for parts of
    /// the project.
    pub(super) fn apply(
        &self,
        before: Option<&str>,
        fill: &dyn Fn(&str) -> String,
    ) -> Option<String> {
        match self {
            Self::Whole(text) => Some(fill(text)),
            Self::Added(text) => Some(append(before.unwrap_or_default(), &fill(text))),
            Self::Extended(text) => Some(append(before?, &fill(text))),
            Self::Setting(heading, line) => Some(set_line(before?, heading, &fill(line))),
            Self::Json(keys, value) => set_json(before?, keys, &fill(value)),
        }
    }
}

pub(super) fn append(text: &str, more: &str) -> String {
    let gap = if text.is_empty() || text.ends_with('\n') { "" } else { "\n" };
    format!("{text}{gap}{more}\n")
}

fn set_line(text: &str, heading: &str, line: &str) -> String {
    let key = line.split('=').next().unwrap_or(line).trim();
    let is_key = |other: &str| other.split('=').next().is_some_and(|found| found.trim() == key);
    let (mut lines, mut is_inside, mut is_set) = (Vec::new(), false, false);
    for known in text.lines() {
        if known.trim_start().starts_with('[') {
            is_inside = known.trim() == heading;
        } else if is_inside && is_key(known) {
            continue;
        }
        lines.push(known.to_owned());
        if is_inside && known.trim() == heading {
            lines.push(line.to_owned());
            is_set = true;
        }
    }
    if !is_set {
        lines.extend([heading.to_owned(), line.to_owned()]);
    }
    lines.join("\n") + "\n"
}

fn set_json(text: &str, keys: &[&str], value: &str) -> Option<String> {
    let mut root: Value = serde_json::from_str(text).ok()?;
    let mut at = &mut root;
    for key in keys {
        at = at
            .as_object_mut()?
            .entry((*key).to_owned())
            .or_insert_with(|| Value::Object(serde_json::Map::new()));
    }
    *at = serde_json::from_str(value).ok()?;
    serde_json::to_string_pretty(&root).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_edit_changes_the_first_statement_that_it_fits() {
        let python =
            "import a\n\ndef test_one():\n    assert f(\n        1,\n    )\n    assert a == 1\n";
        let rows = [
            (
                before("def test_", "@skip"),
                "import a\n\n@skip\ndef test_one():\n    assert f(\n        1,\n    )\n    assert a == 1\n",
            ),
            (
                replace("assert ", "assert True"),
                "import a\n\ndef test_one():\n    assert f(\n        1,\n    )\n    assert True\n",
            ),
            (
                rename("def test_", "def no_"),
                "import a\n\ndef no_one():\n    assert f(\n        1,\n    )\n    assert a == 1\n",
            ),
            (
                after("def test_", "skip"),
                "import a\n\ndef test_one():\n    skip\n    assert f(\n        1,\n    )\n    assert a == 1\n",
            ),
        ];
        for (edit, expected) in rows {
            assert_eq!(edit.apply(python).as_deref(), Some(expected), "{edit:?}");
        }
        assert_eq!(apply_first(&[rename("it(", "it.skip(")], python), None);
    }

    #[test]
    fn a_file_gets_settings_where_they_belong() {
        let keep = |text: &str| text.to_owned();
        let setting = FileText::Setting("[pytest]", "addopts = -x");
        let rows = [
            (FileText::Whole("b"), None, Some("b")),
            (FileText::Added("b"), Some("a"), Some("a\nb\n")),
            (FileText::Added("b"), None, Some("b\n")),
            (FileText::Extended("b"), None, None),
            (
                setting,
                Some("[pytest]\naddopts = -q\nx = 1\n[b]\naddopts = 1\n"),
                Some("[pytest]\naddopts = -x\nx = 1\n[b]\naddopts = 1\n"),
            ),
            (setting, Some("[b]\n"), Some("[b]\n[pytest]\naddopts = -x\n")),
            (
                FileText::Json(&["a", "b"], "[1]"),
                Some("{\"a\": {\"b\": 2}}"),
                Some("{\n  \"a\": {\n    \"b\": [\n      1\n    ]\n  }\n}"),
            ),
            (FileText::Json(&["a"], "1"), Some("[]"), None),
        ];
        for (text, before, expected) in rows {
            assert_eq!(text.apply(before, &keep).as_deref(), expected, "{text:?}");
        }
    }
}
