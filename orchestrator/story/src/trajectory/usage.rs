//! Sums and differences of usage.

use ralph_orchestrator_contract::{Tokens, Usage};

/// Returns the usage of two attempts together.
pub(super) fn add_usage(a: Usage, b: Usage) -> Usage {
    let tokens = match (a.tokens, b.tokens) {
        (Some(a), Some(b)) => Some(a + b),
        (a, b) => a.or(b),
    };
    let cost = match (a.cost, b.cost) {
        (Some(a), Some(b)) => Some(a + b),
        (a, b) => a.or(b),
    };
    Usage { tokens, cost, estimated: a.estimated || b.estimated }
}

/// Returns what was used since `before`. Sums that fell are those of another session.
pub(super) fn subtract_usage(now: Usage, before: Usage) -> Usage {
    let tokens = now.tokens.map(|now| {
        let before = before.tokens.unwrap_or_default();
        let less = |now: u64, before: u64| now.checked_sub(before).unwrap_or(now);
        Tokens {
            input: less(now.input, before.input),
            output: less(now.output, before.output),
            cache_read: less(now.cache_read, before.cache_read),
            cache_write: less(now.cache_write, before.cache_write),
        }
    });
    let cost = now.cost.map(|now| match before.cost {
        Some(before) if before <= now => now.saturating_sub(before),
        _ => now,
    });
    Usage { tokens, cost, estimated: now.estimated }
}
