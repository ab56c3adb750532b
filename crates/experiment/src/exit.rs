//! Exit codes of the program, the same for all sub-commands.

/// How a command ended. Source: docs/specifications/harness.md, section 1.5.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub enum Exit {
    /// Finished; all assertions hold.
    Done,
    /// The run failed: I/O error, worker died, device vanished, output not writable.
    Failed,
    /// Invalid option or file, or an impossible combination.
    Usage,
    /// Refused for safety.
    Refused,
    /// Finished, but an assertion or the limit of a comparison failed.
    AssertionFailed,
    /// Finished, but noise exceeds the limit after the permitted repetitions.
    Inconclusive,
    /// The previous state of the device could not be restored.
    NotRestored,
    /// SIGINT; the previous state is restored.
    Interrupted,
    /// SIGTERM; the previous state is restored.
    Terminated,
}

impl Exit {
    /// The exit code of the process.
    pub const fn code(self) -> u8 {
        match self {
            Exit::Done => 0,
            Exit::Failed => 1,
            Exit::Usage => 2,
            Exit::Refused => 3,
            Exit::AssertionFailed => 4,
            Exit::Inconclusive => 5,
            Exit::NotRestored => 6,
            Exit::Interrupted => 130,
            Exit::Terminated => 143,
        }
    }

    /// The one of two outcomes that is reported, in this order of precedence: not restored, then a
    /// signal, then 3, 2, 1, 4, 5, 0.
    #[must_use]
    pub fn worse(self, other: Exit) -> Exit {
        let rank = |exit| match exit {
            Exit::NotRestored => 8,
            Exit::Interrupted => 7,
            Exit::Terminated => 6,
            Exit::Refused => 5,
            Exit::Usage => 4,
            Exit::Failed => 3,
            Exit::AssertionFailed => 2,
            Exit::Inconclusive => 1,
            Exit::Done => 0,
        };
        if rank(other) > rank(self) { other } else { self }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn safety_outranks_usage_and_assertion() {
        assert_eq!(Exit::Usage.worse(Exit::Refused).code(), 3);
        assert_eq!(Exit::AssertionFailed.worse(Exit::Failed).code(), 1);
        assert_eq!(Exit::Inconclusive.worse(Exit::AssertionFailed).code(), 4);
        assert_eq!(Exit::Refused.worse(Exit::NotRestored).code(), 6);
    }
}
