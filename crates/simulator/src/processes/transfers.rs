//! Bios of pages in flight, and who waits for them.

/// The form in which pages are submitted.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub(super) struct PageIoShape {
    pub submitter: PageSubmitter,
    /// Longest bio.
    pub most_pages: u64,
    /// Bios end at multiples of this; 1 = anywhere.
    pub folio_pages: u64,
}

/// The submitter of pages.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub(super) enum PageSubmitter {
    /// A reader, which waits for pages, not for bios.
    Reader,
    /// The flusher.
    Flusher,
    /// A call that writes pages itself; the value is its I/O.
    Call(u32),
    /// The journal's thread.
    Journal,
}

/// Pages of a file that one bio reads or writes.
#[derive(Copy, Clone, Debug)]
pub(super) struct Transfer {
    pub file: u32,
    pub first_page: u64,
    pub end_page: u64,
    pub submitter: PageSubmitter,
}

/// All transfers in flight; slots are reused.
#[derive(Debug, Default)]
pub(super) struct Transfers {
    slots: Vec<Transfer>,
    free: Vec<u32>,
}

impl Transfers {
    /// Begins a transfer; returns its slot, which is free otherwise.
    pub(super) fn begin(&mut self, transfer: Transfer) -> u32 {
        match self.free.pop() {
            Some(slot) => {
                self.slots[slot as usize] = transfer;
                slot
            }
            None => {
                self.slots.push(transfer);
                super::number(self.slots.len() - 1)
            }
        }
    }

    /// The submitter of a transfer in flight.
    pub(super) fn submitter(&self, slot: u32) -> PageSubmitter {
        self.slots[slot as usize].submitter
    }

    /// Ends a transfer; its slot is free again.
    pub(super) fn end(&mut self, slot: u32) -> Transfer {
        self.free.push(slot);
        self.slots[slot as usize]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_slot_is_used_again_when_its_transfer_has_ended() {
        let transfer = |file| Transfer { file, first_page: 0, end_page: 1, submitter: PageSubmitter::Call(file) };
        let mut transfers = Transfers::default();
        assert_eq!((transfers.begin(transfer(1)), transfers.begin(transfer(2))), (0, 1));
        assert_eq!(transfers.submitter(1), PageSubmitter::Call(2));
        assert_eq!(transfers.end(0).file, 1);
        assert_eq!((transfers.begin(transfer(3)), transfers.submitter(0)), (0, PageSubmitter::Call(3)));
    }
}
