//! I/O priority in Linux's 16-bit encoding: class in bits 15..13, hint in 12..3, level in 2..0.

/// Priority class; "none" counts as best effort.
#[derive(Copy, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Class {
    /// Served before all other classes.
    RealTime = 0,
    /// The ordinary class.
    BestEffort = 1,
    /// Served only when no other class needs the device.
    Idle = 2,
}

/// A request's I/O priority, exactly as the kernel encodes it. Two I/Os with different values are
/// never merged.
#[derive(Copy, Clone, PartialEq, Eq, Hash, Debug, Default)]
#[repr(transparent)]
pub struct Priority(pub u16);

impl Priority {
    /// No priority set.
    pub const NONE: Priority = Priority(0);
    /// The priority of a task of nice 0: best effort, level 4.
    pub const DEFAULT: Priority = Priority::new(Class::BestEffort, 4);

    /// The priority of a class and level (0 is the highest, 7 the lowest; higher bits are cut off).
    #[inline]
    pub const fn new(class: Class, level: u8) -> Self {
        let class_bits = match class {
            Class::RealTime => 1,
            Class::BestEffort => 2,
            Class::Idle => 3,
        };
        Self((class_bits << 13) | (level & 7) as u16)
    }

    /// The class; NONE and the reserved values count as best effort.
    #[inline]
    pub const fn class(self) -> Class {
        match self.0 >> 13 {
            1 => Class::RealTime,
            3 => Class::Idle,
            _ => Class::BestEffort,
        }
    }

    /// Level inside the class, 0 (highest) to 7.
    #[inline]
    pub const fn level(self) -> u8 {
        (self.0 & 7) as u8
    }

    /// The hint bits: 0 none, 1..=7 duration limit.
    #[inline]
    pub const fn hint(self) -> u16 {
        (self.0 >> 3) & 0x3ff
    }
}
