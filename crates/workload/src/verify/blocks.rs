//! The blocks of a verifying thread while they are in flight, for hosts that transfer data.

use super::{DAMAGED_ERRNO, Damage, Verify};
use crate::issuer::{Check, Io};
use crate::job::{Engine, Job};

/// A buffer per I/O in flight, for data to write or data that was read. Buffers grow on first use.
#[derive(Debug)]
pub struct Blocks {
    verify: Verify,
    seed: u64,
    /// First byte of the thread's area on the file or device; headers contain absolute positions.
    first_byte: u64,
    /// Indexed by token.
    in_flight: Vec<Option<InFlight>>,
    buffers: Vec<Vec<u8>>,
}

#[derive(Copy, Clone, Debug)]
struct InFlight {
    position: u64,
    check: Check,
}

impl Blocks {
    /// The blocks of a job; `None` if it does not verify, or if its engine is null: then there is
    /// nothing to check.
    pub fn of(job: &Job, depth: u32, first_byte: u64, seed: u64) -> Option<Self> {
        if job.submission.engine == Engine::Null {
            return None;
        }
        let verify = (**job.checks.verify.as_ref()?).clone();
        let depth = depth as usize + 1;
        Some(Self { verify, seed, first_byte, in_flight: vec![None; depth], buffers: vec![Vec::new(); depth] })
    }

    /// Prepares an I/O that is issued; `check` comes from its issuer. The block of a write is
    /// filled.
    pub fn begin(&mut self, io: &Io, check: Option<Check>) {
        let token = io.token as usize;
        let position = self.first_byte + io.offset_bytes;
        self.in_flight[token] = check.map(|check| InFlight { position, check });
        let Some(check) = check else { return };
        let buffer = &mut self.buffers[token];
        buffer.clear();
        buffer.resize(io.length_bytes as usize, 0);
        if let Check::Fill { number } = check {
            self.verify.fill(buffer, position, number, self.seed);
        }
    }

    /// The data of a write from `offset_bytes` on; `None` if any data will do.
    pub fn written(&self, token: u32, offset_bytes: u64) -> Option<&[u8]> {
        let in_flight = self.in_flight.get(token as usize).copied().flatten()?;
        let is_write = matches!(in_flight.check, Check::Fill { .. });
        let offset = usize::try_from(offset_bytes).ok()?;
        if is_write { self.buffers[token as usize].get(offset..) } else { None }
    }

    /// Buffer for the data of a read from `offset_bytes` on; `None` if it is not checked.
    pub fn room(&mut self, token: u32, offset_bytes: u64) -> Option<&mut [u8]> {
        let in_flight = self.in_flight.get(token as usize).copied().flatten()?;
        let is_read = matches!(in_flight.check, Check::Read { .. });
        let offset = usize::try_from(offset_bytes).ok()?;
        if is_read { self.buffers[token as usize].get_mut(offset..) } else { None }
    }

    /// Ends an I/O. A successful read is checked.
    ///
    /// # Errors
    /// The damage; the I/O counts as failed with [`DAMAGED_ERRNO`].
    pub fn ended(&mut self, token: u32, is_success: bool) -> Result<(), (u16, Damage)> {
        let Some(in_flight) = self.in_flight.get_mut(token as usize).and_then(Option::take) else { return Ok(()) };
        match in_flight.check {
            Check::Read { number } if is_success => {
                let block = &mut self.buffers[token as usize];
                self.verify.check(block, in_flight.position, number).map_err(|damage| (DAMAGED_ERRNO, damage))
            }
            _ => Ok(()),
        }
    }
}
