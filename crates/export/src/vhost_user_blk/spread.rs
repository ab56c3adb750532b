//! The rings of one front end, spread over the threads of its shard: each thread has a device with a part of
//! the rings, so that one virtual machine can use several processors.

use std::sync::Arc;
use std::sync::mpsc::Sender;

use hoistway_engine::{ConnectionBounds, EngineError, LocalClientId, LocalConnection, ShardHandle};

use super::configuration_space::DeviceFacts;
use super::device::{Command, Commands, Device, Report};

/// Requests in flight of one front end; more wait in its rings.
const MAX_REQUESTS: u32 = 1_024;

/// The devices of one front end. The first is there from the start; the others when their first ring starts.
pub struct Spread {
    label: String,
    facts: DeviceFacts,
    shard: ShardHandle,
    connection: LocalConnection,
    report: Report,
    /// Given to each device, and gone when the last of them is and this value.
    on_closed: Sender<()>,
    devices: Vec<Option<(LocalClientId, Arc<Commands>)>>,
}

impl Spread {
    /// The first device of a front end, without rings. `connection` has the volume, the group and the priority.
    ///
    /// # Errors
    /// The system or the shard has no room for another client.
    pub fn new(
        label: String,
        facts: DeviceFacts,
        shard: ShardHandle,
        connection: LocalConnection,
        report: Report,
        on_closed: Sender<()>,
    ) -> Result<Self, EngineError> {
        let count = shard.parallel_queues();
        let requests = MAX_REQUESTS / u32::try_from(count).unwrap_or(MAX_REQUESTS).clamp(1, MAX_REQUESTS);
        let bounds = ConnectionBounds { requests, ..connection.bounds };
        let connection = LocalConnection { bounds, ..connection };
        let devices = (0..count).map(|_| None).collect();
        let mut spread = Self { label, facts, shard, connection, report, on_closed, devices };
        spread.begin(0)?;
        Ok(spread)
    }

    /// The number of the device that has a ring.
    fn of_ring(&self, ring: u16) -> usize {
        usize::from(ring) % self.devices.len()
    }

    /// Makes the device of a ring, unless it is there. True if it is new and knows nothing of the front end yet.
    ///
    /// # Errors
    /// As [`Spread::new`].
    pub fn prepare(&mut self, ring: u16) -> Result<bool, EngineError> {
        let device = self.of_ring(ring);
        let is_new = self.devices[device].is_none();
        if is_new {
            self.begin(device)?;
        }
        Ok(is_new)
    }

    fn begin(&mut self, device: usize) -> Result<(), EngineError> {
        let commands = Arc::new(Commands::default());
        let (label, report) = (self.label.clone(), Arc::clone(&self.report));
        let made = Device::new(label, self.facts.identity, Arc::clone(&commands), report, self.on_closed.clone());
        let made = made.map_err(|error| {
            EngineError::system(format!("no signals for the guest: {error}"), "raise the sysctl fs.aio-max-nr")
        })?;
        let others: Vec<LocalClientId> = self.devices.iter().flatten().map(|(client, _)| *client).collect();
        let client = self.shard.add_local_client_beside(&others, Box::new(made), vec![self.connection])?;
        self.devices[device] = Some((client, commands));
        Ok(())
    }

    /// Tells the device of a ring.
    pub fn tell(&self, ring: u16, command: Command) {
        if let Some((client, commands)) = &self.devices[self.of_ring(ring)] {
            commands.push(command);
            self.shard.wake(*client);
        }
    }

    /// Tells every device.
    pub fn tell_all(&self, command: impl Fn() -> Command) {
        for (client, commands) in self.devices.iter().flatten() {
            commands.push(command());
            self.shard.wake(*client);
        }
    }
}
