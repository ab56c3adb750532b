//! A job that replays a recording: the same I/Os in the same order, at their times or as fast as
//! the target permits.
//!
//! ```text
//! trace::recording -> Recording (steps per thread) -> Replay::job -> Issuer (Player) -> Io, Io, not before t, ...
//! ```
//! Order, offsets and sizes are kept exactly; offsets beyond the target are folded into it
//! ([`Fit`]). Memory: 32 bytes per step, shared by all runs; nothing allocates after
//! [`crate::Issuer::new`]. Source: docs/specifications/harness.md, section 9.8.

mod player;
mod recording;

use std::sync::Arc;

use serde::{Deserialize, Serialize};

pub(crate) use player::Player;
pub use recording::{Part, Recording, Step, Undecodable};

use crate::job::{BlockSize, Direction, Engine, Job, Mix, Pattern, PerDirection};

/// When the next I/O is issued.
#[derive(Copy, Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Pace {
    /// At its recorded time, regardless of earlier ones; only the depth limits the number in
    /// flight.
    #[default]
    AsRecorded,
    /// As soon as fewer than the depth are in flight.
    Closed,
    /// As soon as those have completed that had completed before it in the trace.
    Dependent,
}

impl Pace {
    /// All paces by their names on the command line.
    pub const ALL: [(&'static str, Pace); 3] =
        [("as-recorded", Pace::AsRecorded), ("closed", Pace::Closed), ("dependent", Pace::Dependent)];
}

/// How I/Os beyond the end of the target are handled.
#[derive(Copy, Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Fit {
    /// Offsets are taken modulo the target's size; their alignment is kept.
    #[default]
    Wrap,
    /// All offsets are scaled so that the trace fills the target.
    Scale,
    /// The run is refused.
    Strict,
}

/// Maximum of the default depth.
const MOST_IN_FLIGHT: u32 = 1_024;
/// Maximum number of bytes in flight at the default depth.
const BYTES_IN_FLIGHT: u64 = 256 << 20;
/// I/Os in flight at the pace [`Pace::Closed`] if the trace does not tell how many there were.
const USUAL_DEPTH: u32 = 32;
/// Folded offsets keep their position inside blocks of this size.
const BLOCK_BYTES: u64 = 4_096;

/// What a job replays, and how. Results contain all of it except the steps, which their checksum
/// represents.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Replay {
    /// Name of the trace in reports.
    pub trace: String,
    /// Number of I/Os of all threads.
    pub steps: u64,
    /// Checksum of the steps.
    pub checksum: u64,
    /// When the next I/O is issued.
    pub pace: Pace,
    /// Speed relative to the recording, in thousandths: 1,000 = as recorded.
    pub speed_permille: u32,
    /// Number of repetitions, at least 1.
    pub repeats: u32,
    /// How I/Os beyond the target are handled.
    pub fit: Fit,
    /// The byte after the last one of the trace, for [`Fit::Scale`] and [`Fit::Strict`].
    pub span_bytes: u64,
    /// The steps. A replay that was read from a result has none and cannot be run.
    #[serde(skip)]
    pub recording: Arc<Recording>,
}

impl PartialEq for Replay {
    fn eq(&self, other: &Self) -> bool {
        // The checksum represents the recording.
        let Self { trace, steps, checksum, pace, speed_permille, repeats, fit, span_bytes, recording: _ } = self;
        (trace, *steps, *checksum, *pace) == (&other.trace, other.steps, other.checksum, other.pace)
            && (*speed_permille, *repeats, *fit, *span_bytes)
                == (other.speed_permille, other.repeats, other.fit, other.span_bytes)
    }
}

impl Eq for Replay {}

impl Replay {
    /// A single replay of a recording at recorded times.
    pub fn new(trace: &str, recording: Arc<Recording>) -> Self {
        Self {
            trace: trace.to_owned(),
            steps: recording.parts.iter().map(|part| part.steps.len() as u64).sum(),
            checksum: recording.checksum(),
            pace: Pace::AsRecorded,
            speed_permille: 1_000,
            repeats: 1,
            fit: Fit::Wrap,
            span_bytes: recording.span_bytes(),
            recording,
        }
    }

    /// The default depth: for a closed loop the recorded maximum in flight, or 32 if no completions
    /// were recorded; otherwise the permitted maximum.
    pub fn default_depth(&self) -> u32 {
        let largest = self.recording.largest_bytes(None).max(BLOCK_BYTES);
        let room = u32::try_from(BYTES_IN_FLIGHT / largest).unwrap_or(u32::MAX).clamp(1, MOST_IN_FLIGHT);
        match self.pace {
            Pace::AsRecorded | Pace::Dependent => room,
            Pace::Closed if self.recording.has_completions() => self.recording.most_in_flight().clamp(1, room),
            Pace::Closed => USUAL_DEPTH.min(room),
        }
    }

    /// The job that replays it: a thread per part of the recording, all on one area.
    pub fn job(self, name: &str, depth: u32) -> Job {
        let recording = &self.recording;
        let size = |direction| {
            let (min, max) = (recording.smallest_bytes(direction), recording.largest_bytes(Some(direction)));
            let bytes = |bytes: u64| u32::try_from(bytes).unwrap_or(u32::MAX).max(512);
            match (bytes(min), bytes(max)) {
                (min, max) if min == max => BlockSize::Fixed(max),
                (min, max) => BlockSize::Range { min, max },
            }
        };
        let job = Job::default().with(|job| {
            job.name = name.to_owned();
            job.threads = u32::try_from(recording.parts.len()).unwrap_or(u32::MAX).max(1);
            job.shape.mix = recording.mix();
            job.shape.pattern = Pattern::Random { run: 1, repeat_offset: false };
            job.shape.random_map = false;
            job.shape.block_sizes = PerDirection {
                read: size(Direction::Read),
                write: size(Direction::Write),
                trim: size(Direction::Trim),
            };
            // Groups share the device, as when the trace was recorded.
            job.area.file = format!("trace {}", self.trace);
            job.submission.engine = Engine::Async;
            job.submission.iodepth = depth.max(1);
            job.submission.direct = true;
            job.checks.continue_on_error = PerDirection::all(true);
        });
        job.with(|job| job.source.replay = Some(Box::new(self)))
    }

    /// The offset on the area of an I/O of the trace.
    pub(crate) fn place(&self, offset_bytes: u64, length_bytes: u64, area_bytes: u64) -> u64 {
        let last_bytes = area_bytes.saturating_sub(length_bytes);
        if self.fit == Fit::Wrap && offset_bytes <= last_bytes {
            return offset_bytes;
        }
        let inside_bytes = offset_bytes % BLOCK_BYTES;
        let whole_bytes = area_bytes / BLOCK_BYTES * BLOCK_BYTES;
        let wanted_bytes = match self.fit {
            Fit::Scale => {
                let scaled = u128::from(offset_bytes) * u128::from(area_bytes) / u128::from(self.span_bytes.max(1));
                let scaled = u64::try_from(scaled).unwrap_or(u64::MAX);
                (scaled / BLOCK_BYTES * BLOCK_BYTES).saturating_add(inside_bytes)
            }
            Fit::Wrap | Fit::Strict => offset_bytes.checked_rem(whole_bytes).unwrap_or(0),
        };
        if wanted_bytes <= last_bytes {
            return wanted_bytes;
        }
        // An I/O that would cross the end is moved back to the last position where it fits.
        let blocks_bytes = last_bytes.saturating_sub(inside_bytes) / BLOCK_BYTES * BLOCK_BYTES;
        if inside_bytes <= last_bytes { blocks_bytes + inside_bytes } else { last_bytes / 512 * 512 }
    }
}

impl Recording {
    /// Reads and writes in their proportion; hosts only use whether there are any.
    fn mix(&self) -> Mix {
        let count = |direction| {
            let steps = self.parts.iter().flat_map(|part| part.steps.iter());
            steps.filter(|step| Step::direction(step.operation) == direction).count()
        };
        let (reads, all) =
            (count(Some(Direction::Read)), self.parts.iter().map(|part| part.steps.len()).sum::<usize>());
        match (reads, all) {
            (reads, all) if reads == all => Mix::Read,
            (0, _) => Mix::Write,
            (reads, all) => {
                let percent = u8::try_from(reads * 100 / all.max(1)).unwrap_or(100);
                Mix::ReadWrite { read_percent: percent.clamp(1, 99) }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_lies_beyond_the_target_is_folded_into_it_with_its_alignment() {
        let replay = |fit| Replay { fit, span_bytes: 1 << 20, ..Replay::default() };
        let wrap = |offset, length| replay(Fit::Wrap).place(offset, length, 64 << 10);
        assert_eq!(wrap(4_096, 8_192), 4_096);
        assert_eq!(wrap((64 << 10) + 4_608, 512), 4_608);
        // It crosses the end and is moved before it, to the same position inside its block.
        assert_eq!(wrap(60 << 10, 8_192), 56 << 10);
        assert_eq!(wrap((60 << 10) + 512, 8_192), (52 << 10) + 512);
        assert_eq!(wrap(0, 64 << 10), 0);
        let scale = |offset| replay(Fit::Scale).place(offset, 4_096, 64 << 10);
        assert_eq!((scale(0), scale(512 << 10), scale((1 << 20) - 4_096)), (0, 32 << 10, 60 << 10));
        for offset in (0..2 << 20).step_by(512) {
            for fit in [Fit::Wrap, Fit::Scale] {
                let placed = replay(fit).place(offset, 1_536, 10_240);
                assert!(placed + 1_536 <= 10_240 && placed.is_multiple_of(512), "{offset} -> {placed}");
            }
        }
    }
}
