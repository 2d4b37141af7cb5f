//! The list of runs. The chosen one stays chosen wherever the order puts it.

use crate::facts::RunListItem;

#[derive(Clone, Debug, Default)]
pub(crate) struct RunList {
    items: Vec<RunListItem>,
    chosen: Option<String>,
    /// The first row that is shown.
    top: usize,
    /// Whether there was ever a list.
    pub(crate) is_known: bool,
}

impl RunList {
    /// Returns a list in which the run of this key is chosen as soon as it is there.
    pub(crate) fn starting_at(key: Option<String>) -> Self {
        Self { chosen: key, ..Self::default() }
    }

    pub(crate) fn items(&self) -> &[RunListItem] {
        &self.items
    }

    pub(crate) const fn top(&self) -> usize {
        self.top
    }

    pub(crate) fn chosen_index(&self) -> Option<usize> {
        let chosen = self.chosen.as_deref()?;
        self.items.iter().position(|item| item.key == chosen)
    }

    pub(crate) fn chosen(&self) -> Option<&RunListItem> {
        self.items.get(self.chosen_index()?)
    }

    /// Takes the runs as they are now. Returns whether another one is chosen.
    pub(crate) fn set(&mut self, items: Vec<RunListItem>, height: usize) -> bool {
        let is_first = !std::mem::replace(&mut self.is_known, true);
        self.items = items;
        let is_gone = self.chosen_index().is_none();
        if is_gone {
            self.chosen = self.items.first().map(|item| item.key.clone());
        }
        self.fit(height);
        (is_first || is_gone) && self.chosen.is_some()
    }

    /// Chooses the run so many rows below, or above. Returns whether it is another one.
    pub(crate) fn step(&mut self, rows: isize, height: usize) -> bool {
        let last = self.items.len().saturating_sub(1);
        let at = self.chosen_index().unwrap_or_default();
        let to = at.saturating_add_signed(rows).min(last);
        let Some(item) = self.items.get(to) else { return false };
        let is_other = to != at;
        self.chosen = Some(item.key.clone());
        self.fit(height);
        is_other
    }

    /// Keeps the chosen row in a window of this height.
    pub(crate) fn fit(&mut self, height: usize) {
        let height = height.max(1);
        let at = self.chosen_index().unwrap_or_default();
        let most = self.items.len().saturating_sub(height);
        self.top = self.top.clamp((at + 1).saturating_sub(height), at).min(most);
    }
}
