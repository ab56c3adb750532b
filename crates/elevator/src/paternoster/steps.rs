//! Steps of a tracked window. Errors that change sign are noise, so each change shortens the steps
//! (Kesten 1958, Accelerated Stochastic Approximation).

/// Steps of a tracked window are divided by at most this plus one, so that a drift can be followed; a smaller divisor lets
/// the window swing by more than 0.6 % of the throughput (`the_floor_does_not_swing`).
const MOST_TURNS: i32 = 63;

#[derive(Clone, Debug)]
pub struct Steps {
    was_below: bool,
    /// How often the sign changed recently.
    turns: i32,
}

impl Steps {
    pub const FIRST: Steps = Steps { was_below: false, turns: 0 };

    /// The step of a value by an error.
    pub fn next(&mut self, value: i64, error: i64, one: i64) -> i64 {
        let has_turned = (error < 0) != core::mem::replace(&mut self.was_below, error < 0);
        self.turns =
            if has_turned { self.turns.saturating_add(2).min(MOST_TURNS) } else { self.turns.saturating_sub(1).max(0) };
        let divisor = one.saturating_mul(i64::from(self.turns.saturating_add(1)));
        value.saturating_mul(error).checked_div(divisor).unwrap_or(0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn turns_shorten_steps_and_one_direction_lengthens_them() {
        let mut steps = Steps::FIRST;
        assert_eq!(steps.next(100, 1, 2), 50);
        assert_eq!(steps.next(100, -1, 2), -16, "a third");
        assert_eq!(steps.next(100, 1, 2), 10, "a fifth");
        assert_eq!([(); 4].map(|()| steps.next(100, 1, 2)), [12, 16, 25, 50]);
    }
}
