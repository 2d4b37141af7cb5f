//! Money.

use std::fmt;
use std::iter::Sum;
use std::ops::{Add, AddAssign};

use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

const NANOS_PER_USD: f64 = 1e9;

/// An amount of US dollars, kept exactly as whole nano-dollars.
///
/// Sums of floating point figures drift; a budget must not. Written as a plain number of dollars in
/// every format. Sums saturate.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Usd(u64);

impl Usd {
    /// Nothing.
    pub const ZERO: Self = Self(0);
    /// The largest amount that can be said, about 18 billion dollars.
    pub const MAX: Self = Self(u64::MAX);

    /// From whole nano-dollars.
    #[must_use]
    pub const fn from_nanos(nanos: u64) -> Self {
        Self(nanos)
    }

    /// From a figure in dollars, rounded to the nearest nano-dollar. `None` if it is negative or not
    /// a number; too large an amount becomes [`Usd::MAX`].
    #[must_use]
    pub fn from_dollars(dollars: f64) -> Option<Self> {
        if dollars.is_nan() || dollars < 0.0 {
            return None;
        }
        // A float-to-integer cast saturates, which is what is wanted here.
        #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)]
        Some(Self((dollars * NANOS_PER_USD).round() as u64))
    }

    /// The amount in dollars.
    #[must_use]
    pub fn dollars(self) -> f64 {
        #[allow(clippy::cast_precision_loss)]
        let nanos = self.0 as f64;
        nanos / NANOS_PER_USD
    }

    /// Whole nano-dollars.
    #[must_use]
    pub const fn nanos(self) -> u64 {
        self.0
    }

    /// What is left after `other` is taken away, never less than nothing.
    #[must_use]
    pub const fn saturating_sub(self, other: Self) -> Self {
        Self(self.0.saturating_sub(other.0))
    }
}

impl Add for Usd {
    type Output = Self;
    fn add(self, other: Self) -> Self {
        Self(self.0.saturating_add(other.0))
    }
}

impl AddAssign for Usd {
    fn add_assign(&mut self, other: Self) {
        *self = *self + other;
    }
}

impl Sum for Usd {
    fn sum<I: Iterator<Item = Self>>(iter: I) -> Self {
        iter.fold(Self::ZERO, Add::add)
    }
}

impl fmt::Display for Usd {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let small = self.0 != 0 && self.0 < 10_000_000;
        write!(f, "${:.*}", if small { 4 } else { 2 }, self.dollars())
    }
}

impl Serialize for Usd {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_f64(self.dollars())
    }
}

impl<'de> Deserialize<'de> for Usd {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let dollars = f64::deserialize(deserializer)?;
        Self::from_dollars(dollars)
            .ok_or_else(|| D::Error::custom("an amount of dollars cannot be negative"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ten_dimes_are_a_dollar() {
        let dime = Usd::from_dollars(0.1).unwrap();
        assert_eq!((0..10).map(|_| dime).sum::<Usd>(), Usd::from_dollars(1.0).unwrap());
    }

    #[test]
    fn odd_figures() {
        assert_eq!(Usd::from_dollars(-0.01), None);
        assert_eq!(Usd::from_dollars(f64::NAN), None);
        assert_eq!(Usd::from_dollars(f64::INFINITY), Some(Usd::MAX));
        assert_eq!(Usd::MAX + Usd::from_nanos(1), Usd::MAX);
        assert_eq!(Usd::ZERO.saturating_sub(Usd::from_nanos(1)), Usd::ZERO);
    }

    #[test]
    fn survives_json() {
        let cost = Usd::from_dollars(0.130_185).unwrap();
        assert_eq!(serde_json::to_string(&cost).unwrap(), "0.130185");
        assert_eq!(serde_json::from_str::<Usd>("0.130185").unwrap(), cost);
    }

    #[test]
    fn shown_with_as_many_digits_as_say_something() {
        let shown = |d| Usd::from_dollars(d).unwrap().to_string();
        assert_eq!(shown(0.0), "$0.00");
        assert_eq!(shown(0.0013), "$0.0013");
        assert_eq!(shown(12.345), "$12.35");
    }
}
