//! How long no tenant is held, once it is found that holding does not help.

/// Once no tenant is held, holding is tried again after this many epochs, and after twice as many
/// each time that this finds the same.
const FREE_EPOCHS: u32 = 512;
const MOST_FREE_EPOCHS: u32 = 4096;

#[derive(Clone, Debug)]
pub struct Retry {
    past_epochs: u32,
    after_epochs: u32,
}

impl Retry {
    pub const fn new() -> Self {
        Self { past_epochs: 0, after_epochs: FREE_EPOCHS }
    }

    /// Whether holding was tried again.
    pub const fn was_tried(&self) -> bool {
        self.after_epochs > FREE_EPOCHS
    }

    /// An epoch in which no tenant was held is over. Whether holding is tried again now.
    pub fn is_due(&mut self) -> bool {
        self.past_epochs = self.past_epochs.wrapping_add(1);
        let is_due = self.past_epochs >= self.after_epochs;
        if is_due {
            *self = Self { past_epochs: 0, after_epochs: self.after_epochs.saturating_mul(2).min(MOST_FREE_EPOCHS) };
        }
        is_due
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn periods_double_up_to_a_bound() {
        let mut retry = Retry::new();
        for expected in [512, 1024, 2048, 4096, 4096] {
            let mut epochs = 1;
            while !retry.is_due() {
                epochs += 1;
            }
            assert_eq!(epochs, expected);
        }
    }
}
