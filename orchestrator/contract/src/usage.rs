//! Tokens and cost of an iteration.

use std::ops::{Add, AddAssign};

use serde::{Deserialize, Serialize};

use super::Usd;

/// Counts of tokens. `input` excludes what was read from or written to the provider's cache.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Tokens {
    /// Input tokens billed in full.
    pub input: u64,
    /// Output tokens.
    pub output: u64,
    /// Input tokens read from the cache.
    pub cache_read: u64,
    /// Input tokens written to the cache.
    pub cache_write: u64,
}

impl Tokens {
    /// All tokens together.
    #[must_use]
    pub fn total(&self) -> u64 {
        [self.input, self.output, self.cache_read, self.cache_write]
            .into_iter()
            .fold(0, u64::saturating_add)
    }

    /// Field by field the larger of both: figures of one iteration only ever grow.
    #[must_use]
    pub fn max(self, other: Self) -> Self {
        Self {
            input: self.input.max(other.input),
            output: self.output.max(other.output),
            cache_read: self.cache_read.max(other.cache_read),
            cache_write: self.cache_write.max(other.cache_write),
        }
    }
}

impl Add for Tokens {
    type Output = Self;
    fn add(self, other: Self) -> Self {
        Self {
            input: self.input.saturating_add(other.input),
            output: self.output.saturating_add(other.output),
            cache_read: self.cache_read.saturating_add(other.cache_read),
            cache_write: self.cache_write.saturating_add(other.cache_write),
        }
    }
}

impl AddAssign for Tokens {
    fn add_assign(&mut self, other: Self) {
        *self = *self + other;
    }
}

/// What an iteration has used so far: always the sum since its start, never a difference.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Usage {
    /// Tokens, if the agent reports them.
    pub tokens: Option<Tokens>,
    /// Cost, if the agent reports it or it could be computed.
    pub cost: Option<Usd>,
    /// The cost was computed from tokens and a price table, not reported by the agent.
    pub estimated: bool,
}

impl Usage {
    /// The larger of both, field by field.
    #[must_use]
    pub fn max(self, other: Self) -> Self {
        Self {
            tokens: match (self.tokens, other.tokens) {
                (Some(a), Some(b)) => Some(a.max(b)),
                (a, b) => a.or(b),
            },
            cost: self.cost.max(other.cost),
            estimated: if other.cost >= self.cost { other.estimated } else { self.estimated },
        }
    }
}
