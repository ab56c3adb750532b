//! The invariants of kyber's lists and tokens.

use super::domain::Domain;
use super::{FLUSHED, Kyber};
use crate::interface::Violation;
use crate::request::Requests;

impl Kyber {
    /// Checks every invariant.
    pub(super) fn check_everything(&self, requests: &Requests) -> Result<(), Violation> {
        let staged = self.check_staged(requests)?;
        let mut flushed = 0u32;
        let mut held = 0u32;
        for outlet in self.outlets.iter() {
            held = held.wrapping_add(outlet.held);
            for domain in Domain::ALL {
                let list = outlet.flushed.of(domain);
                flushed = flushed.wrapping_add(list.len());
                for slot in list.iter(&self.links).take(self.list_of.len() as usize) {
                    if *self.list_of.at(slot) != FLUSHED {
                        return Err(Violation { what: "a flushed request is marked as flushed", at: slot });
                    }
                }
            }
        }
        if held != staged.wrapping_add(flushed) {
            return Err(Violation { what: "the lists hold as many requests as are counted", at: held });
        }
        for domain in Domain::ALL {
            let holders = self.token_of.iter().filter(|token| **token == Some(domain)).count();
            if u32::try_from(holders) != Ok(self.tokens.of(domain).in_use) {
                return Err(Violation { what: "each token in use has a holder", at: domain.index() });
            }
        }
        Ok(())
    }

    fn check_staged(&self, requests: &Requests) -> Result<u32, Violation> {
        let mut staged = 0u32;
        for (index, list) in (0..).zip(self.staged.iter()) {
            staged = staged.wrapping_add(list.len());
            if self.occupied.test(index) == list.is_empty() {
                return Err(Violation { what: "a staged list is marked while something is on it", at: index });
            }
            for slot in list.iter(&self.links).take(self.list_of.len() as usize) {
                let attributes = requests.id_of(slot).map(|id| requests.attributes(id));
                let own = attributes.map(|attributes| {
                    let domain = Domain::of(attributes.operation);
                    self.list(attributes.software_queue, attributes.hardware_queue, domain)
                });
                if own != Some(index) || *self.list_of.at(slot) != index {
                    return Err(Violation {
                        what: "a request is staged on the list of its queue and domain",
                        at: slot,
                    });
                }
                if self.token_of.at(slot).is_some() {
                    return Err(Violation { what: "a staged request holds no token", at: slot });
                }
            }
        }
        Ok(staged)
    }
}
