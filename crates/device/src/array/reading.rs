//! The reads of an array: from the write cache, from lines read ahead, otherwise from the disks. A
//! line is an aligned range of `prefetch_line_kib`, the unit of the controller's read-ahead.

use hoistway_block::{Extent, Nanos, Operation, Sector, SectorRange, Status};

use super::line_cache::LineCache;
use super::members::{DiskCommand, Owner};
use super::prefetch::Streams;
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

/// A line that a stream should have.
enum Line {
    Cached,
    /// Not read yet; it has this place.
    Missing(u32),
}

impl ReadAhead {
    /// `None` if read-ahead is off.
    pub(super) fn new(parameters: &ArrayParameters) -> Option<Self> {
        let line_kib = parameters.prefetch_line_kib.max(1);
        let lines = usize::try_from(parameters.read_cache_mib * 1_024 / line_kib).unwrap_or(usize::MAX);
        let line_sectors = line_kib * 2;
        (parameters.prefetch_kib > 0).then(|| Self {
            streams: Streams::new(lines, line_sectors, parameters.prefetch_trigger, parameters.prefetch_kib * 2),
            lines: LineCache::new(lines, line_sectors),
            line_sectors: u32::try_from(line_sectors).unwrap_or(u32::MAX),
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
        let is_complete = self.lines_of(extent).all(|number| self.lines.find(number).is_some());
        let mut pending = 0;
        for number in self.lines_of(extent) {
            let Some(place) = self.lines.find(number) else { continue };
            if is_complete {
                pending += u32::from(self.lines.wait_for(place, command));
            }
            if (number + 1) * u64::from(self.line_sectors) <= extent.end() {
                self.lines.spend(place);
            } else {
                self.lines.keep(place, self.streams.clock());
            }
        }
        is_complete.then_some(pending)
    }

    /// Keeps the line that begins at a sector, or gives it a place; `None` if there is no room. A
    /// stream that has no lines may take those of the stream that was read longest ago, if that one
    /// is over.
    fn line_at(&mut self, sector: Sector, may_take: bool) -> Option<Line> {
        let number = sector / u64::from(self.line_sectors);
        let clock = self.streams.clock();
        if let Some(place) = self.lines.find(number) {
            self.lines.keep(place, clock);
            return Some(Line::Cached);
        }
        if may_take && let Some(abandoned) = self.lines.abandoned(clock) {
            self.end_stream(abandoned);
        }
        self.lines.insert(number, clock).map(Line::Missing)
    }

    /// Gives up the line with this number, and all others of its stream.
    fn end_stream(&mut self, number: u64) {
        let line = u64::from(self.line_sectors);
        let others = self.streams.end(number * line);
        let others = others.map_or(number..number, |ahead| {
            ahead.first_sector / line..(ahead.first_sector + ahead.sectors).div_ceil(line)
        });
        for number in others.chain([number]) {
            if let Some(place) = self.lines.find(number) {
                self.lines.spend(place);
            }
        }
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

    /// Keeps the lines of a range, and reads those that are not cached; stops when the cache has no
    /// room.
    fn fetch(&mut self, now: Nanos, ahead: SectorRange) {
        let Some(line_sectors) = self.read_ahead.as_ref().map(|read_ahead| read_ahead.line_sectors) else { return };
        let end = (ahead.first_sector + ahead.sectors).min(self.info.capacity_sectors);
        let mut reached = ahead.first_sector - ahead.first_sector % u64::from(line_sectors);
        let mut has_lines = false;
        while reached < end {
            let Some(read_ahead) = &mut self.read_ahead else { return };
            let Some(line) = read_ahead.line_at(reached, !has_lines) else { break };
            has_lines = true;
            if let Line::Missing(place) = line {
                let extent = line_extent(reached, line_sectors, self.info.capacity_sectors);
                let pieces = self.read_pieces(now, extent, Owner::Line(place), false);
                if let Some(read_ahead) = &mut self.read_ahead {
                    read_ahead.lines.add_pieces(place, pieces);
                }
            }
            reached += u64::from(line_sectors);
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
