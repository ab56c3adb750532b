//! A video player that needs a frame of data every period; a frame that is more than a period late
//! is dropped.
//!
//! The schedule is open: frame n is due n periods after the first, whatever happened to earlier
//! frames. Reads are synchronous and in order, as with `mplayer -framedrop -nocache`: a late player
//! reads the missed frames as fast as possible without showing them until it has caught up. Every
//! frame carries its deadline, so the number of late I/Os is that of dropped frames; a stall of ten
//! periods drops about ten. A player that skipped missed frames would issue no reads for them, and
//! its ten dropped frames would look like one.

use hoistway_block::Nanos;
use hoistway_block::time::{MICROSECOND, MILLISECOND};
use serde::{Deserialize, Serialize};

use super::run::{Ask, Step};
use super::settings::{self, Key, Settings};
use crate::fio::units;
use crate::job::{BlockSize, Engine, Job, Mix, Pattern, PerDirection, Placement};

/// Settings of a player.
#[derive(Copy, Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Video {
    /// Size of a frame in bytes.
    pub frame_bytes: u32,
    /// Time between frames, in ns.
    pub period_ns: Nanos,
    /// Time after its due time during which a frame is still shown, in ns.
    pub deadline_ns: Nanos,
}

impl Video {
    /// 64 KiB every 40 ms, late after one period. Source: docs/specifications/bfq.md, section 21.
    pub const USUAL: Self = Self { frame_bytes: 64 << 10, period_ns: 40 * MILLISECOND, deadline_ns: 40 * MILLISECOND };
}

impl Default for Video {
    fn default() -> Self {
        Self::USUAL
    }
}

const KEYS: &[Key] = &[
    Key { name: "frame", allowed: "512 to 16m", doc: "Bytes of a frame." },
    Key { name: "period", allowed: "1us to 1h", doc: "From frame to frame." },
    Key { name: "deadline", allowed: "1us to 1h", doc: "A frame that comes later after it was due is dropped." },
];

/// Parses a time of 1 us to 1 h; a bare number is in microseconds, as for pauses in job files.
fn span(key: &str, text: &str) -> Result<Nanos, String> {
    let time_ns = units::time(text, MICROSECOND)?.value_ns;
    let allowed = MICROSECOND..=3600 * hoistway_block::time::SECOND;
    if allowed.contains(&time_ns) { Ok(time_ns) } else { Err(format!("{key}={text} is outside the allowed 1us to 1h")) }
}

impl Settings for Video {
    fn name(&self) -> &'static str {
        "video"
    }

    fn doc(&self) -> &'static str {
        "video player: a frame of 64k every 40ms, dropped when it comes a period late"
    }

    fn keys(&self) -> &'static [Key] {
        KEYS
    }

    fn value(&self, key: &str) -> String {
        let microseconds = |time_ns: Nanos| format!("{}us", time_ns / MICROSECOND);
        match key {
            "frame" => self.frame_bytes.to_string(),
            "period" => microseconds(self.period_ns),
            "deadline" => microseconds(self.deadline_ns),
            _ => String::new(),
        }
    }

    fn set(&mut self, key: &str, value: &str) -> Result<(), String> {
        match key {
            "frame" => {
                let bytes = settings::number(key, value, 512, 16 << 20)?;
                if !bytes.is_multiple_of(512) {
                    return Err(format!("frame={value} is not a multiple of 512"));
                }
                self.frame_bytes = bytes;
            }
            "period" => self.period_ns = span(key, value)?,
            "deadline" => self.deadline_ns = span(key, value)?,
            _ => return Err(settings::unknown(key, KEYS)),
        }
        Ok(())
    }

    fn describe(&self, job: &mut Job) {
        job.shape.mix = Mix::Read;
        job.shape.pattern = Pattern::Sequential { skip_bytes: 0 };
        job.shape.block_sizes = PerDirection::all(BlockSize::Fixed(self.frame_bytes));
        job.area.placement = Placement::Split;
        job.submission.iodepth = 1;
        job.submission.engine = if job.submission.engine == Engine::Null { Engine::Null } else { Engine::Sync };
    }
}

/// State of a player.
#[derive(Clone, Debug)]
pub(super) struct Player {
    settings: Video,
    /// Number of frames of the file.
    frames: u64,
    /// The next frame.
    frame: u64,
    /// Due time of the next frame; the first one is due at the first request.
    due_ns: Option<Nanos>,
}

impl Player {
    /// A player of a file of `file_bytes`, which holds at least one frame.
    pub(super) fn new(settings: Video, file_bytes: u64) -> Self {
        Self { settings, frames: file_bytes / u64::from(settings.frame_bytes.max(1)), frame: 0, due_ns: None }
    }

    pub(super) fn next(&mut self, now: Nanos) -> Step {
        let due_ns = *self.due_ns.get_or_insert(now);
        if self.frame == self.frames {
            return Step::Done;
        }
        if due_ns > now {
            return Step::NotBefore(due_ns);
        }
        let Video { frame_bytes, period_ns, deadline_ns } = self.settings;
        let offset_bytes = self.frame * u64::from(frame_bytes);
        self.frame += 1;
        self.due_ns = Some(due_ns.saturating_add(period_ns));
        let deadline_ns = Some(due_ns.saturating_add(deadline_ns));
        Step::Ask(Ask { deadline_ns, ..Ask::read(offset_bytes, frame_bytes) })
    }

    /// Starts again from the first frame in the same rhythm.
    pub(super) fn restart(&mut self) {
        self.frame = 0;
    }
}
