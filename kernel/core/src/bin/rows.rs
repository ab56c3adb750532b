//! `rows`: prints the tunables of the module's elevators, one per line: elevator, tunable, smallest
//! and largest value, and the treatment of other values: `clamps`, `refuses`, `decimal` (clamps,
//! and accepts unsigned decimal numbers only), `words` (accepts only certain words).

use hoistway_elevator::Elevator;
use hoistway_elevator::tunable::{OutOfRange, Unit};
use kernel::{Config, DevicePolicy, elevator_types};

fn main() {
    for (policy, elevator_type) in (0..).zip(elevator_types()) {
        let config = Config { policy, slots: 1, groups: 1, contexts: 1, requests: 1, device: 1, ..Config::default() };
        let Ok(device_policy) = DevicePolicy::try_new(&config) else { continue };
        for row in device_policy.policy().tunables() {
            let how = match (row.unit, row.out_of_range) {
                (Unit::Choice(_), _) => "words",
                (_, OutOfRange::Refuse) => "refuses",
                (Unit::Nanoseconds, _) => "decimal",
                _ => "clamps",
            };
            println!("{} {} {} {} {how}", elevator_type.entry.name, row.name, row.min, row.max);
        }
    }
}
