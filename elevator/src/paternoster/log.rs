//! Trace messages.

use super::Paternoster;
use block::GroupId;

impl Paternoster {
    /// About the whole device.
    pub(super) fn tell<const N: usize>(&mut self, text: &'static str, numbers: [u64; N]) {
        if let Some(message) = self.messages.begin(self.now, text) {
            for (place, number) in message.numbers.iter_mut().zip(numbers) {
                *place = number;
            }
        }
    }

    /// About a member: the group it is, or the group it is in.
    #[inline]
    pub(super) fn tell_of<const N: usize>(&mut self, member: u32, text: &'static str, numbers: [u64; N]) {
        if self.messages.is_on() {
            self.tell_of_group(member, text, numbers);
        }
    }

    #[inline(never)]
    fn tell_of_group<const N: usize>(&mut self, member: u32, text: &'static str, numbers: [u64; N]) {
        let group =
            if self.is_leaf(member) { self.members.at(member).parent } else { member.wrapping_sub(self.first_group) };
        if let Some(message) = self.messages.begin(self.now, text) {
            message.group = Some(GroupId(group));
            for (place, number) in message.numbers.iter_mut().zip(numbers) {
                *place = number;
            }
        }
    }
}
