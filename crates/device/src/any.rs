//! One type for every device, so that a host's event loop is compiled without dynamic dispatch.

use hoistway_block::Nanos;

use crate::array::Array;
use crate::delay::Delay;
use crate::disk::{Arms, Disk};
use crate::fault::Faulty;
use crate::flash::Flash;
use crate::interface::{Command, Completion, Counters, Device, DeviceInfo, Submit};
use crate::limit::Limit;
use crate::null::Null;

/// Any of the devices.
#[derive(Clone, Debug)]
pub enum AnyDevice {
    /// Fixed latency.
    Null(Box<Null>),
    /// Zones, rotation, caches, NCQ.
    Disk(Box<Disk>),
    /// A disk with several actuators.
    Arms(Box<Arms>),
    /// Disks behind a controller with a cache.
    Array(Box<Array>),
    /// Dies, channels, garbage collection.
    Flash(Box<Flash>),
    /// Another device behind a delay.
    Delay(Box<Delay<AnyDevice>>),
    /// Another device behind caps on its rates.
    Limit(Box<Limit<AnyDevice>>),
    /// Another device, with faults.
    Faulty(Box<Faulty<AnyDevice>>),
}

macro_rules! each {
    ($any:expr, $device:ident => $call:expr) => {
        match $any {
            AnyDevice::Null($device) => $call,
            AnyDevice::Disk($device) => $call,
            AnyDevice::Arms($device) => $call,
            AnyDevice::Array($device) => $call,
            AnyDevice::Flash($device) => $call,
            AnyDevice::Delay($device) => $call,
            AnyDevice::Limit($device) => $call,
            AnyDevice::Faulty($device) => $call,
        }
    };
}

impl Device for AnyDevice {
    fn info(&self) -> &DeviceInfo {
        each!(self, device => device.info())
    }

    #[inline]
    fn submit(&mut self, now: Nanos, command: &Command) -> Submit {
        each!(self, device => device.submit(now, command))
    }

    #[inline]
    fn next_event(&self) -> Nanos {
        each!(self, device => device.next_event())
    }

    #[inline]
    fn advance(&mut self, now: Nanos, out: &mut Vec<Completion>) {
        each!(self, device => device.advance(now, out))
    }

    #[inline]
    fn advance_to_completion(&mut self, now: Nanos, before: Nanos, out: &mut Vec<Completion>) -> Nanos {
        each!(self, device => device.advance_to_completion(now, before, out))
    }

    fn is_idle(&self) -> bool {
        each!(self, device => device.is_idle())
    }

    fn counters(&self) -> Counters {
        each!(self, device => device.counters())
    }

    fn reset(&mut self, now: Nanos) {
        each!(self, device => device.reset(now));
    }
}
