//! Shortens a failing input to the smallest that still fails and that a bounded number of attempts
//! finds.

/// Removes smaller and smaller pieces, then simplifies the remaining bytes, as long as `fails`
/// stays true. `fails` is called at most `tries` times.
pub fn shorten(input: &[u8], mut tries: usize, mut fails: impl FnMut(&[u8]) -> bool) -> Vec<u8> {
    let mut shortest = input.to_vec();
    let mut piece = shortest.len().div_ceil(2);
    while piece > 0 && tries > 0 {
        let before = shortest.len();
        let mut from = 0;
        while from < shortest.len() && tries > 0 {
            let to = shortest.len().min(from + piece);
            let without = [&shortest[..from], &shortest[to..]].concat();
            tries -= 1;
            if fails(&without) {
                shortest = without;
            } else {
                from = to;
            }
        }
        // The last size is tried again until it removes nothing more.
        if piece > 1 || shortest.len() == before {
            piece /= 2;
        }
    }
    for at in 0..shortest.len() {
        for plain in [0, b' ', b'0', b'a'] {
            if tries == 0 || shortest[at] == plain {
                break;
            }
            tries -= 1;
            let mut simpler = shortest.clone();
            simpler[at] = plain;
            if fails(&simpler) {
                shortest = simpler;
                break;
            }
        }
    }
    shortest
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_matters_is_left() {
        let fails = |bytes: &[u8]| bytes.contains(&b'x') && bytes.contains(&b'y');
        let input: Vec<u8> = (0..=255).chain(0..=255).collect();
        assert_eq!(shorten(&input, 10_000, fails), b"xy");
    }

    #[test]
    fn bytes_that_may_be_anything_become_plain() {
        assert_eq!(shorten(b"\x91\x92\x93", 1_000, |bytes| bytes.len() == 3), [0, 0, 0]);
    }

    #[test]
    fn the_number_of_tries_is_kept() {
        let mut calls = 0;
        shorten(&[7; 1_000], 50, |_| {
            calls += 1;
            false
        });
        assert_eq!(calls, 50);
    }
}
