//! The blocks of a verifying thread while they are in flight, for hosts that have data.

use super::{DAMAGED_ERRNO, Damage, Verify};
use crate::issuer::{Check, Io};
use crate::job::{Engine, Job};

/// A buffer per I/O in flight: what is written, or what was read. Buffers grow when they are first used.
#[derive(Debug)]
pub struct Blocks {
    verify: Verify,
    seed: u64,
    /// First byte of the thread's area on the file or device: headers carry places on it.
    first_byte: u64,
    /// By token.
    flying: Vec<Option<Flying>>,
    buffers: Vec<Vec<u8>>,
}

#[derive(Copy, Clone, Debug)]
struct Flying {
    position: u64,
    check: Check,
}

impl Blocks {
    /// Of a job that verifies, unless it does no I/O: then there is nothing to check.
    pub fn of(job: &Job, depth: u32, first_byte: u64, seed: u64) -> Option<Self> {
        if job.engine == Engine::Null {
            return None;
        }
        let verify = (**job.verify.as_ref()?).clone();
        let depth = depth as usize + 1;
        Some(Self { verify, seed, first_byte, flying: vec![None; depth], buffers: vec![Vec::new(); depth] })
    }

    /// An I/O goes out; `check` is what its issuer says of it. A write's block is filled.
    pub fn begin(&mut self, io: &Io, check: Option<Check>) {
        let token = io.token as usize;
        let position = self.first_byte + io.offset_bytes;
        self.flying[token] = check.map(|check| Flying { position, check });
        let Some(check) = check else { return };
        let buffer = &mut self.buffers[token];
        buffer.clear();
        buffer.resize(io.length_bytes as usize, 0);
        if let Check::Fill { number } = check {
            self.verify.fill(buffer, position, number, self.seed);
        }
    }

    /// What a write writes, from `offset_bytes` of it on; none if any data will do.
    pub fn written(&self, token: u32, offset_bytes: u64) -> Option<&[u8]> {
        let flying = self.flying.get(token as usize).copied().flatten()?;
        let is_write = matches!(flying.check, Check::Fill { .. });
        let offset = usize::try_from(offset_bytes).ok()?;
        if is_write { self.buffers[token as usize].get(offset..) } else { None }
    }

    /// Room for what a read has read, from `offset_bytes` of it on; none if nobody looks at it.
    pub fn room(&mut self, token: u32, offset_bytes: u64) -> Option<&mut [u8]> {
        let flying = self.flying.get(token as usize).copied().flatten()?;
        let is_read = matches!(flying.check, Check::Read { .. });
        let offset = usize::try_from(offset_bytes).ok()?;
        if is_read { self.buffers[token as usize].get_mut(offset..) } else { None }
    }

    /// An I/O has ended. A read that went well is checked.
    ///
    /// # Errors
    /// What is damaged; the I/O counts as failed with [`DAMAGED_ERRNO`].
    pub fn ended(&mut self, token: u32, is_well: bool) -> Result<(), (u16, Damage)> {
        let Some(flying) = self.flying.get_mut(token as usize).and_then(Option::take) else { return Ok(()) };
        match flying.check {
            Check::Read { number } if is_well => {
                let block = &mut self.buffers[token as usize];
                self.verify.check(block, flying.position, number).map_err(|damage| (DAMAGED_ERRNO, damage))
            }
            _ => Ok(()),
        }
    }
}
