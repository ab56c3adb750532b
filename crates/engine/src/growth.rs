//! Volumes whose file or device has grown.

use std::os::fd::AsFd;
use std::time::{Duration, Instant};

use crate::error::EngineError;
use crate::volume::{ShardHandle, VolumeId};

/// The time for a look after the deadline, so that a file that answers is not taken for one that does not.
const SHORTEST_LOOK: Duration = Duration::from_millis(50);

/// A volume's size before and after a look at its file.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub struct Growth {
    /// Before, in bytes.
    pub before_bytes: u64,
    /// Now, in bytes.
    pub now_bytes: u64,
}

impl ShardHandle {
    /// Looks at a volume's file or device again, and takes over a larger size. Socket clients that are connected keep
    /// the size that they were told; local ones get the new one. Slices, memory and volumes behind a model keep theirs.
    ///
    /// # Errors
    /// The file has become smaller, or its size is no multiple of the volume's block, which changes nothing here; its
    /// size cannot be read, or not by `deadline`; no such volume.
    pub fn grow_volume(&self, volume: VolumeId, deadline: Instant) -> Result<Growth, EngineError> {
        let facts = self.facts(volume)?;
        let before_bytes = facts.size_bytes;
        let Some((file, calls, first_bytes)) = self.ask(move |core| core.file_that_may_grow(volume.0))? else {
            return Ok(Growth { before_bytes, now_bytes: before_bytes });
        };
        let answer = calls
            .ask(deadline.max(Instant::now() + SHORTEST_LOOK), move || hoistway_linux::device::facts(file.as_fd()));
        let Some(known) = answer else {
            let message = format!("volume '{}': its file or device has not told its size in time", facts.name);
            return Err(EngineError::system(message, "nothing was changed; see what the backing waits for"));
        };
        let known = known.map_err(|error| {
            EngineError::system(format!("volume '{}': its size cannot be read: {error}", facts.name), "try again")
        })?;
        let now_bytes = known.size_bytes.saturating_sub(first_bytes);
        if now_bytes < before_bytes {
            let message = format!(
                "volume '{}' has shrunk from {before_bytes} to {now_bytes} bytes, and clients may use what is gone",
                facts.name
            );
            return Err(EngineError::usage(message, "make it as large as before, or restart the server"));
        }
        if !now_bytes.is_multiple_of(u64::from(facts.block_bytes)) {
            let message = format!(
                "volume '{}' has grown to {now_bytes} bytes, which is no multiple of the {} bytes that direct I/O needs",
                facts.name, facts.block_bytes
            );
            let help = format!("truncate -s %{} makes a file a little larger", facts.block_bytes);
            return Err(EngineError::usage(message, help));
        }
        if now_bytes > before_bytes {
            self.ask(move |core| core.grow_volume(volume.0, now_bytes))?;
        }
        Ok(Growth { before_bytes, now_bytes })
    }
}
