//! Axes: positions of values, and the ticks that are labelled.

/// A linear axis from zero.
pub(super) struct Linear {
    /// Upper end of the axis, a round number that is at least the largest value.
    pub(super) end: f64,
    step: f64,
}

impl Linear {
    /// An axis for values up to `largest`, with about five steps of 1, 2 or 5 times a power of ten.
    pub(super) fn up_to(largest: f64) -> Self {
        let largest = if largest > 0.0 { largest } else { 1.0 };
        let rough = largest / 5.0;
        let power = 10_f64.powf(rough.log10().floor());
        let step = [1.0, 2.0, 5.0, 10.0].map(|factor| factor * power).into_iter().find(|step| *step >= rough);
        let step = step.unwrap_or(10.0 * power);
        Self { end: (largest / step).ceil() * step, step }
    }

    /// The ticks of the axis.
    pub(super) fn ticks(&self) -> Vec<f64> {
        // At most six, because end / step is at most 5 by construction.
        (0..=6).map(|index| f64::from(index) * self.step).take_while(|tick| *tick <= self.end * 1.000_001).collect()
    }

    /// Position of a value between 0 and 1.
    pub(super) fn part(&self, value: f64) -> f64 {
        value / self.end
    }

    /// A tick as text, with as many decimals as the step needs.
    pub(super) fn label(&self, tick: f64) -> String {
        let decimals = if self.step >= 1.0 {
            0
        } else if self.step >= 0.1 {
            1
        } else {
            2
        };
        format!("{tick:.decimals$}")
    }
}

/// A linear axis of positions on a device in bytes, which need not begin at zero.
pub(super) struct Stretch {
    low: f64,
    high: f64,
    step: f64,
}

impl Stretch {
    /// An axis that contains `low..=high` with a small margin; it starts at zero if that is near.
    pub(super) fn over(low: f64, high: f64) -> Self {
        let low = if low < high * 0.25 { 0.0 } else { low };
        let length = (high - low).max(1.0);
        let step = Linear::up_to(length).step;
        Self { low: low - length * 0.04, high: high + length * 0.04, step }
    }

    /// Position of a value between 0 and 1.
    pub(super) fn part(&self, bytes: f64) -> f64 {
        (bytes - self.low) / (self.high - self.low)
    }

    /// The ticks of the axis.
    pub(super) fn ticks(&self) -> Vec<f64> {
        let first = (self.low / self.step).ceil().max(0.0);
        // About five steps by construction.
        (0..=8).map(|index| (first + f64::from(index)) * self.step).take_while(|tick| *tick <= self.high).collect()
    }

    /// A tick as text, in a unit that suits the step.
    pub(super) fn label(&self, tick: f64) -> String {
        let (unit, name) = match self.step {
            step if step >= 1e8 => (1e9, "GB"),
            step if step >= 1e5 => (1e6, "MB"),
            _ => (1e3, "kB"),
        };
        let decimals = if self.step / unit >= 1.0 { 0 } else { 1 };
        format!("{:.decimals$} {name}", tick / unit)
    }
}

/// A logarithmic axis.
pub(super) struct Logarithmic {
    low: f64,
    high: f64,
}

impl Logarithmic {
    /// An axis that contains `smallest..=largest` with a margin at both ends; both must be above 0.
    pub(super) fn over(smallest: f64, largest: f64) -> Self {
        let (low, high) = (smallest.max(1.0).log10() - 0.05, largest.max(1.0).log10() + 0.05);
        // At least half a decade, because a single value would give an axis of length 0.
        let missing = (0.5 - (high - low)).max(0.0) / 2.0;
        Self { low: low - missing, high: high + missing }
    }

    /// Position of a value between 0 and 1.
    pub(super) fn part(&self, value: f64) -> f64 {
        (value.max(1.0).log10() - self.low) / (self.high - self.low)
    }

    /// 1, 2 and 5 of each decade, or fewer on a long axis.
    pub(super) fn ticks(&self) -> Vec<f64> {
        let factors: &[f64] = match self.high - self.low {
            length if length < 2.2 => &[1.0, 2.0, 5.0],
            length if length < 4.2 => &[1.0, 3.0],
            _ => &[1.0],
        };
        let decades = (-1..=12).map(|power| 10_f64.powi(power));
        let all = decades.flat_map(|decade| factors.iter().map(move |factor| factor * decade));
        all.filter(|tick| (self.low..=self.high).contains(&tick.log10())).collect()
    }
}

/// Position of a percentile on an axis on which each further nine takes the same space: 0 -> 0, 90
/// -> 1, 99 -> 2.
pub(super) fn nines(percent: f64) -> f64 {
    -(1.0 - percent / 100.0).max(1e-9).log10()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn linear_axes_end_at_round_numbers() {
        assert_eq!((Linear::up_to(3.41).end, Linear::up_to(98.0).end, Linear::up_to(0.0).end), (4.0, 100.0, 1.0));
        assert_eq!(Linear::up_to(412.0).ticks(), [0.0, 100.0, 200.0, 300.0, 400.0, 500.0]);
    }

    #[test]
    fn a_stretch_of_a_device_has_round_positions() {
        let far = Stretch::over(120e9, 121e9);
        assert_eq!(far.ticks().iter().map(|tick| far.label(*tick)).collect::<Vec<_>>()[..2], ["120.0 GB", "120.2 GB"]);
        assert!(far.part(120e9) > 0.0 && far.part(121e9) < 1.0);
        let near = Stretch::over(1e6, 3e6);
        assert_eq!(near.label(near.ticks()[0]), "1.0 MB");
        assert_eq!(Stretch::over(0.1e6, 3e6).ticks()[0], 0.0);
    }

    #[test]
    fn logarithmic_ticks_lie_on_the_axis() {
        let axis = Logarithmic::over(90_000.0, 5_000_000.0);
        assert_eq!(axis.ticks(), [1e5, 2e5, 5e5, 1e6, 2e6, 5e6]);
        assert!(axis.part(90_000.0) > 0.0 && axis.part(5e6) < 1.0);
    }

    #[test]
    fn each_nine_takes_the_same_room() {
        assert!((nines(99.9) - 3.0).abs() < 1e-9 && (nines(90.0) - 1.0).abs() < 1e-9 && nines(0.0).abs() < 1e-9);
    }
}
