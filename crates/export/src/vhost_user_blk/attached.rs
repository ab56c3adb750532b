//! A guest's memory as windows of the engine's arena, so that the device reads and writes it directly.

use std::sync::Arc;

use hoistway_engine::ClientContext;
use hoistway_linux::buffer::Span;
use hoistway_linux::window::Attached;
use vm_memory::Address;

use super::guest_memory::{GuestMemory, Region, Segment};

/// A guest's memory, attached. Chains in flight keep the value that they began with, as they keep the
/// memory itself.
#[derive(Debug)]
pub struct AttachedMemory {
    /// The regions and their windows.
    regions: Vec<(Region, Attached)>,
}

impl AttachedMemory {
    /// Attaches every region; `None` if one cannot be attached, so that data has to be copied.
    pub fn new(memory: &Arc<GuestMemory>, context: &ClientContext<'_>) -> Option<Self> {
        let attach = |(region, window)| Some((region, context.attach(window)?));
        Some(Self { regions: memory.windows()?.into_iter().map(attach).collect::<Option<_>>()? })
    }

    /// Replaces `spans` by the segments; false if one is not inside one region.
    pub fn find(&self, segments: &[Segment], spans: &mut Vec<Span>) -> bool {
        spans.clear();
        segments.iter().all(|segment| {
            let span = self.regions.iter().find_map(|(region, attached)| {
                let offset_bytes = segment.address.raw_value().checked_sub(region.guest_address)?;
                attached.span(offset_bytes, segment.bytes)
            });
            spans.extend(span);
            span.is_some()
        })
    }
}
