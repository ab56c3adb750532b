//! The reads of an array: from the write cache, from lines read ahead, otherwise from the disks. A
//! line is an aligned range of `prefetch_line_kib`, the unit of the controller's read-ahead.

use block::{Extent, Nanos, Operation, Sector, Status};

use super::line_cache::LineCache;
use super::members::{DiskCommand, Owner};
use super::prefetch::{Ahead, Streams};
use super::{Array, Stage};
use crate::array::ArrayParameters;
use crate::interface::Device;

/// The controller's read-ahead: the tracked streams and the lines read for them.
#[derive(Clone, Debug)]
pub(super) struct ReadAhead {
    streams: Streams,
    lines: LineCache,
    line_sectors: u32,
}

impl ReadAhead {
    /// `None` if read-ahead is off.
    pub(super) fn new(parameters: &ArrayParameters) -> Option<Self> {
        let line_kib = parameters.prefetch_line_kib.max(1);
        let lines = parameters.read_cache_mib * 1_024 / line_kib;
        let streams = usize::try_from(parameters.streams).unwrap_or(usize::MAX);
        (parameters.prefetch_kib > 0).then(|| Self {
            streams: Streams::new(streams, parameters.prefetch_trigger, parameters.prefetch_kib * 2),
            lines: LineCache::new(usize::try_from(lines).unwrap_or(usize::MAX)),
            line_sectors: u32::try_from(line_kib * 2).unwrap_or(u32::MAX),
        })
    }

    /// The numbers of the lines of a range.
    fn lines_of(&self, extent: Extent) -> std::ops::Range<u64> {
        let line = u64::from(self.line_sectors);
        extent.first_sector / line..extent.end().div_ceil(line)
    }

    /// Serves a read from its lines if all of them are present or loading; returns the number of
    /// loading lines, for which the command waits. Returns `None` if a line is missing.
    fn wait_for(&mut self, extent: Extent, command: u32) -> Option<u32> {
        let numbers = self.lines_of(extent);
        if !numbers.clone().all(|number| self.lines.find(number).is_some()) {
            return None;
        }
        let mut pending = 0;
        for number in numbers {
            if let Some(place) = self.lines.find(number) {
                pending += u32::from(self.lines.wait_for(place, command));
            }
        }
        Some(pending)
    }
}

impl<M: Device> Array<M> {
    /// Starts a read that has arrived.
    pub(super) fn read(&mut self, now: Nanos, command: u32) {
        let extent = self.commands[command].extent;
        self.commands[command].stage = Stage::Disks;
        let ahead = self.read_ahead.as_mut().and_then(|read_ahead| read_ahead.streams.note(extent));
        let from_lines = self.read_ahead.as_mut().and_then(|read_ahead| read_ahead.wait_for(extent, command));
        let pending = from_lines.unwrap_or_else(|| self.read_pieces(now, extent, Owner::Read(command), true));
        self.commands[command].pending = pending;
        if pending == 0 {
            self.answer(now, command);
        }
        if let Some(ahead) = ahead {
            self.fetch(now, ahead);
        }
    }

    /// Sends a read to the disks, chunk by chunk; returns the number of disk commands. If it
    /// `may_hit`, a chunk is read only from the first to the last sector that the write cache
    /// lacks.
    fn read_pieces(&mut self, now: Nanos, extent: Extent, owner: Owner, may_hit: bool) -> u32 {
        let mut commands = 0;
        for piece in self.layout.pieces(extent) {
            let column_start = piece.column * self.layout.chunk_sectors();
            let start = column_start + piece.offset;
            let end = start + piece.sectors;
            let missing = if may_hit { self.write_cache.missing(piece.row, start, end) } else { Some((start, end)) };
            let Some((start, end)) = missing else { continue };
            commands += 1;
            let place = self.layout.disk_sector(piece.row, start - column_start);
            let command = DiskCommand {
                disk: self.layout.data_disk(piece.row, piece.column),
                operation: Operation::Read,
                extent: Extent::new(place, end - start),
                owner,
                is_urgent: false,
            };
            self.members.send(now, command);
        }
        commands
    }

    /// Reads the lines of a stream that are not cached; stops when every line of the cache is
    /// loading.
    fn fetch(&mut self, now: Nanos, ahead: Ahead) {
        let Some(line_sectors) = self.read_ahead.as_ref().map(|read_ahead| read_ahead.line_sectors) else { return };
        let end = ahead.to.min(self.info.capacity_sectors);
        let mut reached = ahead.from - ahead.from % u64::from(line_sectors);
        while reached < end {
            let Some(read_ahead) = &mut self.read_ahead else { return };
            let number = reached / u64::from(line_sectors);
            if read_ahead.lines.find(number).is_none() {
                let Some(place) = read_ahead.lines.insert(number) else { break };
                let extent = line_extent(reached, line_sectors, self.info.capacity_sectors);
                let pieces = self.read_pieces(now, extent, Owner::Line(place), false);
                if let Some(read_ahead) = &mut self.read_ahead {
                    read_ahead.lines.add_pieces(place, pieces);
                }
            }
            reached += u64::from(line_sectors);
        }
        if let Some(read_ahead) = &mut self.read_ahead {
            read_ahead.streams.prefetched(ahead.stream, reached);
        }
    }

    /// A piece of a line was read.
    pub(super) fn line_piece_done(&mut self, now: Nanos, line: u32, status: Status) {
        let Some(read_ahead) = &mut self.read_ahead else { return };
        let mut released = std::mem::take(&mut self.released);
        let status = read_ahead.lines.piece_loaded(line, status, &mut released);
        released.drain(..).for_each(|command| self.piece_done(now, command, status));
        self.released = released;
    }
}

/// A line's range; the last line ends with the array.
fn line_extent(first: Sector, sectors: u32, capacity: Sector) -> Extent {
    let left = capacity - first;
    Extent::new(first, u32::try_from(left).map_or(sectors, |left| sectors.min(left)))
}
