//! A fuzz target: a function of bytes that panics when a property is violated.

use hoistway_block::random::{fnv1a64, fnv1a64_continued};

/// A fuzz target: one of [`targets`](crate::targets::targets).
#[derive(Copy, Clone)]
pub struct Target {
    /// Name on the command line and in replay commands.
    pub name: &'static str,
    /// One line for `list`: the property that is checked.
    pub promise: &'static str,
    /// Runs the target on the bytes, panics if the property is violated, and returns a digest of
    /// what happened.
    pub run: fn(&[u8]) -> Seen,
    /// Initial inputs; better ones let mutations get deeper.
    pub corpus: fn() -> Vec<Vec<u8>>,
    /// Byte strings that are significant to the target, for mutations to insert.
    pub tokens: &'static [&'static [u8]],
    /// Longer inputs are not tried.
    pub longest_bytes: usize,
}

/// A digest of a target's behaviour. An input with a new digest is kept and mutated further: a
/// cheap substitute for coverage that needs no instrumented build.
#[derive(Copy, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub struct Seen(u64);

impl Seen {
    /// The digest before anything happened.
    pub const NOTHING: Seen = Seen(fnv1a64(b""));

    /// Adds an event to the digest; the order matters.
    #[must_use]
    pub fn and(self, what: &[u8]) -> Seen {
        Seen(fnv1a64_continued(fnv1a64_continued(self.0, what), &[0xff]))
    }

    /// Adds a message to the digest, without its numbers and without words of the input, which
    /// would make each input look new.
    #[must_use]
    pub fn and_message(self, message: &str, input: &str) -> Seen {
        let words = message.split(|c: char| !c.is_ascii_alphabetic());
        words
            .filter(|word| !word.is_empty() && !input.contains(word))
            .fold(self, |seen, word| seen.and(word.as_bytes()))
    }

    /// Adds how often something happened, as its power of two.
    #[must_use]
    pub fn and_count(self, count: usize) -> Seen {
        self.and(&[u8::try_from(usize::BITS - count.leading_zeros()).unwrap_or(u8::MAX)])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_that_differ_in_input_only_count_once() {
        let digest = |message: &str, input: &str| Seen::NOTHING.and_message(message, input);
        assert_eq!(digest("3:7: key 'abc' is unknown", "abc=1"), digest("12:1: key 'x' is unknown", "x = 2"));
        assert_ne!(digest("key 'abc' is unknown", "abc"), digest("key 'abc' is given twice", "abc"));
    }

    #[test]
    fn order_and_division_matter() {
        let (a, b) = (b"a".as_slice(), b"b".as_slice());
        assert_ne!(Seen::NOTHING.and(a).and(b), Seen::NOTHING.and(b).and(a));
        assert_ne!(Seen::NOTHING.and(b"ab"), Seen::NOTHING.and(a).and(b));
    }
}
