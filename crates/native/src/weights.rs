//! Scales the weights of experiments (1 to 10,000) into the range of a mechanism, keeping their
//! ratios. Source: docs/specifications/harness.md, section 3.3.

/// Ratios may change by this fraction without a warning.
const TOLERANCE: f64 = 0.02;

/// Weights in a mechanism's range.
#[derive(Clone, PartialEq, Debug)]
pub struct Scaled {
    /// The weights, in the order given.
    pub weights: Vec<u32>,
    /// The error of the worst ratio of two weights, as a fraction of it.
    pub worst_error: f64,
}

impl Scaled {
    /// Scales weights (1 or more) into 1 to `limit`: unchanged if they fit, else in proportion to
    /// the largest.
    pub fn into_range(weights: &[u32], limit: u32) -> Self {
        let largest = weights.iter().copied().max().unwrap_or(1).max(1);
        if largest <= limit {
            return Self { weights: weights.to_vec(), worst_error: 0.0 };
        }
        let scaled = |weight: u32| {
            let (product, largest) = (u64::from(weight) * u64::from(limit), u64::from(largest));
            u32::try_from((2 * product + largest) / (2 * largest)).unwrap_or(limit).max(1)
        };
        let new: Vec<u32> = weights.iter().copied().map(scaled).collect();
        // The error of a ratio is the quotient of the errors of its two weights.
        let factors = weights.iter().zip(&new).map(|(old, new)| f64::from(*new) / f64::from((*old).max(1)));
        let (low, high) = factors.fold((f64::MAX, 0.0_f64), |(low, high), factor| (low.min(factor), high.max(factor)));
        Self { weights: new, worst_error: high / low - 1.0 }
    }

    /// A warning for the user, if the ratios changed too much.
    pub fn warning(&self, asked: &[u32], limit: u32) -> Option<String> {
        let list = |weights: &[u32]| weights.iter().map(u32::to_string).collect::<Vec<_>>().join(":");
        (self.worst_error > TOLERANCE).then(|| {
            format!(
                "weights {} do not fit into 1 to {limit}: the kernel gets {}, ratios are off by up to {:.0} %",
                list(asked),
                list(&self.weights),
                self.worst_error * 100.0
            )
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn t49_weights_above_the_range_keep_their_ratios_or_give_a_warning() {
        let exact = Scaled::into_range(&[100, 5_000], 1_000);
        assert_eq!((exact.weights.as_slice(), exact.warning(&[100, 5_000], 1_000)), (&[20, 1_000][..], None));
        let rough = Scaled::into_range(&[1, 10_000], 1_000);
        assert_eq!(rough.weights, [1, 1_000]);
        let warning = rough.warning(&[1, 10_000], 1_000).unwrap();
        assert!(warning.contains("1:10000") && warning.contains("1:1000") && warning.contains("900 %"), "{warning}");
    }

    #[test]
    fn weights_inside_the_range_are_untouched() {
        let scaled = Scaled::into_range(&[1, 37, 1_000], 1_000);
        assert_eq!((scaled.weights.as_slice(), scaled.worst_error), (&[1, 37, 1_000][..], 0.0));
        assert_eq!(Scaled::into_range(&[3, 9_999], 1_000).weights, [1, 1_000], "never below 1");
        assert!(Scaled::into_range(&[], 1_000).weights.is_empty());
    }
}
