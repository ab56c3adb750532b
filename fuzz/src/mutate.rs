//! Makes new inputs from old ones: a few random edits, most of them small, some with the target's
//! own tokens.

use hoistway_block::random::Stream;

/// Numbers near which errors are likely.
const EDGES: [u64; 18] = [
    0,
    1,
    2,
    15,
    16,
    63,
    64,
    127,
    128,
    255,
    256,
    512,
    4_096,
    65_535,
    65_536,
    (1 << 31) - 1,
    (1 << 32) - 1,
    (1 << 63) - 1,
];

/// The sources of a mutation.
pub struct Material<'a> {
    /// Inputs for splicing; not empty.
    pub corpus: &'a [Vec<u8>],
    /// The target's own words.
    pub tokens: &'a [&'a [u8]],
    /// The result is truncated to this length.
    pub longest_bytes: usize,
}

/// An input of the corpus with 1 to 16 edits.
pub fn mutant(material: &Material<'_>, random: &mut Stream) -> Vec<u8> {
    let mut bytes = pick(material.corpus, random).cloned().unwrap_or_default();
    let edits = 1_u64 << random.below(5);
    for _ in 0..edits {
        edit(&mut bytes, material, random);
    }
    bytes.truncate(material.longest_bytes);
    bytes
}

fn edit(bytes: &mut Vec<u8>, material: &Material<'_>, random: &mut Stream) {
    match random.below(12) {
        0 => change(bytes, random, |byte, random| byte ^ (1 << random.below(8))),
        1 => change(bytes, random, |_, random| byte_of(random)),
        2 => change(bytes, random, |byte, random| byte.wrapping_add(byte_of(random) % 9).wrapping_sub(4)),
        3 => {
            let at = place(bytes, random);
            bytes.insert(at, byte_of(random));
        }
        4 => {
            let (from, to) = range(bytes, random);
            bytes.drain(from..to);
        }
        5 => {
            let (from, to) = range(bytes, random);
            let copy = bytes[from..to].to_vec();
            insert(bytes, &copy, random);
        }
        6 => {
            let (from, to) = range(bytes, random);
            bytes[from..to].reverse();
        }
        7 | 8 => {
            if let Some(token) = pick(material.tokens, random) {
                put(bytes, token, random);
            }
        }
        9 => {
            let number = edge(random).to_be_bytes();
            let width = 1_usize << random.below(4);
            put(bytes, &number[number.len() - width..], random);
        }
        10 => put(bytes, edge(random).to_string().as_bytes(), random),
        _ => splice(bytes, material, random),
    }
}

/// Joins the head of this input to the tail of another.
fn splice(bytes: &mut Vec<u8>, material: &Material<'_>, random: &mut Stream) {
    let Some(other) = pick(material.corpus, random) else { return };
    bytes.truncate(place(bytes, random));
    bytes.extend_from_slice(&other[place(other, random)..]);
}

/// A number at, or next to, an edge.
fn edge(random: &mut Stream) -> u64 {
    let edge = pick(&EDGES, random).copied().unwrap_or(0);
    edge.wrapping_add(random.below(3)).wrapping_sub(1)
}

/// Overwrites bytes of the input or inserts between them.
fn put(bytes: &mut Vec<u8>, what: &[u8], random: &mut Stream) {
    let at = place(bytes, random);
    if random.chance(1, 2) {
        let end = bytes.len().min(at + what.len());
        bytes.splice(at..end, what.iter().copied());
    } else {
        bytes.splice(at..at, what.iter().copied());
    }
}

fn insert(bytes: &mut Vec<u8>, what: &[u8], random: &mut Stream) {
    let at = place(bytes, random);
    bytes.splice(at..at, what.iter().copied());
}

fn change(bytes: &mut [u8], random: &mut Stream, with: impl Fn(u8, &mut Stream) -> u8) {
    let at = below(bytes.len(), random);
    if let Some(byte) = bytes.get_mut(at) {
        *byte = with(*byte, random);
    }
}

/// A range of the input, mostly short.
fn range(bytes: &[u8], random: &mut Stream) -> (usize, usize) {
    let from = place(bytes, random);
    let longest = 1_usize << random.below(10);
    (from, bytes.len().min(from + below(longest + 1, random)))
}

/// A position between two bytes, at the start or at the end.
fn place(bytes: &[u8], random: &mut Stream) -> usize {
    below(bytes.len() + 1, random)
}

fn byte_of(random: &mut Stream) -> u8 {
    random.next().to_le_bytes()[0]
}

fn pick<'a, T>(from: &'a [T], random: &mut Stream) -> Option<&'a T> {
    from.get(below(from.len(), random))
}

fn below(bound: usize, random: &mut Stream) -> usize {
    usize::try_from(random.below(bound as u64)).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mutants(seed: u64, count: usize) -> Vec<Vec<u8>> {
        let corpus = [b"weight = 100".to_vec(), Vec::new()];
        let material = Material { corpus: &corpus, tokens: &[b"export"], longest_bytes: 40 };
        let mut random = Stream::new(seed);
        (0..count).map(|_| mutant(&material, &mut random)).collect()
    }

    #[test]
    fn a_seed_gives_the_same_mutants_again() {
        assert_eq!(mutants(7, 200), mutants(7, 200));
        assert_ne!(mutants(7, 200), mutants(8, 200));
    }

    #[test]
    fn tokens_come_in_and_no_mutant_is_too_long() {
        let mutants = mutants(1, 2_000);
        assert!(mutants.iter().any(|bytes| bytes.windows(6).any(|window| window == b"export")));
        assert!(mutants.iter().all(|bytes| bytes.len() <= 40));
    }
}
