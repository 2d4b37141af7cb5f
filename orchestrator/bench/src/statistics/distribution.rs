//! Probabilities and quantiles of the normal, Student's t and the binomial distribution.
//!
//! Written here because `statrs` 0.19 is off by 1e-8 for t with 10,000 degrees of freedom and by 3e-4 with a million:
//! a continued fraction that stops after 140 terms, and differences of logarithms that cancel. The error
//! function and the logarithm of Γ are those of `libm`. Here the relative error is below 1e-9 up to a million degrees of
//! freedom, in tails as small as 1e-100.

use super::{count_to_f64, whole_to_f64};

/// Terms after which a continued fraction is taken as it is. It needs about the root of its larger parameter.
const MAX_TERMS: u32 = 20_000;
/// Steps of a search for a quantile; it takes about ten.
const MAX_STEPS: u32 = 200;
/// The relative error of a probability at which its quantile is found.
const CLOSE: f64 = 1e-15;
/// Stands for zero where a division follows.
const TINY: f64 = 1e-300;

/// Returns the probability that a standard normal variable exceeds `x`.
#[must_use]
pub fn normal_tail(x: f64) -> f64 {
    0.5 * libm::erfc(x * std::f64::consts::FRAC_1_SQRT_2)
}

/// Returns what a standard normal variable exceeds with probability `tail`, which is above 0 and at most 0.5.
///
/// Outside of these bounds the result is the one at the bound: infinite, or zero.
#[must_use]
pub fn normal_quantile(tail: f64) -> f64 {
    find_quantile(tail, normal_tail)
}

/// Returns the probability that a variable of Student's t distribution exceeds `t`.
///
/// `freedom` is the degrees of freedom, above zero.
#[must_use]
pub fn student_tail(t: f64, freedom: f64) -> f64 {
    if t < 0.0 {
        return 1.0 - student_tail(-t, freedom);
    }
    if t.is_infinite() {
        return 0.0;
    }
    let ratio = t / freedom.sqrt();
    let square = ratio * ratio;
    // x = ν/(ν+t²), y = 1 − x and −ln x, without a difference that would cancel or a square that would overflow.
    let (x, y, log) = if ratio < 1e100 {
        (1.0 / (1.0 + square), square / (1.0 + square), libm::log1p(square))
    } else {
        (0.0, 1.0, 2.0 * ratio.ln())
    };
    let half = freedom / 2.0;
    let log_front = -half * log + 0.5 * y.max(f64::MIN_POSITIVE).ln() + log_gamma_ratio(half)
        - 0.5 * std::f64::consts::PI.ln();
    if x < (half + 1.0) / (half + 2.5) {
        0.5 * log_front.exp() * beta_fraction(half, 0.5, x) / half
    } else {
        0.5 - log_front.exp() * beta_fraction(0.5, half, y)
    }
}

/// Returns what a variable of Student's t distribution exceeds with probability `tail`, which is above 0 and at
/// most 0.5.
///
/// `freedom` is the degrees of freedom, above zero. Outside of the bounds of `tail` the result is the one at the
/// bound: infinite, or zero.
#[must_use]
pub fn student_quantile(tail: f64, freedom: f64) -> f64 {
    find_quantile(tail, |t| student_tail(t, freedom))
}

/// Returns the probability of at most `successes` in `trials` tosses of a fair coin.
#[must_use]
pub fn fair_coin_at_most(successes: u64, trials: u64) -> f64 {
    if successes >= trials {
        return 1.0;
    }
    if successes > trials / 2 {
        return 1.0 - fair_coin_at_most(trials - successes - 1, trials);
    }
    // Relative to the largest term, from that one down; what is small against it adds nothing.
    let (mut term, mut sum) = (1.0, 1.0);
    let mut left = successes;
    while left > 0 && term > f64::EPSILON * 1e-3 {
        term *= whole_to_f64(left) / whole_to_f64(trials - left + 1);
        sum += term;
        left -= 1;
    }
    let (n, k) = (whole_to_f64(trials), whole_to_f64(successes));
    let log_choose = libm::lgamma(n + 1.0) - libm::lgamma(k + 1.0) - libm::lgamma(n - k + 1.0);
    (sum * (log_choose - n * std::f64::consts::LN_2).exp()).min(1.0)
}

/// Returns the probability that a t test finds a difference, two-sided, at a level of significance.
///
/// `shift` is the true difference over its standard error. The statistic then follows the non-central t
/// distribution; its probability is integrated over the logarithm of the scale, in which the function is smooth for
/// few degrees of freedom too and vanishes at both ends, where the trapezoidal rule converges exponentially.
#[must_use]
pub fn t_test_power(shift: f64, freedom: f64, significance: f64) -> f64 {
    const INTERVALS: usize = 600;
    let critical = student_quantile(significance / 2.0, freedom);
    let spread = 12.0 / (2.0 * freedom).sqrt();
    let low = -(spread + 40.0 / freedom);
    let width = (libm::log1p(spread) - low) / count_to_f64(INTERVALS);
    let half = freedom / 2.0;
    // The logarithm of the density at scale 1, where it is the highest, apart from the rest: that is large.
    let log_top = std::f64::consts::LN_2 + half * half.ln() - half - libm::lgamma(half);
    let mut sum = 0.0;
    for point in 0..=INTERVALS {
        let log = low + width * count_to_f64(point);
        let scale = log.exp();
        let density = (log_top + half * (2.0 * log - libm::expm1(2.0 * log))).exp();
        sum += density
            * (normal_tail(critical * scale - shift) + normal_tail(critical * scale + shift));
    }
    (sum * width).clamp(0.0, 1.0)
}

/// Returns ln Γ(a + 1/2) − ln Γ(a).
fn log_gamma_ratio(a: f64) -> f64 {
    if a < 50.0 {
        return libm::lgamma(a + 0.5) - libm::lgamma(a);
    }
    // The two logarithms are large and cancel; the series does not.
    let (inverse, square) = (1.0 / a, 1.0 / (a * a));
    0.5 * a.ln()
        - inverse
            * (1.0 / 8.0
                - square * (1.0 / 192.0 - square * (1.0 / 640.0 - square * 17.0 / 14_336.0)))
}

/// Returns the continued fraction of the incomplete beta function, by the method of Lentz.
fn beta_fraction(a: f64, b: f64, x: f64) -> f64 {
    let keep = |value: f64| if value.abs() < TINY { TINY } else { value };
    let mut c = 1.0;
    let mut d = 1.0 / keep(1.0 - (a + b) * x / (a + 1.0));
    let mut result = d;
    for m in 1..=MAX_TERMS {
        let m = f64::from(m);
        let even = m * (b - m) * x / ((a + 2.0 * m - 1.0) * (a + 2.0 * m));
        let odd = -(a + m) * (a + b + m) * x / ((a + 2.0 * m) * (a + 2.0 * m + 1.0));
        let mut change = 1.0;
        for factor in [even, odd] {
            d = 1.0 / keep(1.0 + factor * d);
            c = keep(1.0 + factor / c);
            change = c * d;
            result *= change;
        }
        if (change - 1.0).abs() < f64::EPSILON {
            break;
        }
    }
    result
}

/// Returns where a falling function that is 0.5 at zero takes the value `tail`.
fn find_quantile(tail: f64, function: impl Fn(f64) -> f64) -> f64 {
    if tail >= 0.5 {
        return 0.0;
    }
    if tail <= 0.0 || tail.is_nan() {
        return f64::INFINITY;
    }
    // The logarithm of a tail is nearly a line over a factor of two.
    let height = |x: f64| (function(x) / tail).ln();
    let (mut low, mut high) = (0.0_f64, 1.0_f64);
    let (mut above, mut below) = (height(low), height(high));
    while below > 0.0 && high < f64::MAX / 4.0 {
        (low, above) = (high, below);
        high *= 2.0;
        below = height(high);
    }
    let mut moved_low = None;
    for _ in 0..MAX_STEPS {
        let middle = low + (high - low) / 2.0;
        if middle <= low || middle >= high {
            break;
        }
        let line = low + (high - low) * above / (above - below);
        let x = if line > low && line < high { line } else { middle };
        let here = height(x);
        if here.abs() <= CLOSE {
            return x;
        }
        // An end that stays where it is counts half, lest the other one creep (the Illinois method).
        if here > 0.0 {
            (low, above) = (x, here);
            below = if moved_low == Some(true) { below / 2.0 } else { below };
        } else {
            (high, below) = (x, here);
            above = if moved_low == Some(false) { above / 2.0 } else { above };
        }
        moved_low = Some(here > 0.0);
    }
    low + (high - low) / 2.0
}
