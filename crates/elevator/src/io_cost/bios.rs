//! The bios that the limiter knows: waiting in their groups, released, and charged.

use super::group::{BioState, Stage};
use crate::structures::{Array, Links, List, NoMemory};

/// The state of every bio.
///
/// Invariants: a bio is on the list of its group exactly while its stage is [`Stage::Waiting`], and on `released` exactly
/// while it is [`Stage::Released`]; `held` is the number of both.
#[derive(Debug)]
pub struct Bios {
    states: Array<BioState>,
    /// Links of the groups' lists and of `released`.
    links: Links,
    released: List,
    held: u32,
}

impl Bios {
    pub fn try_new(bios: u32) -> Result<Self, NoMemory> {
        let (states, links) = (Array::try_new(bios, BioState::NONE)?, Links::try_new(bios)?);
        Ok(Self { states, links, released: List::EMPTY, held: 0 })
    }

    #[inline]
    pub fn get_mut(&mut self, bio: u32) -> Option<&mut BioState> {
        self.states.get_mut(bio)
    }

    #[inline]
    pub fn at(&self, bio: u32) -> &BioState {
        self.states.at(bio)
    }

    /// Whether the bio exists and is not known yet.
    #[inline]
    pub fn is_free(&self, bio: u32) -> bool {
        self.states.get(bio).is_some_and(|state| state.stage == Stage::Free)
    }

    /// Waiting and released bios.
    #[inline]
    pub const fn held(&self) -> u32 {
        self.held
    }

    /// Bios in a stage; for checks.
    pub fn count(&self, stage: Stage) -> u32 {
        u32::try_from(self.states.iter().filter(|state| state.stage == stage).count()).unwrap_or(u32::MAX)
    }

    /// Whether the list and the count of held bios match the stages of `waiting` bios in groups; for checks.
    pub fn adds_up(&self, waiting: u32) -> bool {
        let released = self.released.len();
        self.count(Stage::Waiting) == waiting
            && self.count(Stage::Released) == released
            && self.held == waiting.wrapping_add(released)
    }

    /// The bio waits, as the last one of its group's list.
    pub fn wait(&mut self, waiting: &mut List, bio: u32) {
        self.set_stage(bio, Stage::Waiting);
        self.held = self.held.wrapping_add(1);
        waiting.push_back(&mut self.links, bio);
    }

    /// A waiting bio is taken back. False, without effect, if it does not wait in this list.
    pub fn withdraw(&mut self, waiting: &mut List, bio: u32) -> bool {
        let is_out = self.at(bio).stage == Stage::Waiting && waiting.remove(&mut self.links, bio);
        if is_out {
            *self.states.at_mut(bio) = BioState::NONE;
            self.held = self.held.wrapping_sub(1);
        }
        is_out
    }

    /// A waiting bio is released.
    #[inline]
    pub fn release(&mut self, waiting: &mut List, bio: u32) {
        waiting.remove(&mut self.links, bio);
        self.set_stage(bio, Stage::Released);
        self.released.push_back(&mut self.links, bio);
    }

    /// Takes the bio that was released first.
    #[inline]
    pub fn take_released(&mut self) -> Option<u32> {
        let bio = self.released.pop_front(&mut self.links)?;
        self.set_stage(bio, Stage::Charged);
        self.held = self.held.wrapping_sub(1);
        Some(bio)
    }

    #[inline]
    fn set_stage(&mut self, bio: u32, stage: Stage) {
        if let Some(state) = self.states.get_mut(bio) {
            state.stage = stage;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn held_bios_wait_or_are_released() {
        let (mut bios, mut waiting) = (Bios::try_new(3).unwrap(), List::EMPTY);
        assert!(bios.is_free(2) && !bios.is_free(3));
        (0..3).for_each(|bio| bios.wait(&mut waiting, bio));
        assert!(bios.adds_up(3) && bios.held() == 3 && !bios.adds_up(2));
        bios.release(&mut waiting, 0);
        assert!(bios.withdraw(&mut waiting, 1) && !bios.withdraw(&mut waiting, 0) && bios.is_free(1));
        assert!(bios.adds_up(1) && waiting.first() == Some(2));
        assert_eq!((bios.take_released(), bios.take_released(), bios.held()), (Some(0), None, 1));
        assert_eq!(bios.at(0).stage, Stage::Charged);
    }
}
