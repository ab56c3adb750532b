//! "Did you mean": the nearest of the permitted names, if it is near enough to be a typing error.

/// The candidate nearest to `given`, if it differs by at most 2 edits or a third of its length and
/// has something in common with it; case-insensitive.
pub fn nearest<'a>(given: &str, candidates: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    // A longer name is no typing error of any keyword, and the table below is quadratic.
    if given.len() > 64 {
        return None;
    }
    let given = given.to_lowercase();
    let allowed = (given.chars().count() / 3).max(2);
    let distances = candidates.into_iter().map(|name| (distance(&given, &name.to_lowercase()), name));
    let near = distances.filter(|(edits, name)| *edits <= allowed && *edits < name.chars().count());
    near.min_by_key(|(edits, _)| *edits).map(|(_, name)| name)
}

/// Number of edits (insert, delete, replace) that turn one text into the other (Levenshtein
/// distance).
fn distance(a: &str, b: &str) -> usize {
    let b: Vec<char> = b.chars().collect();
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, from) in a.chars().enumerate() {
        let mut diagonal = row[0];
        row[0] = i + 1;
        for (j, to) in b.iter().enumerate() {
            let replaced = diagonal + usize::from(from != *to);
            diagonal = row[j + 1];
            row[j + 1] = replaced.min(diagonal + 1).min(row[j] + 1);
        }
    }
    row[b.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_slip_finds_its_name_and_a_stranger_finds_none() {
        assert_eq!(nearest("iodpeth", ["size", "iodepth"]), Some("iodepth"));
        assert_eq!(nearest("IOENGINE", ["ioengine"]), Some("ioengine"));
        assert_eq!(nearest("zzzzzz", ["size", "iodepth"]), None);
    }

    #[test]
    fn a_third_of_a_long_name_may_be_wrong() {
        assert_eq!(nearest("schedular", ["weight", "scheduler", "memory"]), Some("scheduler"));
        assert_eq!(nearest("slice_idel", ["quantum", "slice_idle", "group_idle"]), Some("slice_idle"));
        assert_eq!(nearest("grp_isolatn", ["quantum", "group_isolation"]), None);
        assert_eq!(nearest("grup_isolatin", ["quantum", "group_isolation"]), Some("group_isolation"));
    }

    #[test]
    fn a_short_name_is_not_suggested_for_another_without_a_common_letter() {
        assert_eq!(nearest("zz", ["bfq", "cfq", "no"]), None);
    }
}
