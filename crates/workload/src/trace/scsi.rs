//! Maps SCSI commands to operations, for formats that record commands.

use hoistway_block::Operation;

/// The operation of a command; `None` for commands that neither transfer, discard nor flush data.
pub(super) const fn operation_of(command: u16) -> Option<Operation> {
    match command {
        // READ and WRITE of 6, 10, 12 and 16 bytes.
        0x08 | 0x28 | 0xa8 | 0x88 => Some(Operation::Read),
        0x0a | 0x2a | 0xaa | 0x8a => Some(Operation::Write),
        // SYNCHRONIZE CACHE
        0x35 | 0x91 => Some(Operation::Flush),
        // UNMAP
        0x42 => Some(Operation::Discard),
        // WRITE SAME
        0x41 | 0x93 => Some(Operation::WriteZeroes),
        _ => None,
    }
}
