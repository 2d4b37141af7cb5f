//! Rate limiting.

/// A token bucket: so much at once, and so much more with the time that passes. All in thousandths, so
/// that nothing is lost to rounding.
#[derive(Clone, Copy, Debug)]
pub(super) struct TokenBucket {
    capacity: u64,
    per_second: u64,
    left: u64,
    at_ms: u64,
}

impl TokenBucket {
    /// Allows `capacity` at once and `per_second` from then on.
    pub(super) const fn new(capacity: u64, per_second: u64, now_ms: u64) -> Self {
        let capacity = capacity.saturating_mul(1000);
        Self { capacity, per_second, left: capacity, at_ms: now_ms }
    }

    /// Takes `cost` if it is available. Returns whether it was.
    pub(super) fn take(&mut self, cost: u64, now_ms: u64) -> bool {
        self.refill(now_ms);
        let Some(left) = self.left.checked_sub(cost.saturating_mul(1000)) else { return false };
        self.left = left;
        true
    }

    /// Returns the time, in milliseconds, at which `cost` is available.
    pub(super) fn ready_ms(&self, cost: u64) -> u64 {
        let missing = cost.saturating_mul(1000).saturating_sub(self.left);
        self.at_ms.saturating_add(missing.div_ceil(self.per_second.max(1)))
    }

    fn refill(&mut self, now_ms: u64) {
        let passed = now_ms.saturating_sub(self.at_ms);
        let more = passed.saturating_mul(self.per_second);
        self.left = self.left.saturating_add(more).min(self.capacity);
        self.at_ms = self.at_ms.max(now_ms);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn allows_a_burst_and_then_a_steady_rate() {
        let mut bucket = TokenBucket::new(3, 2, 1_000);
        assert!((0..3).all(|_| bucket.take(1, 1_000)));
        assert!(!bucket.take(1, 1_499));
        assert_eq!(bucket.ready_ms(1), 1_500);
        assert!(bucket.take(1, 1_500) && !bucket.take(1, 1_500));
        assert!(!bucket.take(4, 1_000_000), "never more than at once");
        assert!(bucket.take(3, 1_000_000));
        assert_eq!(bucket.ready_ms(2), 1_001_000);
        // A clock that stands or goes back gives nothing.
        assert!(!bucket.take(1, 0));
    }

    #[test]
    fn over_any_time_it_allows_no_more_than_burst_and_rate() {
        let mut bucket = TokenBucket::new(8, 1, 0);
        let taken = (0..100_000_u64).filter(|now| bucket.take(2, *now)).count();
        assert_eq!(taken, (8 + 100) / 2 - 1);
    }
}
