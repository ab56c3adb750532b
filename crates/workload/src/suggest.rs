//! "Did you mean": the nearest of the permitted names, if it is near enough to be a typing error.

use hoistway_block::names::edits;

/// The candidate nearest to `given`, if it differs by at most 2 edits or a third of its length and
/// has something in common with it; case-insensitive.
pub fn nearest<'a>(given: &str, candidates: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    // A longer name is no typing error of any keyword, and the work is quadratic.
    if given.len() > 64 {
        return None;
    }
    let given = given.to_lowercase();
    let allowed = (given.chars().count() / 3).max(2);
    let distance = |name: &str| edits(given.chars(), name.to_lowercase().chars());
    let distances = candidates.into_iter().map(|name| (distance(name), name));
    let near = distances.filter(|(edits, name)| *edits <= allowed && *edits < name.chars().count());
    near.min_by_key(|(edits, _)| *edits).map(|(_, name)| name)
}

/// `did you mean 'x'? `, with a blank behind it, for the beginning of a remedy; empty if no candidate is near.
pub fn did_you_mean<'a>(given: &str, candidates: impl IntoIterator<Item = &'a str>) -> String {
    nearest(given, candidates).map_or_else(String::new, |meant| format!("did you mean '{meant}'? "))
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
