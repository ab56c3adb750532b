//! The array's controller and its link: when a command has arrived, and when its answer has.

use super::ArrayParameters;
use crate::rate::Rate;
use hoistway_block::Nanos;

/// The controller takes commands one at a time; half of its latency lies before the disks and half behind them.
#[derive(Clone, Debug)]
pub(super) struct Controller {
    serial_ns: Nanos,
    in_ns: Nanos,
    out_ns: Nanos,
    link: Rate,
    /// When it can take its next command.
    serial_free_at: Nanos,
    link_free_at: Nanos,
}

impl Controller {
    pub(super) fn new(parameters: &ArrayParameters) -> Self {
        Self {
            serial_ns: parameters.ctl_serial_ns,
            in_ns: parameters.ctl_latency_ns / 2,
            out_ns: parameters.ctl_latency_ns - parameters.ctl_latency_ns / 2,
            link: Rate::of_kb_per_s(parameters.link_kb_per_s),
            serial_free_at: 0,
            link_free_at: 0,
        }
    }

    /// Takes a command; returns when it has arrived.
    pub(super) fn take(&mut self, now: Nanos) -> Nanos {
        self.serial_free_at = now.max(self.serial_free_at) + self.serial_ns;
        self.serial_free_at + self.in_ns
    }

    /// Answers a command, with the time that `sectors` of data need on the link; returns when the host has the answer.
    pub(super) fn answer(&mut self, now: Nanos, sectors: u32) -> Nanos {
        self.link_free_at = now.max(self.link_free_at) + self.link.transfer_ns(sectors);
        self.link_free_at + self.out_ns
    }

    /// When the host has the answer to a command that is refused at its arrival.
    pub(super) fn refusal_at(&self, arrived_at: Nanos) -> Nanos {
        arrived_at + self.out_ns
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commands_and_data_pass_one_at_a_time() {
        let parameters = ArrayParameters {
            ctl_serial_ns: 10,
            ctl_latency_ns: 101,
            // 512 bytes in a microsecond.
            link_kb_per_s: 512_000,
            ..ArrayParameters::default()
        };
        let mut controller = Controller::new(&parameters);
        assert_eq!([controller.take(0), controller.take(0), controller.take(100)], [60, 70, 160]);
        assert_eq!(
            [controller.answer(0, 1), controller.answer(0, 1), controller.answer(5_000, 0)],
            [1_051, 2_051, 5_051]
        );
        assert_eq!(controller.refusal_at(60), 111);
    }
}
