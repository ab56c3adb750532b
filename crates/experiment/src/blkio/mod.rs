//! The `blkio.*` files of CFQ's groups: the service that each group received from a device, and its
//! weights.
//!
//! A [`Statistics`] describes one group on one device. [`statistics_file`] formats those of one
//! group as the kernel did; [`weights`] parses and formats the lines of `weight`, `weight_device`
//! and `io.weight`. Sources: Linux 2.6.36 and 4.20, block/cfq-iosched.c and block/blk-cgroup.c,
//! Documentation/cgroups/blkio-controller.txt; docs/specifications/cfq.md, section 16.

mod statistics;
mod text;
pub mod weights;

pub use statistics::{ByType, Removed, Statistics};
pub use text::{FILES, File, statistics_file};

/// The two generations of the files.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub enum Generation {
    /// Linux 2.6.36: groups of one level, weights 100 to 1,000.
    Flat,
    /// Linux 4.20: groups in a tree, weights 10 to 1,000, `_recursive` files.
    Tree,
}
