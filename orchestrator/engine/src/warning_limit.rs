//! The bound on what an agent or a detector may warn of: its warnings are recorded and shown.

use std::collections::BTreeSet;

use ralph_orchestrator_text::count;

use super::cut::cut;

/// How many different warnings of one source are kept in an iteration.
pub(super) const MOST_WARNINGS: usize = 64;
/// The longest of them, in bytes.
const LONGEST_WARNING: usize = 8 * 1024;

/// What one source has warned of in an iteration.
#[derive(Debug)]
pub(super) struct WarningLimit {
    most: usize,
    kept: BTreeSet<String>,
    repeated: u64,
    dropped: u64,
}

impl WarningLimit {
    /// Keeps at most so many warnings.
    pub(super) const fn new(most: usize) -> Self {
        Self { most, kept: BTreeSet::new(), repeated: 0, dropped: 0 }
    }

    /// Returns the warning, cut to the longest that is kept; `None` if it is not the first one of this text, or one too many.
    pub(super) fn admit(&mut self, mut message: String) -> Option<String> {
        cut(&mut message, LONGEST_WARNING);
        if self.kept.contains(&message) {
            self.repeated = self.repeated.saturating_add(1);
            return None;
        }
        if self.kept.len() == self.most {
            self.dropped = self.dropped.saturating_add(1);
            return None;
        }
        self.kept.insert(message.clone());
        Some(message)
    }

    /// Returns a warning about how many were left out, if any were. `source` names who warned.
    pub(super) fn summary(&self, source: &str) -> Option<String> {
        let left_out = [(self.repeated, "repeated"), (self.dropped, "beyond the limit")];
        let parts: Vec<String> = left_out
            .into_iter()
            .filter(|(number, _)| *number > 0)
            .map(|(number, why)| format!("{number} {why}"))
            .collect();
        let all = count(self.repeated.saturating_add(self.dropped), "warning");
        (!parts.is_empty()).then(|| format!("{all} of {source} left out: {}", parts.join(", ")))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn warnings_are_bounded_cut_and_counted() {
        let mut limit = WarningLimit::new(MOST_WARNINGS);
        assert_eq!(limit.summary("the agent"), None);
        let kept = (0..20_000).filter(|n| limit.admit(format!("w{}", n / 2)).is_some()).count();
        assert_eq!(kept, MOST_WARNINGS);
        let summary = limit.summary("the agent").unwrap();
        assert_eq!(
            summary,
            "19936 warnings of the agent left out: 64 repeated, 19872 beyond the limit"
        );
        let long = WarningLimit::new(1).admit("é".repeat(LONGEST_WARNING)).unwrap();
        assert_eq!(long.len(), LONGEST_WARNING);
    }
}
