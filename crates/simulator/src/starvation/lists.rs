//! The promises of list policies: which later requests may precede an earlier one, and how often.

use hoistway_block::{Direction, Flags, Operation};
use hoistway_elevator::{Attributes, Passing, Version};

use super::{Queued, Terms, Waiting, pass};
use crate::invariants::Broken;

/// What a request of linus pays from its budget, in points, when another is inserted before it;
/// since 2.4.20.
const SEEK_COST: u64 = 16;

/// The promise of a list.
#[derive(Copy, Clone, Debug)]
pub(super) enum Lists {
    /// No request is passed over.
    InOrder,
    /// No request is passed over, except by those placed beside a neighbour that has no room for
    /// them.
    BesideNeighbours,
    /// Lists of software queues take turns or are flushed together.
    InTurn,
    /// Each later request that passes costs this many points of the budget.
    Budget { seek_cost: u64 },
    /// As [`Lists::Budget`], but reads, and requests placed beside their neighbour, cost nothing.
    BudgetOfWrites,
    /// A request is not passed by one of its direction that arrived when it was already overdue.
    Wall,
}

impl Lists {
    /// The promise of the policy with these terms, if it is a list policy.
    pub(super) fn of(terms: &Terms) -> Option<Self> {
        Some(match terms.passing {
            Passing::Never if terms.is_since(Version(2, 6, 0)) => Lists::InOrder,
            Passing::Never => Lists::BesideNeighbours,
            Passing::ListsInTurn => Lists::InTurn,
            Passing::Budget { reads_pass: true } => Lists::BudgetOfWrites,
            Passing::Budget { .. } if terms.is_since(Version(2, 4, 20)) => Lists::Budget { seek_cost: SEEK_COST },
            // In this version insertions cost nothing, but each scan costs one point for every
            // request that it passes, and an insertion before a request requires a scan that passes
            // it.
            Passing::Budget { .. } => Lists::Budget { seek_cost: 1 },
            Passing::NotOverdue => Lists::Wall,
            _ => return None,
        })
    }

    /// The cost for which an arriving request may be passed over.
    pub(super) fn allowed(self, attributes: &Attributes, waiting: &Queued, terms: &Terms) -> u64 {
        let seek_cost = match self {
            Lists::Budget { seek_cost } => seek_cost,
            Lists::BudgetOfWrites => SEEK_COST,
            Lists::InTurn => return turns_up_to(attributes, waiting, terms),
            _ => return 0,
        };
        let is_special = attributes.operation == Operation::Passthrough || attributes.flags.contains(Flags::BARRIER);
        let tunable = if attributes.direction() == Direction::Read { "read_latency" } else { "write_latency" };
        match terms.count(tunable) {
            points if points == 0 || is_special => 0,
            // With a single point left, one more request may still pass.
            points => points + seek_cost - 1,
        }
    }

    /// Records the insertion of a request, which may increase the number of choices for which
    /// others wait.
    pub(super) fn entered(self, entered: &Waiting, waiting: &mut Queued) {
        if !matches!(self, Lists::InTurn) {
            return;
        }
        // A request that arrives later may be flushed together with a waiting one and be placed in
        // front of it, if its software queue has a lower number.
        let later = waiting.values_mut().filter(|other| other.id != entered.id);
        for other in later.filter(|other| other.attributes.hardware_queue == entered.attributes.hardware_queue) {
            other.allowed += u64::from(other.attributes.software_queue > entered.attributes.software_queue);
        }
    }

    /// A request was chosen: it passed over those that it preceded.
    pub(super) fn chosen(self, chosen: &Waiting, waiting: &mut Queued, terms: &Terms) -> Result<u64, Broken> {
        let is_read = chosen.attributes.direction() == Direction::Read;
        let came_before = |other: &Waiting| other.order < chosen.order;
        match self {
            Lists::BesideNeighbours if chosen.touched => {
                Ok(waiting.values().filter(|other| came_before(other)).count() as u64)
            }
            Lists::InOrder | Lists::BesideNeighbours => pass(waiting, chosen, 1, came_before),
            Lists::InTurn => {
                pass(waiting, chosen, 1, |other| other.attributes.hardware_queue == chosen.attributes.hardware_queue)
            }
            // A request that was placed beside a neighbour, because that was too full for a merge,
            // costs as much as the merge would have.
            Lists::Budget { seek_cost } => {
                pass(waiting, chosen, if chosen.touched { 1 } else { seek_cost }, came_before)
            }
            Lists::BudgetOfWrites if chosen.touched || is_read => Ok(0),
            Lists::BudgetOfWrites => pass(waiting, chosen, SEEK_COST, came_before),
            // With `merge_past_expired` a request may merge beyond an overdue request of its
            // direction; if the request that it would merge into is too full, it is placed beside
            // that one.
            Lists::Wall if chosen.touched && terms.count("merge_past_expired") > 0 => Ok(0),
            Lists::Wall => pass(waiting, chosen, 1, |other| {
                other.attributes.direction() == chosen.attributes.direction()
                    && other.attributes.device == chosen.attributes.device
                    && other.due_ns < chosen.inserted_ns
            }),
        }
    }
}

/// The number of choices that may precede a request of `none`: the requests already present, and a
/// turn of every list for each request before it in its own list, and for itself.
fn turns_up_to(attributes: &Attributes, waiting: &Queued, terms: &Terms) -> u64 {
    let of_queue = |other: &&Waiting| other.attributes.hardware_queue == attributes.hardware_queue;
    let (all, own) = waiting.values().filter(of_queue).fold((0, 0), |(all, own), other| {
        (all + 1, own + u64::from(other.attributes.software_queue == attributes.software_queue))
    });
    all + (own + 1) * terms.software_queues
}
