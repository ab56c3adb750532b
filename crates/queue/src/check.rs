//! The queue's own invariants: no request or bio is lost or duplicated.

use crate::RequestQueue;
use crate::bios::Members;
use crate::flush::Stage;
use crate::slot::Marks;
use hoistway_block::{Operation, RequestId};
use hoistway_elevator::{Elevator, Limiter, Place, Violation};

fn broken(what: &'static str, at: u32) -> Result<(), Violation> {
    Err(Violation { what, at })
}

pub(crate) fn check<E: Elevator>(queue: &RequestQueue<E>) -> Result<(), Violation> {
    if queue.violations() != 0 {
        return broken("no violation was counted", queue.violations());
    }
    let mut totals = Totals::default();
    for slot in 0..queue.requests.capacity() {
        if let Some(id) = queue.requests.id_of(slot) {
            check_request(queue, id, &mut totals)?;
        } else if queue.links.is_linked(slot) {
            return broken("a free slot is on no list and in no merge hash", slot);
        }
    }
    if totals.hashed != queue.merges.findable() {
        return broken("requests that can be found by their end are counted", totals.hashed);
    }
    check_totals(queue, &totals)?;
    queue.pool.check(totals.sectors, queue.is_switching())?;
    for limiter in queue.limiters.iter() {
        limiter.check()?;
    }
    queue.elevator.check(&queue.requests)
}

#[derive(Default)]
struct Totals {
    tagged: u32,
    limited: u32,
    started: u32,
    hashed: u32,
    bios: u32,
    /// Bios that have no record.
    alone: u32,
    sectors: u64,
}

fn check_request<E: Elevator>(queue: &RequestQueue<E>, id: RequestId, totals: &mut Totals) -> Result<(), Violation> {
    let request = queue.requests.at(id);
    let slot = queue.slots.at(id.slot());
    totals.started += u32::from(request.place == Place::Started && !slot.marks.has(Marks::DETACHED));
    if slot.stage == Stage::Command {
        return Ok(());
    }
    totals.tagged += 1;
    totals.limited += u32::from(slot.marks.has(Marks::LIMITED));
    totals.hashed += u32::from(slot.marks.has(Marks::HASHED));
    let end = request.attributes.extent.end();
    if slot.marks.has(Marks::HASHED) && (request.place != Place::Queued || !queue.merges.holds(&queue.links, id, end)) {
        return broken("the merge hash holds queued requests at their present end", id.slot());
    }
    if matches!(request.place, Place::Queued) && !slot.marks.has(Marks::INSERTED) {
        return broken("a queued request was inserted", id.slot());
    }
    check_bios(queue, id, totals)
}

/// The bios of a request are contiguous and cover its extent (except multi-range discards).
fn check_bios<E: Elevator>(queue: &RequestQueue<E>, id: RequestId, totals: &mut Totals) -> Result<(), Violation> {
    let request = queue.requests.attributes(id);
    totals.alone += u32::from(matches!(queue.slots.at(id.slot()).members(), Members::Alone(_)));
    let is_contiguous = request.operation != Operation::Discard || queue.settings.limits.max_discard_segments <= 1;
    let mut at_sector = request.extent.first_sector;
    let mut sectors: u64 = 0;
    for (_, bio) in queue.bios_of(id) {
        totals.bios += 1;
        if bio.operation != request.operation || bio.group != request.group || bio.device != request.device {
            return broken("bios of one request share operation, group and device", id.slot());
        }
        if is_contiguous && bio.extent.first_sector != at_sector {
            return broken("bios of one request are contiguous", id.slot());
        }
        at_sector = bio.extent.end();
        sectors += u64::from(bio.extent.sectors);
    }
    totals.sectors += sectors;
    if sectors != u64::from(request.extent.sectors) {
        return broken("the bios of a request cover its extent", id.slot());
    }
    Ok(())
}

fn check_totals<E: Elevator>(queue: &RequestQueue<E>, totals: &Totals) -> Result<(), Violation> {
    let waiting = queue.pool.waiting(&queue.bios);
    let recorded = totals.bios + waiting + queue.held_by_limiters() - totals.alone;
    let counted = [
        ("every request but flush commands holds a tag", totals.tagged, queue.pool.tags().in_use()),
        ("limited requests are counted", totals.limited, queue.pool.tags().limited()),
        ("started requests are counted as in the device", totals.started, queue.device.started()),
        (
            "every bio waits or is in a request",
            totals.bios + waiting + queue.held_by_limiters(),
            queue.bios.in_flight(),
        ),
        ("every bio that is not alone in a request has a record, and no other", recorded, queue.bios.recorded()),
    ];
    for (what, found, expected) in counted {
        if found != expected {
            return broken(what, found);
        }
    }
    match queue.device.broken() {
        Some((what, found)) => broken(what, found),
        None => Ok(()),
    }
}
