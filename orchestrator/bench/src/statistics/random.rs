//! Numbers that look drawn by chance and are the same for the same seed, on every machine and in every version.

use super::whole_to_f64;

/// A generator of the kind `SplitMix64`.
///
/// Of our own, because figures of a report are computed with it: those of a library may change with its version.
#[derive(Clone, Debug)]
pub struct SeededRandom {
    state: u64,
}

impl SeededRandom {
    /// Returns a generator whose numbers depend on the seed alone.
    #[must_use]
    pub fn from_seed(seed: u64) -> Self {
        Self { state: seed }
    }

    /// Draws 64 bits.
    pub fn draw_bits(&mut self) -> u64 {
        self.state = self.state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut bits = self.state;
        bits = (bits ^ (bits >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        bits = (bits ^ (bits >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        bits ^ (bits >> 31)
    }

    /// Draws a number from 0 up to, but without, 1.
    pub fn draw_unit(&mut self) -> f64 {
        whole_to_f64(self.draw_bits() >> 11) / whole_to_f64(1 << 53)
    }

    /// Draws one of the values; none if there is none.
    pub fn draw_from<'a, T>(&mut self, values: &'a [T]) -> Option<&'a T> {
        let count = u128::try_from(values.len()).ok()?;
        // The high half of the product: its bias is below 2^-32 for fewer than four thousand million values.
        let index = (u128::from(self.draw_bits()) * count) >> 64;
        values.get(usize::try_from(index).ok()?)
    }
}
