//! The power of McNemar's exact test.

use super::distribution::{fair_coin_at_most, normal_quantile, normal_tail};
use super::whole_to_f64;

/// Tasks from which on the power is that of the normal distribution with the correction for continuity. The two differ by
/// less than 0.005 there, and the exact sum takes as long as it is good for nothing.
const MANY: u64 = 2_000;
/// Standard deviations of the number of discordant tasks beyond which nothing is left.
const RANGE: f64 = 9.0;

/// Returns the probability that McNemar's exact test of `tasks` tasks finds a difference, two-sided, at a level of
/// significance. On each task the candidate alone is right with the probability `better`, and alone wrong with `worse`.
#[must_use]
pub fn mcnemar_power(tasks: u64, better: f64, worse: f64, significance: f64) -> f64 {
    let discordant = (better + worse).min(1.0);
    if discordant <= 0.0 {
        return 0.0;
    }
    if tasks > MANY {
        return approximate_power(whole_to_f64(tasks), better - worse, discordant, significance);
    }
    let mean = whole_to_f64(tasks) * discordant;
    let reach = RANGE * (mean * (1.0 - discordant)).sqrt() + 1.0;
    let share = (better / discordant).clamp(0.0, 1.0);
    let (mut power, mut critical) = (0.0, 0);
    for count in 0..=tasks {
        // The test finds something if at most so many of the discordant tasks are on one side. That only grows.
        while 2.0 * fair_coin_at_most(critical, count) < significance {
            critical += 1;
        }
        if critical == 0 || (whole_to_f64(count) - mean).abs() > reach {
            continue;
        }
        let few = binomial_at_most(critical - 1, count, share);
        let many = binomial_at_most(critical - 1, count, 1.0 - share);
        power += binomial(count, tasks, discordant) * (few + many);
    }
    power.clamp(0.0, 1.0)
}

fn approximate_power(tasks: f64, difference: f64, discordant: f64, significance: f64) -> f64 {
    let spread = (tasks * (discordant - difference * difference)).max(f64::MIN_POSITIVE).sqrt();
    let critical = normal_quantile(significance / 2.0) * (tasks * discordant).sqrt() + 1.0;
    let shift = tasks * difference;
    normal_tail((critical - shift) / spread) + normal_tail((critical + shift) / spread)
}

/// Returns the probability of so many successes in `trials`.
fn binomial(successes: u64, trials: u64, share: f64) -> f64 {
    if share >= 1.0 {
        return if successes == trials { 1.0 } else { 0.0 };
    }
    if share <= 0.0 {
        return if successes == 0 { 1.0 } else { 0.0 };
    }
    let (k, n) = (whole_to_f64(successes), whole_to_f64(trials));
    let choose = libm::lgamma(n + 1.0) - libm::lgamma(k + 1.0) - libm::lgamma(n - k + 1.0);
    (choose + k * share.ln() + (n - k) * libm::log1p(-share)).exp()
}

/// Returns the probability of at most so many successes in `trials`.
fn binomial_at_most(successes: u64, trials: u64, share: f64) -> f64 {
    if successes >= trials {
        return 1.0;
    }
    if whole_to_f64(successes) > whole_to_f64(trials) * share {
        return 1.0 - binomial_at_most(trials - successes - 1, trials, 1.0 - share);
    }
    // From the largest term down; what is small against it adds nothing.
    let mut term = binomial(successes, trials, share);
    let (mut sum, mut left) = (term, successes);
    while left > 0 && term > sum * f64::EPSILON {
        term *= whole_to_f64(left) / whole_to_f64(trials - left + 1) * (1.0 - share) / share;
        sum += term;
        left -= 1;
    }
    sum
}
