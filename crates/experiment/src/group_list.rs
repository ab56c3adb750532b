//! The groups of an experiment, shared by its copies.

use std::ops::{Deref, DerefMut};
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::Group;

/// Groups shared by plan, experiments and measurements. Copies share one list until one of them is
/// changed, so that 100,000 groups are in memory only once.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
#[serde(transparent)]
pub struct GroupList(Arc<Vec<Group>>);

impl Deref for GroupList {
    type Target = Vec<Group>;

    fn deref(&self) -> &Vec<Group> {
        &self.0
    }
}

impl DerefMut for GroupList {
    fn deref_mut(&mut self) -> &mut Vec<Group> {
        Arc::make_mut(&mut self.0)
    }
}

impl From<Vec<Group>> for GroupList {
    fn from(groups: Vec<Group>) -> Self {
        Self(Arc::new(groups))
    }
}

impl<const N: usize> From<[Group; N]> for GroupList {
    fn from(groups: [Group; N]) -> Self {
        Self::from(Vec::from(groups))
    }
}

impl FromIterator<Group> for GroupList {
    fn from_iter<I: IntoIterator<Item = Group>>(groups: I) -> Self {
        Self::from(groups.into_iter().collect::<Vec<_>>())
    }
}

impl<'a> IntoIterator for &'a GroupList {
    type Item = &'a Group;
    type IntoIter = std::slice::Iter<'a, Group>;

    fn into_iter(self) -> Self::IntoIter {
        self.0.iter()
    }
}

impl<'a> IntoIterator for &'a mut GroupList {
    type Item = &'a mut Group;
    type IntoIter = std::slice::IterMut<'a, Group>;

    fn into_iter(self) -> Self::IntoIter {
        self.iter_mut()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Weight;

    #[test]
    fn copies_are_one_list_until_one_is_changed() {
        let group = |path: &str| Group::new(path, Weight::DEFAULT, Vec::new());
        let list = GroupList::from(vec![group("a"), group("b")]);
        let mut copy = list.clone();
        assert!(std::ptr::eq(list.as_ptr(), copy.as_ptr()));
        copy[1].path = "c".to_owned();
        assert_eq!((list[1].path.as_str(), copy[1].path.as_str()), ("b", "c"));
        assert_eq!(serde_json::to_value(&copy).unwrap(), serde_json::to_value(&*copy).unwrap());
    }
}
