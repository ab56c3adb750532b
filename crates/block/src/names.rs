//! How far a name is from another: for messages that suggest the name that was meant.

/// Longest known name, in characters. The names of parameters, tunables and formats are shorter.
const LONGEST_CHARS: usize = 64;

/// Number of edits (insert, delete, replace) that turn `given` into `known` (Levenshtein distance);
/// `usize::MAX` if `known` is longer than 64 characters.
///
/// ```
/// assert_eq!(hoistway_block::names::edits("iodpeth".chars(), "iodepth".chars()), 2);
/// ```
pub fn edits(given: impl Iterator<Item = char>, known: impl Iterator<Item = char> + Clone) -> usize {
    let length = known.clone().count();
    let mut cells = [0; LONGEST_CHARS + 1];
    let Some(row) = cells.get_mut(..=length) else { return usize::MAX };
    row.iter_mut().enumerate().for_each(|(at, cell)| *cell = at);
    for (line, from) in given.enumerate() {
        let mut diagonal = row[0];
        row[0] = line + 1;
        for (column, to) in known.clone().enumerate() {
            let replaced = diagonal + usize::from(from != to);
            diagonal = row[column + 1];
            row[column + 1] = replaced.min(diagonal + 1).min(row[column] + 1);
        }
    }
    row[length]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn edits_are_counted() {
        let count = |given: &str, known: &str| edits(given.chars(), known.chars());
        assert_eq!(count("", ""), 0);
        assert_eq!(count("", "abc"), 3);
        assert_eq!(count("abc", ""), 3);
        assert_eq!(count("kitten", "sitting"), 3);
        assert_eq!(count("kitten", "kitten"), 0);
        assert_eq!(count(&"a".repeat(100), "a"), 99);
        assert_eq!(count("a", &"a".repeat(64)), 63);
        assert_eq!(count("a", &"a".repeat(65)), usize::MAX);
    }
}
