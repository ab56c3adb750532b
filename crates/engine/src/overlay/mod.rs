//! Copy on write: reads of a block get the read-only base until the block is written.
//!
//! [`mod@format`] is the file, [`map`] the bitmap, `saving` when it is written, [`image`] what can be done
//! with a file that is not served. The turn decides which file a part reads and what it must copy
//! (`turn/copying.rs`).

mod file;
pub mod format;
pub mod image;
pub mod map;
mod opening;
pub(crate) mod saving;

pub(crate) use file::write_all;
pub(crate) use opening::{OpenOverlay, open};
