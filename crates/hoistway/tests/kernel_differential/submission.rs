//! One call of io_uring_enter per batch, from a chosen CPU.
#![allow(unsafe_code)]

use crate::chains::IO_MOST;
use hoistway_block::Operation;
use hoistway_elevator::Bio;
use io_uring::{IoUring, opcode, squeue, types};
use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;

/// Page-aligned memory for the I/Os, locked in RAM so that no submission sleeps because of a page
/// fault.
pub struct Buffers {
    bytes: Vec<u8>,
    first: usize,
}

const PAGE_BYTES: usize = 4096;
const BUFFER_BYTES: usize = IO_MOST as usize * 512;

impl Buffers {
    pub fn new(count: usize) -> Self {
        let bytes = vec![1; count * BUFFER_BYTES + PAGE_BYTES];
        let first = bytes.as_ptr().align_offset(PAGE_BYTES);
        // SAFETY: the range is one live allocation. If the kernel refuses, page faults may split
        // batches, which are then repeated.
        unsafe { libc::mlock(bytes.as_ptr().cast(), bytes.len()) };
        Self { bytes, first }
    }

    fn address(&mut self, index: usize, bytes: usize) -> *mut u8 {
        let from = self.first + index * BUFFER_BYTES;
        self.bytes[from..from + bytes].as_mut_ptr()
    }
}

/// A ring, and the CPUs its thread may submit from.
pub struct Submitter {
    ring: IoUring,
    /// The previous CPU set; restored at the end, since the thread may run another test.
    allowed: libc::cpu_set_t,
    cpus: Vec<usize>,
}

impl Submitter {
    pub fn new() -> Result<Self, String> {
        let entries = u32::try_from(crate::chains::BATCH_MOST).expect("small").next_power_of_two();
        let ring = IoUring::new(entries).map_err(|error| format!("no io_uring: {error}"))?;
        // SAFETY: cpu_set_t is a bit set for which all zeroes is valid.
        let mut allowed: libc::cpu_set_t = unsafe { std::mem::zeroed() };
        // SAFETY: the kernel writes at most the size of the live set.
        if unsafe { libc::sched_getaffinity(0, size_of::<libc::cpu_set_t>(), &raw mut allowed) } != 0 {
            return Err(format!("sched_getaffinity: {}", io::Error::last_os_error()));
        }
        let places = usize::try_from(libc::CPU_SETSIZE).expect("positive");
        // SAFETY: the index is below CPU_SETSIZE.
        let cpus = (0..places).filter(|cpu| unsafe { libc::CPU_ISSET(*cpu, &allowed) }).collect();
        Ok(Self { ring, allowed, cpus })
    }

    pub fn cpus(&self) -> u16 {
        u16::try_from(self.cpus.len()).expect("fewer than CPU_SETSIZE")
    }

    /// Keeps this thread on the CPU of the software queue that the batch is to enter.
    fn move_to(&self, software_queue: u16) {
        let cpu = self.cpus[usize::from(software_queue) % self.cpus.len()];
        // SAFETY: cpu_set_t is a bit set for which all zeroes is valid.
        let mut only: libc::cpu_set_t = unsafe { std::mem::zeroed() };
        // SAFETY: the index came from a set of this size.
        unsafe { libc::CPU_SET(cpu, &mut only) };
        // SAFETY: the kernel reads the live set of the size given.
        let moved = unsafe { libc::sched_setaffinity(0, size_of::<libc::cpu_set_t>(), &raw const only) };
        assert_eq!(moved, 0, "sched_setaffinity: {}", io::Error::last_os_error());
    }

    /// Submits the batch with one call and waits until all of it has completed.
    pub fn run(&mut self, file: &File, batch: &[Bio], buffers: &mut Buffers) {
        self.move_to(batch.first().map_or(0, |bio| bio.software_queue.0));
        for (index, bio) in (0..).zip(batch) {
            let entry = entry(file, bio, usize::try_from(index).expect("small"), buffers).user_data(index);
            // SAFETY: the buffers are disjoint parts of `buffers` and stay untouched until every
            // I/O has completed, below.
            unsafe { self.ring.submission().push(&entry) }.expect("room for a batch");
        }
        let submitted = loop {
            match self.ring.submit_and_wait(batch.len()) {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                result => break result.unwrap_or_else(|error| panic!("io_uring_enter: {error}")),
            }
        };
        let mut ended = 0;
        while ended < batch.len() {
            for completion in self.ring.completion() {
                let bio = batch[usize::try_from(completion.user_data()).expect("small")];
                let moved = if bio.operation == Operation::Discard { 0 } else { bio.extent.bytes() };
                assert_eq!(
                    i64::from(completion.result()),
                    i64::try_from(moved).expect("small"),
                    "an I/O failed: {bio:?}"
                );
                ended += 1;
            }
            if ended < batch.len() {
                let _ = self.ring.submit_and_wait(1);
            }
        }
        assert!(submitted == batch.len() || submitted == 0, "io_uring_enter took {submitted} of {}", batch.len());
    }
}

impl Drop for Submitter {
    fn drop(&mut self) {
        // SAFETY: the kernel reads the live set of the size given.
        unsafe { libc::sched_setaffinity(0, size_of::<libc::cpu_set_t>(), &raw const self.allowed) };
    }
}

fn entry(file: &File, bio: &Bio, index: usize, buffers: &mut Buffers) -> squeue::Entry {
    /// `_IO(0x12, 0)` of linux/blkdev.h: start in `addr`, bytes in `addr3`, nothing else set.
    const BLOCK_URING_CMD_DISCARD: u32 = 0x1200;
    let fd = types::Fd(file.as_raw_fd());
    let first_byte = bio.extent.first_sector * 512;
    let bytes = u32::try_from(bio.extent.bytes()).expect("small");
    let memory = buffers.address(index, usize::try_from(bytes).expect("small"));
    match bio.operation {
        Operation::Read => opcode::Read::new(fd, memory, bytes).offset(first_byte).ioprio(bio.priority.0).build(),
        Operation::Write => opcode::Write::new(fd, memory, bytes).offset(first_byte).ioprio(bio.priority.0).build(),
        Operation::Discard => {
            let mut command = [0; 16];
            command[..8].copy_from_slice(&u64::from(bytes).to_ne_bytes());
            opcode::UringCmd16::new(fd, BLOCK_URING_CMD_DISCARD).cmd(command).addr(Some(first_byte)).build()
        }
        other => panic!("no way to submit {other:?}"),
    }
}
