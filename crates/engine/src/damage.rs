//! What a volume has lost, and which requests it therefore refuses.
//!
//! The kernel reports a lost write once and then forgets it, so a later success would say nothing
//! about it. The loss therefore stays with the volume until it is opened again: every FLUSH and
//! every durable request fails. Reads and ordinary writes go on, because their answers promise
//! nothing about stable storage, and a client needs them to save or to repair what is there.

use crate::protocol::{ClientRequest, Command};

/// Why answered writes of a volume may be lost.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub enum Damage {
    /// A durable operation failed: a flush, or a write, a trim or a zeroing that had to be on stable
    /// storage.
    NotDurable,
    /// The backing ends before the volume does, because another program has made it shorter.
    Truncated {
        /// Bytes of the volume before the end.
        intact_bytes: u64,
    },
}

impl Damage {
    /// The damage as a word of logs and status: `not-durable` or `truncated`.
    pub const fn word(self) -> &'static str {
        match self {
            Damage::NotDurable => "not-durable",
            Damage::Truncated { .. } => "truncated",
        }
    }

    /// The same in words.
    pub fn text(self) -> String {
        match self {
            Damage::NotDurable => "writing to stable storage failed".to_owned(),
            Damage::Truncated { intact_bytes } => {
                format!("another program has made its backing shorter, which ends behind {intact_bytes} bytes")
            }
        }
    }

    /// Both of two damages: of a truncation, the lower end is known.
    pub(crate) fn and(self, other: Self) -> Self {
        match (self, other) {
            (Damage::Truncated { intact_bytes: one }, Damage::Truncated { intact_bytes: two }) => {
                Damage::Truncated { intact_bytes: one.min(two) }
            }
            (Damage::NotDurable, other) | (other, Damage::NotDurable) => other,
        }
    }

    /// Whether a request uses bytes behind the end of a truncated backing.
    pub(crate) fn has_lost(self, asked: &ClientRequest) -> bool {
        let Damage::Truncated { intact_bytes } = self else { return false };
        let end = asked.offset_bytes.saturating_add(asked.length_bytes);
        asked.command != Command::Flush && asked.length_bytes > 0 && end > intact_bytes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_truncation_keeps_its_lowest_end_and_is_worse_than_a_failed_flush() {
        let truncated = |intact_bytes| Damage::Truncated { intact_bytes };
        assert_eq!(truncated(8).and(truncated(4)), truncated(4));
        assert_eq!(Damage::NotDurable.and(truncated(4)), truncated(4));
        assert_eq!(truncated(4).and(Damage::NotDurable), truncated(4));
        assert_eq!(Damage::NotDurable.and(Damage::NotDurable), Damage::NotDurable);
    }
}
