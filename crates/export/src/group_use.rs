//! What keeps a group of a device: an export, or a client.

use std::sync::Arc;

use hoistway_engine::GroupHandle;

/// One use of a group, which exists at least as long as this. May be dropped on any thread.
#[derive(Debug)]
pub struct GroupUse {
    handle: GroupHandle,
    _user: Arc<()>,
}

impl GroupUse {
    /// The group.
    pub fn handle(&self) -> GroupHandle {
        self.handle
    }
}

/// A group and the number of its uses.
#[derive(Debug)]
pub struct UsedGroup {
    handle: GroupHandle,
    users: Arc<()>,
}

impl UsedGroup {
    /// A group that nothing uses yet.
    pub fn new(handle: GroupHandle) -> Self {
        Self { handle, users: Arc::new(()) }
    }

    /// The group.
    pub fn handle(&self) -> GroupHandle {
        self.handle
    }

    /// Begins a use.
    pub fn begin(&self) -> GroupUse {
        GroupUse { handle: self.handle, _user: Arc::clone(&self.users) }
    }

    /// How many uses there are now.
    pub fn uses(&self) -> usize {
        Arc::strong_count(&self.users) - 1
    }
}
