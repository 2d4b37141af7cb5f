//! Cost of an agent that reports only tokens.

use crate::config::Prices;
use crate::contract::{Tokens, Usage, Usd};

const PER_MILLION: f64 = 1e6;

/// The usage with its cost, computed if there is none and prices are known.
pub(super) fn with_cost(usage: Usage, prices: Option<&Prices>) -> Usage {
    match (usage.cost, usage.tokens, prices) {
        (None, Some(tokens), Some(prices)) => {
            Usage { cost: Some(cost(tokens, prices)), estimated: true, ..usage }
        }
        _ => usage,
    }
}

fn cost(tokens: Tokens, prices: &Prices) -> Usd {
    [
        (tokens.input, prices.input),
        (tokens.output, prices.output),
        (tokens.cache_read, prices.cache_read),
        (tokens.cache_write, prices.cache_write),
    ]
    .into_iter()
    .map(|(count, price)| {
        // Counts of tokens are far below 2^53.
        #[allow(clippy::cast_precision_loss)]
        let count = count as f64;
        Usd::from_dollars(count * price / PER_MILLION).unwrap_or(Usd::MAX)
    })
    .sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    const PRICES: Prices = Prices { input: 3.0, output: 15.0, cache_read: 0.3, cache_write: 3.75 };

    #[test]
    fn an_estimate_says_so_and_never_replaces_a_report() {
        let tokens = Tokens { input: 1_000_000, output: 100_000, cache_read: 10, cache_write: 0 };
        let usage = Usage { tokens: Some(tokens), ..Usage::default() };
        let priced = with_cost(usage, Some(&PRICES));
        assert_eq!(priced.cost, Usd::from_dollars(4.500_003));
        assert!(priced.estimated);
        let reported = Usage { cost: Usd::from_dollars(0.5), ..usage };
        assert_eq!(with_cost(reported, Some(&PRICES)), reported);
        assert_eq!(with_cost(usage, None), usage);
    }
}
