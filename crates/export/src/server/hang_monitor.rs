//! Reports in the log which devices and backings do not answer: once when that begins and once when
//! it ends.

use std::collections::BTreeSet;

use tracing::{info, warn};

use super::devices::Devices;

/// What does not answer.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
enum Silent {
    Device(String),
    Export(String),
}

/// What was reported.
#[derive(Debug, Default)]
pub struct HangMonitor {
    reported: BTreeSet<Silent>,
}

impl HangMonitor {
    /// Looks at all devices, and reports what has changed.
    pub fn check(&mut self, devices: &Devices) {
        let mut now = BTreeSet::new();
        for (export, seconds) in devices.unanswered() {
            let silent = Silent::Export(export.clone());
            if !self.reported.contains(&silent) {
                warn!(
                    name: "backing_hangs",
                    target: "backing",
                    export,
                    seconds,
                    "export {export}: its backing has not answered for {seconds} s"
                );
            }
            now.insert(silent);
        }
        for silence in devices.silent() {
            let (device, seconds) = (silence.device, silence.since_s);
            let silent = Silent::Device(device.clone());
            if !self.reported.contains(&silent) {
                warn!(
                    name: "device_hangs",
                    target: "device",
                    device,
                    seconds,
                    "device '{device}' has not answered for {seconds:.0} s"
                );
            }
            now.insert(silent);
        }
        for again in self.reported.difference(&now) {
            match again {
                Silent::Device(device) => {
                    info!(name: "device_answers", target: "device", device, "device '{device}' answers again");
                }
                Silent::Export(export) => {
                    info!(name: "backing_answers", target: "backing", export, "export {export}: its backing answers again");
                }
            }
        }
        self.reported = now;
    }
}
