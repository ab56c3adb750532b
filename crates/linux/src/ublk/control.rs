//! Control commands: each is sent through a ring of its own and waited for.
#![allow(unsafe_code)]

use std::collections::BTreeSet;
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use io_uring::{IoUring, cqueue, opcode, squeue, types};
use rustix::fs::{Access, Mode, OFlags};
use rustix::thread::{CapabilitySet, capabilities};

use super::{DeviceInfo, Parameters, Shape, State, feature, server_node, when_node_is_ready};

/// Of include/uapi/linux/prctl.h; the crate `libc` lacks it.
const PR_SET_IO_FLUSHER: libc::c_int = 57;
const NODE: &str = "/dev/ublk-control";
const INFO_BYTES: usize = 64;
const PARAMETERS_BYTES: usize = 80;
/// No queue is meant.
const NO_QUEUE: u16 = u16::MAX;
/// Asks the kernel to choose the number.
const ANY_NUMBER: u32 = u32::MAX;

/// Command numbers as ioctl(2) encodes them: direction, `struct ublksrv_ctrl_cmd` of 32 bytes, 'u'.
const fn encoded(is_read_only: bool, number: u32) -> u32 {
    let direction: u32 = if is_read_only { 2 } else { 3 };
    direction << 30 | 32 << 16 | (b'u' as u32) << 8 | number
}

const GET_DEV_INFO: u32 = encoded(true, 0x02);
const UPDATE_SIZE: u32 = encoded(false, 0x15);
const ADD_DEV: u32 = encoded(false, 0x04);
const DEL_DEV: u32 = encoded(false, 0x05);
const START_DEV: u32 = encoded(false, 0x06);
const STOP_DEV: u32 = encoded(false, 0x07);
const SET_PARAMS: u32 = encoded(false, 0x08);
const START_USER_RECOVERY: u32 = encoded(false, 0x10);
const END_USER_RECOVERY: u32 = encoded(false, 0x11);
const GET_DEV_INFO2: u32 = encoded(true, 0x12);
const GET_FEATURES: u32 = encoded(true, 0x13);
const DEL_DEV_ASYNC: u32 = encoded(true, 0x14);
/// How long the removal of a device that no process has open may take.
const DELETION_TIMEOUT: Duration = Duration::from_secs(1);

/// The driver's control device.
pub struct Control {
    ring: IoUring<squeue::Entry128, cqueue::Entry>,
    file: OwnedFd,
    /// Whether the kernel lets this process control every device.
    is_privileged: bool,
    /// Devices of users without privileges, as far as they were seen.
    unprivileged: BTreeSet<u32>,
}

/// One command: `struct ublksrv_ctrl_cmd`.
#[derive(Copy, Clone, Default)]
struct Command {
    number: u32,
    value: u64,
    /// Length of the node's name in front of the data.
    name_bytes: u16,
}

impl Command {
    const fn of(number: u32) -> Self {
        Self { number, value: 0, name_bytes: 0 }
    }

    /// For a device whose server is to be this process.
    fn own(number: u32) -> Self {
        Self { value: u64::from(std::process::id()), ..Self::of(number) }
    }
}

impl std::fmt::Debug for Control {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Control").finish_non_exhaustive()
    }
}

impl Control {
    /// Opens the control device.
    ///
    /// # Errors
    /// `NotFound` where the driver is not loaded, `PermissionDenied` without rights, or the error of
    /// io_uring.
    pub fn open() -> io::Result<Self> {
        let file = rustix::fs::open(NODE, OFlags::RDWR | OFlags::CLOEXEC, Mode::empty())?;
        let ring = IoUring::<squeue::Entry128, cqueue::Entry>::builder().build(4)?;
        let is_privileged = capabilities(None).is_ok_and(|sets| sets.effective.contains(CapabilitySet::SYS_ADMIN));
        Ok(Self { ring, file, is_privileged, unprivileged: BTreeSet::new() })
    }

    /// Whether the kernel lets this process control every device. To others it gives neither recovery nor
    /// user copy.
    pub fn is_privileged(&self) -> bool {
        self.is_privileged
    }

    /// What the driver can do, as bits of [`super::feature`]; 0 before Linux 6.5, which cannot tell.
    ///
    /// # Errors
    /// Any error but that the command is unknown.
    pub fn features(&mut self) -> io::Result<u64> {
        let mut bits = [0; 8];
        match self.send(GET_FEATURES, Command::default(), &mut bits) {
            Ok(_) => Ok(u64::from_ne_bytes(bits)),
            Err(error) if matches!(error.raw_os_error(), Some(libc::EOPNOTSUPP | libc::EINVAL)) => Ok(0),
            Err(error) => Err(error),
        }
    }

    /// Creates a device of this shape; returns it as the kernel made it, which has no more queues than
    /// processors and only the features that it knows. Without privileges the device is an unprivileged
    /// one, and its nodes must become accessible to this user.
    ///
    /// # Errors
    /// `EEXIST` if the number is taken, `ENOSPC` where there are too many, `EINVAL` for unknown
    /// features.
    pub fn add(&mut self, number: Option<u32>, shape: &Shape) -> io::Result<DeviceInfo> {
        let number = number.unwrap_or(ANY_NUMBER);
        let features = shape.features | if self.is_privileged { 0 } else { feature::UNPRIVILEGED };
        let mut info = [0; INFO_BYTES];
        put(&mut info, 0, &shape.queues.to_ne_bytes());
        put(&mut info, 2, &shape.tags.to_ne_bytes());
        put(&mut info, 8, &shape.max_io_bytes.to_ne_bytes());
        put(&mut info, 12, &number.to_ne_bytes());
        put(&mut info, 24, &features.to_ne_bytes());
        self.send(ADD_DEV, Command::of(number), &mut info)?;
        self.noticed(decode(&info)?)
    }

    /// Waits until this user may use a new device, whose node udev gives to it.
    ///
    /// # Errors
    /// `EACCES` if that does not happen.
    pub fn await_access(&self, number: u32) -> io::Result<()> {
        when_node_is_ready(|| rustix::fs::access(server_node(number), Access::READ_OK | Access::WRITE_OK))
    }

    /// A device's state and shape.
    ///
    /// # Errors
    /// `ENODEV` if there is none of this number.
    pub fn info(&mut self, number: u32) -> io::Result<DeviceInfo> {
        let mut info = [0; INFO_BYTES];
        let command = Command::of(number);
        // The command that names the node fits every device, but Linux has it since 6.3.
        match self.send_named(GET_DEV_INFO2, command, &mut info) {
            Err(_) if self.is_privileged => self.send(GET_DEV_INFO, command, &mut info),
            result => result,
        }?;
        self.noticed(decode(&info)?)
    }

    fn noticed(&mut self, info: DeviceInfo) -> io::Result<DeviceInfo> {
        if info.features & feature::UNPRIVILEGED == 0 {
            self.unprivileged.remove(&info.number);
        } else {
            self.unprivileged.insert(info.number);
        }
        Ok(info)
    }

    /// Describes a device to the block layer, before it is started.
    ///
    /// # Errors
    /// `EINVAL` where the kernel refuses a value, `EACCES` once the device was started.
    pub fn set_parameters(&mut self, number: u32, parameters: &Parameters) -> io::Result<()> {
        self.command(SET_PARAMS, Command::of(number), &mut encode(parameters)).map(drop)
    }

    /// Makes a device appear; waits until every tag of every queue was fetched.
    ///
    /// # Errors
    /// The kernel's.
    pub fn start(&mut self, number: u32) -> io::Result<()> {
        self.command(START_DEV, Command::own(number), &mut []).map(drop)
    }

    /// Changes the size of a device that was started, in sectors of 512 bytes.
    ///
    /// # Errors
    /// `EOPNOTSUPP` before Linux 6.16, `ENODEV` if there is none of this number.
    pub fn update_size(&mut self, number: u32, sectors: u64) -> io::Result<()> {
        self.command(UPDATE_SIZE, Command { value: sectors, ..Command::of(number) }, &mut []).map(drop)
    }

    /// Makes a device disappear. Waits for its requests in flight, which its queues must still serve.
    ///
    /// # Errors
    /// `ENODEV` if there is none of this number.
    pub fn stop(&mut self, number: u32) -> io::Result<()> {
        self.command(STOP_DEV, Command::of(number), &mut []).map(drop)
    }

    /// Removes a stopped device. Waits until its server has closed it.
    ///
    /// # Errors
    /// `ENODEV` if there is none of this number.
    pub fn delete(&mut self, number: u32) -> io::Result<()> {
        self.command(DEL_DEV, Command::of(number), &mut []).map(drop)
    }

    /// Removes a stopped or dead device, which may still be open, without waiting for those who have it open. Its
    /// number is free once they have closed it.
    ///
    /// # Errors
    /// `ENODEV` if there is none of this number.
    pub fn delete_without_waiting(&mut self, number: u32) -> io::Result<()> {
        match self.command(DEL_DEV_ASYNC, Command::of(number), &mut []) {
            // Linux has this command since 6.9, and refuses it for unprivileged devices
            // (`ublk_ctrl_uring_cmd_permission` of drivers/block/ublk_drv.c, 6.18).
            Err(error) if matches!(error.raw_os_error(), Some(libc::EOPNOTSUPP | libc::EINVAL)) => {
                delete_in_background(number)
            }
            result => result.map(drop),
        }
    }

    /// Takes over a device whose server has died.
    ///
    /// # Errors
    /// `EBUSY` while the kernel has not cleaned up after the last server; the caller tries again.
    pub fn start_recovery(&mut self, number: u32) -> io::Result<()> {
        self.command(START_USER_RECOVERY, Command::of(number), &mut []).map(drop)
    }

    /// Lets a device that was taken over go on; waits until every tag of every queue was fetched.
    ///
    /// # Errors
    /// The kernel's.
    pub fn end_recovery(&mut self, number: u32) -> io::Result<()> {
        self.command(END_USER_RECOVERY, Command::own(number), &mut []).map(drop)
    }

    /// Commands a device that exists.
    fn command(&mut self, operation: u32, command: Command, data: &mut [u8]) -> io::Result<i32> {
        if self.is_privileged && !self.unprivileged.contains(&command.number) {
            self.send(operation, command, data)
        } else {
            self.send_named(operation, command, data)
        }
    }

    /// Names the device's node in front of the data: the kernel lets those command an unprivileged
    /// device who may use its node.
    fn send_named(&mut self, operation: u32, mut command: Command, data: &mut [u8]) -> io::Result<i32> {
        let mut named = server_node(command.number).into_os_string().into_encoded_bytes();
        let name_bytes = named.len();
        command.name_bytes = u16::try_from(name_bytes).unwrap_or(0);
        named.extend_from_slice(data);
        let result = self.send(operation, command, &mut named)?;
        data.copy_from_slice(&named[name_bytes..]);
        Ok(result)
    }

    fn send(&mut self, operation: u32, command: Command, data: &mut [u8]) -> io::Result<i32> {
        let mut bytes = [0; 80];
        put(&mut bytes, 0, &command.number.to_ne_bytes());
        put(&mut bytes, 4, &NO_QUEUE.to_ne_bytes());
        put(&mut bytes, 6, &u16::try_from(data.len()).unwrap_or(0).to_ne_bytes());
        put(&mut bytes, 8, &(data.as_mut_ptr().addr() as u64).to_ne_bytes());
        put(&mut bytes, 16, &command.value.to_ne_bytes());
        put(&mut bytes, 24, &command.name_bytes.to_ne_bytes());
        // The kernel writes through this address, so the pointer's provenance is exposed.
        let _ = data.as_mut_ptr().expose_provenance();
        let entry = opcode::UringCmd80::new(types::Fd(self.file.as_raw_fd()), operation).cmd(bytes).build();
        // SAFETY: the entry refers to `data`, which outlives the command: this function returns only
        // after its completion.
        unsafe { self.ring.submission().push(&entry) }.map_err(|_| io::Error::other("the control ring is full"))?;
        loop {
            match self.ring.submit_and_wait(1) {
                Ok(_) => {}
                Err(error) if error.raw_os_error() == Some(libc::EINTR) => {}
                Err(error) => return Err(error),
            }
            if let Some(completion) = self.ring.completion().next() {
                let result = completion.result();
                return if result < 0 { Err(io::Error::from_raw_os_error(-result)) } else { Ok(result) };
            }
        }
    }
}

/// Removes a device on a thread of its own: the command makes it disappear at once, and then waits until
/// no process has it open.
fn delete_in_background(number: u32) -> io::Result<()> {
    let (sender, done) = mpsc::channel();
    thread::Builder::new().name("ublk-removal".to_owned()).spawn(move || {
        let deleted = Control::open().and_then(|mut control| {
            control.info(number)?;
            control.delete(number)
        });
        // The receiver has gone if it has waited long enough.
        let _ = sender.send(deleted);
    })?;
    match done.recv_timeout(DELETION_TIMEOUT) {
        Ok(result) => result,
        Err(_) => Ok(()),
    }
}

/// Prevents deadlocks under memory pressure: the kernel may wait for this thread to write dirty pages
/// back, so the thread must not wait for memory that only writing frees, and the process's pages
/// must not be swapped out to a disk that it serves itself (PR_SET_IO_FLUSHER, mlockall(2)).
///
/// # Errors
/// Without the rights (CAP_SYS_RESOURCE, CAP_IPC_LOCK); the thread works without, but is not safe.
pub fn protect_thread_from_reclaim() -> io::Result<()> {
    let check = |result: libc::c_int| if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) };
    // SAFETY: the call takes no pointers.
    check(unsafe { libc::prctl(PR_SET_IO_FLUSHER, 1, 0, 0, 0) })?;
    // SAFETY: the call takes no pointers. Pages are locked when they are first touched, because
    // most of an arena may never be used.
    check(unsafe { libc::mlockall(libc::MCL_CURRENT | libc::MCL_FUTURE | libc::MCL_ONFAULT) })
}

fn put(to: &mut [u8], at: usize, bytes: &[u8]) {
    to[at..at + bytes.len()].copy_from_slice(bytes);
}

/// Reads `struct ublksrv_ctrl_dev_info`.
fn decode(info: &[u8; INFO_BYTES]) -> io::Result<DeviceInfo> {
    let short = |at: usize| u16::from_ne_bytes([info[at], info[at + 1]]);
    let word = |at: usize| u32::from_ne_bytes([info[at], info[at + 1], info[at + 2], info[at + 3]]);
    let state = match short(4) {
        0 => State::Dead,
        1 => State::Live,
        2 => State::Quiesced,
        3 => State::FailIo,
        other => return Err(io::Error::other(format!("the driver reports the unknown state {other}"))),
    };
    Ok(DeviceInfo {
        number: word(12),
        queues: short(0),
        tags: short(2),
        max_io_bytes: word(8),
        features: u64::from(word(24)) | u64::from(word(28)) << 32,
        state,
        server: i32::from_ne_bytes(word(16).to_ne_bytes()),
    })
}

/// Writes `struct ublk_params` with its basic and discard parts.
fn encode(parameters: &Parameters) -> [u8; PARAMETERS_BYTES] {
    const BASIC: u32 = 1 << 0;
    const DISCARD: u32 = 1 << 1;
    const READ_ONLY: u32 = 1 << 0;
    const ROTATIONAL: u32 = 1 << 1;
    const VOLATILE_CACHE: u32 = 1 << 2;
    const FUA: u32 = 1 << 3;
    let shift = |bytes: u32| u8::try_from(bytes.max(512).ilog2()).unwrap_or(9);
    let sectors = |bytes: u32| bytes / 512;
    let mut attributes = 0;
    for (is_set, bit) in [
        (parameters.is_read_only, READ_ONLY),
        (parameters.is_rotational, ROTATIONAL),
        (parameters.has_volatile_cache, VOLATILE_CACHE | FUA),
    ] {
        attributes |= if is_set { bit } else { 0 };
    }
    let discards = parameters.max_discard_bytes > 0 || parameters.max_zeroes_bytes > 0;
    let mut bytes = [0; PARAMETERS_BYTES];
    put(&mut bytes, 0, &u32::try_from(PARAMETERS_BYTES).unwrap_or(0).to_ne_bytes());
    put(&mut bytes, 4, &(BASIC | if discards { DISCARD } else { 0 }).to_ne_bytes());
    put(&mut bytes, 8, &attributes.to_ne_bytes());
    bytes[12] = shift(parameters.logical_block_bytes);
    bytes[13] = shift(parameters.physical_block_bytes);
    bytes[14] = shift(parameters.optimal_io_bytes);
    bytes[15] = shift(parameters.physical_block_bytes);
    put(&mut bytes, 16, &sectors(parameters.max_io_bytes).to_ne_bytes());
    put(&mut bytes, 24, &(parameters.size_bytes / 512).to_ne_bytes());
    if discards {
        put(&mut bytes, 44, &parameters.physical_block_bytes.to_ne_bytes());
        put(&mut bytes, 48, &sectors(parameters.max_discard_bytes).to_ne_bytes());
        put(&mut bytes, 52, &sectors(parameters.max_zeroes_bytes).to_ne_bytes());
        put(&mut bytes, 56, &1_u16.to_ne_bytes());
    }
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commands_have_the_numbers_of_the_header() {
        // _IOWR('u', UBLK_CMD_ADD_DEV, struct ublksrv_ctrl_cmd) and _IOR('u', 0x13, ..).
        assert_eq!((ADD_DEV, GET_FEATURES), (0xc020_7504, 0x8020_7513));
    }

    #[test]
    fn parameters_lie_where_the_header_puts_them() {
        let bytes = encode(&Parameters {
            size_bytes: 1 << 30,
            logical_block_bytes: 512,
            physical_block_bytes: 4_096,
            optimal_io_bytes: 65_536,
            max_io_bytes: 1 << 20,
            is_read_only: true,
            is_rotational: false,
            has_volatile_cache: true,
            max_discard_bytes: 1 << 30,
            max_zeroes_bytes: 1 << 20,
        });
        let word = |at: usize| u32::from_ne_bytes(bytes[at..at + 4].try_into().expect("four"));
        // struct ublk_params { len, types, basic { attrs, shifts, max_sectors, chunk_sectors,
        // dev_sectors, virt_boundary_mask }, discard { alignment, granularity, max_discard_sectors,
        // max_write_zeroes_sectors, max_discard_segments } }
        assert_eq!((word(0), word(4), word(8)), (80, 3, 0b1101));
        assert_eq!(bytes[12..16], [9, 12, 16, 12]);
        assert_eq!((word(16), word(24)), (2_048, 2 << 20));
        assert_eq!((word(44), word(48), word(52), word(56)), (4_096, 2 << 20, 2_048, 1));
    }

    #[test]
    fn an_unknown_state_is_an_error() {
        let mut info = [0; INFO_BYTES];
        put(&mut info, 4, &9_u16.to_ne_bytes());
        assert!(decode(&info).is_err());
        put(&mut info, 4, &2_u16.to_ne_bytes());
        put(&mut info, 12, &7_u32.to_ne_bytes());
        let known = decode(&info).expect("known");
        assert_eq!((known.number, known.state), (7, State::Quiesced));
    }
}
