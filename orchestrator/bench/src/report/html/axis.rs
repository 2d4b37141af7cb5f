//! Axes of charts: from values to coordinates.

use serde::Serialize;

/// The left end of the drawing area of all charts, in units of their view box.
pub const LEFT: f64 = 44.0;
/// Its right end.
pub const RIGHT: f64 = 384.0;
/// Its upper end.
pub const TOP: f64 = 14.0;
/// Its lower end.
pub const BOTTOM: f64 = 214.0;
/// About how many steps an axis has.
const STEPS: f64 = 5.0;

/// A mark of an axis.
#[derive(Clone, Debug, Serialize)]
pub struct Tick {
    /// Its coordinate.
    pub at: f64,
    /// Its value.
    pub value: f64,
    /// Its value as text.
    pub text: String,
}

/// An axis from `low` at the coordinate `from` to `high` at the coordinate `to`.
#[derive(Clone, Copy, Debug)]
pub struct Axis {
    low: f64,
    high: f64,
    step: f64,
    from: f64,
    to: f64,
}

impl Axis {
    /// Returns an axis with round marks that has room for all finite values.
    #[must_use]
    pub fn covering(values: impl Iterator<Item = f64>, (from, to): (f64, f64)) -> Self {
        let finite = values.filter(|value| value.is_finite());
        let (low, high) = finite.fold((f64::INFINITY, f64::NEG_INFINITY), |(low, high), value| {
            (low.min(value), high.max(value))
        });
        let (low, high) = if low < high { (low, high) } else { (0.0, high.max(1.0)) };
        let step = round_step((high - low) / STEPS);
        Self { low: (low / step).floor() * step, high: (high / step).ceil() * step, step, from, to }
    }

    /// Returns the coordinate of a value, at the end of the axis if it is beyond.
    #[must_use]
    pub fn place(&self, value: f64) -> f64 {
        let share = (value.clamp(self.low, self.high) - self.low) / (self.high - self.low);
        round(self.from + share * (self.to - self.from))
    }

    /// Returns the marks, with `format` for their texts.
    pub fn ticks(&self, format: impl Fn(f64) -> String) -> Vec<Tick> {
        let mut ticks = Vec::new();
        let mut number = 0_u32;
        loop {
            let value = self.low + f64::from(number) * self.step;
            // Half a step for rounding; an axis has few marks by its construction.
            if value > self.high + self.step / 2.0 || number > 12 {
                return ticks;
            }
            ticks.push(Tick { at: self.place(value), value, text: format(value) });
            number += 1;
        }
    }

    /// Returns how many digits after the point the marks need.
    #[must_use]
    pub fn digits(&self) -> usize {
        [(1.0, 0), (0.1, 1), (0.01, 2), (0.001, 3)]
            .into_iter()
            .find(|(unit, _)| self.step >= *unit * 0.99)
            .map_or(6, |(_, digits)| digits)
    }
}

/// Returns the next of 1, 2, 5 × a power of ten that is not less.
fn round_step(step: f64) -> f64 {
    let power = 10_f64.powf(step.log10().floor());
    let factor = [1.0, 2.0, 5.0].into_iter().find(|factor| factor * power >= step * 0.999_999);
    factor.unwrap_or(10.0) * power
}

/// Returns a coordinate with two digits after the point.
#[must_use]
pub fn round(coordinate: f64) -> f64 {
    (coordinate * 100.0).round() / 100.0
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn has_round_marks_around_the_values() {
        let axis = Axis::covering([0.0, 13.82].into_iter(), (0.0, 100.0));
        let values: Vec<_> =
            axis.ticks(|value| value.to_string()).iter().map(|t| t.value).collect();
        assert_eq!(values, [0.0, 5.0, 10.0, 15.0]);
        assert_eq!(axis.place(7.5), 50.0);
        assert_eq!(axis.digits(), 0);
    }

    #[test]
    fn exists_without_values() {
        let axis = Axis::covering([f64::NAN, 0.0].into_iter(), (100.0, 0.0));
        assert_eq!(axis.place(0.0), 100.0);
        assert_eq!(axis.place(99.0), 0.0);
        assert!(!axis.ticks(|value| value.to_string()).is_empty());
    }

    proptest! {
        #[test]
        fn keeps_every_value_inside(a in -1e9_f64..1e9, b in -1e9_f64..1e9) {
            let axis = Axis::covering([a, b].into_iter(), (10.0, 90.0));
            for value in [a, b] {
                prop_assert!((10.0..=90.0).contains(&axis.place(value)));
            }
            let ticks = axis.ticks(|value| value.to_string());
            prop_assert!((2..=12).contains(&ticks.len()), "{:?}", ticks);
            prop_assert!((axis.place(a) < axis.place(b)) <= (a < b));
        }
    }
}
