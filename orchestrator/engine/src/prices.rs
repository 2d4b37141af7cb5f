//! The cost of an agent that reports only tokens.

use genai_prices::{Calculator, PriceRequest, UsageKey};
use ralph_orchestrator_config::Prices;
use ralph_orchestrator_contract::{Tokens, Usage, Usd};

const PER_MILLION: f64 = 1e6;

/// The providers whose prices are looked up first: many sell the same models, these make them.
const MAKERS: [&str; 5] = ["openai", "anthropic", "google", "x-ai", "deepseek"];

/// Computes the cost of what an agent uses.
#[derive(Clone, Debug, Default)]
pub(super) struct Pricing {
    /// The model that the agent was asked to use.
    asked_for: Option<String>,
    /// The model that the agent reports.
    reported: Option<String>,
    /// What this iteration has used so far, and its cost by the table.
    so_far: Option<(Tokens, Usd)>,
}

impl Pricing {
    /// Of an agent that was asked to use this model.
    pub(super) fn new(asked_for: Option<String>) -> Self {
        Self { asked_for, ..Self::default() }
    }

    /// Begins an iteration: nothing is used yet.
    pub(super) fn begin(&mut self) {
        self.so_far = None;
    }

    /// Sets the model that the agent reports.
    pub(super) fn set_model(&mut self, model: String) {
        self.reported = Some(model);
    }

    /// Returns the usage with its cost, computed if there is none: from the prices that are given, or from the
    /// table's for the model that the agent reports, or else the one it was asked to use.
    pub(super) fn with_cost(&mut self, usage: Usage, prices: Option<&Prices>) -> Usage {
        let (None, Some(tokens)) = (usage.cost, usage.tokens) else { return usage };
        let cost = match prices {
            Some(prices) => Some(cost(tokens, prices)),
            None => self.look_up(tokens),
        };
        match cost {
            Some(cost) => Usage { cost: Some(cost), estimated: true, ..usage },
            None => usage,
        }
    }

    /// Some models cost more for long requests, so what came since the last time is looked up, which
    /// is a request or a few of them, and not the sum.
    fn look_up(&mut self, tokens: Tokens) -> Option<Usd> {
        let (before, cost) = self.so_far.unwrap_or_default();
        let sum = before.max(tokens);
        let more = Tokens {
            input: sum.input - before.input,
            output: sum.output - before.output,
            cache_read: sum.cache_read - before.cache_read,
            cache_write: sum.cache_write - before.cache_write,
        };
        let of = |model: &Option<String>| table_price(model.as_deref()?, more);
        let cost = cost + of(&self.reported).or_else(|| of(&self.asked_for))?;
        self.so_far = Some((sum, cost));
        Some(cost)
    }
}

/// Returns whether the table has prices for this model. The table is decoded when it is first needed.
pub(super) fn is_known(model: &str) -> bool {
    table_price(model, Tokens { input: 1, output: 1, ..Tokens::default() }).is_some()
}

/// Returns the cost by the table; `None` if it does not have the model, or not all that it charges for.
fn table_price(model: &str, tokens: Tokens) -> Option<Usd> {
    let count = |count: u64| {
        // Counts of tokens are far below 2^53.
        #[allow(clippy::cast_precision_loss)]
        let count = count as f64;
        count
    };
    // The table's input includes what the cache had or took.
    let mut usage = genai_prices::Usage::new();
    let input = [tokens.input, tokens.cache_read, tokens.cache_write];
    usage.insert(UsageKey::INPUT_TOKENS, count(input.into_iter().fold(0, u64::saturating_add)));
    usage.insert(UsageKey::OUTPUT_TOKENS, count(tokens.output));
    usage.insert(UsageKey::CACHE_READ_TOKENS, count(tokens.cache_read));
    usage.insert(UsageKey::CACHE_WRITE_TOKENS, count(tokens.cache_write));
    // What agents put after a model's name is about its window or its effort.
    let name = model.split_once('[').map_or(model, |(name, _)| name);
    let table = Calculator::bundled();
    let request = PriceRequest::new(name, &usage);
    let made = MAKERS
        .iter()
        .find_map(|maker| table.calculate(&request.clone().with_provider_id(maker)).ok());
    let found = match made {
        Some(found) => found,
        None => table.calculate(&request).ok()?,
    };
    Usd::from_dollars(found.total_price)
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

    fn tokens(tokens: Tokens) -> Usage {
        Usage { tokens: Some(tokens), ..Usage::default() }
    }

    #[test]
    fn an_estimate_says_so_and_never_replaces_a_report() {
        let mut pricing = Pricing::new(Some("gpt-5".to_owned()));
        let usage =
            tokens(Tokens { input: 1_000_000, output: 100_000, cache_read: 10, cache_write: 0 });
        let priced = pricing.with_cost(usage, Some(&PRICES));
        assert_eq!(priced.cost, Usd::from_dollars(4.500_003));
        assert!(priced.estimated);
        let reported = Usage { cost: Usd::from_dollars(0.5), ..usage };
        assert_eq!(pricing.with_cost(reported, Some(&PRICES)), reported);
        assert_eq!(pricing.with_cost(reported, None), reported);
        let none = Usage::default();
        assert_eq!(pricing.with_cost(none, None), none);
        assert_eq!(Pricing::default().with_cost(usage, None), usage);
        let mut unknown = Pricing::new(Some("no-such-model".to_owned()));
        assert_eq!(unknown.with_cost(usage, None), usage);
    }

    #[test]
    fn the_table_knows_what_these_cost() {
        // What Claude Code itself reckoned for these figures.
        let opus = Tokens { input: 2032, output: 240, cache_read: 34_300, cache_write: 15_500 };
        assert_eq!(table_price("claude-opus-4-8", opus), Usd::from_dollars(0.130_185));
        assert_eq!(table_price("claude-opus-4-8[1m]", opus), Usd::from_dollars(0.130_185));
        assert_eq!(table_price("claude-haiku-4-5", opus), Usd::from_dollars(0.026_037));
        // 1.25 and 10 dollars a million, and a tenth for what the cache had.
        let million = Tokens { input: 1_000_000, output: 0, cache_read: 1_000_000, cache_write: 0 };
        assert_eq!(table_price("gpt-5", million), Usd::from_dollars(1.375));
        let out = Tokens { output: 1_000_000, ..Tokens::default() };
        assert_eq!(table_price("gpt-5.1-codex", out), Usd::from_dollars(10.0));
        assert!(is_known("gpt-5") && !is_known("no-such-model") && !is_known(""));
        let absurd = Tokens { input: u64::MAX, output: u64::MAX, cache_read: 7, cache_write: 7 };
        assert!(table_price("gpt-5", absurd) > Usd::from_dollars(1e9));
    }

    #[test]
    fn what_the_agent_says_it_uses_counts_before_what_it_was_asked_for() {
        let usage = tokens(Tokens { output: 1_000_000, ..Tokens::default() });
        let mut pricing = Pricing::new(Some("gpt-5".to_owned()));
        let mut cost = |says: Option<&str>| {
            pricing.begin();
            says.into_iter().for_each(|model| pricing.set_model(model.to_owned()));
            pricing.with_cost(usage, None).cost
        };
        assert_eq!(cost(None), Usd::from_dollars(10.0));
        assert_eq!(cost(Some("claude-opus-4-8")), Usd::from_dollars(25.0));
        assert_eq!(cost(Some("renamed-by-a-proxy")), Usd::from_dollars(10.0));
    }

    #[test]
    fn many_short_requests_do_not_cost_what_one_long_one_does() {
        // More above 200,000 tokens of input.
        let model = "gemini-2.5-pro";
        let sum = |n: u64| Tokens { input: n * 100_000, ..Tokens::default() };
        let mut pricing = Pricing::new(Some(model.to_owned()));
        let mut cost = None;
        for n in 1..=10 {
            cost = pricing.with_cost(tokens(sum(n)), None).cost;
        }
        assert_eq!(cost, Usd::from_dollars(1.25));
        assert!(table_price(model, sum(10)) > cost);
        // Figures that fall, or come twice, change nothing; a new iteration begins at nothing.
        assert_eq!(pricing.with_cost(tokens(sum(3)), None).cost, cost);
        pricing.begin();
        assert_eq!(pricing.with_cost(tokens(sum(1)), None).cost, Usd::from_dollars(0.125));
    }
}
