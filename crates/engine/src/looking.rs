//! Looks at a shard: its status, and whether it and its backings answer.

use std::time::Duration;

use crate::error::EngineError;
use crate::shard::ShardStatus;
use crate::volume::ShardHandle;

impl ShardHandle {
    /// Whether the device answers.
    ///
    /// # Errors
    /// It does not, with the time, or it has stopped.
    pub fn check_answers(&self) -> Result<(), EngineError> {
        self.ask(|_| ())
    }

    /// For how long the device has not answered; `None` while it does.
    pub fn silent_for(&self) -> Option<Duration> {
        self.threads().silent_for()
    }

    /// The volume with the oldest I/O that its backing does not answer, when the device was last
    /// looked at.
    pub fn oldest_volume(&self) -> Option<String> {
        self.threads().oldest_volume()
    }

    /// The volumes whose backings have not answered for 2 s: the name, and the age of the oldest
    /// I/O in seconds.
    ///
    /// # Errors
    /// When the engine has stopped, or does not answer.
    pub fn unanswered(&self) -> Result<Vec<(String, u64)>, EngineError> {
        let mut waiting = self.ask(|core| core.unanswered())?;
        waiting.sort_by_key(|(_, seconds)| std::cmp::Reverse(*seconds));
        self.threads().note_oldest_volume(waiting.first().map(|(name, _)| name.clone()));
        Ok(waiting)
    }

    /// A snapshot of the shard.
    ///
    /// # Errors
    /// When the engine has stopped.
    pub fn status(&self) -> Result<ShardStatus, EngineError> {
        let name = self.name().to_owned();
        let mut status = self.ask(move |core| core.status(&name))?;
        status.silent_ns = self.silent_for().map_or(0, |time| u64::try_from(time.as_nanos()).unwrap_or(u64::MAX));
        let waiting =
            status.volumes.iter().filter_map(|volume| Some((volume.unanswered?.oldest_ns, &volume.facts.name)));
        self.threads().note_oldest_volume(waiting.max().map(|(_, name)| name.clone()));
        Ok(status)
    }
}
