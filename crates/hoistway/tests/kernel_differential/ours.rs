//! Our side of the comparison: a request queue of this repository, with the limits of the loop
//! device.

use crate::Issued;
use crate::kernel::Kernel;
use hoistway_block::{HardwareQueue, RequestId, SoftwareQueue, Status};
use hoistway_elevator::{Bio, Configuration, Depth};
use hoistway_testbed::queue::{Era, Limits, Next, Plug, RequestQueue, Settings};

pub struct Ours {
    queue: RequestQueue,
    plug: Plug,
    software_queues: u16,
    now: u64,
    cookie: u64,
}

impl Ours {
    pub fn new(elevator: &str, tunables: &[(&str, i64)], kernel: &Kernel) -> Self {
        let software_queues = kernel.software_queues();
        let configuration =
            Configuration { depth: Depth { requests: 256, device: 128 }, software_queues, ..Configuration::default() };
        let limits = Limits {
            max_sectors: kernel.max_sectors,
            max_segments: kernel.max_segments,
            max_discard_segments: kernel.max_discard_segments,
            ..Limits::default()
        };
        let settings = Settings { configuration, limits, era: Era::BLK_MQ, ..Settings::default() };
        let mut queue = RequestQueue::build(elevator, None, &settings).expect("registered");
        for (name, value) in tunables {
            queue.set(name, &value.to_string()).expect("a tunable of the kernel is one of ours");
        }
        Self { queue, plug: Plug::default(), software_queues, now: 1_000_000_000, cookie: 0 }
    }

    pub fn issue(&mut self, batch: &[Bio]) -> Vec<Issued> {
        // One second per batch, which is far more than a batch takes, so that batches do not
        // overlap.
        self.now += 1_000_000_000;
        for bio in batch {
            self.cookie += 1;
            let software_queue = SoftwareQueue(bio.software_queue.0 % self.software_queues);
            let bio = Bio { software_queue, ..*bio };
            self.queue.submit_plugged(&bio, self.cookie, &mut self.plug, self.now).expect("room for all bios");
        }
        self.queue.unplug(&mut self.plug, self.now);
        let (mut issued, mut in_device) = (Vec::new(), Vec::<RequestId>::new());
        loop {
            match self.queue.dispatch(HardwareQueue(0), self.now) {
                Next::Start { id, .. } => {
                    let request = self.queue.requests().attributes(id);
                    let extent = request.extent;
                    issued.push((request.operation, extent.first_sector, extent.sectors, request.class()));
                    in_device.push(id);
                }
                _ if in_device.is_empty() => break,
                _ => self.queue.complete(in_device.remove(0), Status::Ok, self.now, |_| {}),
            }
        }
        assert_eq!(self.queue.check(), Ok(()));
        assert_eq!(self.queue.bios_in_flight(), 0, "everything is issued");
        issued
    }
}
