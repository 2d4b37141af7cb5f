//! What an agent sends faster than it is recorded.
//!
//! The journal has to stay small whatever an agent does, and each record costs time. So figures are
//! written down at a steady pace, of which the last is never lost: it is part of the record of the
//! iteration's end. Text has a budget of bytes, and what exceeds it is counted.

use ralph_orchestrator_contract::{Claim, ClaimKind, Usage};
use ralph_orchestrator_machine::{ContextUsage, RateWindow, RateWindows};

use super::token_bucket::TokenBucket;

/// Records of figures: so many at once, then one in two seconds.
const FIGURES: u64 = 16;
const FIGURES_PER_SECOND: u64 = 1;
const FIGURE: u64 = 2;
/// So many rate windows are held back at most.
const WINDOWS: usize = 16;
/// Bytes of words: so many at once, and then a line of text a second.
const WORDS: u64 = 512 * 1024;
const WORDS_PER_SECOND: u64 = 64;
/// What a record costs beside its words, in bytes.
const FRAME: u64 = 256;
/// Claims of each kind: so many at once, then one in ten seconds.
const CLAIMS: u64 = 80;
const CLAIMS_PER_SECOND: u64 = 1;
const CLAIM: u64 = 10;

/// What is held back of an iteration, and how much may still be written down.
#[derive(Debug)]
pub(super) struct PendingRecords {
    figures: TokenBucket,
    words: TokenBucket,
    claims: [TokenBucket; 2],
    usage: Option<Usage>,
    context: Option<ContextUsage>,
    windows: RateWindows,
    /// The last of each kind.
    claim: [Option<Claim>; 2],
    /// Notes and answers that were not written down.
    dropped: u64,
}

/// Figures that were held back.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Due {
    pub(super) usage: Option<Usage>,
    pub(super) context: Option<ContextUsage>,
    pub(super) windows: Vec<RateWindow>,
}

/// What is held back at the iteration's end.
#[derive(Debug)]
pub(super) struct Remaining {
    pub(super) due: Due,
    pub(super) claims: Vec<Claim>,
    pub(super) dropped: u64,
}

impl PendingRecords {
    pub(super) const fn new(now_ms: u64) -> Self {
        let claims = TokenBucket::new(CLAIMS, CLAIMS_PER_SECOND, now_ms);
        Self {
            figures: TokenBucket::new(FIGURES, FIGURES_PER_SECOND, now_ms),
            words: TokenBucket::new(WORDS, WORDS_PER_SECOND, now_ms),
            claims: [claims, claims],
            usage: None,
            context: None,
            windows: RateWindows::new(),
            claim: [None, None],
            dropped: 0,
        }
    }

    /// Returns the sums so far if they may be recorded now, or must.
    pub(super) fn admit_usage(&mut self, usage: Usage, must: bool, now_ms: u64) -> Option<Usage> {
        let usage = self.usage.take().map_or(usage, |held| held.max(usage));
        if must || self.figures.take(FIGURE, now_ms) {
            return Some(usage);
        }
        self.usage = Some(usage);
        None
    }

    /// Returns how full the context is if that may be recorded now.
    pub(super) fn admit_context(
        &mut self,
        context: ContextUsage,
        now_ms: u64,
    ) -> Option<ContextUsage> {
        self.context = None;
        if self.figures.take(FIGURE, now_ms) {
            return Some(context);
        }
        self.context = Some(context);
        None
    }

    /// Returns the window if it may be recorded now.
    pub(super) fn admit_window(&mut self, window: RateWindow, now_ms: u64) -> Option<RateWindow> {
        self.windows.remove(&window.name);
        if self.figures.take(FIGURE, now_ms) {
            return Some(window);
        }
        if self.windows.len() < WINDOWS {
            self.windows.insert(window.name.clone(), window);
        }
        None
    }

    /// Returns the claim if it may be recorded now. The first of its kind always may.
    pub(super) fn admit_claim(&mut self, claim: Claim, first: bool, now_ms: u64) -> Option<Claim> {
        let kind = match claim.kind {
            ClaimKind::Complete => 0,
            ClaimKind::NeedsHuman => 1,
        };
        let (Some(pace), Some(held)) = (self.claims.get_mut(kind), self.claim.get_mut(kind)) else {
            return Some(claim);
        };
        *held = None;
        if pace.take(CLAIM, now_ms) || first {
            return Some(claim);
        }
        *held = Some(claim);
        None
    }

    /// Returns whether a record with these texts may be written.
    pub(super) fn admit_text<'a>(
        &mut self,
        words: impl IntoIterator<Item = &'a str>,
        now_ms: u64,
    ) -> bool {
        let bytes = words.into_iter().map(encoded).fold(FRAME, u64::saturating_add);
        let may = self.words.take(bytes, now_ms);
        self.dropped = self.dropped.saturating_add(u64::from(!may));
        may
    }

    /// Returns when figures that are held back may be recorded.
    pub(super) fn due_ms(&self) -> Option<u64> {
        let waits = self.usage.is_some() || self.context.is_some() || !self.windows.is_empty();
        waits.then(|| self.figures.ready_ms(FIGURE))
    }

    /// Takes the figures that may be recorded by now.
    pub(super) fn take_due(&mut self, now_ms: u64) -> Due {
        let usage = self.usage.take().and_then(|usage| self.admit_usage(usage, false, now_ms));
        let context = self.context.take().and_then(|context| self.admit_context(context, now_ms));
        let windows = std::mem::take(&mut self.windows).into_values();
        let windows = windows.filter_map(|window| self.admit_window(window, now_ms)).collect();
        Due { usage, context, windows }
    }

    /// Takes all that was held back, at the iteration's end.
    pub(super) fn finish(&mut self) -> Remaining {
        Remaining {
            due: Due {
                usage: self.usage.take(),
                context: self.context.take(),
                windows: std::mem::take(&mut self.windows).into_values().collect(),
            },
            claims: self.claim.iter_mut().filter_map(Option::take).collect(),
            dropped: std::mem::take(&mut self.dropped),
        }
    }
}

/// Returns the bytes of a text in JSON.
fn encoded(text: &str) -> u64 {
    let extra = |byte: u8| match byte {
        b'"' | b'\\' | b'\n' | b'\r' | b'\t' => 2,
        0..0x20 => 6,
        _ => 1,
    };
    text.bytes().map(extra).fold(0, u64::saturating_add)
}

#[cfg(test)]
mod tests {
    use super::*;
    use ralph_orchestrator_contract::{ClaimSource, Tokens};

    fn used(input: u64) -> Usage {
        Usage { tokens: Some(Tokens { input, ..Tokens::default() }), ..Usage::default() }
    }

    fn claim(kind: ClaimKind, text: &str) -> Claim {
        let (detector, source) = ("d".to_owned(), ClaimSource::Tool);
        Claim { kind, detector, source, text: text.to_owned() }
    }

    #[test]
    fn of_a_flood_of_figures_few_are_written_down_and_the_last_is_never_lost() {
        let mut pending = PendingRecords::new(0);
        let hour = 3_600_000;
        let written =
            (1..=hour).filter(|now| pending.admit_usage(used(*now), false, *now).is_some());
        assert!(written.count() < 2_000);
        let rest = pending.finish();
        let last = rest.due.usage.unwrap();
        assert_eq!(last, used(hour), "the last one");
        assert_eq!(pending.finish().due, Due::default());
    }

    #[test]
    fn figures_that_must_be_written_down_are_and_held_ones_become_due() {
        let mut pending = PendingRecords::new(0);
        while pending.admit_usage(used(1), false, 0).is_some() {}
        assert_eq!(pending.admit_usage(used(7), true, 0), Some(used(7)));
        assert_eq!(pending.due_ms(), None);
        assert_eq!(pending.admit_usage(used(9), false, 1), None);
        assert_eq!(pending.admit_context(ContextUsage { used: 3, window: None }, 1), None);
        let window = |used_per_mille| RateWindow {
            name: "weekly".to_owned(),
            used_per_mille,
            resets_at_ms: None,
        };
        let due_ms = pending.due_ms().unwrap();
        assert_eq!(pending.take_due(due_ms - 1), Due::default());
        assert_eq!(pending.admit_window(window(10), due_ms - 1), None);
        assert_eq!(pending.admit_window(window(20), due_ms - 1), None);
        // A smaller figure does not take the place of a larger one.
        assert_eq!(pending.admit_usage(used(8), false, due_ms), Some(used(9)));
        let context = Some(ContextUsage { used: 3, window: None });
        assert_eq!(
            pending.take_due(due_ms + 2_000),
            Due { usage: None, context, windows: Vec::new() }
        );
        assert_eq!(pending.finish().due.windows, [window(20)], "the last of its name");
    }

    #[test]
    fn the_first_claim_and_the_last_of_each_kind_are_never_lost() {
        let mut pending = PendingRecords::new(0);
        let (complete, human) = (ClaimKind::Complete, ClaimKind::NeedsHuman);
        let mut written = 0;
        for n in 0..1_000 {
            written += u32::from(
                pending.admit_claim(claim(complete, &n.to_string()), n == 0, 0).is_some(),
            );
        }
        assert_eq!(written, 8);
        assert!(pending.admit_claim(claim(human, "help"), true, 0).is_some());
        let rest = pending.finish();
        assert_eq!(rest.claims, [claim(complete, "999")]);
    }

    #[test]
    fn words_have_a_budget_of_bytes_as_they_are_written() {
        let mut pending = PendingRecords::new(0);
        let note = "\u{1}".repeat(8 * 1024);
        let kept = (0..1_000).filter(|_| pending.admit_text([note.as_str()], 0)).count();
        assert_eq!(kept, 512 / 48 - usize::from(512 % 48 < 3));
        assert_eq!(pending.finish().dropped, 1_000 - u64::try_from(kept).unwrap());
    }
}
