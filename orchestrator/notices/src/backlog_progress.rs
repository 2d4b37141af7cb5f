//! The progress of a backlog as AutoCoder posts it, and what it writes down about that.

use std::collections::HashSet;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::notice::Notice;

/// An id as AutoCoder has it: a number where it is one.
fn id(text: &str) -> Value {
    text.parse::<i64>().map_or_else(|_| json!(text), |number| json!(number))
}

/// What was posted last.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct ProgressCache {
    /// Items that were completed.
    #[serde(default)]
    pub count: usize,
    /// Their ids; none are known where an older version has written it.
    #[serde(default)]
    pub passing_ids: Vec<Value>,
}

/// How far a backlog is, and how far it was.
#[derive(Clone, Debug, PartialEq)]
pub struct BacklogProgress {
    /// The name of the workspace's folder.
    pub project: String,
    /// All items.
    pub total: usize,
    /// The completed items: id and title.
    pub completed: Vec<(String, String)>,
    /// What was posted last.
    pub before: ProgressCache,
    /// When it was read.
    pub time: Timestamp,
}

impl BacklogProgress {
    /// Returns a message that nothing is done of nothing, for tests of a receiver.
    pub(crate) fn test(notice: &Notice) -> Self {
        Self {
            project: notice.project.clone(),
            total: 0,
            completed: Vec::new(),
            before: ProgressCache::default(),
            time: notice.time,
        }
    }

    /// Whether more is completed than was posted.
    #[must_use]
    pub fn is_more(&self) -> bool {
        self.completed.len() > self.before.count
    }

    /// Returns what is written down once this is posted.
    #[must_use]
    pub fn cache(&self) -> ProgressCache {
        let passing_ids = self.completed.iter().map(|(text, _)| id(text)).collect();
        ProgressCache { count: self.completed.len(), passing_ids }
    }

    /// Returns what is posted: a list with one object.
    #[must_use]
    pub fn body(&self) -> Value {
        let passing = self.completed.len();
        let known: HashSet<String> = self.before.passing_ids.iter().map(Value::to_string).collect();
        // Where no ids are known, all items would look new.
        let knows_ids = !known.is_empty() || self.before.count == 0;
        let is_new = |text: &str| knows_ids && !known.contains(&id(text).to_string());
        let new = self.completed.iter().filter(|(text, _)| is_new(text));
        json!([{
            "event": "test_progress",
            "passing": passing,
            "total": self.total,
            "percentage": percentage(passing, self.total),
            "previous_passing": self.before.count,
            "tests_completed_this_session": passing.saturating_sub(self.before.count),
            "completed_tests": new.map(|(_, title)| title).collect::<Vec<_>>(),
            "project": self.project,
            "timestamp": self.time,
        }])
    }
}

/// Returns the percentage with one digit after the point; 0 of nothing.
fn percentage(passing: usize, total: usize) -> f64 {
    let tenths = (passing.saturating_mul(1000) + total / 2).checked_div(total).unwrap_or(0);
    f64::from(u32::try_from(tenths).unwrap_or(u32::MAX)) / 10.0
}

#[cfg(test)]
mod tests {
    use super::*;

    fn progress(completed: &[&str], before: ProgressCache) -> BacklogProgress {
        BacklogProgress {
            project: "shop".to_owned(),
            total: 3,
            completed: completed
                .iter()
                .map(|id| ((*id).to_owned(), format!("item {id}")))
                .collect(),
            before,
            time: "2026-01-02T03:04:05Z".parse().unwrap(),
        }
    }

    #[test]
    fn the_message_is_a_list_with_what_is_new() {
        let before = progress(&["1"], ProgressCache::default()).cache();
        assert_eq!(json!(before), json!({"count": 1, "passing_ids": [1]}));
        let now = progress(&["1", "7"], before);
        assert!(now.is_more());
        let expected = json!([{
            "event": "test_progress", "passing": 2, "total": 3, "percentage": 66.7, "previous_passing": 1,
            "tests_completed_this_session": 1, "completed_tests": ["item 7"], "project": "shop",
            "timestamp": "2026-01-02T03:04:05Z",
        }]);
        assert_eq!(now.body(), expected);
        assert!(!progress(&["1", "7"], now.cache()).is_more());
        assert!(!progress(&["1"], now.cache()).is_more(), "what is taken back is not reported");
    }

    #[test]
    fn a_cache_without_ids_names_no_item_that_may_have_been_reported() {
        let old: ProgressCache = serde_json::from_str(r#"{"count": 1}"#).unwrap();
        assert_eq!(progress(&["1", "2"], old).body()[0]["completed_tests"], json!([]));
        assert_eq!(progress(&[], ProgressCache::default()).body()[0]["percentage"], 0.0);
    }

    #[test]
    fn other_ids_are_texts() {
        let before = progress(&["parser"], ProgressCache::default()).cache();
        assert_eq!(before.passing_ids, [json!("parser")]);
        assert_eq!(
            progress(&["parser", "x"], before).body()[0]["completed_tests"],
            json!(["item x"])
        );
    }
}
