//! Simulated devices: they take commands and return the times of completion.
//!
//! A device has no clock: time is an argument, so that the same model serves the simulator's
//! virtual time and, in front of real I/O, the engine's real time. Units: times are in nanoseconds,
//! extents in sectors of 512 bytes. Start with [`Device`]; [`Model`] turns a text such as
//! `ssd,seed=7,channels=8` into an [`AnyDevice`].
//!
//! ```
//! use hoistway_block::{Extent, Flags, HardwareQueue, Operation};
//! use hoistway_device::{Command, Device, Model, NEVER};
//!
//! let mut device = Model::parse("null,latency_us=10").unwrap().build(1, "dev0");
//! let extent = Extent::new(0, 8);
//! let operation = Operation::Read;
//! device.submit(0, &Command { tag: 7, operation, flags: Flags::NONE, extent, hardware_queue: HardwareQueue(0) });
//! assert_eq!(device.next_event(), 10_000);
//! let mut completions = Vec::new();
//! device.advance(10_000, &mut completions);
//! assert_eq!((completions[0].tag, completions[0].at_ns), (7, 10_000));
//! assert_eq!(device.next_event(), NEVER);
//! ```
#![forbid(unsafe_code)]

mod activity;
mod any;
mod array;
mod calendar;
mod delay;
mod disk;
mod fault;
mod flash;
mod interface;
mod limit;
mod models;
mod null;
mod parameter;
mod pending;
mod rate;
mod tags;

pub use activity::{Activity, DieActivity, DiskActivity};
pub use any::AnyDevice;
pub use array::{Array, ArrayParameters, Layout as ArrayLayout};
pub use calendar::Calendar;
pub use delay::{Delay, DelayParameters};
pub use disk::{Arms, Disk, DiskFirmware, DiskLayout, DiskOrder, DiskParameters, DiskReading, DiskSeeks, DiskWriting};
pub use fault::{FaultParameters, Faulty};
pub use flash::{
    Flash, FlashBuffer, FlashController, FlashCounters, FlashDies, FlashHistory, FlashLayout, FlashParameters, FlashSlc,
};
pub use interface::{Command, Completion, Counters, Device, DeviceInfo, NEVER, Submit};
pub use limit::{Limit, LimitParameters};
pub use models::{Anchor, Figure, MODELS, Model, ModelError, ModelRow, Preset, Repetition, Setting};
pub use null::{Null, NullParameters};
pub use parameter::{Parameter, Unit};
