//! Index-based building blocks: arrays, lists, trees, heaps and bitmaps whose links are `u32`
//! slots.
//!
//! Every structure is sized once by a fallible constructor; afterwards nothing allocates, recurses
//! or panics. A slot may be on several structures at the same time, with one array of links per
//! role, that is, for each purpose for which a slot is linked (for example order by sector, and
//! order of arrival). Misuse (a slot that is already linked, a slot that is not, an index out of
//! range) changes nothing and returns `false` or `None`. Keys are plain `u64` values; the caller
//! gives them a meaning.
//!
//! Inlining is forced or forbidden only where the kernel's stack or instructions need it (lib.rs).

pub mod array;
pub mod bitmap;
pub mod heap;
pub mod list;
pub mod ordered;
pub mod sorted;

pub use array::{Array, NoMemory};
pub use bitmap::Bitmap;
pub use heap::Heap;
pub use list::{Links, List, Stack};
pub use ordered::{OrderedLinks, OrderedSet, Removed};
pub use sorted::{SortedLinks, Tree};

/// "None" in links; no array is long enough for it to be an index.
pub use hoistway_block::NIL;
