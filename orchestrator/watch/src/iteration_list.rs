//! The list of iterations: its end is shown until one is chosen.

use crate::facts::IterationFacts;

#[derive(Clone, Debug, Default)]
pub(crate) struct IterationList {
    /// The number of the chosen one; `None` for the newest.
    chosen: Option<u64>,
    /// The number of the first that is shown, if one is chosen.
    top: Option<u64>,
}

/// What of the iterations is shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct VisibleIterations {
    pub(crate) first: usize,
    pub(crate) chosen: Option<usize>,
}

impl IterationList {
    /// Returns the number of the chosen iteration; the newest if none is.
    pub(crate) fn number(&self, all: &[IterationFacts]) -> Option<u64> {
        let chosen = self.chosen.filter(|chosen| all.iter().any(|own| own.number == *chosen));
        chosen.or_else(|| all.last().map(|own| own.number))
    }

    /// Whether the newest is shown, whatever comes.
    pub(crate) const fn is_following(&self) -> bool {
        self.chosen.is_none()
    }

    pub(crate) fn follow(&mut self) {
        *self = Self::default();
    }

    pub(crate) fn visible(&self, all: &[IterationFacts], height: usize) -> VisibleIterations {
        let index = |number: u64| all.iter().position(|own| own.number >= number);
        let chosen = self.number(all).and_then(index);
        let most = all.len().saturating_sub(height.max(1));
        let first = self.top.and_then(index).unwrap_or(most);
        // One that the window lost when it became smaller is shown all the same.
        let least = chosen.map_or(0, |at| (at + 1).saturating_sub(height.max(1)));
        VisibleIterations { first: first.max(least), chosen }
    }

    /// Chooses the iteration so many rows below, or above.
    pub(crate) fn step(&mut self, rows: isize, all: &[IterationFacts], height: usize) {
        let VisibleIterations { first, chosen } = self.visible(all, height);
        let Some(at) = chosen else { return };
        let to = at.saturating_add_signed(rows).min(all.len().saturating_sub(1));
        if to == at && self.is_following() {
            return;
        }
        let first = first.clamp((to + 1).saturating_sub(height.max(1)), to);
        self.chosen = all.get(to).map(|own| own.number);
        self.top = all.get(first).map(|own| own.number);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::facts::Tone;

    fn all(last: u64) -> Vec<IterationFacts> {
        let own = |number| IterationFacts { number, cells: Vec::new(), tone: Tone::Plain };
        (1..=last).map(own).collect()
    }

    #[test]
    fn the_newest_is_followed_until_another_is_chosen() {
        let mut list = IterationList::default();
        assert_eq!(list.visible(&all(9), 4), VisibleIterations { first: 5, chosen: Some(8) });
        list.step(1, &all(9), 4);
        assert!(list.is_following());
        list.step(-1, &all(9), 4);
        assert_eq!(list.visible(&all(9), 4), VisibleIterations { first: 5, chosen: Some(7) });
        assert_eq!(list.visible(&all(30), 4), VisibleIterations { first: 5, chosen: Some(7) });
        list.step(-4, &all(30), 4);
        assert_eq!(list.visible(&all(30), 4), VisibleIterations { first: 3, chosen: Some(3) });
        list.follow();
        assert_eq!(list.number(&all(30)), Some(30));
        assert_eq!(list.visible(&[], 4), VisibleIterations { first: 0, chosen: None });
    }
}
