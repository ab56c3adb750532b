//! Fuzzes `--weights 100,800` and `100..800`, for any number of groups.

use crate::target::{Seen, Target};
use hoistway_experiment::group::parse_weights;

pub const TARGET: Target = Target {
    name: "weights",
    promise: "no panic; as many weights as groups, each within the range",
    run,
    corpus: || {
        ["\x00100,800", "\x04100..800", "\x02100,200", "\x09800..1", "\x00", "\x01 7 .. 9 ", "\x00 1 , 2 "]
            .map(|text| text.as_bytes().to_vec())
            .into()
    },
    tokens: &[b",", b"..", b"10000", b"10001", b"0", b"-1", b"+1", b" ", b"1e3", b"99999999999999999999"],
    longest_bytes: 512,
};

/// The first byte is the number of groups; 0 means that none was given.
fn run(bytes: &[u8]) -> Seen {
    let Some((count, rest)) = bytes.split_first() else { return Seen::NOTHING };
    let Ok(text) = std::str::from_utf8(rest) else { return Seen::NOTHING.and(b"no text") };
    let groups = (*count > 0).then_some(usize::from(*count));
    match parse_weights(text, groups) {
        Ok(weights) => {
            assert!(groups.is_none_or(|groups| weights.len() == groups), "{} weights for {groups:?}", weights.len());
            assert!(!weights.is_empty(), "no weight at all");
            assert!(weights.iter().all(|weight| (1..=10_000).contains(&weight.get())), "{weights:?}");
            if text.contains("..") {
                let is_even = weights.is_sorted() || weights.is_sorted_by(|a, b| a >= b);
                assert!(is_even, "a range goes one way: {weights:?}");
            }
            Seen::NOTHING.and_count(weights.len()).and(&[u8::from(text.contains(".."))])
        }
        Err(diagnostic) => {
            assert!(!diagnostic.message.is_empty() && !diagnostic.help.is_empty(), "what is wrong, and what to do");
            Seen::NOTHING.and_message(&diagnostic.message, text)
        }
    }
}
