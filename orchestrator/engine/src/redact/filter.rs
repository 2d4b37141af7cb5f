//! Tells quickly of most texts that nothing is to be found in them.

use std::fmt;

const SKIPS: usize = 4096;
const WINDOWS: usize = 1 << 16;

/// Looks at some pairs of bytes only: one that stands in no pattern rules out all places around it
/// (the algorithm of Wu and Manber).
pub(super) struct Filter {
    /// So many bytes of the patterns count: as many as the shortest has.
    len: usize,
    /// How far the next place is at least, by the last pair before it.
    skips: Vec<u8>,
    /// One bit for each first part of a pattern.
    windows: Vec<u64>,
}

impl fmt::Debug for Filter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Filter({} bytes)", self.len)
    }
}

impl Filter {
    /// For patterns of at least two bytes.
    pub(super) fn new(patterns: &[Vec<u8>]) -> Self {
        let len = patterns.iter().map(Vec::len).min().unwrap_or(2).clamp(2, 64);
        let farthest = u8::try_from(len - 1).unwrap_or(1);
        let mut this = Self { len, skips: vec![farthest; SKIPS], windows: vec![0; WINDOWS / 64] };
        for pattern in patterns {
            let Some(window) = pattern.get(..len) else { continue };
            for (pair, skip) in window.windows(2).zip((0..farthest).rev()) {
                let [first, second] = pair else { continue };
                if let Some(known) = this.skips.get_mut(pair_hash(*first, *second)) {
                    *known = skip.min(*known);
                }
            }
            let (word, bit) = window_hash(window);
            if let Some(word) = this.windows.get_mut(word) {
                *word |= bit;
            }
        }
        this
    }

    /// False if no pattern is in the bytes; true mostly if there is one.
    pub(super) fn may_match(&self, bytes: &[u8]) -> bool {
        let mut end = self.len;
        while let Some(&[first, second]) = bytes.get(end - 2..end) {
            let skip = self.skips.get(pair_hash(first, second)).copied().unwrap_or(0);
            if skip == 0 {
                let (word, bit) = window_hash(bytes.get(end - self.len..end).unwrap_or_default());
                if self.windows.get(word).is_none_or(|word| word & bit != 0) {
                    return true;
                }
            }
            end += usize::from(skip.max(1));
        }
        false
    }
}

fn pair_hash(first: u8, second: u8) -> usize {
    (usize::from(first) << 4 ^ usize::from(second)) % SKIPS
}

/// The word and the bit in it.
fn window_hash(window: &[u8]) -> (usize, u64) {
    let add = |hash: u32, byte: &u8| (hash ^ u32::from(*byte)).wrapping_mul(0x0100_0193);
    let hash = window.iter().fold(0x811C_9DC5, add);
    let bit = usize::try_from(hash ^ hash >> 16).unwrap_or(0) % WINDOWS;
    (bit / 64, 1 << (bit % 64))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn no_pattern_is_passed_over(
            patterns in prop::collection::vec(prop::collection::vec(97..100_u8, 4..9), 1..6),
            before in prop::collection::vec(97..100_u8, 0..30), after in prop::collection::vec(97..100_u8, 0..9),
            which in any::<prop::sample::Index>(),
        ) {
            let pattern = which.get(&patterns).clone();
            prop_assert!(Filter::new(&patterns).may_match(&[before, pattern, after].concat()));
        }

        #[test]
        fn most_texts_are_ruled_out(text in "[a-z ]{0,200}") {
            prop_assert!(!Filter::new(&[b"K3Y-1".to_vec(), b"%&/()".to_vec()]).may_match(text.as_bytes()));
        }
    }
}
